package main

import (
	"fmt"
	"runtime"
)

// runMemory measures the bytes for each key on one fresh engine. First everything known and idle, over what the process
// had before (the objects and the lists are made before). Then 1, 2 and 8 pending updates of every key, over idle; the
// updates are the objects of one list over and over. These are bytes of the heap that are in use after a collection.
// When the updates are handled, the peak of what is resident during a relist, over its start: that holds what a
// collector has not collected yet, as it must.
//
// What is pending in an informer cannot be held there from outside, so it has no rows of that.
func runMemory(opts *options, data source, out *output) error {
	n := opts.objects
	engine, err := newListEngine(opts, data)
	if err != nil {
		return err
	}
	defer engine.shutDown()
	var lists [2]any
	for i := range lists {
		lists[i] = engine.build(samePlan(n), "1", func(done, total int) { out.progress("building lists", done, total) })
	}
	report := func(variant string, bytes int64, extra map[string]any) error {
		value := float64(bytes) / float64(n)
		return out.row(row{Workload: "memory", Variant: variant, Unit: "B", Value: value, Extra: extra})
	}

	before := heapInUse()
	if _, _, err := engine.replace(lists[0], n); err != nil {
		return err
	}
	idle := heapInUse()
	if err := report("idle", idle-before, map[string]any{}); err != nil {
		return err
	}

	if queue, ok := engine.(queueLists); ok {
		offered := 0
		for _, pending := range []int{1, 2, 8} {
			for ; offered < pending; offered++ {
				for _, object := range lists[1].(versionedObjects).objects {
					if err := queue.engine.queue.Update(object); err != nil {
						return err
					}
				}
			}
			if err := report(fmt.Sprintf("pending-%d", pending), heapInUse()-idle, map[string]any{}); err != nil {
				return err
			}
		}
		queue.handler.expect(offered * n)
		for queue.handler.left > 0 {
			if err := queue.engine.pop(); err != nil {
				return err
			}
		}
		if queue.handler.updates != offered*n {
			return fmt.Errorf("memory: %d of %d updates", queue.handler.updates, offered*n)
		}
	}

	_, memory, err := engine.replace(lists[0], n)
	if err != nil {
		return err
	}
	extra := map[string]any{}
	memory.addTo(extra)
	peak := statusBytes("VmHWM") - memory.start
	runtime.KeepAlive(lists)
	return report("relist-peak", peak, extra)
}

// heapInUse is what lives. Finalizers are run after one collection, and what they let go of is collected by the next.
func heapInUse() int64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

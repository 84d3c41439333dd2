package main

import (
	"fmt"
	"maps"
	"runtime"
)

// runMemory measures the bytes for each key on one fresh engine. First everything known and idle,
// minus the memory before (the objects and the lists are created before). Then 1, 2 and 8 pending
// updates of every key, minus idle; the updates are the objects of one list again and again. These
// are bytes of the heap in use after a collection. After the updates are handled, the peak of the
// resident memory during a relist, minus its start. The peak includes garbage that is not collected
// yet.
//
// Every row has the counts of the handler in its own step, and the content of the store at the end.
// Reading the store earlier would use memory.
//
// An informer's pending updates cannot be held back from outside, so it has no rows for them.
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
	var rows []row
	add := func(variant string, bytes int64) map[string]any {
		extra := map[string]any{}
		rows = append(rows, row{Workload: "memory", Variant: variant, Unit: "B", Value: float64(bytes) / float64(n), Extra: extra})
		return extra
	}

	before := heapInUse()
	if _, _, err := engine.replace(lists[0], n); err != nil {
		return err
	}
	idle := heapInUse()
	engine.counts().addTo(add("idle", idle-before))

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
			add(fmt.Sprintf("pending-%d", pending), heapInUse()-idle)
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
		for _, pending := range rows[1:] {
			queue.handler.addTo(pending.Extra)
		}
	}

	_, memory, err := engine.replace(lists[0], n)
	if err != nil {
		return err
	}
	extra := add("relist-peak", statusBytes("VmHWM")-memory.start)
	memory.addTo(extra)
	engine.counts().addTo(extra)
	runtime.KeepAlive(lists)

	store := map[string]any{}
	if err := stored(engine.indexer(), store); err != nil {
		return err
	}
	for _, r := range rows {
		maps.Copy(r.Extra, store)
		if err := out.row(r); err != nil {
			return err
		}
	}
	return nil
}

// heapInUse returns the bytes of live objects. The first collection runs finalizers, and the second
// one frees the objects that they release.
func heapInUse() int64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

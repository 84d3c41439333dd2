package main

import (
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// runWorkQueue measures the rate of keys through the work queue. Each key is added once, taken, and
// done. The shapes differ in which goroutines do this:
//
//   - turns: each goroutine adds a key, takes one, and ends it, in turn;
//   - backlog: each goroutine adds all its keys, and then takes and ends as many;
//   - workers: some goroutines add, and as many take, which wait while the queue is empty.
//
// The queue has no name, and so no metrics.
func runWorkQueue(opts *options, data source, out *output) error {
	keys := make([]string, opts.objects)
	var all taken
	for i := range keys {
		key, err := cache.MetaNamespaceKeyFunc(data.object(i, ""))
		if err != nil {
			return err
		}
		keys[i] = key
		all.note(key)
		out.progress("building keys", i+1, len(keys))
	}
	for _, shape := range []string{"turns", "backlog", "workers"} {
		for _, threads := range []int{1, 4, 8} {
			variant := fmt.Sprintf("%s-%d", shape, threads)
			if shape == "workers" {
				variant += fmt.Sprintf("x%d", threads)
			}
			shares := make([][]string, threads)
			for i, key := range keys {
				shares[i%threads] = append(shares[i%threads], key)
			}
			memory := markMemory(opts.objects, keysGrowth)
			elapsed, got := driveWork(workqueue.NewTyped[string](), shares, shape)
			extra := map[string]any{"taken": got.keys, "taken_digest": fmt.Sprintf("%016x", got.ends)}
			memory.addTo(extra)
			if got != all {
				return fmt.Errorf("workqueue %s: %v was taken, %v was added", variant, got, all)
			}
			rate := float64(len(keys)) / elapsed.Seconds()
			if err := out.row(row{Workload: "workqueue", Variant: variant, Unit: "1/s", Value: rate, Extra: extra}); err != nil {
				return err
			}
		}
	}
	return nil
}

// taken is a digest of the taken keys: their number, and the sum of their last bytes, which differ.
type taken struct {
	keys int
	ends uint64
}

func (t *taken) note(key string) {
	t.keys++
	if len(key) >= 8 {
		t.ends += binary.LittleEndian.Uint64([]byte(key[len(key)-8:]))
	}
}

// take takes a key and ends it. It returns false if the queue is shut down and empty.
func (t *taken) take(queue workqueue.TypedInterface[string]) bool {
	key, over := queue.Get()
	if over {
		return false
	}
	t.note(key)
	queue.Done(key)
	return true
}

// driveWork adds each goroutine's share of the keys, until all are taken and done.
func driveWork(queue workqueue.TypedInterface[string], shares [][]string, shape string) (time.Duration, taken) {
	var adding, taking sync.WaitGroup
	results := make(chan taken, 2*len(shares))
	begin := make(chan struct{})
	for _, keys := range shares {
		adding.Go(func() {
			<-begin
			var mine taken
			for _, key := range keys {
				queue.Add(key)
				if shape == "turns" {
					mine.take(queue)
				}
			}
			if shape == "backlog" {
				for range keys {
					mine.take(queue)
				}
			}
			results <- mine
		})
		if shape == "workers" {
			taking.Go(func() {
				<-begin
				var mine taken
				for mine.take(queue) {
				}
				results <- mine
			})
		}
	}
	start := time.Now()
	close(begin)
	adding.Wait()
	queue.ShutDown()
	taking.Wait()
	elapsed := time.Since(start)
	close(results)
	var all taken
	for one := range results {
		all.keys += one.keys
		all.ends += one.ends
	}
	return elapsed, all
}

package main

import (
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"time"

	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
)

// shape is the numbers of goroutines that offer and that take events.
type shape struct{ producers, consumers int }

var (
	eventKeys   = []string{"uniform", "zipf"}
	eventShapes = []shape{{1, 1}, {2, 2}, {4, 4}}
)

func eventVariant(keys string, s shape) string {
	return fmt.Sprintf("%s-%dx%d", keys, s.producers, s.consumers)
}

func eventVariants() []string {
	var variants []string
	for _, keys := range eventKeys {
		for _, s := range eventShapes {
			variants = append(variants, eventVariant(keys, s))
		}
	}
	return variants
}

// event is an update that was created in advance, and the index of the object that it updates.
type event struct {
	key    int
	object any
}

// runEvents measures the rate of updates through a filled engine. client-go takes no bursts, so
// there are no rows for them. An informer gets its events through its only watch: one producer, one
// consumer.
func runEvents(opts *options, data source, out *output) error {
	n := opts.objects
	filling := objects(data, samePlan(n), func(done, total int) { out.progress("building objects", done, total) })
	for _, keys := range eventKeys {
		var events []event // created for the first variant, shared by all shapes
		for _, s := range eventShapes {
			variant := eventVariant(keys, s)
			if !opts.wants(variant) || (opts.engine == engineInformer && variant != "uniform-1x1") {
				continue
			}
			if events == nil {
				events = buildEvents(opts, data, keys, out)
			}
			run := eventRun{opts: opts, data: data, filling: filling, events: events, shape: s}
			value, extra, err := run.measure()
			if err != nil {
				return err
			}
			r := row{Workload: "events", Variant: variant, Unit: "1/s", Value: value, Extra: extra}
			if err := out.row(r); err != nil {
				return err
			}
		}
		runtime.KeepAlive(events)
	}
	runtime.KeepAlive(filling)
	return nil
}

func buildEvents(opts *options, data source, keys string, out *output) []event {
	key := func(e int) int { return uniformKey(e, opts.objects) }
	if keys == "zipf" {
		key = newZipf(opts.objects).key
	}
	events := make([]event, opts.events)
	for e := range events {
		k := key(e)
		events[e] = event{key: k, object: data.object(k, strconv.Itoa(3_000_000+e))}
		out.progress("building "+keys+" events", e, len(events))
	}
	return events
}

// eventRun is the run of one variant.
type eventRun struct {
	opts    *options
	data    source
	filling []any
	events  []event
	shape   shape
}

func (r *eventRun) measure() (float64, map[string]any, error) {
	if r.opts.engine == engineInformer {
		return r.throughInformer()
	}
	return r.throughQueue()
}

func (r *eventRun) throughQueue() (float64, map[string]any, error) {
	handler := &countingHandler{}
	engine, err := newQueueEngine(r.opts.engine, handler)
	if err != nil {
		return 0, nil, err
	}
	handler.expect(len(r.filling))
	if err := engine.fill(handler, r.filling, "1"); err != nil {
		return 0, nil, err
	}
	consumers := r.shape.consumers
	if engine.singleConsumer {
		consumers = 1
	}
	engine.pops = 0
	handler.expect(len(r.events))
	shares := r.partition()
	barrier := make(chan struct{})
	failures := make(chan error, r.shape.producers+consumers)
	var workers sync.WaitGroup
	for range consumers {
		workers.Go(func() {
			<-barrier
			if err := engine.consume(); err != nil {
				failures <- err
			}
		})
	}
	for _, share := range shares {
		workers.Go(func() {
			<-barrier
			for _, object := range share {
				if err := engine.queue.Update(object); err != nil {
					failures <- err
					return
				}
			}
		})
	}
	growth := queueGrowth
	if engine.singleConsumer {
		growth = backlogGrowth
	}
	memory := markMemory(r.opts.objects, growth)
	start := time.Now()
	close(barrier)
	select {
	case <-handler.seenAll:
	case err := <-failures:
		return 0, nil, err
	}
	elapsed := handler.seenAllAt.Sub(start)
	extra := map[string]any{"consumers": consumers}
	memory.addTo(extra)
	engine.queue.Close()
	workers.Wait()
	extra["deltas_per_pop"] = float64(len(r.events)) / float64(engine.pops)
	return r.figure(elapsed, handler, engine.store, extra)
}

// partition gives every producer the events of its own keys, in order, so that the updates of an
// object are never reordered.
func (r *eventRun) partition() [][]any {
	shares := make([][]any, r.shape.producers)
	for _, e := range r.events {
		producer := e.key % len(shares)
		shares[producer] = append(shares[producer], e.object)
	}
	return shares
}

// throughInformer sends the events through the watch. The number of deltas of a pop is not visible
// from outside.
func (r *eventRun) throughInformer() (float64, map[string]any, error) {
	handler := &countingHandler{}
	informer, err := newInformer(r.data.example(), handler, handler)
	if err != nil {
		return 0, nil, err
	}
	defer informer.shutDown()
	// A new list, because an informer takes its items by value.
	list := r.data.list(samePlan(r.opts.objects), "1", func(int, int) {})
	if _, _, err := informer.relist(list, r.opts.objects); err != nil {
		return 0, nil, err
	}
	updates := make([]apiruntime.Object, len(r.events))
	for i, e := range r.events {
		updates[i] = e.object.(apiruntime.Object)
	}
	handler.expect(len(r.events))
	memory := markMemory(r.opts.objects, queueGrowth)
	start := time.Now()
	for _, object := range updates {
		informer.watcher.Modify(object)
	}
	<-handler.seenAll
	elapsed := handler.seenAllAt.Sub(start)
	extra := map[string]any{"consumers": 1}
	memory.addTo(extra)
	return r.figure(elapsed, handler, informer.informer.GetIndexer(), extra)
}

func (r *eventRun) figure(elapsed time.Duration, handler *countingHandler, store cache.Store, extra map[string]any) (float64, map[string]any, error) {
	extra["events"] = len(r.events)
	handler.addTo(extra)
	if err := stored(store, extra); err != nil {
		return 0, nil, err
	}
	return float64(len(r.events)) / elapsed.Seconds(), extra, nil
}

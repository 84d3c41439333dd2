package main

import (
	"fmt"
	"sync"
	"time"

	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
)

// mostSlowEvents is the limit for the number of events. With this many, the slowest handler is busy
// for a second.
const mostSlowEvents = 100_000

// runSlowHandler measures the effect of a slow handler on the producer: updates of uniform keys,
// offered singly and back to back by one producer, to one and to several consumers. The handler is
// busy, like one that computes. A handler that does nothing is the control. An informer has one
// consumer, and gets its updates from its watch.
func runSlowHandler(opts *options, data source, out *output) error {
	n := opts.objects
	filling := objects(data, samePlan(n), func(done, total int) { out.progress("building objects", done, total) })
	some := *opts
	some.events = min(opts.events, mostSlowEvents)
	events := buildEvents(&some, data, "uniform", out)
	for _, micros := range []int{0, 1, 10} {
		for _, consumers := range []int{1, 4} {
			if opts.engine == engineInformer && consumers > 1 {
				continue
			}
			name := "consumer"
			if consumers > 1 {
				name = "consumers"
			}
			variant := fmt.Sprintf("%dus-%d-%s-", micros, consumers, name)
			run := slowRun{opts: opts, data: data, filling: filling, events: events, consumers: consumers}
			run.handler = &slowHandler{work: time.Duration(micros) * time.Microsecond}
			var err error
			if opts.engine == engineInformer {
				err = run.throughInformer(out, variant)
			} else {
				err = run.throughQueue(out, variant)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// slowHandler counts, and is busy during every update.
type slowHandler struct {
	countingHandler
	work time.Duration
}

func (h *slowHandler) OnUpdate(old, object any) {
	if h.work > 0 {
		for start := time.Now(); time.Since(start) < h.work; {
		}
	}
	h.countingHandler.OnUpdate(old, object)
}

// slowRun is the run of one variant.
type slowRun struct {
	opts      *options
	data      source
	filling   []any
	events    []event
	consumers int
	handler   *slowHandler
}

func (r *slowRun) throughQueue(out *output, variant string) error {
	engine, err := newQueueEngine(r.opts.engine, r.handler)
	if err != nil {
		return err
	}
	r.handler.expect(len(r.filling))
	if err := engine.fill(&r.handler.countingHandler, r.filling, "1"); err != nil {
		return err
	}
	if engine.singleConsumer {
		r.consumers = 1
	}
	failures := make(chan error, r.consumers)
	var workers sync.WaitGroup
	consume := func() {
		for range r.consumers {
			workers.Go(func() {
				if err := engine.consume(); err != nil {
					failures <- err
				}
			})
		}
	}
	err = r.measure(out, variant, engine.store, consume, engine.queue.Update, failures)
	engine.queue.Close()
	workers.Wait()
	return err
}

func (r *slowRun) throughInformer(out *output, variant string) error {
	counting := &r.handler.countingHandler
	informer, err := newInformer(r.data.example(), counting, r.handler)
	if err != nil {
		return err
	}
	defer informer.shutDown()
	list := r.data.list(samePlan(r.opts.objects), "1", func(int, int) {})
	if _, _, err := informer.relist(list, r.opts.objects); err != nil {
		return err
	}
	offer := func(object any) error {
		informer.watcher.Modify(object.(apiruntime.Object))
		return nil
	}
	return r.measure(out, variant, informer.informer.GetIndexer(), func() {}, offer, nil)
}

// measure offers all events, waits until they are handled, and writes the rows.
func (r *slowRun) measure(
	out *output, variant string, store cache.Store, consume func(), offer func(any) error, failures <-chan error,
) error {
	r.handler.expect(len(r.events))
	adds := newLatencies()
	memory := markMemory(r.opts.objects, queueGrowth)
	start := time.Now()
	consume()
	for _, e := range r.events {
		began := time.Now()
		if err := offer(e.object); err != nil {
			return err
		}
		adds.note(time.Since(began))
	}
	select {
	case <-r.handler.seenAll:
	case err := <-failures:
		return err
	}
	elapsed := r.handler.seenAllAt.Sub(start)
	extra := map[string]any{"consumers": r.consumers, "events": len(r.events)}
	memory.addTo(extra)
	r.handler.addTo(extra)
	if r.handler.updates != len(r.events) {
		return fmt.Errorf("slow-handler %s: %d of %d updates", variant, r.handler.updates, len(r.events))
	}
	if err := stored(store, extra); err != nil {
		return err
	}
	if err := adds.report(out, "slow-handler", variant+"add-", []quantile{p50, p99, p999, worst}, extra); err != nil {
		return err
	}
	rate := float64(len(r.events)) / elapsed.Seconds()
	return out.row(row{Workload: "slow-handler", Variant: variant + "rate", Unit: "1/s", Value: rate, Extra: extra})
}

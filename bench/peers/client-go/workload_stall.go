package main

import (
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync/atomic"
	"time"
)

var stallQuantiles = []quantile{p50, p99, p999, worst}

func stallVariants() []string {
	var variants []string
	for _, phase := range []string{"", "control-"} {
		for _, what := range []string{"add-", "handled-"} {
			for _, quantile := range stallQuantiles {
				variants = append(variants, phase+what+quantile.name)
			}
		}
	}
	return variants
}

// runStall measures the latency of an update and of its handling during back-to-back relists of the
// same queue. The control measures the same in an idle second queue beside it, which shows the cost
// of sharing two cores. The queues get their updates in alternate slices of time, each from a
// producer of its own, so that a slow time of the machine affects both. One relist precedes the
// first slice, so that memory is touched before it.
//
// If Replace only queues a list and leaves the work to the consumer (RealFIFO, atomic), the next
// relist starts when the last one was applied: Replace returns within a microsecond there, and
// back-to-back calls would queue millions of lists. For the same reason a relist counts as running
// until it is applied.
//
// The numbers of offers and relists depend on the engine. So at the end each queue gets its first
// list once more, and is drained. Then all stores must be equal, and each handler must have been
// notified of every object of every list and of every offer.
func runStall(opts *options, data source, out *output) error {
	if opts.engine == engineInformer {
		return nil // its relists are paced by its own pauses, so they are never back to back
	}
	if !slices.ContainsFunc(stallVariants(), opts.wants) {
		return nil
	}
	progress := func(done, total int) { out.progress("building lists", done, total) }
	n := opts.objects
	lists := [2][]any{objects(data, samePlan(n), progress), objects(data, samePlan(n), progress)}
	relists := &relists{}
	first, err := startStallEngine(opts, lists[0], newOffers(opts, data, relists, 0, progress))
	if err != nil {
		return err
	}
	hot := objects(data, hotPlan(n), progress)
	twin, err := startStallEngine(opts, hot, newOffers(opts, data, relists, 1, progress))
	if err != nil {
		return err
	}
	queues := [2]*stallEngine{first, twin}
	memory := markMemory(n, queueGrowth)
	replaces, err := relistDuringOffers(lists, relists, queues)
	if err != nil {
		return err
	}
	over := waitForOffers(relists, first.handler.offers, twin.handler.offers)
	if err := errors.Join(first.failure(), twin.failure()); err != nil {
		return err
	}
	first.expected += replaces * n
	extra := map[string]any{"replaces": replaces}
	memory.addTo(extra)
	for _, queue := range queues {
		queue.expected += queue.handler.offers.made
		if err := queue.finish(); err != nil {
			return err
		}
	}
	for place, prefix := range []string{"", "control-"} {
		queue, extra := queues[place], maps.Clone(extra)
		if err := stored(queue.store, extra); err != nil {
			return err
		}
		if err := queue.handler.offers.report(opts, out, prefix, over, extra); err != nil {
			return err
		}
	}
	runtime.KeepAlive(lists)
	return nil
}

// stallEngine is a filled queue with its running consumer.
type stallEngine struct {
	*queueEngine
	handler  *stallHandler
	filling  []any
	expected int           // updates of which the handler must be notified
	replaced chan struct{} // signals that a deferred relist was applied
	ended    chan struct{} // closed when the consumer has ended
	failed   atomic.Pointer[error]
}

func startStallEngine(opts *options, filling []any, offers *offers) (*stallEngine, error) {
	counting := &countingHandler{}
	engine, err := newQueueEngine(opts.engine, counting)
	if err != nil {
		return nil, err
	}
	counting.expect(len(filling))
	if err := engine.fill(counting, filling, "1"); err != nil {
		return nil, err
	}
	stall := &stallEngine{
		queueEngine: engine, handler: &stallHandler{offers: offers}, filling: filling,
		replaced: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	engine.handler = stall.handler
	engine.onReplaced = func() { stall.replaced <- struct{}{} }
	go func() {
		defer close(stall.ended)
		if err := engine.consume(); err != nil {
			stall.failed.Store(&err)
		}
	}()
	return stall, nil
}

// finish gives the queue its first list once more, and waits until the consumer has handled
// everything.
func (s *stallEngine) finish() error {
	if err := s.queue.Replace(s.filling, "1"); err != nil {
		return err
	}
	s.queue.Close()
	<-s.ended
	s.expected += len(s.filling)
	if s.handler.updates != s.expected {
		return errors.Join(s.failure(), fmt.Errorf("stall: %d of %d updates", s.handler.updates, s.expected))
	}
	return s.failure()
}

func (s *stallEngine) failure() error {
	if err := s.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// relistDuringOffers relists the first queue back to back, until all updates are offered to their
// queues. It returns the number of relists.
func relistDuringOffers(lists [2][]any, relists *relists, queues [2]*stallEngine) (replaces int, err error) {
	first := queues[0]
	relist := func() error {
		if err := first.queue.Replace(lists[(replaces+1)%2], "1"); err != nil {
			return err
		}
		replaces++
		if first.replaceIsDeferred {
			select {
			case <-first.replaced:
			case <-first.ended: // it failed
			}
		}
		return first.failure()
	}
	if err := relist(); err != nil {
		return replaces, err
	}
	var stop atomic.Bool
	relists.start = time.Now()
	replaced := make(chan error, 1)
	go func() {
		var err error
		for err == nil && !stop.Load() {
			relists.running.Store(true)
			err = relist()
			relists.running.Store(false)
		}
		replaced <- err
	}()
	produced := make(chan error, len(queues))
	for _, queue := range queues {
		go func() {
			pacedThread()
			produced <- queue.handler.offers.offer(queue.queue)
		}()
	}
	for range queues {
		err = errors.Join(err, <-produced)
	}
	stop.Store(true)
	err = errors.Join(err, <-replaced)
	return replaces, err
}

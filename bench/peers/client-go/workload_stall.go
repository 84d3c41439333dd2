package main

import (
	"errors"
	"fmt"
	"runtime"
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
// of sharing two cores.
//
// If Replace only queues a list and leaves the work to the consumer (RealFIFO, atomic), the next
// relist starts when the last one was applied: Replace returns within a microsecond there, and
// back-to-back calls would queue millions of lists. For the same reason a relist counts as running
// until it is applied. The consumer of the first queue keeps running in the control, because such
// relists would not run without it.
//
// The numbers of offers and relists depend on the engine. So after both phases each queue gets its
// first list once more, and is drained. Then all stores must be equal, and each handler must have
// been notified of every object of every list and of every offer.
func runStall(opts *options, data source, out *output) error {
	if opts.engine == engineInformer {
		return nil // its relists are paced by its own pauses, so they are never back to back
	}
	progress := func(done, total int) { out.progress("building lists", done, total) }
	n := opts.objects
	lists := [2][]any{objects(data, samePlan(n), progress), objects(data, samePlan(n), progress)}
	first, err := startStallEngine(opts, lists[0])
	if err != nil {
		return err
	}
	twin, err := startStallEngine(opts, objects(data, hotPlan(n), progress))
	if err != nil {
		return err
	}
	type phase struct {
		prefix string
		target *stallEngine
		offers *offers
		extra  map[string]any
	}
	var measured []phase
	for _, phase := range []phase{{prefix: "", target: first}, {prefix: "control-", target: twin}} {
		if !opts.wantsPhase(phase.prefix) {
			continue
		}
		phase.offers = newOffers(opts, data, progress)
		phase.target.handler.offers.Store(phase.offers)
		memory := markMemory(n, queueGrowth)
		replaces, err := offerDuringReplaces(opts.duration, first, lists, phase.target, phase.offers)
		if err != nil {
			return err
		}
		phase.offers.wait()
		if err := errors.Join(first.failure(), twin.failure()); err != nil {
			return err
		}
		phase.offers.end()
		first.expected += replaces * n
		phase.target.expected += phase.offers.made
		phase.extra = map[string]any{"replaces": replaces}
		memory.addTo(phase.extra)
		measured = append(measured, phase)
	}
	if err := errors.Join(first.finish(), twin.finish()); err != nil {
		return err
	}
	for _, phase := range measured {
		if err := stored(phase.target.store, phase.extra); err != nil {
			return err
		}
		if err := phase.offers.report(opts, out, phase.prefix, phase.extra); err != nil {
			return err
		}
	}
	runtime.KeepAlive(lists)
	return nil
}

func (o *options) wantsPhase(prefix string) bool {
	for _, what := range []string{"add-", "handled-"} {
		for _, quantile := range stallQuantiles {
			if o.wants(prefix + what + quantile.name) {
				return true
			}
		}
	}
	return false
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

func startStallEngine(opts *options, filling []any) (*stallEngine, error) {
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
		queueEngine: engine, handler: &stallHandler{}, filling: filling,
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

// offerDuringReplaces relists one queue back to back, while updates are offered to the target. It
// returns the number of relists.
func offerDuringReplaces(length time.Duration, first *stallEngine, lists [2][]any, target *stallEngine, offers *offers) (replaces int, err error) {
	var stop atomic.Bool
	offers.start = time.Now()
	replaced := make(chan error, 1)
	go func() {
		for !stop.Load() && first.failure() == nil {
			offers.replacing.Store(true)
			err := first.queue.Replace(lists[(replaces+1)%2], "1")
			if err == nil && first.replaceIsDeferred {
				<-first.replaced
			}
			offers.replacing.Store(false)
			if err != nil {
				replaced <- err
				return
			}
			replaces++
		}
		replaced <- nil
	}()
	produced := make(chan error, 1)
	go func() {
		pacedThread()
		produced <- offers.offer(target.queue, length)
	}()
	err = <-produced
	stop.Store(true)
	err = errors.Join(err, <-replaced)
	return replaces, err
}

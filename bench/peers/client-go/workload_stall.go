package main

import (
	"errors"
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

// runStall measures how long an update and its handling take while relists go on back to back in the same queue, and
// then, as a control, in an idle twin beside it: that is what sharing two cores costs by itself.
//
// A queue that only notes a relist and leaves the work to the consumer (RealFIFO, atomic) gets the next relist
// when the last one was applied: Replace returns in a microsecond there, and offering it back to back would queue
// millions of lists that nobody could ever apply. For the same reason a relist counts as running until it was applied.
// The control keeps the first queue's consumer, since without it such relists would not run at all.
func runStall(opts *options, data source, out *output) error {
	if opts.engine == engineInformer {
		return nil // its relists are paced by its own waiting, so they are never back to back
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
	for _, phase := range []struct {
		prefix string
		target *stallEngine
	}{{"", first}, {"control-", twin}} {
		if !opts.wantsPhase(phase.prefix) {
			continue
		}
		offers := newOffers(opts, data, progress)
		phase.target.handler.offers.Store(offers)
		memory := markMemory(n)
		replaces, err := offerDuringReplaces(opts.duration, first, lists, phase.target, offers)
		if err != nil {
			return err
		}
		offers.wait()
		if err := errors.Join(first.failure(), twin.failure()); err != nil {
			return err
		}
		extra := map[string]any{"replaces": replaces}
		memory.addTo(extra)
		if err := offers.report(opts, out, phase.prefix, extra); err != nil {
			return err
		}
	}
	first.stop()
	twin.stop()
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

// stallEngine is a filled queue with its consumer running.
type stallEngine struct {
	*queueEngine
	handler  *stallHandler
	replaced chan struct{} // a deferred relist was applied
	stopping atomic.Bool
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
	stall := &stallEngine{queueEngine: engine, handler: &stallHandler{}, replaced: make(chan struct{}, 1)}
	engine.handler = stall.handler
	engine.onReplaced = func() { stall.replaced <- struct{}{} }
	go func() {
		for !stall.stopping.Load() {
			if err := engine.pop(); err != nil {
				stall.failed.Store(&err)
				return
			}
		}
	}()
	return stall, nil
}

// stop lets the consumer go after the delta it has, however many more there are.
func (s *stallEngine) stop() {
	s.stopping.Store(true)
	s.queue.Close()
}

func (s *stallEngine) failure() error {
	if err := s.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// offerDuringReplaces replaces back to back in one queue for as long as the offers to the target go on. It returns
// how many replaces were made.
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

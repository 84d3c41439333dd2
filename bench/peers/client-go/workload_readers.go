package main

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"k8s.io/client-go/tools/cache"
)

const (
	// idlePart is the part of the time in which the idle store is read.
	idlePart = 4
	// patience is for how many times as long relists go on while no get has counted yet: a busy machine may give a reader no
	// turn before.
	patience = 100
)

// runReaders measures how long a get of a random key takes, in an idle store, and while relists go on back to back: each
// replaced and drained before the next. Then only gets that begin during a relist count. An informer waits for a second
// or more between its relists, which so is left out.
//
// Each get is timed by itself, so that two readings of the clock are in the figures of every engine alike.
func runReaders(opts *options, data source, out *output) error {
	engine, err := newReadEngine(opts, data, out)
	if err != nil {
		return err
	}
	defer engine.shutDown()
	keys, err := readKeys(opts, data)
	if err != nil {
		return err
	}
	for _, readers := range []int{1, 4} {
		for _, prefix := range []string{"idle-", ""} {
			variant := fmt.Sprintf("%s%d-thread-", prefix, readers)
			var phase readPhase
			found := make(chan gets, readers)
			memory := markMemory(opts.objects, queueGrowth)
			for reader := range readers {
				go func() { found <- phase.read(engine.indexer(), keys, reader*len(keys)/readers) }()
			}
			replaces := 0
			if prefix == "" {
				replaces, err = relistFor(opts.duration, engine, &phase)
			} else {
				phase.counts.Store(true)
				time.Sleep(opts.duration / idlePart)
			}
			phase.over.Store(true)
			all := gets{took: newLatencies()}
			for range readers {
				one := <-found
				all.took.histogram.Merge(one.took.histogram)
				all.misses += one.misses
			}
			switch {
			case err != nil:
				return err
			case all.misses > 0:
				return fmt.Errorf("readers %s: %d gets missed a key that is always known", variant, all.misses)
			case all.took.histogram.TotalCount() == 0:
				return errors.New("readers: no get began in time, more --seconds or --objects are needed")
			}
			extra := map[string]any{"gets": all.took.histogram.TotalCount(), "replaces": replaces, "misses": all.misses}
			memory.addTo(extra)
			// How many relists there were is the engine's; what the last one told is not.
			engine.counts().addTo(extra)
			if err := stored(engine.indexer(), extra); err != nil {
				return err
			}
			quantiles := []quantile{p50, p999, p9999}
			if readers == 1 { // with more threads than cores the longest get is that of a thread that was not scheduled
				quantiles = append(quantiles, worst)
			}
			if err := all.took.report(out, "readers", variant, quantiles, extra); err != nil {
				return err
			}
		}
	}
	runtime.KeepAlive(engine)
	return nil
}

// readKeys draws as many keys as there are objects.
func readKeys(opts *options, data source) ([]string, error) {
	keys := make([]string, opts.objects)
	for draw := range keys {
		key, err := cache.MetaNamespaceKeyFunc(data.object(uniformKey(draw, opts.objects), ""))
		if err != nil {
			return nil, err
		}
		keys[draw] = key
	}
	return keys, nil
}

// readPhase is what the readers are told.
type readPhase struct {
	counts  atomic.Bool // gets that begin now count
	counted atomic.Bool // one has
	over    atomic.Bool
}

// gets are what a reader found.
type gets struct {
	took   latencies
	misses int
}

// read gets all keys over and over, beginning with one of them.
func (p *readPhase) read(store cache.Store, keys []string, first int) gets {
	found, told := gets{took: newLatencies()}, false
	for at := first; !p.over.Load(); at++ {
		if at == len(keys) {
			at = 0
		}
		key := keys[at]
		counts := p.counts.Load()
		began := time.Now()
		object, exists, err := store.GetByKey(key)
		took := time.Since(began)
		if counts {
			found.took.note(took)
			if !told {
				p.counted.Store(true)
				told = true
			}
		}
		if err != nil || !exists || object == nil {
			found.misses++
		}
	}
	return found
}

// relistFor relists back to back for so long, and at least once. It returns how often.
func relistFor(length time.Duration, engine *readEngine, phase *readPhase) (int, error) {
	replaces := 0
	enough := func() time.Duration {
		if phase.counted.Load() {
			return length
		}
		return length * patience
	}
	for start := time.Now(); replaces == 0 || time.Since(start) < enough(); replaces++ {
		err := engine.relist((replaces+1)%2, func() { phase.counts.Store(true) })
		phase.counts.Store(false)
		if err != nil {
			return replaces, err
		}
	}
	return replaces, nil
}

// readEngine is a filled engine and the two lists that its relists take in turn.
type readEngine struct {
	listEngine
	lists [2]any
	// relist gives a list to the engine and returns when all of it was handled; it calls begin when the work begins.
	relist func(list int, begin func()) error
}

func newReadEngine(opts *options, data source, out *output) (*readEngine, error) {
	lists, err := newListEngine(opts, data)
	if err != nil {
		return nil, err
	}
	n := opts.objects
	engine := &readEngine{listEngine: lists}
	for i := range engine.lists {
		engine.lists[i] = lists.build(samePlan(n), "1", func(done, total int) { out.progress("building lists", done, total) })
	}
	switch lists := lists.(type) {
	case queueLists:
		engine.relist = func(list int, begin func()) error {
			lists.handler.expect(n)
			begin()
			built := engine.lists[list].(versionedObjects)
			return lists.engine.fill(lists.handler, built.objects, built.version)
		}
	case informerLists:
		engine.relist = func(list int, begin func()) error {
			lists.server.onList = begin
			_, _, err := lists.replace(engine.lists[list], n)
			return err
		}
	default:
		return nil, fmt.Errorf("%T is not read", lists)
	}
	return engine, engine.relist(0, func() {})
}

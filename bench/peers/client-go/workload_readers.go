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
	// The idle store is read for the length divided by idlePart.
	idlePart = 4
	// While no get has counted yet, the relists continue for up to maxExtension times the length:
	// on a busy machine a reader may not be scheduled earlier.
	maxExtension = 100
)

// runReaders measures the time of a get of a random key, in an idle store, and during back-to-back
// relists, each of which is drained before the next. In the second case only the gets that start
// during a relist are counted. An informer pauses for a second or more between its relists; that
// time does not count.
//
// Each get is measured separately, so the figures of every engine include two readings of the
// clock.
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
			// The number of relists depends on the engine; the counts of the last one do not.
			engine.counts().addTo(extra)
			if err := stored(engine.indexer(), extra); err != nil {
				return err
			}
			quantiles := []quantile{p50, p999, p9999}
			// With more threads than cores, the longest get is one whose thread was not scheduled.
			if readers == 1 {
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

// readPhase is the state that the readers and the main goroutine share.
type readPhase struct {
	counts  atomic.Bool // whether gets that start now count
	counted atomic.Bool // whether a get has counted
	over    atomic.Bool
}

// gets are the results of a reader.
type gets struct {
	took   latencies
	misses int
}

// read gets all keys again and again, starting with one of them.
func (p *readPhase) read(store cache.Store, keys []string, first int) gets {
	found, hasReported := gets{took: newLatencies()}, false
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
			if !hasReported {
				p.counted.Store(true)
				hasReported = true
			}
		}
		if err != nil || !exists || object == nil {
			found.misses++
		}
	}
	return found
}

// relistFor relists back to back for this long, at least once. It returns the number of relists.
func relistFor(length time.Duration, engine *readEngine, phase *readPhase) (int, error) {
	replaces := 0
	enough := func() time.Duration {
		if phase.counted.Load() {
			return length
		}
		return length * maxExtension
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

// readEngine is a filled engine with the two lists of its relists, which alternate.
type readEngine struct {
	listEngine
	lists [2]any
	// relist gives a list to the engine, and returns when everything is handled. It calls begin
	// when the work starts.
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

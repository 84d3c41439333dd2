package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strconv"
	"time"

	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
)

// runLists measures initial, relist and churn, in this order and on one engine, because each starts
// with the result of the one before. For a relist or churn without initial, the initial fill is not
// measured.
func runLists(opts *options, data source, out *output) error {
	engine, err := newListEngine(opts, data)
	if err != nil {
		return err
	}
	defer engine.shutDown()
	n := opts.objects
	steps := []struct {
		workload               string
		plan                   plan
		adds, updates, deletes int
		neededBefore           bool // also if it was not requested
	}{
		{workload: "initial", plan: samePlan(n), adds: n, neededBefore: true},
		{workload: "relist", plan: samePlan(n), updates: n},
		{workload: "churn", plan: churnPlan(n), adds: added(n), updates: n - gone(n), deletes: gone(n)},
	}
	// Every list stays alive to the end, so that no measurement includes the freeing of a list.
	// Each list is built just before its turn: with a larger heap the collector would run less
	// often.
	var lists []any
	for _, step := range steps {
		if !step.neededBefore && !opts.asks(step.workload) {
			continue
		}
		// Only the lists are alive while they are built, so a collection would free nothing.
		collect := debug.SetGCPercent(-1)
		list := engine.build(step.plan, strconv.Itoa(5_000_000+len(lists)), func(done, total int) {
			out.progress("building the list of "+step.workload, done, total)
		})
		debug.SetGCPercent(collect)
		lists = append(lists, list)
		elapsed, memory, err := engine.replace(list, step.adds+step.updates+step.deletes)
		if err != nil {
			return err
		}
		extra := map[string]any{}
		memory.addTo(extra) // first, because everything that follows uses memory
		handler := engine.counts()
		handler.addTo(extra)
		if handler.adds != step.adds || handler.updates != step.updates || handler.deletes != step.deletes {
			return fmt.Errorf("%s: %d adds, %d updates, %d deletes, expected %d, %d, %d", step.workload,
				handler.adds, handler.updates, handler.deletes, step.adds, step.updates, step.deletes)
		}
		if !opts.asks(step.workload) {
			continue
		}
		if err := stored(engine.indexer(), extra); err != nil {
			return err
		}
		if err := out.row(row{Workload: step.workload, Unit: "s", Value: elapsed.Seconds(), Extra: extra}); err != nil {
			return err
		}
	}
	runtime.KeepAlive(lists)
	return nil
}

// listEngine is the interface that runLists needs: a queue and an informer take their lists
// differently.
type listEngine interface {
	// build creates the list of a plan in the form that replace takes.
	build(p plan, version string, progress func(done, total int)) any
	// replace gives a list to the engine, and waits for this many events.
	replace(list any, events int) (time.Duration, memoryMark, error)
	counts() *countingHandler
	indexer() cache.Indexer
	shutDown()
}

func newListEngine(opts *options, data source) (listEngine, error) {
	handler := &countingHandler{}
	if opts.engine == engineInformer {
		informer, err := newInformer(data.example(), handler, handler)
		if err != nil {
			return nil, err
		}
		return informerLists{informerEngine: informer, data: data}, nil
	}
	queue, err := newQueueEngine(opts.engine, handler)
	if err != nil {
		return nil, err
	}
	return queueLists{engine: queue, handler: handler, data: data}, nil
}

// queueLists gives lists to a queue, and drains it on the same goroutine.
type queueLists struct {
	engine  *queueEngine
	handler *countingHandler
	data    source
}

// versionedObjects is a list in the form that a queue takes.
type versionedObjects struct {
	objects []any
	version string
}

func (q queueLists) build(p plan, version string, progress func(done, total int)) any {
	return versionedObjects{objects: objects(q.data, p, progress), version: version}
}

func (q queueLists) replace(list any, events int) (time.Duration, memoryMark, error) {
	built := list.(versionedObjects)
	q.handler.expect(events)
	memory := markMemory(len(built.objects), listGrowth)
	start := time.Now()
	if err := q.engine.fill(q.handler, built.objects, built.version); err != nil {
		return 0, memory, err
	}
	return q.handler.seenAllAt.Sub(start), memory, nil
}

func (q queueLists) counts() *countingHandler { return q.handler }
func (q queueLists) indexer() cache.Indexer   { return q.engine.store }
func (q queueLists) shutDown()                { q.engine.queue.Close() }

// informerLists makes the informer fetch its lists itself.
type informerLists struct {
	*informerEngine
	data source
}

func (i informerLists) build(p plan, version string, progress func(done, total int)) any {
	return i.data.list(p, version, progress)
}

func (i informerLists) replace(list any, events int) (time.Duration, memoryMark, error) {
	return i.relist(list.(apiruntime.Object), events)
}

func (i informerLists) counts() *countingHandler { return i.handler }
func (i informerLists) indexer() cache.Indexer   { return i.informer.GetIndexer() }

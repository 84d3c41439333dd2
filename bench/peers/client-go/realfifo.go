package main

import (
	"fmt"

	"k8s.io/client-go/tools/cache"
)

// newRealFIFO creates the queue of today's informers, with the options that newQueueFIFO in
// client-go's controller.go sets with the default feature gates of 0.37. All of them are public: a
// relist is one atomic delta, the lock is released while deltas are applied (unless 2,000 or more
// wait), and bookmarks are passed on. With them the queue takes no known objects: the consumer
// compares the list with the store. It is popped as by the informer, in batches of up to 1,000
// deltas of different keys. Without the lock only one consumer is allowed.
func newRealFIFO(handler cache.ResourceEventHandler) *queueEngine {
	engine := &queueEngine{store: newStore(), handler: handler, singleConsumer: true, replaceIsDeferred: true}
	queue := cache.NewRealFIFOWithOptions(cache.RealFIFOOptions{
		KeyFunction:           cache.MetaNamespaceKeyFunc,
		AtomicEvents:          true,
		UnlockWhileProcessing: true,
		EmitDeltaTypeBookmark: true,
	})
	batch := func(deltas []cache.Delta, isInInitialList bool) error {
		engine.pops++
		return applyBatch(engine.handler, engine.store, deltas, isInInitialList)
	}
	single := func(popped any, isInInitialList bool) error {
		deltas, ok := popped.(cache.Deltas)
		if !ok {
			return fmt.Errorf("popped %T, not Deltas", popped)
		}
		engine.pops++
		err := applyDeltas(engine.handler, engine.store, deltas, isInInitialList)
		if deltas[0].Type == cache.ReplacedAll && engine.onReplaced != nil {
			engine.onReplaced()
		}
		return err
	}
	engine.queue = queue
	engine.pop = func() error { return queue.PopBatch(batch, single) }
	return engine
}

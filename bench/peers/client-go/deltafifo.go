package main

import (
	"fmt"

	"k8s.io/client-go/tools/cache"
)

// newDeltaFIFO creates the classic queue with the options that the shared informer used for it: the
// store as known objects, and relists distinguished from resyncs. Any number of consumers may pop:
// the queue holds its lock while a consumer applies deltas.
func newDeltaFIFO(handler cache.ResourceEventHandler) *queueEngine {
	engine := &queueEngine{store: newStore(), handler: handler}
	queue := cache.NewDeltaFIFOWithOptions(cache.DeltaFIFOOptions{
		KnownObjects:          engine.store,
		EmitDeltaTypeReplaced: true,
	})
	process := func(popped any, isInInitialList bool) error {
		deltas, ok := popped.(cache.Deltas)
		if !ok {
			return fmt.Errorf("popped %T, not Deltas", popped)
		}
		engine.pops++
		return applyDeltas(engine.handler, engine.store, deltas, isInInitialList)
	}
	engine.queue = queue
	engine.pop = func() error {
		_, err := queue.Pop(process)
		return err
	}
	return engine
}

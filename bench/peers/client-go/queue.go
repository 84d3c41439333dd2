package main

import (
	"errors"
	"fmt"

	"k8s.io/client-go/tools/cache"
)

// queueEngine is one of client-go's queues with the informer's store. The constructors are in
// deltafifo.go and realfifo.go. They differ in the queue, and in how pop takes from it.
type queueEngine struct {
	queue   cache.Queue
	store   cache.Indexer
	handler cache.ResourceEventHandler

	// pop pops once, and applies the result. It blocks while the queue is empty.
	pop func() error
	// pops counts the calls of pop. It is protected by the queue's lock, or by being used by the
	// only consumer.
	pops int
	// singleConsumer is set if only one goroutine may pop.
	singleConsumer bool
	// replaceIsDeferred is set if Replace only queues the list and pop does the work. onReplaced is
	// then called after the work.
	replaceIsDeferred bool
	onReplaced        func()
}

// newStore creates the store of the shared informer. Its key function also accepts the tombstones
// that a relist creates for deleted objects, which MetaNamespaceKeyFunc does not.
func newStore() cache.Indexer {
	return cache.NewIndexer(cache.DeletionHandlingMetaNamespaceKeyFunc, namespaceIndex())
}

func namespaceIndex() cache.Indexers {
	return cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
}

func newQueueEngine(name string, handler cache.ResourceEventHandler) (*queueEngine, error) {
	switch name {
	case engineDeltaFIFO:
		return newDeltaFIFO(handler), nil
	case engineRealFIFO:
		return newRealFIFO(handler), nil
	}
	return nil, fmt.Errorf("%s has no queue of its own", name)
}

// fill replaces and drains until the handler has seen everything.
func (e *queueEngine) fill(handler *countingHandler, objects []any, version string) error {
	if err := e.queue.Replace(objects, version); err != nil {
		return err
	}
	for handler.left > 0 {
		if err := e.pop(); err != nil {
			return err
		}
	}
	return nil
}

// consume pops until the queue is closed and empty.
func (e *queueEngine) consume() error {
	for {
		if err := e.pop(); errors.Is(err, cache.ErrFIFOClosed) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// stored adds the size and the digest of the store to a row's extra.
func stored(store cache.Store, extra map[string]any) error {
	objects := store.List()
	sum, err := digest(objects)
	if err != nil {
		return err
	}
	extra["store_len"], extra["store_digest"] = len(objects), sum
	return nil
}

package main

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// informerEngine is the real shared informer with its defaults, without resync, with the namespace
// index and one handler. Its server is in memory.
type informerEngine struct {
	handler  *countingHandler
	informer cache.SharedIndexInformer
	server   *memoryServer
	watcher  *watch.FakeWatcher // of the running watch, nil before the initial list
	stop     context.CancelFunc
	stopped  chan struct{}
}

// newInformer starts an informer with a handler that reports to the counting handler.
func newInformer(example runtime.Object, counting *countingHandler, handler cache.ResourceEventHandler) (*informerEngine, error) {
	server := &memoryServer{lists: make(chan offeredList), watchers: make(chan *watch.FakeWatcher, 1)}
	informer := cache.NewSharedIndexInformer(server, example, 0, namespaceIndex())
	if _, err := informer.AddEventHandler(handler); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	engine := &informerEngine{handler: counting, informer: informer, server: server, stop: stop, stopped: make(chan struct{})}
	go func() {
		defer close(engine.stopped)
		informer.RunWithContext(ctx)
	}()
	return engine, nil
}

// relist makes the informer list, and waits until the handler has seen the given number of events.
// It returns the time since the list was handed over, and the memory before that. An informer that
// has already listed must be made to relist: its watch ends with the error of an expired version.
// It then pauses before it lists again (0.8 s and more, longer each time), which is not measured.
func (e *informerEngine) relist(list runtime.Object, events int) (time.Duration, memoryMark, error) {
	e.handler.expect(events)
	if e.watcher != nil {
		e.watcher.Error(&apierrors.NewResourceExpired("the benchmark requests a relist").ErrStatus)
	}
	offer := offeredList{list: list, objects: events, handedOver: make(chan handover, 1)}
	e.server.lists <- offer
	<-e.handler.seenAll
	handover := <-offer.handedOver
	e.watcher = <-e.server.watchers
	return e.handler.seenAllAt.Sub(handover.at), handover.memory, nil
}

func (e *informerEngine) shutDown() {
	e.stop()
	<-e.stopped
}

// memoryServer answers the informer's list and watch calls.
type memoryServer struct {
	lists    chan offeredList
	watchers chan *watch.FakeWatcher
	// onList is called when a list call is about to return. It is set before the list is offered.
	onList func()
}

// offeredList is a prebuilt list for the next list call. It signals when that call has returned.
type offeredList struct {
	list       runtime.Object
	objects    int
	handedOver chan handover
}

type handover struct {
	at     time.Time
	memory memoryMark
}

// IsWatchListSemanticsUnSupported makes the reflector use a LIST instead of a watch that starts
// with all objects. Both are common. A LIST corresponds to Replace of the other engines, and is
// cheaper, because no second store is filled.
func (s *memoryServer) IsWatchListSemanticsUnSupported() bool { return true }

func (s *memoryServer) List(options metav1.ListOptions) (runtime.Object, error) {
	return s.ListWithContext(context.Background(), options)
}

// ListWithContext waits for a list to be offered, and returns it as a whole. It ignores a limit, as
// the API server does when it answers from its watch cache.
func (s *memoryServer) ListWithContext(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
	select {
	case offer := <-s.lists:
		memory := markMemory(offer.objects, listGrowth)
		if s.onList != nil {
			s.onList()
		}
		offer.handedOver <- handover{at: time.Now(), memory: memory}
		return offer.list, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *memoryServer) Watch(options metav1.ListOptions) (watch.Interface, error) {
	return s.WatchWithContext(context.Background(), options)
}

// WatchWithContext opens a watch that stays open until the benchmark ends it.
func (s *memoryServer) WatchWithContext(ctx context.Context, _ metav1.ListOptions) (watch.Interface, error) {
	watcher := watch.NewFake()
	select {
	case s.watchers <- watcher:
		return watcher, nil
	case <-ctx.Done():
		return nil, errors.New("stopping")
	}
}

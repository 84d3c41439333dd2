package main

import (
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
)

// handlerCounts is the handler. It counts its notifications.
type handlerCounts struct {
	mu sync.Mutex
	// Number of calls since the start of the last relist, and of these calls with an object that is
	// newer than all before it.
	calls, changed int
	newest         uint64
	// The numbers of changes and of calls that a relist waits for, and the channel that is closed
	// after them. An informer notifies of every listed object.
	wantChanged, wantCalls int
	done                   chan struct{}
}

func (c *handlerCounts) OnAdd(object any, _ bool) { c.record(object) }
func (c *handlerCounts) OnUpdate(_, object any)   { c.record(object) }
func (c *handlerCounts) OnDelete(any)             {}

func (c *handlerCounts) record(object any) {
	configMap, ok := object.(*corev1.ConfigMap)
	if !ok {
		return
	}
	// An object whose version is not a number is counted, but never as changed.
	version, _ := strconv.ParseUint(configMap.ResourceVersion, 10, 64)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls++
	if c.done == nil {
		c.newest = max(c.newest, version)
		return
	}
	if version > c.newest {
		c.changed++
	}
	if c.wantCalls > 0 && c.calls >= c.wantCalls && c.changed >= c.wantChanged {
		c.wantCalls = 0
		close(c.done)
	}
}

// relist starts to count the calls of a relist. The returned channel is closed after the last of
// them.
func (c *handlerCounts) relist(changed, calls int) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls, c.wantChanged, c.wantCalls, c.done = 0, changed, calls, make(chan struct{})
	return c.done
}

func (c *handlerCounts) snapshot() (calls, changed int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls, c.changed
}

package main

import (
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
)

// told is the handler: it counts what it is told.
type told struct {
	mu sync.Mutex
	// Calls since the last relist began, and those of them for an object that is newer than all before it.
	calls, changed int
	newest         uint64
	// Of a relist: so many changes are waited for, and so many calls, since an informer tells of everything that is listed
	// anew; what is closed then.
	wantChanged, wantCalls int
	done                   chan struct{}
}

func (t *told) OnAdd(object any, _ bool) { t.note(object) }
func (t *told) OnUpdate(_, object any)   { t.note(object) }
func (t *told) OnDelete(any)             {}

func (t *told) note(object any) {
	configMap, ok := object.(*corev1.ConfigMap)
	if !ok {
		return
	}
	// What has no version that is a number is told all the same, and cannot be found to have changed.
	version, _ := strconv.ParseUint(configMap.ResourceVersion, 10, 64)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.calls++
	if t.done == nil {
		t.newest = max(t.newest, version)
		return
	}
	if version > t.newest {
		t.changed++
	}
	if t.wantCalls > 0 && t.calls >= t.wantCalls && t.changed >= t.wantChanged {
		t.wantCalls = 0
		close(t.done)
	}
}

// relist begins to count the calls of a relist. What comes back is closed after the last of them.
func (t *told) relist(changed, calls int) <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.calls, t.wantChanged, t.wantCalls, t.done = 0, changed, calls, make(chan struct{})
	return t.done
}

func (t *told) counts() (calls, changed int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.calls, t.changed
}

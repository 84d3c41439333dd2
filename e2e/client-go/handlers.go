package main

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

const (
	// The time that the sleeping handler sleeps, and the number of notifications before that.
	asleep    = 100 * time.Millisecond
	sleepEach = 256
)

// The handlers, by name: one that only records, one that sleeps, and one that panics on its 1st,
// 4th, 16th notification and so on. It panics rarely, because client-go pauses a handler for a
// second after a panic.
func handlers(out *output) map[string]*handler {
	nextPanic := 1
	return map[string]*handler{
		"plain": {name: "plain", out: out, then: func(int) {}},
		"sleeps": {name: "sleeps", out: out, then: func(times int) {
			if times%sleepEach == 0 {
				time.Sleep(asleep)
			}
		}},
		"panics": {name: "panics", out: out, then: func(times int) {
			if times == nextPanic {
				nextPanic *= 4
				panic(fmt.Sprintf("on purpose, after %d notifications", times))
			}
		}},
	}
}

// A handler records each notification, and then acts. It is called by one goroutine at a time.
type handler struct {
	name  string
	out   *output
	times int
	then  func(times int)
}

func (h *handler) OnAdd(object any, _ bool) {
	h.record(object, change{Added: &added{New: stateOf(object.(metav1.Object))}})
}

func (h *handler) OnUpdate(before, after any) {
	h.record(after, change{Updated: &updated{Old: stateOf(before.(metav1.Object)), New: stateOf(after.(metav1.Object))}})
}

func (h *handler) OnDelete(object any) {
	tombstone, missed := object.(cache.DeletedFinalStateUnknown)
	if missed {
		object = tombstone.Obj
	}
	gone := deleted{IsTombstone: missed}
	if last, ok := object.(metav1.Object); ok {
		last := stateOf(last)
		gone.Last = &last
	}
	if missed {
		h.recordKey(tombstone.Key, change{Deleted: &gone})
	} else {
		h.record(object, change{Deleted: &gone})
	}
}

func (h *handler) record(object any, change change) {
	key, err := cache.MetaNamespaceKeyFunc(object)
	if err != nil {
		key = err.Error()
	}
	h.recordKey(key, change)
}

func (h *handler) recordKey(key string, change change) {
	h.out.send(line{Notified: &notified{Handler: h.name, Key: key, Change: change}})
	h.times++
	h.then(h.times)
}

func stateOf(object metav1.Object) state {
	return state{UID: string(object.GetUID()), Version: object.GetResourceVersion()}
}

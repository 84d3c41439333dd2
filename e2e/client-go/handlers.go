package main

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

const (
	// How long the sleeping handler sleeps, and after how many notifications.
	asleep    = 100 * time.Millisecond
	sleepEach = 256
)

// The handlers, by name: one that only records, one that sleeps, and one that panics on its 1st,
// 4th, 16th notification and so on. It panics rarely, because client-go pauses a handler for a
// second after a panic.
func handlers(says *saying) map[string]*handler {
	nextPanic := 1
	return map[string]*handler{
		"plain": {name: "plain", says: says, then: func(int) {}},
		"sleeps": {name: "sleeps", says: says, then: func(times int) {
			if times%sleepEach == 0 {
				time.Sleep(asleep)
			}
		}},
		"panics": {name: "panics", says: says, then: func(times int) {
			if times == nextPanic {
				nextPanic *= 4
				panic(fmt.Sprintf("on purpose, told %d times", times))
			}
		}},
	}
}

// A handler records each notification, and then acts. It is called by one goroutine at a time.
type handler struct {
	name  string
	says  *saying
	times int
	then  func(times int)
}

func (h *handler) OnAdd(object any, _ bool) {
	h.tell(object, change{Added: &added{New: stateOf(object.(metav1.Object))}})
}

func (h *handler) OnUpdate(before, after any) {
	h.tell(after, change{Updated: &updated{Old: stateOf(before.(metav1.Object)), New: stateOf(after.(metav1.Object))}})
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
		h.tellKey(tombstone.Key, change{Deleted: &gone})
	} else {
		h.tell(object, change{Deleted: &gone})
	}
}

func (h *handler) tell(object any, what change) {
	key, err := cache.MetaNamespaceKeyFunc(object)
	if err != nil {
		key = err.Error()
	}
	h.tellKey(key, what)
}

func (h *handler) tellKey(key string, what change) {
	h.says.say(line{Told: &told{Handler: h.name, Key: key, Change: what}})
	h.times++
	h.then(h.times)
}

func stateOf(object metav1.Object) state {
	return state{UID: string(object.GetUID()), Version: object.GetResourceVersion()}
}

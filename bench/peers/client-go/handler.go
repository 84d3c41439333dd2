package main

import "time"

// countingHandler is the event handler of all engines, except in a stall run. The slow handler uses
// its counts. It signals when it has counted the expected number of events. The engines call it
// from one goroutine at a time. After waiting for seenAll, other goroutines may read the counts.
type countingHandler struct {
	adds, updates, deletes int
	left                   int
	seenAll                chan struct{}
	seenAllAt              time.Time
}

// expect resets the counts.
func (h *countingHandler) expect(events int) {
	*h = countingHandler{left: events, seenAll: make(chan struct{})}
}

func (h *countingHandler) OnAdd(any, bool) { h.adds++; h.seen() }

func (h *countingHandler) OnUpdate(_, _ any) { h.updates++; h.seen() }

func (h *countingHandler) OnDelete(any) { h.deletes++; h.seen() }

func (h *countingHandler) seen() {
	h.left--
	if h.left == 0 {
		h.seenAllAt = time.Now()
		close(h.seenAll)
	}
}

func (h *countingHandler) addTo(extra map[string]any) {
	extra["adds"], extra["updates"], extra["deletes"] = h.adds, h.updates, h.deletes
}

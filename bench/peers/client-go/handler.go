package main

import "time"

// countingHandler is the one event handler of all engines but in a stall run, and counts for the slow one: it notes when
// it has seen what it was told to expect. The engines call it from one goroutine at a time; who waits on seenAll may read
// the counts.
type countingHandler struct {
	adds, updates, deletes int
	left                   int
	seenAll                chan struct{}
	seenAllAt              time.Time
}

// expect starts the counts anew.
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

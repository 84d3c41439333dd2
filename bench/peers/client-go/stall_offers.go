package main

import (
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

const (
	offerEvery  = 100 * time.Microsecond
	longestWait = 60 * time.Second
	// slice is the usual length of a slice of time in which one of the two queues gets updates.
	slice = 100 * time.Millisecond
)

// relists are the relists of the first queue, with the clock of the measurement.
type relists struct {
	start   time.Time
	running atomic.Bool // a relist is running
}

// now returns the nanoseconds since the start.
func (r *relists) now() int64 { return int64(time.Since(r.start)) }

// offers are the updates of one queue of a stall run. They are created in advance, offered at fixed
// times whether or not the earlier ones have returned (an open loop), and recognized by the handler
// by their versions. All times are in nanoseconds since the start.
type offers struct {
	objects  []any
	relists  *relists
	perSlice int // the number of offers in a slice
	place    int // 0 if the first slice is of this queue, else 1

	// Written by the producer, and read after its end. An offer counts if it started during a
	// relist.
	made    int
	counted []bool
	took    []int64

	// Written by the consumer: when each offer was handled, 0 if it was not. Each is written once,
	// and may be read while the consumer still writes.
	handledAt []atomic.Int64
	handled   atomic.Int64
}

func newOffers(opts *options, data source, relists *relists, place int, progress func(done, total int)) *offers {
	total := int(opts.duration / offerEvery)
	o := &offers{
		objects:   make([]any, total),
		relists:   relists,
		perSlice:  max(1, int(min(opts.duration, slice)/offerEvery)),
		place:     place,
		counted:   make([]bool, total),
		took:      make([]int64, total),
		handledAt: make([]atomic.Int64, total),
	}
	for seq := range o.objects {
		o.objects[seq] = data.object(hotKey(seq, opts.objects), "e"+strconv.Itoa(seq))
		progress(seq, total)
	}
	return o
}

func (o *offers) intended(seq int) time.Duration {
	earlierSlices := 2*(seq/o.perSlice) + o.place
	return time.Duration(earlierSlices*o.perSlice+seq%o.perSlice) * offerEvery
}

// offer makes the offers at their times, or as soon after as possible. Offers that are not made by
// the end of its last slice are left out.
func (o *offers) offer(queue cache.Queue) error {
	end := int64(o.intended(len(o.objects)-1) + offerEvery)
	for seq, object := range o.objects {
		waitUntil(o.relists.start, o.intended(seq))
		began := o.relists.now()
		if began >= end {
			return nil
		}
		o.counted[seq] = o.relists.running.Load()
		if err := queue.Update(object); err != nil {
			return err
		}
		o.took[seq] = o.relists.now() - began
		o.made++
	}
	return nil
}

// waitForOffers waits until the consumers have handled the offers of both queues, at most one
// minute. It returns the time then.
func waitForOffers(relists *relists, both ...*offers) int64 {
	isWaiting := func(o *offers) bool { return int(o.handled.Load()) < o.made }
	for end := time.Now().Add(longestWait); time.Now().Before(end) && slices.ContainsFunc(both, isWaiting); {
		time.Sleep(time.Millisecond)
	}
	return relists.now()
}

// report writes the rows of a queue. An offer that was not handled by the time over counts with the
// time up to then: it took at least that.
func (o *offers) report(opts *options, out *output, prefix string, over int64, extra map[string]any) error {
	adds, handled := newLatencies(), newLatencies()
	unhandled := 0
	for seq := range o.made {
		if !o.counted[seq] {
			continue
		}
		at := o.handledAt[seq].Load()
		if at == 0 || at > over {
			unhandled++
			at = over
		}
		adds.note(time.Duration(o.took[seq]))
		handled.note(time.Duration(at) - o.intended(seq))
	}
	if adds.histogram.TotalCount() == 0 {
		return fmt.Errorf("stall: none of %d offers began during a relist, more --seconds or --objects are needed", o.made)
	}
	extra["offers"] = adds.histogram.TotalCount()
	extra["offers_made"] = o.made
	extra["offers_intended"] = len(o.objects)
	extra["unhandled"] = unhandled
	for _, figures := range []struct {
		name  string
		times latencies
	}{{"add-", adds}, {"handled-", handled}} {
		unwanted := func(q quantile) bool { return !opts.wants(prefix + figures.name + q.name) }
		quantiles := slices.DeleteFunc(slices.Clone(stallQuantiles), unwanted)
		if err := figures.times.report(out, "stall", prefix+figures.name, quantiles, extra); err != nil {
			return err
		}
	}
	return nil
}

// stallHandler records when the offers were handled, and counts the updates, including the updates
// of relists.
type stallHandler struct {
	offers  *offers
	updates int // written by the consumer, read after its end
}

func (h *stallHandler) OnAdd(any, bool) {}

func (h *stallHandler) OnDelete(any) {}

func (h *stallHandler) OnUpdate(_, object any) {
	h.updates++
	// Only offers have a version that starts with an e. The versions of the API and of generated
	// objects are numbers.
	version := object.(metav1.Object).GetResourceVersion()
	if version == "" || version[0] != 'e' {
		return
	}
	o := h.offers
	seq, err := strconv.Atoi(version[1:])
	if err != nil || seq >= len(o.objects) {
		return
	}
	o.handledAt[seq].Store(o.relists.now())
	o.handled.Add(1)
}

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
	offerEvery    = 100 * time.Microsecond
	waitForOffers = 60 * time.Second
)

// offers are the updates of one phase of a stall run: made before, offered at fixed times whatever became of those
// before (an open loop), and recognised by the handler by their versions. All times are nanoseconds since start.
type offers struct {
	objects   []any
	start     time.Time
	over      int64       // when the wait for the handler was
	replacing atomic.Bool // a replace is running

	// The producer's, read when it has ended. An offer counts if it began during a replace.
	made    int
	counted []bool
	took    []int64

	// The consumer's: when each offer was handled, 0 if it was not. Written once each, and read while the
	// consumer may still be writing.
	handledAt []atomic.Int64
	handled   atomic.Int64
}

func newOffers(opts *options, data source, progress func(done, total int)) *offers {
	total := int(opts.duration / offerEvery)
	o := &offers{
		objects:   make([]any, total),
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

func intended(seq int) time.Duration { return time.Duration(seq) * offerEvery }

// offer makes the offers on time, or as soon after as it can. What was not offered when the time is over stays so: no
// replace runs then, so that it would not count.
func (o *offers) offer(queue cache.Queue, length time.Duration) error {
	for seq, object := range o.objects {
		waitUntil(o.start, intended(seq))
		began := time.Since(o.start)
		if began >= length {
			return nil
		}
		o.counted[seq] = o.replacing.Load()
		if err := queue.Update(object); err != nil {
			return err
		}
		o.took[seq] = int64(time.Since(o.start) - began)
		o.made++
	}
	return nil
}

// wait gives the consumer time to handle what was offered.
func (o *offers) wait() {
	for end := time.Now().Add(waitForOffers); time.Now().Before(end) && int(o.handled.Load()) < o.made; {
		time.Sleep(time.Millisecond)
	}
}

// end is when the figures are of: what is handled later was not handled in time.
func (o *offers) end() { o.over = int64(time.Since(o.start)) }

// report writes the rows of a phase. An offer that was not handled by its end has its time up to then in the figures: it
// took at least that.
func (o *offers) report(opts *options, out *output, prefix string, extra map[string]any) error {
	adds, handled := newLatencies(), newLatencies()
	unhandled := 0
	for seq := range o.made {
		if !o.counted[seq] {
			continue
		}
		at := o.handledAt[seq].Load()
		if at == 0 || at > o.over {
			unhandled++
			at = o.over
		}
		adds.note(time.Duration(o.took[seq]))
		handled.note(time.Duration(at) - intended(seq))
	}
	if adds.histogram.TotalCount() == 0 {
		return fmt.Errorf("stall: none of %d offers began during a replace, more --seconds or --objects are needed", o.made)
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

// stallHandler notes when the offers were handled, and counts the updates, those of relists too.
type stallHandler struct {
	offers  atomic.Pointer[offers]
	updates int // the consumer's, read when it has ended
}

func (h *stallHandler) OnAdd(any, bool) {}

func (h *stallHandler) OnDelete(any) {}

func (h *stallHandler) OnUpdate(_, object any) {
	h.updates++
	// Only offers have a version that starts with an e: the API's and the generated ones are numbers.
	version := object.(metav1.Object).GetResourceVersion()
	if version == "" || version[0] != 'e' {
		return
	}
	o := h.offers.Load()
	seq, err := strconv.Atoi(version[1:])
	// A late offer of the phase before has the same version as one of this phase, but is another object.
	if err != nil || seq >= len(o.objects) || o.objects[seq] != object {
		return
	}
	o.handledAt[seq].Store(int64(time.Since(o.start)))
	o.handled.Add(1)
}

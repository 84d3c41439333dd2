package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

func hex(v uint64) string { return fmt.Sprintf("%016x", v) }

// rowsOf runs the program as its caller does, and reads the rows that it prints.
func rowsOf(t *testing.T, args string) []row {
	t.Helper()
	var stdout bytes.Buffer
	if err := run(strings.Fields(args), &stdout); err != nil {
		t.Fatalf("%s: %v", args, err)
	}
	var rows []row
	done := false
	lines := json.NewDecoder(&stdout)
	for lines.More() {
		var line struct {
			Row  *row           `json:"row"`
			Done map[string]any `json:"done"`
		}
		if err := lines.Decode(&line); err != nil {
			t.Fatalf("%s: %v", args, err)
		}
		if line.Row != nil {
			rows = append(rows, *line.Row)
		}
		done = line.Done != nil
	}
	if !done {
		t.Errorf("%s: the last line is not done", args)
	}
	return rows
}

// expectCounts compares the integers of the extra, which JSON has made floats.
func expectCounts(t *testing.T, r row, adds, updates, deletes, storeLen int) {
	t.Helper()
	got := fmt.Sprint(r.Extra["adds"], r.Extra["updates"], r.Extra["deletes"], r.Extra["store_len"])
	if want := fmt.Sprint(float64(adds), float64(updates), float64(deletes), float64(storeLen)); got != want {
		t.Errorf("%s %s: adds, updates, deletes, length are %s, want %s", r.Workload, r.Variant, got, want)
	}
	if r.Value <= 0 {
		t.Errorf("%s %s: value %v", r.Workload, r.Variant, r.Value)
	}
}

func TestListsCountAndAgree(t *testing.T) {
	small := generated{objects: 1000}
	same := mustDigest(t, objects(small, samePlan(1000), noProgress))
	churned := mustDigest(t, objects(small, churnPlan(1000), noProgress))
	for _, engine := range engineNames {
		t.Run(engine, func(t *testing.T) {
			t.Parallel() // the informer sleeps most of the time
			rows := rowsOf(t, "--engine "+engine+" --workload initial,relist,churn --objects 1000")
			if len(rows) != 3 {
				t.Fatalf("%d rows", len(rows))
			}
			expectCounts(t, rows[0], 1000, 0, 0, 1000)
			expectCounts(t, rows[1], 0, 1000, 0, 1000)
			expectCounts(t, rows[2], 10, 990, 10, 1000)
			for i, want := range []string{same, same, churned} {
				if got := rows[i].Extra["store_digest"]; got != want {
					t.Errorf("%s: digest %v, want %s", rows[i].Workload, got, want)
				}
			}
		})
	}
}

// Without the workloads before it, churn must find the engine in the same state as with them.
func TestChurnAloneFillsFirst(t *testing.T) {
	for _, n := range []int{1, 99, 150} {
		for _, engine := range engineNames[:2] {
			rows := rowsOf(t, fmt.Sprintf("--engine %s --workload churn --objects %d", engine, n))
			if len(rows) != 1 {
				t.Fatalf("%d rows", len(rows))
			}
			expectCounts(t, rows[0], n/100, n-gone(n), gone(n), n-gone(n)+n/100)
		}
	}
}

func TestEventsAllArriveInOrder(t *testing.T) {
	digests := map[string]any{}
	for _, engine := range engineNames {
		rows := rowsOf(t, "--engine "+engine+" --workload events --objects 1000 --events 5000")
		want := len(eventVariants())
		if engine == engineInformer {
			want = 1
		}
		if len(rows) != want {
			t.Fatalf("%s: %d rows, want %d", engine, len(rows), want)
		}
		for _, r := range rows {
			expectCounts(t, r, 0, 5000, 0, 1000)
			// The last update of every object wins, with every shape and engine.
			keys, _, _ := strings.Cut(r.Variant, "-")
			if seen, ok := digests[keys]; ok && seen != r.Extra["store_digest"] {
				t.Errorf("%s %s: digest %v, want %v", engine, r.Variant, r.Extra["store_digest"], seen)
			}
			digests[keys] = r.Extra["store_digest"]
		}
	}
}

func TestQueuesGetTheirUpdatesInAlternateSlices(t *testing.T) {
	for place, want := range [2][]time.Duration{{0, 100, 400, 500, 800}, {200, 300, 600, 700, 1000}} {
		offers := offers{perSlice: 2, place: place}
		for seq := range want {
			if at := offers.intended(seq); at != want[seq]*time.Microsecond {
				t.Errorf("queue %d, offer %d: at %v", place, seq, at)
			}
		}
	}
}

func TestStallHasAllItsRows(t *testing.T) {
	small := generated{objects: 5000}
	filled := mustDigest(t, objects(small, samePlan(5000), noProgress))
	twin := mustDigest(t, objects(small, hotPlan(5000), noProgress))
	for _, engine := range engineNames[:2] {
		rows := rowsOf(t, "--engine "+engine+" --workload stall --objects 5000 --seconds 0.5")
		var variants []string
		for _, r := range rows {
			variants = append(variants, r.Variant)
			if r.Extra["unhandled"] != 0.0 || r.Extra["offers"] == 0.0 || r.Extra["replaces"] == 0.0 {
				t.Errorf("%s %s: %v", engine, r.Variant, r.Extra)
			}
			want, length := filled, 5000.0
			if strings.HasPrefix(r.Variant, "control-") {
				want, length = twin, 1000.0
			}
			if r.Extra["store_digest"] != want || r.Extra["store_len"] != length {
				t.Errorf("%s %s: the store holds %v, %v", engine, r.Variant, r.Extra["store_len"], r.Extra["store_digest"])
			}
		}
		if fmt.Sprint(variants) != fmt.Sprint(stallVariants()) {
			t.Errorf("%s: rows %v", engine, variants)
		}
	}
}

func TestVariantsAreSelected(t *testing.T) {
	rows := rowsOf(t, "--engine client-go-realfifo --workload events --objects 100 --events 500 --variant zipf-2x2,uniform-4x4-burst")
	if len(rows) != 1 || rows[0].Variant != "zipf-2x2" || rows[0].Extra["consumers"] != 1.0 {
		t.Errorf("rows %+v", rows)
	}
}

func TestQuantiles(t *testing.T) {
	noted := newLatencies()
	for micros := range 1000 {
		noted.note(time.Duration(micros+1) * time.Microsecond)
	}
	near := func(seconds, micros float64) bool { return math.Abs(seconds*1e6/micros-1) < 2e-3 }
	for _, want := range [][2]float64{{0, 1}, {0.5, 500}, {0.99, 990}, {0.999, 999}, {1, 1000}} {
		if got := noted.seconds(want[0]); !near(got, want[1]) {
			t.Errorf("quantile %v is %v s, want %v µs", want[0], got, want[1])
		}
	}
	noted.note(24 * time.Hour)
	if got := noted.seconds(1); !near(got, 3.6e9) {
		t.Errorf("what is too long counts as %v s", got)
	}
}

// variantsOf checks the samples of all rows and the curves of medians, and returns the variants.
func variantsOf(t *testing.T, rows []row) []string {
	t.Helper()
	var variants []string
	for _, r := range rows {
		variants = append(variants, r.Variant)
		if r.Unit == "s" && (r.Extra["samples"] == nil || r.Extra["largest"].(float64) < r.Value) {
			t.Errorf("%s %s: %v is of %v samples, the largest %v", r.Workload, r.Variant, r.Value, r.Extra["samples"], r.Extra["largest"])
		}
		if curve, has := r.Extra["curve"].([]any); has != strings.HasSuffix(r.Variant, "p50") || has && len(curve) != len(curveQuantiles) {
			t.Errorf("%s %s: curve %v", r.Workload, r.Variant, curve)
		}
	}
	return variants
}

func TestReadersMissNothing(t *testing.T) {
	same := mustDigest(t, objects(generated{objects: 5000}, samePlan(5000), noProgress))
	const want = "[idle-1-thread-p50 idle-1-thread-p99.9 idle-1-thread-p99.99 idle-1-thread-max " +
		"1-thread-p50 1-thread-p99.9 1-thread-p99.99 1-thread-max " +
		"idle-4-thread-p50 idle-4-thread-p99.9 idle-4-thread-p99.99 4-thread-p50 4-thread-p99.9 4-thread-p99.99]"
	for _, engine := range engineNames {
		t.Run(engine, func(t *testing.T) {
			t.Parallel() // the informer sleeps most of the time
			rows := rowsOf(t, "--engine "+engine+" --workload readers --objects 5000 --seconds 0.2")
			if got := fmt.Sprint(variantsOf(t, rows)); got != want {
				t.Errorf("rows %s", got)
			}
			for _, r := range rows {
				relists := r.Extra["replaces"] != 0.0
				if r.Value <= 0 || r.Extra["gets"] == 0.0 || relists == strings.HasPrefix(r.Variant, "idle-") {
					t.Errorf("%s: %v, %v", r.Variant, r.Value, r.Extra)
				}
				if strings.HasPrefix(r.Variant, "idle-1-") {
					expectCounts(t, r, 5000, 0, 0, 5000)
				} else {
					expectCounts(t, r, 0, 5000, 0, 5000)
				}
				if r.Extra["store_digest"] != same {
					t.Errorf("%s: digest %v", r.Variant, r.Extra["store_digest"])
				}
			}
		})
	}
}

func TestSlowHandlersSeeEverything(t *testing.T) {
	for _, engine := range engineNames {
		rows := rowsOf(t, "--engine "+engine+" --workload slow-handler --objects 1000 --events 3000")
		shapes := 2
		if engine == engineInformer {
			shapes = 1
		}
		if variants := variantsOf(t, rows); len(rows) != 3*shapes*5 || variants[0] != "0us-1-consumer-add-p50" || variants[4] != "0us-1-consumer-rate" {
			t.Errorf("%s: rows %v", engine, variants)
		}
		for _, r := range rows {
			expectCounts(t, r, 0, 3000, 0, 1000)
			// One handler of 10 µs at a time: no engine here runs several.
			if strings.HasPrefix(r.Variant, "10us") && strings.HasSuffix(r.Variant, "rate") && r.Value > 100_000 {
				t.Errorf("%s %s: %v a second", engine, r.Variant, r.Value)
			}
		}
	}
}

func TestQueriesFindEverything(t *testing.T) {
	rows := rowsOf(t, "--engine client-go-deltafifo --workload queries --objects 5000")
	const want = "[by-index-p50 by-index-p99.9 by-index-max namespace-p50 namespace-p99.9 namespace-max " +
		"selector-p50 selector-p99.9 selector-max selector-scan-p50 selector-scan-max]"
	if got := fmt.Sprint(variantsOf(t, rows)); got != want {
		t.Fatalf("rows %s", got)
	}
	for _, r := range rows {
		answers := 5000.0
		switch {
		case strings.HasPrefix(r.Variant, "selector-scan"):
			answers = 20 * 4
		case strings.HasPrefix(r.Variant, "selector"):
			// One of the five objects of an app is excluded.
			answers = 1000 * 4
		}
		if r.Value <= 0 || r.Extra["answers"] != answers {
			t.Errorf("%s: %v, %v", r.Variant, r.Value, r.Extra)
		}
	}
	if nodes, namespaces := rows[0].Extra["values"].(float64), rows[3].Extra; nodes < 900 || nodes > 1000 ||
		namespaces["values"] != 500.0 || namespaces["objects_per_call"] != 10.0 {
		t.Errorf("%v nodes, namespaces %v", nodes, namespaces)
	}
}

func TestWorkQueueTakesEverything(t *testing.T) {
	rows := rowsOf(t, "--engine client-go-deltafifo --workload workqueue --objects 5000")
	const want = "[turns-1 turns-4 turns-8 backlog-1 backlog-4 backlog-8 workers-1x1 workers-4x4 workers-8x8]"
	var variants []string
	for _, r := range rows {
		variants = append(variants, r.Variant)
		if r.Value <= 0 || r.Extra["taken"] != 5000.0 {
			t.Errorf("%s: %v, %v", r.Variant, r.Value, r.Extra)
		}
	}
	if got := fmt.Sprint(variants); got != want {
		t.Errorf("rows %s", got)
	}
}

func TestMemoryGrowsWithWhatIsPending(t *testing.T) {
	same := mustDigest(t, objects(generated{objects: 20000}, samePlan(20000), noProgress))
	for _, engine := range engineNames {
		rows := rowsOf(t, "--engine "+engine+" --workload memory --objects 20000")
		want := "[idle pending-1 pending-2 pending-8 relist-peak]"
		if engine == engineInformer {
			want = "[idle relist-peak]"
		}
		if got := fmt.Sprint(variantsOf(t, rows)); got != want {
			t.Errorf("%s: rows %s", engine, got)
		}
		for _, r := range rows {
			switch {
			case r.Variant == "idle":
				expectCounts(t, r, 20000, 0, 0, 20000)
			case r.Variant == "relist-peak":
				expectCounts(t, r, 0, 20000, 0, 20000)
			default:
				expectCounts(t, r, 0, 8*20000, 0, 20000)
			}
			if r.Extra["store_digest"] != same {
				t.Errorf("%s %s: digest %v", engine, r.Variant, r.Extra["store_digest"])
			}
		}
		// A key is a string of about 30 bytes, in a map.
		if rows[0].Unit != "B" || rows[0].Value < 30 {
			t.Errorf("%s: %v %s a key", engine, rows[0].Value, rows[0].Unit)
		}
		if engine != engineInformer && !(rows[1].Value < rows[2].Value && rows[2].Value < rows[3].Value) {
			t.Errorf("%s: pending takes %v, %v, %v", engine, rows[1].Value, rows[2].Value, rows[3].Value)
		}
	}
}

func TestWrongArguments(t *testing.T) {
	for _, args := range []string{
		"",
		"--engine other --workload initial --objects 10",
		"--engine client-go-realfifo --workload other --objects 10",
		"--engine client-go-realfifo --objects 10",
		"--engine client-go-realfifo --workload initial --objects 0",
		"--engine client-go-realfifo --workload initial --objects -1",
		"--engine client-go-realfifo --workload events --events -1",
		"--engine client-go-realfifo --workload stall --seconds 0",
		"--engine client-go-realfifo --workload events --variant other",
		"--engine client-go-realfifo --workload initial --unknown",
		"--engine client-go-realfifo --workload initial surplus",
	} {
		var stdout bytes.Buffer
		if err := run(strings.Fields(args), &stdout); err == nil || stdout.Len() > 0 {
			t.Errorf("%q: error %v, printed %q", args, err, stdout.String())
		}
	}
}

func TestVersionOnly(t *testing.T) {
	var stdout bytes.Buffer
	if err := run([]string{"--version-only"}, &stdout); err != nil {
		t.Fatal(err)
	}
	var line map[string]string
	if err := json.Unmarshal(stdout.Bytes(), &line); err != nil || !strings.HasPrefix(line["version"], "client-go v0.37.") {
		t.Errorf("printed %q: %v", stdout.String(), err)
	}
}

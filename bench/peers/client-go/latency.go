package main

import (
	"maps"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// latencies is a histogram of durations with three significant digits.
type latencies struct{ histogram *hdrhistogram.Histogram }

// longest is the largest recorded duration. Longer ones count as this.
const longest = time.Hour

func newLatencies() latencies {
	return latencies{hdrhistogram.New(1, int64(longest), 3)}
}

func (l latencies) note(took time.Duration) {
	_ = l.histogram.RecordValue(int64(min(max(took, 0), longest))) // the value is within the bounds
}

// quantile is a quantile and its name in variants.
type quantile struct {
	name  string
	value float64
}

var (
	p50   = quantile{"p50", 0.5}
	p99   = quantile{"p99", 0.99}
	p999  = quantile{"p99.9", 0.999}
	p9999 = quantile{"p99.99", 0.9999}
	worst = quantile{"max", 1}
)

// curveQuantiles are the quantiles of the field curve.
var curveQuantiles = []float64{0, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9995, 0.9999, 0.99999, 1}

func (l latencies) seconds(value float64) float64 {
	return time.Duration(l.histogram.ValueAtPercentile(100 * value)).Seconds()
}

// report writes the rows of these quantiles, each with the number of samples and the largest
// sample: with few samples a percentile is not shown (bench/src/report/percentile.rs). The row of
// the median also has the field curve: pairs of a quantile and its time in seconds.
func (l latencies) report(out *output, workload, prefix string, quantiles []quantile, extra map[string]any) error {
	for _, q := range quantiles {
		r := row{Workload: workload, Variant: prefix + q.name, Unit: "s", Value: l.seconds(q.value), Extra: maps.Clone(extra)}
		r.Extra["samples"], r.Extra["largest"] = l.histogram.TotalCount(), l.seconds(worst.value)
		if q == p50 {
			curve := make([][2]float64, len(curveQuantiles))
			for i, value := range curveQuantiles {
				curve[i] = [2]float64{value, l.seconds(value)}
			}
			r.Extra["curve"] = curve
		}
		if err := out.row(r); err != nil {
			return err
		}
	}
	return nil
}

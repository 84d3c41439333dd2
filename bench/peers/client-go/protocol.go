package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"time"
)

// output writes the protocol: one JSON object a line, with a single field that names the kind of
// line.
type output struct {
	to           io.Writer
	lastProgress time.Time
}

// row is a figure. Extra has everything else that is known about the run.
type row struct {
	Workload string         `json:"workload"`
	Variant  string         `json:"variant"`
	Unit     string         `json:"unit"`
	Value    float64        `json:"value"`
	Extra    map[string]any `json:"extra"`
}

func (o *output) line(value any) error { return json.NewEncoder(o.to).Encode(value) }

func (o *output) row(r row) error { return o.line(map[string]row{"row": r}) }

// progress is called often, and prints at most ten times a second. If printing fails, the next row
// reports it.
func (o *output) progress(what string, done, total int) {
	if done%1024 != 0 || time.Since(o.lastProgress) < 100*time.Millisecond {
		return
	}
	o.lastProgress = time.Now()
	_ = o.line(map[string]any{"progress": map[string]any{"what": what, "done": done, "total": total}})
}

func (o *output) version() error { return o.line(map[string]string{"version": versions()}) }

// done prints the versions and the other settings that the figures depend on: the number of threads
// and the settings of the collector.
func (o *output) done() error {
	gogc := os.Getenv("GOGC")
	if gogc == "" {
		gogc = "100"
	}
	text := fmt.Sprintf("%s, GOMAXPROCS=%d GOGC=%s", versions(), runtime.GOMAXPROCS(0), gogc)
	if limit := os.Getenv("GOMEMLIMIT"); limit != "" {
		text += " GOMEMLIMIT=" + limit
	}
	return o.line(map[string]any{"done": map[string]string{"version": text}})
}

// versions reads the versions that the build recorded, because go.mod may have changed since.
func versions() string {
	version := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if module.Path == "k8s.io/client-go" {
				version = module.Version
			}
		}
	}
	return "client-go " + version + ", " + runtime.Version()
}

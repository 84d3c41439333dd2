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

// output writes the protocol: one JSON object a line, each with a single field that says what it is.
type output struct {
	to           io.Writer
	lastProgress time.Time
}

// row is one figure. What else is known about the run goes into Extra.
type row struct {
	Workload string         `json:"workload"`
	Variant  string         `json:"variant"`
	Unit     string         `json:"unit"`
	Value    float64        `json:"value"`
	Extra    map[string]any `json:"extra"`
}

func (o *output) line(value any) error { return json.NewEncoder(o.to).Encode(value) }

func (o *output) row(r row) error { return o.line(map[string]row{"row": r}) }

// progress is called often and speaks at most ten times a second. A failure to write it shows at the next row.
func (o *output) progress(what string, done, total int) {
	if done%1024 != 0 || time.Since(o.lastProgress) < 100*time.Millisecond {
		return
	}
	o.lastProgress = time.Now()
	_ = o.line(map[string]any{"progress": map[string]any{"what": what, "done": done, "total": total}})
}

func (o *output) version() error { return o.line(map[string]string{"version": versions()}) }

// done names what the numbers depend on beside the versions: the number of threads and the collector's setting.
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

// versions reads the build's own record, so that it is true whatever go.mod says when this is read.
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

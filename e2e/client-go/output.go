package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net/http"
)

// A line of the output; exactly one field is set.
type line struct {
	Notified *notified `json:"notified,omitempty"`
	// A request: whether it asks for all objects, and not only for changes.
	FullRequest *bool            `json:"full_request,omitempty"`
	Stored      map[string]state `json:"stored,omitzero"`
	Ended       *struct{}        `json:"ended,omitempty"`
}

type notified struct {
	Handler string `json:"handler"`
	Key     string `json:"key"`
	Change  change `json:"change"`
}

// Exactly one field is set.
type change struct {
	Added   *added   `json:"added,omitempty"`
	Updated *updated `json:"updated,omitempty"`
	Deleted *deleted `json:"deleted,omitempty"`
}

type added struct {
	New state `json:"new"`
}

type updated struct {
	Old state `json:"old"`
	New state `json:"new"`
}

type deleted struct {
	// Null if a tombstone has no object.
	Last        *state `json:"last"`
	IsTombstone bool   `json:"is_tombstone"`
}

type state struct {
	UID     string `json:"uid"`
	Version string `json:"version"`
}

// Lines to be written. They are flushed as soon as no further line is ready.
type output struct {
	lines chan line
	ended chan error
}

func startOutput(out io.Writer) *output {
	o := &output{lines: make(chan line, 1024), ended: make(chan error, 1)}
	go func() { o.ended <- o.write(bufio.NewWriter(out)) }()
	return o
}

func (o *output) write(out *bufio.Writer) (err error) {
	encoder := json.NewEncoder(out)
	for line := range o.lines {
		// After an error the lines have no reader, and the goroutines that send them must not
		// block.
		if err == nil {
			err = encoder.Encode(line)
		}
		if err == nil && len(o.lines) == 0 {
			err = out.Flush()
		}
		if line.Ended != nil {
			return errors.Join(err, out.Flush())
		}
	}
	return err
}

func (o *output) send(line line) { o.lines <- line }

// Writes that this was the last line, and waits until it is written. A request that is cancelled
// later is not recorded.
func (o *output) stop() error {
	o.send(line{Ended: &struct{}{}})
	return <-o.ended
}

// Records each request.
func (o *output) requests(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		query := request.URL.Query()
		all := query.Get("watch") == "" || query.Get("sendInitialEvents") == "true"
		o.send(line{FullRequest: &all})
		return next.RoundTrip(request)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }

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
	Told *told `json:"told,omitempty"`
	// A request: whether it asks for all objects, and not only for changes.
	AskedForAll *bool            `json:"asked_for_all,omitempty"`
	Stored      map[string]state `json:"stored,omitzero"`
	Ended       *struct{}        `json:"ended,omitempty"`
}

type told struct {
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
type saying struct {
	lines chan line
	ended chan error
}

func startSaying(out io.Writer) *saying {
	s := &saying{lines: make(chan line, 1024), ended: make(chan error, 1)}
	go func() { s.ended <- s.write(bufio.NewWriter(out)) }()
	return s
}

func (s *saying) write(out *bufio.Writer) (err error) {
	encoder := json.NewEncoder(out)
	for line := range s.lines {
		// After an error the lines have no reader, and the goroutines that send them must not block.
		if err == nil {
			err = encoder.Encode(line)
		}
		if err == nil && len(s.lines) == 0 {
			err = out.Flush()
		}
		if line.Ended != nil {
			return errors.Join(err, out.Flush())
		}
	}
	return err
}

func (s *saying) say(what line) { s.lines <- what }

// Writes that this was the last line, and waits until it is written. A request that is cancelled
// later is not recorded.
func (s *saying) stop() error {
	s.say(line{Ended: &struct{}{}})
	return <-s.ended
}

// Records each request.
func (s *saying) requests(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		asked := request.URL.Query()
		all := asked.Get("watch") == "" || asked.Get("sendInitialEvents") == "true"
		s.say(line{AskedForAll: &all})
		return next.RoundTrip(request)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }

package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// cut is a layer between the client and the server that makes the client relist in its own way. The
// events of a watch are held back while objects change. Then the watch ends, and the next one is
// refused, as by a server that does not know its version any more. The clients in Rust have the
// same cut (bench/src/server/client/cut.rs), but within the watch: kube-rs would repeat a refused
// watch for ever.
type cut struct {
	watching, held, expired chan struct{}
	watch, refuse           sync.Once
}

func newCut() *cut {
	return &cut{watching: make(chan struct{}), held: make(chan struct{}), expired: make(chan struct{})}
}

// hold waits until there is a watch, and holds back its events from now on.
func (c *cut) hold() {
	<-c.watching
	close(c.held)
}

// expire ends the held watch.
func (c *cut) expire() { close(c.expired) }

func isClosed(channel chan struct{}) bool {
	select {
	case <-channel:
		return true
	default:
		return false
	}
}

func (c *cut) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		query := request.URL.Query()
		if query.Get("watch") == "" {
			return next.RoundTrip(request)
		}
		if isClosed(c.expired) && query.Get("sendInitialEvents") == "" {
			var refused *http.Response
			c.refuse.Do(func() { refused = gone(request) })
			if refused != nil {
				return refused, nil
			}
		}
		response, err := next.RoundTrip(request)
		if err == nil && !isClosed(c.expired) {
			response.Body = &cuttable{ReadCloser: response.Body, cut: c}
			c.watch.Do(func() { close(c.watching) })
		}
		return response, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }

// cuttable is the body of a watch that was opened before the end of the cut.
type cuttable struct {
	io.ReadCloser
	cut *cut
}

// Read first waits for data. There will be some, because objects change while a watch is held.
func (b *cuttable) Read(into []byte) (int, error) {
	read, err := b.ReadCloser.Read(into)
	if !isClosed(b.cut.held) {
		return read, err
	}
	<-b.cut.expired
	return 0, io.EOF
}

// gone returns the response of a server to a version that it does not know any more.
func gone(request *http.Request) *http.Response {
	status := apierrors.NewResourceExpired("too old resource version").ErrStatus
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	body, err := json.Marshal(status)
	if err != nil {
		panic(err) // plain data can always be encoded
	}
	return &http.Response{
		Status: "410 Gone", StatusCode: http.StatusGone, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        http.Header{"Content-Type": {"application/json"}},
		Body:          io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)),
		Request:       request,
	}
}

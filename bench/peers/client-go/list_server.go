package main

import (
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
)

const expiredEvent = `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},` +
	`"status":"Failure","message":"too old resource version","reason":"Expired","code":410}}` + "\n"

// listServer is a transport that answers lists from files. A first list comes from one file. When
// the watch that follows is ended, its version has expired, and the next list comes from the other
// file.
type listServer struct {
	first, second string
	// isSecond is closed when the second list is served.
	isSecond   chan struct{}
	relistOnce sync.Once
}

func newListServer(first, second string) *listServer {
	return &listServer{first: first, second: second, isSecond: make(chan struct{})}
}

// relist ends the watch, and serves the second list from now on.
func (s *listServer) relist() { s.relistOnce.Do(func() { close(s.isSecond) }) }

func (s *listServer) servesSecond() bool {
	select {
	case <-s.isSecond:
		return true
	default:
		return false
	}
}

// RoundTrip answers a list or a watch.
func (s *listServer) RoundTrip(request *http.Request) (*http.Response, error) {
	if watch := request.URL.Query().Get("watch"); watch == "true" || watch == "1" {
		return answer(request, s.watch(request)), nil
	}
	list := s.first
	if s.servesSecond() {
		list = s.second
	}
	file, err := os.Open(list)
	if err != nil {
		return nil, err
	}
	return answer(request, file), nil
}

// watch returns the body of a watch without events. A watch that is opened before the second list
// is served ends then, as if its version had expired.
func (s *listServer) watch(request *http.Request) io.ReadCloser {
	reader, writer := io.Pipe()
	var second chan struct{}
	if !s.servesSecond() {
		second = s.isSecond
	}
	go func() {
		select {
		case <-second:
			_, err := io.Copy(writer, strings.NewReader(expiredEvent))
			writer.CloseWithError(err)
		case <-request.Context().Done():
			writer.CloseWithError(request.Context().Err())
		}
	}()
	return reader
}

func answer(request *http.Request, body io.ReadCloser) *http.Response {
	return &http.Response{
		StatusCode: http.StatusOK,
		Proto:      "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:  http.Header{"Content-Type": {"application/json"}},
		Body:    body,
		Request: request,
	}
}

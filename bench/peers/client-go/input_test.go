package main

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

const twoPods = `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[
	{"metadata":{"name":"a","namespace":"x","resourceVersion":"3"}},
	{"metadata":{"name":"b","namespace":"x","resourceVersion":"4"}}]}`

func write(t *testing.T, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "input")
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func zipped(t *testing.T, text string) []byte {
	t.Helper()
	var buffer bytes.Buffer
	writer := gzip.NewWriter(&buffer)
	if _, err := writer.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

func TestPodsRepeatUnderNewNames(t *testing.T) {
	for name, content := range map[string][]byte{"json": []byte(twoPods), "gzip": zipped(t, twoPods)} {
		read, err := readPods(write(t, content))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var got []string
		for i := range 5 {
			version := ""
			if i == 4 {
				version = "2000004"
			}
			pod := read.object(i, version).(*corev1.Pod)
			got = append(got, pod.Namespace+"/"+pod.Name+"@"+pod.ResourceVersion)
		}
		if want := "x/a@3 x/b@4 x/a-r1@3 x/b-r1@4 x/a-r2@2000004"; strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", name, got, want)
		}
	}
}

func TestUselessInputIsRefused(t *testing.T) {
	whole := zipped(t, twoPods)
	for name, test := range map[string]struct {
		content []byte
		want    string
	}{
		"nothing":        {nil, "truncated"},
		"truncated":      {[]byte(twoPods[:100]), "truncated"},
		"truncated gzip": {whole[:len(whole)/2], "truncated"},
		"not a list":     {[]byte(`{"kind":"Pod","apiVersion":"v1"}`), "not a List"},
		"no kind":        {[]byte(`{}`), "not a List"},
		"other kind":     {[]byte(`{"kind":"NodeList","apiVersion":"v1","items":[{}]}`), "NodeList"},
		"empty":          {[]byte(`{"kind":"PodList","apiVersion":"v1","items":[]}`), "empty"},
		"no items":       {[]byte(`{"kind":"PodList","apiVersion":"v1"}`), "empty"},
		"nameless":       {[]byte(`{"kind":"PodList","apiVersion":"v1","items":[{}]}`), "item 0"},
		"odd items":      {[]byte(`{"kind":"PodList","apiVersion":"v1","items":{"a":1}}`), "not pods"},
	} {
		if _, err := readPods(write(t, test.content)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want one about %q", name, err, test.want)
		}
	}
	if _, err := readPods(filepath.Join(t.TempDir(), "absent")); err == nil {
		t.Error("a missing file was read")
	}
}

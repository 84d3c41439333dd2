package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// pods repeats the pods of a real LIST response under new names. Every object is a deep copy of a
// pod. Go's deep copies share their strings.
type pods struct{ items []corev1.Pod }

func (p *pods) example() runtime.Object { return &corev1.Pod{} }

func (p *pods) object(index int, version string) runtime.Object {
	pod := &corev1.Pod{}
	p.fill(pod, index, version)
	return pod
}

func (p *pods) list(plan plan, version string, progress func(done, total int)) runtime.Object {
	list := &corev1.PodList{Items: fillItems(plan, p.fill, progress)}
	list.ResourceVersion = version
	return list
}

func (p *pods) fill(pod *corev1.Pod, index int, version string) {
	p.items[index%len(p.items)].DeepCopyInto(pod)
	if round := index / len(p.items); round > 0 {
		pod.Name += "-r" + strconv.Itoa(round)
	}
	if version != "" {
		pod.ResourceVersion = strings.Clone(version)
	}
}

// readPods reads a LIST response. The content, not the file's name, decides whether it is JSON or
// gzipped JSON.
func readPods(path string) (*pods, error) {
	fail := func(err error) (*pods, error) { return nil, fmt.Errorf("input %s: %w", path, err) }
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("input: %w", err)
	}
	if bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		unzip, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			return fail(err)
		}
		if data, err = io.ReadAll(unzip); err != nil {
			return fail(fmt.Errorf("truncated or damaged gzip: %w", err))
		}
	}
	// The kind is checked first, so that a list of another kind is reported as that, and not as a
	// list of invalid pods.
	var head struct {
		Kind       string          `json:"kind"`
		APIVersion string          `json:"apiVersion"`
		Items      json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return fail(fmt.Errorf("truncated or not JSON of a List: %w", err))
	}
	if !strings.HasSuffix(head.Kind, "List") {
		return fail(fmt.Errorf("not a List: its kind is %q", head.Kind))
	}
	if head.Kind != "PodList" || head.APIVersion != "v1" {
		return fail(fmt.Errorf("a %s of %q: only a PodList of \"v1\" can be used", head.Kind, head.APIVersion))
	}
	read := &pods{}
	if len(head.Items) > 0 {
		if err := json.Unmarshal(head.Items, &read.items); err != nil {
			return fail(fmt.Errorf("items are not pods: %w", err))
		}
	}
	if len(read.items) == 0 {
		return fail(errors.New("the list is empty"))
	}
	for i, pod := range read.items {
		if pod.Name == "" || (pod.Kind != "" && pod.Kind != "Pod") {
			return fail(fmt.Errorf("item %d is not a pod with a name", i))
		}
	}
	return read, nil
}

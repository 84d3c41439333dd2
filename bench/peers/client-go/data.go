package main

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// source creates the objects of a run. Every call creates a new object, as a decoder would, so a
// relist never contains the objects that are already known.
type source interface {
	// example returns an object of the type that this source creates.
	example() kruntime.Object
	// object creates object number index, with its original version if version is empty.
	object(index int, version string) kruntime.Object
	// list creates the typed list of a plan, with items by value, as client-go's decoder does.
	list(p plan, version string, progress func(done, total int)) kruntime.Object
}

func openSource(opts *options) (source, error) {
	if opts.input == "" {
		return generated{objects: opts.objects}, nil
	}
	return readPods(opts.input)
}

// objects creates the objects of a plan one by one, each in an allocation of its own, as the queues
// take them.
func objects(s source, p plan, progress func(done, total int)) []any {
	made := make([]any, p.len)
	onAllCores(p, progress, func(at, index int, version string) { made[at] = s.object(index, version) })
	return made
}

// onAllCores visits every entry of a plan; each core visits one part. Lists are built outside the
// measured time, but that takes longer than most of the measurements.
func onAllCores(p plan, progress func(done, total int), visit func(at, index int, version string)) {
	cores := runtime.GOMAXPROCS(0)
	var working sync.WaitGroup
	for core := range cores {
		working.Go(func() {
			at := 0
			for index, version := range p.each {
				if at*cores/p.len == core {
					visit(at, index, version)
					if core == 0 {
						progress((at+1)*cores, p.len)
					}
				}
				at++
			}
		})
	}
	working.Wait()
}

// generated creates the metadata of pods, byte for byte as the children in Rust create it.
type generated struct{ objects int }

const (
	apps       = 1000
	namespaces = 500
)

func (g generated) example() kruntime.Object { return &metav1.PartialObjectMetadata{} }

func (g generated) object(index int, version string) kruntime.Object {
	object := &metav1.PartialObjectMetadata{}
	g.fill(object, index, version)
	return object
}

func (g generated) list(p plan, version string, progress func(done, total int)) kruntime.Object {
	list := &metav1.PartialObjectMetadataList{Items: fillItems(p, g.fill, progress)}
	list.ResourceVersion = version
	return list
}

// fillItems creates a list's items by value.
func fillItems[T any](p plan, fill func(*T, int, string), progress func(done, total int)) []T {
	items := make([]T, p.len)
	onAllCores(p, progress, func(at, index int, version string) { fill(&items[at], index, version) })
	return items
}

// fill writes object number index. Every string has an allocation of its own, also those with the
// same content in all objects, because a decoder does not share strings.
func (g generated) fill(object *metav1.PartialObjectMetadata, index int, version string) {
	x := splitmix64(uint64(index))
	perNamespace := (g.objects + namespaces - 1) / namespaces
	object.Namespace = fmt.Sprintf("team-%04d", index/perNamespace%namespaces)
	object.Name = fmt.Sprintf("web-%07d-%s", index, suffix5(uint64(index)))
	object.UID = types.UID(fmt.Sprintf("%08x-%04x-4%03x-8%03x-%012x", x>>32, x>>16&0xffff, x&0xfff, x>>12&0xfff, index))
	object.ResourceVersion = strings.Clone(version)
	if version == "" {
		object.ResourceVersion = strconv.Itoa(1_000_000 + index)
	}
	object.Labels = map[string]string{
		strings.Clone("app"):               fmt.Sprintf("app-%04d", index%apps),
		strings.Clone("pod-template-hash"): suffix5(uint64(index / 10)),
	}
}

const alphabet = "bcdfghjklmnpqrstvwxz2456789"

// suffix5 returns a suffix of the kind that Kubernetes appends to names, derived from a number.
func suffix5(i uint64) string {
	x := splitmix64(i)
	var suffix [5]byte
	for j := range suffix {
		suffix[j] = alphabet[(x>>(8*j)&0xff)%uint64(len(alphabet))]
	}
	return string(suffix[:])
}

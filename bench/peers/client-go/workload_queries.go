package main

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/cache"
)

const (
	// queryCalls is how often each index is asked.
	queryCalls = 10_000
	nodeIndex  = "node"
	nodes      = 1000
)

// nodeIndexFunc is the index that a user would have: by the node that a pod runs on. What is generated runs nowhere, so
// each object's name is hashed to one of a thousand nodes.
func nodeIndexFunc(object any) ([]string, error) {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return nil, err
	}
	return []string{fmt.Sprintf("node-%04d", fnv1a(accessor.GetName())%nodes)}, nil
}

// runQueries measures how long it takes to find objects by an index: those of one of a thousand nodes, scattered over
// all, and those of one namespace, which a list has next to each other.
func runQueries(opts *options, data source, out *output) error {
	listed := objects(data, samePlan(opts.objects), func(done, total int) { out.progress("building objects", done, total) })
	indexers := namespaceIndex()
	indexers[nodeIndex] = nodeIndexFunc
	store := cache.NewIndexer(cache.DeletionHandlingMetaNamespaceKeyFunc, indexers)
	if err := store.Replace(listed, "1"); err != nil {
		return err
	}
	for _, index := range []struct{ variant, name string }{{"by-index", nodeIndex}, {"namespace", cache.NamespaceIndex}} {
		values, extra, err := checkIndex(store, index.name, listed)
		if err != nil {
			return err
		}
		memory := markMemory(opts.objects, indexGrowth)
		took, found := newLatencies(), 0
		for call := range queryCalls {
			value := values[uniformKey(call, len(values))]
			began := time.Now()
			answer, err := store.ByIndex(index.name, value)
			took.note(time.Since(began))
			if err != nil {
				return err
			}
			found += len(answer)
		}
		memory.addTo(extra)
		extra["calls"], extra["objects_per_call"] = queryCalls, float64(found)/queryCalls
		if err := took.report(out, "queries", index.variant+"-", []quantile{p50, p999, worst}, extra); err != nil {
			return err
		}
	}
	return nil
}

// checkIndex asks for every value that there is, and compares the answers with the list. It returns the values, and what
// is to be compared with other engines.
func checkIndex(store cache.Indexer, name string, listed []any) ([]string, map[string]any, error) {
	var wanted, got uint64
	answers, values := 0, map[string]bool{}
	for _, object := range listed {
		of, err := store.GetIndexers()[name](object)
		if err != nil {
			return nil, nil, err
		}
		hash, err := foundHash(of[0], object)
		if err != nil {
			return nil, nil, err
		}
		values[of[0]] = true
		wanted += hash
	}
	sorted := make([]string, 0, len(values))
	for value := range values {
		sorted = append(sorted, value)
	}
	slices.Sort(sorted)
	for _, value := range sorted {
		answer, err := store.ByIndex(name, value)
		if err != nil {
			return nil, nil, err
		}
		for _, object := range answer {
			hash, err := foundHash(value, object)
			if err != nil {
				return nil, nil, err
			}
			got += hash
		}
		answers += len(answer)
	}
	if got != wanted || answers != len(listed) {
		return nil, nil, fmt.Errorf("queries %s: found %d objects, other ones than the %d of the list", name, answers, len(listed))
	}
	extra := map[string]any{"values": len(sorted), "answers": answers, "answers_digest": fmt.Sprintf("%016x", got)}
	return sorted, extra, nil
}

// foundHash is an object's share of a digest of answers: under another value it is another one.
func foundHash(value string, object any) (uint64, error) {
	key, err := cache.MetaNamespaceKeyFunc(object)
	if err != nil {
		return 0, err
	}
	accessor, err := meta.Accessor(object)
	if err != nil {
		return 0, err
	}
	return fnv1a(value + "\x00" + key + "\x00" + accessor.GetResourceVersion()), nil
}

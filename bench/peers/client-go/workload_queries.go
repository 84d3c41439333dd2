package main

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/cache"
)

const (
	// queryCalls is the number of look-ups in each index.
	queryCalls = 10_000
	nodeIndex  = "node"
	nodes      = 1000
)

// nodeIndexFunc is the index by node. Generated objects do not run on a node, so the object's name
// is hashed to one of a thousand nodes.
func nodeIndexFunc(object any) ([]string, error) {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return nil, err
	}
	return []string{fmt.Sprintf("node-%04d", fnv1a(accessor.GetName())%nodes)}, nil
}

// runQueries measures the time of index look-ups: of the objects of one of a thousand nodes, which
// are spread over all objects, and of the objects of one namespace, which are next to each other in
// a list.
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

// checkIndex looks up every value, and compares the results with the list. It returns the values,
// and the fields that are compared between engines.
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

// foundHash returns the hash of an object that an index returned for a value. The hash includes the
// value.
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

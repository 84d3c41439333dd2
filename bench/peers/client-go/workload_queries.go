package main

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
)

const (
	// queryCalls is the number of look-ups of a variant with an index.
	queryCalls = 10_000
	// scans is the number of scans, each with a selector of its own.
	scans     = 20
	nodeIndex = "node"
	nodes     = 1000
	appIndex  = "app"
	// appLabel is the label whose value a selector requires, and templateLabel the label of which
	// it excludes one value.
	appLabel      = "app"
	templateLabel = "pod-template-hash"
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

// appIndexFunc is the index by the label app.
func appIndexFunc(object any) ([]string, error) {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return nil, err
	}
	if app, ok := accessor.GetLabels()[appLabel]; ok {
		return []string{app}, nil
	}
	return nil, nil
}

// runQueries measures the time of index look-ups. One index is by node; the objects of each of its
// thousand nodes are spread over all objects. The other one is by namespace; the objects of a
// namespace are next to each other in a list. Then runQueries measures label selectors, with an
// index of apps, and without one, as scans.
func runQueries(opts *options, data source, out *output) error {
	listed := objects(data, samePlan(opts.objects), func(done, total int) { out.progress("building objects", done, total) })
	indexers := namespaceIndex()
	indexers[nodeIndex], indexers[appIndex] = nodeIndexFunc, appIndexFunc
	store := cache.NewIndexer(cache.DeletionHandlingMetaNamespaceKeyFunc, indexers)
	if err := store.Replace(listed, "1"); err != nil {
		return err
	}
	for _, index := range []struct{ variant, name string }{{"by-index", nodeIndex}, {"namespace", cache.NamespaceIndex}} {
		values, err := indexedValues(listed, indexers[index.name])
		if err != nil {
			return err
		}
		find := func(q query) ([]any, error) { return store.ByIndex(index.name, q.value) }
		c := calls{variant: index.variant, count: queryCalls, queries: values, find: find}
		if err := c.run(opts, out); err != nil {
			return err
		}
	}
	queries, err := selectors(listed)
	if err != nil {
		return err
	}
	// Pods of a file may have no app.
	if len(queries) == 0 {
		return nil
	}
	byIndex := func(q query) ([]any, error) { return byAppAndFilter(store, q) }
	byScan := func(q query) ([]any, error) { return scan(store, q) }
	few := queries[:min(scans, len(queries))]
	for _, c := range []calls{
		{variant: "selector", count: queryCalls, queries: queries, find: byIndex},
		{variant: "selector-scan", count: scans, queries: few, find: byScan},
	} {
		if err := c.run(opts, out); err != nil {
			return err
		}
	}
	return nil
}

// byAppAndFilter looks up the app of a query, and filters the objects by the selector.
func byAppAndFilter(store cache.Indexer, q query) ([]any, error) {
	objects, err := store.ByIndex(appIndex, q.value)
	if err != nil {
		return nil, err
	}
	matching := objects[:0]
	for _, object := range objects {
		accessor, err := meta.Accessor(object)
		if err != nil {
			return nil, err
		}
		if q.selector.Matches(labels.Set(accessor.GetLabels())) {
			matching = append(matching, object)
		}
	}
	return matching, nil
}

// scan does what every lister does: it filters all objects of the store by the selector.
func scan(store cache.Store, q query) ([]any, error) {
	var matching []any
	err := cache.ListAll(store, q.selector, func(object any) { matching = append(matching, object) })
	return matching, err
}

// query is a value that is looked up, with the objects that must be found. The value is one of an
// index, or an app with a selector of its objects.
type query struct {
	value    string
	selector labels.Selector
	// wanted is the sum of the hashes of the objects, and count their number.
	wanted uint64
	count  int
}

func (q *query) want(object any) error {
	hash, err := foundHash(q.value, object)
	q.wanted += hash
	q.count++
	return err
}

// sorted returns the queries in the order of their values.
func sorted(queries map[string]*query) []query {
	var all []query
	for _, value := range slices.Sorted(maps.Keys(queries)) {
		all = append(all, *queries[value])
	}
	return all
}

// indexedValues returns a query of each value of an index.
func indexedValues(listed []any, index cache.IndexFunc) ([]query, error) {
	queries := map[string]*query{}
	for _, object := range listed {
		of, err := index(object)
		if err != nil {
			return nil, err
		}
		value := of[0]
		if queries[value] == nil {
			queries[value] = &query{value: value}
		}
		if err := queries[value].want(object); err != nil {
			return nil, err
		}
	}
	return sorted(queries), nil
}

// selectors returns a query of each app. Its selector excludes the pod template of the first object
// of the app.
func selectors(listed []any) ([]query, error) {
	queries, excluded := map[string]*query{}, map[string]string{}
	for _, object := range listed {
		accessor, err := meta.Accessor(object)
		if err != nil {
			return nil, err
		}
		of := accessor.GetLabels()
		app, ok := of[appLabel]
		if !ok {
			continue
		}
		hash, hasHash := of[templateLabel]
		if queries[app] == nil {
			selector, err := labels.Parse(fmt.Sprintf("%s=%s,%s!=%s", appLabel, app, templateLabel, hash))
			if err != nil {
				return nil, err
			}
			queries[app], excluded[app] = &query{value: app, selector: selector}, hash
		}
		if !hasHash || hash != excluded[app] {
			if err := queries[app].want(object); err != nil {
				return nil, err
			}
		}
	}
	return sorted(queries), nil
}

// calls is a variant: its queries in the order of their values, and the function that answers one.
type calls struct {
	variant string
	count   int
	queries []query
	find    func(query) ([]any, error)
}

// run checks the answers to all queries, and measures random ones.
func (c calls) run(opts *options, out *output) error {
	extra, err := c.check()
	if err != nil {
		return err
	}
	memory := markMemory(opts.objects, indexGrowth)
	took, found := newLatencies(), 0
	for call := range c.count {
		q := c.queries[uniformKey(call, len(c.queries))]
		began := time.Now()
		answer, err := c.find(q)
		took.note(time.Since(began))
		if err != nil {
			return err
		}
		found += len(answer)
	}
	memory.addTo(extra)
	extra["calls"], extra["objects_per_call"] = c.count, float64(found)/float64(c.count)
	quantiles := []quantile{p50, p999, worst}
	if c.count < queryCalls { // with fewer calls, p99.9 would be the largest time
		quantiles = []quantile{p50, worst}
	}
	return took.report(out, "queries", c.variant+"-", quantiles, extra)
}

// check makes every query once, and compares the results with the list. It returns the fields that
// are compared between engines.
func (c calls) check() (map[string]any, error) {
	var wanted, got uint64
	answers, count := 0, 0
	for _, q := range c.queries {
		wanted += q.wanted
		count += q.count
		answer, err := c.find(q)
		if err != nil {
			return nil, err
		}
		for _, object := range answer {
			hash, err := foundHash(q.value, object)
			if err != nil {
				return nil, err
			}
			got += hash
		}
		answers += len(answer)
	}
	if got != wanted || answers != count {
		return nil, fmt.Errorf("queries %s: found %d objects, other ones than the %d of the list", c.variant, answers, count)
	}
	return map[string]any{"values": len(c.queries), "answers": answers, "answers_digest": fmt.Sprintf("%016x", got)}, nil
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

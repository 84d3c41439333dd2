package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// cacheGets is the number of gets that are timed.
const cacheGets = 20_000

// cacheLimit is the time after which an informer that has not completed a list has failed.
const cacheLimit = 5 * time.Minute

// cachePoll is the time between two polls for the end of a list.
const cachePoll = 10 * time.Millisecond

// cacheGrowth is the growth of an engine to its peak, in bytes a pod, and with the response.
const cacheGrowth = 60_000

// runCache measures the pods of a cluster in an informer. bench/src/workloads/cache/mod.rs
// describes the rows. The lists come from files, through a transport.
func runCache(opts *options, out *output) error {
	if opts.input == "" || opts.secondList == "" {
		return errors.New("the workload cache needs two lists")
	}
	// A list and not a watch with initial events, as in the other engines.
	if err := os.Setenv("KUBE_FEATURE_WatchListClient", "false"); err != nil {
		return err
	}
	server := newListServer(opts.input, opts.secondList)
	informer, err := newCacheInformer(opts.engine, server)
	if err != nil {
		return err
	}
	memory := markMemory(opts.objects, cacheGrowth)
	anonymous, cpu := statusBytes("RssAnon"), processCPU()

	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go informer.RunWithContext(ctx)
	listed := func() bool { return informer.HasSynced() && informer.LastSyncResourceVersion() == "1" }
	if err := await(listed); err != nil {
		return err
	}
	firstList := processCPU() - cpu
	peak := statusBytes("VmHWM") - memory.start
	runtime.GC() // runs finalizers
	debug.FreeOSMemory()
	rest := statusBytes("RssAnon") - anonymous

	store := informer.GetIndexer()
	keys := store.ListKeys()
	slices.Sort(keys) // the order of the list
	if len(keys) == 0 {
		return errors.New("the list is empty")
	}
	get, err := medianGet(store, keys, func(any) error { return nil })
	if err != nil {
		return err
	}
	getHeader, err := medianGet(store, keys, readHeader)
	if err != nil {
		return err
	}

	// A relist stores every object again, the last one of the list at the end.
	last := keys[len(keys)-1]
	before, _, _ := store.GetByKey(last)
	cpu = processCPU()
	server.relist()
	relisted := func() bool {
		after, _, _ := store.GetByKey(last)
		return informer.LastSyncResourceVersion() == "2" && after != before
	}
	if err := await(relisted); err != nil {
		return err
	}
	relist := processCPU() - cpu

	extra := map[string]any{}
	if err := stored(store, extra); err != nil {
		return err
	}
	perObject := func(bytes int64) float64 { return float64(bytes) / float64(len(keys)) }
	for _, figure := range []struct {
		variant, unit string
		value         float64
	}{
		{"rest-bytes", "B", perObject(rest)},
		{"peak-bytes", "B", perObject(peak)},
		{"first-list-cpu", "s", firstList.Seconds()},
		{"relist-cpu", "s", relist.Seconds()},
		{"get", "s", get},
		{"get-header", "s", getHeader},
	} {
		r := row{Workload: "cache", Variant: figure.variant, Unit: figure.unit, Value: figure.value, Extra: extra}
		if err := out.row(r); err != nil {
			return err
		}
	}
	return nil
}

// newCacheInformer creates the informer of typed or of unstructured pods, with the namespace index.
func newCacheInformer(engine string, server *listServer) (cache.SharedIndexInformer, error) {
	config := &rest.Config{Host: "http://files", Transport: server, QPS: -1}
	if engine == engineUnstructured {
		client, err := dynamic.NewForConfig(config)
		if err != nil {
			return nil, err
		}
		pods := corev1.SchemeGroupVersion.WithResource("pods")
		return dynamicinformer.NewFilteredDynamicInformer(client, pods, "", 0, namespaceIndex(), nil).Informer(), nil
	}
	scheme := kruntime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	config.APIPath, config.GroupVersion = "/api", &corev1.SchemeGroupVersion
	config.ContentType = "application/json"
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, err
	}
	source := cache.NewListWatchFromClient(client, "pods", "", fields.Everything())
	return cache.NewSharedIndexInformer(source, &corev1.Pod{}, 0, namespaceIndex()), nil
}

// await waits until holds, which tells whether a list is complete, returns true.
func await(holds func() bool) error {
	for began := time.Now(); !holds(); time.Sleep(cachePoll) {
		if time.Since(began) > cacheLimit {
			return fmt.Errorf("a list was not complete after %v", cacheLimit)
		}
	}
	return nil
}

// processCPU returns the CPU time of this process so far, with the kernel's.
func processCPU() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err) // the arguments are valid
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// medianGet returns the median time of gets of random keys, in seconds. Each calls read.
func medianGet(store cache.Indexer, keys []string, read func(any) error) (float64, error) {
	times := make([]time.Duration, cacheGets)
	random := uint64(1)
	for i := range times {
		random = splitmix64(random)
		key := keys[random%uint64(len(keys))]
		began := time.Now()
		object, found, err := store.GetByKey(key)
		if err == nil && !found {
			err = fmt.Errorf("%s is not in the store", key)
		}
		if err == nil {
			err = read(object)
		}
		times[i] = time.Since(began)
		if err != nil {
			return 0, err
		}
	}
	slices.Sort(times)
	return times[len(times)/2].Seconds(), nil
}

// headerRead keeps the compiler from leaving out reads.
var headerRead int

func readHeader(object any) error {
	if pod, isUnstructured := object.(*unstructured.Unstructured); isUnstructured {
		app, _, err := unstructured.NestedString(pod.Object, "metadata", "labels", "app")
		headerRead = len(pod.GetName()) + len(pod.GetUID()) + len(pod.GetResourceVersion()) + len(app)
		return err
	}
	pod, err := meta.Accessor(object)
	if err != nil {
		return err
	}
	headerRead = len(pod.GetName()) + len(pod.GetUID()) + len(pod.GetResourceVersion()) + len(pod.GetLabels()["app"])
	return nil
}

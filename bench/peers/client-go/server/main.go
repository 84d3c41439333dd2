// Command server runs client-go's shared informer on the config maps of a namespace, with the
// namespace index and one handler, which counts. It follows the lines of its standard input, and
// reports the end of each step: bench/src/server/client/mod.rs describes the protocol.
// KUBE_FEATURE_WatchListClient selects a streamed list.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	server := flag.String("server", "", "kubeconfig of the API server")
	namespace := flag.String("namespace", "", "namespace of the config maps")
	protobuf := flag.Bool("protobuf", false, "ask for protobuf, and not for JSON")
	without := flag.Bool("without", false, "keep no managed fields")
	flag.Parse()
	if err := run(*server, *namespace, *protobuf, *without); err != nil {
		fmt.Fprintln(os.Stderr, "client-go:", err)
		os.Exit(1)
	}
}

func run(kubeconfig, namespace string, protobuf, without bool) error {
	lines := readLines()
	cut := newCut()
	client, err := newClient(kubeconfig, protobuf, cut)
	if err != nil {
		return err
	}
	source := cache.NewListWatchFromClient(client, "configmaps", namespace, fields.Everything())
	informer := cache.NewSharedIndexInformer(source, &corev1.ConfigMap{}, 0, cache.Indexers{
		cache.NamespaceIndex: cache.MetaNamespaceIndexFunc,
	})
	if without {
		if err := informer.SetTransform(withoutManagedFields); err != nil {
			return err
		}
	}
	counts := &handlerCounts{}
	handler, err := informer.AddEventHandler(counts)
	if err != nil {
		return err
	}
	go informer.RunWithContext(context.Background())

	<-handler.HasSyncedChecker().Done()
	if err := report(counts, informer); err != nil {
		return err
	}
	for line := range lines {
		changes, isRelist := strings.CutPrefix(line, "relist ")
		switch {
		case line == "cut":
			cut.hold()
			fmt.Println(line)
		case isRelist:
			changed, err := strconv.Atoi(changes)
			if err != nil {
				return err
			}
			done := counts.relist(changed, len(informer.GetStore().ListKeys()))
			cut.expire()
			<-done
			if err := report(counts, informer); err != nil {
				return err
			}
		default:
			return fmt.Errorf("%q is not a line of the benchmark", line)
		}
	}
	return nil
}

// readLines reads the standard input. At its end no parent waits for this process any more.
func readLines() <-chan string {
	lines := make(chan string)
	go func() {
		for input := bufio.NewScanner(os.Stdin); input.Scan(); {
			lines <- input.Text()
		}
		os.Exit(0)
	}()
	return lines
}

func newClient(kubeconfig string, protobuf bool, cut *cut) (rest.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	scheme := apiruntime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	config.APIPath = "/api"
	config.ContentType = "application/json"
	if protobuf {
		config.ContentType = "application/vnd.kubernetes.protobuf"
	}
	config.AcceptContentTypes = config.ContentType
	config.GroupVersion = &corev1.SchemeGroupVersion
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	// As in all other clients: on one machine, compressing takes longer than sending.
	config.DisableCompression = true
	config.QPS = -1
	config.Wrap(cut.wrap)
	return rest.RESTClientFor(config)
}

// withoutManagedFields is the transform that controllers usually set.
func withoutManagedFields(object any) (any, error) {
	if of, err := meta.Accessor(object); err == nil {
		of.SetManagedFields(nil)
	}
	return object, nil
}

// report reports at once that a step is complete, and then the counts.
func report(counts *handlerCounts, informer cache.SharedIndexInformer) error {
	fmt.Println("there")
	calls, changed := counts.snapshot()
	line, err := json.Marshal(map[string]any{
		"notified": calls, "changed": changed, "stored": len(informer.GetStore().ListKeys()), "version": version(),
	})
	if err != nil {
		return err
	}
	fmt.Println(string(line))
	return nil
}

// version returns the version of client-go that the build recorded, and the settings on which the
// figures depend.
func version() string {
	version := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if module.Path == "k8s.io/client-go" {
				version = module.Version
			}
		}
	}
	gogc := os.Getenv("GOGC")
	if gogc == "" {
		gogc = "100"
	}
	return fmt.Sprintf("client-go %s, %s, GOMAXPROCS=%d GOGC=%s", version, runtime.Version(), runtime.GOMAXPROCS(0), gogc)
}

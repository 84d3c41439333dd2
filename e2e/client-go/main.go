// Command client-go runs client-go's shared informer on the scenarios' config maps, and writes
// the notifications of its handlers to its standard output, each as a line of JSON (output.go).
// When it reads the line "stored", it writes the contents of its store. It ends when its standard
// input ends.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"os"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

func main() {
	server := flag.String("server", "", "address of the API server")
	token := flag.String("token", "", "token of its user")
	namespace := flag.String("namespace", "", "namespace of the config maps")
	flag.Parse()
	if err := run(*server, *token, *namespace); err != nil {
		fmt.Fprintln(os.Stderr, "client-go:", err)
		os.Exit(1)
	}
}

func run(server, token, namespace string) error {
	// By default a handler that panics ends the process. With this, it loses the notification, and
	// the next one is delayed by a second.
	utilruntime.ReallyCrash = false
	output := startOutput(os.Stdout)
	informer, err := newInformer(server, token, namespace, output)
	if err != nil {
		return err
	}
	for name, handler := range handlers(output) {
		if _, err := informer.AddEventHandler(handler); err != nil {
			return fmt.Errorf("handler %s: %w", name, err)
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { informer.RunWithContext(ctx) })

	input := bufio.NewScanner(os.Stdin)
	for input.Scan() {
		output.send(line{Stored: stored(informer.GetStore())})
	}
	stop()
	// Shutdown waits for the handlers.
	running.Wait()
	return output.stop()
}

func newInformer(server, token, namespace string, output *output) (cache.SharedIndexInformer, error) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	config := &rest.Config{
		Host:        server,
		APIPath:     "/api",
		BearerToken: token,
		// The server creates its own certificate, so checking it would prove nothing.
		TLSClientConfig: rest.TLSClientConfig{Insecure: true},
		ContentConfig: rest.ContentConfig{
			GroupVersion:         &corev1.SchemeGroupVersion,
			NegotiatedSerializer: serializer.NewCodecFactory(scheme).WithoutConversion(),
		},
		QPS: -1,
	}
	config.Wrap(output.requests)
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, err
	}
	source := cache.NewListWatchFromClient(client, "configmaps", namespace, fields.Everything())
	return cache.NewSharedIndexInformer(source, &corev1.ConfigMap{}, 0, cache.Indexers{
		cache.NamespaceIndex: cache.MetaNamespaceIndexFunc,
	}), nil
}

func stored(store cache.Store) map[string]state {
	all := map[string]state{}
	for _, object := range store.List() {
		if object, ok := object.(metav1.Object); ok {
			all[object.GetNamespace()+"/"+object.GetName()] = stateOf(object)
		}
	}
	return all
}

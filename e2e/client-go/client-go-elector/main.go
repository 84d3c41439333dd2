// Command client-go-elector is a candidate with client-go's elector, for the elections of e2e
// (src/election). While it leads, it writes its fencing token into two objects (write.go). It ends
// with 3 when it has lost its lease, with 0 when SIGTERM has ended its term and the lease is
// released (--release-on-cancel), and with 1 after an error or when its standard input ends.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// The namespace of the objects, and the token of a user with all permissions: see e2e/src/servers.
const (
	namespace = "e2e"
	token     = "not-a-secret"
)

// The exit code of a candidate that has lost its lease: see e2e/src/election/candidate.rs.
const lost = 3

type arguments struct {
	port                                      int
	lease, identity                           string
	leaseDuration, renewDeadline, retryPeriod time.Duration
	once, releaseOnCancel                     bool
}

func main() {
	var arguments arguments
	flag.IntVar(&arguments.port, "port", 0, "port of the API server, or of a proxy to it")
	flag.StringVar(&arguments.lease, "lease", "", "name of the lease")
	flag.StringVar(&arguments.identity, "identity", "", "name of the candidate")
	milliseconds("lease-duration", &arguments.leaseDuration)
	milliseconds("renew-deadline", &arguments.renewDeadline)
	milliseconds("retry-period", &arguments.retryPeriod)
	flag.BoolVar(&arguments.once, "once", false, "write each object once in a term")
	flag.BoolVar(&arguments.releaseOnCancel, "release-on-cancel", false, "release the lease after SIGTERM")
	flag.Parse()
	go func() {
		// An error of the standard input ends the candidate, too.
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	if err := campaign(arguments); err != nil {
		fmt.Fprintln(os.Stderr, arguments.identity+":", err)
		os.Exit(1)
	}
}

func milliseconds(name string, duration *time.Duration) {
	flag.Func(name, "duration in milliseconds", func(text string) (err error) {
		*duration, err = time.ParseDuration(text + "ms")
		return err
	})
}

// campaign runs the elector. By default, as in client-go, it does not release the lease.
func campaign(arguments arguments) error {
	config := &rest.Config{
		Host:        fmt.Sprintf("https://127.0.0.1:%d", arguments.port),
		BearerToken: token,
		// The server creates its own certificate, so checking it would prove nothing.
		TLSClientConfig: rest.TLSClientConfig{Insecure: true},
		QPS:             -1,
	}
	// Clients with equal TLS options share one connection, unless a client has a dialer of its own.
	// This one is equal to the default dialer.
	election := rest.CopyConfig(config)
	election.Dial = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	leases, err := coordinationv1.NewForConfig(election)
	if err != nil {
		return err
	}
	core, err := corev1.NewForConfig(config)
	if err != nil {
		return err
	}
	maps := core.ConfigMaps(namespace)
	// A trial expects the name of the candidate, `_`, and a text without `_`: see `is_of` in
	// e2e/src/election/history.rs.
	identity := fmt.Sprintf("%s_%d", arguments.identity, os.Getpid())
	lock := &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: namespace, Name: arguments.lease},
		Client:     leases,
		LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
	}
	ctx := context.Background()
	if arguments.releaseOnCancel {
		var stop context.CancelFunc
		ctx, stop = signal.NotifyContext(ctx, syscall.SIGTERM)
		defer stop()
	}
	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
		Lock:            lock,
		LeaseDuration:   arguments.leaseDuration,
		RenewDeadline:   arguments.renewDeadline,
		RetryPeriod:     arguments.retryPeriod,
		ReleaseOnCancel: arguments.releaseOnCancel,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(term context.Context) {
				lease, err := leases.Leases(namespace).Get(term, arguments.lease, metav1.GetOptions{})
				if err != nil {
					fmt.Fprintln(os.Stderr, identity+":", err)
					os.Exit(1)
				}
				var writers sync.WaitGroup
				for suffix, versioned := range map[string]bool{"-versioned": true, "-plain": false} {
					writer := writer{maps: maps, versioned: versioned, once: arguments.once}
					writers.Go(func() {
						writer.write(term, arguments.lease+suffix, dataOf(lease, identity))
					})
				}
				writers.Wait()
			},
			OnStoppedLeading: func() {
				if ctx.Err() == nil {
					os.Exit(lost)
				}
			},
		},
	})
	return nil
}

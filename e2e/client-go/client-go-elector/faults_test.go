package main

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// These tests show what the documentation of this project's elector says about client-go's. A test
// that fails after an update of client-go means that the documentation must change.

const (
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
)

func TestFailedRenewalReleasesTheLeaseWhileTheWorkRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer()
		leader := startLeader(server)
		releasedWhileWorking := false
		server.beforeUpdate(func(holder string) error {
			if holder != "" {
				return errors.New("unavailable")
			}
			releasedWhileWorking = leader.work.Err() == nil
			return nil
		})
		<-leader.ended
		if !releasedWhileWorking {
			t.Error("the context of the work was cancelled before the release")
		}
	})
}

func TestReleaseOfAFormerLeaderErasesItsSuccessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer()
		leader := startLeader(server)
		reconnect := server.cut()
		time.Sleep(leaseDuration + time.Second)
		server.claim("successor")
		close(reconnect)
		<-leader.ended
		if holder := server.holder(); holder != "" {
			t.Errorf("the holder is still %q", holder)
		}
	})
}

func TestLeaderThatReadsAnotherHolderContinuesUntilItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer()
		leader := startLeader(server)
		server.claim("another")
		time.Sleep(renewDeadline)
		if reads := server.readsOf("another"); reads < 2 {
			t.Errorf("the leader has read the other holder %d times", reads)
		}
		if leader.work.Err() != nil {
			t.Error("the work has ended before the deadline")
		}
		<-leader.ended
	})
}

// leader is an elector that leads.
type leader struct {
	// work is the context of the work.
	work context.Context
	// ended is closed when the elector has ended.
	ended chan struct{}
}

// startLeader starts an elector with ReleaseOnCancel, and waits until it leads.
func startLeader(server *server) leader {
	lock := &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: namespace, Name: "lease"},
		Client:     server,
		LockConfig: resourcelock.ResourceLockConfig{Identity: "leader"},
	}
	works, ended := make(chan context.Context, 1), make(chan struct{})
	go leaderelection.RunOrDie(context.Background(), leaderelection.LeaderElectionConfig{
		Lock:            lock,
		LeaseDuration:   leaseDuration,
		RenewDeadline:   renewDeadline,
		RetryPeriod:     retryPeriod,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) { works <- ctx },
			OnStoppedLeading: func() { close(ended) },
		},
	})
	return leader{work: <-works, ended: ended}
}

// server holds one lease. It refuses updates with an old version, as the API server does.
type server struct {
	// Provides the methods that the elector does not call. It is nil, so a call of one panics.
	coordinationv1client.LeaseInterface
	lock  sync.Mutex
	lease coordinationv1.Lease
	// reads counts the reads of each holder.
	reads  map[string]int
	refuse func(holder string) error
	// reachable is closed while requests need not wait.
	reachable chan struct{}
}

func newServer() *server {
	server := &server{reads: map[string]int{}, reachable: make(chan struct{})}
	close(server.reachable)
	server.refuse = func(string) error { return nil }
	server.lease.ResourceVersion = "1"
	return server
}

// beforeUpdate sets a function that is called with the holder of each update, and can refuse it.
func (s *server) beforeUpdate(refuse func(holder string) error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.refuse = refuse
}

// cut makes requests wait until the returned channel is closed.
func (s *server) cut() chan struct{} {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.reachable = make(chan struct{})
	return s.reachable
}

// claim makes another candidate the holder.
func (s *server) claim(holder string) {
	s.lock.Lock()
	defer s.lock.Unlock()
	now := metav1.NowMicro()
	seconds := int32(leaseDuration.Seconds())
	transitions := *s.lease.Spec.LeaseTransitions + 1
	s.store(coordinationv1.LeaseSpec{
		HolderIdentity: &holder, AcquireTime: &now, RenewTime: &now,
		LeaseDurationSeconds: &seconds, LeaseTransitions: &transitions,
	})
}

func (s *server) holder() string {
	s.lock.Lock()
	defer s.lock.Unlock()
	return holderOf(&s.lease)
}

func (s *server) readsOf(holder string) int {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.reads[holder]
}

func (s *server) Leases(string) coordinationv1client.LeaseInterface { return s }

func (s *server) Get(ctx context.Context, _ string, _ metav1.GetOptions) (*coordinationv1.Lease, error) {
	if err := s.reach(ctx); err != nil {
		return nil, err
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	s.reads[holderOf(&s.lease)]++
	return s.lease.DeepCopy(), nil
}

func (s *server) Update(ctx context.Context, lease *coordinationv1.Lease, _ metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	if err := s.reach(ctx); err != nil {
		return nil, err
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	if err := s.refuse(holderOf(lease)); err != nil {
		return nil, err
	}
	if lease.ResourceVersion != s.lease.ResourceVersion {
		return nil, apierrors.NewConflict(coordinationv1.Resource("leases"), lease.Name, nil)
	}
	s.store(*lease.Spec.DeepCopy())
	return s.lease.DeepCopy(), nil
}

// reach waits until the server is reachable.
func (s *server) reach(ctx context.Context) error {
	s.lock.Lock()
	reachable := s.reachable
	s.lock.Unlock()
	select {
	case <-reachable:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// store stores the spec under a new version. The lock must be held.
func (s *server) store(spec coordinationv1.LeaseSpec) {
	version, _ := strconv.Atoi(s.lease.ResourceVersion)
	s.lease.ResourceVersion = strconv.Itoa(version + 1)
	s.lease.Spec = spec
}

func holderOf(lease *coordinationv1.Lease) string {
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

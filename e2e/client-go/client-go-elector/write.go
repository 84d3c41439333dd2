package main

import (
	"context"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
)

// The time between an error and the next attempt.
const pause = 50 * time.Millisecond

// dataOf returns the fencing token of a leader as the data of an object: see
// e2e/src/election/history.rs.
func dataOf(lease *coordinationv1.Lease, identity string) map[string]string {
	transitions := int32(0)
	if lease.Spec.LeaseTransitions != nil {
		transitions = *lease.Spec.LeaseTransitions
	}
	return map[string]string{
		"uid":         string(lease.UID),
		"transitions": strconv.Itoa(int(transitions)),
		"identity":    identity,
	}
}

// writer writes an object during a term, once or as fast as the server answers. A versioned write
// contains the resourceVersion that it replaces.
type writer struct {
	maps            corev1client.ConfigMapInterface
	versioned, once bool
}

// write writes the data, once or again and again, and returns at the latest when the context of
// the term is cancelled.
func (w writer) write(term context.Context, name string, data map[string]string) {
	object := corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}
	for number := 0; term.Err() == nil; number++ {
		// Each write has another number, because the server does not store an unchanged object.
		object.Data["number"] = strconv.Itoa(number)
		if w.versioned && object.ResourceVersion == "" {
			read, err := w.maps.Get(term, name, metav1.GetOptions{})
			if err != nil {
				time.Sleep(pause)
				continue
			}
			object.ResourceVersion = read.ResourceVersion
		}
		written, err := w.maps.Update(term, &object, metav1.UpdateOptions{})
		// After an error the version is read again.
		object.ResourceVersion = ""
		switch {
		case err != nil:
			time.Sleep(pause)
		case w.once:
			return
		case w.versioned:
			object.ResourceVersion = written.ResourceVersion
		}
	}
}

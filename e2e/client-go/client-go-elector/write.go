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

// write writes the data again and again, until the context of the term is cancelled. A versioned
// write contains the resourceVersion that it replaces.
func write(ctx context.Context, maps corev1client.ConfigMapInterface, name string, data map[string]string, versioned bool) {
	object := corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}
	for number := 0; ctx.Err() == nil; number++ {
		// Each write has another number, because the server does not store an unchanged object.
		object.Data["number"] = strconv.Itoa(number)
		if versioned && object.ResourceVersion == "" {
			read, err := maps.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				time.Sleep(pause)
				continue
			}
			object.ResourceVersion = read.ResourceVersion
		}
		written, err := maps.Update(ctx, &object, metav1.UpdateOptions{})
		// After an error the version is read again.
		object.ResourceVersion = ""
		if err != nil {
			time.Sleep(pause)
		} else if versioned {
			object.ResourceVersion = written.ResourceVersion
		}
	}
}

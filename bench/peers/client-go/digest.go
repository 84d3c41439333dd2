package main

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/cache"
)

// digest returns the sum of a hash of every object's key and version. The sum does not depend on
// the order: two engines with equal digests hold the same objects in the same versions.
func digest(objects []any) (string, error) {
	var sum uint64
	for _, object := range objects {
		key, err := cache.MetaNamespaceKeyFunc(object)
		if err != nil {
			return "", err
		}
		accessor, err := meta.Accessor(object)
		if err != nil {
			return "", err
		}
		sum += fnv1a(key + "\x00" + accessor.GetResourceVersion())
	}
	return fmt.Sprintf("%016x", sum), nil
}

func fnv1a(text string) uint64 {
	hash := uint64(0xcbf29ce484222325)
	for i := range len(text) {
		hash = (hash ^ uint64(text[i])) * 0x100000001b3
	}
	return hash
}

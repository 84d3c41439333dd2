package main

// The shared informer's handling of popped deltas. These functions of client-go are private, so
// they are written again here, step by step as processDeltas, processDeltasInBatch and
// processReplacedAllInfo in its tools/cache/controller.go and reconcileReplacement in
// the_real_fifo.go (v0.37), with the same calls of the store and the same temporary collections.
// SyncAll and Bookmark are left out, because no workload causes them, and so is the lock against
// late handlers, which costs nothing while nothing waits for it.

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
)

// applyDeltas applies deltas one after the other, each to the store first and then to the handler.
func applyDeltas(handler cache.ResourceEventHandler, store cache.Store, deltas cache.Deltas, isInInitialList bool) error {
	for _, delta := range deltas {
		object := delta.Object
		switch delta.Type {
		case cache.ReplacedAll:
			info, ok := object.(cache.ReplacedAllInfo)
			if !ok {
				return fmt.Errorf("ReplacedAll did not contain ReplacedAllInfo: %T", object)
			}
			if err := applyReplacedAll(handler, store, info, isInInitialList); err != nil {
				return err
			}
		case cache.Sync, cache.Replaced, cache.Added, cache.Updated:
			if old, exists, err := store.Get(object); err == nil && exists {
				if err := store.Update(object); err != nil {
					return err
				}
				handler.OnUpdate(old, object)
			} else {
				if err := store.Add(object); err != nil {
					return err
				}
				handler.OnAdd(object, isInInitialList)
			}
		case cache.Deleted:
			if err := store.Delete(object); err != nil {
				return err
			}
			handler.OnDelete(object)
		default:
			return fmt.Errorf("unexpected delta %s", delta.Type)
		}
	}
	return nil
}

// applyBatch applies deltas of different keys in one transaction of the store, and then calls the
// handler.
func applyBatch(handler cache.ResourceEventHandler, store cache.Store, deltas []cache.Delta, isInInitialList bool) error {
	transactions := make([]cache.Transaction, 0)
	callbacks := make([]func(), 0)
	for _, delta := range deltas {
		object := delta.Object
		switch delta.Type {
		case cache.Sync, cache.Replaced, cache.Added, cache.Updated:
			if old, exists, err := store.Get(object); err == nil && exists {
				transactions = append(transactions, cache.Transaction{Type: cache.TransactionTypeUpdate, Object: object})
				callbacks = append(callbacks, func() { handler.OnUpdate(old, object) })
			} else {
				transactions = append(transactions, cache.Transaction{Type: cache.TransactionTypeAdd, Object: object})
				callbacks = append(callbacks, func() { handler.OnAdd(object, isInInitialList) })
			}
		case cache.Deleted:
			transactions = append(transactions, cache.Transaction{Type: cache.TransactionTypeDelete, Object: object})
			callbacks = append(callbacks, func() { handler.OnDelete(object) })
		default:
			return fmt.Errorf("unexpected delta %s in a batch", delta.Type)
		}
	}
	transactionStore, ok := store.(cache.TransactionStore)
	if !ok {
		return fmt.Errorf("%T takes no transactions", store)
	}
	// The comparison must be with the typed nil that Transaction returns, and not with a nil error.
	if err := transactionStore.Transaction(transactions...); err != nil {
		return fmt.Errorf("not all of the batch was applied: %s", err.Error())
	}
	for _, callback := range callbacks {
		callback()
	}
	return nil
}

// applyReplacedAll compares a whole list with the store, replaces the content of the store, and
// then notifies the handler of the differences: of deletions first, and of the rest in the order of
// the list.
func applyReplacedAll(handler cache.ResourceEventHandler, store cache.Store, info cache.ReplacedAllInfo, isInInitialList bool) error {
	type replacement struct{ old, new any }
	replacements := make([]replacement, 0, len(info.Objects))
	var deletions []cache.DeletedFinalStateUnknown

	newKeys := sets.Set[string]{}
	for _, object := range info.Objects {
		key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object)
		if err != nil {
			return cache.KeyError{Obj: object, Err: err}
		}
		newKeys.Insert(key)
	}
	for _, key := range store.ListKeys() {
		if newKeys.Has(key) {
			continue
		}
		known, _, err := store.GetByKey(key)
		if err != nil {
			return err
		}
		deletions = append(deletions, cache.DeletedFinalStateUnknown{Key: key, Obj: known})
	}
	for _, object := range info.Objects {
		if old, exists, err := store.Get(object); err == nil && exists {
			replacements = append(replacements, replacement{old: old, new: object})
		} else {
			replacements = append(replacements, replacement{new: object})
		}
	}
	if err := store.Replace(info.Objects, info.ResourceVersion); err != nil {
		return err
	}
	for _, tombstone := range deletions {
		handler.OnDelete(tombstone)
	}
	for _, r := range replacements {
		if r.old != nil {
			handler.OnUpdate(r.old, r.new)
		} else {
			handler.OnAdd(r.new, isInInitialList)
		}
	}
	return nil
}

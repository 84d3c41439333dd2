package main

import (
	"iter"
	"strconv"
)

// plan is a list before its objects are made: which objects it has, in order, and in which version. An empty version
// is the object's own.
type plan struct {
	len  int
	each iter.Seq2[int, string]
}

// samePlan is the list of the initial fill and of a relist: all objects, unchanged.
func samePlan(objects int) plan {
	return plan{len: objects, each: func(yield func(int, string) bool) {
		for i := range objects {
			if !yield(i, "") {
				return
			}
		}
	}}
}

// churnPlan is a relist after some time: 1 % gone, 10 % with a new version, 1 % new.
func churnPlan(objects int) plan {
	return plan{len: objects - gone(objects) + added(objects), each: func(yield func(int, string) bool) {
		for i := range objects {
			version := ""
			switch {
			case isGone(i):
				continue
			case i%10 == 3:
				version = strconv.Itoa(2_000_000 + i)
			}
			if !yield(i, version) {
				return
			}
		}
		for j := range added(objects) {
			if !yield(objects+j, "") {
				return
			}
		}
	}}
}

func isGone(i int) bool { return i%100 == 7 }

// gone is how many of the objects churn leaves out, added how many it brings.
func gone(objects int) int  { return (objects + 92) / 100 }
func added(objects int) int { return objects / 100 }

// hotPlan is the fixed set of objects that a stall run updates.
func hotPlan(objects int) plan {
	return plan{len: hotObjects, each: func(yield func(int, string) bool) {
		for seq := range hotObjects {
			if !yield(hotKey(seq, objects), "") {
				return
			}
		}
	}}
}

// hotObjects is how many objects a stall run updates, spread over all of them by a prime step.
const hotObjects = 1000

func hotKey(seq, objects int) int { return seq % hotObjects * 7919 % objects }

package main

import (
	"iter"
	"strconv"
)

// plan is the plan of a list, before its objects are created: the objects in order, with their
// versions. An empty version is the object's original version.
type plan struct {
	len  int
	each iter.Seq2[int, string]
}

// samePlan plans the list of the initial fill and of a relist: all objects, unchanged.
func samePlan(objects int) plan {
	return plan{len: objects, each: func(yield func(int, string) bool) {
		for i := range objects {
			if !yield(i, "") {
				return
			}
		}
	}}
}

// churnPlan plans a relist after some time: 1 % of the objects deleted, 10 % with a new version, 1
// % new.
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

// gone returns how many objects churn deletes, and added how many it adds.
func gone(objects int) int  { return (objects + 92) / 100 }
func added(objects int) int { return objects / 100 }

// hotPlan plans the fixed set of objects that a stall run updates.
func hotPlan(objects int) plan {
	return plan{len: hotObjects, each: func(yield func(int, string) bool) {
		for seq := range hotObjects {
			if !yield(hotKey(seq, objects), "") {
				return
			}
		}
	}}
}

// hotObjects is the number of objects that a stall run updates. A prime step spreads them over all
// objects.
const hotObjects = 1000

func hotKey(seq, objects int) int { return seq % hotObjects * 7919 % objects }

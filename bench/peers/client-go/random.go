package main

import (
	"math"
	"sort"
)

// splitmix64 is the only source of random numbers. The children in Rust draw the same numbers.
func splitmix64(i uint64) uint64 {
	z := i + 0x9E3779B97F4A7C15
	z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9
	z = (z ^ (z >> 27)) * 0x94D049BB133111EB
	return z ^ (z >> 31)
}

// uniformKey returns the index of the object that event e updates if all objects are equally
// popular.
func uniformKey(e, objects int) int {
	return int(splitmix64(uint64(e)+0xE0000000) % uint64(objects))
}

// zipf draws object indexes with a popularity that falls with the power 1.1 of the rank. Ranks are
// spread over the indexes, so that popular objects are not neighbours.
type zipf struct{ cumulative []float64 }

func newZipf(objects int) *zipf {
	z := &zipf{cumulative: make([]float64, objects)}
	sum := 0.0
	for k := range z.cumulative {
		sum += 1 / math.Pow(float64(k+1), 1.1)
		z.cumulative[k] = sum
	}
	return z
}

func (z *zipf) key(e int) int {
	objects := len(z.cumulative)
	u := float64(splitmix64(uint64(e)+0x21F00000)>>11) * 0x1p-53
	limit := u * z.cumulative[objects-1]
	k := sort.Search(objects, func(k int) bool { return z.cumulative[k] >= limit })
	return int(splitmix64(uint64(k)) % uint64(objects))
}

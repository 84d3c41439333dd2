package main

import (
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

var update = flag.Bool("update", false, "write golden.json anew")

// golden has the values that every peer must generate from the same numbers. The tests in Rust
// compare it, too. Integers of 64 bits are written as hexadecimal text, because not every JSON
// reader keeps all bits.
type golden struct {
	Splitmix64 map[string]string `json:"splitmix64"`
	Objects    []goldenObject    `json:"objects_of_1000000"`
	DigestA    string            `json:"digest_list_a_of_1000"`
	DigestC    string            `json:"digest_list_c_of_1000"`
	Uniform    []int             `json:"uniform_keys_of_1000"`
	Zipf       []int             `json:"zipf_keys_of_1000"`
}

type goldenObject struct {
	Index           int               `json:"index"`
	Namespace       string            `json:"namespace"`
	Name            string            `json:"name"`
	UID             string            `json:"uid"`
	ResourceVersion string            `json:"resourceVersion"`
	Labels          map[string]string `json:"labels"`
}

func noProgress(int, int) {}

func TestGolden(t *testing.T) {
	made := golden{Splitmix64: map[string]string{
		"0": hex(splitmix64(0)), "1": hex(splitmix64(1)), "12345": hex(splitmix64(12345)), "18446744073709551615": hex(splitmix64(1<<64 - 1)),
	}}
	for _, index := range []int{0, 1, 12345} {
		o := generated{objects: 1_000_000}.object(index, "").(*metav1.PartialObjectMetadata)
		made.Objects = append(made.Objects, goldenObject{index, o.Namespace, o.Name, string(o.UID), o.ResourceVersion, o.Labels})
	}
	small := generated{objects: 1000}
	made.DigestA = mustDigest(t, objects(small, samePlan(1000), noProgress))
	made.DigestC = mustDigest(t, objects(small, churnPlan(1000), noProgress))
	z := newZipf(1000)
	for e := range 5 {
		made.Uniform = append(made.Uniform, uniformKey(e, 1000))
		made.Zipf = append(made.Zipf, z.key(e))
	}
	if *update {
		text, err := json.MarshalIndent(made, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile("golden.json", append(text, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile("golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var want golden
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(made, want) {
		t.Errorf("made %+v\nwant %+v", made, want)
	}
}

// Published values, so that golden.json cannot be wrong as a whole.
func TestKnownHashes(t *testing.T) {
	if got := hex(splitmix64(0)); got != "e220a8397b1dcdaf" {
		t.Errorf("splitmix64(0) = %s", got)
	}
	for text, want := range map[string]string{"": "cbf29ce484222325", "a": "af63dc4c8601ec8c", "foobar": "85944171f73967e8"} {
		if got := hex(fnv1a(text)); got != want {
			t.Errorf("fnv1a(%q) = %s, want %s", text, got, want)
		}
	}
}

func TestDigestIgnoresOrderAndSeesVersions(t *testing.T) {
	small := generated{objects: 2}
	a, b, other := small.object(0, ""), small.object(1, ""), small.object(1, "7")
	if mustDigest(t, []any{a, b}) != mustDigest(t, []any{b, a}) {
		t.Error("the digest depends on the order")
	}
	if mustDigest(t, []any{a, b}) == mustDigest(t, []any{a, other}) {
		t.Error("the digest does not see a version")
	}
}

// Compares the lengths of the plans with a walk over them.
func TestPlanLengths(t *testing.T) {
	for _, n := range []int{1, 7, 8, 99, 100, 107, 108, 1000, 1234} {
		for name, p := range map[string]plan{"same": samePlan(n), "churn": churnPlan(n), "hot": hotPlan(n)} {
			walked := 0
			for range p.each {
				walked++
			}
			if walked != p.len {
				t.Errorf("%s plan of %d: length %d, walked %d", name, n, p.len, walked)
			}
		}
	}
}

// The informer's lists hold the same objects as the lists of the queues, by value.
func TestTypedListHoldsTheSameObjects(t *testing.T) {
	small := generated{objects: 1000}
	list := small.list(churnPlan(1000), "5", noProgress).(*metav1.PartialObjectMetadataList)
	one := objects(small, churnPlan(1000), noProgress)
	if list.ResourceVersion != "5" || len(list.Items) != len(one) {
		t.Fatalf("version %q, %d items, want 5 and %d", list.ResourceVersion, len(list.Items), len(one))
	}
	for i := range one {
		if !reflect.DeepEqual(runtime.Object(&list.Items[i]), one[i]) {
			t.Fatalf("item %d differs", i)
		}
	}
}

func mustDigest(t *testing.T, objects []any) string {
	t.Helper()
	sum, err := digest(objects)
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

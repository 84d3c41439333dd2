package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCacheFollowsBothLists(t *testing.T) {
	list := func(name, version string, versions ...int) string {
		var items []string
		for i, version := range versions {
			items = append(items, fmt.Sprintf(
				`{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"shop","name":"web-%d","resourceVersion":"%d"}}`, i, version))
		}
		path := filepath.Join(t.TempDir(), name)
		text := fmt.Sprintf(`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":%q},"items":[%s]}`,
			version, strings.Join(items, ","))
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	first, second := list("first.json", "1", 7, 8, 9), list("second.json", "2", 7, 18, 9)
	digests := map[any]bool{}
	for _, engine := range []string{engineInformer, engineUnstructured} {
		rows := rowsOf(t, fmt.Sprintf("--engine %s --workload cache --objects 3 --input %s --second-list %s", engine, first, second))
		if len(rows) != 6 {
			t.Errorf("%s: %d rows", engine, len(rows))
		}
		for _, row := range rows {
			digests[row.Extra["store_digest"]] = true
		}
	}
	want := fnv1a("shop/web-0\x007") + fnv1a("shop/web-1\x0018") + fnv1a("shop/web-2\x009")
	if len(digests) != 1 || !digests[hex(want)] {
		t.Errorf("the digests are %v, want that of the second list", digests)
	}
}

// Prints how the fields of built-in kinds merge, for the API server of the test kit:
//
//	go run ./merge-schema >../../testkit/src/apply/schema.txt
//
// The list and map types are those of client-go's apply configurations, which are made from the
// OpenAPI document of the API server. The strategies of strategic merge patches are in the tags of
// the Go types.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
)

const header = `# How the fields of built-in kinds merge. Generated from client-go %s, in e2e/client-go:
#   go run ./merge-schema >../../testkit/src/apply/schema.txt
#
# A line without indentation names a type: a kind by its API version and name, any other type by
# its Go package and name. The indented lines below it are its fields, with these properties:
#   [KEY...]  a list whose elements merge by keys, which may have defaults
#   []        a set
#   atomic    a map, or each map of a list, that is replaced as a whole
#   ~KEY      a list that strategic merge patches merge by a key, and ~ one that they merge as a set
#   TYPE      the type of the map, or of the elements of the list
# Fields, types and kinds without such properties are left out. Lists that are not named are
# replaced as a whole, and maps that are not named merge. Metadata has its type in every kind.
`

// A field is one field of a type, as it is printed.
type field struct {
	name       string
	properties []string
	// The type of the map, or of the elements of the list, if it has fields.
	below *node
	// Whether something outside of strategic merge patches depends on the field.
	merges bool
}

// A node is a type with fields.
type node struct {
	name   string
	fields []field
}

type walker struct {
	schema *schema.Schema
	nodes  map[string]*node
}

func main() {
	fmt.Printf(header, version())
	converter := applyconfigurations.NewTypeConverter(scheme.Scheme)
	roots := map[string]*node{}
	w := walker{nodes: map[string]*node{}}
	for kind, goType := range scheme.Scheme.AllKnownTypes() {
		if kind.Version == runtime.APIVersionInternal {
			continue
		}
		object, ok := reflect.New(goType).Interface().(runtime.Object)
		if !ok {
			continue
		}
		object.GetObjectKind().SetGroupVersionKind(kind)
		// Lists and options have no apply configuration.
		typed, err := converter.ObjectToTyped(object)
		if err != nil {
			continue
		}
		w.schema = typed.Schema()
		root := *w.node(*typed.TypeRef().NamedType, goType)
		root.name = kind.GroupVersion().String() + " " + kind.Kind
		root.fields = slices.DeleteFunc(slices.Clone(root.fields), func(one field) bool {
			return one.name == "metadata"
		})
		roots[root.name] = &root
	}
	// These kinds are not in client-go.
	for _, kind := range []string{
		"apiextensions.k8s.io/v1 CustomResourceDefinition", "apiregistration.k8s.io/v1 APIService",
	} {
		status := &node{kind[strings.LastIndex(kind, " ")+1:] + "Status", []field{
			{name: "conditions", properties: []string{`[type=""]`}, merges: true},
		}}
		roots[kind] = &node{kind, []field{{name: "status", below: status}}}
	}
	printed := map[string]*node{"ObjectMeta": w.nodes["ObjectMeta"]}
	for _, root := range roots {
		if isNeeded(root, false) {
			reach(root, printed)
		}
	}
	names := []string{}
	for name := range printed {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Println(name)
		for _, one := range printed[name].fields {
			if text := one.text(); text != "" {
				fmt.Println(" ", one.name, text)
			}
		}
	}
}

// version returns the version of client-go.
func version() string {
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		if module.Path == "k8s.io/client-go" {
			return module.Version
		}
	}
	fail("client-go is not a dependency")
	return ""
}

func fail(format string, values ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", values...)
	os.Exit(1)
}

// short returns the printed name of a type.
func short(name string) string {
	name = strings.TrimPrefix(name, "io.k8s.apimachinery.pkg.apis.meta.v1.")
	return strings.TrimPrefix(name, "io.k8s.api.")
}

// node returns the type of this name, with all its fields.
func (w *walker) node(name string, goType reflect.Type) *node {
	if known, ok := w.nodes[short(name)]; ok {
		return known
	}
	made := &node{name: short(name)}
	w.nodes[made.name] = made
	atom, _ := w.schema.Resolve(schema.TypeRef{NamedType: &name})
	for _, one := range atom.Map.Fields {
		tagged, ok := find(goType, one.Name)
		if !ok {
			fail("%s has no field %s in Go", name, one.Name)
		}
		made.fields = append(made.fields, w.field(one, tagged))
	}
	return made
}

func (w *walker) field(one schema.StructField, tagged reflect.StructField) field {
	made := field{name: one.Name}
	atom, _ := w.schema.Resolve(one.Type)
	reference, goType := one.Type, bare(tagged.Type)
	if list := atom.List; list != nil && atom.Map == nil {
		reference, goType = list.ElementType, bare(goType.Elem())
		made.merges = list.ElementRelationship == schema.Associative
		if made.merges {
			made.properties = append(made.properties, w.keys(list))
		}
		if strategy := tagged.Tag.Get("patchStrategy"); strings.Contains(strategy, "merge") {
			made.properties = append(made.properties, "~"+tagged.Tag.Get("patchMergeKey"))
		} else if !made.merges {
			// The list is replaced as a whole by both.
			return made
		}
	}
	atom, _ = w.schema.Resolve(reference)
	if atom.Map == nil {
		return made
	}
	if atom.Map.ElementRelationship == schema.Atomic {
		made.properties = append(made.properties, "atomic")
		made.merges = true
	}
	if len(atom.Map.Fields) > 0 {
		made.below = w.node(*reference.NamedType, goType)
	} else if reference := atom.Map.ElementType; reference.NamedType != nil {
		values, _ := w.schema.Resolve(reference)
		if values.Map != nil && len(values.Map.Fields) > 0 {
			if isNeeded(w.node(*reference.NamedType, bare(goType.Elem())), false) {
				fail("%s is a map of values with properties", one.Name)
			}
		}
	}
	return made
}

// keys returns the keys of a list, in alphabetical order, with their defaults.
func (w *walker) keys(list *schema.List) string {
	keys := slices.Sorted(slices.Values(list.Keys))
	for at, key := range keys {
		elements, _ := w.schema.Resolve(list.ElementType)
		if field, _ := elements.Map.FindField(key); field.Default != nil {
			text, _ := json.Marshal(field.Default)
			keys[at] += "=" + string(text)
		}
	}
	return "[" + strings.Join(keys, " ") + "]"
}

// bare returns the type behind pointers.
func bare(goType reflect.Type) reflect.Type {
	for goType.Kind() == reflect.Pointer {
		goType = goType.Elem()
	}
	return goType
}

// find returns the field with this name in JSON.
func find(goType reflect.Type, name string) (reflect.StructField, bool) {
	for _, one := range reflect.VisibleFields(goType) {
		if tag, _, _ := strings.Cut(one.Tag.Get("json"), ","); tag == name {
			return one, true
		}
	}
	return reflect.StructField{}, false
}

// isNeeded returns whether a type has fields with properties: those of strategic merge patches
// alone if the type is part of an atomic map.
func isNeeded(one *node, isAtomic bool) bool {
	return slices.ContainsFunc(one.fields, func(one field) bool {
		if one.merges && !isAtomic || strings.Contains(strings.Join(one.properties, " "), "~") {
			return true
		}
		return one.hasType(isAtomic)
	})
}

func (f field) hasType(isAtomic bool) bool {
	isAtomic = isAtomic || slices.Contains(f.properties, "atomic")
	return f.below != nil && isNeeded(f.below, isAtomic)
}

func (f field) text() string {
	text := strings.Join(f.properties, " ")
	if f.hasType(false) {
		text = strings.TrimSpace(text + " " + f.below.name)
	}
	return text
}

// reach adds a type and the types of its fields.
func reach(one *node, reached map[string]*node) {
	if reached[one.name] != nil {
		return
	}
	reached[one.name] = one
	for _, field := range one.fields {
		if field.hasType(false) {
			reach(field.below, reached)
		}
	}
}

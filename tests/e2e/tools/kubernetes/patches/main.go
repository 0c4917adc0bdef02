// Command patches records what the libraries of Kubernetes make of patches.
//
// It reads cases, one JSON object `{"ops": [...]}` per line, from standard input and writes
// `{"ops": [...], "want": [...]}` per line. Operations are `json`, `merge` and `strategic` (a `body`
// on a `doc`), and `apply` and `update` (a `body`, by a `manager`, maybe on the `status`), which
// change one object in turn. Its one argument is the OpenAPI schema of that object, with its metadata.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"sort"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/kube-openapi/pkg/validation/spec"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

var thing = schema.GroupVersionKind{Group: "test.io", Version: "v1", Kind: "Thing"}

type operation struct {
	Op      string          `json:"op"`
	Manager string          `json:"manager"`
	Force   bool            `json:"force"`
	Status  bool            `json:"status"`
	Body    json.RawMessage `json:"body"`
	Doc     json.RawMessage `json:"doc"`
}

// What a strategic merge patch is applied to.
type sub struct {
	X string `json:"x,omitempty"`
	Y string `json:"y,omitempty"`
}

type item struct {
	Name string   `json:"name"`
	V    string   `json:"v,omitempty"`
	Sub  *sub     `json:"sub,omitempty"`
	Tags []string `json:"tags,omitempty" patchStrategy:"merge"`
	Subs []item   `json:"subs,omitempty" patchStrategy:"merge" patchMergeKey:"name"`
}

// Thing is named in messages.
type Thing struct {
	A      string            `json:"a,omitempty"`
	N      int64             `json:"n,omitempty"`
	Map    map[string]string `json:"map,omitempty"`
	Sub    *sub              `json:"sub,omitempty" patchStrategy:"retainKeys"`
	Whole  *sub              `json:"whole,omitempty" patchStrategy:"replace"`
	Items  []item            `json:"items,omitempty" patchStrategy:"merge,retainKeys" patchMergeKey:"name"`
	Plain  []item            `json:"plain,omitempty"`
	Set    []string          `json:"set,omitempty" patchStrategy:"merge"`
	Nums   []int64           `json:"nums,omitempty" patchStrategy:"merge"`
	Bad    []item            `json:"bad,omitempty" patchStrategy:"merge"`
	Things map[string]sub    `json:"things,omitempty"`
}

// Objects of one version need no conversion, and those of this kind no defaults.
type identity struct{}

func (identity) New(kind schema.GroupVersionKind) (runtime.Object, error) { return empty(), nil }
func (identity) Convert(in, out, context interface{}) error               { return nil }
func (identity) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return in, nil
}
func (identity) ConvertFieldLabel(_ schema.GroupVersionKind, _, _ string) (string, string, error) {
	return "", "", nil
}
func (identity) Default(runtime.Object) {}

func empty() *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]interface{}{}}
	object.SetGroupVersionKind(thing)
	return object
}

func main() {
	raw, err := os.ReadFile(os.Args[1])
	must(err)
	root := &spec.Schema{}
	must(json.Unmarshal(raw, root))
	converter, err := managedfields.NewTypeConverter(map[string]*spec.Schema{"root": root}, false)
	must(err)
	object := manager(converter, "", "status")
	status := manager(converter, "status", "metadata", "spec")
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<26)
	for lines.Scan() {
		var recorded struct {
			Ops []json.RawMessage `json:"ops"`
		}
		must(json.Unmarshal(lines.Bytes(), &recorded))
		live := empty()
		want := []interface{}{}
		for _, raw := range recorded.Ops {
			var op operation
			must(json.Unmarshal(raw, &op))
			fields := object
			if op.Status {
				fields = status
			}
			if op.Op == "apply" || op.Op == "update" {
				want = append(want, change(fields, &live, op))
			} else {
				want = append(want, patch(op))
			}
		}
		out, err := json.Marshal(map[string]interface{}{"ops": recorded.Ops, "want": want})
		must(err)
		fmt.Println(string(out))
	}
	must(lines.Err())
}

func manager(converter managedfields.TypeConverter, subresource string, reset ...string) *managedfields.FieldManager {
	paths := fieldpath.NewSet()
	for _, field := range reset {
		paths.Insert(fieldpath.MakePathOrDie(field))
	}
	filter := fieldpath.NewExcludeFilterSetMap(map[fieldpath.APIVersion]*fieldpath.Set{"test.io/v1": paths})
	fields, err := managedfields.NewDefaultCRDFieldManager(converter, identity{}, identity{}, identity{},
		thing, thing.GroupVersion(), subresource, filter)
	must(err)
	return fields
}

func change(fields *managedfields.FieldManager, live **unstructured.Unstructured, op operation) interface{} {
	var changed runtime.Object
	if op.Op == "apply" {
		var err error
		config := &unstructured.Unstructured{Object: parse(op.Body)}
		changed, err = fields.Apply((*live).DeepCopy(), config, op.Manager, op.Force)
		if err != nil {
			return describe(err)
		}
	} else {
		current, err := json.Marshal((*live).Object)
		must(err)
		patched, err := jsonpatch.MergePatch(current, op.Body)
		must(err)
		changed = fields.UpdateNoErrors((*live).DeepCopy(), &unstructured.Unstructured{Object: parse(patched)}, op.Manager)
	}
	*live = changed.(*unstructured.Unstructured)
	(*live).SetUID("u")
	recorded := (*live).DeepCopy().Object
	entries, _, _ := unstructured.NestedSlice(recorded, "metadata", "managedFields")
	for _, entry := range entries {
		if entry := entry.(map[string]interface{}); entry["time"] != nil {
			entry["time"] = "T"
		}
	}
	if entries != nil {
		must(unstructured.SetNestedSlice(recorded, entries, "metadata", "managedFields"))
	}
	return recorded
}

func describe(err error) interface{} {
	code, message, causes := int32(500), err.Error(), []string{}
	if status, ok := err.(*apierrors.StatusError); ok {
		code, message = status.ErrStatus.Code, status.ErrStatus.Message
		if status.ErrStatus.Details != nil {
			for _, cause := range status.ErrStatus.Details.Causes {
				causes = append(causes, fmt.Sprintf("%s|%s|%s", cause.Type, cause.Message, cause.Field))
			}
		}
	}
	sort.Strings(causes)
	return map[string]interface{}{"code": code, "message": message, "causes": causes}
}

func patch(op operation) interface{} {
	failed := map[string]interface{}{"failed": true}
	switch op.Op {
	case "json":
		patch, err := jsonpatch.DecodePatch(op.Body)
		if err != nil {
			return failed
		}
		patched, err := patch.Apply(op.Doc)
		if err != nil {
			return failed
		}
		return json.RawMessage(patched)
	case "merge":
		patched, err := jsonpatch.MergePatch(op.Doc, op.Body)
		if err != nil {
			return failed
		}
		return json.RawMessage(patched)
	default:
		patched, err := strategicpatch.StrategicMergeMapPatch(parse(op.Doc), parse(op.Body), Thing{})
		if err != nil {
			return map[string]interface{}{"error": err.Error()}
		}
		return patched
	}
}

func parse(text []byte) map[string]interface{} {
	object := map[string]interface{}{}
	must(kjson.UnmarshalCaseSensitivePreserveInts(text, &object))
	return object
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

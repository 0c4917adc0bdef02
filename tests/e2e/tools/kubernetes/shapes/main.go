// Command shapes prints the shapes of the kinds that the embedded API serves: what their Go types
// say about reading and writing JSON and reading protobuf, and what their OpenAPI says about merging.
// The format is explained in crates/apiserver/src/kinds/table.rs, which reads it. With the argument
// "samples" it prints objects in both encodings, to compare the embedded API's decoder with.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"sort"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
	generated "k8s.io/kubernetes/pkg/generated/openapi"
)

var roots = []any{
	metav1.DeleteOptions{}, metav1.Status{},
	corev1.Binding{}, corev1.ConfigMap{}, corev1.Endpoints{}, corev1.Event{}, corev1.LimitRange{}, corev1.Namespace{},
	corev1.Node{}, corev1.PersistentVolume{}, corev1.PersistentVolumeClaim{}, corev1.Pod{}, corev1.PodTemplate{},
	corev1.ReplicationController{}, corev1.ResourceQuota{}, corev1.Secret{}, corev1.Service{}, corev1.ServiceAccount{},
	appsv1.ControllerRevision{}, appsv1.DaemonSet{}, appsv1.Deployment{}, appsv1.ReplicaSet{}, appsv1.StatefulSet{},
	authenticationv1.SelfSubjectReview{}, authenticationv1.TokenRequest{}, autoscalingv1.Scale{},
	authorizationv1.LocalSubjectAccessReview{}, authorizationv1.SelfSubjectAccessReview{},
	authorizationv1.SelfSubjectRulesReview{}, authorizationv1.SubjectAccessReview{},
	batchv1.CronJob{}, batchv1.Job{},
	coordinationv1.Lease{}, discoveryv1.EndpointSlice{}, eventsv1.Event{}, nodev1.RuntimeClass{},
	policyv1.Eviction{}, policyv1.PodDisruptionBudget{},
	rbacv1.ClusterRole{}, rbacv1.ClusterRoleBinding{}, rbacv1.Role{}, rbacv1.RoleBinding{},
	resourcev1.DeviceClass{}, resourcev1.ResourceClaim{}, resourcev1.ResourceClaimTemplate{}, resourcev1.ResourceSlice{},
	schedulingv1.PriorityClass{},
	storagev1.CSIDriver{}, storagev1.CSINode{}, storagev1.CSIStorageCapacity{}, storagev1.StorageClass{}, storagev1.VolumeAttachment{},
	apiextensionsv1.CustomResourceDefinition{},
}

// Types that read and write themselves.
var special = map[reflect.Type]string{
	reflect.TypeOf(metav1.Time{}):                                  "time",
	reflect.TypeOf(metav1.MicroTime{}):                             "microtime",
	reflect.TypeOf(resource.Quantity{}):                            "quantity",
	reflect.TypeOf(intstr.IntOrString{}):                           "intorstring",
	reflect.TypeOf(runtime.RawExtension{}):                         "any",
	reflect.TypeOf(metav1.FieldsV1{}):                              "any",
	reflect.TypeOf(apiextensionsv1.JSON{}):                         "any",
	reflect.TypeOf(apiextensionsv1.JSONSchemaPropsOrArray{}):       "any=v1.JSONSchemaPropsOrArray",
	reflect.TypeOf(apiextensionsv1.JSONSchemaPropsOrBool{}):        "any=v1.JSONSchemaPropsOrBool",
	reflect.TypeOf(apiextensionsv1.JSONSchemaPropsOrStringArray{}): "any=v1.JSONSchemaPropsOrStringArray",
}

type table struct {
	definitions map[string]common.OpenAPIDefinition
	lines       map[string][]string
}

func main() {
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	if len(os.Args) > 1 && os.Args[1] == "samples" {
		printSamples(out)
		return
	}
	t := table{
		definitions: generated.GetOpenAPIDefinitions(func(path string) spec.Ref {
			return spec.MustCreateRef("#/" + path)
		}),
		lines: map[string][]string{},
	}
	for _, root := range roots {
		t.visit(reflect.TypeOf(root))
	}
	names := make([]string, 0, len(t.lines))
	for name := range t.lines {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		for _, line := range t.lines[name] {
			fmt.Fprintln(out, line)
		}
	}
}

func modelName(t reflect.Type) string {
	if named, ok := reflect.New(t).Elem().Interface().(interface{ OpenAPIModelName() string }); ok {
		return named.OpenAPIModelName()
	}
	panic("no model name: " + t.String())
}

// visit adds a struct and all that it contains.
func (t *table) visit(structure reflect.Type) string {
	name := modelName(structure)
	if _, done := t.lines[name]; done {
		return name
	}
	t.lines[name] = nil // types may contain themselves
	definition, ok := t.definitions[name]
	if !ok {
		panic("no definition: " + name)
	}
	head := name + " " + structure.String()
	if definition.Schema.Extensions["x-kubernetes-map-type"] == "atomic" {
		head += " atomic"
	}
	fields := t.fields(structure, definition.Schema, embedding{})
	sort.Strings(fields)
	t.lines[name] = append([]string{head}, fields...)
	return name
}

// embedding is the way to a field through embedded structs: their names, and their numbers in protobuf,
// where each is a message of its own.
type embedding struct {
	names, numbers []string
}

func (e embedding) with(field reflect.StructField) embedding {
	e.names = append(e.names[:len(e.names):len(e.names)], field.Name)
	if number := protobufNumber(field); number != "" {
		e.numbers = append(e.numbers[:len(e.numbers):len(e.numbers)], number)
	}
	return e
}

// protobufNumber is the number of a field in protobuf. Kind and version have none: the envelope tells them.
func protobufNumber(field reflect.StructField) string {
	parts := strings.Split(field.Tag.Get("protobuf"), ",")
	if len(parts) < 2 {
		return ""
	}
	return parts[1]
}

func (t *table) fields(structure reflect.Type, schema spec.Schema, via embedding) []string {
	var lines []string
	for i := 0; i < structure.NumField(); i++ {
		field := structure.Field(i)
		tag, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if tag == "-" || !field.IsExported() {
			continue
		}
		if tag == "" && field.Anonymous {
			inner := field.Type
			if inner.Kind() == reflect.Pointer {
				panic("inline pointer: " + structure.String())
			}
			lines = append(lines, t.fields(inner, schema, via.with(field))...)
			continue
		}
		lines = append(lines, t.field(field, tag, options, schema, via))
	}
	return lines
}

func (t *table) field(field reflect.StructField, name, options string, schema spec.Schema, via embedding) string {
	target, pointer := field.Type, ""
	if target.Kind() == reflect.Pointer {
		target, pointer = target.Elem(), "*"
	}
	line := []string{" " + name, pointer + t.shape(target)}
	for _, option := range strings.Split(options, ",") {
		switch option {
		case "omitempty", "omitzero":
			line = append(line, option)
		}
	}
	if len(via.names) > 0 {
		line = append(line, "via:"+strings.Join(via.names, "."))
	}
	property, ok := schema.Properties[name]
	if !ok {
		panic("no property: " + field.Name)
	}
	for _, required := range schema.Required {
		if required == name {
			line = append(line, "required")
		}
	}
	line = append(line, merging(property)...)
	inType := len(via.names) == 1 && via.names[0] == "TypeMeta"
	if number := protobufNumber(field); number != "" && !inType {
		line = append(line, "#"+strings.Join(append(via.numbers, number), "."))
	} else if !inType {
		panic("no number: " + field.Name)
	}
	if property.Default != nil {
		text, err := json.Marshal(property.Default)
		if err != nil {
			panic(err)
		}
		line = append(line, "default:"+string(text))
	}
	return strings.Join(line, " ")
}

// merging is how lists and maps are owned, and how a strategic merge patch treats them.
func merging(property spec.Schema) []string {
	var flags []string
	extension := func(name string) string {
		text, _ := property.Extensions[name].(string)
		return text
	}
	switch extension("x-kubernetes-list-type") {
	case "set":
		flags = append(flags, "set")
	case "map":
		keys := []string{}
		for _, key := range property.Extensions["x-kubernetes-list-map-keys"].([]any) {
			keys = append(keys, key.(string))
		}
		flags = append(flags, "keys:"+strings.Join(keys, ","))
	}
	switch kind := extension("x-kubernetes-map-type"); kind {
	case "atomic", "granular":
		flags = append(flags, kind)
	}
	for _, strategy := range strings.Split(extension("x-kubernetes-patch-strategy"), ",") {
		switch strategy {
		case "merge":
			flags = append(flags, "merge:"+extension("x-kubernetes-patch-merge-key"))
		case "retainKeys":
			flags = append(flags, "retainkeys")
		case "replace":
			flags = append(flags, "replace")
		}
	}
	return flags
}

func (t *table) shape(of reflect.Type) string {
	if name, ok := special[of]; ok {
		return name
	}
	named := func(shape, plain string) string {
		if of.String() == plain {
			return shape
		}
		return shape + "=" + of.String()
	}
	switch of.Kind() {
	case reflect.Struct:
		return t.visit(of)
	case reflect.String:
		return named("string", "string")
	case reflect.Bool, reflect.Int32, reflect.Int64, reflect.Float64:
		return named(of.Kind().String(), of.Kind().String())
	case reflect.Slice:
		if of.Elem().Kind() == reflect.Uint8 {
			return "bytes"
		}
		return named("["+t.shape(of.Elem())+"]", "[]"+of.Elem().String())
	case reflect.Map:
		elem, pointer := of.Elem(), ""
		if elem.Kind() == reflect.Pointer {
			elem, pointer = elem.Elem(), "*"
		}
		return named("{"+pointer+t.shape(elem)+"}", "map[string]"+of.Elem().String())
	case reflect.Pointer:
		return "*" + t.shape(of.Elem())
	default:
		panic("no shape: " + of.String())
	}
}

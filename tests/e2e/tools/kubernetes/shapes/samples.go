package main

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// fill says what a sample has in it.
type fill int

const (
	// Nothing that need not be there.
	empty fill = iota
	// Every pointer, list and map, and nothing in them.
	hollow
	// Everything.
	full
)

// printSamples prints objects of each kind, as protobuf and as JSON:
//
//	name base64 json
func printSamples(out *bufio.Writer) {
	for _, root := range roots {
		for _, how := range []fill{empty, hollow, full} {
			object := reflect.New(reflect.TypeOf(root))
			sampler{how: how}.set(object.Elem(), "x", nil)
			wire, err := object.Interface().(interface{ Marshal() ([]byte, error) }).Marshal()
			if err != nil {
				panic(err)
			}
			text, err := json.Marshal(object.Interface())
			if err != nil {
				panic(err)
			}
			name := modelName(reflect.TypeOf(root))
			fmt.Fprintln(out, name, base64.StdEncoding.EncodeToString(wire), string(text))
		}
	}
}

type sampler struct {
	how fill
}

// Types that read and write themselves, with something in them.
func specialSamples(name string) map[reflect.Type]any {
	moment := time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC)
	number := intstr.FromInt32(int32(len(name)))
	if len(name)%2 == 0 {
		number = intstr.FromString("50%")
	}
	schema := &apiextensionsv1.JSONSchemaProps{Type: name, Nullable: true}
	samples := map[reflect.Type]any{}
	for _, sample := range []any{
		metav1.NewTime(moment.Truncate(time.Second)), metav1.NewMicroTime(moment),
		resource.MustParse(fmt.Sprintf("%dm", 1000+len(name))), number,
		runtime.RawExtension{Raw: []byte(`{"` + name + `":[1,null,"é"]}`)},
		metav1.FieldsV1{Raw: []byte(`{"f:` + name + `":{}}`)},
		apiextensionsv1.JSON{Raw: []byte(`["` + name + `",0.5]`)},
		apiextensionsv1.JSONSchemaPropsOrArray{Schema: schema},
		apiextensionsv1.JSONSchemaPropsOrBool{Schema: schema, Allows: true},
		apiextensionsv1.JSONSchemaPropsOrStringArray{Property: []string{name, ""}},
	} {
		samples[reflect.TypeOf(sample)] = sample
	}
	return samples
}

// set fills a value that is found at a field of this name, within these structs.
func (s sampler) set(value reflect.Value, name string, within []reflect.Type) {
	target := value.Type()
	if s.how == full {
		if sample, ok := specialSamples(name)[target]; ok {
			value.Set(reflect.ValueOf(sample))
			return
		}
	}
	if _, ok := special[target]; ok {
		return
	}
	switch target.Kind() {
	case reflect.Struct:
		s.setFields(value, within)
	case reflect.Pointer:
		if s.how != empty && !contains(within, target.Elem()) {
			value.Set(reflect.New(target.Elem()))
			s.set(value.Elem(), name, within)
		}
	case reflect.Slice:
		if s.how == empty || contains(within, target.Elem()) {
			return
		}
		if target.Elem().Kind() == reflect.Uint8 {
			value.SetBytes([]byte(name))
			return
		}
		value.Set(reflect.MakeSlice(target, 2, 2))
		s.set(value.Index(0), name, within)
		s.set(value.Index(1), name+"-2", within)
	case reflect.Map:
		if s.how == empty || contains(within, target.Elem()) {
			return
		}
		value.Set(reflect.MakeMap(target))
		for _, key := range []string{"", name} {
			entry := reflect.New(target.Elem()).Elem()
			s.set(entry, name, within)
			value.SetMapIndex(reflect.ValueOf(key).Convert(target.Key()), entry)
		}
	default:
		if s.how == full {
			s.setScalar(value, name)
		}
	}
}

func (s sampler) setFields(value reflect.Value, within []reflect.Type) {
	within = append(within[:len(within):len(within)], value.Type())
	for i := 0; i < value.NumField(); i++ {
		field := value.Type().Field(i)
		// Kind and version are not in the message.
		if field.IsExported() && field.Type != reflect.TypeOf(metav1.TypeMeta{}) {
			s.set(value.Field(i), field.Name, within)
		}
	}
}

func (s sampler) setScalar(value reflect.Value, name string) {
	switch value.Kind() {
	case reflect.String:
		value.SetString("text of " + name)
	case reflect.Bool:
		value.SetBool(true)
	case reflect.Int32, reflect.Int64:
		value.SetInt(int64(len(name)) - 10)
	case reflect.Float64:
		value.SetFloat(float64(len(name)) + 0.25)
	default:
		panic("no sample: " + value.Type().String())
	}
}

func contains(types []reflect.Type, wanted reflect.Type) bool {
	for _, found := range types {
		if found == wanted {
			return true
		}
	}
	return false
}

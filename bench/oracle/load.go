package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/awslabs/operatorpkg/status"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakecr "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	_ "sigs.k8s.io/karpenter/kwok/apis/v1alpha1" // registers KWOKNodeClass
	"sigs.k8s.io/karpenter/pkg/apis/autoscaling/v1beta1"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/apis/v1alpha1"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
)

// memory is an API server in memory that holds the objects.
func memory(objs []client.Object) client.Client {
	b := fakecr.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(objs...).
		WithStatusSubresource(&v1.NodePool{}, &v1.NodeClaim{}, &corev1.Node{}, &corev1.Pod{}, &v1alpha1.NodeOverlay{}, &v1beta1.CapacityBuffer{})
	index := func(o client.Object, field string, value func(client.Object) string) {
		b = b.WithIndex(o, field, func(o client.Object) []string { return []string{value(o)} })
	}
	index(&corev1.Pod{}, "spec.nodeName", func(o client.Object) string { return o.(*corev1.Pod).Spec.NodeName })
	index(&corev1.Node{}, "spec.providerID", func(o client.Object) string { return o.(*corev1.Node).Spec.ProviderID })
	index(&storagev1.VolumeAttachment{}, "spec.nodeName", func(o client.Object) string { return o.(*storagev1.VolumeAttachment).Spec.NodeName })
	index(&v1.NodeClaim{}, "status.providerID", func(o client.Object) string { return o.(*v1.NodeClaim).Status.ProviderID })
	index(&v1.NodeClaim{}, "spec.nodeClassRef.group", func(o client.Object) string { return o.(*v1.NodeClaim).Spec.NodeClassRef.Group })
	index(&v1.NodeClaim{}, "spec.nodeClassRef.kind", func(o client.Object) string { return o.(*v1.NodeClaim).Spec.NodeClassRef.Kind })
	index(&v1.NodeClaim{}, "spec.nodeClassRef.name", func(o client.Object) string { return o.(*v1.NodeClaim).Spec.NodeClassRef.Name })
	pool := func(o client.Object) *v1.NodeClassReference { return o.(*v1.NodePool).Spec.Template.Spec.NodeClassRef }
	index(&v1.NodePool{}, "spec.template.spec.nodeClassRef.group", func(o client.Object) string { return pool(o).Group })
	index(&v1.NodePool{}, "spec.template.spec.nodeClassRef.kind", func(o client.Object) string { return pool(o).Kind })
	index(&v1.NodePool{}, "spec.template.spec.nodeClassRef.name", func(o client.Object) string { return pool(o).Name })
	return indexed(b.Build(), objs)
}

// indexed answers pod lists from memory with a deep copy, as the informer cache of the real
// controller does, so that times are the decision's and not the in-memory client's.
func indexed(c client.WithWatch, objs []client.Object) client.WithWatch {
	byNode := map[string][]*corev1.Pod{}
	var all []*corev1.Pod
	for _, o := range objs {
		if p, ok := o.(*corev1.Pod); ok {
			byNode[p.Spec.NodeName] = append(byNode[p.Spec.NodeName], p)
			all = append(all, p)
		}
	}
	// The real clients drop the namespace of a cluster-scoped object; the in-memory one would not find it.
	get := func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
		switch o.(type) {
		case *corev1.PersistentVolume, *corev1.Node, *corev1.Namespace, *storagev1.StorageClass, *storagev1.CSINode:
			key.Namespace = ""
		}
		return c.Get(ctx, key, o, opts...)
	}
	list := func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
		pl, ok := l.(*corev1.PodList)
		if !ok {
			return c.List(ctx, l, opts...)
		}
		lo := client.ListOptions{}
		lo.ApplyOptions(opts)
		src := all
		if lo.FieldSelector != nil {
			v, ok := lo.FieldSelector.RequiresExactMatch("spec.nodeName")
			if !ok {
				return c.List(ctx, l, opts...)
			}
			src = byNode[v]
		}
		pl.Items = pl.Items[:0]
		for _, p := range src {
			if lo.Namespace != "" && p.Namespace != lo.Namespace {
				continue
			}
			if lo.LabelSelector != nil && !lo.LabelSelector.Matches(labels.Set(p.Labels)) {
				continue
			}
			pl.Items = append(pl.Items, *p.DeepCopy())
		}
		return nil
	}
	return interceptor.NewClient(c, interceptor.Funcs{Get: get, List: list})
}

// fill replays the snapshot into upstream's cluster state, in the order its informers would settle on.
func fill(ctx context.Context, cluster *state.Cluster, objs []client.Object) {
	for _, o := range objs {
		if nc, ok := o.(*v1.NodeClaim); ok {
			cluster.UpdateNodeClaim(nc)
		}
	}
	for _, o := range objs {
		if n, ok := o.(*corev1.Node); ok {
			check(cluster.UpdateNode(ctx, n))
		}
	}
	for _, o := range objs {
		switch x := o.(type) {
		case *appsv1.DaemonSet:
			check(cluster.UpdateDaemonSet(ctx, x))
		case *corev1.Pod:
			check(cluster.UpdatePod(ctx, x))
		}
	}
}

func readAll(paths []string) ([]client.Object, error) {
	var out []client.Object
	for _, p := range paths {
		objs, err := read(p)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p, err)
		}
		out = append(out, objs...)
	}
	return out, nil
}

func read(path string) (out []client.Object, err error) {
	var r io.Reader = os.Stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		r = f
	}
	docs := utilyaml.NewYAMLReader(bufio.NewReader(r))
	for {
		doc, err := docs.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		if len(bytes.TrimSpace(doc)) == 0 {
			continue
		}
		u := &unstructured.Unstructured{}
		if err := utilyaml.Unmarshal(doc, &u.Object); err != nil {
			return nil, err
		}
		if u.Object == nil {
			continue // only comments
		}
		items := []unstructured.Unstructured{*u}
		if u.IsList() {
			l, err := u.ToList()
			if err != nil {
				return nil, err
			}
			items = l.Items
		}
		for i := range items {
			o, err := typed(&items[i])
			if err != nil {
				return nil, err
			}
			out = append(out, o)
		}
	}
}

// typed turns a document into upstream's own type, with the defaults that a snapshot may leave out.
func typed(u *unstructured.Unstructured) (client.Object, error) {
	o, err := scheme.Scheme.New(u.GroupVersionKind())
	if err != nil {
		return nil, err
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, o); err != nil {
		return nil, fmt.Errorf("%s %s: %w", u.GetKind(), u.GetName(), err)
	}
	obj := o.(client.Object)
	if obj.GetUID() == "" {
		obj.SetUID(types.UID(u.GetKind() + "/" + obj.GetNamespace() + "/" + obj.GetName()))
	}
	if ts := obj.GetCreationTimestamp(); ts.IsZero() {
		obj.SetCreationTimestamp(metav1.NewTime(time.Unix(1700000000, 0)))
	}
	switch x := obj.(type) {
	case *v1.NodePool:
		if x.Spec.Template.Spec.NodeClassRef == nil {
			x.Spec.Template.Spec.NodeClassRef = &v1.NodeClassReference{Group: "karpenter.kwok.sh", Kind: "KWOKNodeClass", Name: "default"}
		}
		if len(x.Spec.Disruption.Budgets) == 0 {
			x.Spec.Disruption.Budgets = []v1.Budget{{Nodes: "10%"}}
		}
		for _, t := range []string{v1.ConditionTypeValidationSucceeded, v1.ConditionTypeNodeClassReady, status.ConditionReady} {
			x.StatusConditions().SetTrue(t)
		}
	case *corev1.Pod:
		// A pod that no node holds is what kube-scheduler would have marked unschedulable.
		if x.Spec.NodeName == "" && len(x.Status.Conditions) == 0 {
			x.Status.Phase = corev1.PodPending
			x.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
		}
	}
	return obj, nil
}

package main

import (
	"context"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	kwok "sigs.k8s.io/karpenter/kwok/cloudprovider"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/scheduling"
)

// instanceTypes are the ones that every NodePool may launch.
func instanceTypes(ctx context.Context, set string) ([]*cloudprovider.InstanceType, error) {
	if set == "kwok" {
		return kwok.ConstructInstanceTypes(ctx)
	}
	count, err := strconv.Atoi(set)
	if err != nil || count < 1 {
		return nil, fmt.Errorf("instance types are kwok or a count, not %q", set)
	}
	v1.WellKnownLabels = v1.WellKnownLabels.Insert("size", "special", "integer")
	var its []*cloudprovider.InstanceType
	for i := range count {
		its = append(its, fake(i+1))
	}
	return its, nil
}

// fake is the type with so many cores of upstream's scheduler benchmark: twice as many GiB, ten
// times as many pods, and a price linear in all of it.
func fake(cpu int) *cloudprovider.InstanceType {
	name := fmt.Sprintf("fake-it-%d", cpu-1)
	memory := resource.MustParse(fmt.Sprintf("%dGi", 2*cpu))
	price := 0.1*float64(cpu) + 0.1*memory.AsApproximateFloat64()/1e9
	size, special := "large", scheduling.NewRequirement("special", corev1.NodeSelectorOpIn, "optional")
	if cpu <= 4 {
		size, special = "small", scheduling.NewRequirement("special", corev1.NodeSelectorOpDoesNotExist)
	}
	it := &cloudprovider.InstanceType{
		Name: name,
		Requirements: scheduling.NewRequirements(
			scheduling.NewRequirement(corev1.LabelInstanceTypeStable, corev1.NodeSelectorOpIn, name),
			scheduling.NewRequirement(corev1.LabelArchStable, corev1.NodeSelectorOpIn, "amd64"),
			scheduling.NewRequirement(corev1.LabelOSStable, corev1.NodeSelectorOpIn, "darwin", "linux", "windows"),
			scheduling.NewRequirement(corev1.LabelTopologyZone, corev1.NodeSelectorOpIn, "test-zone-1", "test-zone-2", "test-zone-3"),
			scheduling.NewRequirement(v1.CapacityTypeLabelKey, corev1.NodeSelectorOpIn, v1.CapacityTypeSpot, v1.CapacityTypeOnDemand),
			scheduling.NewRequirement("size", corev1.NodeSelectorOpIn, size),
			special,
			scheduling.NewRequirement("integer", corev1.NodeSelectorOpIn, strconv.Itoa(cpu)),
		),
		Capacity: corev1.ResourceList{
			corev1.ResourceCPU:    *resource.NewQuantity(int64(cpu), resource.DecimalSI),
			corev1.ResourceMemory: memory,
			corev1.ResourcePods:   *resource.NewQuantity(int64(10*cpu), resource.DecimalSI),
		},
		Overhead: &cloudprovider.InstanceTypeOverhead{KubeReserved: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("10Mi"),
		}},
	}
	for _, o := range [][2]string{
		{v1.CapacityTypeSpot, "test-zone-1"}, {v1.CapacityTypeSpot, "test-zone-2"},
		{v1.CapacityTypeOnDemand, "test-zone-1"}, {v1.CapacityTypeOnDemand, "test-zone-2"}, {v1.CapacityTypeOnDemand, "test-zone-3"},
	} {
		it.Offerings = append(it.Offerings, &cloudprovider.Offering{
			Available: true, Price: price,
			Requirements: scheduling.NewLabelRequirements(map[string]string{v1.CapacityTypeLabelKey: o[0], corev1.LabelTopologyZone: o[1]}),
		})
	}
	return it
}

package main

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"sigs.k8s.io/karpenter/pkg/apis/autoscaling/v1beta1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/cloudprovider/overlay"
	"sigs.k8s.io/karpenter/pkg/controllers/capacitybuffer"
	"sigs.k8s.io/karpenter/pkg/controllers/nodeoverlay"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/state/virtualpods"
)

// overlaid lets upstream's own controller judge the NodeOverlays once, and decorates the provider
// with the result.
func overlaid(ctx context.Context, w world) cloudprovider.CloudProvider {
	store := nodeoverlay.NewInstanceTypeStore()
	scratch := state.NewCluster(w.clock, w.client, w.provider) // the controller only marks it as changed
	_, err := nodeoverlay.NewController(w.clock, w.client, w.provider, store, scratch).Reconcile(ctx, reconcile.Request{})
	check(err)
	return overlay.Decorate(w.provider, w.client, store)
}

// resolveBuffers runs upstream's own controller for each CapacityBuffer, which fills the cache of
// virtual pods that the provisioner reads.
func resolveBuffers(ctx context.Context, w world, cache *virtualpods.Cache) {
	controller := capacitybuffer.NewController(w.client, untriggered{}, cache)
	for _, o := range w.objects {
		if b, ok := o.(*v1beta1.CapacityBuffer); ok {
			_, err := controller.Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(b)})
			check(err)
		}
	}
}

// untriggered stands for a provisioner that is run by hand.
type untriggered struct{}

func (untriggered) Trigger(types.UID) {}
func (untriggered) TriggerReconcile() {}

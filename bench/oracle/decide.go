package main

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/controllers/disruption"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	"sigs.k8s.io/karpenter/pkg/operator/options"
	"sigs.k8s.io/karpenter/pkg/state/cost"
	nodeutils "sigs.k8s.io/karpenter/pkg/utils/node"
)

// schedule goes through the steps of upstream's own provisioning pass, so that the solve can be
// timed by itself.
func schedule(ctx context.Context, w world, out *Output) {
	start := time.Now()
	nodes := w.cluster.DeepCopyNodes()
	pods, err := w.prov.GetPendingPods(ctx)
	check(err)
	deleting, err := nodes.Deleting().CurrentlyReschedulablePods(ctx, w.client, w.clock, w.recorder)
	check(err)
	uids := sets.New[types.UID]()
	for _, p := range deleting {
		uids.Insert(p.UID)
	}
	pods = append(pods, deleting...)
	opts := []scheduling.Options{scheduling.NumConcurrentReconciles(w.cpus), scheduling.MinValuesPolicy(options.MinValuesPolicy(w.minValues))}
	switch w.reserved {
	case "strict":
		opts = append(opts, scheduling.DisableReservedCapacityFallback)
	case "fallback":
	default:
		check(fmt.Errorf("unknown reserved mode %q", w.reserved))
	}
	if w.prefs == "Ignore" {
		opts = append(opts, scheduling.IgnorePreferences)
	}
	s, err := w.prov.NewScheduler(ctx, pods, nodes.Active(), uids, opts...)
	check(err)
	out.SetupSeconds = time.Since(start).Seconds()

	start = time.Now()
	res, err := s.Solve(ctx, pods)
	check(err)
	res = res.TruncateInstanceTypes(ctx, scheduling.MaxInstanceTypes)
	out.Seconds = time.Since(start).Seconds()

	for _, n := range res.NewNodeClaims {
		cl := claim(n)
		out.NodeClaims = append(out.NodeClaims, cl)
		out.TotalPrice += cl.Price
		out.Pods += len(cl.Pods)
	}
	out.Existing = placements(res.ExistingNodes)
	for _, p := range out.Existing {
		out.Pods += len(p.Pods)
	}
	for p, e := range res.PodErrors {
		out.Errors[p.Namespace+"/"+p.Name] = e.Error()
	}
	out.Ignored = ignored(ctx, w)
}

// ignored are the pending pods that never reach the solve, and why.
func ignored(ctx context.Context, w world) map[string]string {
	out := map[string]string{}
	pods, err := nodeutils.GetProvisionablePods(ctx, w.client)
	check(err)
	for _, p := range pods {
		if err := w.prov.Validate(ctx, p); err != nil {
			out[p.Namespace+"/"+p.Name] = err.Error()
		}
	}
	return out
}

// consolidate is one pass: the first method that finds something wins.
func consolidate(ctx context.Context, w world, out *Output) {
	start := time.Now()
	clusterCost := cost.NewClusterCost(ctx, w.provider, w.client)
	for _, o := range w.objects {
		if nc, ok := o.(*v1.NodeClaim); ok {
			_ = clusterCost.UpdateNodeClaim(ctx, nc)
		}
	}
	queue := disruption.NewQueue(w.client, w.recorder, w.cluster, w.clock, w.prov)
	base := disruption.MakeConsolidation(w.clock, w.cluster, w.client, w.prov, w.provider, w.recorder, queue)
	methods := []struct {
		name string
		m    disruption.Method
	}{
		{"empty", disruption.NewEmptiness(base, disruption.WithValidator(accept{}))},
		{"multi", disruption.NewMultiNodeConsolidation(base, disruption.WithValidator(accept{}))},
		{"single", disruption.NewSingleNodeConsolidation(base, disruption.WithValidator(accept{}))},
	}
	for _, m := range methods {
		cands, totals, err := disruption.GetCandidatesWithTotals(ctx, w.cluster, w.client, w.recorder, w.clock, w.provider, m.m.ShouldDisrupt, m.m.Class(), queue, clusterCost)
		check(err)
		if len(cands) == 0 {
			continue
		}
		if s, ok := m.m.(disruption.NodePoolTotalsSetter); ok {
			s.SetNodePoolTotals(totals)
		}
		budgets, err := disruption.BuildDisruptionBudgetMapping(ctx, w.cluster, w.clock, w.client, w.provider, w.recorder, m.m.Reason())
		check(err)
		cmds, err := m.m.ComputeCommands(ctx, budgets, cands...)
		check(err)
		for _, cmd := range cmds {
			out.Commands = append(out.Commands, command(m.name, cmd))
		}
		if len(cmds) > 0 {
			break
		}
	}
	out.Seconds = time.Since(start).Seconds()
}

// accept passes every command: the 15 s wait before a command is re-validated is no part of the
// decision.
type accept struct{}

func (accept) Validate(_ context.Context, cmd disruption.Command, _ time.Duration) (disruption.Command, error) {
	return cmd, nil
}

package main

import (
	"encoding/json"
	"math"
	"os"
	"sort"

	corev1 "k8s.io/api/core/v1"

	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/controllers/disruption"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	schedreq "sigs.k8s.io/karpenter/pkg/scheduling"
)

// Claim is a node that upstream would launch.
type Claim struct {
	NodePool      string              `json:"nodePool"`
	Pods          []string            `json:"pods"`
	InstanceTypes []string            `json:"instanceTypes"`
	Price         float64             `json:"cheapestPrice"`
	Requests      corev1.ResourceList `json:"requests"`
	Requirements  []string            `json:"requirements"`
}

// Placement is what an existing node receives.
type Placement struct {
	Node string   `json:"node"`
	Pods []string `json:"pods"`
}

// Command is a consolidation.
type Command struct {
	Method       string   `json:"method"`
	Reason       string   `json:"reason"`
	Decision     string   `json:"decision"`
	Candidates   []string `json:"candidates"`
	Replacements []Claim  `json:"replacements"`
	// Existing is where pods go that find room on nodes that are there.
	Existing []Placement `json:"existing"`
	Savings  float64     `json:"savings"`
}

// Output is everything that is printed.
type Output struct {
	NodeClaims []Claim           `json:"nodeClaims"`
	Existing   []Placement       `json:"existing"`
	Errors     map[string]string `json:"errors"`
	// Ignored are pending pods that upstream leaves out before the solve.
	Ignored    map[string]string `json:"ignored,omitempty"`
	TotalPrice float64           `json:"totalPrice"`
	Commands   []Command         `json:"commands,omitempty"`
	// Seconds is the decision alone; SetupSeconds is reading the state and building the scheduler.
	Seconds      float64 `json:"seconds"`
	SetupSeconds float64 `json:"setupSeconds"`
	Pods         int     `json:"pods"`
	Usage
}

func command(method string, cmd disruption.Command) Command {
	out := Command{Method: method, Reason: string(cmd.Reason()), Decision: string(cmd.Decision())}
	for _, c := range cmd.Candidates {
		out.Candidates = append(out.Candidates, c.Name())
		out.Savings += c.Price
	}
	for _, r := range cmd.Replacements {
		cl := claim(r.NodeClaim)
		out.Replacements = append(out.Replacements, cl)
		out.Savings -= cl.Price
	}
	sort.Strings(out.Candidates)
	out.Existing = placements(cmd.Results.ExistingNodes)
	return out
}

func placements(nodes []*scheduling.ExistingNode) []Placement {
	out := []Placement{}
	for _, n := range nodes {
		if len(n.Pods) > 0 {
			out = append(out, Placement{Node: n.Name(), Pods: podNames(n.Pods)})
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Node < out[j].Node })
	return out
}

func claim(n *scheduling.NodeClaim) Claim {
	cl := Claim{NodePool: n.NodePoolName, Pods: podNames(n.Pods), Requests: n.Spec.Resources.Requests, Price: math.MaxFloat64}
	for _, it := range n.InstanceTypeOptions {
		cl.InstanceTypes = append(cl.InstanceTypes, it.Name)
		if offs := it.Offerings.Available().Compatible(n.Requirements); len(offs) > 0 {
			cl.Price = math.Min(cl.Price, offs.Cheapest().Price)
		}
	}
	sort.Strings(cl.InstanceTypes)
	for key, r := range n.Requirements {
		if key != corev1.LabelHostname && key != corev1.LabelInstanceTypeStable {
			cl.Requirements = append(cl.Requirements, r.String())
		}
	}
	sort.Strings(cl.Requirements)
	return cl
}

func podNames(pods []*corev1.Pod) []string {
	var out []string
	for _, p := range pods {
		out = append(out, p.Namespace+"/"+p.Name)
	}
	sort.Strings(out)
	return out
}

func dumpTypes(its []*cloudprovider.InstanceType) {
	type offering struct {
		Requirements []string `json:"requirements"`
		Price        float64  `json:"price"`
	}
	type it struct {
		Name         string              `json:"name"`
		Requirements []string            `json:"requirements"`
		Capacity     corev1.ResourceList `json:"capacity"`
		Allocatable  corev1.ResourceList `json:"allocatable"`
		Offerings    []offering          `json:"offerings"`
	}
	req := func(rs schedreq.Requirements) (out []string) {
		for _, r := range rs {
			out = append(out, r.String())
		}
		sort.Strings(out)
		return out
	}
	var out []it
	for _, t := range its {
		x := it{Name: t.Name, Requirements: req(t.Requirements), Capacity: t.Capacity, Allocatable: t.Allocatable()}
		for _, o := range t.Offerings {
			x.Offerings = append(x.Offerings, offering{req(o.Requirements), o.Price})
		}
		out = append(out, x)
	}
	check(json.NewEncoder(os.Stdout).Encode(out))
}

// Oracle answers one question: what does the Go Karpenter decide for this cluster?
//
// It loads Kubernetes manifests (a snapshot of a cluster) into an in-memory client, fills upstream's
// cluster state from them, and runs upstream's provisioning or consolidation once. It prints the
// decision as JSON, with the time and the memory that the decision took.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"time"

	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	kwok "sigs.k8s.io/karpenter/kwok/cloudprovider"
	kwokoptions "sigs.k8s.io/karpenter/kwok/options"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/controllers/dynamicresources/deviceallocation"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/events"
	"sigs.k8s.io/karpenter/pkg/operator/injection"
	"sigs.k8s.io/karpenter/pkg/operator/logging"
	"sigs.k8s.io/karpenter/pkg/operator/options"
	"sigs.k8s.io/karpenter/pkg/state/virtualpods"
)

// settings are the command line.
type settings struct {
	types         string
	typesFile     string
	mode          string
	prefs         string
	minValues     string
	reserved      string
	reservation   string
	schedulerConf string
	dump          bool
	cpus          int
	runs          int
	spot          bool
	overlays      bool
	buffers       bool
	dra           bool
	paths         []string
}

func parse() settings {
	s := settings{}
	flag.StringVar(&s.types, "types", "kwok", "kwok: the built-in KWOK types, or the file; 400: the 400 fake types of upstream's scheduler benchmark")
	flag.StringVar(&s.typesFile, "instance-types", "", "KWOK instance types file; empty: the built-in set")
	flag.StringVar(&s.mode, "mode", "schedule", "schedule | consolidate")
	flag.StringVar(&s.prefs, "preference-policy", "Respect", "Respect | Ignore")
	flag.StringVar(&s.minValues, "min-values-policy", "Strict", "Strict | BestEffort")
	flag.StringVar(&s.reserved, "reserved-mode", "strict", "strict (as the provisioner) | fallback (as simulations and upstream's benchmark)")
	flag.StringVar(&s.reservation, "reservation-id-label", "karpenter.kwok.sh/reservation-id", "the label that names the reservation of a reserved offering (KWOK itself names none)")
	flag.StringVar(&s.schedulerConf, "scheduler-config", "", "YAML or JSON text of --scheduler-config")
	flag.BoolVar(&s.dump, "dump-instance-types", false, "print the instance types as the decision code sees them, and exit")
	flag.IntVar(&s.cpus, "cpus", 2, "workers for the scheduling simulation")
	flag.IntVar(&s.runs, "runs", 1, "decide so many times (upstream is not deterministic) and print each answer")
	flag.BoolVar(&s.spot, "spot-to-spot", true, "gate SpotToSpotConsolidation")
	flag.BoolVar(&s.overlays, "node-overlay", false, "gate NodeOverlay")
	flag.BoolVar(&s.buffers, "capacity-buffer", false, "gate CapacityBuffer")
	flag.BoolVar(&s.dra, "dra", false, "--ignore-dra-requests=false")
	flag.Parse()
	s.paths = flag.Args()
	return s
}

func (s settings) context() context.Context {
	config, err := options.ParseSchedulerConfiguration(s.schedulerConf)
	check(err)
	ctx := options.ToContext(context.Background(), &options.Options{
		CPURequests: int64(s.cpus) * 1000, PreferencePolicy: options.PreferencePolicy(s.prefs), MinValuesPolicy: options.MinValuesPolicy(s.minValues),
		BatchMaxDuration: 10 * time.Second, BatchIdleDuration: time.Second, IgnoreDRARequests: !s.dra, SchedulerConfig: config,
		FeatureGates: options.FeatureGates{ReservedCapacity: true, SpotToSpotConsolidation: s.spot, NodeOverlay: s.overlays, CapacityBuffer: s.buffers},
	})
	ctx = kwokoptions.ToContext(ctx, &kwokoptions.Options{InstanceTypesFilePath: s.typesFile})
	return injection.WithControllerName(ctx, "provisioner")
}

// world is upstream's view of one snapshot.
type world struct {
	settings
	client   client.Client
	clock    clock.Clock
	provider cloudprovider.CloudProvider
	cluster  *state.Cluster
	recorder events.Recorder
	prov     *provisioning.Provisioner
	objects  []client.Object
}

func main() {
	s := parse()
	log.SetLogger(logging.NopLogger)
	ctx := s.context()
	cloudprovider.ReservationIDLabel = s.reservation

	its, err := instanceTypes(ctx, s.types)
	check(err)
	if s.dump {
		dumpTypes(its)
		return
	}
	objs, err := readAll(s.paths)
	check(err)

	w := world{settings: s, client: memory(objs), clock: clock.RealClock{}, recorder: events.NewRecorder(&record.FakeRecorder{}), objects: objs}
	w.provider = kwok.NewCloudProvider(ctx, w.client, its)
	if s.overlays {
		w.provider = overlaid(ctx, w)
	}
	w.cluster = state.NewCluster(w.clock, w.client, w.provider)
	fill(ctx, w.cluster, objs)
	devices := deviceallocation.NewController(w.client)
	if s.dra {
		devices.Hydrate(ctx)
	}
	virtual := virtualpods.NewVirtualPodCache(w.client)
	w.prov = provisioning.NewProvisioner(w.client, w.recorder, w.provider, w.cluster, w.clock, devices, virtual)
	if s.buffers {
		resolveBuffers(ctx, w, virtual)
	}

	enc := json.NewEncoder(os.Stdout)
	enc.SetIndent("", " ")
	for range s.runs {
		check(enc.Encode(decide(ctx, w)))
	}
}

func decide(ctx context.Context, w world) Output {
	out := Output{Errors: map[string]string{}, NodeClaims: []Claim{}, Existing: []Placement{}}
	usage := beforeDecision()
	switch w.mode {
	case "schedule":
		schedule(ctx, w, &out)
	case "consolidate":
		consolidate(ctx, w, &out)
	default:
		check(fmt.Errorf("unknown mode %q", w.mode))
	}
	out.Usage = usage.afterDecision()
	return out
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "oracle:", err)
		os.Exit(1)
	}
}

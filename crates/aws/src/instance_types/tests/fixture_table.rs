//! The tables of spec 51 §16, cell by cell.

use super::*;

/// Name; architecture, vCPU, MiB, `cards x interfaces x addresses`, EFA, GPU or Neuron, NVMe GB,
/// EBS Mbps, network Mb, CPU maker, MHz, hypervisor, in-transit encryption.
#[rustfmt::skip]
const INPUTS: [(&str, &str); 17] = [
    ("c6g.large",      "arm64 2 4096 1x3x10 0 - - 4750 750 AWS 2500 nitro false"),
    ("g4ad.16xlarge",  "x86_64 64 262144 1x8x30 0 Radeon_Pro_V520,AMD,4,8192 2400 6300 25000 AMD 3000 nitro true"),
    ("g4dn.8xlarge",   "x86_64 32 131072 1x4x15 1 T4,NVIDIA,1,16384 900 9500 50000 Intel 2500 nitro true"),
    ("g5.12xlarge",    "x86_64 48 196608 1x15x50 1 A10G,NVIDIA,4,22888 3800 16000 40000 AMD 3300 nitro true"),
    ("inf2.24xlarge",  "x86_64 96 393216 1x15x50 0 Inferentia2,6,2 - 30000 50000 AMD 3600 nitro true"),
    ("inf2.xlarge",    "x86_64 4 16384 1x4x15 0 Inferentia2,1,2 - 10000 2083 AMD 3600 nitro true"),
    ("m5.large",       "x86_64 2 8192 1x3x10 0 - - 4750 750 Intel 3100 nitro false"),
    ("m5.metal",       "x86_64 96 393216 1x15x50 0 - - 19000 25000 Intel 3100 - false"),
    ("m5.xlarge",      "x86_64 4 16384 1x4x15 0 - - 4750 1250 Intel 3100 nitro false"),
    ("m6idn.32xlarge", "x86_64 128 524288 2x8x50 2 - 7600 100000 200000 Intel 3500 nitro true"),
    ("m7i-flex.large", "x86_64 2 8192 1x3x10 0 - - 10000 390 Intel 3200 nitro true"),
    ("p5.48xlarge",    "x86_64 192 2097152 32x2x50 32 H100,NVIDIA,8,81920 30400 80000 3200000 AMD 3600 nitro true"),
    ("t3.large",       "x86_64 2 8192 1x3x12 0 - - 2780 512 Intel 2500 nitro false"),
    ("t4g.medium",     "arm64 2 4096 1x3x6 0 - - 2085 256 AWS 2500 nitro false"),
    ("t4g.small",      "arm64 2 2048 1x3x4 0 - - 2085 128 AWS 2500 nitro false"),
    ("t4g.xlarge",     "arm64 4 16384 1x4x15 0 - - 2780 1024 AWS 2500 nitro false"),
    ("trn1.2xlarge",   "x86_64 8 32768 1x4x15 0 Trainium,1,2 474 20000 3125 Intel 3500 nitro true"),
];

/// Name; pods, memory Mi, kubeReserved cpu m and memory Mi, allocatable cpu m and memory Mi,
/// pod-eni, PrivateIPv4Address under Windows (-1: none), on-demand price.
#[rustfmt::skip]
const OUTPUTS: [(&str, [i64; 8], f64); 17] = [
    ("c6g.large",      [29, 3729, 70, 574, 1930, 3055, 9, -1], 0.068),
    ("g4ad.16xlarge",  [234, 242_483, 230, 2829, 63_770, 239_554, 6, 29], 3.468),
    ("g4dn.8xlarge",   [58, 121_241, 150, 893, 31_850, 120_248, 58, 14], 2.176),
    ("g5.12xlarge",    [737, 181_862, 190, 8362, 47_810, 173_400, 107, 49], 5.672),
    ("inf2.24xlarge",  [737, 363_724, 310, 8362, 95_690, 355_262, 107, 49], 6.49063),
    ("inf2.xlarge",    [58, 15_155, 80, 893, 3920, 14_162, 18, 14], 0.7582),
    ("m5.large",       [29, 7577, 70, 574, 1930, 6903, 9, 9], 0.096),
    ("m5.metal",       [737, 363_724, 310, 8362, 95_690, 355_262, 120, 49], 4.608),
    ("m5.xlarge",      [58, 15_155, 80, 893, 3920, 14_162, 18, 14], 0.192),
    ("m6idn.32xlarge", [394, 484_966, 390, 4589, 127_610, 480_277, 106, 49], 10.18368),
    ("m7i-flex.large", [29, 7577, 70, 574, 1930, 6903, 3, 9], 0.09576),
    ("p5.48xlarge",    [100, 1_939_865, 550, 1355, 191_450, 1_938_410, 120, 49], 55.04),
    ("t3.large",       [35, 7577, 70, 640, 1930, 6837, 0, 11], 0.0832),
    ("t4g.medium",     [17, 3729, 70, 442, 1930, 3187, 0, -1], 0.0336),
    ("t4g.small",      [11, 1835, 70, 376, 1930, 1359, 0, -1], 0.0168),
    ("t4g.xlarge",     [58, 15_096, 80, 893, 3920, 14_103, 0, -1], 0.1344),
    ("trn1.2xlarge",   [58, 30_310, 90, 893, 7910, 29_317, 17, 14], 1.34375),
];

/// Returns the cells of the first table for an instance type.
fn input_cells(name: &str, bench: &Bench) -> String {
    let Entry { info, .. } = entry(name);
    let found = bench.get(&class(&json!({})), name);
    let (network, processor) = (info.network.unwrap(), info.processor.unwrap());
    let cards = network.cards.unwrap();
    let accelerator = match (info.gpus.as_slice(), info.neuron_devices.as_deref()) {
        ([gpu], _) => {
            let memory = gpu.memory_mib.unwrap();
            format!("{},{},{},{memory}", gpu.name.replace(' ', "_"), gpu.manufacturer, gpu.count)
        }
        (_, Some([device])) => format!("{},{},{}", device.name, device.count, device.cores),
        _ => "-".to_owned(),
    };
    let dash = |key: &str| label(&found, key).replace("DoesNotExist", "-");
    [
        processor.architectures[0].clone(),
        label(&found, "karpenter.k8s.aws/instance-cpu"),
        label(&found, "karpenter.k8s.aws/instance-memory"),
        format!("{}x{}x{}", cards.len(), cards[0].maximum_interfaces, network.ipv4_per_interface),
        text(&found, "vpc.amazonaws.com/efa"),
        accelerator,
        dash("karpenter.k8s.aws/instance-local-nvme"),
        dash("karpenter.k8s.aws/instance-ebs-bandwidth"),
        dash("karpenter.k8s.aws/instance-network-bandwidth"),
        processor.manufacturer.unwrap(),
        label(&found, "karpenter.k8s.aws/instance-cpu-sustained-clock-speed-mhz"),
        info.hypervisor.unwrap_or_else(|| "-".to_owned()),
        label(&found, "karpenter.k8s.aws/instance-encryption-in-transit-supported"),
    ]
    .join(" ")
}

#[test]
fn inputs_equal_the_first_table() {
    let bench = Bench::new();
    for (name, expected) in INPUTS {
        assert_eq!(input_cells(name, &bench), expected, "51 §16: {name}");
    }
}

#[test]
fn derived_values_equal_the_second_table() {
    let bench = Bench::new();
    let (linux, windows) = (class(&json!({})), kubelet("Windows2022", &json!({})));
    for (name, cells, price) in OUTPUTS {
        let found = bench.get(&linux, name);
        let overhead = bench.types.overhead(&linux, name).unwrap();
        let allocatable = found.allocatable();
        let mib = |amount: Quantity| i64::try_from(amount.units() >> 20).unwrap();
        let millis = |amount: Quantity| i64::try_from(amount.millis()).unwrap();
        let units = |amount: Quantity| i64::try_from(amount.units()).unwrap();
        let addresses = bench.get(&windows, name);
        let addresses = addresses.capacity.get("vpc.amazonaws.com/PrivateIPv4Address");
        let got = [
            units(found.capacity.amount("pods")),
            mib(found.capacity.amount("memory")),
            millis(overhead.kube_reserved.amount("cpu")),
            mib(overhead.kube_reserved.amount("memory")),
            millis(allocatable.amount("cpu")),
            mib(allocatable.amount("memory")),
            units(found.capacity.amount("vpc.amazonaws.com/pod-eni")),
            addresses.map_or(-1, units),
        ];
        assert_eq!(got, cells, "51 §16: {name}");
        assert_eq!(bench.prices.current().on_demand(name), Some(price), "51 §16: {name}");
        assert_eq!(mib(allocatable.amount("ephemeral-storage")), 17 << 10, "51 §16: {name}");
    }
}

//! Tests of the built-in instance types and of instance type files.

use super::*;

/// Written down from upstream's list of types, once.
#[test]
fn the_built_in_instance_types_match_upstream() {
    #[rustfmt::skip]
    #[expect(clippy::unreadable_literal, reason = "prices as they are")]
    let golden = [
        // name   memory    pods   cpu        memory       on-demand           spot
        //                         allocatable
        ("c-1x",   "2Gi",       16, "900m",    "2038Mi",    0.027147483648,     0.019003238553599998),
        ("s-1x",   "4Gi",       16, "900m",    "4086Mi",    0.029294967296,     0.020506477107199998),
        ("m-1x",   "8Gi",       16, "900m",    "8182Mi",    0.033589934592,     0.023512954214399997),
        ("c-2x",   "4Gi",       32, "1900m",   "4086Mi",    0.054294967296,     0.038006477107199996),
        ("s-2x",   "8Gi",       32, "1900m",   "8182Mi",    0.058589934592,     0.041012954214399995),
        ("m-2x",   "16Gi",      32, "1900m",   "16374Mi",   0.067179869184,     0.047025908428799994),
        ("c-4x",   "8Gi",       64, "3900m",   "8182Mi",    0.108589934592,     0.07601295421439999),
        ("s-4x",   "16Gi",      64, "3900m",   "16374Mi",   0.117179869184,     0.08202590842879999),
        ("m-4x",   "32Gi",      64, "3900m",   "32758Mi",   0.134359738368,     0.09405181685759999),
        ("c-8x",   "16Gi",     128, "7900m",   "16374Mi",   0.217179869184,     0.15202590842879998),
        ("s-8x",   "32Gi",     128, "7900m",   "32758Mi",   0.234359738368,     0.16405181685759998),
        ("m-8x",   "64Gi",     128, "7900m",   "65526Mi",   0.268719476736,     0.18810363371519997),
        ("c-16x",  "32Gi",     256, "15900m",  "32758Mi",   0.434359738368,     0.30405181685759997),
        ("s-16x",  "64Gi",     256, "15900m",  "65526Mi",   0.468719476736,     0.32810363371519996),
        ("m-16x",  "128Gi",    256, "15900m",  "131062Mi",  0.537438953472,     0.37620726743039995),
        ("c-32x",  "64Gi",     512, "31900m",  "65526Mi",   0.868719476736,     0.6081036337151999),
        ("s-32x",  "128Gi",    512, "31900m",  "131062Mi",  0.937438953472,     0.6562072674303999),
        ("m-32x",  "256Gi",    512, "31900m",  "262134Mi",  1.074877906944,     0.7524145348607999),
        ("c-48x",  "96Gi",     768, "47900m",  "98294Mi",   1.3030792151040003, 0.9121554505728001),
        ("s-48x",  "192Gi",    768, "47900m",  "196598Mi",  1.4061584302080001, 0.9843109011456),
        ("m-48x",  "384Gi",    768, "47900m",  "393206Mi",  1.612316860416,     1.1286218022912),
        ("c-64x",  "128Gi",   1024, "63900m",  "131062Mi",  1.737438953472,     1.2162072674303999),
        ("s-64x",  "256Gi",   1024, "63900m",  "262134Mi",  1.874877906944,     1.3124145348607998),
        ("m-64x",  "512Gi",   1024, "63900m",  "524278Mi",  2.149755813888,     1.5048290697215998),
        ("c-96x",  "192Gi",   1024, "95900m",  "196598Mi",  2.6061584302080005, 1.8243109011456002),
        ("s-96x",  "384Gi",   1024, "95900m",  "393206Mi",  2.8123168604160003, 1.9686218022912),
        ("m-96x",  "768Gi",   1024, "95900m",  "786422Mi",  3.224633720832,     2.2572436045824),
        ("c-128x", "256Gi",   1024, "127900m", "262134Mi",  3.474877906944,     2.4324145348607997),
        ("s-128x", "512Gi",   1024, "127900m", "524278Mi",  3.749755813888,     2.6248290697215997),
        ("m-128x", "1Ti",     1024, "127900m", "1048566Mi", 4.299511627776,     3.0096581394431996),
        ("c-192x", "384Gi",   1024, "191900m", "393206Mi",  5.212316860416001,  3.6486218022912005),
        ("s-192x", "768Gi",   1024, "191900m", "786422Mi",  5.6246337208320005, 3.9372436045824),
        ("m-192x", "1536Gi",  1024, "191900m", "1572854Mi", 6.449267441664,     4.5144872091648),
        ("c-256x", "512Gi",   1024, "255900m", "524278Mi",  6.949755813888,     4.8648290697215995),
        ("s-256x", "1Ti",     1024, "255900m", "1048566Mi", 7.499511627776,     5.249658139443199),
        ("m-256x", "2Ti",     1024, "255900m", "2097142Mi", 8.599023255552,     6.019316278886399),
    ];
    let types = built_in();
    let mut types = types.iter();
    for (name, memory, pods, cpu_left, memory_left, on_demand, spot) in golden {
        for (os, arch) in
            [("linux", "amd64"), ("linux", "arm64"), ("windows", "amd64"), ("windows", "arm64")]
        {
            let name = format!("{name}-{arch}-{os}");
            let found = types.next().unwrap();
            assert_eq!(found.name, name, "40/KW-01");
            let (family, size) = name.split_once('-').unwrap();
            let cpu = size.split_once('x').unwrap().0;
            assert_eq!(
                found.requirements.to_string(),
                format!(
                    "karpenter.kwok.sh/instance-cpu In [{cpu}], \
                     karpenter.kwok.sh/instance-family In [{family}], \
                     karpenter.kwok.sh/instance-memory In [{memory}], \
                     karpenter.kwok.sh/instance-size In [{cpu}], \
                     karpenter.sh/capacity-type In [on-demand spot], \
                     kubernetes.io/arch In [{arch}], kubernetes.io/os In [{os}], \
                     node.kubernetes.io/instance-type In [{name}], \
                     topology.kubernetes.io/zone In [test-zone-a test-zone-b test-zone-c test-zone-d]"
                )
            );
            let json = |cpu: &str, memory| {
                format!(
                    "{{\"cpu\":\"{cpu}\",\"ephemeral-storage\":\"20Gi\",\
                     \"memory\":\"{memory}\",\"pods\":\"{pods}\"}}"
                )
            };
            assert_eq!(found.capacity.json(), json(cpu, memory), "40/KW-02 {name}");
            assert_eq!(found.allocatable().json(), json(cpu_left, memory_left), "{name}");
            // Two prices of upstream's list differ from their like in the last bit.
            let (on_demand, spot) = match name.as_str() {
                "c-48x-arm64-windows" => (1.303_079_215_104, 0.912_155_450_572_8),
                "c-192x-arm64-linux" => (5.212_316_860_416, 3.648_621_802_291_2),
                _ => (on_demand, spot),
            };
            assert_offerings(found, spot, on_demand);
        }
    }
    assert_eq!(types.next(), None, "40/KW-01");
}

#[track_caller]
fn assert_offerings(found: &InstanceType, spot: f64, on_demand: f64) {
    let expected: Vec<_> = ["a", "b", "c", "d"]
        .iter()
        .flat_map(|zone| [(zone, "spot", spot), (zone, "on-demand", on_demand)])
        .map(|(zone, capacity_type, price)| {
            let requirements = format!(
                "karpenter.sh/capacity-type In [{capacity_type}], \
                 topology.kubernetes.io/zone In [test-zone-{zone}]"
            );
            (requirements, price.to_string(), true, 0)
        })
        .collect();
    let offerings: Vec<_> = found
        .offerings
        .iter()
        .map(|o| {
            (o.requirements.to_string(), o.price.to_string(), o.available, o.reservation_capacity)
        })
        .collect();
    assert_eq!(offerings, expected, "40/KW-01 {}", found.name);
}

#[test]
fn size_and_family_are_read_from_names() {
    #[rustfmt::skip]
    let cases = [
        // case     name             size            family
        ("40/KW-03", "g5.4xlarge",    Some("4xlarge"), "g5"),
        ("40/KW-03", "n1-standard-8", None,            "n1"),
        ("40/KW-03", "Standard",      None,            "S"),
        ("plain",    "m5.xlarge",     Some("xlarge"),  "m5"),
        ("metal",    "m5.metal",      Some("metal"),   "m5"),
        ("suffix",   "m5.metal-24xl", None,            "m5"),
        ("dash",     "a-b.large",     None,            "a"),
        ("no word",  ".large",        None,            ""),
        ("empty",    "",              None,            ""),
        ("not ASCII", "é",            None,            "é"),
    ];
    for (case, name, expected_size, expected_family) in cases {
        assert_eq!(
            (instance_size(name), instance_family(name)),
            (expected_size, expected_family),
            "{case}"
        );
    }
}

#[test]
fn instance_type_files_ignore_key_case_and_have_defaults() {
    let types = from_file(
        br#"[{
            "NAME": "g5.4xlarge", "Architecture": "amd64", "operatingsystems": ["linux"],
            "resources": {"cpu": 16, "memory": "65536Mi", "nvidia.com/gpu": "1"},
            "offerings": [
                {"price": 1.5, "available": false, "reservationCapacity": 3, "requirements": [
                    {"Key": "topology.kubernetes.io/zone", "Operator": "In", "Values": ["z-1"]},
                    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["reserved"]},
                    {"key": "example.com/rack", "operator": "Exists"}
                ]},
                {"Price": 2, "Requirements": [
                    {"key": "failure-domain.beta.kubernetes.io/zone", "operator": "In", "values": ["z-2"]}
                ]}
            ]
        }]"#,
    )
    .unwrap();
    let [found] = types.as_slice() else { panic!("one type, not {types:?}") };
    assert_eq!(found.capacity.amount(PODS), Quantity::from_units(110), "40/KW-09");
    assert_eq!(
        found.requirements.to_string(),
        "karpenter.kwok.sh/instance-cpu In [16], karpenter.kwok.sh/instance-family In [g5], \
         karpenter.kwok.sh/instance-memory In [64Gi], karpenter.kwok.sh/instance-size In [4xlarge], \
         karpenter.sh/capacity-type In [reserved], kubernetes.io/arch In [amd64], \
         kubernetes.io/os In [linux], node.kubernetes.io/instance-type In [g5.4xlarge], \
         topology.kubernetes.io/zone In [z-1]"
    );
    let [reserved, other] = &*found.offerings else { panic!("two offerings") };
    assert!(reserved.available && other.available);
    assert_eq!((reserved.price, reserved.reservation_capacity), (1.5, 3));
    assert_eq!(other.requirements.to_string(), "topology.kubernetes.io/zone In [z-2]");

    let catalog = catalog(types, ["a", "b"]);
    assert!(catalog.well_known.contains("example.com/rack"));
    assert!(catalog.well_known.contains("karpenter.kwok.sh/instance-cpu"));
    assert_eq!(catalog.pools.keys().collect::<Vec<_>>(), ["a", "b"]);
}

#[test]
fn offerings_have_a_reservation_id_if_the_file_sets_one() {
    let label = |key: &str| {
        let file = format!(
            r#"[{{"name": "a-1x", "offerings": [{{"Price": 1, "ReservationCapacity": 2,
                "Requirements": [{{"key": "{key}", "operator": "In", "values": ["cr-1"]}}]}}]}}]"#
        );
        catalog(from_file(file.as_bytes()).unwrap(), ["a"]).reservation_id_label
    };
    assert_eq!(label(RESERVATION_ID).as_deref(), Some(RESERVATION_ID));
    assert_eq!(label("example.com/rack"), None);
}

#[test]
fn errors_in_instance_type_files_name_their_place() {
    #[rustfmt::skip]
    let cases = [
        ("{",                                          "instance types are not JSON: EOF while parsing an object at line 1 column 1"),
        ("{}",                                         "instance types: the document: expected a list"),
        ("[1]",                                        "instance types: [0]: expected an object"),
        (r#"[{"name": 1}]"#,                           "instance types: [0].name: expected a text"),
        (r#"[{"name": "a", "resources": {"cpu": "x"}}]"#, "instance types: [0] (a).resources.cpu: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"),
        (r#"[{}, {"name": "b", "offerings": [{"price": "1"}]}]"#, "instance types: [1] (b).offerings[0].Price: expected a number"),
        (r#"[{"name": "a", "offerings": [{"requirements": [{"key": "k", "operator": "in"}]}]}]"#, "instance types: [0] (a).offerings[0].Requirements[0].operator: \"in\" is not an operator"),
        (r#"[{"name": "a", "offerings": [{"requirements": [{"key": "k", "operator": "Gt", "values": ["x"]}]}]}]"#, "instance types: [0] (a).offerings[0]: key k with operator Gt must have a single integer value, got [x]"),
        (r#"[{"name": "a", "offerings": [{"ReservationCapacity": 1.5}]}]"#, "instance types: [0] (a).offerings[0].ReservationCapacity: expected an integer"),
        (r#"[{"name": "a", "offerings": [{"Available": "yes"}]}]"#, "instance types: [0] (a).offerings[0].Available: expected true or false"),
    ];
    for (file, error) in cases {
        assert_eq!(from_file(file.as_bytes()).unwrap_err().to_string(), error, "{file}");
    }
    assert_eq!(from_file(b"null").unwrap(), [], "as upstream");
}

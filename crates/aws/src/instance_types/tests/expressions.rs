//! Kubelet expressions: cases R39 to R46 and R55 of spec 51.

use super::*;

fn gated() -> Bench {
    Bench::with_options(|options| options.node_class_cel = true)
}

fn kube_reserved(bench: &Bench, class: &Ec2NodeClass, resource: &str) -> String {
    let overhead = bench.types.overhead(class, "m5.large").unwrap();
    overhead.kube_reserved.amount(resource).canonical()
}

#[test]
fn expressions_are_evaluated_for_each_instance_type() {
    let bench = gated();
    let class = kubelet(
        "AL2023",
        &json!({
            "maxPods": "min(110, vcpus * 8)",
            "kubeReserved": {"memory": "max_pods * 11"},
        }),
    );
    assert_eq!(text(&bench.get(&class, "m5.large"), "pods"), "16", "51/R39");
    assert_eq!(kube_reserved(&bench, &class, "memory"), "176Mi", "51/R39");
    assert_eq!(text(&bench.get(&class, "m5.24xlarge"), "pods"), "110", "51/R39");

    let class = kubelet(
        "AL2023",
        &json!({
            "kubeReserved": {"cpu": "vcpus * 30", "memory": "memory_mib / 100"},
        }),
    );
    assert_eq!(kube_reserved(&bench, &class, "cpu"), "60m", "51/R40");
    assert_eq!(kube_reserved(&bench, &class, "memory"), "96Mi", "51/R40");

    let default = kubelet("AL2023", &json!({"maxPods": "max_pods", "podsPerCore": 4}));
    assert_eq!(text(&bench.get(&default, "m5.large"), "pods"), "8", "51 §5.4");
    let enis = kubelet("AL2023", &json!({"maxPods": "default_enis * ips_per_eni"}));
    assert_eq!(text(&bench.get(&enis, "m5.large"), "pods"), "30", "51 §5.4");
}

#[test]
fn results_are_rounded_up_by_resource() {
    #[rustfmt::skip]
    let cases = [
        ("51/R41", "cpu", 71, "80m"),
        ("51/R41", "memory", 81, "96Mi"),
        ("51/R41", "cpu", 0, "0m"),
        ("51 §5.4", "cpu", 80, "80m"),
        ("51 §5.4", "ephemeral-storage", 3, "3Gi"),
        ("51 §5.4", "pid", 1001, "1001"),
        ("51 §5.4: overflow", "memory", i64::MAX, "9223372036854775807Mi"),
    ];
    for (case, key, number, expected) in cases {
        assert_eq!(reserved_quantity(key, number), expected, "{case}");
    }
}

#[test]
fn doubles_are_truncated_toward_zero() {
    let bench = gated();
    let cases = [("2.9", "2"), ("max(2, 3.5)", "3"), ("double(vcpus) * 1.9", "3")];
    for (expression, expected) in cases {
        let class = kubelet("AL2023", &json!({"maxPods": expression}));
        assert_eq!(text(&bench.get(&class, "m5.large"), "pods"), expected, "51 §5.4: {expression}");
    }
}

#[test]
fn a_failed_max_pods_fails_the_list_and_nothing_is_cached() {
    let bench = gated();
    let context = OfferingContext::default();
    let cases = [
        ("51/R42", "0 - 1"),
        ("51/R42", "2147483648 + 0"),
        ("51/R42", "vcpus / 0"),
        ("51/R45", "true"),
        ("51/R45", "'a'"),
        ("51/R45", ""),
        ("51/R55", "1e300"),
    ];
    for (case, expression) in cases {
        let broken = kubelet("AL2023", &json!({"maxPods": expression}));
        for _ in 0..2 {
            let error = bench.types.list(&broken, &context).unwrap_err().to_string();
            assert!(error.contains("spec.kubelet.maxPods"), "{case} {expression}: {error}");
        }
        assert!(bench.types.check_expressions(&broken).is_err(), "{case}: validation");
        let good = kubelet("AL2023", &json!({"maxPods": "3 + 4"}));
        assert_eq!(text(&bench.get(&good, "m5.large"), "pods"), "7", "{case}");
    }
}

#[test]
fn expressions_are_ignored_with_the_gate_off() {
    let bench = Bench::new();
    let class = kubelet(
        "AL2023",
        &json!({
            "maxPods": "vcpus / 0",
            "kubeReserved": {"cpu": "vcpus * 30"},
        }),
    );
    assert_eq!(text(&bench.get(&class, "m5.large"), "pods"), "29", "51/R43");
    assert_eq!(kube_reserved(&bench, &class, "cpu"), "70m", "51/R43");
    assert_eq!(bench.types.check_expressions(&class), Ok(()), "51/R43");
}

#[test]
fn reserved_entries_that_fail_are_dropped() {
    let bench = gated();
    let cases = [("51/R44", "2 - 7"), ("51/R44", "vcpus / 0"), ("51/R55", "1e300 * 2.0")];
    for (case, expression) in cases {
        let reserved = json!({"cpu": expression, "memory": "memory_mib / 100"});
        let class = kubelet("AL2023", &json!({"kubeReserved": reserved}));
        assert_eq!(kube_reserved(&bench, &class, "cpu"), "70m", "{case}: default");
        assert_eq!(kube_reserved(&bench, &class, "memory"), "96Mi", "{case}");
        let failure = bench.types.check_expressions(&class).unwrap_err().to_string();
        for part in ["instance-type=a1.large", "field=kubeReserved", "key=cpu", expression] {
            assert!(failure.contains(part), "{case}: {failure}");
        }
    }
}

#[test]
fn an_undecodable_kubelet_is_an_error_until_it_is_fixed() {
    let bench = Bench::new();
    let context = OfferingContext::default();
    let broken = kubelet("AL2023", &json!({"kubeReserved": "all"}));
    let error = bench.types.list(&broken, &context).unwrap_err().to_string();
    assert!(error.starts_with("parsing spec.kubelet, "), "51/R46: {error}");
    assert!(bench.types.get(&broken, &context, "m5.large").is_err(), "51/R46");
    assert!(bench.types.list(&class(&json!({})), &context).is_ok(), "51/R46");

    let odd = kubelet("AL2023", &json!({"evictionHard": {"memory.available": "much"}}));
    let error = bench.types.list(&odd, &context).unwrap_err().to_string();
    assert!(error.contains("evictionHard[memory.available]: \"much\" must be"), "{error}");
}

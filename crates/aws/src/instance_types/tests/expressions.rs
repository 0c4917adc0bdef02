//! Kubelet expressions: cases R39 to R46 and R55 of spec 51.

use super::*;

/// Evaluates the expressions of these tests without a CEL library.
#[derive(Debug)]
pub(super) struct Table;

impl KubeletExpressions for Table {
    fn evaluate(
        &self,
        expression: &str,
        variables: &ExpressionVariables<'_>,
    ) -> Result<ExpressionNumber, String> {
        use ExpressionNumber::{Double, Int};
        let int = |number: i64| Ok(Int(number));
        match expression {
            "min(110, vcpus * 8)" => int((variables.vcpus * 8).min(110)),
            "max_pods * 11" => int(variables.max_pods * 11),
            "vcpus * 30" => int(variables.vcpus * 30),
            "memory_mib / 100" => int(variables.memory_mib / 100),
            "max_pods" => int(variables.max_pods),
            "default_enis * ips_per_eni" => int(variables.default_enis * variables.ips_per_eni),
            "vcpus / 0" => Err("division by zero".to_owned()),
            "1e300" => Ok(Double(1e300)),
            "1e300 * 2.0" => Ok(Double(2e300)),
            "2.9" => Ok(Double(2.9)),
            "0.0 / 0.0" => Ok(Double(f64::NAN)),
            "true" | "'a'" | "" => Err("must be an int or a double".to_owned()),
            number => {
                number.trim_end_matches('+').parse().map(Int).map_err(|_| "syntax".to_owned())
            }
        }
    }
}

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
fn numbers_become_integers() {
    use ExpressionNumber::{Double, Int};
    let cases = [
        (Int(-3), Some(-3)),
        (Double(2.9), Some(2)),
        (Double(-2.9), Some(-2)),
        (Double(f64::NAN), None),
        (Double(f64::INFINITY), None),
        (Double(1e300), None),
        (Double(9_223_372_036_854_775_808.0), None),
        (Double(-9_223_372_036_854_775_808.0), Some(i64::MIN)),
    ];
    for (number, expected) in cases {
        assert_eq!(number.integer().ok(), expected, "51 §5.4: {number:?}");
    }
}

#[test]
fn a_failed_max_pods_fails_the_list_and_nothing_is_cached() {
    let bench = gated();
    let context = OfferingContext::default();
    let cases = [
        ("51/R42", "-1+"),
        ("51/R42", "2147483648+"),
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
        let good = kubelet("AL2023", &json!({"maxPods": "7+"}));
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
    let cases = [("51/R44", "-5+"), ("51/R44", "vcpus / 0"), ("51/R55", "1e300 * 2.0")];
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

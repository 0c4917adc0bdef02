//! Tests of the options: cases UP-S1 to UP-S3 of spec 55.

use karpenter_operator::options::flags;

use super::*;

fn parse(variables: &[(&str, &str)], arguments: &[&str]) -> Result<AwsOptions, Vec<String>> {
    let environment = |name: &str| {
        let set = variables.iter().find(|(known, _)| *known == name);
        set.map(|(_, value)| (*value).into())
    };
    let arguments: Vec<_> = arguments.iter().map(|&argument| argument.to_owned()).collect();
    let resolved = flags::resolve(&definitions(), &arguments, environment).unwrap();
    AwsOptions::from_resolved(&resolved).map_err(|problems| problems.0)
}

const NAME: (&str, &str) = ("CLUSTER_NAME", "demo");

#[test]
fn defaults_are_those_of_upstream() {
    let options = parse(&[NAME], &[]).unwrap();
    let gates = "NodeClassCEL=false,DRANVIDIAGPU=false,DRAEFA=false,RebootForRepair=false";
    assert_eq!(options.feature_gates.to_string(), gates, "55/UP-S1");
    assert_eq!(options.security_group_refresh_interval, MINUTE, "55/UP-S1");
    assert_eq!((options.reserved_enis, options.isolated_vpc), (0, false), "50 §1.1");
    assert!((options.vm_memory_overhead_percent - 0.075).abs() < f64::EPSILON, "50 §1.1");
    let resolution = options.resolution("us-west-2", true);
    assert_eq!(resolution, ResolutionOptions::new("us-west-2"));
}

#[test]
fn all_problems_are_reported_together() {
    let problems =
        parse(&[("SECURITY_GROUP_REFRESH_INTERVAL", "59s"), ("AMI_REFRESH_INTERVAL", "1s")], &[]);
    let expected = [
        "missing field, cluster-name",
        "ami-refresh-interval must be at least 1m",
        "security-group-refresh-interval must be at least 1m",
    ];
    assert_eq!(problems.unwrap_err(), expected, "55/UP-S2");

    let all = parse(
        &[],
        &[
            "--cluster-endpoint=cluster.example",
            "--vm-memory-overhead-percent=-1",
            "--reserved-enis=-1",
            "--subnet-refresh-interval=0s",
        ],
    );
    let expected = [
        "cluster endpoint URL is not valid",
        "vm-memory-overhead-percent cannot be negative",
        "reserved-enis cannot be negative",
        "missing field, cluster-name",
        "subnet-refresh-interval must be at least 1m",
    ];
    assert_eq!(all.unwrap_err(), expected, "55 §1: order");
}

#[test]
fn gates_are_parsed_like_those_of_core() {
    let gates = |text: &str| parse(&[NAME, ("AWS_FEATURE_GATES", text)], &[]);
    let options = gates("RebootForRepair=true").unwrap();
    let on = "NodeClassCEL=false,DRANVIDIAGPU=false,DRAEFA=false,RebootForRepair=true";
    assert_eq!(options.feature_gates.to_string(), on, "55/UP-S3");
    assert!(gates("Unknown=true").unwrap().feature_gates == AwsFeatureGates::default());
    for text in ["NodeClassCEL", "NodeClassCEL=yes"] {
        let problems = gates(text).unwrap_err();
        assert!(problems[0].starts_with("parsing feature gates, "), "50 §1.1: {problems:?}");
    }
    let warning = |text: &str, ignored| AwsFeatureGates::parse(text).unwrap().dra_warning(ignored);
    assert_eq!(warning("NodeClassCEL=true", true), None);
    assert!(warning("DRAEFA=true", true).unwrap().contains("while DRA requests are ignored"));
    assert!(warning("DRANVIDIAGPU=true", false).is_some());
}

#[test]
fn an_unreadable_overhead_counts_only_as_a_flag() {
    let variable = parse(&[NAME, ("VM_MEMORY_OVERHEAD_PERCENT", "much")], &[]).unwrap();
    assert!((variable.vm_memory_overhead_percent - 0.075).abs() < f64::EPSILON, "50 §1.1");
    for text in ["much", "NaN", "inf"] {
        let flag = format!("--vm-memory-overhead-percent={text}");
        let problems = parse(&[NAME], &[&flag]).unwrap_err();
        assert!(problems[0].contains("is not a number"), "{problems:?}");
    }
}

#[test]
fn endpoints_are_absolute_urls() {
    let cases = [
        ("https://ABC.gr7.us-west-2.eks.amazonaws.com", true),
        ("http://127.0.0.1:6443/path", true),
        ("https://user@host", true),
        ("cluster.example", false),
        ("https://", false),
        ("https://:443", false),
        ("://host", false),
        ("https://ho st", false),
    ];
    for (text, expected) in cases {
        assert_eq!(is_absolute_url(text), expected, "{text}");
    }
}

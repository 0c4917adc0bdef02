//! Tests of requirements: intersection, compatibility, bounds, aliases and printing.

use std::collections::BTreeSet;

use super::Operator::{DoesNotExist, Exists, Gt, Gte, In, Lt, Lte, NotIn};
use super::*;

#[track_caller]
fn of(key: &str, operator: Operator, values: &[&str]) -> Requirement {
    let item = RequirementItem::new(key, operator, values);
    Requirement::from_item(&item, &Aliases::default()).unwrap()
}

#[track_caller]
fn req(operator: Operator, values: &[&str]) -> Requirement {
    of("key", operator, values)
}

fn set<const N: usize>(requirements: [Requirement; N]) -> Requirements {
    requirements.into_iter().collect()
}

/// What upstream's own tables intersect pairwise.
fn samples() -> Vec<Requirement> {
    vec![
        req(Exists, &[]),
        req(DoesNotExist, &[]),
        req(In, &["A"]),
        req(In, &["B"]),
        req(In, &["A", "B"]),
        req(NotIn, &["A"]),
        req(In, &["1"]),
        req(In, &["9"]),
        req(In, &["1", "9"]),
        req(NotIn, &["1", "2"]),
        req(Gt, &["1"]),
        req(Gt, &["9"]),
        req(Lt, &["1"]),
        req(Lt, &["9"]),
    ]
}

#[test]
fn exists_and_does_not_exist_are_neutral_and_absorbing() {
    for other in samples() {
        for (case, fixed, expected) in [
            ("10/RQ-1", req(Exists, &[]), other.clone()),
            ("10/RQ-2", req(DoesNotExist, &[]), req(DoesNotExist, &[])),
        ] {
            assert_eq!(fixed.intersection(&other), expected, "{case}: {fixed} ∩ {other}");
            assert_eq!(other.intersection(&fixed), expected, "{case}: {other} ∩ {fixed}");
        }
    }
}

#[test]
fn an_intersection_keeps_the_values_of_both_requirements() {
    const MAX: &str = "9223372036854775807";
    #[rustfmt::skip]
    let cases = [
        // case              a                       b                       a ∩ b as text
        ("10/RQ-3 20/A1",    req(In, &["A"]),        req(In, &["B"]),        "key DoesNotExist"),
        ("10/RQ-3",          req(In, &["A"]),        req(NotIn, &["A"]),     "key DoesNotExist"),
        ("10/RQ-4",          req(In, &["A", "B"]),   req(NotIn, &["A"]),     "key In [B]"),
        ("10/RQ-5 20/A2",    req(NotIn, &["A"]),     req(NotIn, &["1", "2"]), "key NotIn [1 2 A]"),
        ("10/RQ-6",          req(In, &["1", "9"]),   req(Gt, &["1"]),        "key In [9]"),
        ("10/RQ-6 20/A6",    req(In, &["1", "9"]),   req(Lt, &["9"]),        "key In [1]"),
        ("10/RQ-7 20/A7",    req(In, &["A"]),        req(Gt, &["1"]),        "key DoesNotExist"),
        ("10/RQ-8 20/A3",    req(NotIn, &["1", "2"]), req(Gt, &["1"]),       "key NotIn [2] >=2"),
        ("10/RQ-8",          req(NotIn, &["1", "2"]), req(Gt, &["9"]),       "key Exists >=10"),
        ("10/RQ-8",          req(NotIn, &["1", "2"]), req(Lt, &["1"]),       "key Exists <=0"),
        ("20/A5",            req(NotIn, &["1", "2"]), req(Lt, &["9"]),       "key NotIn [1 2] <=8"),
        ("10/RQ-10 20/A8",   req(Gt, &["9"]),        req(Lt, &["1"]),        "key DoesNotExist"),
        ("bounds may touch", req(Gt, &["1"]),        req(Lt, &["3"]),        "key Exists >=2 <=2"),
        ("no integer between", req(Gt, &["1"]),      req(Lt, &["2"]),        "key DoesNotExist"),
        ("the last integer", req(Gte, &[MAX]),       req(In, &[MAX]),        "key In [9223372036854775807]"),
    ];
    for (case, a, b, expected) in cases {
        let both = a.intersection(&b);
        assert_eq!(both.to_string(), expected, "{case}: {a} ∩ {b}");
        assert_eq!(b.intersection(&a), both, "{case}: {b} ∩ {a}");
        assert_eq!(a.has_intersection(&b), both.operator() != DoesNotExist, "{case}: {a} ∩ {b}");
    }
}

#[test]
fn numeric_operators_intersect_to_inclusive_bounds() {
    #[rustfmt::skip]
    let cases = [
        ("10/RQ-9 20/A4",   req(NotIn, &["A"]), req(Gt, &["1"]),  req(Gt, &["1"])),
        ("10/RQ-11",        req(Gt, &["4"]),    req(Gte, &["5"]), req(Gte, &["5"])),
        ("10/RQ-11 20/A10", req(Gt, &["5"]),    req(Gte, &["5"]), req(Gte, &["6"])),
        ("10/RQ-11",        req(Gt, &["3"]),    req(Gte, &["6"]), req(Gte, &["6"])),
        ("10/RQ-12 20/A11", req(Lt, &["5"]),    req(Lte, &["5"]), req(Lte, &["4"])),
        ("10/RQ-12",        req(Lt, &["9"]),    req(Lte, &["5"]), req(Lte, &["5"])),
    ];
    for (case, a, b, expected) in cases {
        let both = a.intersection(&b);
        assert_eq!(both, expected, "{case}: {a} ∩ {b}");
        assert_eq!(both.items(), expected.items(), "{case}: {a} ∩ {b}");
        assert_eq!(b.intersection(&a), expected, "{case}: {b} ∩ {a}");
    }
}

#[test]
fn values_outside_the_bounds_are_not_allowed() {
    #[rustfmt::skip]
    let cases = [
        ("10/RQ-13",       req(Gte, &["0"]),        "-1", false),
        ("10/RQ-13",       req(Lte, &["0"]),        "1",  false),
        ("inclusive",      req(Gte, &["0"]),        "0",  true),
        ("inclusive",      req(Lte, &["0"]),        "0",  true),
        ("no integer",     req(Gte, &["0"]),        "A",  false),
        ("no integer",     req(Gte, &["0"]),        "1.5", false),
        ("beyond 64 bits", req(Gte, &["0"]),        "9223372036854775808", false),
        ("member",         req(In, &["A"]),         "A",  true),
        ("not a member",   req(In, &["A"]),         "B",  false),
        ("excluded",       req(NotIn, &["A"]),      "A",  false),
        ("not excluded",   req(NotIn, &["A"]),      "B",  true),
        ("anything",       req(Exists, &[]),        "",   true),
        ("nothing",        req(DoesNotExist, &[]),  "",   false),
    ];
    for (case, requirement, value, expected) in cases {
        assert_eq!(requirement.has(value), expected, "{case}: {requirement} has {value:?}");
    }
}

#[test]
fn requirements_report_their_operator_and_length() {
    const MAX: &str = "9223372036854775807";
    #[rustfmt::skip]
    let cases = [
        ("10/RQ-14 20/A13", req(Gt, &[MAX]),                     DoesNotExist, 0),
        ("below the first", req(Lt, &["-9223372036854775808"]), DoesNotExist, 0),
        ("In",              req(In, &["A", "B", "A"]),           In,           2),
        ("In nothing",      req(In, &[]),                        DoesNotExist, 0),
        ("NotIn",           req(NotIn, &["A", "B"]),             NotIn,        i64::MAX - 2),
        ("NotIn nothing",   req(NotIn, &[]),                     Exists,       i64::MAX),
        ("Exists",          req(Exists, &["ignored"]),           Exists,       i64::MAX),
        ("DoesNotExist",    req(DoesNotExist, &["ignored"]),     DoesNotExist, 0),
        ("Gt",              req(Gt, &["1"]),                     Exists,       i64::MAX),
        ("Lt",              req(Lt, &["1"]),                     Exists,       i64::MAX),
        ("Gte",             req(Gte, &["1"]),                    Exists,       i64::MAX),
        ("Lte",             req(Lte, &["1"]),                    Exists,       i64::MAX),
    ];
    for (case, requirement, operator, len) in cases {
        assert_eq!(requirement.operator(), operator, "{case}: {requirement}");
        assert_eq!(requirement.len(), len, "{case}: {requirement}");
        assert_eq!(requirement.is_empty(), len == 0, "{case}: {requirement}");
    }
}

#[test]
fn gt_of_the_largest_integer_is_does_not_exist_without_min_values() {
    let item = RequirementItem {
        min_values: Some(2),
        ..RequirementItem::new("key", Gt, &["9223372036854775807"])
    };
    assert_eq!(Requirement::from_item(&item, &Aliases::default()), Ok(req(DoesNotExist, &[])));
}

#[test]
fn a_numeric_operator_needs_exactly_one_integer() {
    #[rustfmt::skip]
    let cases: [(Operator, &[&str], &str); 5] = [
        (Gt,  &["a"],       "key key with operator Gt must have a single integer value, got [a]"),
        (Lt,  &[],          "key key with operator Lt must have a single integer value, got []"),
        (Gte, &["1", "2"],  "key key with operator Gte must have a single integer value, got [1 2]"),
        (Lte, &["1.5"],     "key key with operator Lte must have a single integer value, got [1.5]"),
        (Gt,  &["99999999999999999999"],
            "key key with operator Gt must have a single integer value, got [99999999999999999999]"),
    ];
    for (operator, values, error) in cases {
        let item = RequirementItem::new("key", operator, values);
        let got = Requirement::from_item(&item, &Aliases::default()).unwrap_err();
        assert_eq!(got.to_string(), error);
    }
}

#[test]
fn requirements_print_as_upstreams() {
    let min_values = |requirement: Requirement| requirement.with_min_values(Some(3));
    #[rustfmt::skip]
    let cases = [
        ("10/RQ-15",        req(Gt, &["1"]),                                "key Exists >=2"),
        ("10/RQ-15 20/A9",  req(Gt, &["1"]).intersection(&req(Lt, &["9"])), "key Exists >=2 <=8"),
        ("sorted",          req(In, &["B", "A"]),                           "key In [A B]"),
        ("five",            req(In, &["1", "2", "3", "4", "5"]),            "key In [1 2 3 4 5]"),
        ("20/A27",          req(NotIn, &["7", "6", "5", "4", "3", "2", "1"]), "key NotIn [1 2 3 4 5 and 2 others]"),
        ("nothing",         req(In, &[]),                                   "key DoesNotExist"),
        ("minValues",       min_values(req(In, &["A"])),                    "key In [A] minValues 3"),
        ("minValues last",  min_values(req(Lte, &["1"])),                   "key Exists <=1 minValues 3"),
    ];
    for (case, requirement, text) in cases {
        assert_eq!(requirement.to_string(), text, "{case}");
    }
}

#[test]
fn a_list_prints_sorted_without_the_hostname() {
    let list = set([
        of("zone", In, &["b", "a"]),
        of("kubernetes.io/hostname", In, &["node-1"]),
        of("arch", Exists, &[]),
    ]);
    assert_eq!(list.to_string(), "arch Exists, zone In [a b]");
    assert_eq!(Requirements::default().to_string(), "");
}

#[test]
fn requirements_convert_back_to_items() {
    let item = RequirementItem::new;
    let bounded = set([req(Gte, &["8"]), req(Lte, &["8"])]);
    let excluded = set([req(NotIn, &["5"]), req(Gte, &["1"])]);
    #[rustfmt::skip]
    let cases = [
        ("10/RQ-16 20/A12", bounded, vec![item("key", Gte, &["8"]), item("key", Lte, &["8"])]),
        ("exclusions of a bounded complement are lost", excluded, vec![item("key", Gte, &["1"])]),
        ("Gt",           set([req(Gt, &["1"])]),           vec![item("key", Gte, &["2"])]),
        ("Lt",           set([req(Lt, &["1"])]),           vec![item("key", Lte, &["0"])]),
        ("In",           set([req(In, &["b", "a"])]),      vec![item("key", In, &["a", "b"])]),
        ("NotIn",        set([req(NotIn, &["b", "a"])]),   vec![item("key", NotIn, &["a", "b"])]),
        ("Exists",       set([req(Exists, &[])]),          vec![item("key", Exists, &[])]),
        ("DoesNotExist", set([req(DoesNotExist, &[])]),    vec![item("key", DoesNotExist, &[])]),
        ("by key",       set([of("b", Exists, &[]), of("a", Exists, &[])]),
            vec![item("a", Exists, &[]), item("b", Exists, &[])]),
    ];
    for (case, requirements, items) in cases {
        assert_eq!(requirements.items(), items, "{case}: {requirements}");
    }
}

#[test]
fn both_bound_items_carry_the_min_values() {
    let flexible = req(Gte, &["1"]).intersection(&req(Lte, &["2"])).with_min_values(Some(2));
    assert_eq!(
        flexible.items().iter().map(|item| item.min_values).collect::<Vec<_>>(),
        [Some(2); 2]
    );
}

#[test]
fn a_picked_value_is_allowed() {
    let excluded = |values: &[&str], bounds: Requirement| req(NotIn, values).intersection(&bounds);
    #[rustfmt::skip]
    let cases = [
        ("In",               req(In, &["b", "a"]),                      Some("a")),
        ("DoesNotExist",     req(DoesNotExist, &[]),                    None),
        ("Exists",           req(Exists, &[]),                          Some("0")),
        ("NotIn",            req(NotIn, &["0", "1"]),                   Some("2")),
        ("20/A28",           req(Gte, &["5"]),                          Some("5")),
        ("20/A28",           req(Lt, &["1"]),                           Some("0")),
        ("empty range",      req(Lt, &["0"]),                           None),
        ("no minus sign",    req(Gte, &["-5"]),                         Some("0")),
        ("the last integer", req(Gte, &["9223372036854775807"]),        Some("9223372036854775807")),
        ("all excluded",     excluded(&["0"], req(Lt, &["1"])),         None),
    ];
    for (case, requirement, expected) in cases {
        assert_eq!(requirement.pick_value(0).as_deref(), expected, "{case}: {requirement}");
    }
    let between = req(Gte, &["5"]).intersection(&req(Lte, &["7"]));
    let picked = (0..4).filter_map(|rng| between.pick_value(rng)).collect::<Vec<_>>();
    assert_eq!(picked, ["5", "6", "7", "5"], "chance picks within the bounds");
    assert_eq!(req(In, &["b", "a"]).pick_value(7).as_deref(), Some("a"), "and has no say for In");
}

#[test]
fn the_larger_min_values_holds() {
    let min = |requirement: Requirement, n| requirement.with_min_values(Some(n));
    #[rustfmt::skip]
    let cases = [
        ("10/RQ-23 20/A14", min(req(In, &["A"]), 1), min(req(In, &["A", "B"]), 2), "key In [A] minValues 2"),
        ("absent is neutral", min(req(In, &["A"]), 1), req(Exists, &[]),           "key In [A] minValues 1"),
        ("crossed bounds",  min(req(Gt, &["9"]), 1), min(req(Lt, &["1"]), 2),      "key DoesNotExist minValues 2"),
    ];
    for (case, a, b, text) in cases {
        assert_eq!(a.intersection(&b).to_string(), text, "{case}");
        assert_eq!(b.intersection(&a).to_string(), text, "{case}");
    }
}

#[test]
fn requirements_on_one_key_are_intersected() {
    let items = [
        RequirementItem::new("kubernetes.io/arch", In, &["amd64", "arm64"]),
        RequirementItem::new("beta.kubernetes.io/arch", NotIn, &["arm64"]),
    ];
    let list = Requirements::from_items(&items, &Aliases::default()).unwrap();
    assert_eq!(list.to_string(), "kubernetes.io/arch In [amd64]");
}

/// The sets of well-known labels that the core and AWS have, as far as hints care.
fn well_known() -> BTreeSet<String> {
    [
        "karpenter.sh/capacity-type",
        "karpenter.sh/nodepool",
        "kubernetes.io/arch",
        "kubernetes.io/os",
        "node.kubernetes.io/instance-type",
        "topology.k8s.aws/zone-id",
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/zone",
    ]
    .map(str::to_owned)
    .into()
}

#[test]
fn an_undefined_label_must_be_well_known_or_satisfied_by_absence() {
    const ZONE: &str = "topology.kubernetes.io/zone";
    let unconstrained = Requirements::default();
    let strict = BTreeSet::new();
    #[rustfmt::skip]
    let cases = [
        // case               asked                              strict well-known allowed
        ("10/RQ-17",          of(ZONE, Exists, &[]),             false, true),
        ("10/RQ-17 20/A18",   of(ZONE, In, &["x"]),              false, true),
        ("10/RQ-17",          of(ZONE, Gt, &["1"]),              false, true),
        ("10/RQ-17",          of(ZONE, Lt, &["1"]),              false, true),
        ("10/RQ-17",          of(ZONE, Gte, &["1"]),             false, true),
        ("10/RQ-17",          of(ZONE, Lte, &["1"]),             false, true),
        ("10/RQ-18 20/A19",   of(ZONE, NotIn, &["x"]),           true,  true),
        ("10/RQ-18 20/A19",   of(ZONE, DoesNotExist, &[]),       true,  true),
        ("custom label",      of("team", In, &["x"]),            false, false),
        ("custom label",      of("team", NotIn, &["x"]),         true,  true),
    ];
    for (case, incoming, if_strict, if_allowed) in cases {
        let incoming = set([incoming]);
        let strictly = unconstrained.compatible(&incoming, &strict);
        assert_eq!(strictly.is_ok(), if_strict, "{case}: {incoming}, strict: {strictly:?}");
        let loosely = unconstrained.compatible(&incoming, &well_known());
        assert_eq!(loosely.is_ok(), if_allowed, "{case}: {incoming}, well-known: {loosely:?}");
    }
}

#[test]
fn requirements_on_a_common_key_must_have_a_common_value() {
    #[rustfmt::skip]
    let cases = [
        // case              existing               asked                   error
        ("10/RQ-19 20/A15",  req(Exists, &[]),       req(DoesNotExist, &[]), Some("key key, key DoesNotExist not in key Exists")),
        ("20/A15",           req(DoesNotExist, &[]), req(Exists, &[]),       Some("key key, key Exists not in key DoesNotExist")),
        ("20/A16",           req(DoesNotExist, &[]), req(NotIn, &["A"]),     None),
        ("20/A16",           req(NotIn, &["A"]),     req(DoesNotExist, &[]), None),
        ("20/A17",           req(NotIn, &["A"]),     req(NotIn, &["B"]),     None),
        ("overlap",          req(In, &["A", "B"]),   req(In, &["B", "C"]),   None),
        ("no overlap",       req(In, &["A"]),        req(In, &["B"]),        Some("key key, key In [B] not in key In [A]")),
        ("excluded",         req(In, &["A"]),        req(NotIn, &["A"]),     Some("key key, key NotIn [A] not in key In [A]")),
        ("bounds",           req(Gt, &["5"]),        req(Lt, &["5"]),        Some("key key, key Exists <=4 not in key Exists >=6")),
    ];
    for (case, existing, incoming, error) in cases {
        let got = set([existing]).compatible(&set([incoming]), &BTreeSet::new());
        assert_eq!(got.err().map(|error| error.to_string()).as_deref(), error, "{case}");
    }
}

#[test]
fn the_error_lists_all_conflicts_sorted_by_key() {
    let existing = set([of("b", In, &["1"]), of("a", In, &["1"]), of("c", In, &["1"])]);
    let incoming = set([
        of("b", In, &["2"]),
        of("a", In, &["2"]),
        of("c", In, &["1"]),
        of("d", NotIn, &["1"]),
    ]);
    let error = existing.compatible(&incoming, &BTreeSet::new()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "key a, a In [2] not in a In [1]; key b, b In [2] not in b In [1]"
    );
}

#[test]
fn unknown_labels_get_a_hint_if_one_is_similar() {
    #[rustfmt::skip]
    let cases = [
        ("10/RQ-20 20/A20", "zone",                         Some("topology.kubernetes.io/zone")),
        ("10/RQ-20",        "topology.kubernetesio/zone",   Some("topology.kubernetes.io/zone")),
        ("10/RQ-20",        "node.io/zone",                 Some("topology.kubernetes.io/zone")),
        ("10/RQ-21", "deployment",                   None),
        ("20/A21",          "karpenter/nodepool",           Some("karpenter.sh/nodepool")),
        ("contained",       "topology.kubernetes.io/regio", Some("topology.kubernetes.io/region")),
        ("name part",       "capacity-type",                Some("karpenter.sh/capacity-type")),
        ("own label",       "eam",                          Some("example.com/team")),
    ];
    let existing = set([of("example.com/team", Exists, &[])]);
    for (case, key, label) in cases {
        let incoming = set([of(key, Exists, &[])]);
        let error = existing.compatible(&incoming, &well_known()).unwrap_err();
        let hint = label.map_or(String::new(), |label| format!(" (typo of \"{label}\"?)"));
        let expected = format!("label \"{key}\" does not have known values{hint}");
        assert_eq!(error.to_string(), expected, "{case}");
    }
    let strict = existing.compatible(&set([of("zone", Exists, &[])]), &BTreeSet::new());
    assert_eq!(strict.unwrap_err().to_string(), "label \"zone\" does not have known values");
    let nothing = Requirements::default();
    let strict = nothing.compatible(&set([of("deployment", Exists, &[])]), &BTreeSet::new());
    let expected = "label \"deployment\" does not have known values";
    assert_eq!(strict.unwrap_err().to_string(), expected, "20/A22");
}

#[test]
fn aliased_keys_are_normalized_wherever_they_are_used() {
    const ALIASED: [&str; 5] = [
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/instance-type",
    ];
    const STABLE: [&str; 5] = [
        "kubernetes.io/arch",
        "kubernetes.io/os",
        "node.kubernetes.io/instance-type",
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/zone",
    ];
    let case = "10/RQ-22";
    let aliases = Aliases::default();
    // A nodeSelector and node labels are labels; affinity terms are items.
    let from_labels = Requirements::from_labels(ALIASED.map(|key| (key, "test")), &aliases);
    let items = ALIASED.map(|key| RequirementItem::new(key, In, &["test"]));
    let from_items = Requirements::from_items(&items, &aliases).unwrap();
    for list in [from_labels, from_items] {
        assert_eq!(list.keys().collect::<Vec<_>>(), STABLE, "{case}");
        assert!(list.iter().all(|r| r.values().contains("test")), "{case}: {list}");
    }
}

#[test]
fn providers_add_aliases_of_keys_and_values() {
    const ZONE: &str = "topology.kubernetes.io/zone";
    let aliases = Aliases::default()
        .with_key("topology.ebs.csi.aws.com/zone", ZONE)
        .with_value(ZONE, "", "0");
    let labels = [("topology.ebs.csi.aws.com/zone", "")];
    assert_eq!(Requirements::from_labels(labels, &aliases).to_string(), format!("{ZONE} In [0]"));
    // The mapping belongs to the stable key, and to no other.
    let items = [
        RequirementItem::new(ZONE, NotIn, &["", "1"]),
        RequirementItem::new("team", NotIn, &["", "1"]),
    ];
    let list = Requirements::from_items(&items, &aliases).unwrap();
    assert_eq!(list.to_string(), format!("team NotIn [ 1], {ZONE} NotIn [0 1]"));
}

#[test]
fn operators_are_found_by_their_names() {
    for operator in Operator::ALL {
        assert_eq!(Operator::from_name(operator.name()), Some(operator));
    }
    assert_eq!(Operator::from_name("in"), None);
}

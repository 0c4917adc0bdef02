//! Tests of the decision options: defaults, flags, variables, errors and warnings.

use super::*;

fn args(flags: &[&str]) -> DecisionArgs {
    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: DecisionArgs,
    }
    use clap::Parser as _;
    Line::try_parse_from(["test"].iter().chain(flags)).unwrap().args
}

#[track_caller]
fn resolve(flags: &[&str], environment: &[(&str, &str)]) -> Result<DecisionOptions, String> {
    let variable = |name: &str| {
        environment.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).into())
    };
    args(flags).resolve(variable).map_err(|diagnostic| diagnostic.to_string())
}

#[test]
fn unset_options_have_their_defaults() {
    let decision = resolve(&[], &[]).unwrap(); // 40/OP-01
    assert_eq!(decision.preferences, PreferencePolicy::Respect);
    assert_eq!(decision.min_values, MinValuesPolicy::Strict);
    assert_eq!(decision.gates, FeatureGates::default());
    assert!(decision.default_spread.is_empty());
    assert!(decision.ignore_dynamic_resources);
}

#[test]
fn each_flag_overrides_its_environment_variable() {
    let environment = [("PREFERENCE_POLICY", "Ignore"), ("MIN_VALUES_POLICY", "BestEffort")];
    let decision = resolve(&["--preference-policy", "Respect"], &environment).unwrap(); // 40/OP-02
    assert_eq!(decision.preferences, PreferencePolicy::Respect);
    assert_eq!(decision.min_values, MinValuesPolicy::BestEffort);
}

#[test]
fn unknown_policies_are_errors() {
    // 40/OP-06
    for (flags, environment) in [
        (&["--preference-policy", "respect"][..], &[][..]),
        (&["--min-values-policy=Loose"][..], &[][..]),
        (&[][..], &[("PREFERENCE_POLICY", "")][..]), // set to nothing is set
        (&[][..], &[("MIN_VALUES_POLICY", "x")][..]),
    ] {
        assert!(resolve(flags, environment).is_err(), "{flags:?} {environment:?}");
    }
}

#[test]
fn booleans_are_read_as_in_go() {
    #[rustfmt::skip]
    let cases = [
        (&["--ignore-dra-requests"][..],       None,          Ok(true)),
        (&["--ignore-dra-requests=false"][..], Some("true"),  Ok(false)),
        (&["--ignore-dra-requests=0"][..],     None,          Err(())), // 40/OP-04
        (&[][..],                              Some("F"),     Ok(false)),
        (&[][..],                              Some("never"), Ok(true)), // falls back, 40/OP-03
    ];
    for (flags, variable, wanted) in cases {
        let environment: Vec<_> =
            variable.map(|v| ("IGNORE_DRA_REQUESTS", v)).into_iter().collect();
        let got = resolve(flags, &environment).map(|d| d.ignore_dynamic_resources).map_err(drop);
        assert_eq!(got, wanted, "{flags:?} {variable:?}");
    }
}

#[test]
fn a_boolean_flag_leaves_the_next_argument_alone() {
    use clap::Parser as _;
    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: DecisionArgs,
        next: String,
    }
    let line = Line::try_parse_from(["test", "--ignore-dra-requests", "false"]).unwrap();
    assert_eq!((line.args.ignore_dra_requests.as_deref(), &*line.next), (Some("true"), "false"));
}

#[test]
fn option_errors_name_the_flag_or_the_variable() {
    for (flags, environment, message) in [
        (
            &["--preference-policy", "x"][..],
            &[][..],
            "--preference-policy must be Respect or Ignore",
        ),
        (&[][..], &[("PREFERENCE_POLICY", "x")][..], "PREFERENCE_POLICY must be Respect or Ignore"),
        (
            &[][..],
            &[("MIN_VALUES_POLICY", "x")][..],
            "MIN_VALUES_POLICY must be Strict or BestEffort",
        ),
        (&[][..], &[("FEATURE_GATES", "x")][..], "FEATURE_GATES: malformed pair"),
        (&[][..], &[("SCHEDULER_CONFIG", "{")][..], "SCHEDULER_CONFIG: decoding scheduler config"),
    ] {
        let error = resolve(flags, environment).unwrap_err();
        assert!(error.starts_with(&format!("error: {message}")), "{error}");
    }
}

#[test]
fn a_path_given_as_scheduler_config_is_reported_with_a_fix() {
    for path in ["scheduler.yaml", "/etc/kubernetes/scheduler.conf", "./config", "a.json"] {
        let error = resolve(&["--scheduler-config", path], &[]).unwrap_err();
        let fix = format!("fix: it takes the text itself: --scheduler-config \"$(cat {path})\"");
        assert!(error.contains(&fix), "{error}");
    }
    let error = resolve(&["--scheduler-config", "podTopologySpread: [a/b.yaml]"], &[]).unwrap_err();
    assert!(error.contains("fix: write it as kube-scheduler has it"), "{error}");
}

#[test]
fn unknown_feature_gates_give_a_warning() {
    let decision =
        resolve(&["--feature-gates", "NodeOverlayy=true,NodeOverlay=true"], &[]).unwrap();
    let warning = &decision.warnings[0];
    assert!(
        warning.starts_with("--feature-gates: no such gate: NodeOverlayy; there are NodeRepair, "),
        "{warning}"
    );
    assert_eq!(resolve(&["--feature-gates", "NodeOverlay=true"], &[]).unwrap().warnings.len(), 0);
}

#[test]
fn unreadable_variables_give_a_warning() {
    let decision = resolve(&[], &[("IGNORE_DRA_REQUESTS", "perhaps")]).unwrap();
    let warning = "IGNORE_DRA_REQUESTS is ignored: \"perhaps\" is not true or false; true counts";
    assert_eq!(decision.warnings, [warning]);
}

#[test]
fn a_demo_reads_only_the_consolidation_search_variable() {
    let of = |variables: &[(&str, &str)]| {
        let find = |name: &str| variables.iter().find(|(known, _)| *known == name);
        let options = demo_options(|name| find(name).map(|(_, value)| (*value).into()));
        options.map_err(|diagnostic| diagnostic.to_string())
    };
    assert_eq!(of(&[]), Ok(Options::default()));
    let upstream =
        Options { consolidation_search: ConsolidationSearch::Upstream, ..Options::default() };
    assert_eq!(of(&[("CONSOLIDATION_SEARCH", "upstream"), ("METRICS_PORT", "x")]), Ok(upstream));
    let error = of(&[("CONSOLIDATION_SEARCH", "worst")]).unwrap_err();
    assert!(error.contains("CONSOLIDATION_SEARCH must be best, deep or upstream"), "{error}");
}

//! Tests of options: defaults, flags, environment variables, gates and errors.

use super::*;

fn environment<'a>(set: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<OsString> + 'a {
    |name| set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).into())
}

#[test]
fn a_variable_that_is_not_utf8_is_an_error_unless_its_flag_is_given() {
    use std::os::unix::ffi::OsStringExt as _;
    let not_text = |name: &str| (name == "LOG_LEVEL").then(|| OsString::from_vec(vec![0xff]));
    let error = Options::parse(&[], not_text).unwrap_err();
    assert_eq!(error.to_string(), "the environment variable LOG_LEVEL is not valid UTF-8");
    assert!(Options::parse(&["--log-level=debug".to_owned()], not_text).is_ok());
}

fn parsed(arguments: &[&str], set: &[(&str, &str)]) -> Result<(Options, Vec<String>), String> {
    let arguments: Vec<String> = arguments.iter().map(|&argument| argument.to_owned()).collect();
    match Options::parse(&arguments, environment(set)) {
        Ok(ParsedCommandLine::Run(options, resolved)) => Ok((*options, resolved.positional)),
        Ok(ParsedCommandLine::Help) => Err("help".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

#[track_caller]
fn options(arguments: &[&str], set: &[(&str, &str)]) -> Options {
    parsed(arguments, set).unwrap().0
}

#[test]
fn unset_options_have_their_defaults() {
    let wanted = Options {
        metrics_port: 8080,
        health_probe_port: 8081,
        kube_client_qps: 200,
        kube_client_burst: 300,
        enable_profiling: false,
        disable_controller_warmup: true,
        disable_leader_election: false,
        disable_cluster_state_observability: false,
        leader_election_name: "karpenter-leader-election".to_owned(),
        leader_election_namespace: String::new(),
        memory_limit: -1,
        cpu_requests: 1000,
        log_level: LogLevel::Info,
        log_output_paths: vec!["stdout".to_owned()],
        log_error_output_paths: vec!["stderr".to_owned()],
        batch_max_duration: Duration::from_secs(10),
        batch_idle_duration: Duration::from_secs(1),
        preference_policy: PreferencePolicy::Respect,
        min_values_policy: MinValuesPolicy::Strict,
        ignore_dra_requests: true,
        legacy_node_repair: false,
        feature_gates: FeatureGates::default(),
        unknown_feature_gates: Vec::new(),
        default_spread: Vec::new(),
        consolidation_search: ConsolidationSearch::Best,
    };
    assert_eq!(options(&[], &[]), wanted, "40/OP-01 45/OPT-1");
    assert_eq!(Options::default(), wanted);
    let on: Vec<_> = GATES.iter().filter(|entry| wanted.is_enabled(entry.gate)).collect();
    let on: Vec<_> = on.iter().map(|entry| (entry.name, entry.stage)).collect();
    assert_eq!(on, [("ReservedCapacity", "beta")], "45/OPT-1");
    assert_eq!(
        FeatureGates::default_text(),
        "NodeRepair=false,ReservedCapacity=true,SpotToSpotConsolidation=false,NodeOverlay=false,\
         StaticCapacity=false,CapacityBuffer=false,TerminateFirstDrift=false,\
         TerminateFirstRepair=false,PodDeletionCostManagement=false",
        "45/OPT-1"
    );
}

/// Reads one field as text, to compare it in tables.
type Field = fn(&Options) -> String;

/// One row per option: another value, by flag and by variable, and the field that it changes.
#[test]
fn every_option_has_a_flag_and_a_variable() {
    #[rustfmt::skip]
    let rows: &[(&str, &str, &str, &str, Field)] = &[
        ("metrics-port", "METRICS_PORT", "0", "0", |o| o.metrics_port.to_string()),
        ("health-probe-port", "HEALTH_PROBE_PORT", "65535", "65535", |o| o.health_probe_port.to_string()),
        ("kube-client-qps", "KUBE_CLIENT_QPS", "-1", "-1", |o| o.kube_client_qps.to_string()),
        ("kube-client-burst", "KUBE_CLIENT_BURST", "7", "7", |o| o.kube_client_burst.to_string()),
        ("enable-profiling", "ENABLE_PROFILING", "true", "true", |o| o.enable_profiling.to_string()),
        ("disable-controller-warmup", "DISABLE_CONTROLLER_WARMUP", "false", "false", |o| o.disable_controller_warmup.to_string()),
        ("disable-leader-election", "DISABLE_LEADER_ELECTION", "true", "true", |o| o.disable_leader_election.to_string()),
        ("disable-cluster-state-observability", "DISABLE_CLUSTER_STATE_OBSERVABILITY", "true", "true", |o| o.disable_cluster_state_observability.to_string()),
        ("leader-election-name", "LEADER_ELECTION_NAME", "a", "a", |o| o.leader_election_name.clone()),
        ("leader-election-namespace", "LEADER_ELECTION_NAMESPACE", "b", "b", |o| o.leader_election_namespace.clone()),
        ("memory-limit", "MEMORY_LIMIT", "1024", "1024", |o| o.memory_limit.to_string()),
        ("cpu-requests", "CPU_REQUESTS", "1500", "1500", |o| o.cpu_requests.to_string()),
        ("log-level", "LOG_LEVEL", "error", "Error", |o| format!("{:?}", o.log_level)),
        ("log-output-paths", "LOG_OUTPUT_PATHS", "stdout, /tmp/x,", "stdout /tmp/x", |o| o.log_output_paths.join(" ")),
        ("log-error-output-paths", "LOG_ERROR_OUTPUT_PATHS", "/tmp/y", "/tmp/y", |o| o.log_error_output_paths.join(" ")),
        ("batch-max-duration", "BATCH_MAX_DURATION", "1m30s", "90s", |o| format!("{:?}", o.batch_max_duration)),
        ("batch-idle-duration", "BATCH_IDLE_DURATION", "500ms", "500ms", |o| format!("{:?}", o.batch_idle_duration)),
        ("preference-policy", "PREFERENCE_POLICY", "Ignore", "Ignore", |o| format!("{:?}", o.preference_policy)),
        ("min-values-policy", "MIN_VALUES_POLICY", "BestEffort", "BestEffort", |o| format!("{:?}", o.min_values_policy)),
        ("ignore-dra-requests", "IGNORE_DRA_REQUESTS", "false", "false", |o| o.ignore_dra_requests.to_string()),
        ("legacy-node-repair", "LEGACY_NODE_REPAIR", "true", "true", |o| o.legacy_node_repair.to_string()),
        ("feature-gates", "FEATURE_GATES", "NodeRepair=true", "true", |o| o.is_enabled(Gate::NodeRepair).to_string()),
        ("scheduler-config", "SCHEDULER_CONFIG", "{podTopologySpread: {defaultConstraints: [{maxSkew: 2, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]}}", "2", |o| o.default_spread.iter().map(|s| s.max_skew.to_string()).collect()),
        ("consolidation-search", "CONSOLIDATION_SEARCH", "deep", "Deep", |o| format!("{:?}", o.consolidation_search)),
        ("consolidation-search", "CONSOLIDATION_SEARCH", "upstream", "Upstream", |o| format!("{:?}", o.consolidation_search)),
    ];
    for (flag, env, value, wanted, field) in rows {
        let by_flag = options(&[&format!("--{flag}={value}")], &[]);
        assert_eq!(field(&by_flag), *wanted, "45/OPT-2 --{flag}");
        let by_variable = options(&[], &[(env, value)]);
        assert_eq!(field(&by_variable), *wanted, "{env}");
        assert_ne!(field(&Options::default()), *wanted, "the row of {flag} shows nothing");
    }
    let missing: Vec<_> = definitions().into_iter().map(|definition| definition.flag).collect();
    let missing: Vec<_> =
        missing.into_iter().filter(|flag| !rows.iter().any(|row| row.0 == *flag)).collect();
    assert_eq!(missing, ["karpenter-service"], "options without a row");
}

#[test]
fn each_flag_overrides_its_environment_variable() {
    let set = [("METRICS_PORT", "1"), ("HEALTH_PROBE_PORT", "2"), ("LOG_LEVEL", "debug")];
    let options = options(&["--metrics-port", "3"], &set);
    assert_eq!((options.metrics_port, options.health_probe_port), (3, 2), "40/OP-02");
    assert_eq!(options.log_level, LogLevel::Debug);
}

#[test]
fn invalid_environment_values_count_as_not_set() {
    let set = [
        ("METRICS_PORT", "abc"),
        ("MEMORY_LIMIT", "1Gi"),
        ("ENABLE_PROFILING", "yes"),
        ("BATCH_MAX_DURATION", "10"),
        ("KUBE_CLIENT_QPS", ""),
        ("DISABLE_LEADER_ELECTION", "T"),
    ];
    let wanted = Options { disable_leader_election: true, ..Options::default() };
    assert_eq!(options(&[], &set), wanted, "40/OP-03");
}

#[test]
fn invalid_environment_variables_are_reported() {
    type Case<'a> = (&'a [&'a str], (&'a str, &'a str), &'a [&'a str]);
    let ignored = |arguments: &[&str], set: &[(&str, &str)]| -> Vec<String> {
        let arguments: Vec<String> = arguments.iter().map(|&a| a.to_owned()).collect();
        let resolved = flags::resolve(&definitions(), &arguments, environment(set)).unwrap();
        let warnings = resolved.ignored_variables.into_iter();
        warnings
            .map(|i| format!("{}={} {}, {}", i.variable, i.text, i.allowed, i.default))
            .collect()
    };
    #[rustfmt::skip]
    let cases: [Case<'_>; 6] = [
        (&[], ("METRICS_PORT", "abc"), &["METRICS_PORT=abc a whole number from 0 to 65535, 8080"]),
        (&[], ("ENABLE_PROFILING", "yes"), &["ENABLE_PROFILING=yes true or false, false"]),
        (&[], ("BATCH_MAX_DURATION", "10"), &["BATCH_MAX_DURATION=10 a duration such as 10s or 1m30s, 0s or longer, 10s"]),
        (&[], ("KUBE_CLIENT_QPS", ""), &[]),
        (&[], ("METRICS_PORT", "1"), &[]),
        (&["--metrics-port=1"], ("METRICS_PORT", "abc"), &[]), // the variable is not read
    ];
    for (arguments, set, wanted) in cases {
        assert_eq!(ignored(arguments, &[set]), wanted, "{arguments:?} {set:?}");
    }
}

#[test]
fn an_empty_environment_variable_counts_as_set() {
    let set = [("LEADER_ELECTION_NAME", ""), ("LOG_LEVEL", ""), ("FEATURE_GATES", "")];
    let wanted = Options { leader_election_name: String::new(), ..Options::default() };
    assert_eq!(options(&[], &set), wanted);
    assert!(parsed(&[], &[("PREFERENCE_POLICY", "")]).is_err());
}

#[test]
fn booleans_are_read_as_in_go() {
    #[rustfmt::skip]
    let cases: [(&[&str], Result<bool, &str>); 6] = [
        (&["--enable-profiling"], Ok(true)),
        (&["-enable-profiling"], Ok(true)),
        (&["--enable-profiling=true"], Ok(true)),
        (&["--enable-profiling", "--enable-profiling=false"], Ok(false)),
        (&["--enable-profiling=1"], Err(r#"--enable-profiling: "1" is not a valid value, must be true or false"#)),
        (&["--enable-profiling="], Err(r#"--enable-profiling: "" is not a valid value, must be true or false"#)),
    ];
    for (arguments, wanted) in cases {
        let got = parsed(arguments, &[]).map(|(options, _)| options.enable_profiling);
        assert_eq!(
            got.as_ref().map_err(String::as_str),
            wanted.as_ref().map_err(|text| *text),
            "40/OP-04 {arguments:?}"
        );
    }
}

#[test]
fn flags_end_at_the_first_positional_argument() {
    #[rustfmt::skip]
    let cases: [(&[&str], &[&str]); 5] = [
        (&["--enable-profiling", "false", "--metrics-port=1"], &["false", "--metrics-port=1"]),
        (&["--", "--metrics-port=1"], &["--metrics-port=1"]),
        (&["-", "a"], &["-", "a"]),
        (&["--metrics-port", "--", "a"], &["a"]),
        (&["", "a"], &["", "a"]),
    ];
    for (arguments, rest) in cases {
        match parsed(arguments, &[]) {
            Ok((_, got)) => assert_eq!(got, rest, "{arguments:?}"),
            // `--` is the value of the flag before it, and no number.
            Err(error) => assert!(error.contains("\"--\""), "{arguments:?}: {error}"),
        }
    }
}

#[test]
fn an_invalid_option_error_names_its_value_and_the_allowed_values() {
    type Case<'a> = (&'a [&'a str], &'a [(&'a str, &'a str)], &'a str);
    #[rustfmt::skip]
    let cases: &[Case<'_>] = &[
        (&["--metrics-prot=1"], &[], "flag --metrics-prot is not defined, did you mean --metrics-port?"),
        (&["--foo"], &[], "flag --foo is not defined"),
        (&["---metrics-port"], &[], "bad flag syntax: ---metrics-port"),
        (&["--=x"], &[], "bad flag syntax: --=x"),
        (&["--metrics-port"], &[], "flag --metrics-port needs a value: a whole number from 0 to 65535"),
        (&["--metrics-port=abc"], &[], r#"invalid METRICS_PORT "abc" of --metrics-port: must be a whole number from 0 to 65535"#),
        (&[], &[("METRICS_PORT", "70000")], r#"invalid METRICS_PORT "70000": must be a whole number from 0 to 65535"#),
        (&["--batch-max-duration=10"], &[], r#"invalid BATCH_MAX_DURATION "10" of --batch-max-duration: must be a duration such as 10s or 1m30s, 0s or longer"#),
        (&["--batch-idle-duration=-1s"], &[], r#"invalid BATCH_IDLE_DURATION "-1s" of --batch-idle-duration: must be a duration such as 10s or 1m30s, 0s or longer"#),
        (&["--log-level=hello"], &[], r#"invalid LOG_LEVEL "hello" of --log-level: must be debug, info or error"#),
        (&[], &[("LOG_LEVEL", "hello")], r#"invalid LOG_LEVEL "hello": must be debug, info or error"#),
        (&["--preference-policy=respect"], &[], r#"invalid PREFERENCE_POLICY "respect" of --preference-policy: must be Respect or Ignore"#),
        (&[], &[("MIN_VALUES_POLICY", "x")], r#"invalid MIN_VALUES_POLICY "x": must be Strict or BestEffort"#),
        (&["--consolidation-search", "worst"], &[], r#"invalid CONSOLIDATION_SEARCH "worst" of --consolidation-search: must be best, deep or upstream"#),
        (&["--feature-gates=Foo"], &[], r#"invalid FEATURE_GATES "Foo" of --feature-gates: malformed pair, expect string=bool"#),
        (&["--help"], &[], "help"),
        (&["-h"], &[], "help"),
    ];
    for (arguments, set, wanted) in cases {
        let message = parsed(arguments, set).unwrap_err();
        assert_eq!(message, *wanted, "40/OP-05 40/OP-06 40/OP-10 {arguments:?} {set:?}");
    }
}

#[test]
fn log_levels_are_debug_info_error_and_empty() {
    for (level, wanted) in [
        ("", LogLevel::Info),
        ("debug", LogLevel::Debug),
        ("info", LogLevel::Info),
        ("error", LogLevel::Error),
    ] {
        let options = options(&["--log-level", level], &[]);
        assert_eq!(options.log_level, wanted, "40/OP-05 {level:?}");
    }
}

#[test]
fn non_positive_cpu_requests_count_as_one_core() {
    for value in ["0", "-50"] {
        let options = options(&[&format!("--cpu-requests={value}")], &[]);
        assert_eq!(options.cpu_requests, 1000, "40/OP-07 {value}");
    }
}

#[test]
fn integer_flags_may_have_a_base_prefix() {
    for (text, wanted) in [("0x10", Some(16)), ("-0b11", Some(-3)), ("+7", Some(7)), ("0x-1", None)]
    {
        let got = parsed(&["--memory-limit", text], &[]).ok().map(|(o, _)| o.memory_limit);
        assert_eq!(got, wanted, "{text}");
    }
}

#[test]
fn no_argument_breaks_the_parser() {
    for argument in
        ["-\u{e4}", "--\u{20ac}=\u{20ac}", "-0", "--memory-limit=\u{20ac}1", "--memory-limit=0x"]
    {
        assert!(parsed(&[argument], &[]).is_err(), "{argument}");
    }
}

#[test]
fn help_and_reference_show_every_option_and_gate() {
    let (help, page) = (help(&definitions()), reference(&definitions()));
    for OptionDefinition { flag, env, .. } in definitions() {
        assert!(help.contains(&format!("--{flag}")) && help.contains(env), "{flag}");
        assert!(page.contains(&format!("| `--{flag}` | `{env}` |")), "{flag}");
    }
    for entry in &GATES {
        assert!(help.contains(entry.name) && page.contains(&format!("| `{}` |", entry.name)));
    }
}

#[test]
fn each_feature_gate_switches_independently() {
    let default = FeatureGates::default();
    let names = "NodeRepair ReservedCapacity SpotToSpotConsolidation NodeOverlay StaticCapacity \
                 CapacityBuffer TerminateFirstDrift TerminateFirstRepair PodDeletionCostManagement";
    for name in names.split(' ') {
        let flipped = name != "ReservedCapacity";
        let gates = FeatureGates::parse(&format!("{name}={flipped}")).unwrap();
        for entry in &GATES {
            let wanted = if entry.name == name { flipped } else { entry.default };
            let is_on = gates.is_enabled(entry.gate);
            assert_eq!(is_on, wanted, "40/OP-08 45/OPT-3 {name}: {}", entry.name);
        }
        let back = FeatureGates::parse(&format!("{name}={flipped},{name}={}", !flipped)).unwrap();
        assert_eq!(back, default, "{name}");
    }
}

#[test]
fn feature_gates_ignore_unknown_names_but_reject_malformed_pairs() {
    let default = FeatureGates::default();
    let text = "Foo=true,SpotToSpotConsolidation\t= false,,Bar=1";
    assert_eq!(FeatureGates::parse(text), Ok(default), "40/OP-09");
    assert_eq!(FeatureGates::unknown_names(&format!("{text},Foo=false")), ["Foo", "Bar"]);
    for text in ["Foo", "NodeOverlay=yes", "NodeOverlay=true,Foo", " "] {
        assert!(FeatureGates::parse(text).is_err(), "40/OP-10 {text:?}");
    }
}

#[test]
fn scheduler_configs_are_read_strictly() {
    let constraint = |fields: &str| {
        format!(
            "podTopologySpread: {{defaultConstraints: [{{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule{fields}}}]}}"
        )
    };
    let two = |mode: &str| {
        format!(
            "podTopologySpread: {{defaultConstraints: [{{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}}, {{maxSkew: 2, topologyKey: zone, whenUnsatisfiable: {mode}}}]}}"
        )
    };
    let one = |maxskew: &str, key: &str, mode: &str| {
        format!(
            "podTopologySpread: {{defaultConstraints: [{{maxSkew: {maxskew}, topologyKey: {key}, whenUnsatisfiable: {mode}}}]}}"
        )
    };
    let json = r#"{"podTopologySpread":{"defaultConstraints":[{"maxSkew":1,"topologyKey":"zone","whenUnsatisfiable":"ScheduleAnyway"}]}}"#;
    for (text, count) in [
        (String::new(), 0),
        ("{}".to_owned(), 0),
        (constraint(""), 1),
        (constraint(", minDomains: 2"), 1),
        (json.to_owned(), 1),
        (two("ScheduleAnyway"), 2),
    ] {
        assert_eq!(
            scheduler_config::parse(&text).map(|all| all.len()),
            Ok(count),
            "40/OP-11 {text}"
        );
    }
    for (text, message) in [
        (constraint(", other: 1"), "decoding scheduler config, "),
        ("podTopologySpread: {".to_owned(), "decoding scheduler config, "),
        ("other: 1".to_owned(), "decoding scheduler config, "),
        (one("0", "zone", "DoNotSchedule"), "[0].maxSkew must be greater than 0"),
        (one("1", "''", "DoNotSchedule"), "[0].topologyKey must be set"),
        (one("1", "'a b'", "DoNotSchedule"), "[0].topologyKey \"a b\" is not a valid label name, "),
        (one("1", "zone", "Never"), "[0].whenUnsatisfiable \"Never\" must be one of"),
        (constraint(", labelSelector: {}"), "[0].labelSelector must not be set"),
        (constraint(", matchLabelKeys: [a]"), "[0].matchLabelKeys must not be set"),
        (two("DoNotSchedule"), "[1] is a duplicate of [0], {zone, DoNotSchedule}"),
    ] {
        let error = scheduler_config::parse(&text).unwrap_err();
        assert!(error.contains(message), "40/OP-11 {text}: {error}");
    }
}

//! Tests of parsing scenarios: step order, error messages with line and fix, documented fields.

use super::*;

#[track_caller]
fn parse_error(yaml: &str) -> String {
    Scenario::parse(yaml).expect_err("has a mistake").to_string()
}

#[test]
fn steps_are_sorted_by_time_and_keep_their_order_within_one() {
    let scenario = Scenario::parse(
        "name: x\nsteps:\n- {at: 1m, say: c}\n- {at: 5s, say: a}\n- {at: 5s, say: b}\n",
    )
    .unwrap();
    let messages: Vec<_> =
        scenario.steps.iter().map(|step| step.message.clone().unwrap()).collect();
    assert_eq!(messages, ["a", "b", "c"]);
    assert_eq!(scenario.settle, DEFAULT_SETTLE);
}

#[test]
fn errors_name_the_field_and_the_fix() {
    let times = "use a time such as 90s, 5m or 1h30m";
    for (yaml, expected) in [
        ("steps: []", "name: is missing; add `name:`".to_owned()),
        (
            "name: x\nobject: []",
            "object: is no field here; use `objects`; there are name, description, start, objects, \
             faults, steps, duration, settle"
                .to_owned(),
        ),
        (
            "name: x\ncolour: red",
            "colour: is no field here; use `name`, `description`, `start`, `objects`, `faults`, \
             `steps`, `duration` or `settle`"
                .to_owned(),
        ),
        ("name: [x]", "name: is a list; use a text; in quotes, if it looks like a number".to_owned()),
        ("name: x\nsteps: soon", "steps: is the text \"soon\"; use a list".to_owned()),
        (
            "name: x\nstart: soon",
            "start: is `soon`, which is no date with a time; write it as 2026-01-05T08:00:00Z".to_owned(),
        ),
        (
            "name: x\nsteps: [{at: never, say: x}]",
            format!("steps[0].at: is `never`, which is no time; {times}"),
        ),
        ("name: x\nsteps: [{at: 90, say: x}]", format!("steps[0].at: is 90, without a unit; {times}")),
        (
            "name: x\nsteps: [{at: 1.5, say: x}]",
            format!("steps[0].at: is 1.5, without a unit; {times}"),
        ),
        (
            "name: x\nsteps: [{at: -5s, say: x}]",
            format!("steps[0].at: is -5s, which is negative; {times}"),
        ),
        (
            "name: x\nsteps: [{at: [1s], say: x}]",
            format!("steps[0].at: is a list; {times}"),
        ),
        (
            "name: x\nduration: 2d",
            "duration: is 2d; there is no unit `d`; use h, m, s and ms, such as 36h or 1h30m".to_owned(),
        ),
        (
            "name: x\nduration: 8785h",
            "duration: is 8785h, which is too long; use 8784h (a year) at most".to_owned(),
        ),
        (
            "name: x\nsettle: 99999999999h",
            "settle: is 99999999999h, which is too long; use 8784h (a year) at most".to_owned(),
        ),
        (
            "name: x\nsteps: [{at: 1s}]",
            "steps[0]: does nothing; give it one of apply, delete, scale, launch, remove, silence, \
             faults, restart or say"
                .to_owned(),
        ),
        (
            "name: x\nsteps: [{at: 1s, remove: {claims: []}, silence: {claims: []}}]",
            "steps[0]: has remove and silence; make a step of each".to_owned(),
        ),
        (
            "name: x\nsteps: [{at: 1s, launch: {instanceType: a, count: 0}}]",
            "steps[0].launch.count: is 0; use a whole number from 1 to 10000".to_owned(),
        ),
        (
            "name: x\nsteps: [{at: 1s, launch: {instanceType: a, count: -2}}]",
            "steps[0].launch.count: is -2; use a whole number from 1 to 10000".to_owned(),
        ),
        (
            "name: x\nsteps: [{at: 1s, launch: {instanceType: a, count: 1.5}}]",
            "steps[0].launch.count: is 1.5; use a whole number from 1 to 10000".to_owned(),
        ),
        (
            "name: x\nsteps: [{at: 1s, launch: {instanceType: a, count: many}}]",
            "steps[0].launch.count: is the text \"many\"; use a whole number from 1 to 10000".to_owned(),
        ),
        (
            "name: x\nsteps: [{at: 1s, scale: {name: a, replicas: -1}}]",
            "steps[0].scale.replicas: is -1; use a whole number from 0 to 2147483647".to_owned(),
        ),
        (
            "name: x\nsteps: [{at: 1s, scale: {name: a, replicas: 18446744073709551615}}]",
            "steps[0].scale.replicas: is 18446744073709551615; use a whole number from 0 to 2147483647"
                .to_owned(),
        ),
        (
            "name: x\nsteps: [{at: 1s, scale: web}]",
            "steps[0].scale: is the text \"web\"; use a mapping, `field: value`".to_owned(),
        ),
        (
            "name: x\nsteps: [{at: 1s, scale: {name: a}}]",
            "steps[0].scale.replicas: is missing; add `replicas:`".to_owned(),
        ),
        (
            "name: x\nobjects: [{kind: Pod}]",
            "objects[0].apiVersion: is missing or no text; every object needs it".to_owned(),
        ),
        ("[]", "the file: is a list; write `name:`, and below it `objects:` and `steps:`".to_owned()),
        ("", "the file: is empty; write `name:`, and below it `objects:` and `steps:`".to_owned()),
        ("text", "the file: is a single value; write `name:`, and below it `objects:` and `steps:`".to_owned()),
        (
            "apiVersion: v1\nkind: Pod",
            "the file: is a Kubernetes object, and no scenario; put it into the list `objects:` of a \
             scenario"
                .to_owned(),
        ),
        (
            "name: x\n---\nname: y",
            "the file: has more than one document (`---`); keep one, and make a file of each other \
             scenario"
                .to_owned(),
        ),
        ("name: x\nname: y", "name: is given twice in one mapping; keep one of the two".to_owned()),
    ] {
        assert_eq!(parse_error(yaml), expected, "{yaml}");
    }
}

#[test]
fn yaml_errors_do_not_show_the_text_of_the_library() {
    for yaml in ["[", "name: \"x", "name: x\n\tsteps: []", "a: *b", "name: {x", "x: .inf", "%"] {
        let found = parse_error(yaml);
        assert!(found.starts_with("the file: ") && found.contains("; "), "{yaml:?}: {found}");
        for word in ["serde", "Value", "expected one of", "from_multiple", "at line", "u32", "\n"] {
            assert!(!found.contains(word), "{yaml:?}: {found}");
        }
    }
}

#[test]
fn errors_name_the_line() {
    for (yaml, expected) in [
        (
            "name: x\n# a comment\nsteps:\n- at: 1s\n  say: a\n- at: 2s\n  launch:\n    instanceType: a\n    count: -1\n",
            9,
        ),
        ("name: x\nsteps:\n- {at: 1s, say: a}\n- {at: soon, say: b}\n", 4),
        ("name: x\nsteps:\n- at: 1s\n  scale: {name: a}\n", 4),
        ("name: x\nsteps:\n- at: 1s\n\n- at: 2s\n  say: b\n", 3),
        ("name: x\nobjects:\n- kind: Pod\n  metadata: {name: a}\n", 3),
        ("name: x\n\nname: y\n", 3),
        ("---\nname: x\n# -\n---\nname: y\n", 4),
        ("name: x\nsteps: [\n", 2),
    ] {
        let error = Scenario::parse(yaml).expect_err("has a mistake");
        assert_eq!(error.line, Some(expected), "{yaml}\n{error}");
    }
    assert_eq!(Scenario::line_of("name: x\nsteps:\n- {at: 1s}\n- {at: 2s}", "steps[1]"), Some(4));
}

#[test]
fn unknown_offering_names_are_rejected_with_suggestions() {
    let launch = |text: &str| format!("name: x\nsteps: [{{at: 1s, launch: {{{text}}}}}]");
    let shortage = |text: &str| format!("name: x\nfaults: {{cloud: {{shortages: [{{{text}}}]}}}}");
    for (yaml, expected) in [
        (
            launch("instanceType: c-4x-amd64-linx"),
            "steps[0].launch.instanceType: is `c-4x-amd64-linx`, which is no instance type of the \
             simulated cloud; use `c-4x-amd64-linux`",
        ),
        (
            launch("instanceType: m5.large"),
            "steps[0].launch.instanceType: is `m5.large`, which is no instance type of the simulated \
             cloud; use a name such as `c-128x-amd64-linux`, `m-128x-amd64-linux` or `s-128x-amd64-linux`",
        ),
        (
            launch("instanceType: 'c-4x-*'"),
            "steps[0].launch.instanceType: is `c-4x-*`, which is no instance type of the simulated \
             cloud; use a name such as `c-128x-amd64-linux`, `m-128x-amd64-linux` or `s-128x-amd64-linux`",
        ),
        (
            launch("instanceType: c-4x-amd64-linux, zone: test-zone-e"),
            "steps[0].launch.zone: is `test-zone-e`, which is no zone of the simulated cloud; use \
             `test-zone-a`, `test-zone-b` or `test-zone-c`; there are test-zone-a, test-zone-b, \
             test-zone-c, test-zone-d",
        ),
        (
            launch("instanceType: c-4x-amd64-linux, capacityType: reserved"),
            "steps[0].launch.capacityType: is `reserved`, which is no capacity type of the simulated \
             cloud; use `on-demand` or `spot`",
        ),
        (
            shortage("instanceType: 'x-*'"),
            "faults.cloud.shortages[0].instanceType: is `x-*`, which is no instance type of the \
             simulated cloud; use a name such as `c-128x-amd64-linux`, `m-128x-amd64-linux` or \
             `s-128x-amd64-linux`",
        ),
        (
            shortage("zone: us-east-1a"),
            "faults.cloud.shortages[0].zone: is `us-east-1a`, which is no zone of the simulated cloud; \
             use `test-zone-a`, `test-zone-b`, `test-zone-c` or `test-zone-d`",
        ),
        (
            shortage("capacityType: sport"),
            "faults.cloud.shortages[0].capacityType: is `sport`, which is no capacity type of the \
             simulated cloud; use `spot`; there are on-demand, spot",
        ),
    ] {
        assert_eq!(parse_error(&yaml), expected);
    }
    for yaml in [
        launch("instanceType: s-8x-arm64-windows, zone: test-zone-d, capacityType: spot"),
        shortage("instanceType: '*-arm64-*', zone: '*-a', capacityType: s*"),
    ] {
        Scenario::parse(&yaml).unwrap();
    }
    let faults = "{cloud: {shortages: [{}, {zone: x}]}}";
    let found = parse_error(&format!("name: x\nsteps: [{{at: 1s, faults: {faults}}}]"));
    assert!(found.starts_with("steps[0].faults.cloud.shortages[1].zone: is `x`"), "{found}");
}

#[test]
fn errors_in_faults_name_the_field() {
    for (faults, expected) in [
        ("{api: {errors: 1.5}}", "faults.api.errors: is 1.5; use 0 (never) to 1 (always)"),
        ("{api: {conflicts: -0.1}}", "faults.api.conflicts: is -0.1; use 0"),
        (
            "{api: {error: 1}}",
            "faults.api.error: is no field here; use `errors`; there are errors,",
        ),
        ("{api: {slow: {rate: 1}}}", "faults.api.slow.by: is missing; add `by:`"),
        ("{api: {slow: {rate: 1, by: now}}}", "faults.api.slow.by: is `now`, which is no time"),
        ("{api: {slow: {rate: 2, by: 1s}}}", "faults.api.slow.rate: is 2; use 0"),
        ("{api: {watchCuts: often}}", "faults.api.watchCuts: is the text \"often\"; use a number"),
        ("{cloud: {launchDelay: x}}", "faults.cloud.launchDelay: is `x`, which is no time"),
        ("{cloud: {errors: 2}}", "faults.cloud.errors: is 2; use 0"),
        (
            "{cloud: {shortages: [{}, {until: x}]}}",
            "faults.cloud.shortages[1].until: is `x`, which is no time",
        ),
        (
            "{cloud: {shortages: [{from: 2m, until: 1m}]}}",
            "faults.cloud.shortages[0].until: is not after its `from`; use a later time, or leave",
        ),
        (
            "{cloud: {lostInstances: {rate: 0.1, within: x}}}",
            "faults.cloud.lostInstances.within: is `x`, which is no time",
        ),
        (
            "{cloud: {methods: {crate: {errors: 1}}}}",
            "faults.cloud.methods.crate: is no call of a cloud; use `create`; there are create, delete",
        ),
        (
            "{cloud: {methods: {create: {errors: 3}}}}",
            "faults.cloud.methods.create.errors: is 3; use 0",
        ),
        (
            "{cloud: {callsInFlight: 0}}",
            "faults.cloud.callsInFlight: is 0; use a whole number from 1 to 4294967295",
        ),
        ("{for: soon}", "faults.for: is `soon`, which is no time"),
        ("{until: 1m}", "faults.until: is no field here; use `api`, `cloud` or `for`"),
    ] {
        let found = parse_error(&format!("name: x\nfaults: {faults}"));
        assert!(found.starts_with(expected), "{faults}\n  found: {found}");
        let found = parse_error(&format!("name: x\nsteps: [{{at: 1s, faults: {faults}}}]"));
        let expected = format!("steps[0].{expected}");
        assert!(found.starts_with(&expected), "{faults}\n  found: {found}");
    }
    let found = parse_error("name: x\nsteps: [{at: 1s, restart: {down: x}}]");
    assert!(found.starts_with("steps[0].restart.down: is `x`, which is no time"), "{found}");
}

const DOCUMENT: &str = include_str!("../../../../docs/scenarios.md");

fn examples() -> Vec<&'static str> {
    DOCUMENT.split("```").skip(1).step_by(2).filter_map(|b| b.strip_prefix("yaml\n")).collect()
}

#[test]
fn the_examples_of_the_documentation_are_scenarios() {
    let examples = examples();
    assert_eq!(examples.len(), 5);
    for example in examples {
        Scenario::parse(example).unwrap_or_else(|error| panic!("{error}\n{example}"));
    }
}

#[test]
fn every_field_is_documented_with_an_example() {
    let fields = |part: &str| -> Vec<String> {
        // The error names the fields that there are.
        let error = parse_error(part);
        let (_, known) = error.split_once("is no field here; use ").unwrap();
        known.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    };
    let examples = examples().concat();
    for part in [
        "name: x\nsteps: [{at: 1s, '?': 1}]",
        "name: x\nsteps: [{at: 1s, scale: {'?': 1}}]",
        "name: x\nsteps: [{at: 1s, launch: {'?': 1}}]",
        "name: x\nfaults: {'?': 1}",
        "name: x\nfaults: {api: {'?': 1}}",
        "name: x\nfaults: {cloud: {'?': 1}}",
        "name: x\nfaults: {cloud: {shortages: [{'?': 1}]}}",
        "name: x\nfaults: {cloud: {lostInstances: {'?': 1}}}",
        "name: x\nfaults: {cloud: {methods: {create: {'?': 1}}}}",
        "name: x\nfaults: {api: {slow: {'?': 1}}}",
    ] {
        let fields = fields(part);
        assert!(!fields.is_empty(), "{part}");
        for field in fields {
            assert!(examples.contains(&format!("{field}:")), "no example has {field}");
        }
    }
    for field in fields("name: x\n'?': 1") {
        assert!(DOCUMENT.contains(&format!("| `{field}` |")), "{field} is not described");
    }
}

#[test]
fn all_fault_fields_are_parsed() {
    let text = "name: x\nfaults: {api: {errors: 0.05, slow: {rate: 0.1, by: 2s}}, cloud: \
                {launchDelay: 20s, shortages: [{instanceType: 'c-*', zone: test-zone-a, from: 1m}], \
                errors: 0.5, methods: {get: {lostAnswers: 1}}}, for: 10m}";
    let faults = Scenario::parse(text).unwrap().faults.unwrap();
    assert_eq!(faults.length, Some(Duration::from_mins(10)));
    assert_eq!(faults.api.errors.to_bits(), 0.05_f64.to_bits());
    assert_eq!(faults.api.slow.by, Duration::from_secs(2));
    assert_eq!(faults.cloud.launch_delay, Duration::from_secs(20));
    let shortage = &faults.cloud.shortages[0];
    let texts = (&*shortage.instance_type, &*shortage.zone, &*shortage.capacity_type);
    assert_eq!(texts, ("c-*", "test-zone-a", "*"));
    assert_eq!((shortage.from, shortage.until), (Duration::from_mins(1), None));
    assert_eq!(faults.cloud.calls.errors.to_bits(), 0.5_f64.to_bits());
    let get = faults.cloud.methods[&crate::cloud::Method::Get];
    assert_eq!((get.errors.to_bits(), get.lost_answers.to_bits()), (0, 1.0_f64.to_bits()));
}

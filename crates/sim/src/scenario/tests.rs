use super::*;

#[track_caller]
fn refused(yaml: &str) -> String {
    Scenario::parse(yaml).expect_err("has a mistake").to_string()
}

#[test]
fn steps_are_sorted_by_time_and_keep_their_order_within_one() {
    let scenario = Scenario::parse(
        "name: x\nsteps:\n- {at: 1m, say: c}\n- {at: 5s, say: a}\n- {at: 5s, say: b}\n",
    )
    .unwrap();
    let said: Vec<_> = scenario.steps.iter().map(|step| step.say.clone().unwrap()).collect();
    assert_eq!(said, ["a", "b", "c"]);
    assert_eq!(scenario.settle, DEFAULT_SETTLE);
}

#[test]
fn mistakes_are_named_with_their_place() {
    for (yaml, expected) in [
        ("steps: []", "the file: missing field `name`"),
        ("name: x\ncolour: red", "colour: unknown field `colour`, expected one of"),
        ("name: x\nstart: soon", "start: `soon` is not a time such as"),
        ("name: x\nsteps: [{at: never, say: x}]", "steps[0].at: `never` is not a time such as 90s"),
        ("name: x\nsteps: [{at: 1s}]", "steps[0]: does nothing; give it one of"),
        (
            "name: x\nsteps: [{at: 1s, remove: {claims: []}, silence: {claims: []}}]",
            "steps[0]: has remove and silence; make a step of each",
        ),
        (
            "name: x\nsteps: [{at: 1s, launch: {instanceType: a, count: 0}}]",
            "steps[0].launch.count: is 0; use 1 to 10000",
        ),
        ("name: x\nobjects: [{kind: Pod}]", "objects[0].apiVersion: is needed, as text"),
        (
            "name: x\nsteps: [{at: 1s, scale: {name: a}}]",
            "steps[0].scale: missing field `replicas`",
        ),
        ("[", "the file: is not YAML"),
    ] {
        let found = refused(yaml);
        assert!(found.starts_with(expected), "{yaml}\n  found: {found}");
    }
}

#[test]
fn mistakes_in_faults_are_named_with_their_place() {
    for (faults, expected) in [
        ("{api: {errors: 1.5}}", "faults.api.errors: is 1.5; use 0 (never) to 1 (always)"),
        ("{api: {conflicts: -0.1}}", "faults.api.conflicts: is -0.1; use 0"),
        ("{api: {error: 1}}", "faults.api.error: unknown field `error`, expected one of"),
        ("{api: {slow: {rate: 1}}}", "faults.api.slow: missing field `by`"),
        ("{api: {slow: {rate: 1, by: now}}}", "faults.api.slow.by: `now` is not a time such as"),
        ("{api: {slow: {rate: 2, by: 1s}}}", "faults.api.slow.rate: is 2; use 0"),
        ("{api: {watchCuts: often}}", "faults.api.watchCuts: invalid type: string \"often\""),
        ("{cloud: {launchDelay: x}}", "faults.cloud.launchDelay: `x` is not a time"),
        ("{cloud: {errors: 2}}", "faults.cloud.errors: is 2; use 0"),
        (
            "{cloud: {shortages: [{}, {until: x}]}}",
            "faults.cloud.shortages[1].until: `x` is not a time",
        ),
        (
            "{cloud: {shortages: [{from: 2m, until: 1m}]}}",
            "faults.cloud.shortages[0].until: is not after its `from`",
        ),
        (
            "{cloud: {lostInstances: {rate: 0.1, within: x}}}",
            "faults.cloud.lostInstances.within: `x` is not a time",
        ),
        (
            "{cloud: {methods: {launch: {errors: 1}}}}",
            "faults.cloud.methods.launch: is no call of a cloud; use one of create, delete",
        ),
        (
            "{cloud: {methods: {create: {errors: 3}}}}",
            "faults.cloud.methods.create.errors: is 3; use 0",
        ),
        ("{cloud: {callsInFlight: 0}}", "faults.cloud.callsInFlight: is 0; leave it out"),
        ("{for: soon}", "faults.for: `soon` is not a time"),
        ("{until: 1m}", "faults.until: unknown field `until`"),
    ] {
        let found = refused(&format!("name: x\nfaults: {faults}"));
        assert!(found.starts_with(expected), "{faults}\n  found: {found}");
        let found = refused(&format!("name: x\nsteps: [{{at: 1s, faults: {faults}}}]"));
        let expected = format!("steps[0].{expected}");
        assert!(found.starts_with(&expected), "{faults}\n  found: {found}");
    }
    let found = refused("name: x\nsteps: [{at: 1s, restart: {down: x}}]");
    assert!(found.starts_with("steps[0].restart.down: `x` is not a time"), "{found}");
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
        // serde names the fields that it knows in its error.
        let error = refused(part);
        let (_, known) = error.split_once("expected ").unwrap();
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
fn faults_are_read_as_they_are_written() {
    let text = "name: x\nfaults: {api: {errors: 0.05, slow: {rate: 0.1, by: 2s}}, cloud: \
                {launchDelay: 20s, shortages: [{instanceType: 'c-*', zone: test-zone-a, from: 1m}], \
                errors: 0.5, methods: {get: {lostAnswers: 1}}}, for: 10m}";
    let trouble = Scenario::parse(text).unwrap().faults.unwrap();
    assert_eq!(trouble.length, Some(Duration::from_mins(10)));
    assert_eq!(trouble.api.errors.to_bits(), 0.05_f64.to_bits());
    assert_eq!(trouble.api.slow.by, Duration::from_secs(2));
    assert_eq!(trouble.cloud.launch_delay, Duration::from_secs(20));
    let shortage = &trouble.cloud.shortages[0];
    let texts = (&*shortage.instance_type, &*shortage.zone, &*shortage.capacity_type);
    assert_eq!(texts, ("c-*", "test-zone-a", "*"));
    assert_eq!((shortage.from, shortage.until), (Duration::from_mins(1), None));
    assert_eq!(trouble.cloud.calls.errors.to_bits(), 0.5_f64.to_bits());
    let get = trouble.cloud.methods[&crate::cloud::Method::Get];
    assert_eq!((get.errors.to_bits(), get.lost_answers.to_bits()), (0, 1.0_f64.to_bits()));
}

//! Rendered user data parses back to the values that it was rendered from.

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use serde_json::json;

use super::mime::Part;
use super::*;

fn label_map() -> impl Strategy<Value = BTreeMap<String, String>> {
    let key = "([a-z]{1,8}(\\.[a-z]{1,5}){0,2}/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,8}[A-Za-z0-9])?";
    btree_map(key, "([A-Za-z0-9]([A-Za-z0-9._-]{0,8}[A-Za-z0-9])?)?", 0..6)
}

fn taint_list() -> impl Strategy<Value = Vec<Taint>> {
    let effect = prop_oneof![Just("NoSchedule"), Just("NoExecute"), Just("PreferNoSchedule")];
    // Values that YAML could take for something else are among them.
    let value =
        prop_oneof![Just("true"), Just("1"), Just("null"), Just(""), Just("y"), Just("1e3")];
    let one = ("[a-z]{1,6}(/[a-z]{1,4})?", value, effect)
        .prop_map(|(key, value, effect)| taint(&key, value, effect));
    vec(one, 0..5)
}

fn signals() -> impl Strategy<Value = BTreeMap<String, String>> {
    let signal = prop_oneof![Just("memory.available"), Just("nodefs.available")];
    btree_map(signal.prop_map(str::to_owned), "[1-9][0-9]{0,2}(%|Mi|Gi)?", 0..3)
}

fn kubelet() -> impl Strategy<Value = Map<String, Value>> {
    let text = prop_oneof![Just("none"), Just("no"), Just("0o7"), Just("a: b"), Just("- x")];
    (
        option::of(0..1000_i32),
        option::of(0..100_i32),
        signals(),
        signals(),
        option::of(any::<bool>()),
        option::of(text),
        vec(0..i64::MAX, 0..3),
    )
        .prop_map(|(max_pods, pods_per_core, hard, reserved, quota, text, numbers)| {
            let fields = json!({
                "maxPods": max_pods,
                "podsPerCore": pods_per_core,
                "evictionHard": hard,
                "kubeReserved": reserved,
                "cpuCFSQuota": quota,
                "topologyManagerPolicy": text,
                "numbers": numbers,
                "nested": { "list": [{ "b": text, "a": [] }], "text": "line one\nline two\n" },
            });
            let Value::Object(fields) = fields else { unreachable!() };
            fields.into_iter().filter(|(_, value)| !value.is_null()).collect()
        })
}

fn examples() -> impl Strategy<Value = Example> {
    (label_map(), taint_list(), taint_list(), kubelet(), any::<bool>(), any::<bool>()).prop_map(
        |(labels, taints, startup_taints, kubelet, is_raid0, default_bind)| Example {
            kubelet,
            labels,
            taints,
            startup_taints,
            is_raid0,
            default_bind,
            ..Example::of(AmiFamily::Al2)
        },
    )
}

/// Parts of a user's archive, without lines that begin with a boundary.
fn user_parts() -> impl Strategy<Value = Vec<Part>> {
    let content_type = prop_oneof![Just("text/x-shellscript"), Just("text/cloud-config")];
    let part = (content_type, "([a-z#:=\\\\ \"'é-]{0,12}\n){0,4}[a-z]{0,5}", any::<bool>());
    let part = part.prop_map(|(content_type, body, extra)| {
        let mut headers = vec![("Content-Type".to_owned(), content_type.to_owned())];
        if extra {
            headers.push(("X-Other".to_owned(), "a: b; c".to_owned()));
        }
        Part { headers, body: body.replace("--", "-=") }
    });
    vec(part, 0..4)
}

/// The last double-quoted value of a flag in a script.
fn flag_entries(text: &str, flag: &str) -> Vec<String> {
    let Some((_, after)) = text.rsplit_once(&format!("{flag}=\"")) else { return Vec::new() };
    let (value, _) = after.split_once('"').unwrap();
    value.split(',').filter(|entry| !entry.is_empty()).map(str::to_owned).collect()
}

proptest! {
    #[test]
    fn node_configs_parse_back(mut example in examples(), parts in user_parts()) {
        example.family = AmiFamily::Al2023;
        example.user_data = (!parts.is_empty()).then(|| mime::write(&parts));
        let config = example.node_config();
        let mut kubelet = config["spec"]["kubelet"]["config"].as_object().unwrap().clone();
        let taints = node_taints(&example.taints, &example.startup_taints);
        let registered: Vec<Taint> =
            serde_json::from_value(kubelet.remove("registerWithTaints").unwrap()).unwrap();
        prop_assert_eq!(registered, taints);
        let resolved = NodeKubelet::resolve(Some(&example.kubelet), &example.resolved).unwrap();
        prop_assert_eq!(&kubelet, resolved.config());
        let flag = config["spec"]["kubelet"]["flags"][0].as_str().unwrap();
        let entries: BTreeMap<_, _> = flag_entries(flag, "--node-labels")
            .into_iter()
            .map(|entry| entry.split_once('=').map(|(k, v)| (k.to_owned(), v.to_owned())).unwrap())
            .collect();
        prop_assert_eq!(entries, example.node_labels());

        let mut found = mime::parse(&example.text()).unwrap();
        found.pop();
        let want: Vec<_> = parts.into_iter().map(Part::with_content_type_only).collect();
        prop_assert_eq!(found, want);
    }

    #[test]
    fn al2_archives_and_scripts_parse_back(example in examples(), parts in user_parts()) {
        let example = Example {
            user_data: (!parts.is_empty()).then(|| mime::write(&parts)),
            ..example
        };
        let mut found = mime::parse(&example.text()).unwrap();
        let script = found.pop().unwrap().body;
        prop_assert_eq!(found, parts);
        let taints: Vec<_> = node_taints(&example.taints, &example.startup_taints)
            .iter()
            .map(karpenter_api::taints::display)
            .collect();
        prop_assert_eq!(flag_entries(&script, "--register-with-taints"), taints);
        let labels: Vec<_> =
            example.node_labels().iter().map(|(key, value)| format!("{key}={value}")).collect();
        prop_assert_eq!(flag_entries(&script, "--node-labels"), labels);
        prop_assert_eq!(script.ends_with("--local-disks raid0"), example.is_raid0);

        let windows = Example { family: AmiFamily::Windows2022, user_data: None, ..example }.text();
        let same = ["--node-labels", "--register-with-taints", "--kube-reserved", "--eviction-hard"];
        for flag in same {
            prop_assert_eq!(flag_entries(&windows, flag), flag_entries(&script, flag));
        }
    }

    #[test]
    fn bottlerocket_settings_parse_back(example in examples(), text in "[ -~é\n\t]{0,20}") {
        let user = toml::Table::from_iter([("motd".to_owned(), toml::Value::from(text.as_str()))]);
        let root = toml::Table::from_iter([("settings".to_owned(), toml::Value::Table(user))]);
        let example = Example {
            family: AmiFamily::Bottlerocket,
            user_data: Some(root.to_string()),
            ..example
        };
        let settings = example.settings();
        prop_assert_eq!(settings["motd"].as_str(), Some(text.as_str()));
        let kubernetes = settings["kubernetes"].as_table().unwrap();
        let labels: BTreeMap<String, String> =
            kubernetes["node-labels"].clone().try_into().unwrap();
        prop_assert_eq!(labels, example.node_labels());
        let by_key: BTreeMap<String, Vec<String>> =
            kubernetes["node-taints"].clone().try_into().unwrap();
        let mut want = BTreeMap::<String, Vec<String>>::new();
        for taint in node_taints(&example.taints, &example.startup_taints) {
            let text = format!("{}:{}", taint.value.unwrap_or_default(), taint.effect);
            want.entry(taint.key).or_default().push(text);
        }
        prop_assert_eq!(by_key, want);
        let resolved = NodeKubelet::resolve(Some(&example.kubelet), &example.resolved).unwrap();
        let found = kubernetes["max-pods"].as_integer();
        prop_assert_eq!(found, resolved.max_pods().map(i64::from));
    }

    /// Any user data renders to a text or an error, and to the same one again.
    #[test]
    fn no_user_data_panics(
        head in prop_oneof![
            Just(""), Just("MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=B\n\n--B\n"),
            Just("Content-Type: "), Just("[settings.kubernetes]\n"), Just("\u{feff}"),
        ],
        body in "([ -~é\u{0}\u{1}\n\t\r]|--B|--//|--|\n\n|=\n|= |a: |\"\"\"){0,40}",
    ) {
        for family in AmiFamily::ALL {
            let example = Example::of(family).with_user_data(&format!("{head}{body}"));
            let first = example.render();
            prop_assert!(first == example.render());
            if let (Ok(data), AmiFamily::Al2 | AmiFamily::Al2023) = (first, family) {
                prop_assert!(!data.text().contains('\r'));
                prop_assert!(data.text().ends_with("\n--//--\n"));
            }
        }
    }
}

//! Tests of merging and removing: what a kubeconfig holds besides the demo stays as it is.

use super::*;

fn demo(number: usize) -> DemoCluster {
    DemoCluster {
        url: format!("https://127.0.0.1:{number}"),
        ca_data: "Q0E=".to_owned(),
        token: format!("token-{number}"),
    }
}

/// A kubeconfig as people have it: comments, an exec plugin, extensions, unknown fields.
const PRODUCTION: &str = "\
# the clusters of the shop
apiVersion: v1
kind: Config
preferences: {}
current-context: production # careful
clusters:
# frankfurt
- cluster:
    server: https://shop.example.com
    extensions:
    - name: cluster_info
      extension: {provider: minikube.sigs.k8s.io, version: v1.35.0}
  name: production

contexts:
- context: {cluster: production, user: me}
  name: production
users:
- name: me
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1
      command: aws
      args: [eks, get-token]
x-team: {owner: shop, since: 2020-01-01}
";

#[track_caller]
fn merged(old: &str, cluster: &DemoCluster) -> String {
    merge(old, cluster).unwrap_or_else(|error| panic!("{error}: {old}")).text
}

#[test]
fn the_demo_is_added_to_a_kubeconfig_and_nothing_else_changes() {
    insta::assert_snapshot!(merged(PRODUCTION, &demo(1)), @r"
    # the clusters of the shop
    apiVersion: v1
    kind: Config
    preferences: {}
    current-context: karpenter-demo # careful
    clusters:
    - name: karpenter-demo
      cluster:
        server: https://127.0.0.1:1
        certificate-authority-data: Q0E=
    # frankfurt
    - cluster:
        server: https://shop.example.com
        extensions:
        - name: cluster_info
          extension: {provider: minikube.sigs.k8s.io, version: v1.35.0}
      name: production

    contexts:
    - name: karpenter-demo
      context:
        cluster: karpenter-demo
        user: karpenter-demo
        extensions:
        - name: karpenter-demo
          extension:
            previousContext: production
    - context: {cluster: production, user: me}
      name: production
    users:
    - name: karpenter-demo
      user:
        token: token-1
    - name: me
      user:
        exec:
          apiVersion: client.authentication.k8s.io/v1
          command: aws
          args: [eks, get-token]
    x-team: {owner: shop, since: 2020-01-01}
    ");
}

#[test]
fn removing_the_demo_restores_every_kind_of_kubeconfig() {
    let tab = "clusters: []\ncontexts: null\nusers:\ncurrent-context: \"\"\n";
    let indented = "kind: Config\nclusters:\n  # one\n  - name: a\n    cluster: {server: x}\n  # two\n  - {name: b, cluster: {server: y}}\nusers: ~ # none\n";
    let windows = PRODUCTION.replace('\n', "\r\n");
    let no_end = "users:\n- name: a\n  user: {token: t}";
    let quoted = "current-context: \"a # b\" # c\nclusters: []\ncontexts: []\nusers: []\n";
    for text in [PRODUCTION, tab, indented, &windows, no_end, quoted] {
        let with_demo = merged(text, &demo(1));
        let lines = text.lines().filter(|line| is_blank_line(line));
        assert!(lines.into_iter().all(|line| with_demo.contains(line)), "comments: {with_demo}");
        let value = parse(&with_demo).unwrap();
        assert_eq!(current_context(&value), Some(NAME), "{with_demo}");
        assert!(LISTS.iter().all(|list| position(&value, list) == Some(0)), "{with_demo}");
        let restored = remove(&with_demo, &demo(1)).unwrap().expect("it holds the demo");
        let (restored, original) = (parse(&restored).unwrap(), parse(text).unwrap());
        for (key, value) in original.iter().filter(|(_, value)| !value.is_null()) {
            assert_eq!(restored.get(key), Some(value), "{key} of {text}");
        }
        assert!(restored.values().filter(|value| value.is_string()).count() <= original.len() + 1);
    }
    let restored = remove(&merged(PRODUCTION, &demo(1)), &demo(1)).unwrap();
    assert_eq!(restored.as_deref(), Some(PRODUCTION), "byte for byte");
}

#[test]
fn other_notations_are_written_anew_with_all_their_data() {
    let json = r#"{"apiVersion": "v1", "kind": "Config", "clusters": [{"name": "a", "cluster": {"server": "x", "extra": 1}}], "users": [], "current-context": "a", "x": [1.5, null]}"#;
    let flow = "clusters: [{name: a, cluster: {server: x}}]\nusers: []\ncurrent-context: a\n";
    let alias = "x: &x\n- name: a\n  cluster: {server: x}\nclusters: *x\ncurrent-context: a\n";
    let block = "current-context: >-\n  a\nclusters:\n- name: a\n";
    let ended = "kind: Config\n...\n";
    for text in [json, flow, alias, block, ended] {
        let with_demo = merged(text, &demo(1));
        assert_eq!(with_demo.trim_start().starts_with('{'), text.starts_with('{'), "{with_demo}");
        let restored = remove(&with_demo, &demo(1)).unwrap().expect("it holds the demo");
        let (restored, original) = (parse(&restored).unwrap(), parse(text).unwrap());
        for (key, value) in &original {
            assert_eq!(restored.get(key), Some(value), "{key} of {text}: {with_demo}");
        }
    }
}

#[test]
fn changes_by_others_during_the_demo_are_kept() {
    let with_demo = merged(PRODUCTION, &demo(1));
    // `kubectl config use-context production`, and a cluster that another tool has added.
    let changed = with_demo
        .replace("current-context: karpenter-demo", "current-context: production")
        .replace("users:\n", "users:\n- name: new\n  user: {token: t}\n");
    let removed = remove(&changed, &demo(1)).unwrap().expect("it holds the demo");
    assert_eq!(
        removed,
        PRODUCTION.replace("users:\n", "users:\n- name: new\n  user: {token: t}\n")
    );
    // Entries of another demo, and none at all.
    assert_eq!(remove(&with_demo, &demo(2)).unwrap(), None);
    assert_eq!(remove(PRODUCTION, &demo(1)).unwrap(), None);
}

#[test]
fn the_next_demo_replaces_entries_that_a_crash_has_left() {
    let left = merged(PRODUCTION, &demo(1));
    let again = merge(&left, &demo(2)).unwrap();
    assert_eq!((again.before.as_str(), again.was_demo_only), (PRODUCTION, false));
    assert_eq!(again.text, merged(PRODUCTION, &demo(2)));

    let alone = merged("", &demo(1));
    let again = merge(&alone, &demo(2)).unwrap();
    assert!(again.was_demo_only && is_blank(&again.before), "{again:?}");
    assert!(!merge("# mine\n", &demo(1)).unwrap().was_demo_only);
}

#[test]
fn a_kubeconfig_of_the_demo_alone_is_complete() {
    insta::assert_snapshot!(merged("", &demo(1)), @r"
    apiVersion: v1
    kind: Config
    clusters:
    - name: karpenter-demo
      cluster:
        server: https://127.0.0.1:1
        certificate-authority-data: Q0E=
    contexts:
    - name: karpenter-demo
      context:
        cluster: karpenter-demo
        user: karpenter-demo
    users:
    - name: karpenter-demo
      user:
        token: token-1
    current-context: karpenter-demo
    ");
}

#[test]
fn texts_that_are_no_kubeconfigs_are_refused() {
    for (text, expected) in [
        ("a: [\n", "line 1: unclosed bracket"),
        ("- a\n", "it is not a mapping"),
        ("just text\n", "it is not a mapping"),
        ("a: 1\n", "it has none of clusters, contexts and users"),
        ("apiVersion: v1\nkind: Pod\n", "its kind is not Config of v1"),
        ("clusters: {a: 1}\n", "its clusters, contexts and users are not lists of named entries"),
        ("users: [7]\n", "its clusters, contexts and users are not lists of named entries"),
        ("kind: Config\ncurrent-context: [a]\n", "its current-context is not a text"),
        ("kind: Config\n---\nkind: Config\n", "line 3: only single YAML document expected"),
        ("users: []\nusers: []\n", "line 2: "),
    ] {
        let error = merge(text, &demo(1)).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{text:?}: {error}");
    }
}

#[test]
fn entries_of_a_user_with_the_name_of_the_demo_are_not_replaced() {
    let cluster = |server: &str| {
        format!("clusters:\n- name: karpenter-demo\n  cluster: {{server: '{server}'}}\n")
    };
    let context =
        "contexts:\n- name: karpenter-demo\n  context: {cluster: karpenter-demo, user: me}\n";
    let user = "users:\n- name: karpenter-demo\n  user: {token: t, username: me}\n";
    let proxied = "clusters:\n- name: karpenter-demo\n  cluster: {server: 'https://127.0.0.1:1', proxy-url: x}\n";
    for (text, found) in [
        (
            &*cluster("https://mine:6443"),
            "it has a cluster `karpenter-demo` that no demo has written, whose server is https://mine:6443",
        ),
        (context, "it has a context `karpenter-demo` that no demo has written"),
        (user, "it has a user `karpenter-demo` that no demo has written"),
        (
            proxied,
            "it has a cluster `karpenter-demo` that no demo has written, whose server is https://127.0.0.1:1",
        ),
    ] {
        assert_eq!(merge(text, &demo(1)), Err(TextError::NameTaken(found.to_owned())), "{text}");
    }
    // An entry that the user adds while the demo runs is kept.
    let text = merged("", &demo(1));
    let added = text
        .replace("users:\n", "users:\n- name: karpenter-demo\n  user: {token: t, username: me}\n");
    let left = remove(&added, &demo(1)).unwrap().unwrap();
    assert!(left.contains("username: me") && !left.contains("token-1"), "{left}");
}

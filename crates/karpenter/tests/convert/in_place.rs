//! Tests of `--in-place`: the changes to files, and the parts that stay.

use std::fs;

use super::*;

fn file_names(folder: &tempfile::TempDir) -> Vec<String> {
    let entries = fs::read_dir(folder.path()).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn in_place_conversion_changes_only_legacy_documents() {
    let text = format!("# Header.\n{CONFIG_MAP}---\n# About the pool.\n{POOL}---\n{CONFIG_MAP}");
    let folder = folder(&[("all.yaml", &text), ("other.yaml", CONFIG_MAP)]);
    let ran = convert(folder.path(), &["-f", ".", "--in-place"], "");
    assert_eq!((ran.code, ran.stdout.as_str()), (0, ""), "{}", ran.stderr);
    assert!(ran.stderr.contains("rewritten: ./all.yaml (backup: "), "{}", ran.stderr);
    assert!(!ran.stderr.contains("W01"), "{}", ran.stderr);
    assert_eq!(read(&folder, "all.yaml.bak"), text);
    assert_eq!(file_names(&folder), ["all.yaml", "all.yaml.bak", "other.yaml"]);

    let new = read(&folder, "all.yaml");
    let (before, rest) = new.split_once("---\n").unwrap();
    let (pool, after) = rest.split_once("---\n").unwrap();
    assert_eq!((before, after), (format!("# Header.\n{CONFIG_MAP}").as_str(), CONFIG_MAP));
    assert!(pool.starts_with("# About the pool.\n# W06 NodePool/pool "), "{pool}");
    assert!(pool.contains("apiVersion: karpenter.sh/v1\nkind: NodePool\n"), "{pool}");

    let again = convert(folder.path(), &["-f", "all.yaml", "--in-place"], "");
    assert_eq!((again.code, again.stderr.as_str()), (0, ""));
    assert_eq!(read(&folder, "all.yaml"), new);
    assert_eq!(file_names(&folder).len(), 3);
}

#[test]
fn a_file_with_an_error_is_not_rewritten() {
    let bad = format!("{POOL}---\n{}", CLASS.replace("role: nodes", ""));
    let broken = format!("{POOL}---\na: [\n");
    let folder = folder(&[
        ("bad.yaml", &bad),
        ("broken.yaml", &broken.replace("name: pool", "name: second")),
        ("good.yaml", &POOL.replace("name: pool", "name: third")),
    ]);
    let ran = convert(folder.path(), &["-f", ".", "--in-place"], "");
    assert_eq!(ran.code, 1);
    assert_eq!(read(&folder, "bad.yaml"), bad);
    assert!(read(&folder, "broken.yaml").contains("v1beta1"));
    assert!(read(&folder, "good.yaml").contains("apiVersion: karpenter.sh/v1\n"));
    assert_eq!(file_names(&folder), ["bad.yaml", "broken.yaml", "good.yaml", "good.yaml.bak"]);
    for file in ["bad.yaml", "broken.yaml"] {
        assert!(ran.stderr.contains(&format!("not written: ./{file}\n")), "{}", ran.stderr);
    }
}

#[test]
fn kubelet_settings_are_not_lost_between_files() {
    let pool =
        POOL.replace("      requirements", "      kubelet: { maxPods: 5 }\n      requirements");
    let bad = format!(
        "{CLASS}---\n{}",
        CLASS.replace("name: class", "name: bad").replace("role: nodes", "")
    );
    let folder = folder(&[("pool.yaml", &pool), ("class.yaml", &bad)]);
    let ran = convert(folder.path(), &["-f", "pool.yaml", "class.yaml", "--in-place"], "");
    assert_eq!(ran.code, 1);
    // The pool would give its kubelet block to a class that does not get it.
    assert_eq!(read(&folder, "pool.yaml"), pool);
    assert_eq!(read(&folder, "class.yaml"), bad);
}

#[test]
fn json_files_stay_json_when_converted_in_place() {
    let folder = folder(&[]);
    fs::copy(legacy().join("list.json"), folder.path().join("list.json")).unwrap();
    let ran = convert(folder.path(), &["-f", "list.json", "--in-place"], "");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let list: serde_json::Value = serde_json::from_str(&read(&folder, "list.json")).unwrap();
    let kinds = list["items"].as_array().unwrap().iter().map(|item| &item["apiVersion"]);
    assert_eq!(kinds.collect::<Vec<_>>(), ["karpenter.sh/v1", "karpenter.k8s.aws/v1"]);
}

#[cfg(unix)]
#[test]
fn a_read_only_directory_is_reported() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = folder(&[("sub/pool.yaml", POOL)]);
    let sub = folder.path().join("sub");
    fs::set_permissions(&sub, fs::Permissions::from_mode(0o500)).unwrap();
    let probe = fs::write(sub.join("probe"), "");
    let ran = convert(folder.path(), &["-f", "sub/pool.yaml", "--in-place"], "");
    fs::set_permissions(&sub, fs::Permissions::from_mode(0o700)).unwrap();
    if probe.is_ok() {
        return; // permissions mean nothing to root
    }
    assert_eq!(ran.code, 1);
    assert!(
        ran.stderr.contains("error: cannot write file\n where: sub/pool.yaml\n"),
        "{}",
        ran.stderr
    );
    assert_eq!(read(&folder, "sub/pool.yaml"), POOL);
}

/// A pool whose kubelet settings move to the class `c` in another file.
const POOL_WITH_KUBELET_SETTINGS: &str = "apiVersion: karpenter.sh/v1beta1
kind: NodePool
metadata: {name: moving}
spec:
  template:
    spec:
      nodeClassRef: {name: c}
      kubelet: {maxPods: 10}
      requirements: []
";

/// Settings leave a pool only if the whole input is without errors: an object with an error may be
/// the class that they are for, or a pool that shares it.
#[test]
fn kubelet_settings_move_only_if_no_file_has_an_error() {
    let class = CLASS.replace("metadata:\n  name: class", "metadata:\n  name: c");
    let idle = "apiVersion: karpenter.sh/v1beta1\nkind: NodePool\nmetadata: {name: idle}\nspec:\n  \
                disruption: {consolidationPolicy: WhenEmpty}\n  template: {spec: {nodeClassRef: {name: c}, requirements: []}}\n";
    for (other, text) in [
        ("class.yaml", class.replace("role: nodes", "")),
        ("class.yaml", "a: [\n".to_owned()),
        ("idle.yaml", idle.to_owned()), // E30
    ] {
        let folder = folder(&[("pool.yaml", POOL_WITH_KUBELET_SETTINGS), (other, &text)]);
        let ran = convert(folder.path(), &["-f", ".", "--in-place"], "");
        assert_eq!(ran.code, 1, "{}", ran.stderr);
        assert_eq!(
            read(&folder, "pool.yaml"),
            POOL_WITH_KUBELET_SETTINGS,
            "{other}: {}",
            ran.stderr
        );
    }
}

#[test]
fn v1_node_claims_are_not_rewritten() {
    let claim =
        "# Ours.\napiVersion: karpenter.sh/v1\nkind: NodeClaim\nmetadata: {name: own}\nspec: {}\n";
    let folder = folder(&[("claim.yaml", claim)]);
    let ran = convert(folder.path(), &["-f", ".", "--in-place"], "");
    assert_eq!((ran.code, read(&folder, "claim.yaml").as_str()), (0, claim), "{}", ran.stderr);
}

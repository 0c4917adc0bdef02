//! Tests of the output of `karpenter convert`: manifests, findings and exit codes.

use std::fs;

use super::*;

#[test]
fn legacy_manifests_become_v1() {
    let files = [
        "v1alpha5-provider-ref.yaml",
        "v1alpha5-inline-provider.yaml",
        "v1beta1.yaml",
        "mixed.yaml",
        "list.json",
    ];
    for file in files {
        let ran = convert(&legacy(), &["-f", file], "");
        assert_eq!(ran.code, 0, "{file}: {}", ran.stderr);
        insta::assert_snapshot!(file, ran.stdout);
    }
}

#[test]
fn findings_go_to_stderr_with_file_and_line() {
    let ran = convert(&legacy(), &["-f", "v1beta1.yaml"], "");
    insta::assert_snapshot!(ran.stderr, @r"
    W06 NodePool/default spec.disruption.expireAfter: expiration now drains immediately (v1beta1.yaml:28)
    W06 NodePool/dense spec.disruption.expireAfter: expiration now drains immediately (v1beta1.yaml:62)
    W21 EC2NodeClass/default spec.amiFamily: AL2 is not available on Kubernetes 1.33+ (v1beta1.yaml:75)
    W33 EC2NodeClass/default spec.amiFamily: alias latest follows every AMI release (v1beta1.yaml:75)
    W26 EC2NodeClass/default spec.metadataOptions: metadataOptions written out to keep previous values (v1beta1.yaml:74)
    W10 EC2NodeClass/default spec.kubelet: kubelet settings differ between pools; created EC2NodeClass default-dense (v1beta1.yaml:74)
    W22 EC2NodeClass/own-images spec.amiFamily: Ubuntu converted to AL2 user data (v1beta1.yaml:92)
    W26 EC2NodeClass/own-images spec.metadataOptions: metadataOptions written out to keep previous values (v1beta1.yaml:102)
    ");
}

#[test]
fn all_manifests_of_a_directory_are_converted() {
    let ran = convert(&legacy(), &["-f", ".", "--workloads", "-o", "json"], "");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let list: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((list["apiVersion"].as_str(), list["kind"].as_str()), (Some("v1"), Some("List")));
    let name = |item: &serde_json::Value| {
        format!("{}/{}", item["kind"].as_str().unwrap(), item["metadata"]["name"].as_str().unwrap())
    };
    let names: Vec<_> = list["items"].as_array().unwrap().iter().map(name).collect();
    insta::assert_snapshot!(names.join("\n"), @r"
    NodePool/listed
    EC2NodeClass/listed
    NodePool/shop-legacy
    NodePool/shop
    EC2NodeClass/shop
    NodePool/shop-arm
    Deployment/shop
    NodePool/inline
    EC2NodeClass/inline
    NodePool/general
    NodePool/batch
    EC2NodeClass/shared
    EC2NodeClass/shared-batch
    NodePool/default
    NodePool/dense
    EC2NodeClass/default
    EC2NodeClass/default-dense
    EC2NodeClass/own-images
    ");
}

#[test]
fn converting_converted_manifests_changes_nothing() {
    let first = convert(&legacy(), &["-f", "."], "");
    let second = convert(&legacy(), &[], &first.stdout);
    assert_eq!((second.code, second.stderr.as_str()), (0, ""));
    let without_comments = |text: &str| {
        text.split_inclusive('\n').filter(|line| !line.starts_with("# W")).collect::<String>()
    };
    assert_eq!(second.stdout, without_comments(&first.stdout));
    assert_eq!(convert(&legacy(), &["--check"], &second.stdout).code, 0);
}

#[test]
fn files_directories_and_stdin_can_be_mixed() {
    let folder = folder(&[
        ("pools/pool.yml", POOL),
        ("pools/notes.txt", "not a manifest"),
        ("pools/.git/x.yaml", "not: [ read"),
        ("class.yaml", CLASS),
    ]);
    let args = ["-f", "pools", "class.yaml", "-f", "-", "-f", "class.yaml", "-o", "json"];
    let stdin = POOL.replace("name: pool", "name: piped");
    let ran = convert(folder.path(), &args, stdin);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let list: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    let names = list["items"].as_array().unwrap().iter().map(|item| &item["metadata"]["name"]);
    assert_eq!(names.collect::<Vec<_>>(), ["pool", "class", "piped"]);
}

#[test]
fn files_of_a_directory_that_are_no_manifests_are_skipped() {
    let folder =
        folder(&[("kustomization.yaml", "resources:\n- pool.yaml\n"), ("pool.yaml", POOL)]);
    let ran = convert(folder.path(), &["-f", "."], "");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(
        ran.stderr.starts_with("W01 ./kustomization.yaml:1: skipped, not a Kubernetes object\n"),
        "{}",
        ran.stderr
    );
    let ran = convert(folder.path(), &["-f", "kustomization.yaml"], "");
    assert_eq!(ran.code, 1);
}

#[test]
fn errors_set_the_exit_code_and_other_objects_are_printed() {
    let bad = CLASS.replace("role: nodes", "");
    let both = format!("{bad}---\n{POOL}");
    let folder = folder(&[("both.yaml", &both)]);
    let ran = convert(folder.path(), &["-f", "both.yaml"], "");
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("E18 EC2NodeClass/class spec: exactly one of role, instanceProfile is required (both.yaml:5)\n"), "{}", ran.stderr);
    assert!(
        ran.stdout.contains("kind: NodePool") && !ran.stdout.contains("EC2NodeClass\nmetadata"),
        "{}",
        ran.stdout
    );
}

#[test]
fn check_lists_the_changes_and_writes_nothing() {
    let folder = folder(&[("all.yaml", &format!("{CONFIG_MAP}---\n{POOL}---\n{CLASS}"))]);
    let before = read(&folder, "all.yaml");
    for args in [&["-f", "all.yaml", "--check"][..], &["-f", "all.yaml", "--check", "--in-place"]] {
        let ran = convert(folder.path(), args, "");
        assert_eq!(ran.code, 1);
        assert_eq!(
            ran.stdout,
            "all.yaml:5: NodePool/pool -> NodePool/pool\nall.yaml:16: EC2NodeClass/class -> EC2NodeClass/class\n"
        );
    }
    assert_eq!(read(&folder, "all.yaml"), before);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);

    let foreign = convert(folder.path(), &["--check"], CONFIG_MAP);
    assert_eq!((foreign.code, foreign.stdout.as_str()), (0, ""));
}

#[test]
fn role_and_private_subnet_flags_change_the_node_class() {
    let args = ["-f", "v1alpha5-provider-ref.yaml", "--role", "my-role", "--private-subnets"];
    let ran = convert(&legacy(), &args, "");
    assert!(ran.stdout.contains("\n  role: my-role\n"), "{}", ran.stdout);
    assert!(ran.stdout.contains("\n  associatePublicIPAddress: false\n"), "{}", ran.stdout);
    assert!(!ran.stderr.contains("W23"), "{}", ran.stderr);
}

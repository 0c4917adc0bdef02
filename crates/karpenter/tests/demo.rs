//! The README's first command, as far as it goes today.

use std::process::Command;

#[test]
fn the_demo_converts_admits_and_refuses() {
    let output = Command::new(env!("CARGO_BIN_EXE_karpenter")).arg("demo").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for part in [
        "W03 Provisioner/inline spec.requirements: added default requirement",
        "kind: NodePool",
        "alias: al2@latest",
        r#""budgets":[{"nodes":"10%"}]"#,
        "drift hash ",
        r#"NodePool.karpenter.sh "too-heavy" is invalid: ["#,
        r#"label "kubernetes.io/hostname" is restricted"#,
        "ValidationSucceeded=False: invalid value: no valid values found in [spott]",
    ] {
        assert!(text.contains(part), "{part:?} is missing in\n{text}");
    }
}

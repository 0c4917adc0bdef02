//! Tests that the commands of docs/plan.md have the documented output.

use std::process::Command;

use super::*;

const DOCUMENT: &str = include_str!("../../../../docs/plan.md");

/// Commands of the blocks of a language, with the lines that follow each of them.
fn commands(language: &str) -> Vec<String> {
    let blocks = DOCUMENT.split("```").skip(1).step_by(2);
    blocks
        .filter_map(|block| block.strip_prefix(language))
        .flat_map(str::lines)
        .filter_map(|line| line.split("  #").next())
        .map(|line| line.trim().to_owned())
        .filter(|line| line.contains("karpenter plan"))
        .collect()
}

#[test]
fn every_command_of_the_documentation_runs() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let binary = Path::new(env!("CARGO_BIN_EXE_karpenter")).parent().unwrap();
    let commands = commands("sh\n");
    assert!(commands.len() >= 5, "{commands:?}");
    for command in commands {
        let output = Command::new("sh")
            .args(["-c", &format!("PATH=$BUILT:$PATH; {command}")])
            .current_dir(&root)
            .env("BUILT", binary)
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(matches!(output.status.code(), Some(0 | 1)), "{command}: {stderr}");
        assert_eq!(stderr, "", "{command}");
        assert!(!output.stdout.is_empty(), "{command}");
    }
}

#[test]
fn the_documented_output_is_the_real_output() {
    for args in [&["-f", "shop"][..], &["--consolidate", "-f", "consolidate.yaml"][..]] {
        let ran = plan(&scenarios(), args, "");
        for line in ran.stdout.lines() {
            assert!(DOCUMENT.contains(line.trim_end()), "docs/plan.md lacks the line {line:?}");
        }
    }
}

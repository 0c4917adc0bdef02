//! Checks the direction of dependencies: a crate uses only crates of a lower layer.
//!
//! ```text
//! below     grammar
//! layer 0   api            core            cel
//! layer 1   cluster        operator        apiserver
//! layer 2   controllers    aws            kwok
//! layer 3   sim
//! layer 4   karpenter
//! ```
//!
//! A new arrow is a decision: it is discussed first, and then gets its place in [`RULES`].

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use cargo_metadata::{DependencyKind, MetadataCommand};

/// What one crate of the workspace may use.
struct Rule {
    name: &'static str,
    /// Crates of the workspace that it may use, also in its build script.
    may_use: &'static [&'static str],
    /// Crates of the workspace that only its tests may use, too.
    tests_may_use: &'static [&'static str],
    /// Outside crates that must not be anywhere below it. The AWS SDK has a test of its own.
    free_of: &'static [&'static str],
}

#[rustfmt::skip]
const RULES: &[Rule] = &[
    Rule {
        name: "karpenter-grammar", // core is above it, so it is as free of outside crates
        may_use: &[],
        tests_may_use: &[],
        free_of: &["tokio", "k8s-openapi", "kube", "serde", "serde_core", "serde_json", "regex"],
    },
    Rule {
        name: "karpenter-api",
        may_use: &["karpenter-grammar"],
        tests_may_use: &[],
        free_of: &["tokio", "hyper", "kube-client", "kube-runtime"],
    },
    Rule {
        name: "karpenter-core",
        may_use: &["karpenter-grammar"],
        tests_may_use: &[],
        free_of: &["tokio", "futures", "kube", "kube-core", "k8s-openapi", "serde", "serde_core", "serde_json", "tracing", "log", "rand"],
    },
    Rule {
        name: "karpenter-cel",
        may_use: &["karpenter-grammar"],
        tests_may_use: &[],
        free_of: &["tokio", "hyper", "k8s-openapi", "kube", "kube-core", "kube-client"],
    },
    Rule {
        name: "karpenter-apiserver", // everything Karpenter is foreign to it
        may_use: &["karpenter-cel", "karpenter-grammar"],
        tests_may_use: &[],
        free_of: &[],
    },
    Rule {
        name: "karpenter-cluster",
        may_use: &["karpenter-api", "karpenter-core"],
        tests_may_use: &[],
        free_of: &["tokio", "hyper", "kube-client", "kube-runtime"],
    },
    Rule {
        name: "karpenter-operator",
        may_use: &["karpenter-api", "karpenter-core"],
        tests_may_use: &["karpenter-apiserver"],
        free_of: &[],
    },
    Rule {
        name: "karpenter-controllers",
        may_use: &[
            "karpenter-api", "karpenter-core", "karpenter-cel", "karpenter-cluster",
            "karpenter-operator",
        ],
        tests_may_use: &["karpenter-apiserver"],
        free_of: &[],
    },
    Rule {
        name: "karpenter-aws",
        may_use: &["karpenter-api", "karpenter-core", "karpenter-cel", "karpenter-operator"],
        tests_may_use: &["karpenter-apiserver"],
        free_of: &[],
    },
    Rule {
        name: "karpenter-kwok",
        may_use: &["karpenter-api", "karpenter-core", "karpenter-operator"],
        tests_may_use: &["karpenter-apiserver"],
        free_of: &[],
    },
    Rule {
        name: "karpenter-sim",
        may_use: &[
            "karpenter-api", "karpenter-core", "karpenter-cluster", "karpenter-operator",
            "karpenter-controllers", "karpenter-aws", "karpenter-kwok", "karpenter-apiserver",
        ],
        tests_may_use: &[],
        free_of: &[],
    },
    Rule {
        name: "karpenter",
        may_use: &[
            "karpenter-api", "karpenter-core", "karpenter-cluster", "karpenter-operator",
            "karpenter-controllers", "karpenter-aws", "karpenter-kwok", "karpenter-apiserver",
            "karpenter-sim",
        ],
        tests_may_use: &[],
        free_of: &[],
    },
    // For developers. None of them is used by a shipped crate.
    Rule {
        name: "karpenter-bench",
        may_use: &[
            "karpenter-api", "karpenter-core", "karpenter-cluster", "karpenter-operator",
            "karpenter-controllers", "karpenter-aws", "karpenter-kwok", "karpenter-apiserver",
            "karpenter-sim",
            "karpenter-e2e", // the control plane that it measures on
        ],
        tests_may_use: &[],
        free_of: &[],
    },
    Rule {
        name: "karpenter-e2e",
        may_use: &["karpenter-api", "karpenter-operator", "karpenter-sim", "xtask"], // its kubelets
        tests_may_use: &["karpenter-apiserver"],
        free_of: &[],
    },
    Rule {
        name: "xtask", // built before everything else, so it stays quick to build
        may_use: &[],
        tests_may_use: &[],
        free_of: &["tokio", "serde", "regex", "kube"],
    },
];

/// A dependency as a manifest declares it, optional or not.
struct Dependency {
    from: String,
    to: String,
    kind: DependencyKind,
}

#[test]
fn a_crate_uses_only_crates_of_a_lower_layer() {
    let (members, arrows) = workspace();
    let wrong = forbidden_dependencies(&members, &arrows);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_forbidden_dependency_is_found() {
    let arrow = |from: &str, to: &str, kind| Dependency { from: from.into(), to: to.into(), kind };
    let members = RULES.iter().map(|rule| rule.name.to_owned()).collect();
    let arrows = [
        arrow("karpenter-core", "karpenter-api", DependencyKind::Normal),
        arrow("karpenter-cluster", "karpenter-core", DependencyKind::Normal),
        arrow("karpenter-aws", "karpenter-controllers", DependencyKind::Build),
        arrow("karpenter-controllers", "karpenter-apiserver", DependencyKind::Development),
        arrow("karpenter-controllers", "karpenter-apiserver", DependencyKind::Normal),
        arrow("karpenter-apiserver", "karpenter-api", DependencyKind::Development),
        arrow("new", "karpenter-api", DependencyKind::Normal),
    ];
    assert_eq!(
        forbidden_dependencies(&members, &arrows),
        [
            "karpenter-core must not use karpenter-api (normal)",
            "karpenter-aws must not use karpenter-controllers (build)",
            "karpenter-controllers must not use karpenter-apiserver (normal)",
            "karpenter-apiserver must not use karpenter-api (dev)",
            "new has no rule in xtask/tests/direction.rs",
        ]
    );
}

/// The crates that work for every provider, and the folders or files with their code.
const NEUTRAL: [(&str, &str); 3] = [
    ("karpenter-controllers", "crates/controllers/src"),
    ("karpenter-operator", "crates/operator/src"),
    ("karpenter-cluster", "crates/cluster/src"),
];
const PROVIDERS: [&str; 2] = ["karpenter-aws", "karpenter-kwok"];

#[test]
fn neutral_crates_depend_on_no_provider() {
    let (_, arrows) = workspace();
    let is_wrong = |arrow: &&Dependency| {
        NEUTRAL.iter().any(|(name, _)| arrow.from == *name)
            && PROVIDERS.contains(&arrow.to.as_str())
    };
    let wrong: Vec<_> = arrows
        .iter()
        .filter(is_wrong)
        .map(|arrow| format!("{} -> {}", arrow.from, arrow.to))
        .collect();
    assert!(wrong.is_empty(), "a provider-neutral crate uses a provider: {wrong:?}");
}

#[test]
fn neutral_code_names_no_provider() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let more =
        ["crates/sim/src/world", "crates/sim/src/world.rs", "crates/karpenter/src/controller.rs"];
    let places = NEUTRAL.iter().map(|(_, folder)| *folder).chain(more);
    let mut files = Vec::new();
    places.for_each(|place| source_files(&root.join(place), &mut files));
    assert!(files.len() > 200, "{} files were found", files.len());
    let mut wrong = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).expect("a source file is text").to_lowercase();
        let forbidden =
            ["name() == \"aws\"", "kwok"].into_iter().filter(|word| text.contains(word));
        wrong.extend(forbidden.map(|word| format!("{}: {word}", file.display())));
    }
    assert!(wrong.is_empty(), "provider-neutral code names a provider:\n{}", wrong.join("\n"));
}

/// Collects the Rust files of a folder, or the file itself, without tests.
fn source_files(path: &Path, files: &mut Vec<PathBuf>) {
    if path.is_dir() {
        let entries = fs::read_dir(path).expect("the folder can be read");
        entries.for_each(|entry| source_files(&entry.expect("an entry").path(), files));
    } else if path.extension().is_some_and(|extension| extension == "rs")
        && path.file_stem().is_some_and(|name| name != "tests")
    {
        files.push(path.to_owned());
    }
}

#[test]
fn crates_do_not_use_forbidden_outside_crates() {
    let mut found = Vec::new();
    for rule in RULES.iter().filter(|rule| !rule.free_of.is_empty()) {
        let below = crates_below(&["--package", rule.name, "--edges", "normal,build"]);
        found.extend(
            rule.free_of
                .iter()
                .filter(|name| below.contains(**name))
                .map(|name| format!("{} must stay free of {name}", rule.name)),
        );
    }
    assert!(
        found.is_empty(),
        "{}\n`cargo tree --no-default-features -p CRATE -e normal,build -i FOREIGN` shows how it came in",
        found.join("\n")
    );
}

/// The binary's crate may use everything, so its modules have rules of their own.
#[test]
fn modules_of_the_binary_use_no_forbidden_crate() {
    let modules = [
        ("controller.rs", ["karpenter_apiserver", "karpenter_sim"].as_slice()),
        ("plan", &["karpenter_sim"]),
        ("manifest", &["karpenter_apiserver", "karpenter_sim"]),
    ];
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/karpenter/src");
    let mut wrong = Vec::new();
    for (module, forbidden) in modules {
        let sources = rust_files(&folder.join(module));
        assert!(!sources.is_empty(), "{module} is a module of the binary");
        for source in sources {
            let text = fs::read_to_string(&source).expect("the file is readable");
            let found = forbidden.iter().filter(|name| text.contains(**name));
            wrong.extend(found.map(|name| format!("{} must not use {name}", source.display())));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Returns a Rust file, or all Rust files of a folder.
fn rust_files(path: &Path) -> Vec<PathBuf> {
    if path.is_file() {
        return vec![path.to_owned()];
    }
    let Ok(entries) = fs::read_dir(path) else { return Vec::new() };
    let paths = entries.map(|entry| entry.expect("the folder is readable").path());
    let mut files: Vec<PathBuf> = paths.flat_map(|path| rust_files(&path)).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "rs"));
    files
}

/// The SDK is by far the slowest thing to build, so neither the demo nor the tests wait for it.
#[test]
fn the_aws_sdk_stays_behind_its_feature() {
    let all = crates_below(&["--workspace", "--edges", "normal,build,dev"]);
    let parts = ["aws-sdk-", "aws-config", "aws-smithy-"];
    let is_sdk = |name: &&String| parts.iter().any(|part| name.starts_with(part));
    let sdk: Vec<_> = all.iter().filter(is_sdk).collect();
    assert!(sdk.is_empty(), "built without the feature `aws-sdk`: {sdk:?}");
}

fn forbidden_dependencies(members: &BTreeSet<String>, arrows: &[Dependency]) -> Vec<String> {
    let mut wrong = Vec::new();
    for Dependency { from, to, kind } in arrows {
        let Some(rule) = RULES.iter().find(|rule| rule.name == *from) else {
            wrong.push(format!("{from} has no rule in xtask/tests/direction.rs"));
            continue;
        };
        let in_tests = *kind == DependencyKind::Development;
        let allowed = rule.may_use.contains(&to.as_str())
            || (in_tests && rule.tests_may_use.contains(&to.as_str()))
            || (in_tests && from == to); // a crate's own test helpers, behind a feature
        if members.contains(to) && !allowed {
            wrong.push(format!("{from} must not use {to} ({kind})"));
        }
    }
    wrong
}

/// Every member, and every dependency that a member declares.
fn workspace() -> (BTreeSet<String>, Vec<Dependency>) {
    let metadata = MetadataCommand::new().no_deps().exec().expect("cargo metadata works here");
    let members: BTreeSet<_> =
        metadata.packages.iter().map(|package| package.name.to_string()).collect();
    let arrows = metadata
        .packages
        .iter()
        .flat_map(|package| {
            package.dependencies.iter().map(|dependency| Dependency {
                from: package.name.to_string(),
                to: dependency.name.clone(),
                kind: dependency.kind,
            })
        })
        .collect();
    (members, arrows)
}

/// The names of all crates below what `selection` names, without default features.
///
/// From `cargo tree`, not `cargo metadata`: the latter adds up the features of the whole
/// workspace, so that one crate's `serde` shows up below another's `jiff`.
fn crates_below(selection: &[&str]) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--locked", "--no-default-features", "--prefix", "none", "--format", "{p}"])
        .args(selection)
        .output()
        .expect("cargo starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| line.split(' ').next())
        .map(str::to_owned)
        .collect()
}

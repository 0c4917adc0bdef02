//! Tests of the cache of built programs, with shell scripts in place of Go.

use std::fs;
use std::path::Path;

use super::{Tool, Toolbox};
use crate::host;

/// A toolbox whose Go prints `version`, and builds by running `build` with the output file in
/// `$out`. Its builds are counted in `log`.
///
/// Its `go` is the shell itself, which is started inside a module: there, `sh build …` runs the
/// file `build`. An executable of our own could not be started while another test's child still
/// inherits it as open for writing.
fn toolbox(dir: &Path, version: &str, build: &str) -> Toolbox {
    for module in ["tests/e2e/tools/etcd", "tests/e2e/tools/kubernetes", "bench/oracle"] {
        let module = dir.join(module);
        fs::create_dir_all(&module).unwrap();
        fs::write(module.join("go.mod"), "module m\n\ngo 1.26.0\n").unwrap();
        fs::write(module.join("go.sum"), "").unwrap();
        fs::write(module.join("env"), format!("echo {version}")).unwrap();
        fs::write(module.join("log"), "").unwrap();
        let count = "echo \"$@\" >>log"; // needs no quoting, whatever `dir` is
        let script = format!("{count}\nwhile [ \"$1\" != -o ]; do shift; done\nout=$2\n{build}");
        fs::write(module.join("build"), script).unwrap();
    }
    Toolbox {
        cache: dir.join("cache"),
        checkout: dir.to_owned(),
        go: "sh".into(),
        print_progress: |_| {},
    }
}

fn build_count(dir: &Path) -> usize {
    let count = |module: &str| {
        fs::read_to_string(dir.join(module).join("log")).map_or(0, |log| log.lines().count())
    };
    count("tests/e2e/tools/etcd") + count("tests/e2e/tools/kubernetes") + count("bench/oracle")
}

#[test]
fn concurrent_requests_build_a_tool_once() {
    let dir = tempfile::tempdir().unwrap();
    let tools = toolbox(dir.path(), "go1.26.8", "sleep 0.2; echo built >\"$out\"");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let path = tools.ensure(Tool::Etcd).unwrap();
                assert_eq!(fs::read_to_string(path).unwrap(), "built\n");
            });
        }
    });
    assert_eq!(build_count(dir.path()), 1);
}

#[test]
fn a_changed_pin_rebuilds_the_tool() {
    let dir = tempfile::tempdir().unwrap();
    let tools = toolbox(dir.path(), "go1.26.8", "echo built >\"$out\"");
    let before = tools.ensure(Tool::Etcd).unwrap();
    fs::write(dir.path().join("tests/e2e/tools/etcd/go.sum"), "changed").unwrap();
    let after = tools.ensure(Tool::Etcd).unwrap();
    assert_ne!(before, after);
    assert_eq!(build_count(dir.path()), 2);
}

#[test]
fn a_changed_own_source_rebuilds_the_tool() {
    let dir = tempfile::tempdir().unwrap();
    let tools = toolbox(dir.path(), "go1.26.8", "echo built >\"$out\"");
    fs::write(dir.path().join("bench/oracle/main.go"), "package main").unwrap();
    let before = tools.ensure(Tool::Oracle).unwrap();
    assert_eq!(tools.ensure(Tool::Oracle).unwrap(), before);
    fs::write(dir.path().join("bench/oracle/main.go"), "package main // changed").unwrap();
    assert_ne!(tools.ensure(Tool::Oracle).unwrap(), before);
    assert_eq!(build_count(dir.path()), 2);
}

#[test]
fn a_failed_build_reports_the_error_and_caches_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let tools = toolbox(dir.path(), "go1.26.8", "echo half >\"$out\"; echo no space >&2; exit 1");
    for _ in 0..2 {
        let error = format!("{:#}", tools.ensure(Tool::Kubectl).unwrap_err());
        assert!(error.contains("cannot build kubectl v1.36.3"), "{error}");
        assert!(error.contains("no space"), "{error}");
    }
    assert_eq!(build_count(dir.path()), 2);
}

#[test]
fn a_missing_or_old_go_is_reported_with_the_required_version() {
    let dir = tempfile::tempdir().unwrap();
    let old = toolbox(dir.path(), "go1.25.4", "");
    let error = old.ensure(Tool::Kubectl).unwrap_err().to_string();
    assert_eq!(
        error,
        "Go 1.25.4 is too old to build kubectl v1.36.3: \
         install Go 1.26.0 or newer (https://go.dev/doc/install)"
    );
    let none = Toolbox { go: dir.path().join("absent"), ..old };
    let error = none.check_can_build().unwrap_err().to_string();
    assert_eq!(
        error,
        "no `go` on PATH, which is needed to build etcd v3.6.7: \
         install Go 1.26.0 or newer (https://go.dev/doc/install)"
    );
}

#[test]
fn a_complete_cache_needs_no_go() {
    let dir = tempfile::tempdir().unwrap();
    let tools = toolbox(dir.path(), "go1.26.8", "echo built >\"$out\"");
    tools.ensure_all().unwrap();
    Toolbox { go: dir.path().join("absent"), ..tools }.check_can_build().unwrap();
}

#[test]
fn the_oracle_has_the_pinned_upstream_version() {
    let recipe = Tool::Oracle.recipe();
    let pins = fs::read_to_string(host::repo().join(recipe.module).join("go.mod")).unwrap();
    assert!(pins.contains(&format!("sigs.k8s.io/karpenter {}", recipe.version)));
}

/// The pins say the version in three places; a new pin must change all of them.
#[test]
fn recipes_name_the_versions_that_are_pinned() {
    for tool in Tool::ALL {
        let recipe = tool.recipe();
        let pins = fs::read_to_string(host::repo().join(recipe.module).join("go.mod")).unwrap();
        let module = match recipe.module {
            module if module.ends_with("kubernetes") => "k8s.io/kubernetes",
            _ => recipe.package,
        };
        let pin = format!("require {module} {}", recipe.version);
        assert!(pins.contains(&pin), "{}: no `{pin}` in its go.mod", recipe.name);
        if module == "k8s.io/kubernetes" {
            assert!(recipe.ldflags.ends_with(recipe.version), "{}", recipe.name);
            let part = recipe.version.replace("v1.", "v0.");
            let mut replaced = pins.lines().filter(|line| line.contains(" => "));
            assert!(replaced.all(|line| line.ends_with(&part)), "every part is {part}");
        }
    }
}

//! Builds programs of pinned Go modules.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::{host, process};

/// No paths of this host in the result, and nothing about the checkout around the module.
pub(super) const FLAGS: &[&str] = &["-trimpath", "-buildvcs=false"];

/// What the user's own Go settings must not change.
pub(super) const ENV: &[(&str, &str)] = &[
    ("GOFLAGS", "-mod=readonly"), // the pins are honoured, not updated
    ("GOTOOLCHAIN", "local"),     // a Go that is too old is an error, not a download
    ("GOWORK", "off"),
    ("CGO_ENABLED", "0"), // no C compiler needed
];

/// A Go module, with the Go that builds it.
pub(super) struct GoModule<'a> {
    pub(super) go: &'a Path,
    pub(super) module: PathBuf,
    /// Instead of the `GOTOOLCHAIN` of [`ENV`].
    pub(super) toolchain: Option<&'static str>,
}

impl GoModule<'_> {
    fn command(&self) -> Command {
        let mut command = Command::new(self.go);
        command.current_dir(&self.module).envs(ENV.iter().copied());
        command.envs(self.toolchain.map(|toolchain| ("GOTOOLCHAIN", toolchain)));
        command
    }
}

/// Fails with an install hint if `go` is missing or too old.
pub(super) fn check_go_version(source: &GoModule<'_>, label: &str) -> Result<()> {
    let needed = required_version(&source.module)?;
    let wanted = version_text(needed);
    let Ok(output) = source.command().args(["env", "GOVERSION"]).output() else {
        bail!(
            "no `go` on PATH, which is needed to build {label}: \
             install Go {wanted} or newer (https://go.dev/doc/install)"
        );
    };
    let found = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    // A development version that we cannot read is newer than any release that we know.
    match parse_version(&found) {
        Some(found) if found < needed => bail!(
            "Go {} is too old to build {label}: install Go {wanted} or newer \
             (https://go.dev/doc/install)",
            version_text(found)
        ),
        _ if !output.status.success() => bail!(
            "`go env GOVERSION` failed ({}): {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim_end()
        ),
        _ => Ok(()),
    }
}

/// Builds `package` of the module into the file `to`. Without a home, what Go downloads and
/// compiles on the way is kept in `spare`.
pub(super) fn build(
    source: &GoModule<'_>,
    spare: &Path,
    ldflags: &str,
    package: &str,
    to: &Path,
) -> Result<()> {
    let mut command = source.command();
    command.envs(go_folders(host::var, spare));
    command.arg("build").args(FLAGS).args(["-ldflags", ldflags, "-o"]).arg(to).arg(package);
    // Its only output are hundreds of "downloading" lines, unless something goes wrong.
    process::output(command).map(drop)
}

/// Returns the source folder of a module that `source` depends on.
pub(super) fn module_sources(source: &GoModule<'_>, spare: &Path, module: &str) -> Result<PathBuf> {
    let mut command = source.command();
    command.envs(go_folders(host::var, spare));
    command.args(["list", "-m", "-f", "{{.Dir}}", module]);
    let printed = process::output(command)?;
    Ok(PathBuf::from(String::from_utf8_lossy(&printed).trim()))
}

/// Returns folders for Go's files where neither the user nor `HOME` sets them: without `HOME`, Go
/// knows no folder and fails.
fn go_folders(
    var: impl Fn(&str) -> Option<OsString>,
    spare: &Path,
) -> impl Iterator<Item = (&'static str, PathBuf)> {
    // Modules go below `GOPATH`, unless `GOMODCACHE` is set.
    let unset = ["GOPATH", "GOCACHE"].map(|name| {
        (var("HOME").is_none() && var(name).is_none())
            .then(|| (name, spare.join(name.to_ascii_lowercase())))
    });
    unset.into_iter().flatten()
}

/// Returns the version in the module's `go` line.
fn required_version(module: &Path) -> Result<[u32; 3]> {
    let path = module.join("go.mod");
    let text =
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    text.lines()
        .find_map(|line| parse_version(&line.strip_prefix("go ")?.replace(' ', "")))
        .with_context(|| format!("no `go` line in {}", path.display()))
}

/// Parses `1.26.8`, `go1.26.8` or `devel go1.27-abc Mon …` into numbers.
fn parse_version(text: &str) -> Option<[u32; 3]> {
    let start = text.find("go1.").map_or(0, |at| at + 2);
    let numbers = text[start..].split(|c: char| !c.is_ascii_digit() && c != '.').next()?;
    let mut parts = numbers.split('.').map(|part| part.parse().ok());
    Some([parts.next()??, parts.next()??, parts.next().flatten().unwrap_or(0)])
}

fn version_text([major, minor, patch]: [u32; 3]) -> String {
    format!("{major}.{minor}.{patch}")
}

#[cfg(test)]
mod tests {
    use super::{Path, go_folders, parse_version};

    #[test]
    fn without_home_go_uses_the_folders_of_the_user_or_the_cache() {
        let cases: [(&[&str], &[&str]); 4] = [
            (&["HOME"], &[]),
            (&[], &["GOPATH=/spare/gopath", "GOCACHE=/spare/gocache"]),
            (&["GOPATH"], &["GOCACHE=/spare/gocache"]),
            (&["GOPATH", "GOCACHE"], &[]),
        ];
        for (set, expected) in cases {
            let var = |name: &str| set.contains(&name).then(|| "/set".into());
            let folders = go_folders(var, Path::new("/spare"));
            let found: Vec<_> =
                folders.map(|(name, path)| format!("{name}={}", path.display())).collect();
            assert_eq!(found, expected, "{set:?}");
        }
    }

    #[test]
    fn versions_are_read_as_go_writes_them() {
        let cases = [
            ("go1.26.8", Some([1, 26, 8])),
            ("1.26.0", Some([1, 26, 0])),
            ("go1.27", Some([1, 27, 0])),
            ("go1.26rc1", Some([1, 26, 0])),
            ("go1.26.8 X:nodwarf5", Some([1, 26, 8])),
            ("devel go1.27-b1234 Mon Nov 2 12:00:00 2026", Some([1, 27, 0])),
            ("devel +b1234", None),
            ("", None),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_version(text), expected, "{text:?}");
        }
    }
}

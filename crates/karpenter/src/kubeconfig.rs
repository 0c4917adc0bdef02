//! Loads the configuration of the cluster: of a kubeconfig, or of the pod that this runs in.
//! Without one, returns one cause, with its file.

use std::path::{Path, PathBuf};

use karpenter_operator::client::error_chain;
use kube::config::{Config, KubeConfigOptions, Kubeconfig, KubeconfigError};
use serde_saphyr::{MessageFormatter as _, UserMessageFormatter};

use crate::diagnostic::{Diagnostic, Location};
use crate::environment;

/// An error from loading the configuration of the cluster.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ClusterConfigError {
    location: Location,
    found: String,
    /// The fix where only the environment selects the kubeconfig.
    fix: &'static str,
}

const FIX_NOT_SET: &str = "set KUBECONFIG, or run in a pod with a service account";
const FIX_UNREADABLE: &str = "let KUBECONFIG name a file that can be read";
const FIX_INVALID: &str = "mend the file, or let KUBECONFIG name another";

impl ClusterConfigError {
    /// Returns the diagnostic without a fix.
    pub(crate) fn diagnostic(self, summary: &str) -> Diagnostic {
        Diagnostic::new(summary).at(self.location).found(self.found)
    }

    /// Returns the diagnostic with a fix, where only the environment selects the cluster.
    pub(crate) fn diagnostic_with_fix(self, summary: &str) -> Diagnostic {
        let fix = self.fix;
        self.diagnostic(summary).fix(fix)
    }
}

/// Loads the configuration: of this file, else of `KUBECONFIG`, else of the home directory. Without
/// a file and a context also that of the pod.
pub(crate) async fn load_config(
    file: Option<&Path>,
    context: Option<&str>,
) -> Result<Config, Box<ClusterConfigError>> {
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..Default::default() };
    let read = match file {
        Some(path) => match Kubeconfig::read_from(path) {
            Ok(file) => Config::from_custom_kubeconfig(file, &options).await,
            Err(error) => Err(error),
        },
        None => Config::from_kubeconfig(&options).await,
    };
    let error = match read {
        Ok(config) => return Ok(config),
        Err(error) => error,
    };
    let named = match file {
        Some(path) => vec![path.to_owned()],
        None => kubeconfig_paths(environment::variable("KUBECONFIG").as_deref()),
    };
    if file.is_some() || context.is_some() {
        return Err(config_error(&error, &named).into());
    }
    Config::incluster().map_err(|inside| {
        let is_pod = environment::variable("KUBERNETES_SERVICE_HOST").is_some();
        if is_pod && named.is_empty() && is_file_missing(&error) {
            // No kubeconfig was intended.
            let (place, found) = (Location::default(), error_chain(&inside));
            let fix = "give the pod a service account whose token is mounted, or set KUBECONFIG";
            return ClusterConfigError { location: place, found, fix }.into();
        }
        config_error(&error, &named).into()
    })
}

/// Returns the files that `KUBECONFIG` names.
fn kubeconfig_paths(variable: Option<&str>) -> Vec<PathBuf> {
    let paths = variable.map(std::env::split_paths).into_iter().flatten();
    paths.filter(|path| !path.as_os_str().is_empty()).collect()
}

/// Returns whether the only problem is a missing file.
fn is_file_missing(error: &KubeconfigError) -> bool {
    match error {
        KubeconfigError::FindPath => true,
        KubeconfigError::ReadConfig(cause, _) => cause.kind() == std::io::ErrorKind::NotFound,
        _ => false,
    }
}

/// Returns the cause of a kubeconfig error, in kubeconfig terms. Texts of the errors carry their
/// causes, so the causes are not repeated.
fn config_error(error: &KubeconfigError, named: &[PathBuf]) -> ClusterConfigError {
    let place = |path: &Path| Location::file(path.display().to_string());
    let fix = match error {
        error if named.is_empty() && is_file_missing(error) => FIX_NOT_SET,
        KubeconfigError::ReadConfig(..) => FIX_UNREADABLE,
        _ => FIX_INVALID,
    };
    let home = || std::env::home_dir().map(|home| home.join(".kube/config"));
    let files = if named.is_empty() { home().into_iter().collect() } else { named.to_vec() };
    let all = || match files.as_slice() {
        [] => Location::default(),
        files => {
            let shown: Vec<_> = files.iter().map(|path| path.display().to_string()).collect();
            Location::file(shown.join(", "))
        }
    };
    let (place, found) = match error {
        KubeconfigError::ReadConfig(cause, path) => (place(path), cause.to_string()),
        KubeconfigError::Parse(cause) => {
            let is_broken = |path: &&PathBuf| {
                matches!(Kubeconfig::read_from(path), Err(KubeconfigError::Parse(_)))
            };
            let mut place = files.iter().find(is_broken).map_or_else(all, |path| place(path));
            if let Some(location) = cause.location() {
                let number = |of: u64| usize::try_from(of).unwrap_or(usize::MAX);
                place = place.line(number(location.line())).column(number(location.column()));
            }
            let text = UserMessageFormatter.format_message(cause.without_snippet());
            (place, text.into_owned())
        }
        KubeconfigError::FindPath => {
            (all(), "KUBECONFIG is not set, and there is no home directory".to_owned())
        }
        KubeconfigError::CurrentContextNotSet => (all(), "no `current-context` is set".to_owned()),
        KubeconfigError::LoadContext(name) => (all(), format!("there is no context `{name}`")),
        KubeconfigError::LoadClusterOfContext(name) => {
            (all(), format!("there is no cluster `{name}`, which the context names"))
        }
        KubeconfigError::MissingClusterUrl => (all(), "the cluster has no `server`".to_owned()),
        other => (all(), other.to_string()),
    };
    ClusterConfigError { location: place, found, fix }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the diagnostic for a kubeconfig with this text; `None` is a missing file.
    #[track_caller]
    fn load_error(text: Option<&str>) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        if let Some(text) = text {
            std::fs::write(&path, text).unwrap();
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let error = runtime.block_on(load_config(Some(&path), None)).unwrap_err();
        let diagnostic = error.diagnostic_with_fix("no cluster").to_string();
        diagnostic.replace(path.to_str().unwrap(), "CONFIG")
    }

    #[test]
    fn an_unusable_kubeconfig_is_reported_once_with_its_file() {
        let no_server = "current-context: a\ncontexts: [{name: a, context: {cluster: b}}]\n\
                         clusters: [{name: b, cluster: {}}]";
        let (mend, read) = (FIX_INVALID, FIX_UNREADABLE);
        for (text, place, found, fix) in [
            (None, "CONFIG", "No such file or directory (os error 2)", read),
            (Some("a: [\n"), "CONFIG:1:4", "unclosed bracket '['", mend),
            (Some("clusters: 7\n"), "CONFIG:1:11", "", mend),
            (Some(""), "CONFIG", "no `current-context` is set", mend),
            (Some("current-context: a"), "CONFIG", "there is no context `a`", mend),
            (Some(no_server), "CONFIG", "the cluster has no `server`", mend),
        ] {
            let diagnostic = load_error(text);
            let lines: Vec<_> = diagnostic.lines().collect();
            assert_eq!(lines.len(), 4, "{diagnostic}");
            assert_eq!(
                lines[..2],
                ["error: no cluster", &format!(" where: {place}")],
                "{diagnostic}"
            );
            assert!(lines[2].starts_with(&format!(" found: {found}")), "{diagnostic}");
            assert!(
                !lines[2].contains('\\') && !lines[2].contains(" | "),
                "one line: {diagnostic}"
            );
            assert_eq!(lines[3], format!("   fix: {fix}"));
        }
    }

    #[test]
    fn the_broken_one_of_several_kubeconfigs_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let paths = ["good", "bad"].map(|name| folder.path().join(name));
        std::fs::write(&paths[0], "kind: Config\n").unwrap();
        std::fs::write(&paths[1], "a: [\n").unwrap();
        let error = Kubeconfig::read_from(&paths[1]).unwrap_err();
        let diagnostic = config_error(&error, &paths);
        assert_eq!(diagnostic.location.file.as_deref(), paths[1].to_str());
        assert_eq!(kubeconfig_paths(Some("/a::/b")), [PathBuf::from("/a"), PathBuf::from("/b")]);
    }
}

//! Which cluster: that of a kubeconfig, or of the pod that this runs in. Where there is none, one
//! cause, with the file that it is in.

use std::path::{Path, PathBuf};

use karpenter_operator::client::chain;
use kube::config::{Config, KubeConfigOptions, Kubeconfig, KubeconfigError};
use serde_saphyr::{MessageFormatter as _, UserMessageFormatter};

use crate::diagnostic::{Diagnostic, Place};
use crate::environment;

/// Why there is no cluster.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NoCluster {
    place: Place,
    found: String,
    /// For who can name another kubeconfig only by the environment.
    fix: &'static str,
}

const NONE_NAMED: &str = "set KUBECONFIG, or run in a pod with a service account";
const UNREADABLE: &str = "let KUBECONFIG name a file that can be read";
const UNUSABLE: &str = "mend the file, or let KUBECONFIG name another";

impl NoCluster {
    /// What is wrong and where, still without what to do.
    pub(crate) fn diagnostic(self, what: &str) -> Diagnostic {
        Diagnostic::new(what).at(self.place).found(self.found)
    }

    /// The same with what to do, where only the environment says which cluster.
    pub(crate) fn by_environment(self, what: &str) -> Diagnostic {
        let fix = self.fix;
        self.diagnostic(what).fix(fix)
    }
}

/// The cluster of a kubeconfig: of this file, else of those that `KUBECONFIG` names, else of the one
/// in the home directory. Who names neither file nor context may also run in a pod.
pub(crate) async fn config(
    file: Option<&Path>,
    context: Option<&str>,
) -> Result<Config, Box<NoCluster>> {
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
        None => named(environment::variable("KUBECONFIG").as_deref()),
    };
    if file.is_some() || context.is_some() {
        return Err(no_cluster(&error, &named).into());
    }
    Config::incluster().map_err(|inside| {
        let is_pod = environment::variable("KUBERNETES_SERVICE_HOST").is_some();
        if is_pod && named.is_empty() && is_absent(&error) {
            // Nobody meant a kubeconfig.
            let (place, found) = (Place::default(), chain(&inside));
            let fix = "give the pod a service account whose token is mounted, or set KUBECONFIG";
            return NoCluster { place, found, fix }.into();
        }
        no_cluster(&error, &named).into()
    })
}

/// The files that the variable names.
fn named(variable: Option<&str>) -> Vec<PathBuf> {
    let paths = variable.map(std::env::split_paths).into_iter().flatten();
    paths.filter(|path| !path.as_os_str().is_empty()).collect()
}

/// Whether there is just no file.
fn is_absent(error: &KubeconfigError) -> bool {
    match error {
        KubeconfigError::FindPath => true,
        KubeconfigError::ReadConfig(cause, _) => cause.kind() == std::io::ErrorKind::NotFound,
        _ => false,
    }
}

/// The cause, in the words of somebody who writes kubeconfigs. Texts of the errors carry their
/// causes, so the causes are not told again.
fn no_cluster(error: &KubeconfigError, named: &[PathBuf]) -> NoCluster {
    let place = |path: &Path| Place::file(path.display().to_string());
    let fix = match error {
        error if named.is_empty() && is_absent(error) => NONE_NAMED,
        KubeconfigError::ReadConfig(..) => UNREADABLE,
        _ => UNUSABLE,
    };
    let home = || std::env::home_dir().map(|home| home.join(".kube/config"));
    let files = if named.is_empty() { home().into_iter().collect() } else { named.to_vec() };
    let all = || match files.as_slice() {
        [] => Place::default(),
        files => {
            let shown: Vec<_> = files.iter().map(|path| path.display().to_string()).collect();
            Place::file(shown.join(", "))
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
    NoCluster { place, found, fix }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is told of a file with this text; none is no file.
    #[track_caller]
    fn told(text: Option<&str>) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        if let Some(text) = text {
            std::fs::write(&path, text).unwrap();
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let error = runtime.block_on(config(Some(&path), None)).unwrap_err();
        let told = error.by_environment("no cluster").to_string();
        told.replace(path.to_str().unwrap(), "CONFIG")
    }

    #[test]
    fn a_kubeconfig_that_cannot_be_used_is_told_once_with_its_file() {
        let no_server = "current-context: a\ncontexts: [{name: a, context: {cluster: b}}]\n\
                         clusters: [{name: b, cluster: {}}]";
        let (mend, read) = (UNUSABLE, UNREADABLE);
        for (text, place, found, fix) in [
            (None, "CONFIG", "No such file or directory (os error 2)", read),
            (Some("a: [\n"), "CONFIG:1:4", "unclosed bracket '['", mend),
            (Some("clusters: 7\n"), "CONFIG:1:11", "", mend),
            (Some(""), "CONFIG", "no `current-context` is set", mend),
            (Some("current-context: a"), "CONFIG", "there is no context `a`", mend),
            (Some(no_server), "CONFIG", "the cluster has no `server`", mend),
        ] {
            let told = told(text);
            let lines: Vec<_> = told.lines().collect();
            assert_eq!(lines.len(), 4, "{told}");
            assert_eq!(lines[..2], ["error: no cluster", &format!(" where: {place}")], "{told}");
            assert!(lines[2].starts_with(&format!(" found: {found}")), "{told}");
            assert!(!lines[2].contains('\\') && !lines[2].contains(" | "), "one line: {told}");
            assert_eq!(lines[3], format!("   fix: {fix}"));
        }
    }

    #[test]
    fn of_several_files_the_broken_one_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let paths = ["good", "bad"].map(|name| folder.path().join(name));
        std::fs::write(&paths[0], "kind: Config\n").unwrap();
        std::fs::write(&paths[1], "a: [\n").unwrap();
        let error = Kubeconfig::read_from(&paths[1]).unwrap_err();
        let told = no_cluster(&error, &paths);
        assert_eq!(told.place.file.as_deref(), paths[1].to_str());
        assert_eq!(named(Some("/a::/b")), [PathBuf::from("/a"), PathBuf::from("/b")]);
    }
}

//! Loads the configuration of the cluster: of a kubeconfig, or of the pod that this runs in.
//! Without one, returns one cause, with its file.

use std::io;
use std::path::{MAIN_SEPARATOR, Path, PathBuf};

use karpenter_operator::client::error_chain;
use karpenter_operator::yaml_limits;
use kube::config::{Config, KubeConfigOptions, Kubeconfig, KubeconfigError};
use serde::de::IgnoredAny;
use serde_saphyr::{MessageFormatter as _, UserMessageFormatter};

use crate::bounded_file::{self, CREDENTIAL_BYTES_MAX, KUBECONFIG_BYTES_MAX};
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
const FIX_NOT_UTF8: &str = "set KUBECONFIG to the path of a kubeconfig, or unset it";
const FIX_UNREADABLE: &str = "let KUBECONFIG name a file that can be read";
const FIX_CREDENTIAL: &str = "name a regular file with the certificate, key or token";
/// Where the kubelet mounts the service account of a pod.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
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
    let named = if let Some(path) = file {
        vec![path.to_owned()]
    } else {
        let variable = environment::text("KUBECONFIG").map_err(|diagnostic| {
            let (location, found) = (Location::default(), diagnostic.problem());
            ClusterConfigError { location, found, fix: FIX_NOT_UTF8 }
        })?;
        kubeconfig_paths(variable.as_deref())
    };
    let read = match read_files(&named) {
        Ok(file) => {
            check_credential_files(&named_credential_files(&file, context))?;
            Config::from_custom_kubeconfig(file, &options).await
        }
        Err(error) => Err(error),
    };
    let error = match read {
        Ok(config) => return Ok(config),
        Err(error) => error,
    };
    if file.is_some() || context.is_some() {
        return Err(config_error(&error, &named).into());
    }
    check_credential_files(&service_account_files())?;
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

/// Checks the files that kube reads, each as a whole: a device has no end, and a pipe can block.
///
/// A missing file is left to kube, which names its purpose. kube reads a token again when it
/// rotates; the kubelet writes a regular file then.
fn check_credential_files(paths: &[PathBuf]) -> Result<(), Box<ClusterConfigError>> {
    for path in paths {
        match bounded_file::check_regular(path, CREDENTIAL_BYTES_MAX) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                return Err(ClusterConfigError {
                    location: Location::file(path.display().to_string()),
                    found: error.to_string(),
                    fix: FIX_CREDENTIAL,
                }
                .into());
            }
        }
    }
    Ok(())
}

/// Returns the files of the selected context: certificates, key and token.
fn named_credential_files(config: &Kubeconfig, context: Option<&str>) -> Vec<PathBuf> {
    let name = context.or(config.current_context.as_deref());
    let context = config.contexts.iter().find(|entry| Some(entry.name.as_str()) == name);
    let Some(context) = context.and_then(|entry| entry.context.as_ref()) else {
        return Vec::new();
    };
    let clusters = config.clusters.iter().filter(|entry| entry.name == context.cluster);
    let clusters = clusters.filter_map(|entry| entry.cluster.as_ref());
    let users = config.auth_infos.iter().filter(|entry| Some(&entry.name) == context.user.as_ref());
    let users = users.filter_map(|entry| entry.auth_info.as_ref());
    let authorities = clusters.map(|cluster| &cluster.certificate_authority);
    let credentials =
        users.flat_map(|user| [&user.client_certificate, &user.client_key, &user.token_file]);
    authorities.chain(credentials).flatten().map(PathBuf::from).collect()
}

/// Returns the files by which a pod reaches its cluster.
fn service_account_files() -> [PathBuf; 3] {
    ["token", "ca.crt", "namespace"].map(|name| Path::new(SERVICE_ACCOUNT).join(name))
}

/// Returns the files that `KUBECONFIG` names.
fn kubeconfig_paths(variable: Option<&str>) -> Vec<PathBuf> {
    let paths = variable.map(std::env::split_paths).into_iter().flatten();
    paths.filter(|path| !path.as_os_str().is_empty()).collect()
}

/// Returns the kubeconfig of the home directory.
fn home_path() -> Option<PathBuf> {
    std::env::home_dir().map(|home| home.join(".kube/config"))
}

/// Reads and merges the files, or without files that of the home directory.
fn read_files(named: &[PathBuf]) -> Result<Kubeconfig, KubeconfigError> {
    if named.is_empty() {
        return read_file(&home_path().ok_or(KubeconfigError::FindPath)?);
    }
    named.iter().try_fold(Kubeconfig::default(), |merged, path| merged.merge(read_file(path)?))
}

/// Reads a file as [`Kubeconfig::read_from`] does, but only a regular file, and with limits.
fn read_file(path: &Path) -> Result<Kubeconfig, KubeconfigError> {
    let text = bounded_file::read(path, KUBECONFIG_BYTES_MAX).and_then(decode_text);
    let text = text.map_err(|error| KubeconfigError::ReadConfig(error, path.to_owned()))?;
    let options = yaml_limits::parser_options(&text);
    serde_saphyr::from_multiple_with_options::<IgnoredAny>(&text, options)
        .map_err(|error| KubeconfigError::Parse(Box::new(error)))?;
    let mut config = Kubeconfig::from_yaml(&text)?;
    resolve_paths(&mut config, path.parent().unwrap_or(Path::new("")));
    Ok(config)
}

/// Decodes UTF-8, or UTF-16 with a byte order mark, as PowerShell writes it.
fn decode_text(bytes: Vec<u8>) -> io::Result<String> {
    let utf16 = |bytes: &[u8], unit: fn([u8; 2]) -> u16| {
        let units = bytes.chunks(2).map(|pair| pair.try_into().map_or(0xfffd, unit));
        String::from_utf16(&units.collect::<Vec<_>>()).ok()
    };
    let text = match bytes.as_slice() {
        [0xff, 0xfe, rest @ ..] => utf16(rest, u16::from_le_bytes),
        [0xfe, 0xff, rest @ ..] => utf16(rest, u16::from_be_bytes),
        [0xef, 0xbb, 0xbf, rest @ ..] => String::from_utf8(rest.to_vec()).ok(),
        _ => String::from_utf8(bytes).ok(),
    };
    text.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "it is not text in UTF-8"))
}

/// Makes the paths of a kubeconfig relative to its folder, and of commands those with a separator.
fn resolve_paths(config: &mut Kubeconfig, folder: &Path) {
    let resolve = |path: &mut Option<String>| {
        if let Some(relative) = path.as_mut().filter(|path| Path::new(path).is_relative())
            && let Some(resolved) = folder.join(&*relative).to_str()
        {
            resolved.clone_into(relative);
        }
    };
    for cluster in config.clusters.iter_mut().filter_map(|named| named.cluster.as_mut()) {
        resolve(&mut cluster.certificate_authority);
    }
    for user in config.auth_infos.iter_mut().filter_map(|named| named.auth_info.as_mut()) {
        resolve(&mut user.client_certificate);
        resolve(&mut user.client_key);
        resolve(&mut user.token_file);
        if let Some(exec) = &mut user.exec
            && exec.command.as_ref().is_some_and(|command| command.contains(MAIN_SEPARATOR))
        {
            resolve(&mut exec.command);
        }
    }
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
    let files = if named.is_empty() { home_path().into_iter().collect() } else { named.to_vec() };
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
            let is_broken =
                |path: &&PathBuf| matches!(read_file(path), Err(KubeconfigError::Parse(_)));
            let mut place = files.iter().find(is_broken).map_or_else(all, |path| place(path));
            if let Some(location) = cause.location() {
                let number = |of: u64| usize::try_from(of).unwrap_or(usize::MAX);
                place = place.line(number(location.line())).column(number(location.column()));
            }
            let text = || UserMessageFormatter.format_message(cause.without_snippet()).into_owned();
            (place, yaml_limits::describe_excess(cause).unwrap_or_else(text))
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
    fn files_of_the_context_that_are_not_regular_are_refused() {
        let with = |cluster: &str, user: &str| {
            format!(
                "current-context: a\ncontexts: [{{name: a, context: {{cluster: b, user: c}}}}]\n\
                 clusters: [{{name: b, cluster: {{server: 'https://127.0.0.1:1'{cluster}}}}}]\n\
                 users: [{{name: c, user: {{{user}}}}}, {{name: d, user: {{tokenFile: /dev/zero}}}}]\n"
            )
        };
        for (cluster, user) in [
            (", certificate-authority: /dev/zero", ""),
            ("", "tokenFile: /dev/zero"),
            ("", "client-certificate: /dev/zero"),
            ("", "client-key: /dev/zero"),
        ] {
            let diagnostic = load_error(Some(&with(cluster, user)));
            let expected = "error: no cluster\n where: /dev/zero\n found: it is a device, and only \
                            regular files are read\n   fix: name a regular file with the \
                            certificate, key or token";
            assert_eq!(diagnostic.trim_end(), expected, "{cluster}{user}");
        }
    }

    #[test]
    fn a_kubeconfig_with_too_many_aliases_is_refused() {
        let aliases = vec!["*l"; 3000].join(",");
        let anchors: Vec<_> = (0..300).map(|number| format!("&a{number} x")).collect();
        let (anchors, long) = (anchors.join(","), "x".repeat(10_000));
        let diagnostic =
            load_error(Some(&format!("x: [{anchors}]\nl: &l {long}\ny: [{aliases}]\n")));
        assert!(diagnostic.contains("\n where: CONFIG:3:"), "{diagnostic}");
        assert!(
            diagnostic.contains("its aliases stand for more than 16 MiB of text"),
            "{diagnostic}"
        );
    }

    #[test]
    fn files_are_read_as_kube_reads_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        let text = "current-context: a\nclusters: [{name: a, cluster: {certificate-authority: ca.crt}}]\n\
                    users: [{name: a, user: {client-key: /key, tokenFile: t, exec: {command: ./aws}}},\
                    {name: b, user: {exec: {command: aws}}}]\n---\ncontexts: []\n";
        let utf16 = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>();
        for bytes in [
            text.as_bytes().to_vec(),
            [&[0xef, 0xbb, 0xbf], text.as_bytes()].concat(),
            [vec![0xff, 0xfe], utf16(text)].concat(),
        ] {
            std::fs::write(&path, bytes).unwrap();
            let json = |config: Kubeconfig| serde_json::to_value(config).unwrap();
            let (ours, theirs) = (read_file(&path).unwrap(), Kubeconfig::read_from(&path).unwrap());
            assert_eq!(json(ours), json(theirs));
        }
        std::fs::write(&path, [0xff, 0xfe, 0x61]).unwrap();
        assert!(read_file(&path).is_err(), "half of a UTF-16 unit");
    }

    #[test]
    fn the_broken_one_of_several_kubeconfigs_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let paths = ["good", "bad"].map(|name| folder.path().join(name));
        std::fs::write(&paths[0], "kind: Config\n").unwrap();
        std::fs::write(&paths[1], "a: [\n").unwrap();
        let error = read_file(&paths[1]).unwrap_err();
        let diagnostic = config_error(&error, &paths);
        assert_eq!(diagnostic.location.file.as_deref(), paths[1].to_str());
        assert_eq!(kubeconfig_paths(Some("/a::/b")), [PathBuf::from("/a"), PathBuf::from("/b")]);
    }
}

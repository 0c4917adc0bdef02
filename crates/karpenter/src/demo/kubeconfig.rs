//! Puts the demo's cluster into a kubeconfig and removes it at the end, as kind and minikube do.
//!
//! ```text
//! start ─▶ lock ─▶ read ─▶ text::merge  ─▶ new file beside the old one ─▶ rename
//! end   ─▶ lock ─▶ read ─▶ text::remove ─▶ new file beside the old one ─▶ rename, or delete
//! ```
//!
//! [`mod@text`] has the pure functions. Invariant: at any time the file is complete, and only
//! entries of a demo ever change: an entry of a user with the demo's name is an error; the context that was current before is part of the file, so
//! that the next demo restores it if this process ends early.

mod text;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(super) use self::text::DemoCluster;
use self::text::TextError;
use crate::bounded_file::{self, KUBECONFIG_BYTES_MAX};
use crate::commands::print_to_stderr;
use crate::diagnostic::{Diagnostic, Location};

/// A kubeconfig with the demo's cluster. Dropping it removes the cluster from the file.
#[derive(Debug)]
pub(super) struct KubeconfigFile {
    /// The path that the user named, for messages.
    path: PathBuf,
    /// The file itself; a link keeps pointing at it.
    target: PathBuf,
    cluster: DemoCluster,
    /// The text without the demo, and the one with it.
    before: String,
    written: String,
    /// Whether the file held nothing but a demo, so that it is deleted at the end.
    is_demo_only: bool,
}

impl KubeconfigFile {
    /// Adds the cluster to the file at `path`, or to a new file in the directory for temporary
    /// files.
    pub(super) fn write(
        path: Option<&Path>,
        cluster: DemoCluster,
    ) -> Result<Self, Box<Diagnostic>> {
        let Some(path) = path else {
            let path = create_temporary_file()
                .map_err(|error| write_diagnostic(&std::env::temp_dir(), &error.to_string()))?;
            let mut file = Self::write(Some(&path), cluster).inspect_err(|_| {
                let _ = fs::remove_file(&path);
            })?;
            file.is_demo_only = true;
            return Ok(file);
        };
        let wrong = |error: FileError| match error {
            FileError::NotAKubeconfig(found) => {
                Diagnostic::new("the demo cannot be added to this file, which is no kubeconfig")
                    .at(Location::file(path.display().to_string()))
                    .found(found)
                    .fix("name a kubeconfig or a new file with --kubeconfig")
                    .into()
            }
            FileError::NameTaken(found) => {
                Diagnostic::new("the demo cannot be added to this kubeconfig: its name is taken")
                    .at(Location::file(path.display().to_string()))
                    .found(found)
                    .fix("name another file with --kubeconfig, or rename the entry")
                    .into()
            }
            FileError::Io(error) => write_diagnostic(path, &error.to_string()),
        };
        Self::add_cluster(path, cluster).map_err(wrong)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn add_cluster(path: &Path, cluster: DemoCluster) -> Result<Self, FileError> {
        let target = resolve_links(path)?;
        // Before there is a lock file beside a device.
        read_if_exists(&target)?;
        let _lock = Lock::acquire(&target)?;
        for _ in 0..WRITE_ATTEMPTS_MAX {
            let old = read_if_exists(&target)?;
            let merged = text::merge(old.as_deref().unwrap_or_default(), &cluster)?;
            if replace_if_unchanged(&target, old.as_deref(), &merged.text)? {
                return Ok(Self {
                    path: path.to_owned(),
                    target,
                    cluster,
                    before: merged.before,
                    written: merged.text,
                    is_demo_only: old.is_none() || merged.was_demo_only,
                });
            }
        }
        Err(changed_repeatedly().into())
    }

    fn remove_cluster(&self) -> Result<(), FileError> {
        let _lock = Lock::acquire(&self.target)?;
        for _ in 0..WRITE_ATTEMPTS_MAX {
            let Some(old) = read_if_exists(&self.target)? else { return Ok(()) };
            let new = if old == self.written {
                // Nothing else has changed: restore the old text byte for byte.
                self.before.clone()
            } else {
                match text::remove(&old, &self.cluster)? {
                    Some(new) => new,
                    // Another demo has taken the entries over, or a user has removed them.
                    None => return Ok(()),
                }
            };
            let is_link =
                fs::symlink_metadata(&self.path).is_ok_and(|metadata| metadata.is_symlink());
            if self.is_demo_only && !is_link && text::is_blank(&new) {
                if read_if_exists(&self.target)?.as_ref() == Some(&old) {
                    return Ok(fs::remove_file(&self.target)?);
                }
            } else if replace_if_unchanged(&self.target, Some(&old), &new)? {
                return Ok(());
            }
        }
        Err(changed_repeatedly().into())
    }
}

impl Drop for KubeconfigFile {
    fn drop(&mut self) {
        // The cluster is of no use after the demo, and its token need not lie around.
        if let Err(error) = self.remove_cluster() {
            let diagnostic = Diagnostic::new("the demo's cluster is still in the kubeconfig")
                .at(Location::file(self.path.display().to_string()))
                .found(error.to_string())
                .fix(format!("remove its entries `{}` manually", text::NAME));
            print_to_stderr(&diagnostic.to_string());
        }
    }
}

/// Why a kubeconfig cannot be changed.
#[derive(Debug, thiserror::Error)]
enum FileError {
    #[error("{0}")]
    NotAKubeconfig(String),
    #[error("{0}")]
    NameTaken(String),
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl From<TextError> for FileError {
    fn from(error: TextError) -> Self {
        match error {
            TextError::NotAKubeconfig(found) => Self::NotAKubeconfig(found),
            TextError::NameTaken(found) => Self::NameTaken(found),
        }
    }
}

fn write_diagnostic(path: &Path, found: &str) -> Box<Diagnostic> {
    Diagnostic::new("cannot write the kubeconfig")
        .at(Location::file(path.display().to_string()))
        .found(found)
        .fix("name another file with --kubeconfig")
        .into()
}

/// How often a change starts again because another program has changed the file.
const WRITE_ATTEMPTS_MAX: usize = 5;

fn changed_repeatedly() -> io::Error {
    io::Error::other("other programs keep changing it")
}

/// Creates an empty file with a name of its own: two demos have a file each.
fn create_temporary_file() -> io::Result<PathBuf> {
    let file = tempfile::Builder::new()
        .prefix(&format!("{}-", text::NAME))
        .suffix(".kubeconfig")
        .tempfile()?;
    let (_, path) = file.keep().map_err(|error| error.error)?;
    Ok(path)
}

/// Returns the path without links. The file itself need not exist.
fn resolve_links(path: &Path) -> io::Result<PathBuf> {
    match fs::canonicalize(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if fs::symlink_metadata(path).is_ok() {
                let text = "it is a link to a file that does not exist";
                return Err(io::Error::new(io::ErrorKind::NotFound, text));
            }
            let name = path.file_name().ok_or(error)?;
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            Ok(fs::canonicalize(folder.unwrap_or(Path::new(".")))?.join(name))
        }
        resolved => resolved,
    }
}

fn read_if_exists(path: &Path) -> io::Result<Option<String>> {
    match bounded_file::read_text(path, KUBECONFIG_BYTES_MAX) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Replaces the file in one step: a reader, or a crash, sees the old text or the new one. Returns
/// false, with the file as it is, if its text is not `old` any more.
fn replace_if_unchanged(path: &Path, old: Option<&str>, new: &str) -> io::Result<bool> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    // Readable by its owner only, until it has the mode of the old file.
    let mut draft = tempfile::Builder::new().prefix(".kubeconfig-").tempfile_in(folder)?;
    draft.write_all(new.as_bytes())?;
    if let Ok(metadata) = fs::metadata(path) {
        let draft = draft.as_file();
        let own = draft.metadata()?;
        if (own.uid(), own.gid()) != (metadata.uid(), metadata.gid()) {
            std::os::unix::fs::fchown(draft, Some(metadata.uid()), Some(metadata.gid()))?;
        }
        draft.set_permissions(fs::Permissions::from_mode(metadata.mode() & 0o7777))?;
    }
    draft.as_file().sync_all()?;
    if read_if_exists(path)?.as_deref() != old {
        return Ok(false);
    }
    if old.is_some() {
        draft.persist(path).map_err(|error| error.error)?;
        return Ok(true);
    }
    match draft.persist_noclobber(path) {
        Ok(_) => Ok(true),
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error.error),
    }
}

/// The lock file that kubectl, kind and minikube create while they change a kubeconfig.
#[derive(Debug)]
struct Lock {
    path: PathBuf,
}

impl Lock {
    fn acquire(target: &Path) -> io::Result<Self> {
        /// Other programs hold the lock for some milliseconds.
        const ATTEMPTS: usize = 20;
        const PAUSE: Duration = Duration::from_millis(50);
        let mut path = target.as_os_str().to_owned();
        path.push(".lock");
        let path = PathBuf::from(path);
        for attempt in 0.. {
            let opened: io::Result<File> =
                OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
            match opened {
                Ok(_) => return Ok(Self { path }),
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                Err(_) if attempt < ATTEMPTS => std::thread::sleep(PAUSE),
                Err(_) => break,
            }
        }
        let text =
            format!("another program changes it; if there is none, remove {}", path.display());
        Err(io::Error::new(io::ErrorKind::AlreadyExists, text))
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests;

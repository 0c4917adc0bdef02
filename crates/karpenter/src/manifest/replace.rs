//! Replaces objects in an existing file and keeps the rest of it, byte for byte.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::{Format, InputLimits, Source, write};
use crate::bounded_file;
use crate::diagnostic::{Diagnostic, Location};

/// What becomes of one document.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Replacement {
    /// Its text stays.
    Keep,
    /// New documents replace it, each with the comments above it.
    Documents(Vec<NewDocument>),
}

/// One document to write.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NewDocument {
    pub(crate) comments: String,
    pub(crate) object: serde_json::Value,
}

/// Returns the text of `source` with its documents replaced.
///
/// Comments above a replaced document stay; comments inside it have nowhere to go.
pub(crate) fn replaced_text(source: &Source, replacements: &[Replacement]) -> String {
    let text = match source.format {
        Format::Yaml => replace_in_yaml(source, replacements),
        Format::Json => replace_in_json(source, replacements),
    };
    if source.had_byte_order_mark { format!("\u{feff}{text}") } else { text }
}

fn replace_in_yaml(source: &Source, replacements: &[Replacement]) -> String {
    // New lines end the way that the old ones do.
    let windows =
        source.text.split_inclusive('\n').next().is_some_and(|line| line.ends_with("\r\n"));
    let mut text = String::new();
    for (document, replacement) in source.documents.iter().zip(replacements) {
        let old = &source.text[document.segment.bytes.clone()];
        match replacement {
            Replacement::Keep => text.push_str(old),
            Replacement::Documents(entries) if entries.is_empty() => {}
            Replacement::Documents(entries) => {
                let (head, body) = old.split_at(document.segment.head);
                text.push_str(head);
                let separate = head.is_empty() && !text.is_empty();
                let new = document_texts(entries, separate, body);
                text.push_str(&if windows { new.replace('\n', "\r\n") } else { new });
            }
        }
    }
    text
}

/// Returns the text of the documents that replace `old`.
fn document_texts(entries: &[NewDocument], separate: bool, old: &str) -> String {
    let documents: Vec<_> =
        entries.iter().map(|entry| entry.comments.clone() + &write::yaml(&entry.object)).collect();
    let mut text = if separate { "---\n".to_owned() } else { String::new() };
    text.push_str(&documents.join("---\n"));
    // An end marker also separates: the document after it need not have a marker of its own.
    if old.lines().last().is_some_and(|line| line.starts_with("...")) {
        text.push_str("...\n");
    }
    text
}

/// Replaces objects in JSON: one stays one object, several become a `List`.
fn replace_in_json(source: &Source, replacements: &[Replacement]) -> String {
    let mut objects = Vec::new();
    for (document, replacement) in source.documents.iter().zip(replacements) {
        match replacement {
            Replacement::Keep => {
                let old = &source.text[document.segment.bytes.clone()];
                objects.extend(serde_json::from_str(old).ok());
            }
            Replacement::Documents(entries) => {
                objects.extend(entries.iter().map(|entry| entry.object.clone()));
            }
        }
    }
    match &objects[..] {
        [object] => write::json(object),
        objects => write::json_list(objects),
    }
}

/// A new file, complete on disk, that has not replaced the old one yet.
#[derive(Debug)]
pub(crate) struct PreparedFile {
    /// The file itself; a link keeps pointing at it.
    path: PathBuf,
    new_file: tempfile::TempPath,
    old: Vec<u8>,
    permissions: fs::Permissions,
}

/// Writes a new text to a temporary file; the old file stays as it is.
pub(crate) fn prepare_file(
    path: &Path,
    old: &Source,
    new: &str,
) -> Result<PreparedFile, Box<Diagnostic>> {
    let real =
        fs::canonicalize(path).map_err(|error| io_diagnostic(path, "cannot find file", &error))?;
    let cannot_read = |error: io::Error| io_diagnostic(path, "cannot read file", &error);
    let cannot_write = |error: io::Error| io_diagnostic(path, "cannot write file", &error);
    let metadata = fs::metadata(&real).map_err(cannot_read)?;
    if !metadata.is_file() {
        return Err(Diagnostic::new("only a regular file can be changed in place")
            .at(Location::file(path.display().to_string()))
            .into());
    }
    let mark = if old.had_byte_order_mark { "\u{feff}" } else { "" };
    let old = [mark, &old.text].concat().into_bytes();
    if read_current(&real).map_err(cannot_read)? != old {
        return Err(changed_file_diagnostic(path));
    }
    let folder = real.parent().unwrap_or(Path::new("/"));
    let mut draft = tempfile::NamedTempFile::new_in(folder).map_err(cannot_write)?;
    draft.write_all(new.as_bytes()).map_err(cannot_write)?;
    draft.as_file().set_permissions(metadata.permissions()).map_err(cannot_write)?;
    draft.as_file().sync_all().map_err(cannot_write)?;
    // Closed, since there may be more files than a process may have open.
    let draft = draft.into_temp_path();
    Ok(PreparedFile { path: real, new_file: draft, old, permissions: metadata.permissions() })
}

impl PreparedFile {
    /// Writes a backup and renames the new file, in one step: a reader, or a crash, sees the old
    /// file or the new one. Returns the path of the backup.
    pub(crate) fn commit(self) -> Result<PathBuf, Box<Diagnostic>> {
        let Self { path: real, new_file: draft, old, permissions } = self;
        if read_current(&real).is_ok_and(|now| now != old) {
            return Err(changed_file_diagnostic(&real));
        }
        let backup = write_backup(&real, &old, &permissions)
            .map_err(|error| io_diagnostic(&real, "cannot write the backup", &error))?;
        draft.persist(&real).map_err(|error| {
            let _ = fs::remove_file(&backup);
            io_diagnostic(&real, "cannot replace file", &error.error)
        })?;
        Ok(backup)
    }
}

/// Reads the file as it is now.
fn read_current(path: &Path) -> io::Result<Vec<u8>> {
    bounded_file::read(path, InputLimits::MANIFESTS.file_bytes)
}

fn io_diagnostic(path: &Path, summary: &str, error: &io::Error) -> Box<Diagnostic> {
    Diagnostic::new(summary)
        .at(Location::file(path.display().to_string()))
        .found(error.to_string())
        .fix("the file is unchanged; make sure that its directory is writable and has room")
        .into()
}

fn changed_file_diagnostic(path: &Path) -> Box<Diagnostic> {
    Diagnostic::new("file was changed by somebody else while it was being converted")
        .at(Location::file(path.display().to_string()))
        .fix("the file is unchanged; run the command again")
        .into()
}

/// Writes the old text to the first of `x.bak`, `x.bak.1`, `x.bak.2`… that does not exist yet.
fn write_backup(path: &Path, old: &[u8], permissions: &fs::Permissions) -> io::Result<PathBuf> {
    /// More backups than any user needs.
    const BACKUPS_MAX: usize = 1000;
    for attempt in 0..BACKUPS_MAX {
        let backup = backup_name(path, attempt);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        // No other user may read it before it has the permissions of the file.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file: File = match options.open(&backup) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            opened => opened?,
        };
        let written = file
            .write_all(old)
            .and_then(|()| file.set_permissions(permissions.clone()))
            .and_then(|()| file.sync_all());
        if let Err(error) = written {
            let _ = fs::remove_file(&backup);
            return Err(error);
        }
        return Ok(backup);
    }
    Err(io::Error::other(format!("there are {BACKUPS_MAX} backups already")))
}

fn backup_name(path: &Path, attempt: usize) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".bak");
    if attempt > 0 {
        name.push(format!(".{attempt}"));
    }
    name.into()
}

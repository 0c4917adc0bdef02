//! Finds the files that a command line names, and loads their text.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{InputLimits, Problem};
use crate::bounded_file;
use crate::diagnostic::{Diagnostic, Location};

/// What a command line names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    Stdin,
    /// A file, or a directory, which stands for the manifests below it.
    Path(PathBuf),
}

/// A file or stdin to load.
#[derive(Debug)]
pub(super) struct InputFile {
    /// None for stdin.
    pub(super) path: Option<PathBuf>,
    /// Whether a directory walk found it.
    pub(super) is_from_directory: bool,
}

impl InputFile {
    pub(super) fn name(&self) -> String {
        self.path.as_ref().map_or_else(|| "stdin".to_owned(), |path| path.display().to_string())
    }
}

/// Returns every file of the inputs. A file that is named twice is read once.
pub(super) fn expand_inputs(inputs: &[Input], problems: &mut Vec<Problem>) -> Vec<InputFile> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    let mut add = |path: Option<PathBuf>, walked| {
        let identity = path.as_ref().map(|path| fs::canonicalize(path).unwrap_or(path.clone()));
        if seen.insert(identity) {
            found.push(InputFile { path, is_from_directory: walked });
        }
    };
    for input in inputs {
        match input {
            Input::Stdin => add(None, false),
            Input::Path(path) if path.is_dir() => match walk_directory(path) {
                Ok(files) => files.into_iter().for_each(|file| add(Some(file), true)),
                Err(diagnostic) => problems.push(Problem { source: None, diagnostic }),
            },
            Input::Path(path) => add(Some(path.clone()), false),
        }
    }
    found
}

/// Returns the manifests below a directory, sorted by path. Hidden folders (`.git`) are left out,
/// and links to folders are not followed, so that there are no cycles.
fn walk_directory(root: &Path) -> Result<Vec<PathBuf>, Box<Diagnostic>> {
    let mut files = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        let cannot_list = |error: io::Error| {
            Diagnostic::new("cannot list directory")
                .at(Location::file(folder.display().to_string()))
                .found(error.to_string())
                .fix("name a directory that can be read")
        };
        for entry in fs::read_dir(&folder).map_err(cannot_list)? {
            let entry = entry.map_err(cannot_list)?;
            let hidden = entry.file_name().to_string_lossy().starts_with('.');
            let path = entry.path();
            if entry.file_type().map_err(cannot_list)?.is_dir() {
                if !hidden {
                    folders.push(path);
                }
            } else if is_manifest_name(&path) && path.is_file() {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

fn is_manifest_name(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    matches!(extension, Some("yaml" | "yml" | "json"))
}

/// Loads the text of a file within the limits. `bytes_left` is the rest of the limit for all
/// inputs.
pub(super) fn load_text(
    file: &InputFile,
    bounds: &InputLimits,
    bytes_left: &mut u64,
) -> Result<String, Box<Diagnostic>> {
    let place = Location::file(file.name());
    let bytes = match &file.path {
        Some(path) => bounded_file::read(path, bounds.file_bytes),
        None => bounded_file::read_stdin(bounds.file_bytes),
    };
    let bytes = bytes.map_err(|error| match error.kind() {
        io::ErrorKind::FileTooLarge => {
            too_large(place.clone(), bounds.file_bytes, "split the file")
        }
        kind => {
            let is_special = kind == io::ErrorKind::InvalidInput;
            let fix = "name a file that can be read";
            let pipe = "name a regular file, or pipe the manifests into stdin (-f -)";
            Diagnostic::new("cannot read file")
                .at(place.clone())
                .found(error.to_string())
                .fix(if is_special { pipe } else { fix })
        }
    })?;
    let Some(left) = bytes_left.checked_sub(bytes.len() as u64) else {
        return Err(too_large(place, bounds.input_bytes, "pass fewer files at a time").into());
    };
    *bytes_left = left;
    decode_utf8(bytes, place)
}

/// Decodes UTF-8 bytes, or returns a diagnostic at `place`.
pub(super) fn decode_utf8(bytes: Vec<u8>, place: Location) -> Result<String, Box<Diagnostic>> {
    String::from_utf8(bytes).map_err(|error| not_utf8(place, &error).into())
}

fn too_large(place: Location, bytes_max: u64, fix: &str) -> Diagnostic {
    let summary = format!("input is larger than {} MiB", bytes_max >> 20);
    Diagnostic::new(summary).at(place).fix(fix)
}

fn not_utf8(place: Location, error: &std::string::FromUtf8Error) -> Diagnostic {
    let bytes = error.as_bytes();
    let offset = error.utf8_error().valid_up_to();
    let line = bytes[..offset].split(|byte| *byte == b'\n').count();
    let utf16 = bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]);
    let guess = if utf16 { " (it looks like UTF-16, as PowerShell redirects it)" } else { "" };
    Diagnostic::new("not a text in UTF-8")
        .at(place.line(line))
        .found(format!("byte 0x{:02x} at offset {offset}", bytes.get(offset).unwrap_or(&0)))
        .fix(format!("save the file as UTF-8{guess}"))
}

//! Where logs go: stdout, stderr and files; text to terminals, JSON to all else.

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal as _, Write};
use std::os::unix::fs::FileTypeExt as _;

use super::fields::LogLine;

/// An output that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("--{flag}: opening log output {path:?}: {error}")]
pub struct OutputError {
    flag: &'static str,
    path: String,
    error: io::Error,
}

/// All log outputs.
pub(super) struct LogOutput {
    records: Vec<Destination>,
    failures: Vec<Destination>,
}

enum Destination {
    Stdout,
    Stderr,
    File(File),
    #[cfg(test)]
    Memory {
        bytes: Memory,
        is_terminal: bool,
    },
}

#[cfg(test)]
type Memory = std::sync::Arc<std::sync::Mutex<Vec<u8>>>;

impl LogOutput {
    pub(super) fn open(records: &[String], failures: &[String]) -> Result<Self, OutputError> {
        let open = |flag, paths: &[String]| -> Result<Vec<_>, _> {
            let wrong = |path: &String, error| OutputError { flag, path: path.clone(), error };
            paths
                .iter()
                .map(|path| Destination::open(path).map_err(|error| wrong(path, error)))
                .collect()
        };
        let records = open("log-output-paths", records)?;
        Ok(Self { records, failures: open("log-error-output-paths", failures)? })
    }

    #[cfg(test)]
    pub(super) fn memory() -> (Self, Memory) {
        Self::in_memory(false)
    }

    #[cfg(test)]
    pub(super) fn terminal() -> (Self, Memory) {
        Self::in_memory(true)
    }

    #[cfg(test)]
    fn in_memory(is_terminal: bool) -> (Self, Memory) {
        let bytes = Memory::default();
        let place = Destination::Memory { bytes: bytes.clone(), is_terminal };
        (Self { records: vec![place], failures: Vec::new() }, bytes)
    }

    /// Writes a record to every output. A failing output is reported; nothing else can be done.
    pub(super) fn write(&mut self, line: &LogLine) {
        for place in &mut self.records {
            let text = if place.is_terminal() { line.text() } else { line.json() };
            if let Err(error) = place.write(text.as_bytes()) {
                let failure = format!("cannot write a log record: {error}\n");
                for place in &mut self.failures {
                    let _ = place.write(failure.as_bytes());
                }
            }
        }
    }
}

impl Destination {
    fn open(path: &str) -> io::Result<Self> {
        match path {
            "stdout" => Ok(Self::Stdout),
            "stderr" => Ok(Self::Stderr),
            path => {
                let path = path.strip_prefix("file://").unwrap_or(path);
                // A named pipe blocks the open until a reader comes, and later every write.
                if std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_fifo())
                    && !is_own_descriptor(path)
                {
                    let text = "it is a named pipe, which blocks without a reader";
                    return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
                }
                OpenOptions::new().append(true).create(true).open(path).map(Self::File)
            }
        }
    }

    fn is_terminal(&self) -> bool {
        match self {
            Self::Stdout => io::stdout().is_terminal(),
            Self::Stderr => io::stderr().is_terminal(),
            Self::File(_) => false,
            #[cfg(test)]
            Self::Memory { is_terminal, .. } => *is_terminal,
        }
    }

    /// One call per record, so that records of several threads do not mix.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Stdout => io::stdout().lock().write_all(bytes),
            Self::Stderr => io::stderr().lock().write_all(bytes),
            Self::File(file) => file.write_all(bytes),
            #[cfg(test)]
            Self::Memory { bytes: memory, .. } => {
                memory.lock().unwrap().extend_from_slice(bytes);
                Ok(())
            }
        }
    }
}

/// Returns whether a path names a descriptor of this process, as `/dev/stdout`.
fn is_own_descriptor(path: &str) -> bool {
    let prefixes = ["/dev/fd/", "/proc/self/fd/"];
    matches!(path, "/dev/stdout" | "/dev/stderr")
        || prefixes.iter().any(|prefix| path.starts_with(prefix))
}

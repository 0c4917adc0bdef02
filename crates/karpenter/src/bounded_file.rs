//! Reads the files that a command line, an option or `KUBECONFIG` names: regular files only, each up
//! to a limit of its kind.
//!
//! Invariant: reading neither blocks nor exhausts memory. A named pipe can block, and a device such
//! as `/dev/zero` has no end. Text without a name is read from stdin, which has a limit, too.

use std::fs::{self, File, FileType, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use rustix::fs::{Mode, OFlags};

/// The largest scenario. The parser accepts 250,000 values, which are a few MB.
pub(crate) const SCENARIO_BYTES_MAX: u64 = 16 << 20;
/// The largest certificate, key or token that a kubeconfig names.
pub(crate) const CREDENTIAL_BYTES_MAX: u64 = 1 << 20;
/// The largest kubeconfig. A cluster takes some 5 KB.
pub(crate) const KUBECONFIG_BYTES_MAX: u64 = 16 << 20;

/// Reads a regular file of at most `bytes_max` bytes.
///
/// The kind of an error is `FileTooLarge` if the file is larger.
pub(crate) fn read(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    if is_inherited_pipe(path) {
        return read_at_most(File::open(path)?, bytes_max);
    }
    read_at_most(open_regular(path)?, bytes_max)
}

/// Returns whether the path is a pipe that this process has inherited, as of `plan -f <(helm …)`
/// or `plan -f /dev/stdin`.
///
/// Like stdin, it ends when its writer ends.
fn is_inherited_pipe(path: &Path) -> bool {
    let is_descriptor = path == Path::new("/dev/stdin")
        || path.starts_with("/dev/fd")
        || path.starts_with("/proc/self/fd");
    is_descriptor && fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_fifo())
}

/// Reads a regular file of at most `bytes_max` bytes of UTF-8.
pub(crate) fn read_text(path: &Path, bytes_max: u64) -> io::Result<String> {
    let bytes = read(path, bytes_max)?;
    String::from_utf8(bytes)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not text in UTF-8"))
}

/// Reads stdin, at most `bytes_max` bytes.
pub(crate) fn read_stdin(bytes_max: u64) -> io::Result<Vec<u8>> {
    read_at_most(io::stdin().lock(), bytes_max)
}

/// Opens a regular file; any other file is an error.
fn open_regular(path: &Path) -> io::Result<File> {
    // Checked before the open, which a socket refuses and on which a device may act.
    check_is_regular(&fs::metadata(path)?)?;
    // The path may name another file by now: the open must not block, and the file is checked again.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    check_is_regular(&file.metadata()?)?;
    Ok(file)
}

/// Checks that a path names a regular file, which another library opens and reads later.
///
/// Links are followed: the files of a mounted service account are links.
pub(crate) fn check_regular(path: &Path, bytes_max: u64) -> io::Result<()> {
    let metadata = fs::metadata(path)?;
    check_is_regular(&metadata)?;
    if metadata.len() > bytes_max { Err(too_large(bytes_max)) } else { Ok(()) }
}

fn check_is_regular(metadata: &Metadata) -> io::Result<()> {
    match describe_type(metadata.file_type()) {
        None => Ok(()),
        Some(found) => {
            let text = format!("it is {found}, and only regular files are read");
            Err(io::Error::new(io::ErrorKind::InvalidInput, text))
        }
    }
}

/// Returns the type of a file that is not regular.
fn describe_type(file_type: FileType) -> Option<&'static str> {
    if file_type.is_file() {
        None
    } else if file_type.is_dir() {
        Some("a directory")
    } else if file_type.is_fifo() {
        Some("a pipe")
    } else if file_type.is_socket() {
        Some("a socket")
    } else {
        Some("a device")
    }
}

fn read_at_most(reader: impl Read, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // One byte more than allowed shows that there is too much.
    reader.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        return Err(too_large(bytes_max));
    }
    Ok(bytes)
}

fn too_large(bytes_max: u64) -> io::Error {
    let text = format!("it is larger than {} MiB", bytes_max >> 20);
    io::Error::new(io::ErrorKind::FileTooLarge, text)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn only_regular_files_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        rustix::fs::mkfifoat(rustix::fs::CWD, path("pipe"), Mode::RUSR | Mode::WUSR).unwrap();
        let _socket = UnixListener::bind(path("socket")).unwrap();
        std::fs::write(path("file"), "text").unwrap();
        std::os::unix::fs::symlink(path("file"), path("link")).unwrap();
        std::os::unix::fs::symlink(path("pipe"), path("link-to-pipe")).unwrap();
        for (path, expected) in [
            (path("file"), Ok("text")),
            (path("link"), Ok("text")),
            (path("pipe"), Err("it is a pipe, and only regular files are read")),
            (path("link-to-pipe"), Err("it is a pipe, and only regular files are read")),
            (path("socket"), Err("it is a socket, and only regular files are read")),
            (folder.path().to_owned(), Err("it is a directory, and only regular files are read")),
            ("/dev/zero".into(), Err("it is a device, and only regular files are read")),
            (path("none"), Err("No such file or directory (os error 2)")),
        ] {
            let text = read_text(&path, 100).map_err(|error| error.to_string());
            assert_eq!(text.as_deref().map_err(String::as_str), expected, "{}", path.display());
        }
    }

    #[test]
    fn a_file_at_its_limit_is_read_and_a_larger_one_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), vec![b'x'; 1 << 20]).unwrap();
        assert_eq!(read(file.path(), 1 << 20).unwrap().len(), 1 << 20);
        let error = read(file.path(), (1 << 20) - 1).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        let error = read_at_most(io::repeat(0), 2 << 20).unwrap_err();
        assert_eq!(error.to_string(), "it is larger than 2 MiB");
        std::fs::write(file.path(), [0xff]).unwrap();
        assert_eq!(read_text(file.path(), 10).unwrap_err().to_string(), "it is not text in UTF-8");
    }
}

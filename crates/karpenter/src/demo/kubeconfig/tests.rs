//! Tests of the file: links, modes, locks and changes by other programs.

use super::*;

const OTHER: &str = "apiVersion: v1\nkind: Config\nclusters:\n- name: a\n  cluster: {server: x}\n\
                     contexts: []\nusers: []\ncurrent-context: a\n";

fn cluster() -> DemoCluster {
    let [url, ca_data, token] = ["https://127.0.0.1:1", "Q0E=", "t"].map(str::to_owned);
    DemoCluster { url, ca_data, token }
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn the_old_text_comes_back_through_a_link_and_with_its_mode() {
    let folder = tempfile::tempdir().unwrap();
    let (target, link) = (folder.path().join("config"), folder.path().join("link"));
    fs::write(&target, OTHER).unwrap();
    fs::set_permissions(&target, fs::Permissions::from_mode(0o640)).unwrap();
    std::os::unix::fs::symlink("config", &link).unwrap();

    let file = KubeconfigFile::write(Some(&link), cluster()).unwrap();
    assert!(fs::read_to_string(&target).unwrap().contains("current-context: karpenter-demo\n"));
    assert_eq!(file.path(), link);
    drop(file);
    assert_eq!(fs::read_to_string(&target).unwrap(), OTHER);
    assert_eq!(mode(&target), 0o640);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "no lock and no draft is left");
}

#[test]
fn a_file_of_the_demo_alone_is_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new");
    let file = KubeconfigFile::write(Some(&path), cluster()).unwrap();
    assert_eq!(mode(&path), 0o600);
    drop(file);
    assert!(!path.exists());

    let path = {
        let file = KubeconfigFile::write(None, cluster()).unwrap();
        assert_eq!(mode(file.path()), 0o600);
        file.path().to_owned()
    };
    assert!(!path.exists());

    // Unless another program has added something.
    let path = folder.path().join("shared");
    let file = KubeconfigFile::write(Some(&path), cluster()).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    let added = text.replace("users:\n", "users:\n- name: b\n  user: {}\n");
    fs::write(&path, added).unwrap();
    drop(file);
    let left = fs::read_to_string(&path).unwrap();
    assert!(left.contains("name: b") && !left.contains("karpenter-demo"), "{left}");
}

#[test]
fn files_that_cannot_be_changed_stay_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let pipe_mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mkfifoat(rustix::fs::CWD, path("pipe"), pipe_mode).unwrap();
    fs::write(path("notes"), "buy milk\n").unwrap();
    fs::write(path("locked"), OTHER).unwrap();
    fs::write(path("locked.lock"), "").unwrap();
    std::os::unix::fs::symlink("gone", path("dangling")).unwrap();
    for (name, expected) in [
        ("pipe", "it is a pipe, and only regular files are read"),
        ("notes", "it is not a mapping"),
        ("locked", "another program changes it; if there is none, remove "),
        ("dangling", "it is a link to a file that does not exist"),
        ("", "it is a directory"),
        ("none/config", "No such file or directory"),
    ] {
        let error = KubeconfigFile::write(Some(&path(name)), cluster()).unwrap_err().to_string();
        assert!(error.contains(expected), "{name}: {error}");
    }
    assert_eq!(fs::read_to_string(path("notes")).unwrap(), "buy milk\n");
    assert_eq!(fs::read_to_string(path("locked")).unwrap(), OTHER);
}

#[test]
fn a_text_that_has_changed_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config");
    fs::write(&path, "new").unwrap();
    assert!(!replace_if_unchanged(&path, Some("old"), "mine").unwrap());
    assert!(!replace_if_unchanged(&path, None, "mine").unwrap());
    assert_eq!(fs::read_to_string(&path).unwrap(), "new");
    assert!(replace_if_unchanged(&path, Some("new"), "mine").unwrap());
    assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
}

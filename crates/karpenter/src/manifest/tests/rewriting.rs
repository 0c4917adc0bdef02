//! Tests of replacing documents: the rest of the file stays.

use std::fs;

use super::super::replace::{NewDocument, Replacement, prepare_file, replaced_text};
use super::*;

fn entry(name: &str) -> NewDocument {
    let object = json!({ "apiVersion": "v1", "kind": name });
    NewDocument { comments: format!("# note on {name}\n"), object }
}

#[test]
fn other_documents_keep_every_byte() {
    let old = "# top\n---\n# about a\napiVersion: v1\nkind: A   # inside\n---\n{apiVersion: v1,   kind: B}\n--- {apiVersion: v1, kind: C}\n";
    let source = &read_text("x.yaml", old).sources[0];
    let keep = Replacement::Keep;
    let with =
        |names: &[&str]| Replacement::Documents(names.iter().map(|name| entry(name)).collect());
    #[rustfmt::skip]
    let cases = [
        ([keep.clone(), keep.clone(), keep.clone()], old.to_owned()),
        ([with(&["X"]), keep.clone(), keep.clone()], "# top\n---\n# about a\n# note on X\napiVersion: v1\nkind: X\n---\n{apiVersion: v1,   kind: B}\n--- {apiVersion: v1, kind: C}\n".to_owned()),
        ([keep.clone(), with(&["X", "Y"]), with(&["Z"])], "# top\n---\n# about a\napiVersion: v1\nkind: A   # inside\n---\n# note on X\napiVersion: v1\nkind: X\n---\n# note on Y\napiVersion: v1\nkind: \"Y\"\n---\n# note on Z\napiVersion: v1\nkind: Z\n".to_owned()),
        ([with(&[]), keep, with(&[])], "---\n{apiVersion: v1,   kind: B}\n".to_owned()),
    ];
    for (replacements, new) in cases {
        assert_eq!(replaced_text(source, &replacements), new);
    }
}

#[test]
fn windows_line_ends_and_byte_order_marks_are_kept() {
    let old = "\u{feff}apiVersion: v1\r\nkind: A\r\n...\r\napiVersion: v1\r\nkind: B\r\n";
    let source = &read_text("x.yaml", old).sources[0];
    let new = replaced_text(source, &[Replacement::Documents(vec![entry("X")]), Replacement::Keep]);
    assert_eq!(
        new,
        "\u{feff}# note on X\r\napiVersion: v1\r\nkind: X\r\n...\r\napiVersion: v1\r\nkind: B\r\n"
    );
}

#[test]
fn json_stays_json() {
    let one = &read_text("x.json", "{\"apiVersion\": \"v1\", \"kind\": \"A\"}").sources[0];
    let new = replaced_text(one, &[Replacement::Documents(vec![entry("X")])]);
    assert_eq!(
        serde_json::from_str::<Value>(&new).unwrap(),
        json!({ "apiVersion": "v1", "kind": "X" })
    );
    let new = replaced_text(one, &[Replacement::Documents(vec![entry("X"), entry("Y")])]);
    assert_eq!(serde_json::from_str::<Value>(&new).unwrap()["kind"], "List");
    let two = "{\"apiVersion\": \"v1\", \"kind\": \"A\"} {\"apiVersion\": \"v1\", \"kind\": \"B\"}";
    let two = &read_text("x.json", two).sources[0];
    let new = replaced_text(two, &[Replacement::Documents(vec![entry("X")]), Replacement::Keep]);
    assert_eq!(serde_json::from_str::<Value>(&new).unwrap()["items"][1]["kind"], "B");
}

#[test]
fn backups_never_overwrite_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.yaml");
    fs::write(&path, "kind: old\n").unwrap();
    for attempt in 0..3 {
        let old = fs::read_to_string(&path).unwrap();
        let source = &read_text("x.yaml", &old).sources[0];
        prepare_file(&path, source, &format!("kind: new{attempt}\n")).unwrap().commit().unwrap();
    }
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    let texts = ["x.yaml", "x.yaml.bak", "x.yaml.bak.1", "x.yaml.bak.2"].map(read);
    assert_eq!(texts, ["kind: new2\n", "kind: old\n", "kind: new0\n", "kind: new1\n"]);
}

/// The backup is what was read, so a later edit would be in neither file.
#[test]
fn a_file_changed_by_another_process_is_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.yaml");
    let source = &read_text("x.yaml", "kind: old\n").sources[0];
    let files = || fs::read_dir(folder.path()).unwrap().count();

    fs::write(&path, "kind: edited\n").unwrap();
    let refused = prepare_file(&path, source, "kind: new\n").unwrap_err().to_string();
    assert!(refused.contains("changed by somebody else"), "{refused}");

    fs::write(&path, "kind: old\n").unwrap();
    let prepared = prepare_file(&path, source, "kind: new\n").unwrap();
    assert_eq!((fs::read_to_string(&path).unwrap().as_str(), files()), ("kind: old\n", 2));
    fs::write(&path, "kind: edited\n").unwrap();
    let refused = prepared.commit().unwrap_err().to_string();
    assert!(refused.contains("changed by somebody else"), "{refused}");
    assert_eq!((fs::read_to_string(&path).unwrap().as_str(), files()), ("kind: edited\n", 1));
}

#[cfg(unix)]
#[test]
fn symbolic_links_and_permissions_are_kept() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("real.yaml");
    let link = folder.path().join("link.yaml");
    fs::write(&file, "kind: old\n").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    symlink(&file, &link).unwrap();
    let source = &read_text("x.yaml", "kind: old\n").sources[0];
    let backup = prepare_file(&link, source, "kind: new\n").unwrap().commit().unwrap();
    assert!(backup.ends_with("real.yaml.bak"), "{}", backup.display());
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(fs::read_to_string(&file).unwrap(), "kind: new\n");
    for path in [&file, &backup] {
        assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o640);
    }
}

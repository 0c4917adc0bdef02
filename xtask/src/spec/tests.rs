//! Tests of the survey of files, its hints and its table.

use super::{SpecFile, coverage, is_specification, survey};
use crate::source::SourceFile;

const SPEC: &str = "# 11 — Title\n## 3. Part\n1. step\n2. step\n### 3.4 Lower\n\
    | id | given |\n|---|---|\n| A1 | x |\n| A2 | x |\n| BUD-10 | x |\n";

fn specification() -> Vec<SpecFile> {
    vec![SpecFile::parse("11-title.md", SPEC)]
}

fn file(path: &str, text: &str) -> SourceFile {
    SourceFile { path: path.to_owned(), text: text.to_owned() }
}

#[test]
fn strings_of_rust_files_and_scenarios_name_tests() {
    let files = [
        file("crates/a.rs", "// 11/A1\nfn a() { assert!(true, \"11/A2\"); }\n"),
        file("docs/a.md", "11/A1\n"),
        file("scenarios/a.yaml", "name: 11/BUD-10\n"),
    ];
    let survey = survey(&specification(), &files);
    let expected = ["A2", "BUD-10"].map(|id| ("11".to_owned(), id.to_owned()));
    assert_eq!(survey.tested.iter().cloned().collect::<Vec<_>>(), expected);
    assert_eq!(survey.dangling, []);
    assert_eq!(
        coverage(&specification(), &survey.tested, Some("11")),
        [
            "file                        cases  with a test",
            "11-title.md                     3            2",
            "  11/A1",
            "all                             3            2",
        ]
    );
}

#[test]
fn citations_of_nothing_are_found_with_line_and_hint() {
    let cases = [
        ("11/BUD-11", "`11/BUD-11`: the nearest is `11/BUD-10`"),
        ("11/TG", "`11/TG`: the nearest is `11/A1`"),
        ("spec 11 §3.5", "`11 §3.5`: the nearest is `11 §3.4`"),
        ("spec 11 §3 step 4", "`11 §3 #4`: the nearest is `11 §3 #1`"),
        ("spec 13 §1, spec 11", "`spec 13`: write the number of a file in docs/spec"),
        ("see §3", "`§3`: write the number of the file before the section"),
    ];
    for (text, expected) in cases {
        let files = [file("crates/a.rs", &format!("fn a() {{}}\n// {text}\n"))];
        let survey = survey(&specification(), &files);
        let found = survey.dangling.first().expect("the citation is wrong");
        assert_eq!((found.path.as_str(), found.line), ("crates/a.rs", 2), "{text}");
        assert_eq!(format!("`{}`: {}", found.citation, found.hint), expected, "{text}");
    }
}

#[test]
fn citations_over_two_lines_resolve() {
    let text = "//! One (spec 11\n//! §3.4, cases A1–A2, step 1).\n// spec 11 §3.2, A7\n";
    assert_eq!(survey(&specification(), &[file("a.rs", text)]).dangling, []);
}

#[test]
fn only_the_numbered_files_are_the_specification() {
    assert!(is_specification("docs/spec/10-api.md"));
    assert!(!is_specification("docs/spec/README.md"));
    assert!(!is_specification("docs/specs/10.md"));
}

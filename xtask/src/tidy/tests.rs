//! Tests of the findings in Rust and Markdown files.

use super::words::BannedWords;
use super::{Check, Finding, markdown_findings, rust_findings};
use crate::source::SourceFile;

fn banned() -> BannedWords {
    BannedWords::parse("[identifiers]\nsight: observation\n[text]\nin vain: name the result\n")
        .expect("well formed")
}

fn file(text: &str) -> SourceFile {
    SourceFile { path: "a.rs".to_owned(), text: text.to_owned() }
}

fn places(findings: &[Finding]) -> Vec<(Check, usize)> {
    findings.iter().map(|finding| (finding.check, finding.line)).collect()
}

#[test]
fn rust_files_are_checked_for_names_head_comment_and_words() {
    let text =
        "//! A head.\n// Waits in vain.\nfn sight() -> &'static str {\n    \"one\n in vain\"\n}\n";
    let found = rust_findings(&file(text), &banned()).expect("the text is Rust");
    let expected = [(Check::CommentWord, 2), (Check::Identifier, 3), (Check::StringWord, 5)];
    assert_eq!(places(&found), expected);
    assert_eq!(found[1].message, "`sight`: the word `sight` is banned; instead: observation");

    let found = rust_findings(&file("fn a() {}\n"), &banned()).expect("the text is Rust");
    assert_eq!(places(&found), [(Check::HeadComment, 1)]);
}

#[test]
fn markdown_is_checked_for_words_and_width_outside_code_and_tables() {
    let long = "x".repeat(121);
    let text = format!("In vain.\n{long}\n| {long} |\n```\n{long} in vain\n```\nSee `in vain`.\n");
    let found = markdown_findings(&file(&text), &banned());
    assert_eq!(places(&found), [(Check::MarkdownWord, 1), (Check::MarkdownLine, 2)]);
}

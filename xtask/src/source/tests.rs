//! Tests of how a Rust file is split into pieces.

use super::PieceKind::{Comment, Identifier, String};
use super::pieces;

#[test]
fn a_file_splits_into_identifiers_comments_and_strings() {
    let text = r#"//! Head.
// A "comment".
/// Doc 'comment'.
fn name(x: &'static str) { /* inner */
    call(b'"', 'x', "a // string", r"raw string"); // after
}
"#;
    let found: Vec<_> = pieces(text)
        .expect("the text is Rust")
        .into_iter()
        .map(|piece| (piece.kind, piece.line, piece.text.to_owned()))
        .collect();
    let expected = [
        (Comment, 1, "//! Head."),
        (Comment, 2, "// A \"comment\"."),
        (Comment, 3, "/// Doc 'comment'."),
        (Identifier, 4, "fn"),
        (Identifier, 4, "name"),
        (Identifier, 4, "x"),
        (Identifier, 4, "static"),
        (Identifier, 4, "str"),
        (Comment, 4, "/* inner */"),
        (Identifier, 5, "call"),
        (String, 5, "\"a // string\""),
        (String, 5, "r\"raw string\""),
        (Comment, 5, "// after"),
    ];
    let expected: Vec<_> =
        expected.into_iter().map(|(kind, line, text)| (kind, line, text.to_owned())).collect();
    assert_eq!(found, expected);
}

#[test]
fn a_file_that_is_not_rust_is_an_error_with_its_line() {
    let error = pieces("fn a() {}\nfn b( {}\n").expect_err("a parenthesis is open");
    assert!(error.to_string().starts_with("line "), "{error}");
}

//! Tests of the blocks of Rust files and other texts.

use super::{Block, blocks, line_of};

/// Returns the words of each block, and whether it is a test.
fn words(blocks: &[Block]) -> Vec<(String, bool)> {
    let words = |block: &Block| block.text.split_whitespace().collect::<Vec<_>>().join(" ");
    blocks.iter().map(|block| (words(block), block.is_test)).collect()
}

fn expect(blocks: &[Block], expected: &[(&str, bool)]) {
    let expected: Vec<_> =
        expected.iter().map(|(text, is_test)| ((*text).to_owned(), *is_test)).collect();
    assert_eq!(words(blocks), expected);
}

#[test]
fn rust_files_have_comments_and_strings() {
    let text = r##"//! Head of
//! two lines.

fn name<'a>(x: &'a str) { // trailing
    /* outer /* inner */ end */
    call('"', '\'', b'\\', "one \" two", r#"raw " string"#, br"bytes");
    "over \
     two lines"; bar"";
}
"##;
    expect(
        &blocks("crates/a.rs", text),
        &[
            ("Head of two lines.", false),
            ("trailing", false),
            ("outer /* inner */ end */", false),
            ("\"one \\\" two\"", true),
            ("r#\"raw \" string\"#", true),
            ("r\"bytes\"", true),
            ("\"over two lines\"", true),
            ("\"\"", true),
        ],
    );
}

#[test]
fn blocks_keep_offsets_so_that_lines_can_be_found() {
    let text = "fn a() {}\n/// One\n/// two.\n";
    let blocks = blocks("a.rs", text);
    assert_eq!(blocks[0].text.len(), text.len() - blocks[0].start);
    let at = blocks[0].text.find("two").expect("the word is there");
    assert_eq!(line_of(text, blocks[0].start + at), 3);
}

#[test]
fn broken_rust_ends_without_a_panic() {
    for text in ["\"open", "/* open", "r#\"open", "'", "'\\", "\"\\", "r", "//", "'é\"é"] {
        let _ = blocks("a.rs", text);
    }
}

#[test]
fn other_files_have_paragraphs() {
    expect(&blocks("a.md", "One\ntwo.\n\n> Three\n"), &[("One two.", false), ("Three", false)]);
    expect(&blocks("a.yaml", "# One\n# two\na: b\n"), &[("One two a: b", true)]);
}

//! Splits a file into the blocks of text that may cite the specification.
//!
//! A block keeps the length of its source, with line breaks and comment marks as spaces: a citation
//! may run over two lines, and its offset still gives the line. Deliberately not a Rust parser:
//! parsing all files takes seconds, and comments and string literals are easy to separate.

#[cfg(test)]
mod tests;

/// The extensions of files whose every citation names a test: scenarios, snapshots, scripts.
const TEST_EXTENSIONS: &[&str] =
    &["py", "go", "sh", "yaml", "yml", "ts", "js", "json", "tf", "snap"];
/// The extensions of the other files that cite the specification.
const TEXT_EXTENSIONS: &[&str] = &["md", "toml", "txt"];

/// A comment, a string literal, or a paragraph.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Block {
    /// Where the block starts in the file, in bytes.
    pub(super) start: usize,
    pub(super) text: String,
    /// Whether a case that the block cites counts as tested.
    pub(super) is_test: bool,
}

/// Returns the extensions of all files that may cite the specification.
pub(super) fn extensions() -> Vec<&'static str> {
    [&["rs"], TEST_EXTENSIONS, TEXT_EXTENSIONS].concat()
}

/// Splits the text of a file into its blocks.
pub(super) fn blocks(path: &str, text: &str) -> Vec<Block> {
    let extension = path.rsplit_once('.').map_or("", |(_, extension)| extension);
    if extension == "rs" {
        return RustScanner { text, at: 0, blocks: Vec::new() }.scan();
    }
    paragraphs(text, TEST_EXTENSIONS.contains(&extension))
}

/// Returns the line of a byte, from 1.
pub(super) fn line_of(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}

/// Splits a text at its empty lines.
fn paragraphs(text: &str, is_test: bool) -> Vec<Block> {
    let (mut blocks, mut start) = (Vec::<Block>::new(), None);
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        if line.trim().is_empty() {
            start = None;
        } else if start.is_none() {
            start = Some(offset);
            blocks.push(Block { start: offset, text: String::new(), is_test });
        }
        if let Some(block) = blocks.last_mut().filter(|_| start.is_some()) {
            block.text.push_str(&masked(line));
        }
        offset += line.len();
    }
    blocks
}

/// Replaces indentation, comment marks and the line break by as many spaces.
fn masked(line: &str) -> String {
    let is_mark = |character: char| character.is_whitespace() || "/#!*>\\".contains(character);
    let content = line.trim_start_matches(is_mark);
    let end = content.trim_end_matches(['\n', '\r', '\\']);
    let (before, after) = (line.len() - content.len(), content.len() - end.len());
    format!("{}{end}{}", " ".repeat(before), " ".repeat(after))
}

/// Walks over Rust code and collects comments and string literals.
struct RustScanner<'a> {
    text: &'a str,
    at: usize,
    blocks: Vec<Block>,
}

impl RustScanner<'_> {
    fn scan(mut self) -> Vec<Block> {
        let bytes = self.text.as_bytes();
        while let Some(byte) = bytes.get(self.at) {
            match byte {
                b'/' if self.rest().starts_with("//") => self.line_comments(),
                b'/' if self.rest().starts_with("/*") => self.block_comment(),
                b'"' => self.string(),
                b'r' if self.raw_hashes().is_some() => self.raw_string(),
                b'\'' => self.character(),
                _ => self.at += 1,
            }
        }
        self.blocks
    }

    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn push(&mut self, start: usize, end: usize, is_test: bool) {
        let source = self.text.get(start..end).unwrap_or_default();
        let text = source.split_inclusive('\n').map(masked).collect();
        self.blocks.push(Block { start, text, is_test });
    }

    /// Joins the comments of consecutive lines.
    fn line_comments(&mut self) {
        let start = self.at;
        let mut end = start;
        while self.rest().starts_with("//") {
            self.at += self.rest().find('\n').map_or(self.rest().len(), |length| length + 1);
            end = self.at;
            self.at += self.rest().len() - self.rest().trim_start_matches([' ', '\t']).len();
        }
        self.push(start, end, false);
    }

    fn block_comment(&mut self) {
        let start = self.at;
        let mut depth = 0_usize;
        loop {
            if self.rest().starts_with("/*") {
                depth += 1;
                self.at += 2;
            } else if self.rest().starts_with("*/") {
                depth -= 1;
                self.at += 2;
            } else {
                self.at += self.rest().chars().next().map_or(1, char::len_utf8);
            }
            if depth == 0 || self.at >= self.text.len() {
                return self.push(start, self.at, false);
            }
        }
    }

    fn string(&mut self) {
        let start = self.at;
        let bytes = self.text.as_bytes();
        self.at += 1;
        while let Some(byte) = bytes.get(self.at) {
            self.at += if *byte == b'\\' { 2 } else { 1 };
            if *byte == b'"' {
                break;
            }
        }
        self.push(start, self.at.min(self.text.len()), true);
    }

    /// Returns the number of `#` if a raw string starts here.
    fn raw_hashes(&self) -> Option<usize> {
        let before = self.text.as_bytes().get(self.at.wrapping_sub(1)).copied().unwrap_or(b' ');
        let is_prefix = !before.is_ascii_alphanumeric() && before != b'_' || before == b'b';
        let after = self.rest().get(1..)?;
        let hashes = after.len() - after.trim_start_matches('#').len();
        (is_prefix && after.get(hashes..)?.starts_with('"')).then_some(hashes)
    }

    fn raw_string(&mut self) {
        let (start, hashes) = (self.at, self.raw_hashes().unwrap_or(0));
        let end = format!("\"{}", "#".repeat(hashes));
        let open = hashes + 2;
        let length = self.rest().get(open..).and_then(|content| content.find(&end));
        self.at = length.map_or(self.text.len(), |length| start + open + length + end.len());
        self.push(start, self.at, true);
    }

    /// Skips a character literal, so that `'"'` starts no string; a lifetime is one byte.
    fn character(&mut self) {
        let rest = self.rest().get(1..).unwrap_or_default();
        let length = match rest.chars().next() {
            Some('\\') => rest.get(2..).and_then(|rest| rest.find('\'')).map(|length| length + 4),
            Some(first) if rest.get(first.len_utf8()..).is_some_and(|r| r.starts_with('\'')) => {
                Some(first.len_utf8() + 2)
            }
            _ => None,
        };
        self.at += length.unwrap_or(1);
    }
}

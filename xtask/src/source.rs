//! The source files of the repository, and the pieces of a Rust file.
//!
//! `cargo xtask names` and `cargo xtask tidy` read the code through this module. It deliberately
//! knows no rule: [`crate::tidy`] decides which identifiers, comments and strings are findings.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::str::FromStr as _;

use anyhow::{Context as _, Result, anyhow};
use proc_macro2::{TokenStream, TokenTree};

use crate::host;

#[cfg(test)]
mod tests;

/// The folders that hold Rust packages.
const PACKAGE_FOLDERS: &[&str] = &["crates", "bench", "tests", "xtask"];
/// Folders that hold build output or files of other projects.
const SKIPPED_FOLDERS: &[&str] = &["target", "node_modules", ".git"];

/// A file of the repository.
pub(crate) struct SourceFile {
    /// The path below the root of the repository, with `/` between folders.
    pub(crate) path: String,
    pub(crate) text: String,
}

/// Reads all Rust files, sorted by path.
pub(crate) fn rust_files() -> Result<Vec<SourceFile>> {
    PACKAGE_FOLDERS
        .iter()
        .try_fold(Vec::new(), |mut files, folder| {
            collect(&host::repo().join(folder), &["rs"], &mut files)?;
            Ok(files)
        })
        .map(sorted)
}

/// Reads all Markdown files, sorted by path.
pub(crate) fn markdown_files() -> Result<Vec<SourceFile>> {
    files(&["md"])
}

/// Reads all files with these extensions, sorted by path.
pub(crate) fn files(extensions: &[&str]) -> Result<Vec<SourceFile>> {
    let mut files = Vec::new();
    collect(host::repo(), extensions, &mut files)?;
    Ok(sorted(files))
}

fn sorted(mut files: Vec<SourceFile>) -> Vec<SourceFile> {
    files.sort_by(|left, right| left.path.cmp(&right.path));
    files
}

/// Adds the files below `folder` whose names end with one of the extensions.
fn collect(folder: &Path, extensions: &[&str], files: &mut Vec<SourceFile>) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("listing {}", folder.display()))?;
    for entry in entries {
        let entry = entry?;
        let (path, name) = (entry.path(), entry.file_name());
        if entry.file_type()?.is_dir() {
            if !SKIPPED_FOLDERS.iter().any(|skipped| name == *skipped) {
                collect(&path, extensions, files)?;
            }
        } else if path.extension().is_some_and(|found| extensions.iter().any(|e| found == *e)) {
            let text =
                fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
            files.push(SourceFile { path: relative(&path), text });
        }
    }
    Ok(())
}

fn relative(path: &Path) -> String {
    let below_root = path.strip_prefix(host::repo()).map_or(path.into(), PathBuf::from);
    below_root
        .components()
        .map(|part| part.as_os_str().to_string_lossy())
        .collect::<Vec<_>>()
        .join("/")
}

/// What a piece of a Rust file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PieceKind {
    Identifier,
    /// A comment of any form, doc comments included.
    Comment,
    String,
}

/// An identifier, a comment or a string literal of a Rust file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Piece<'a> {
    pub(crate) kind: PieceKind,
    /// The line on which the piece starts, from 1.
    pub(crate) line: usize,
    pub(crate) text: &'a str,
}

/// Splits a Rust file into its identifiers, comments and strings, in their order.
pub(crate) fn pieces(text: &str) -> Result<Vec<Piece<'_>>> {
    let tokens = TokenStream::from_str(text)
        .map_err(|error| anyhow!("line {}: {error}", error.span().start().line))?;
    let mut collector = Collector { text, end: 0, line: 1, counted: 0, pieces: Vec::new() };
    collector.add_tokens(tokens);
    collector.add_comments_until(text.len());
    Ok(collector.pieces)
}

/// Walks over the tokens of a file; what lies between two tokens is white space and comments.
struct Collector<'a> {
    text: &'a str,
    /// Where the last token ended.
    end: usize,
    /// The line of the byte `counted`.
    line: usize,
    counted: usize,
    pieces: Vec<Piece<'a>>,
}

impl Collector<'_> {
    fn add_tokens(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Group(group) => {
                    self.skip_token(group.span_open().byte_range());
                    self.add_tokens(group.stream());
                    self.skip_token(group.span_close().byte_range());
                }
                TokenTree::Ident(identifier) => {
                    self.add_token(PieceKind::Identifier, identifier.span().byte_range());
                }
                TokenTree::Literal(literal) => {
                    let range = literal.span().byte_range();
                    let is_string = self.text[range.clone()].ends_with(['"', '#']);
                    if is_string {
                        self.add_token(PieceKind::String, range);
                    } else {
                        self.skip_token(range);
                    }
                }
                TokenTree::Punct(punctuation) => self.skip_token(punctuation.span().byte_range()),
            }
        }
    }

    /// Adds a token. All tokens of a doc comment have the range of the comment.
    fn add_token(&mut self, kind: PieceKind, range: Range<usize>) {
        if self.starts_comment(&range) || range.start < self.end {
            return self.skip_token(range);
        }
        self.add_comments_until(range.start);
        self.push(kind, range);
    }

    fn skip_token(&mut self, range: Range<usize>) {
        if range.start < self.end {
            return;
        }
        self.add_comments_until(range.start);
        if self.starts_comment(&range) {
            self.push(PieceKind::Comment, range);
        } else {
            self.end = range.end;
        }
    }

    fn starts_comment(&self, range: &Range<usize>) -> bool {
        let text = &self.text[range.clone()];
        text.starts_with("//") || text.starts_with("/*")
    }

    /// Adds the comments between the last token and `end`, one piece for each line.
    fn add_comments_until(&mut self, end: usize) {
        let mut start = self.end;
        while start < end {
            let line_end =
                self.text[start..end].find('\n').map_or(end, |length| start + length + 1);
            let line = self.text[start..line_end].trim();
            if !line.is_empty() {
                let offset = start + self.text[start..line_end].find(line).unwrap_or(0);
                self.push(PieceKind::Comment, offset..offset + line.len());
            }
            start = line_end;
        }
        self.end = self.end.max(end);
    }

    fn push(&mut self, kind: PieceKind, range: Range<usize>) {
        let passed = &self.text[self.counted..range.start];
        self.line += passed.bytes().filter(|byte| *byte == b'\n').count();
        self.counted = range.start;
        self.end = range.end;
        self.pieces.push(Piece { kind, line: self.line, text: &self.text[range] });
    }
}

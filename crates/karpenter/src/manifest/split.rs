//! Cuts a YAML text into documents without parsing it, so that each can be read, reported and
//! replaced on its own while the bytes of the others stay as they are.
//!
//! YAML forbids a line that begins with `---` or `...` inside a document, even inside block scalars
//! and quoted strings, so checking line starts is exact. It is also what kubectl does.

use std::ops::Range;

/// One document with all the text that belongs to it: its marker line, directives and comments.
/// The segments of a text follow each other without a gap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) bytes: Range<usize>,
    /// Line of its first byte, counted from 1.
    pub(super) line: usize,
    /// How many bytes come before its content: directives, comments, blank lines, the marker.
    pub(super) head: usize,
}

/// Every segment of `text`, in order; stops when there are more than `max`.
pub(super) fn segments(text: &str, max: usize) -> Vec<Segment> {
    let mut segments = Vec::new();
    let mut open = OpenSegment { start: 0, line: 1, content: None, has_marker: false };
    let mut offset = 0;
    for (index, line) in text.split_inclusive('\n').enumerate() {
        if segments.len() > max {
            return segments;
        }
        let number = index + 1;
        let starts_document = is_marker(line, "---");
        if starts_document && (open.has_marker || open.content.is_some()) {
            segments.push(open.close(offset));
            open = OpenSegment { start: offset, line: number, content: None, has_marker: false };
        }
        if starts_document {
            open.has_marker = true;
            if !is_blank(&line[3..]) {
                open.content.get_or_insert(offset);
            }
        } else if is_marker(line, "...") {
            let end = offset + line.len();
            segments.push(open.close(end));
            open = OpenSegment { start: end, line: number + 1, content: None, has_marker: false };
        } else if !is_blank(line) && (open.has_marker || !line.starts_with('%')) {
            open.content.get_or_insert(offset);
        }
        offset += line.len();
    }
    if offset > open.start {
        segments.push(open.close(offset));
    }
    segments
}

/// The segment that is being read.
struct OpenSegment {
    start: usize,
    line: usize,
    /// Offset of the first line that holds more than comments.
    content: Option<usize>,
    /// Whether its `---` has been read.
    has_marker: bool,
}

impl OpenSegment {
    fn close(&self, end: usize) -> Segment {
        let content = self.content.unwrap_or(end);
        Segment { bytes: self.start..end, line: self.line, head: content - self.start }
    }
}

/// Whether `line` begins with a document marker: three characters, then white space or nothing.
fn is_marker(line: &str, marker: &str) -> bool {
    line.strip_prefix(marker)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
}

/// Whether `line` is empty or only a comment.
fn is_blank(line: &str) -> bool {
    let line = line.trim_start();
    line.is_empty() || line.starts_with('#')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_split_where_yaml_splits_them() {
        struct Case(&'static str, &'static str, &'static [(&'static str, usize)]);
        #[rustfmt::skip]
        let cases = [
            Case("nothing", "", &[]),
            Case("one without marker", "a: 1\n", &[("a: 1\n", 1)]),
            Case("one with marker", "---\na: 1\n", &[("---\na: 1\n", 1)]),
            Case("two", "a: 1\n---\nb: 1\n", &[("a: 1\n", 1), ("---\nb: 1\n", 2)]),
            Case("comment above the first marker belongs to it", "# x\n---\na: 1\n", &[("# x\n---\na: 1\n", 1)]),
            Case("empty between", "---\n---\nb: 1\n", &[("---\n", 1), ("---\nb: 1\n", 2)]),
            Case("content on the marker line", "--- {a: 1}\n--- # c\nb: 1\n", &[("--- {a: 1}\n", 1), ("--- # c\nb: 1\n", 2)]),
            Case("end marker", "a: 1\n...\nb: 1\n", &[("a: 1\n...\n", 1), ("b: 1\n", 3)]),
            Case("directive", "%YAML 1.1\n---\na: 1\n", &[("%YAML 1.1\n---\na: 1\n", 1)]),
            Case("longer dashes are text", "a: |\n ---\n----\n", &[("a: |\n ---\n----\n", 1)]),
            Case("windows line ends", "a: 1\r\n---\r\nb: 1", &[("a: 1\r\n", 1), ("---\r\nb: 1", 2)]),
        ];
        for Case(name, text, expected) in cases {
            let got: Vec<_> =
                segments(text, 100).into_iter().map(|s| (&text[s.bytes], s.line)).collect();
            assert_eq!(got, expected, "{name}");
        }
    }

    #[test]
    fn the_head_of_a_segment_is_everything_before_the_content() {
        let text = "# licence\n\n---\n# about\na: 1\n---\nb: 1\n--- {c: 1}\n# only comments\n";
        let heads: Vec<_> = segments(text, 100).into_iter().map(|s| s.head).collect();
        assert_eq!(heads, ["# licence\n\n---\n# about\n".len(), "---\n".len(), 0]);
    }
}

//! Multipart MIME archives, as cloud-init reads them (spec 50 §3.4).
//!
//! The reader accepts what Go's `net/mail` and `mime/multipart` accept, because users' archives
//! were written against these: an archive may end at a boundary line without the closing dashes.
//! It keeps bodies as they are. Crates for mail decode bodies and reorder headers, so the few
//! rules are here.
//!
//! Both sides work on text without carriage returns, which the rendered archive never has.

mod media_type;

use super::error::MimeError;
use super::{BootstrapError, line_number, quoted_printable};

/// Boundary of rendered archives.
const BOUNDARY: &str = "//";
const CONTENT_TYPE: &str = "Content-Type";
const TRANSFER_ENCODING: &str = "Content-Transfer-Encoding";

/// One part of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// Names, in canonical capitals, and values.
    pub(super) headers: Vec<(String, String)>,
    /// The text, as it was in the archive.
    pub(super) body: String,
}

impl Part {
    /// Returns a part that cloud-init runs as a shell script.
    pub(super) fn shell_script(body: String) -> Self {
        Self::new(r#"text/x-shellscript; charset="us-ascii""#, body)
    }

    /// Returns a part that nodeadm reads as a NodeConfig.
    pub(super) fn node_config(body: String) -> Self {
        Self::new("application/node.eks.aws", body)
    }

    fn new(content_type: &str, body: String) -> Self {
        Self { headers: vec![(CONTENT_TYPE.to_owned(), content_type.to_owned())], body }
    }

    /// Drops every header but the content type; an absent one becomes empty.
    pub(super) fn with_content_type_only(self) -> Self {
        let content_type = header(&self.headers, CONTENT_TYPE).unwrap_or_default();
        Self::new(content_type, self.body)
    }
}

/// Whether the user's data is meant as an archive.
pub(super) fn is_archive(text: &str) -> bool {
    let text = text.trim_start();
    text.starts_with("MIME-Version:") || text.starts_with("Content-Type:")
}

/// Returns the text without carriage returns.
pub(super) fn without_carriage_returns(text: &str) -> String {
    text.replace('\r', "")
}

/// Fails if a part has the line that closes the rendered archive.
///
/// cloud-init would never see the parts after it, Karpenter's among them.
pub(super) fn check_open(parts: &[Part]) -> Result<(), BootstrapError> {
    let closing = format!("--{BOUNDARY}--");
    let line = |part: &Part| part.body.lines().position(|line| line.trim_end() == closing);
    match parts.iter().find_map(line) {
        None => Ok(()),
        Some(index) => Err(BootstrapError::ClosesArchive { line: index + 1 }),
    }
}

/// Returns an archive of the parts, their headers sorted by name.
pub(super) fn write(parts: &[Part]) -> String {
    let mut text =
        format!("MIME-Version: 1.0\n{CONTENT_TYPE}: multipart/mixed; boundary=\"{BOUNDARY}\"\n\n");
    for (index, part) in parts.iter().enumerate() {
        let separator = if index == 0 { "" } else { "\n" };
        text.push_str(&[separator, "--", BOUNDARY, "\n"].concat());
        let mut headers: Vec<_> = part.headers.iter().collect();
        headers.sort_by_key(|(name, _)| name); // values of one name keep their order
        for (name, value) in headers {
            text.push_str(&[name.as_str(), ": ", value, "\n"].concat());
        }
        text.push('\n');
        text.push_str(&part.body);
    }
    text + &format!("\n--{BOUNDARY}--\n")
}

/// Returns the parts of an archive; quoted-printable bodies are decoded.
pub(super) fn parse(text: &str) -> Result<Vec<Part>, MimeError> {
    let mut reader = Reader { text, position: 0 };
    let headers = reader.headers(HeaderRules::Message)?;
    let content_type = header(&headers, CONTENT_TYPE).ok_or(MimeError::ContentType)?;
    let dashes = format!("--{}", media_type::multipart_boundary(content_type)?);
    reader.skip_preamble(&dashes)?;
    let mut parts = Vec::new();
    while let Some(part) = reader.part(&dashes)? {
        parts.push(part);
    }
    Ok(parts)
}

/// The value of the first header of that name, in canonical capitals.
fn header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
}

/// Where headers stand. Those of parts are read strictly, those of the message are not.
#[derive(Clone, Copy, PartialEq, Eq)]
enum HeaderRules {
    Message,
    Part,
}

/// A line that begins with the boundary.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BoundaryLine {
    /// A part follows.
    Delimiter,
    /// The archive ends.
    Closing,
    /// Other text follows the boundary in the line.
    Malformed,
}

struct Reader<'a> {
    text: &'a str,
    position: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.position..).unwrap_or_default()
    }

    /// The number of the line at a position, from 1. Only errors need it.
    fn line_at(&self, position: usize) -> usize {
        line_number(self.text.get(..position).unwrap_or_default())
    }

    /// Takes the next line, without its line break.
    fn take_line(&mut self) -> Option<&'a str> {
        let rest = self.rest();
        if rest.is_empty() {
            return None;
        }
        let line = rest.split('\n').next().unwrap_or_default();
        self.position = (self.position + line.len() + 1).min(self.text.len());
        Some(line)
    }

    /// Reads headers up to a blank line, or up to the end of the text.
    fn headers(&mut self, rules: HeaderRules) -> Result<Vec<(String, String)>, MimeError> {
        let mut headers = Vec::new();
        if self.rest().starts_with([' ', '\t']) {
            return Err(MimeError::Header { line: self.line_at(self.position) });
        }
        loop {
            let start = self.position;
            let Some(text) = self.continued_line().filter(|text| !text.is_empty()) else {
                return Ok(headers);
            };
            let is_valid = |name: &str, value: &str| {
                rules == HeaderRules::Message
                    || (is_header_name(name) && value.chars().all(is_header_value_char))
            };
            let Some((name, value)) =
                text.split_once(':').filter(|(name, value)| is_valid(name, value))
            else {
                return Err(MimeError::Header { line: self.line_at(start) });
            };
            let value = value.trim_start_matches([' ', '\t']);
            headers.push((canonical_name(name), value.to_owned()));
        }
    }

    /// Takes a line with its continuations, which begin with a space or a tab.
    fn continued_line(&mut self) -> Option<String> {
        let blanks = [' ', '\t'];
        let first = self.take_line()?;
        let mut text = first.trim_matches(blanks).to_owned();
        while !first.is_empty() && self.rest().starts_with(blanks) {
            text.push(' ');
            text.push_str(self.take_line().unwrap_or_default().trim_matches(blanks));
        }
        Some(text)
    }

    /// Goes to the line after the first delimiter.
    ///
    /// A closing line ends an archive that has no parts. Without any boundary line the user's
    /// parts would be lost silently, so that is an error.
    fn skip_preamble(&mut self, dashes: &str) -> Result<(), MimeError> {
        while let Some(line) = self.take_line() {
            match boundary_line(line, dashes) {
                Some(BoundaryLine::Delimiter) => return Ok(()),
                Some(BoundaryLine::Closing) => {
                    self.position = self.text.len();
                    return Ok(());
                }
                Some(BoundaryLine::Malformed) | None => {}
            }
        }
        Err(MimeError::NoParts)
    }

    /// Takes the next part; `None` at the end of the archive.
    fn part(&mut self, dashes: &str) -> Result<Option<Part>, MimeError> {
        // A delimiter as the last line ends the archive, too.
        if self.rest().trim().is_empty() {
            return Ok(None);
        }
        let headers = self.headers(HeaderRules::Part)?;
        let body_start = self.position;
        let body = self.body(dashes)?;
        let boundary_start = self.position;
        match boundary_line(self.take_line().unwrap_or_default(), dashes) {
            Some(BoundaryLine::Delimiter) => {}
            Some(BoundaryLine::Closing) => self.position = self.text.len(),
            Some(BoundaryLine::Malformed) | None => {
                return Err(MimeError::Boundary { line: self.line_at(boundary_start) });
            }
        }
        let part = decode_transfer(headers, body)
            .ok_or_else(|| MimeError::QuotedPrintable { line: self.line_at(body_start) })?;
        Ok(Some(part))
    }

    /// Takes the text up to the line break before the next boundary.
    fn body(&mut self, dashes: &str) -> Result<&'a str, MimeError> {
        let rest = self.rest();
        if boundary_line(rest, dashes).is_some() {
            return Ok("");
        }
        let is_boundary = |(index, _): &(usize, &str)| {
            boundary_line(rest.get(index + 1..).unwrap_or_default(), dashes).is_some()
        };
        let (index, _) =
            rest.match_indices('\n').find(is_boundary).ok_or(MimeError::Unterminated)?;
        self.position += index + 1;
        Ok(rest.get(..index).unwrap_or_default())
    }
}

/// Returns how the first line of `text` uses the boundary; `None` if it does not.
fn boundary_line(text: &str, dashes: &str) -> Option<BoundaryLine> {
    let line = text.split('\n').next().unwrap_or_default();
    let rest = line.strip_prefix(dashes)?;
    match (rest.strip_prefix("--"), rest.chars().next()) {
        (Some(after), _) if after.trim_matches([' ', '\t']).is_empty() => {
            Some(BoundaryLine::Closing)
        }
        (None, None) => Some(BoundaryLine::Delimiter),
        (None, Some(' ' | '\t')) if rest.trim_matches([' ', '\t']).is_empty() => {
            Some(BoundaryLine::Delimiter)
        }
        (Some(_), _) | (None, Some(' ' | '\t')) => Some(BoundaryLine::Malformed),
        (None, Some(_)) => None, // another, longer boundary
    }
}

/// Decodes a quoted-printable body and drops the header that names the encoding.
///
/// `None` if the body cannot be decoded, or is no text in UTF-8.
fn decode_transfer(mut headers: Vec<(String, String)>, body: &str) -> Option<Part> {
    let encoding = header(&headers, TRANSFER_ENCODING).unwrap_or_default();
    if !encoding.eq_ignore_ascii_case("quoted-printable") {
        return Some(Part { headers, body: body.to_owned() });
    }
    headers.retain(|(name, _)| name != TRANSFER_ENCODING);
    let body = String::from_utf8(quoted_printable::decode(body)?).ok()?;
    Some(Part { headers, body: without_carriage_returns(&body) })
}

fn is_header_name(name: &str) -> bool {
    let is_name_char = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~ ".contains(c);
    !name.is_empty() && name.chars().all(is_name_char)
}

fn is_header_value_char(c: char) -> bool {
    c == '\t' || (c >= ' ' && c != '\u{7f}')
}

/// Returns the name with a capital after each dash, as in `Content-Type`.
fn canonical_name(name: &str) -> String {
    if name.contains(' ') || !is_header_name(name) {
        return name.to_owned();
    }
    let mut is_start = true;
    let capitals = name.chars().map(|c| {
        let c = if is_start { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() };
        is_start = c == '-';
        c
    });
    capitals.collect()
}

//! Problems that the user has to fix: a value first, text second.
//!
//! Every error of the binary is a [`Diagnostic`]: problem, location, finding, fix, and a command
//! that shows more. Plain text without colour, one block per problem.

use std::fmt;

/// Something that a person has to fix.
#[derive(Clone, Debug, Default, PartialEq, Eq, thiserror::Error)]
pub(crate) struct Diagnostic {
    /// The problem in one line.
    summary: String,
    location: Location,
    found: Option<String>,
    fix: Option<String>,
    /// A command that shows the details.
    help_command: Option<String>,
}

/// The location of a problem: file and line, field, or both, where known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Location {
    pub(crate) file: Option<String>,
    /// Counted from 1.
    pub(crate) line: Option<usize>,
    /// Counted from 1, in characters.
    pub(crate) column: Option<usize>,
    pub(crate) field: Option<String>,
}

impl Diagnostic {
    pub(crate) fn new(summary: impl Into<String>) -> Self {
        Self { summary: summary.into(), ..Self::default() }
    }

    pub(crate) fn at(self, place: Location) -> Self {
        Self { location: place, ..self }
    }

    pub(crate) fn found(self, found: impl Into<String>) -> Self {
        Self { found: Some(found.into()), ..self }
    }

    pub(crate) fn fix(self, fix: impl Into<String>) -> Self {
        Self { fix: Some(fix.into()), ..self }
    }

    pub(crate) fn help_command(self, more: impl Into<String>) -> Self {
        Self { help_command: Some(more.into()), ..self }
    }

    /// Returns the problem, with the finding.
    pub(crate) fn problem(&self) -> String {
        match &self.found {
            Some(found) => format!("{}: {found}", self.summary),
            None => self.summary.clone(),
        }
    }

    pub(crate) fn location(&self) -> &Location {
        &self.location
    }

    pub(crate) fn remedy(&self) -> Option<&str> {
        self.fix.as_deref()
    }
}

impl Location {
    pub(crate) fn file(name: impl Into<String>) -> Self {
        Self { file: Some(name.into()), ..Self::default() }
    }

    pub(crate) fn line(self, line: usize) -> Self {
        Self { line: Some(line), ..self }
    }

    pub(crate) fn column(self, column: usize) -> Self {
        Self { column: Some(column), ..self }
    }

    pub(crate) fn field(self, field: impl Into<String>) -> Self {
        Self { field: Some(field.into()), ..self }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{}", printable(file))?;
        }
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if let Some(column) = self.column {
            write!(f, ":{column}")?;
        }
        if let Some(field) = &self.field {
            let gap = if self.file.is_some() { "  " } else { "" };
            write!(f, "{gap}{}", printable(field))?;
        }
        Ok(())
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", printable(&self.summary))?;
        if self.location != Location::default() {
            write!(f, "\n where: {}", self.location)?;
        }
        let rows = [(" found", &self.found), ("   fix", &self.fix), ("  more", &self.help_command)];
        for (head, text) in rows {
            if let Some(text) = text {
                write!(f, "\n{head}: {}", printable(text))?;
            }
        }
        Ok(())
    }
}

/// Text of a file or file name, made safe for one line of a terminal or of a YAML comment: what
/// would break the line, move the cursor or turn the direction of writing is shown as an escape.
pub(crate) fn printable(text: &str) -> String {
    let is_unsafe =
        |c: char| c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let escape = |c: char| if is_unsafe(c) { c.escape_default().to_string() } else { c.into() };
    text.chars().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diagnostic_prints_problem_location_finding_fix_and_help() {
        let full = Diagnostic::new("`weight` is not a number")
            .at(Location::file("pool.yaml").line(7).column(3).field("spec.weight"))
            .found("\"heavy\"")
            .fix("write a number between 1 and 100")
            .help_command("karpenter convert --help");
        insta::assert_snapshot!(full, @r#"
        error: `weight` is not a number
         where: pool.yaml:7:3  spec.weight
         found: "heavy"
           fix: write a number between 1 and 100
          more: karpenter convert --help
        "#);
    }

    #[test]
    fn missing_parts_of_a_diagnostic_are_left_out() {
        assert_eq!(
            Diagnostic::new("no objects passed to convert").to_string(),
            "error: no objects passed to convert"
        );
        let field_only = Diagnostic::new("x").at(Location::default().field("spec"));
        assert_eq!(field_only.to_string(), "error: x\n where: spec");
    }

    #[test]
    fn control_characters_cannot_reach_the_terminal() {
        assert_eq!(printable("a\u{1b}[31mb\n"), "a\\u{1b}[31mb\\n");
        assert_eq!(printable("é\u{2028}\u{202e}"), "é\\u{2028}\\u{202e}");
    }
}

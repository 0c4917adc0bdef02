//! A transcript records the responses of an API to an area's checks, as a text file.

use std::fmt;

/// Texts of steps, by check, in the order of the script.
///
/// In the file, a body that an earlier step of the check has shown is only a reference to it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Transcript {
    checks: Vec<(String, Vec<String>)>,
}

const CHECK: &str = "=== ";
const SAME_BODY_PREFIX: &str = "= step ";

/// A repeated body of at most this many lines is written again.
const SHORT_BODY_LINES: usize = 3;

/// The lines about the request and the headers, and the body.
fn split(step: &str) -> (String, String) {
    let is_head = |line: &&str| line.starts_with("> ") || line.starts_with("< ");
    let (head, body): (Vec<_>, Vec<_>) = step.lines().partition(is_head);
    (head.join("\n"), body.join("\n"))
}

/// Replaces a reference to an earlier step's body by that body.
fn expand_body_reference(step: &str, earlier: &[String]) -> String {
    let (head, body) = split(step);
    let number =
        body.strip_prefix(SAME_BODY_PREFIX).and_then(|number| number.parse::<usize>().ok());
    match number.and_then(|number| earlier.get(number.checked_sub(1)?)) {
        Some(earlier) => format!("{head}\n{}", split(earlier).1),
        None => step.to_owned(),
    }
}

/// Replaces a body that an earlier step has by a reference to that step.
fn shorten_repeated_body(step: &str, earlier: &[String]) -> String {
    let (head, body) = split(step);
    let same = earlier.iter().position(|earlier| split(earlier).1 == body);
    match same {
        Some(index) if body.lines().count() > SHORT_BODY_LINES => {
            format!("{head}\n{SAME_BODY_PREFIX}{}", index + 1)
        }
        _ => step.to_owned(),
    }
}

impl Transcript {
    pub(super) fn new(checks: Vec<(String, Vec<String>)>) -> Self {
        Self { checks }
    }

    /// The steps of a check.
    pub fn steps(&self, check: &str) -> Option<&[String]> {
        let found = self.checks.iter().find(|(name, _)| name == check);
        found.map(|(_, steps)| steps.as_slice())
    }

    /// The names of its checks.
    pub fn checks(&self) -> impl Iterator<Item = &str> {
        self.checks.iter().map(|(name, _)| name.as_str())
    }

    /// With the checks of `newer` in place of those of the same name.
    #[must_use]
    pub fn updated(mut self, newer: Self, order: &[&str]) -> Self {
        self.checks.retain(|(name, _)| newer.steps(name).is_none());
        self.checks.extend(newer.checks);
        self.checks.retain(|(name, _)| order.contains(&name.as_str()));
        self.checks.sort_by_key(|(name, _)| order.iter().position(|known| known == name));
        self
    }

    /// Reads what [`Display`](fmt::Display) wrote.
    pub fn parse(text: &str) -> Self {
        let mut checks: Vec<(String, Vec<String>)> = Vec::new();
        for line in text.lines() {
            if let Some(name) = line.strip_prefix(CHECK) {
                checks.push((name.to_owned(), Vec::new()));
            } else if let Some((_, steps)) = checks.last_mut() {
                match steps.last_mut() {
                    Some(step) if !line.starts_with("> ") => {
                        step.push('\n');
                        step.push_str(line);
                    }
                    _ if line.is_empty() => {}
                    _ => steps.push(line.to_owned()),
                }
            }
        }
        for (_, steps) in &mut checks {
            for index in 0..steps.len() {
                steps[index] = expand_body_reference(steps[index].trim_end(), &steps[..index]);
            }
        }
        Self { checks }
    }
}

impl fmt::Display for Transcript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, steps) in &self.checks {
            writeln!(f, "{CHECK}{name}")?;
            for (index, step) in steps.iter().enumerate() {
                writeln!(f, "{}", shorten_repeated_body(step.trim_end(), &steps[..index]))?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transcripts_round_trip_through_text() {
        let long = "> GET /c\n< 200\na: 1\nb: 2\nc: 3\nd: 4".to_owned();
        let steps = vec![long.clone(), "> GET /b\n< 404".to_owned(), long];
        let transcript =
            Transcript::new(vec![("one".to_owned(), steps), ("two".to_owned(), Vec::new())]);
        assert!(transcript.to_string().contains("> GET /c\n< 200\n= step 1\n"));
        assert_eq!(Transcript::parse(&transcript.to_string()), transcript);
    }

    #[test]
    fn updating_a_transcript_keeps_order_and_drops_removed_checks() {
        let one = |name: &str, text: &str| (name.to_owned(), vec![text.to_owned()]);
        let old = Transcript::new(vec![one("a", "1"), one("b", "1"), one("c", "1")]);
        let new = Transcript::new(vec![one("b", "2")]);
        let expected = Transcript::new(vec![one("a", "1"), one("b", "2")]);
        assert_eq!(old.updated(new, &["a", "b"]), expected);
    }
}

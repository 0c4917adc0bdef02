//! Finds banned words in texts and identifiers.

use anyhow::{Context as _, Result, bail};

/// The words and phrases of `banned-words.txt`.
#[derive(Debug, Default)]
pub(super) struct BannedWords {
    identifiers: Vec<Banned>,
    text: Phrases,
    allowed_identifiers: Vec<String>,
    exempt_files: Vec<String>,
}

/// A banned word, and what to write instead.
#[derive(Debug)]
struct Banned {
    word: String,
    instead: String,
}

impl BannedWords {
    pub(super) fn parse(text: &str) -> Result<Self> {
        let (mut words, mut section) = (Self::default(), "");
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                section = name;
                continue;
            }
            let entry = || {
                let (word, instead) = line.split_once(": ").with_context(|| {
                    format!("banned-words.txt line {}: write `word: replacement`", index + 1)
                })?;
                Ok::<_, anyhow::Error>(Banned {
                    word: word.to_owned(),
                    instead: instead.to_owned(),
                })
            };
            match section {
                "identifiers" => words.identifiers.push(entry()?),
                "text" => words.text.0.push(entry()?),
                "allowed identifiers" => words.allowed_identifiers.push(line.to_owned()),
                "exempt files" => words.exempt_files.push(line.to_owned()),
                other => bail!("banned-words.txt line {}: unknown section `{other}`", index + 1),
            }
        }
        Ok(words)
    }

    /// Returns whether the words of the file at `path` are not ours.
    pub(super) fn exempts(&self, path: &str) -> bool {
        self.exempt_files.iter().any(|exempt| match exempt.strip_suffix('/') {
            Some(folder) => path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/')),
            None => path == exempt,
        })
    }

    /// Returns a message about the first banned part of `identifier`.
    pub(super) fn in_identifier(&self, identifier: &str) -> Option<String> {
        if self.allowed_identifiers.iter().any(|allowed| allowed == identifier) {
            return None;
        }
        let parts = parts(identifier);
        let banned = self.identifiers.iter().find(|banned| parts.contains(&banned.word))?;
        Some(banned.message())
    }

    /// Returns a message for each banned phrase in `line`.
    pub(super) fn in_text(&self, line: &str) -> impl Iterator<Item = String> {
        self.text.found_in(line).map(Banned::message)
    }
}

impl Banned {
    fn message(&self) -> String {
        format!("the word `{}` is banned; instead: {}", self.word, self.instead)
    }
}

/// Phrases of one or more words.
#[derive(Debug, Default)]
pub(super) struct Phrases(Vec<Banned>);

impl Phrases {
    fn found_in(&self, line: &str) -> impl Iterator<Item = &Banned> {
        let words = format!(" {} ", words(line).join(" "));
        self.0.iter().filter(move |banned| words.contains(&format!(" {} ", banned.word)))
    }

    /// Returns the line without what stands between backticks.
    pub(super) fn without_code(line: &str) -> String {
        line.split('`').step_by(2).collect::<Vec<_>>().join(" . ")
    }
}

/// Returns the words of a line in lower case; punctuation separates phrases.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for character in line.chars() {
        if character.is_alphanumeric() || character == '\'' {
            let lower = character.to_lowercase();
            words.last_mut().into_iter().for_each(|word| word.extend(lower.clone()));
        } else if character.is_whitespace() {
            words.push(String::new());
        } else {
            words.extend([character.to_string(), String::new()]);
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Returns the parts of an identifier in lower case: `NodeClaim_told` has `node`, `claim`, `told`.
fn parts(identifier: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut characters = identifier.chars().peekable();
    let mut last_is_upper = false;
    while let Some(character) = characters.next() {
        let next_is_lower = characters.peek().is_some_and(|next| next.is_lowercase());
        let starts_part = character.is_uppercase() && (!last_is_upper || next_is_lower);
        if character == '_' || starts_part {
            parts.push(String::new());
        }
        if character != '_' {
            let lower = character.to_lowercase();
            parts.last_mut().into_iter().for_each(|part| part.extend(lower.clone()));
        }
        last_is_upper = character.is_uppercase();
    }
    parts.retain(|part| !part.is_empty());
    parts
}

#[cfg(test)]
mod tests {
    use super::{BannedWords, parts, words};

    #[test]
    fn identifiers_split_at_underscores_and_capitals() {
        let cases: [(&str, &[&str]); 5] = [
            ("is_told", &["is", "told"]),
            ("ToldEvents", &["told", "events"]),
            ("HTTPServer2", &["http", "server2"]),
            ("TOLD_MAX", &["told", "max"]),
            ("_x", &["x"]),
        ];
        for (identifier, expected) in cases {
            assert_eq!(parts(identifier), expected, "{identifier}");
        }
    }

    #[test]
    fn phrases_end_at_punctuation() {
        assert_eq!(words("What is: nobody's x-y"), ["what", "is", ":", "nobody's", "x", "-", "y"]);
    }

    #[test]
    fn banned_words_are_found_as_whole_words() {
        let text = "[identifiers]\ntold: logged\n[text]\nwhat is: name it\n\
            [allowed identifiers]\nThisIsTold\n[exempt files]\ndocs/spec/\n";
        let words = BannedWords::parse(text).expect("the text is well formed");
        assert!(words.in_identifier("is_told").is_some());
        assert!(words.in_identifier("untold").is_none());
        assert!(words.in_identifier("ThisIsTold").is_none());
        assert_eq!(words.in_text("See what  is there. What isn't.").count(), 1);
        assert_eq!(words.in_text("what; is").count(), 0);
        assert!(words.exempts("docs/spec/10-api.md"));
        assert!(!words.exempts("docs/specs.md"));
        assert!(BannedWords::parse("[text]\nno replacement\n").is_err());
        assert!(BannedWords::parse("[other]\nx: y\n").is_err());
    }
}

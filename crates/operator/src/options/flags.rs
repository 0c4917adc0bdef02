//! Parses flags and environment variables as Go's `flag` package does (spec 40 §7.1).
//!
//! It knows definitions and texts, and no option in particular: core and each provider pass their
//! own definitions, and build their own data from the [resolved](resolve()) options.
//!
//! ```text
//! flag      ──▶ wins; an invalid text is an error
//! variable  ──▶ counts if the flag is not given; an invalid number, boolean or duration counts as
//!               not set; set to the empty text is set
//! default
//! ```

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::time::Duration;

use karpenter_api::grammar::parse_duration;

mod go;

pub(super) use go::go_bool;
use go::go_int;

/// The definition of one option: flag, environment variable, default and kind.
#[derive(Clone, Debug)]
pub struct OptionDefinition {
    /// The name of the flag, without dashes.
    pub flag: &'static str,
    /// The environment variable.
    pub env: &'static str,
    /// What counts when neither is given.
    pub default: String,
    /// What texts are allowed.
    pub kind: ValueKind,
    /// What it does, for a person.
    pub help: String,
}

/// The kind of values that an option accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// `true` or `false`. The flag alone is `true`, and never takes the next argument.
    Bool,
    /// A whole number of this range.
    Int {
        /// The smallest.
        min: i64,
        /// The largest.
        max: i64,
    },
    /// A duration in Go's notation that is not negative.
    Duration,
    /// One of these words. The empty text is allowed where it is in the list.
    OneOf(&'static [&'static str]),
    /// Any text.
    Text,
}

/// The options after parsing a command line and an environment.
#[derive(Clone, Debug)]
pub struct ResolvedOptions {
    values: BTreeMap<&'static str, OptionValue>,
    /// The arguments from the first one that is no flag.
    pub positional: Vec<String>,
    /// Whether `-h` or `--help` is given.
    pub is_help_requested: bool,
    /// Environment variables with invalid values, which count as not set; worth a warning.
    pub ignored_variables: Vec<IgnoredVariable>,
}

/// An environment variable with an invalid value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IgnoredVariable {
    /// Its name.
    pub variable: &'static str,
    /// Its value.
    pub text: String,
    /// What values there are.
    pub allowed: String,
    /// What counts in its place.
    pub default: String,
}

/// The text of an option and its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionValue {
    /// The text.
    pub text: String,
    /// Where it came from.
    pub from: ValueSource,
    env: &'static str,
}

/// The source of an option's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueSource {
    /// Neither flag nor variable is given.
    Default,
    /// The environment variable of this name.
    Environment(&'static str),
    /// The flag of this name.
    Flag(&'static str),
}

impl fmt::Display for ValueSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("the default"),
            Self::Environment(name) => f.write_str(name),
            Self::Flag(name) => write!(f, "--{name}"),
        }
    }
}

/// An error in the options: one line that names the option, its value and the allowed values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    /// A dash with something after it that cannot be a flag.
    #[error("bad flag syntax: {0}")]
    Syntax(String),
    /// A flag that does not exist.
    #[error("flag --{name} is not defined{}", nearest.map(|name| format!(", did you mean --{name}?")).unwrap_or_default())]
    Unknown {
        /// The flag.
        name: String,
        /// One that does, with a name much like it.
        nearest: Option<&'static str>,
    },
    /// A flag at the end that needs a value.
    #[error("flag --{name} needs a value: {allowed}")]
    Missing {
        /// The flag.
        name: &'static str,
        /// What values there are.
        allowed: String,
    },
    /// A boolean that is none.
    #[error("--{name}: {text:?} is not a valid value, must be true or false")]
    Bool {
        /// The flag.
        name: &'static str,
        /// Its value.
        text: String,
    },
    /// An environment variable that is not text.
    #[error("the environment variable {variable} is not valid UTF-8")]
    NotUtf8 {
        /// The variable.
        variable: &'static str,
    },
    /// A value that is not allowed.
    #[error("invalid {env} {:?}{}: {problem}", given.text, match &given.from { ValueSource::Flag(name) => format!(" of --{name}"), _ => String::new() })]
    Invalid {
        /// The option's variable.
        env: &'static str,
        /// The value, and where it came from.
        given: OptionValue,
        /// The problem of the value.
        problem: ValueProblem,
    },
}

/// The reason why a value is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueProblem {
    /// It is none of the words that are allowed.
    NotOneOf(String),
    /// Anything else.
    Other(String),
}

impl fmt::Display for ValueProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotOneOf(words) => write!(f, "must be {words}"),
            Self::Other(problem) => f.write_str(problem),
        }
    }
}

impl OptionValue {
    /// The error that this value is wrong.
    pub fn invalid(&self, problem: impl Into<String>) -> OptionsError {
        let problem = ValueProblem::Other(problem.into());
        OptionsError::Invalid { env: self.env, given: self.clone(), problem }
    }
}

/// Parses arguments, without the program's name, with the environment for flags that are not given.
pub fn resolve(
    definitions: &[OptionDefinition],
    arguments: &[String],
    environment: impl Fn(&str) -> Option<OsString>,
) -> Result<ResolvedOptions, OptionsError> {
    let (flags, rest, wants_help) = parse_arguments(definitions, arguments)?;
    resolve_flags(definitions, flags, environment).map(|resolved| ResolvedOptions {
        positional: rest,
        is_help_requested: wants_help,
        ..resolved
    })
}

/// Resolves flags that another parser has read.
pub fn resolve_flags(
    definitions: &[OptionDefinition],
    mut flags: BTreeMap<&'static str, String>,
    environment: impl Fn(&str) -> Option<OsString>,
) -> Result<ResolvedOptions, OptionsError> {
    let (mut values, mut ignored) = (BTreeMap::new(), Vec::new());
    for definition in definitions {
        let OptionDefinition { flag, env, default, kind, .. } = definition;
        let not_utf8 = |_| OptionsError::NotUtf8 { variable: env };
        let (text, from) = match flags.remove(flag) {
            Some(text) => (text, ValueSource::Flag(flag)),
            None => {
                match environment(env).map(OsString::into_string).transpose().map_err(not_utf8)? {
                    Some(text) if kind.is_valid_in_environment(&text) => {
                        (text, ValueSource::Environment(env))
                    }
                    unreadable => {
                        // Charts set what they have no value for to the empty text.
                        let reportable = unreadable.filter(|text| !text.is_empty());
                        ignored.extend(reportable.map(|text| definition.to_ignored_variable(text)));
                        (default.clone(), ValueSource::Default)
                    }
                }
            }
        };
        let given = OptionValue { text, from, env };
        definition.check(&given)?;
        values.insert(*flag, given);
    }
    Ok(ResolvedOptions {
        values,
        positional: Vec::new(),
        is_help_requested: false,
        ignored_variables: ignored,
    })
}

/// Resolves one option of a command line that may hold others; their values are not checked.
pub fn resolve_one(
    option: &OptionDefinition,
    definitions: &[OptionDefinition],
    arguments: &[String],
    environment: impl Fn(&str) -> Option<OsString>,
) -> Result<OptionValue, OptionsError> {
    let (mut flags, ..) = parse_arguments(definitions, arguments)?;
    flags.retain(|flag, _| *flag == option.flag);
    let mut resolved = resolve_flags(std::slice::from_ref(option), flags, environment)?;
    Ok(resolved.values.remove(option.flag).expect("its definition was given"))
}

type ParsedArguments = (BTreeMap<&'static str, String>, Vec<String>, bool);

fn parse_arguments(
    definitions: &[OptionDefinition],
    arguments: &[String],
) -> Result<ParsedArguments, OptionsError> {
    let mut flags = BTreeMap::new();
    let mut arguments = arguments.iter();
    loop {
        let rest = arguments.clone();
        let Some(argument) = arguments.next() else { break };
        if argument == "--" {
            return Ok((flags, arguments.cloned().collect(), false));
        }
        let Some(body) = argument.strip_prefix('-').filter(|body| !body.is_empty()) else {
            return Ok((flags, rest.cloned().collect(), false));
        };
        let body = body.strip_prefix('-').unwrap_or(body);
        if body.starts_with(['-', '=']) {
            return Err(OptionsError::Syntax(argument.clone()));
        }
        let (name, value) = match body.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (body, None),
        };
        let Some(definition) = definitions.iter().find(|definition| definition.flag == name) else {
            if name == "h" || name == "help" {
                return Ok((flags, Vec::new(), true));
            }
            let nearest = nearest_flag(definitions, name);
            return Err(OptionsError::Unknown { name: name.to_owned(), nearest });
        };
        let value = match (definition.kind, value) {
            (_, Some(value)) => value.to_owned(),
            (ValueKind::Bool, None) => "true".to_owned(),
            (kind, None) => {
                let missing =
                    || OptionsError::Missing { name: definition.flag, allowed: kind.allowed() };
                arguments.next().ok_or_else(missing)?.clone()
            }
        };
        flags.insert(definition.flag, value);
    }
    Ok((flags, Vec::new(), false))
}

/// Returns the flag whose name differs in at most two letters.
fn nearest_flag(definitions: &[OptionDefinition], name: &str) -> Option<&'static str> {
    let distances = definitions
        .iter()
        .map(|definition| (edit_distance(definition.flag, name), definition.flag));
    distances.filter(|(distance, _)| *distance <= 2).min().map(|(_, flag)| flag)
}

/// Returns how many letters differ (Levenshtein). Long words are far from all others.
fn edit_distance(a: &str, b: &str) -> usize {
    if b.len() > 64 {
        return usize::MAX;
    }
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, letter) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, other) in b.iter().enumerate() {
            let changed = diagonal + usize::from(letter != *other);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

impl ValueKind {
    /// What texts are allowed, in words.
    pub fn allowed(self) -> String {
        match self {
            Self::Bool => "true or false".to_owned(),
            Self::Int { min: i64::MIN, .. } => "a whole number".to_owned(),
            Self::Int { min, max } => format!("a whole number from {min} to {max}"),
            Self::Duration => "a duration such as 10s or 1m30s, 0s or longer".to_owned(),
            Self::OneOf(words) => {
                let words: Vec<_> = words.iter().copied().filter(|word| !word.is_empty()).collect();
                match words.as_slice() {
                    [all @ .., last] if !all.is_empty() => format!("{} or {last}", all.join(", ")),
                    all => all.concat(),
                }
            }
            Self::Text => "a text".to_owned(),
        }
    }

    fn is_valid_in_environment(self, text: &str) -> bool {
        match self {
            Self::Bool => go_bool(text).is_some(),
            // Here Go reads decimal numbers alone.
            Self::Int { .. } => text.parse::<i64>().is_ok(),
            Self::Duration => parse_duration(text).is_ok(),
            Self::OneOf(_) | Self::Text => true,
        }
    }
}

impl OptionDefinition {
    fn to_ignored_variable(&self, text: String) -> IgnoredVariable {
        let Self { env: variable, default, kind, .. } = self;
        IgnoredVariable { variable, text, allowed: kind.allowed(), default: default.clone() }
    }

    /// Whether the text is of the definition's kind.
    fn check(&self, given: &OptionValue) -> Result<(), OptionsError> {
        let OptionValue { text, from, env } = given;
        let fine = match self.kind {
            ValueKind::Bool => {
                if matches!(from, ValueSource::Flag(_))
                    && !["true", "false"].contains(&text.as_str())
                {
                    return Err(OptionsError::Bool { name: self.flag, text: text.clone() });
                }
                true
            }
            ValueKind::Int { min, max } => go_int(text).is_some_and(|n| (min..=max).contains(&n)),
            ValueKind::Duration => {
                parse_duration(text).is_ok_and(|duration| !duration.is_negative())
            }
            ValueKind::OneOf(words) => words.contains(&text.as_str()),
            ValueKind::Text => true,
        };
        if fine {
            return Ok(());
        }
        let problem = ValueProblem::NotOneOf(self.kind.allowed());
        Err(OptionsError::Invalid { env, given: given.clone(), problem })
    }
}

/// Reading an undefined option returns nothing, `false` and 0: definitions and their readers stand
/// side by side, and a test reads every one.
impl ResolvedOptions {
    /// Returns the value of an option and its source.
    pub fn value(&self, flag: &str) -> Option<&OptionValue> {
        self.values.get(flag)
    }

    /// The value as it was given.
    pub fn text(&self, flag: &str) -> &str {
        self.values.get(flag).map_or("", |given| &given.text)
    }

    /// The value of a boolean.
    pub fn bool(&self, flag: &str) -> bool {
        go_bool(self.text(flag)).unwrap_or_default()
    }

    /// The value of a number.
    pub fn int(&self, flag: &str) -> i64 {
        go_int(self.text(flag)).unwrap_or_default()
    }

    /// The value of a duration.
    pub fn duration(&self, flag: &str) -> Duration {
        let duration = parse_duration(self.text(flag)).unwrap_or_default();
        Duration::try_from(duration).unwrap_or_default()
    }

    /// The parts of a list that is separated by commas.
    pub fn list(&self, flag: &str) -> Vec<String> {
        let parts = self.text(flag).split(',').map(str::trim);
        parts.filter(|part| !part.is_empty()).map(str::to_owned).collect()
    }
}

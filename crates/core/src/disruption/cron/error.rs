//! What can be wrong with a schedule, in the words of upstream's parser.

use std::error::Error;
use std::fmt;

use karpenter_grammar::IntError;

/// Why a text is no schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CronError {
    /// Not five fields.
    FieldCount {
        /// The fields that there are.
        found: Vec<String>,
    },
    /// An unknown word after `@`.
    UnrecognizedDescriptor(String),
    /// Neither a number nor a name of the field.
    NotAnInteger {
        /// What stands where a number should.
        text: String,
        /// Why it is none.
        error: IntError,
    },
    /// A number below zero.
    Negative {
        /// The number.
        number: i64,
        /// As it is written.
        text: String,
    },
    /// More than one `-` in a range.
    TooManyHyphens(String),
    /// More than one `/` in a range.
    TooManySlashes(String),
    /// A range that starts below what the field allows.
    BelowMinimum {
        /// Where it starts.
        start: u64,
        /// The lowest that the field allows.
        min: u64,
        /// The range as it is written.
        range: String,
    },
    /// A range that ends above what the field allows.
    AboveMaximum {
        /// Where it ends.
        end: u64,
        /// The highest that the field allows.
        max: u64,
        /// The range as it is written.
        range: String,
    },
    /// A range that ends before it starts.
    Reversed {
        /// Where it starts.
        start: u64,
        /// Where it ends.
        end: u64,
        /// The range as it is written.
        range: String,
    },
    /// A step of zero.
    ZeroStep(String),
}

impl fmt::Display for CronError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FieldCount { found } => {
                let (count, fields) = (found.len(), found.join(" "));
                write!(f, "expected exactly 5 fields, found {count}: [{fields}]")
            }
            Self::UnrecognizedDescriptor(text) => write!(f, "unrecognized descriptor: {text}"),
            Self::NotAnInteger { text, error } => {
                write!(f, "failed to parse int from {text}: {error}")
            }
            Self::Negative { number, text } => {
                write!(f, "negative number ({number}) not allowed: {text}")
            }
            Self::TooManyHyphens(range) => write!(f, "too many hyphens: {range}"),
            Self::TooManySlashes(range) => write!(f, "too many slashes: {range}"),
            Self::BelowMinimum { start, min, range } => {
                write!(f, "beginning of range ({start}) below minimum ({min}): {range}")
            }
            Self::AboveMaximum { end, max, range } => {
                write!(f, "end of range ({end}) above maximum ({max}): {range}")
            }
            Self::Reversed { start, end, range } => {
                write!(f, "beginning of range ({start}) beyond end of range ({end}): {range}")
            }
            Self::ZeroStep(range) => {
                write!(f, "step of range should be a positive number: {range}")
            }
        }
    }
}

impl Error for CronError {}

//! Finds the line of a field, for messages.
//!
//! Done on demand, by reading the document once more with positions: most documents never need
//! it, and values with positions would take several times the memory.

pub(super) use karpenter_operator::yaml_lines::Lines;

use super::path::{FieldPath, Step};
use super::{InputLimits, parse};

/// Returns the lines of a document that was read before; `None` if the parser fails.
pub(super) fn field_lines(text: &str) -> Option<Lines> {
    let aliases = parse::AliasBudget::default();
    let options = parse::yaml_options(text, &InputLimits::SNAPSHOT, &aliases);
    serde_saphyr::from_str_with_options(text, options).ok()
}

/// Line of a field, or of the innermost thing around it that exists.
pub(super) fn line_of(lines: &Lines, field: &FieldPath) -> Option<usize> {
    let mut here = lines;
    let mut line = None;
    for step in field.steps() {
        let next = match step {
            Step::Index(index) => here.item(*index),
            Step::Key(key) => here.field(key),
        };
        let Some((found, inner)) = next else { break };
        line = Some(found);
        here = inner;
    }
    line
}

//! The text of a scenario: from YAML to a value, and from a field back to its line.

use karpenter_operator::yaml_limits;
use karpenter_operator::yaml_lines::{Lines, line};
use serde_json::Value;
use serde_saphyr::{Error, MessageFormatter as _, UserMessageFormatter};

use super::{ScenarioError, problem};

/// What a scenario has at its top.
const TOP: &str = "write `name:`, and below it `objects:` and `steps:`";

/// The one document of a text.
pub(super) fn read(text: &str) -> Result<Value, ScenarioError> {
    let value: Value = serde_saphyr::from_str_with_options(text, yaml_limits::parser_options(text))
        .map_err(|error| yaml_error(text, &error))?;
    let found = match &value {
        Value::Object(fields) if fields.contains_key("apiVersion") => {
            let fix = "put it into the list `objects:` of a scenario";
            return Err(problem("", "is a Kubernetes object, and no scenario").with_fix(fix));
        }
        Value::Object(_) => return Ok(value),
        Value::Null => "is empty",
        Value::Array(_) => "is a list",
        _ => "is a single value",
    };
    Err(problem("", found).with_fix(TOP))
}

/// Explains why a text is not exactly one YAML document.
fn yaml_error(text: &str, error: &Error) -> ScenarioError {
    let error = error.without_snippet();
    let error = match error {
        Error::AliasError { error, .. } => error,
        other => other,
    };
    let line = error.location().map(|location| line(&location)).filter(|line| *line > 0);
    let found = match error {
        Error::MultipleDocuments { .. } => {
            let separator = second_document(text);
            return problem("", "has more than one document (`---`)")
                .with_fix("keep one, and make a file of each other scenario")
                .at_line(separator.or(line));
        }
        Error::Eof { .. } => problem("", "is empty").with_fix(TOP),
        Error::DuplicateMappingKey { key, .. } => {
            let key = key.as_deref().unwrap_or_default();
            problem(key, "is given twice in one mapping").with_fix("keep one of the two")
        }
        Error::UnknownAnchor { .. } => problem("", "has an alias (`*name`) without its anchor")
            .with_fix("write `&name` before the value that it stands for, above the alias"),
        Error::NonFiniteFloat { .. } => problem("", "has a number that is infinite or none")
            .with_fix("put it in quotes if it is a text"),
        Error::Budget { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. } => {
            problem("", "holds too many or too deeply nested values").with_fix(
                "look for aliases that multiply, and leave out what the scenario does not need",
            )
        }
        other => {
            let message = UserMessageFormatter.format_message(other).into_owned();
            let fix = if message.contains("tab") {
                "indent with spaces"
            } else {
                "check the indentation, quotes and brackets of this line and the ones above it"
            };
            problem("", format!("is not YAML: {message}")).with_fix(fix)
        }
    };
    found.at_line(line)
}

/// The line of the `---` that ends the first document.
fn second_document(text: &str) -> Option<usize> {
    let mut has_content = false;
    for (index, line) in text.lines().enumerate() {
        if line == "---" || line.starts_with("--- ") {
            if has_content {
                return Some(index + 1);
            }
        } else if !line.trim().is_empty() && !line.starts_with(['#', '%']) {
            has_content = true;
        }
    }
    None
}

/// The line of a place such as `steps[2].at`, or of the innermost thing around it that is there.
pub(super) fn line_of(text: &str, place: &str) -> Option<usize> {
    let options = yaml_limits::parser_options(text);
    let top: Lines = serde_saphyr::from_str_with_options(text, options).ok()?;
    let mut here = &top;
    let mut found = None;
    for step in place.split(['.', '[']) {
        let index = step.trim_end_matches(']').parse::<usize>().ok();
        let item = index.and_then(|index| here.item(index));
        let Some((line, inner)) = item.or_else(|| here.field(step)) else { break };
        found = Some(line);
        here = inner;
    }
    found
}

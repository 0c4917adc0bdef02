//! Turns errors of serde into texts for authors of scenarios, and suggests names.

use super::ScenarioError;
use super::problem;

/// Returns serde's error about the value at `place` as finding and fix.
pub(super) fn explain(place: &str, message: &str) -> ScenarioError {
    let mut quoted = message.split('`').skip(1).step_by(2);
    if message.starts_with("missing field") {
        let field = quoted.next().unwrap_or_default();
        let place = if matches!(place, "" | ".") { field } else { &format!("{place}.{field}") };
        return problem(place, "is missing").with_fix(format!("add `{field}:`"));
    }
    if message.starts_with("unknown field") {
        let field = quoted.next().unwrap_or_default();
        let known: Vec<&str> = quoted.collect();
        return problem(place, "is no field here").with_fix(suggestion(field, &known));
    }
    let wrong = ["invalid type: ", "invalid value: ", "invalid length "]
        .into_iter()
        .find_map(|start| message.strip_prefix(start))
        .and_then(|rest| rest.rsplit_once(", expected "));
    match wrong {
        Some((found, expected)) => problem(place, format!("is {}", found_text(found)))
            .with_fix(format!("use {}", expected_text(expected))),
        None => problem(place, message),
    }
}

/// Returns serde's description of the found value in plain words.
/// Serde writes ``integer `-1` ``, `string "x"`, `sequence`.
fn found_text(found: &str) -> String {
    let value = found.split_once('`').map(|(_, rest)| rest.trim_end_matches('`'));
    match (found.split(' ').next().unwrap_or_default(), value) {
        ("integer" | "floating" | "boolean", Some(value)) => value.to_owned(),
        ("string", _) => format!("the text {}", found.trim_start_matches("string ")),
        ("sequence", _) => "a list".to_owned(),
        ("map", _) => "a mapping".to_owned(),
        ("null" | "unit", _) => "empty".to_owned(),
        _ => found.to_owned(),
    }
}

/// Returns serde's description of the expected type in plain words.
fn expected_text(expected: &str) -> &str {
    match expected {
        "f64" => "a number",
        "a string" => "a text; in quotes, if it looks like a number",
        "a sequence" => "a list",
        "a map" => "a mapping, `name: value`",
        other if other.starts_with("struct ") => "a mapping, `field: value`",
        other => other,
    }
}

/// Returns the fix for an unknown name: near or known names.
pub(super) fn suggestion<S: AsRef<str>>(name: &str, known: &[S]) -> String {
    let list = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        match names.as_slice() {
            [] => String::new(),
            [only] => only.clone(),
            [most @ .., last] => format!("{} or {last}", most.join(", ")),
        }
    };
    let near = nearest(name, known);
    let known: Vec<&str> = known.iter().map(AsRef::as_ref).collect();
    match (near.as_slice(), known.len()) {
        ([], ..=MOST_LISTED) => format!("use {}", list(&known)),
        ([], _) => {
            let step = known.len() / EXAMPLES;
            let some: Vec<&str> = known.into_iter().step_by(step).take(EXAMPLES).collect();
            format!("use a name such as {}", list(&some))
        }
        (near, ..=MOST_LISTED) => format!("use {}; there are {}", list(near), known.join(", ")),
        (near, _) => format!("use {}", list(near)),
    }
}

/// More names than these are not listed.
const MOST_LISTED: usize = 16;

/// How many names stand for many.
const EXAMPLES: usize = 3;

/// Those of the known names that may have been meant, the nearest first.
fn nearest<'a, S: AsRef<str>>(name: &str, known: &'a [S]) -> Vec<&'a str> {
    let most = (name.chars().count() / 4).max(2);
    let mut near: Vec<(usize, &str)> = known
        .iter()
        .map(|known| {
            (distance(&name.to_lowercase(), &known.as_ref().to_lowercase()), known.as_ref())
        })
        .filter(|(distance, known)| *distance <= most.min(known.len() / 2))
        .collect();
    near.sort_unstable();
    let best = near.first().map_or(0, |(distance, _)| *distance);
    near.into_iter()
        .filter(|(distance, _)| *distance == best)
        .take(EXAMPLES)
        .map(|(_, known)| known)
        .collect()
}

/// How many characters have to be added, taken away or changed to get from one to the other.
fn distance(from: &str, to: &str) -> usize {
    /// Longer names are compared by their first characters only.
    const LONGEST: usize = 256;
    let to: Vec<char> = to.chars().take(LONGEST).collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (index, from) in from.chars().take(LONGEST).enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for (column, to) in to.iter().enumerate() {
            let changed = diagonal + usize::from(from != *to);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggestions_contain_only_near_names_nearest_first() {
        let known = ["on-demand", "spot"];
        for (name, expected) in [
            ("sport", "use `spot`; there are on-demand, spot"),
            ("On-Demand", "use `on-demand`; there are on-demand, spot"),
            ("ondemand", "use `on-demand`; there are on-demand, spot"),
            ("reserved", "use `on-demand` or `spot`"),
            ("", "use `on-demand` or `spot`"),
        ] {
            assert_eq!(suggestion(name, &known), expected, "{name}");
        }
        let many: Vec<String> = (0..100).map(|number| format!("type-{number:02}x")).collect();
        assert_eq!(suggestion("type-17", &many), "use `type-17x`");
        assert_eq!(
            suggestion("m5.large", &many),
            "use a name such as `type-00x`, `type-33x` or `type-66x`"
        );
    }

    #[test]
    fn distances_count_single_characters() {
        for (from, to, expected) in [
            ("", "", 0),
            ("abc", "abc", 0),
            ("abc", "ac", 1),
            ("ac", "abc", 1),
            ("abc", "axc", 1),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(distance(from, to), expected, "{from} {to}");
        }
    }
}

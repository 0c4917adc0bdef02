//! Evaluates the methods of strings.
//!
//! The library has them too, but differs in corners that rules do reach: an empty separator, a
//! negative count, and the message for an index out of range. Indexes count characters.

use crate::{CostBudget, Error, Val};

/// Calls a method on `text`; `None` for one that is not of strings.
pub(crate) fn call<'a>(
    method: &str,
    text: &str,
    args: &[Val<'a>],
    budget: &mut CostBudget,
) -> Option<Result<Val<'a>, Error>> {
    if let Err(error) = budget.charge_text(text) {
        return Some(Err(error));
    }
    Some(match (method, args) {
        ("charAt", [Val::Int(index)]) => char_at(text, *index).map(Val::text),
        ("indexOf", [Val::String(part)]) => index_of(text, part, 0).map(Val::Int),
        ("indexOf", [Val::String(part), Val::Int(from)]) => {
            index_of(text, part, *from).map(Val::Int)
        }
        ("lastIndexOf", [Val::String(part)]) => last_index_of(text, part, None).map(Val::Int),
        ("lastIndexOf", [Val::String(part), Val::Int(from)]) => {
            last_index_of(text, part, Some(*from)).map(Val::Int)
        }
        ("lowerAscii", []) => Ok(Val::text(text.to_ascii_lowercase())),
        ("upperAscii", []) => Ok(Val::text(text.to_ascii_uppercase())),
        ("trim", []) => Ok(Val::text(text.trim())),
        ("replace", [Val::String(old), Val::String(new)]) => replace(text, old, new, -1, budget),
        ("replace", [Val::String(old), Val::String(new), Val::Int(times)]) => {
            replace(text, old, new, *times, budget)
        }
        ("split", [Val::String(separator)]) => Ok(split(text, separator, -1)),
        ("split", [Val::String(separator), Val::Int(limit)]) => Ok(split(text, separator, *limit)),
        ("substring", [Val::Int(start)]) => substring(text, *start, None),
        ("substring", [Val::Int(start), Val::Int(end)]) => substring(text, *start, Some(*end)),
        _ => return None,
    })
}

fn out_of_range(index: i64) -> Error {
    Error::new(format!("index out of range: {index}"))
}

/// A position in a text of `length` characters; its end is one too.
fn position(index: i64, length: usize) -> Result<usize, Error> {
    usize::try_from(index)
        .ok()
        .filter(|position| *position <= length)
        .ok_or_else(|| out_of_range(index))
}

fn char_at(text: &str, index: i64) -> Result<String, Error> {
    let position = position(index, text.chars().count())?;
    Ok(text.chars().nth(position).map(String::from).unwrap_or_default())
}

fn to_cel_int(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn index_of(text: &str, part: &str, from: i64) -> Result<i64, Error> {
    if part.is_empty() {
        return Ok(from);
    }
    let skipped = usize::try_from(from).map_err(|_| out_of_range(from))?;
    let Some((start, _)) = text.char_indices().nth(skipped) else { return Ok(-1) };
    let found = text[start..].find(part);
    Ok(found.map_or(-1, |at| from + to_cel_int(text[start..start + at].chars().count())))
}

fn last_index_of(text: &str, part: &str, from: Option<i64>) -> Result<i64, Error> {
    let length = text.chars().count();
    if part.is_empty() {
        return Ok(from.unwrap_or(to_cel_int(length)));
    }
    // The offset is where a match may start at the latest.
    let end = match from {
        None => text.len(),
        Some(from) => {
            let latest = usize::try_from(from).map_err(|_| out_of_range(from))?;
            let Some((start, _)) = text.char_indices().nth(latest) else { return Ok(-1) };
            (start + part.len()).min(text.len())
        }
    };
    // The end may fall into a character when the text goes on differently than the part.
    let end = (end..=text.len()).find(|end| text.is_char_boundary(*end)).unwrap_or(text.len());
    let found = text[..end].rfind(part);
    Ok(found.map_or(-1, |at| to_cel_int(text[..at].chars().count())))
}

fn replace<'a>(
    text: &str,
    old: &str,
    new: &str,
    times: i64,
    budget: &mut CostBudget,
) -> Result<Val<'a>, Error> {
    let replaced = match usize::try_from(times) {
        Ok(times) => text.replacen(old, new, times),
        Err(_) => text.replace(old, new), // a negative count is none
    };
    budget.charge_text(&replaced)?;
    Ok(Val::text(replaced))
}

fn split<'a>(text: &str, separator: &str, limit: i64) -> Val<'a> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let parts = |parts: &mut dyn Iterator<Item = String>| Val::list(parts.map(Val::text).collect());
    match (limit, separator) {
        (0, _) => parts(&mut std::iter::empty()),
        // An empty separator takes the text apart into characters; the last part is the rest.
        (limit, "") => {
            let length = text.chars().count();
            let single = length.min(limit.saturating_sub(1));
            let rest: String = text.chars().skip(single).collect();
            let rest = (!rest.is_empty()).then_some(rest);
            parts(&mut text.chars().take(single).map(String::from).chain(rest))
        }
        (limit, separator) => parts(&mut text.splitn(limit, separator).map(str::to_owned)),
    }
}

fn substring<'a>(text: &str, start: i64, end: Option<i64>) -> Result<Val<'a>, Error> {
    let length = text.chars().count();
    if let Some(end) = end.filter(|end| start > *end) {
        return Err(Error::new(format!("invalid substring range. start: {start}, end: {end}")));
    }
    let first = position(start, length)?;
    let end = end.map_or(Ok(length), |end| position(end, length))?;
    Ok(Val::text(text.chars().skip(first).take(end - first).collect::<String>()))
}

//! Booleans and numbers as Go reads them.

/// The texts that Go's `strconv.ParseBool` takes.
pub(in crate::options) fn go_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

/// A number in decimal or with one of Go's prefixes.
pub(super) fn go_int(text: &str) -> Option<i64> {
    if let Ok(number) = text.parse() {
        return Some(number);
    }
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let (radix, digits) = match digits.get(..2)?.to_ascii_lowercase().as_str() {
        "0x" => (16, &digits[2..]),
        "0o" => (8, &digits[2..]),
        "0b" => (2, &digits[2..]),
        _ => return None,
    };
    // A second sign would be read as well.
    digits.starts_with(|c: char| c.is_ascii_hexdigit()).then_some(())?;
    i64::from_str_radix(&format!("{sign}{digits}"), radix).ok()
}

//! Durations in Go's notation.

/// Returns whether the text is a duration such as `1h30m`.
pub fn is_go_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    if rest.is_empty() {
        return false;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let number = &rest[..digits];
        if !number.bytes().any(|b| b.is_ascii_digit()) || number.matches('.').count() > 1 {
            return false;
        }
        let unit = &rest[digits..];
        let length = unit.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(unit.len());
        if !["ns", "us", "µs", "μs", "ms", "s", "m", "h"].contains(&&unit[..length]) {
            return false;
        }
        rest = &unit[length..];
    }
    true
}

//! Parses and writes lists of indexes as the Job status has them: `0,2-4,7`.

use std::collections::BTreeSet;
use std::fmt::Write as _;

/// The limit of indexes; larger ones in a status are ignored.
/// No Job has them, so another client has written that status.
const MAX_INDEX: i32 = 100_000;

pub(super) fn parse(text: &str) -> BTreeSet<i32> {
    let mut indexes = BTreeSet::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<i32>(), last.parse::<i32>())
            && first >= 0
            && last < MAX_INDEX
        {
            indexes.extend(first..=last);
        }
    }
    indexes
}

pub(super) fn write(indexes: &BTreeSet<i32>) -> String {
    let mut text = String::new();
    let mut rest = indexes.iter().copied().peekable();
    while let Some(first) = rest.next() {
        let mut last = first;
        while rest.peek() == Some(&(last + 1)) {
            last += 1;
            rest.next();
        }
        if !text.is_empty() {
            text.push(',');
        }
        // Two in a row are written one by one.
        let _infallible = match last - first {
            0 => write!(text, "{first}"),
            1 => write!(text, "{first},{last}"),
            _ => write!(text, "{first}-{last}"),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_lists_survive_a_round_trip() {
        for (indexes, text) in [
            (vec![], ""),
            (vec![0], "0"),
            (vec![0, 1], "0,1"),
            (vec![0, 1, 2], "0-2"),
            (vec![0, 2, 3, 4, 7], "0,2-4,7"),
        ] {
            let indexes: BTreeSet<i32> = indexes.into_iter().collect();
            assert_eq!(write(&indexes), text);
            assert_eq!(parse(text), indexes, "{text}");
        }
        assert!(parse("x,-3,5-2,0-999999999").is_empty());
    }
}

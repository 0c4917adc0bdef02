//! Stores pairs of keys and values in one text. 100,000 pods have over a million pairs, which would
//! take more memory than the pods if each was an allocation of its own.

/// Pairs of strings, in the order of insertion.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct StringPairs {
    text: Box<str>,
    /// Where each key and each value ends in `text`, in turn.
    ends: Box<[u32]>,
}

impl StringPairs {
    /// The value of the first pair with that key.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.iter().find(|(found, _)| *found == key).map(|(_, value)| value)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut start = 0;
        let mut next = move |end: u32| {
            let end = usize::try_from(end).unwrap_or(usize::MAX);
            let part = self.text.get(start..end).unwrap_or_default();
            start = end;
            part
        };
        self.ends.chunks_exact(2).map(move |ends| (next(ends[0]), next(ends[1])))
    }
}

impl<K: AsRef<str>, V: AsRef<str>> FromIterator<(K, V)> for StringPairs {
    /// Objects have a few megabytes at most; what would not fit any more is left out.
    fn from_iter<T: IntoIterator<Item = (K, V)>>(pairs: T) -> Self {
        let (mut text, mut ends) = (String::new(), Vec::new());
        for (key, value) in pairs {
            let key_end = text.len() + key.as_ref().len();
            let end = key_end + value.as_ref().len();
            let (Ok(key_end), Ok(end)) = (u32::try_from(key_end), u32::try_from(end)) else {
                break;
            };
            text.push_str(key.as_ref());
            text.push_str(value.as_ref());
            ends.extend([key_end, end]);
        }
        Self { text: text.into(), ends: ends.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn string_pairs_round_trip_in_order() {
        let given = [("app", "web"), ("", ""), ("zone", ""), ("é", "ü\0"), ("app", "other")];
        let pairs: StringPairs = given.into_iter().collect();
        assert_eq!(pairs.iter().collect::<Vec<_>>(), given);
        assert_eq!(pairs.get("app"), Some("web"));
        assert_eq!(pairs.get("zone"), Some(""));
        assert_eq!(pairs.get("web"), None);
        assert_eq!(StringPairs::default().get(""), None);
    }
}

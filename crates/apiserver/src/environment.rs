//! The environment gives the API server its inputs from outside: the time and unique numbers.

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::temporal::DateTimePrinter;

/// The time and chance of an API. A simulated world gives its own, so that it repeats itself.
pub trait Environment: fmt::Debug + Send + Sync {
    fn now(&self) -> Timestamp;

    /// Ends after that long: watches time out and send bookmarks by it.
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>>;

    /// Bits for uids and generated names.
    fn random(&self) -> u128;
}

/// A time as Kubernetes writes it: whole seconds, UTC.
pub(crate) fn rfc3339(time: Timestamp) -> String {
    let seconds = Timestamp::from_second(time.as_second()).unwrap_or(time);
    DateTimePrinter::new().timestamp_to_string(&seconds)
}

/// A version 4 UUID of these bits.
pub(crate) fn uuid(bits: u128) -> String {
    let bits = (bits & !(0xf << 76) & !(0x3 << 62)) | (0x4 << 76) | (0x2 << 62);
    let hex = format!("{bits:032x}");
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

/// Returns five letters and digits as Kubernetes appends them to `metadata.generateName`. There are
/// no vowels, so that the suffix spells no word.
pub(crate) fn generated_name_suffix(mut bits: u128) -> String {
    const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut suffix = String::with_capacity(5);
    for _ in 0..5 {
        let letter = usize::try_from(bits % 27).expect("below 27");
        suffix.push(char::from(ALPHABET[letter]));
        bits /= 27;
    }
    suffix
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_have_version_4() {
        assert_eq!(uuid(0), "00000000-0000-4000-8000-000000000000");
        assert_eq!(uuid(u128::MAX), "ffffffff-ffff-4fff-bfff-ffffffffffff");
    }

    #[test]
    fn suffixes_have_five_letters() {
        assert_eq!(generated_name_suffix(0), "bbbbb");
        assert_eq!(generated_name_suffix(u128::MAX).len(), 5);
    }

    #[test]
    fn times_are_truncated_to_seconds() {
        let time = "2026-11-15T10:00:00.999Z".parse().unwrap();
        assert_eq!(rfc3339(time), "2026-11-15T10:00:00Z");
    }
}

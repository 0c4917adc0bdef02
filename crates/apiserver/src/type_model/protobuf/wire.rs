//! The wire format: tags, numbers and runs of bytes. Errors have the words of the decoders that are
//! generated for Kubernetes' types.

use std::borrow::Cow;

/// Reads the protobuf wire format: the bytes that are still unread.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WireReader<'a>(&'a [u8]);

/// The tag of a field: its number and the wire type of its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tag {
    pub(crate) number: u32,
    pub(crate) wire_type: u8,
}

pub(crate) const VARINT: u8 = 0;
pub(crate) const FIXED_64: u8 = 1;
pub(crate) const BYTES: u8 = 2;
const GROUP: u8 = 3;
const END_OF_GROUP: u8 = 4;
const FIXED_32: u8 = 5;

impl Tag {
    /// Whether the value is written in the form that the `field` has.
    pub(crate) fn check(self, form: u8, field: &str) -> Result<(), String> {
        if self.wire_type == form {
            return Ok(());
        }
        Err(format!("proto: wrong wireType = {} for field {field}", self.wire_type))
    }
}

impl<'a> WireReader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The tag of the next field of a `message`.
    pub(crate) fn tag(&mut self, message: &str) -> Result<Tag, String> {
        let (number, wire_type, wire) = self.any_tag()?;
        if wire_type == END_OF_GROUP {
            return Err(format!("proto: {message}: wiretype end group for non-group"));
        }
        match u32::try_from(number) {
            Ok(number) if number > 0 => Ok(Tag { number, wire_type }),
            _ => Err(format!("proto: {message}: illegal tag {number} (wire type {wire})")),
        }
    }

    fn any_tag(&mut self) -> Result<(i32, u8, u64), String> {
        let wire = self.varint()?;
        let [low, ..] = wire.to_le_bytes();
        Ok((low_32(wire >> 3), low & 7, wire))
    }

    pub(crate) fn varint(&mut self) -> Result<u64, String> {
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let [byte] = self.array()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err("proto: integer overflow".to_owned())
    }

    /// A number of 32 bits, which may have come with more.
    pub(crate) fn int32(&mut self) -> Result<i32, String> {
        self.varint().map(low_32)
    }

    pub(crate) fn int64(&mut self) -> Result<i64, String> {
        self.varint().map(u64::cast_signed)
    }

    pub(crate) fn double(&mut self) -> Result<f64, String> {
        self.array().map(f64::from_le_bytes)
    }

    /// Bytes that come with their length.
    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], String> {
        let length = i64::try_from(self.varint()?)
            .map_err(|_| "proto: negative length found during unmarshaling".to_owned())?;
        let length = usize::try_from(length).map_err(|_| unexpected_eof())?;
        let (bytes, rest) = self.0.split_at_checked(length).ok_or_else(unexpected_eof)?;
        self.0 = rest;
        Ok(bytes)
    }

    /// Skips a field after its tag, with all fields within it if it is a group.
    pub(crate) fn skip(&mut self, tag: Tag) -> Result<(), String> {
        let mut form = tag.wire_type;
        let mut depth = 0_usize;
        loop {
            match form {
                VARINT => drop(self.varint()?),
                FIXED_64 => drop(self.array::<8>()?),
                BYTES => drop(self.bytes()?),
                FIXED_32 => drop(self.array::<4>()?),
                GROUP => depth += 1,
                END_OF_GROUP => {
                    depth =
                        depth.checked_sub(1).ok_or("proto: unexpected end of group".to_owned())?;
                }
                other => return Err(format!("proto: illegal wireType {other}")),
            }
            if depth == 0 {
                return Ok(());
            }
            form = self.any_tag()?.1;
        }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or_else(unexpected_eof)?;
        self.0 = rest;
        Ok(*bytes)
    }
}

fn unexpected_eof() -> String {
    "unexpected EOF".to_owned()
}

fn low_32(number: u64) -> i32 {
    let [a, b, c, d, ..] = number.to_le_bytes();
    i32::from_le_bytes([a, b, c, d])
}

/// Returns the bytes as text, with each invalid byte replaced. The bytes may not be UTF-8, and Go
/// replaces invalid ones byte by byte when it writes JSON.
pub(crate) fn utf8_lossy(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return text.into();
    }
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_are_read_in_groups_of_seven_bits() {
        for (bytes, expected) in [
            (&[0][..], Ok(0)),
            (&[0xac, 2], Ok(300)),
            (&[0xff; 10], Err("proto: integer overflow")),
            (&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1], Ok(u64::MAX)),
            (&[0x80], Err("unexpected EOF")),
            (&[], Err("unexpected EOF")),
        ] {
            let found = WireReader::new(bytes).varint();
            assert_eq!(found.as_ref().map_err(String::as_str).copied(), expected, "{bytes:?}");
        }
    }

    #[test]
    fn int32_values_may_be_negative_and_overlong() {
        for (bytes, expected) in [
            (&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1][..], -1),
            (&[0xff, 0xff, 0xff, 0xff, 0x0f], -1),
            (&[0x80, 0x80, 0x80, 0x80, 0x10], 0),
            (&[7], 7),
        ] {
            assert_eq!(WireReader::new(bytes).int32(), Ok(expected), "{bytes:?}");
        }
    }

    #[test]
    fn a_length_beyond_the_end_is_rejected() {
        for (bytes, expected) in [
            (&[3, b'a', b'b'][..], "unexpected EOF"),
            (&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f], "unexpected EOF"),
            (
                &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
                "proto: negative length found during unmarshaling",
            ),
        ] {
            assert_eq!(WireReader::new(bytes).bytes().unwrap_err(), expected, "{bytes:?}");
        }
    }

    #[test]
    fn invalid_tags_are_rejected() {
        for (bytes, expected) in [
            (&[0][..], "proto: Pod: illegal tag 0 (wire type 0)"),
            (&[0x0c], "proto: Pod: wiretype end group for non-group"),
            (&[0xf8, 0xff, 0xff, 0xff, 0x7f], "proto: Pod: illegal tag -1 (wire type 34359738360)"),
        ] {
            assert_eq!(WireReader::new(bytes).tag("Pod").unwrap_err(), expected, "{bytes:?}");
        }
    }

    #[test]
    fn fields_of_every_wire_type_can_be_skipped() {
        // A group of field 1 with a varint, a group, bytes and fixed ones in it; then a zero.
        let mut wire = WireReader::new(&[
            0x0b, 0x10, 0x96, 0x01, 0x0b, 0x0c, 0x12, 2, 9, 9, 0x15, 1, 2, 3, 4, 0x11, 1, 2, 3, 4,
            5, 6, 7, 8, 0x0c, 0,
        ]);
        let tag = wire.tag("Pod").unwrap();
        wire.skip(tag).unwrap();
        assert_eq!(wire.varint(), Ok(0));
        assert!(wire.is_empty());
    }

    #[test]
    fn malformed_fields_cannot_be_skipped() {
        for (bytes, expected) in [
            (&[0x0b][..], "unexpected EOF"),
            (&[0x0e], "proto: illegal wireType 6"),
            (&[0x0d, 1, 2, 3], "unexpected EOF"),
            (&[0x0b; 10_000], "unexpected EOF"),
        ] {
            let mut wire = WireReader::new(bytes);
            let tag = wire.tag("Pod").unwrap();
            assert_eq!(wire.skip(tag).unwrap_err(), expected, "{bytes:?}");
        }
    }

    #[test]
    fn invalid_utf8_bytes_are_replaced_one_by_one() {
        assert_eq!(utf8_lossy(b"a\xffb\xe2\x82"), "a\u{fffd}b\u{fffd}\u{fffd}");
        assert_eq!(utf8_lossy("ä".as_bytes()), "ä");
    }
}

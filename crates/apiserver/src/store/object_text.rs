//! The JSON text of a stored object, which shares equal parts with other objects: pods of one
//! workload have the same containers, and the same managers own the same fields of them.
//!
//! ```text
//! {"metadata":{"name":"a",…,"fieldsV1":│     │},"spec":{…│     │,"nodeName":"b"}}   own bytes
//!                                      └──┬──┘          └──┬──┘
//!                              what others have, too: one copy for all
//! ```
//!
//! The pool finds these parts itself. It stores a part separately when a second object has it, the
//! largest such part first. A part that only one object has, in all its versions, stays in that
//! object's own bytes.

use std::collections::BTreeMap;
use std::hash::Hasher as _;
use std::sync::Arc;

use bytes::Bytes;
use rustc_hash::FxHasher;
use serde_json::Value;

use super::ObjectKey;

/// The smallest part that is worth its keeping: one costs some sixty bytes beside the text.
const PART_BYTES_MIN: usize = 128;

/// The number of recently seen parts that the pool remembers, 16 bytes each. By them it notices
/// that a part occurs again.
const SEEN_PARTS_MAX: usize = 1 << 15;

/// The number of shared parts below which the pool does not sweep unused ones.
const SWEEP_MIN: usize = 1 << 12;

/// The JSON text of one object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ObjectText {
    own: Box<[u8]>,
    /// Parts that other objects have too, and the offset in the own bytes before which each
    /// belongs.
    shared: Box<[(u32, Arc<[u8]>)]>,
}

impl ObjectText {
    /// Returns a text that shares no parts.
    pub(crate) fn unshared(value: &Value) -> Self {
        Self { own: value.to_string().into_bytes().into(), shared: Box::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.own.len() + self.shared.iter().map(|(_, part)| part.len()).sum::<usize>()
    }

    /// What goes when the text goes.
    pub(super) fn own_len(&self) -> usize {
        self.own.len()
    }

    /// The text in pieces, in order.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let mut from = 0;
        let pieces = self.shared.iter().flat_map(move |(before, part)| {
            let to = index(*before);
            let own = &self.own[from..to];
            from = to;
            [own, &**part]
        });
        let last = self.shared.last().map_or(0, |(before, _)| index(*before));
        pieces.chain([&self.own[last..]])
    }

    pub(crate) fn to_vec(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len());
        self.pieces().for_each(|piece| bytes.extend_from_slice(piece));
        bytes
    }

    pub(crate) fn to_bytes(&self) -> Bytes {
        self.to_vec().into()
    }
}

fn index(at: u32) -> usize {
    usize::try_from(at).unwrap_or(usize::MAX)
}

/// The parts of JSON texts that objects share.
#[derive(Debug)]
pub(super) struct TextPool {
    /// By hash. A part that no object uses any more stays until the next sweep.
    shared: BTreeMap<u64, Arc<[u8]>>,
    sweep_at: usize,
    /// Recently seen parts, at the index that the hash gives: a new part replaces the one at its
    /// index.
    seen: Box<[SeenPart]>,
    /// A buffer for the text that is being written.
    text: Vec<u8>,
    parts: Vec<PartRange>,
}

/// The hashes of a part and of the object that had it.
#[derive(Debug, Clone, Copy, Default)]
struct SeenPart {
    part: u64,
    object: u64,
}

/// The byte range of a part in a text.
#[derive(Debug, Clone, Copy)]
struct PartRange {
    from: usize,
    to: usize,
}

impl TextPool {
    pub(super) fn new() -> Self {
        Self {
            shared: BTreeMap::new(),
            sweep_at: SWEEP_MIN,
            seen: vec![SeenPart::default(); SEEN_PARTS_MAX].into(),
            text: Vec::new(),
            parts: Vec::new(),
        }
    }

    /// Returns the text of the object at `key`, which shares parts with others.
    pub(super) fn intern(&mut self, key: &ObjectKey, value: &Value) -> ObjectText {
        let (mut text, mut parts) =
            (std::mem::take(&mut self.text), std::mem::take(&mut self.parts));
        text.clear();
        parts.clear();
        write(value, &mut text, &mut parts);

        let object = hash(key.as_str().as_bytes());
        let mut own = Vec::with_capacity(text.len());
        let mut shared = Vec::new();
        let mut done = 0;
        // The first part is the object itself, which no other object has.
        for part in parts.iter().skip(1) {
            if part.from < done {
                continue;
            }
            if let Some(common) = self.shared_part(object, &text[part.from..part.to]) {
                own.extend_from_slice(&text[done..part.from]);
                // Objects have a few megabytes at most.
                let Ok(before) = u32::try_from(own.len()) else { break };
                shared.push((before, common));
                done = part.to;
            }
        }
        own.extend_from_slice(&text[done..]);
        (self.text, self.parts) = (text, parts);
        self.sweep();
        // A copy of its size, since one that has grown has room for as much again. Shrunk where it
        // is, it would leave a hole behind it that nothing of this size fits into.
        ObjectText { own: own.as_slice().into(), shared: shared.into() }
    }

    /// Returns the shared copy of a part that another object has or had recently.
    fn shared_part(&mut self, object: u64, part: &[u8]) -> Option<Arc<[u8]>> {
        let hash = hash(part);
        if let Some(known) = self.shared.get(&hash) {
            // Another part of the same hash, which is next to impossible, is not shared.
            return (**known == *part).then(|| known.clone());
        }
        let place = usize::try_from(hash).unwrap_or(usize::MAX) % SEEN_PARTS_MAX;
        let seen = std::mem::replace(&mut self.seen[place], SeenPart { part: hash, object });
        if seen.part != hash || seen.object == object {
            return None;
        }
        let shared: Arc<[u8]> = part.into();
        self.shared.insert(hash, shared.clone());
        Some(shared)
    }

    /// Drops the parts that no object uses any more, on average when that is half of them.
    fn sweep(&mut self) {
        if self.shared.len() >= self.sweep_at {
            self.shared.retain(|_, part| Arc::strong_count(part) > 1);
            self.sweep_at = (self.shared.len() * 2).max(SWEEP_MIN);
        }
    }
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(bytes);
    hasher.finish()
}

/// Appends the text of a value, as `to_string` makes it, and notes the ranges of its larger
/// parts, those that contain others first.
fn write(value: &Value, text: &mut Vec<u8>, parts: &mut Vec<PartRange>) {
    let (part, from) = (parts.len(), text.len());
    match value {
        Value::Object(fields) => {
            parts.push(PartRange { from, to: from });
            text.push(b'{');
            for (at, (name, value)) in fields.iter().enumerate() {
                if at > 0 {
                    text.push(b',');
                }
                write_plain(name, text);
                text.push(b':');
                write(value, text, parts);
            }
            text.push(b'}');
        }
        Value::Array(items) => {
            parts.push(PartRange { from, to: from });
            text.push(b'[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    text.push(b',');
                }
                write(item, text, parts);
            }
            text.push(b']');
        }
        scalar => return write_plain(scalar, text),
    }
    if text.len() - from < PART_BYTES_MIN {
        // The parts within it are smaller still.
        parts.truncate(part);
    } else {
        parts[part].to = text.len();
    }
}

fn write_plain(value: &(impl serde::Serialize + ?Sized), text: &mut Vec<u8>) {
    serde_json::to_writer(text, value).expect("memory takes any text");
}

#[cfg(test)]
mod tests;

//! Which volumes the end of a node waits for (spec 40 §2.5).

use std::collections::BTreeSet;

use jiff::Timestamp;

/// A VolumeAttachment of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attachment<'a> {
    /// Its name.
    pub name: &'a str,
    /// The PersistentVolume that is attached; none for an inline volume.
    pub volume: Option<&'a str>,
}

/// Whether the volumes of a node are detached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumeDetachment<'a> {
    /// No volume is left that the drain waits for.
    Detached,
    /// These attachments are left.
    Awaiting(Vec<&'a str>),
    /// Some are left, and the deadline has passed.
    TimedOut,
}

/// Returns whether the volumes of a node are detached.
/// Volumes of pods that stay to the end (`kept`, by name of the PersistentVolume) detach with the
/// node and do not count.
pub fn volume_detachment<'a>(
    attachments: &[Attachment<'a>],
    kept: &BTreeSet<&str>,
    deadline: Option<Timestamp>,
    now: Timestamp,
) -> VolumeDetachment<'a> {
    let is_pending = |volume: &str| !kept.contains(volume);
    let pending = attachments.iter().filter(|attachment| attachment.volume.is_some_and(is_pending));
    let pending: Vec<_> = pending.map(|attachment| attachment.name).collect();
    if pending.is_empty() {
        VolumeDetachment::Detached
    } else if deadline.is_some_and(|deadline| now > deadline) {
        VolumeDetachment::TimedOut
    } else {
        VolumeDetachment::Awaiting(pending)
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    #[test]
    fn termination_waits_for_volumes_of_evicted_pods_until_the_deadline() {
        let now = Timestamp::UNIX_EPOCH;
        let second = SignedDuration::from_secs(1);
        let a = Attachment { name: "a", volume: Some("pv-a") };
        let b = Attachment { name: "b", volume: Some("pv-b") };
        let inline = Attachment { name: "inline", volume: None };
        let awaiting = || VolumeDetachment::Awaiting(vec!["a"]);
        #[rustfmt::skip]
        let cases = [
            ("none",          vec![],       None,               VolumeDetachment::Detached),
            ("40/TM-31",      vec![a],      None,               awaiting()),
            ("40/TM-32",      vec![b],      None,               VolumeDetachment::Detached),
            ("both",          vec![a, b],   None,               awaiting()),
            ("inline",        vec![inline], None,               VolumeDetachment::Detached),
            ("time left",     vec![a],      Some(now),          awaiting()),
            ("40/TM-33",      vec![a],      Some(now - second), VolumeDetachment::TimedOut),
            ("nothing left",  vec![b],      Some(now - second), VolumeDetachment::Detached),
        ];
        let kept = BTreeSet::from(["pv-b"]);
        for (case, attachments, deadline, expected) in cases {
            assert_eq!(volume_detachment(&attachments, &kept, deadline, now), expected, "{case}");
        }
    }
}

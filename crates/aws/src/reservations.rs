//! Capacity reservations: instances that are paid for whether they run or not.

use jiff::{SignedDuration, Timestamp};

mod counts;

pub use counts::ReservationCounts;

/// How long before its end EC2 begins to take back the instances of a capacity block: from then on
/// nothing more is launched into it.
const RECLAIM_BEFORE_END: SignedDuration = SignedDuration::from_mins(40);

/// What was bought, as `status.capacityReservations[].reservationType` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReservationType {
    /// An ordinary reservation, which ends when its owner says so.
    Default,
    /// A capacity block, which ends at a fixed time together with its instances.
    CapacityBlock,
}

/// Whether a reservation can still be launched into, as `…[].state` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReservationState {
    /// It can.
    Active,
    /// Its instances are about to be taken back.
    Expiring,
}

/// Only a capacity block expires; of the others, the instances outlive the reservation.
pub fn state(kind: ReservationType, end: Option<Timestamp>, now: Timestamp) -> ReservationState {
    match (kind, end) {
        (ReservationType::CapacityBlock, Some(end))
            if end.duration_since(now) <= RECLAIM_BEFORE_END =>
        {
            ReservationState::Expiring
        }
        _ => ReservationState::Active,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacity_blocks_expire_forty_minutes_before_their_end() {
        use ReservationState::{Active, Expiring};
        use ReservationType::{CapacityBlock, Default};
        let now = Timestamp::UNIX_EPOCH;
        #[rustfmt::skip]
        let cases = [
            (CapacityBlock, Some(39), Expiring),
            (CapacityBlock, Some(40), Expiring),
            (CapacityBlock, Some(41), Active),
            (CapacityBlock, None,     Active),
            (Default,       Some(5),  Active),
        ];
        for (kind, minutes, want) in cases {
            let end = minutes.map(|minutes| now + SignedDuration::from_mins(minutes));
            assert_eq!(
                state(kind, end, now),
                want,
                "10/EC-35: {kind:?} ends in {minutes:?} minutes"
            );
        }
    }
}

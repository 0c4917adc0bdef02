//! The limits of the disruption benchmark.

use super::Row;
use crate::limit::{Bound, Limit};

pub(super) fn disruption_limits(rows: &[Row]) -> Vec<Limit> {
    let row = |name: &str| rows.iter().find(|row| row.name == name);
    let mut limits = Vec::new();
    let mut add = |metric: String, found, bound| limits.push(Limit { metric, value: found, bound });
    let faster = |row: &Row| Some(row.upstream.as_ref()?.seconds / row.first.seconds);
    for name in ["consolidate-500", "consolidate-2000"] {
        let metric = format!("{name}, first command, times faster");
        add(metric, row(name).and_then(faster), Bound::AtLeast(20.0));
    }
    let whole = |row: &Row| Some(row.upstream.as_ref()?.seconds / row.best.seconds);
    add(
        "packed-500, every candidate, times faster".to_owned(),
        row("packed-500").and_then(whole),
        Bound::AtLeast(300.0),
    );
    let large = || row("packed-5000");
    add(
        "packed-5000, every candidate cold, seconds".to_owned(),
        large().map(|row| row.best.seconds),
        Bound::AtMost(5.0),
    );
    add(
        "packed-5000, a pass with nothing changed, milliseconds".to_owned(),
        large().map(|row| row.unchanged_seconds * 1e3),
        Bound::AtMost(50.0),
    );
    add(
        "packed-5000, memory of snapshot and pass, MB".to_owned(),
        large().map(|row| megabytes(row.held_bytes + row.best.memory_bytes)),
        Bound::AtMost(500.0),
    );
    for row in rows {
        let Some(upstream) = &row.upstream else { continue };
        add(
            format!("{}, saving below upstream's", row.name),
            // Sums of the same prices in another order differ in the last digits.
            Some((upstream.savings - row.best.savings - 1e-9).max(0.0)),
            Bound::AtMost(0.0),
        );
    }
    limits
}

#[expect(clippy::cast_precision_loss, reason = "sizes of memory, for people")]
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

//! The limits of the scheduling benchmark.

use super::Row;
use crate::limit::{Bound, Limit};

pub(super) fn scheduling_limits(rows: &[Row]) -> Vec<Limit> {
    let row = |name: &str| rows.iter().find(|row| row.name == name);
    let speed = |name: &str| {
        let row = row(name)?;
        Some(row.upstream.as_ref()?.seconds / row.ours.seconds)
    };
    let memory = |name: &str| {
        let row = row(name)?;
        Some(ratio(row.ours.memory_bytes, row.upstream.as_ref()?.memory_bytes))
    };
    let seconds = |name: &str| Some(row(name)?.ours.seconds);
    let growth = |from: &str, to: &str| Some(seconds(to)? / seconds(from)?);
    let mut limits = Vec::new();
    let mut add = |metric: String, found, bound| limits.push(Limit { metric, value: found, bound });
    for name in ["diverse-kwok-10000", "diverse-400-10000"] {
        add(format!("{name}, times faster"), speed(name), Bound::AtLeast(100.0));
        add(format!("{name}, share of upstream's memory"), memory(name), Bound::AtMost(0.125));
    }
    for name in ["preferences-kwok-respect", "preferences-400-respect"] {
        add(format!("{name}, times faster"), speed(name), Bound::AtLeast(300.0));
    }
    add("plain-kwok-100000, seconds".to_owned(), seconds("plain-kwok-100000"), Bound::AtMost(1.0));
    let megabytes = |name: &str| Some(as_megabytes(row(name)?.ours.memory_bytes));
    add("pathological-pod, seconds".to_owned(), seconds("pathological-pod"), Bound::AtMost(1.0));
    add("pathological-pod, MB".to_owned(), megabytes("pathological-pod"), Bound::AtMost(100.0));
    for types in ["kwok", "400"] {
        let (from, to) = (format!("diverse-{types}-5000"), format!("diverse-{types}-20000"));
        add(format!("{from} to 20000, growth of time"), growth(&from, &to), Bound::AtMost(5.0));
    }
    for row in rows {
        let Some(upstream) = &row.upstream else { continue };
        add(
            format!("{}, nodes beyond upstream's", row.name),
            Some(as_f64(row.ours.nodes) - as_f64(upstream.nodes)),
            Bound::AtMost(0.0),
        );
        add(
            format!("{}, pods without a place beyond upstream's", row.name),
            Some(as_f64(row.ours.unplaced) - as_f64(upstream.unplaced)),
            Bound::AtMost(0.0),
        );
    }
    limits
}

#[expect(clippy::cast_precision_loss, reason = "sizes of memory, for people")]
fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

#[expect(clippy::cast_precision_loss, reason = "sizes of memory, for people")]
fn as_megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

#[expect(clippy::cast_precision_loss, reason = "counts are small")]
fn as_f64(count: usize) -> f64 {
    count as f64
}

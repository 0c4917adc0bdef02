//! Formats amounts and lists as short texts.

use karpenter_core::resources::{MEMORY, Quantity};

use crate::plan::grid::truncate;

/// Joins the first texts, each truncated, and counts the others.
pub(crate) fn join_first<'a>(texts: impl Iterator<Item = &'a str>, count: usize) -> String {
    const SHOWN: usize = 5;
    let mut list: Vec<_> = texts.take(SHOWN).map(truncate_text).collect();
    if count > SHOWN {
        list.push(format!("{} more", count - SHOWN));
    }
    list.join(", ")
}

/// Truncates a user's text to the width of a line.
pub(crate) fn truncate_text(text: &str) -> String {
    const WIDTH: usize = 80;
    truncate(text, WIDTH)
}

/// Formats an amount with its resource: `1.5 cpu`, `512 MiB memory`.
pub(crate) fn resource_amount(name: &str, quantity: Quantity) -> String {
    format!("{} {}", quantity_text(name, quantity), truncate_text(name))
}

/// Formats an amount for users.
#[expect(clippy::cast_precision_loss, reason = "shown with two digits")]
pub(crate) fn quantity_text(name: &str, quantity: Quantity) -> String {
    const UNITS: [(&str, f64); 4] = [
        ("TiB", 1_099_511_627_776.0),
        ("GiB", 1_073_741_824.0),
        ("MiB", 1_048_576.0),
        ("KiB", 1024.0),
    ];
    let is_bytes =
        [MEMORY, "ephemeral-storage", "storage"].contains(&name) || name.starts_with("hugepages-");
    if !is_bytes {
        return short_number(quantity.millis() as f64 / 1000.0);
    }
    let bytes = quantity.units() as f64;
    match UNITS.iter().find(|(_, size)| bytes.abs() >= *size) {
        Some((unit, size)) => format!("{} {unit}", short_number(bytes / size)),
        None => format!("{} B", short_number(bytes)),
    }
}

/// Formats a number with at most two digits after the point, without trailing zeros.
fn short_number(number: f64) -> String {
    if number.abs() >= 1e12 {
        return format!("{number:.2e}"); // more digits would not help
    }
    let text = format!("{number:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

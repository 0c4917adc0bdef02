//! Amounts and lists in a few characters.

use karpenter_core::resources::{MEMORY, Quantity};

use crate::plan::grid::truncate;

/// The first few of a list of so many, each cut where it is long.
pub(crate) fn join_first<'a>(texts: impl Iterator<Item = &'a str>, count: usize) -> String {
    const SHOWN: usize = 5;
    let mut list: Vec<_> = texts.take(SHOWN).map(truncate_text).collect();
    if count > SHOWN {
        list.push(format!("{} more", count - SHOWN));
    }
    list.join(", ")
}

/// A text of a user that may be of any length, cut where nobody would read on.
pub(crate) fn truncate_text(text: &str) -> String {
    const WIDTH: usize = 80;
    truncate(text, WIDTH)
}

/// An amount with its resource, for people: `1.5 cpu`, `512 MiB memory`.
pub(crate) fn resource_amount(name: &str, quantity: Quantity) -> String {
    format!("{} {}", quantity_text(name, quantity), truncate_text(name))
}

/// An amount for people.
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

/// A number with at most two digits after the point, without zeros at the end.
fn short_number(number: f64) -> String {
    if number.abs() >= 1e12 {
        return format!("{number:.2e}"); // nobody counts so many digits
    }
    let text = format!("{number:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

//! Renders selected instance types as text.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use karpenter_api::labels::ARCH;
use karpenter_core::requirement::Requirement;
use karpenter_core::resources::{CPU, MEMORY, Quantity};

use super::selection::{SelectedType, Selection};
use crate::commands::count_noun;
use crate::plan::grid::{Column, Grid};
use crate::plan::rejection_text::quantity_text;
use crate::plan::table::{notes_section, printable_text};

/// Renders selections of which at most `limit` types each are shown.
pub(crate) fn render(
    selections: &[Selection],
    limit: Option<usize>,
    notes: &[String],
    width: Option<usize>,
) -> String {
    let mut sections: Vec<_> =
        selections.iter().map(|selection| selection_section(selection, limit, width)).collect();
    sections.push(notes_section(notes, width));
    sections.retain(|section| !section.is_empty());
    sections.join("\n")
}

fn selection_section(selection: &Selection, limit: Option<usize>, width: Option<usize>) -> String {
    let count = selection.types.len();
    let pool = selection.node_pool.as_deref().map(|name| format!("NodePool {name}: "));
    let mut text = format!(
        "{}{count} of {}\n",
        printable_text(&pool.unwrap_or_default()),
        count_noun(selection.total, "instance type")
    );
    text.push_str(&steps_grid(selection).lines(2, width));
    let shown = limit.and_then(|limit| selection.types.get(..limit)).unwrap_or(&selection.types);
    if !shown.is_empty() {
        text.push('\n');
        text.push_str(&types_grid(shown).lines(2, width));
    }
    if shown.len() < count {
        let _ = writeln!(text, "  and {} more (--limit 0 shows all)", count - shown.len());
    }
    text
}

fn steps_grid(selection: &Selection) -> Grid {
    let mut grid = Grid::new(&[
        ("REQUIREMENT", Column::Text),
        ("REMOVES", Column::Number),
        ("LEAVES", Column::Number),
    ]);
    for step in &selection.steps {
        grid.add_row(vec![
            printable_text(&step.requirement),
            step.removed.to_string(),
            step.left.to_string(),
        ]);
    }
    grid
}

fn types_grid(shown: &[SelectedType]) -> Grid {
    let capacity_types: BTreeSet<&str> =
        shown.iter().flat_map(|selected| selected.prices().into_keys()).collect();
    let price_titles: Vec<_> =
        capacity_types.iter().map(|name| format!("{} $/HOUR", name.to_uppercase())).collect();
    let mut columns = vec![
        ("NAME", Column::Uncut),
        ("ARCH", Column::Uncut),
        ("CPU", Column::Number),
        ("ALLOCATABLE", Column::Number),
        ("MEMORY", Column::Number),
        ("ALLOCATABLE", Column::Number),
        ("PODS", Column::Number),
        ("GPU", Column::Number),
    ];
    columns.extend(price_titles.iter().map(|title| (title.as_str(), Column::Number)));
    columns.push(("ZONES", Column::Text));
    let mut grid = Grid::new(&columns);
    for selected in shown {
        grid.add_row(row(selected, &capacity_types));
    }
    grid
}

fn row(selected: &SelectedType, capacity_types: &BTreeSet<&str>) -> Vec<String> {
    let instance_type = &selected.instance_type;
    let allocatable = instance_type.allocatable();
    let capacity = |name: &str| quantity_text(name, instance_type.capacity.amount(name));
    let allocatable = |name: &str| quantity_text(name, allocatable.amount(name));
    let architectures = instance_type.requirements.get(ARCH).map(Requirement::values);
    let architectures: Vec<_> = architectures.into_iter().flatten().map(String::as_str).collect();
    let gpus = selected.gpus();
    let gpus = if gpus == Quantity::ZERO { "-".to_owned() } else { quantity_text("gpu", gpus) };
    let mut cells = vec![
        printable_text(&instance_type.name),
        printable_text(&architectures.join(", ")),
        capacity(CPU),
        allocatable(CPU),
        capacity(MEMORY),
        allocatable(MEMORY),
        allocatable("pods"),
        gpus,
    ];
    let prices = selected.prices();
    let price =
        |name: &&str| prices.get(*name).map_or("-".to_owned(), |price| format!("{price:.4}"));
    cells.extend(capacity_types.iter().map(price));
    let zones: Vec<_> = selected.zones().into_iter().collect();
    cells.push(printable_text(&zones.join(", ")));
    cells
}

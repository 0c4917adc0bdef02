//! The page of all results, `bench/results/README.md`: a section per command, which each command
//! writes anew without touching those of the others.

use std::fs;

use anyhow::{Context as _, Result};

use crate::host;

const HEAD: &str = "# Results\n\n\
                    Written by `cargo xtask bench`, a section per command; edit nothing here.\n";

/// Writes the section of this title; `text` is what follows its heading.
pub(crate) fn keep(title: &str, text: &str) -> Result<()> {
    let path = host::repo().join("bench/results/README.md");
    let page = fs::read_to_string(&path).unwrap_or_default();
    fs::write(&path, with_section(&page, title, text))
        .with_context(|| format!("cannot write {}", path.display()))
}

fn with_section(page: &str, title: &str, text: &str) -> String {
    let mut sections: Vec<(String, String)> = page
        .split("\n## ")
        .skip(1)
        .filter_map(|section| section.split_once('\n'))
        .map(|(title, text)| (title.to_owned(), text.trim().to_owned()))
        .collect();
    let text = text.trim().to_owned();
    match sections.iter_mut().find(|(found, _)| found == title) {
        Some((_, old)) => *old = text,
        None => sections.push((title.to_owned(), text)),
    }
    sections.sort();
    let written = sections.iter().map(|(title, text)| format!("\n## {title}\n\n{text}\n"));
    HEAD.to_owned() + &written.collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_replaced_and_others_stay() {
        let page = with_section("# Old head\n\n## B\n\nkept\n\nstill\n", "C", "new");
        assert_eq!(page, format!("{HEAD}\n## B\n\nkept\n\nstill\n\n## C\n\nnew\n"));
        let page = with_section(&page, "B", "other\n");
        assert_eq!(page, format!("{HEAD}\n## B\n\nother\n\n## C\n\nnew\n"));
        assert_eq!(with_section(&page, "B", "other"), page, "nothing grows");
    }
}

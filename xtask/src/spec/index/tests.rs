//! Tests of the parsed cases, sections and items.

use super::{SpecFile, expand, expand_range, heading_path, is_id, steps};

const TEXT: &str = "# 11 — Title

## 1. First
1. one. 2. two.
   3. three

| # | Upstream |
|---|---|
| 1 | text |
| Q12 (old) | text |

### 1.1 Below
**1.1.2 Bold** text
| id | given |
|---|---|
| `A1` | x |
| B-2…4 † | x |
| TG | x |

```text
## 2. Code
| id |
|---|
| A9 |
```
## 10. Tenth
## Appendix A — end
";

fn file() -> SpecFile {
    SpecFile::parse("11-title.md", TEXT)
}

#[test]
fn cases_are_the_rows_of_tables_with_an_id() {
    assert_eq!(file().number, "11");
    assert_eq!(file().cases, ["A1", "B-2", "B-3", "B-4"]);
}

#[test]
fn all_table_rows_can_be_cited() {
    let rows = [("A1", true), ("B-3", true), ("TG", true), ("Q12", true), ("A9", false)];
    for (id, exists) in rows {
        assert_eq!(file().has_row(id), exists, "{id}");
    }
}

#[test]
fn sections_are_headings_bold_numbers_and_steps() {
    let paths = [
        ("1", true),
        ("1.1", true),
        ("1.1.2", true),
        ("1.2", true),
        ("10", true),
        ("A", true),
        ("1.4", false),
        ("2", false),
        ("11", false),
    ];
    for (path, exists) in paths {
        assert_eq!(file().has_section(path), exists, "{path}");
    }
}

#[test]
fn items_belong_to_their_section_and_the_sections_above() {
    let items = [
        ("1", "3", true),
        ("1", "Q12", true),
        ("1", "A1", true),
        ("1.1.2", "A1", true),
        ("10", "A1", false),
        ("1.1", "3", false),
        ("1", "5", false),
    ];
    for (section, item, exists) in items {
        assert_eq!(file().has_item(section, item), exists, "{section} {item}");
    }
}

#[test]
fn headings_give_their_numbers() {
    let cases = [
        ("## 3. Title", Some("3")),
        ("#### 4.3.1 Title", Some("4.3.1")),
        ("## A5. Title", Some("A5")),
        ("## Appendix B — title", Some("B")),
        ("**3.17.1 Limits** apply", Some("3.17.1")),
        ("**3 nodes** are", None),
        ("### Cases 1", None),
        ("## API surface", None),
        ("#!/bin/bash", None),
    ];
    for (line, expected) in cases {
        assert_eq!(heading_path(line).as_deref(), expected, "{line}");
    }
}

#[test]
fn steps_follow_each_other_in_a_line() {
    let cases: [(&str, &[&str]); 5] = [
        ("3. three 4. four 6. six", &["3", "4"]),
        ("   2. indented", &["2"]),
        ("checks: (1) one; (2) two", &["1", "2"]),
        ("10.5 GiB", &[]),
        ("- a bullet", &[]),
    ];
    for (line, expected) in cases {
        assert_eq!(steps(line), expected, "{line}");
    }
}

#[test]
fn cells_expand_to_ids() {
    let cases: [(&str, &[&str]); 6] = [
        ("UP-PR1…3", &["UP-PR1", "UP-PR2", "UP-PR3"]),
        ("F1–F3", &["F1", "F2", "F3"]),
        ("S01..02", &["S01", "S02"]),
        ("C12b †", &["C12b"]),
        ("F3–F1", &[]),
        ("kind", &[]),
    ];
    for (cell, expected) in cases {
        assert_eq!(expand(cell), expected, "{cell}");
    }
    assert_eq!(expand_range("A1", "B3"), None);
    assert!(is_id("UP-D0-30") && !is_id("A") && !is_id("TG") && !is_id("a1"));
}

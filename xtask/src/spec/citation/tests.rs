//! Tests of the citations in a text.

use super::{Citation, Target, citations};

/// Returns the citations as text; `?` marks those that are not certain.
fn found(text: &str) -> Vec<String> {
    let numbers = ["20", "30", "45"].map(str::to_owned);
    citations(text, &numbers).iter().map(render).collect()
}

fn render(citation: &Citation) -> String {
    let files = citation.files.join("|");
    let mark = if citation.is_certain { "" } else { "?" };
    match &citation.target {
        Target::Row(id) => format!("{files}/{id}{mark}"),
        Target::Section(path) => format!("{files} {path}{mark}"),
        Target::Item { section, item } => format!("{files} {section} #{item}{mark}"),
        Target::UnknownFile => format!("unknown {files}{mark}"),
    }
}

#[test]
fn cases_are_cited_with_their_file() {
    let cases: [(&str, &[&str]); 12] = [
        ("20/A3", &["20/A3"]),
        ("(30/BUD-4: one, 20/C12b.)", &["30/BUD-4", "20/C12b"]),
        ("20/TG", &["20/TG"]),
        ("20/C1–C3", &["20/C1", "20/C1?", "20/C2?", "20/C3?", "20/C3"]),
        ("20/C1 to C2, C8 and C9", &["20/C1", "20/C1?", "20/C2?", "20/C2", "20/C8", "20/C9"]),
        ("20/C1, EC2 only", &["20/C1", "20/EC2?"]),
        ("45/RM-98, BC-97", &["45/RM-98", "45/BC-97?"]),
        ("spec 20 Q15", &["20/Q15"]),
        ("spec 20, cases Q1, Q2", &[]),
        ("10.0.20/A3, 1/20/A3, 2020/A3, x20/A3, 20/a3, 20/30", &[]),
        ("20/Ab", &[]),
        ("46/A3, node spec 20 and 30 more", &[]),
    ];
    for (text, expected) in cases {
        assert_eq!(found(text), expected, "{text}");
    }
}

#[test]
fn sections_are_cited_with_their_file() {
    let cases: [(&str, &[&str]); 12] = [
        ("spec 20 §3.4.", &["20 3.4"]),
        ("20/§3.11: sorted", &["20 3.11"]),
        ("(45 §17 #8)", &["45 17", "45 17 #8"]),
        ("spec 30 §2 step 4 runs", &["30 2", "30 2 #4"]),
        ("spec 20 §2.3, checks 1 to 3", &["20 2.3", "20 2.3 #1", "20 2.3 #3"]),
        ("spec 20 §8 Q16", &["20 8", "20 8 #Q16?"]),
        ("spec 30 §8, §14.3 item 6", &["30 8", "30 14.3", "30 14.3 #6"]),
        ("spec 20 §2.6–2.9", &["20 2.6", "20 2.9"]),
        ("spec 20 §3, spec 45 §2, §9", &["20 3", "45 2", "45 9"]),
        ("spec 20 §3, spec 45 §2, cases C1, D2", &["20 3", "45 2", "20|45/C1", "20|45/D2"]),
        ("spec 20 §3 and spec 45 §2 | §4", &["20 3", "45 2", "20|45 4"]),
        ("spec   20     §3", &["20 3"]),
    ];
    for (text, expected) in cases {
        assert_eq!(found(text), expected, "{text}");
    }
}

#[test]
fn citations_of_no_file_are_found() {
    assert_eq!(found("see §3.4"), [" 3.4"]);
    assert_eq!(found("spec 46 §3"), ["unknown 46", " 3"]);
}

#[test]
fn the_offset_is_that_of_the_citation() {
    let numbers = ["20".to_owned()];
    let offsets: Vec<_> =
        citations("– 20/A3, A4", &numbers).into_iter().map(|citation| citation.at).collect();
    assert_eq!(offsets, [4, 11]);
}

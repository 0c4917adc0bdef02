//! Tests of the list of names.

use super::{Module, names};
use crate::source::SourceFile;

fn listed(path: &str, text: &str) -> Vec<String> {
    let file = SourceFile { path: path.to_owned(), text: text.to_owned() };
    let module = Module::of_path(path).expect("the path has a module");
    let names = names(&file, &module).expect("the text is Rust");
    names.iter().map(|name| format!("{} {} {}", name.path, name.kind, name.summary)).collect()
}

#[test]
fn names_are_listed_with_path_kind_and_summary() {
    let text = "
        //! Budgets.
        /// A limit.
        /// More.
        pub struct Budget { /// How many. pub nodes: u32, secret: u32 }
        impl Budget { pub(crate) fn allows(&self) {} fn hidden(&self) {} }
        impl Clone for Budget { fn clone(&self) -> Self { Self { nodes: 0, secret: 0 } } }
        pub(super) enum Reason { Empty }
        struct Private;
        pub trait Clock { fn now(&self); }
        #[cfg(test)] pub fn only_for_tests() {}
    "
    .replace("/// How many. pub", "/// How many.\n pub");
    assert_eq!(
        listed("crates/core/src/disruption/budget.rs", &text),
        [
            "core::disruption::budget module Budgets.",
            "core::disruption::budget::Budget struct A limit.",
            "core::disruption::budget::Budget::nodes field How many.",
            "core::disruption::budget::Budget::allows fn ",
            "core::disruption::budget::Reason enum ",
            "core::disruption::budget::Reason::Empty variant ",
            "core::disruption::budget::Clock trait ",
            "core::disruption::budget::Clock::now fn ",
        ]
    );
}

#[test]
fn tests_have_no_names_and_libraries_have_the_path_of_their_crate() {
    assert!(Module::of_path("crates/core/src/disruption/budget/tests.rs").is_none());
    assert!(Module::of_path("crates/core/tests/prop_solve.rs").is_none());
    assert_eq!(
        listed("xtask/src/lib.rs", "pub const A: u8 = 1;"),
        ["xtask module ", "xtask::A const "]
    );
}

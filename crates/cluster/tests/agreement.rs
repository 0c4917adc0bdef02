//! The core repeats a few texts of the interface, because it knows no other crate. This crate sees
//! both sides, so here they are compared.

use std::collections::BTreeSet;

use karpenter_api::nodepool::BUDGET_REASONS;
use karpenter_api::requirement::OPERATORS;
use karpenter_api::{labels, taints};
use karpenter_core::disruption::Reason;
use karpenter_core::requirement::{Aliases, Operator};
use karpenter_core::taint::{TaintEffect, is_known_ephemeral};

#[test]
fn api_and_core_have_the_same_operators_and_budget_reasons() {
    assert_eq!(Operator::ALL.map(Operator::name), OPERATORS);
    let reasons: BTreeSet<_> = Reason::ALL.iter().map(ToString::to_string).collect();
    assert_eq!(reasons, BUDGET_REASONS.iter().map(ToString::to_string).collect());
}

#[test]
fn api_and_core_have_the_same_label_aliases() {
    let aliases = Aliases::default();
    for (old, key) in labels::ALIASES {
        assert_eq!(aliases.normalize_key(old), key, "{old}");
    }
}

#[test]
fn api_and_core_have_the_same_ephemeral_taints() {
    for taint in taints::ephemeral() {
        let effect = match taint.effect.as_str() {
            taints::NO_SCHEDULE => TaintEffect::NoSchedule,
            taints::NO_EXECUTE => TaintEffect::NoExecute,
            other => panic!("no ephemeral taint has the effect {other}"),
        };
        assert!(is_known_ephemeral(&taint.key, effect), "{taint:?}");
    }
}

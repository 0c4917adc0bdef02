//! Settings of a provider that only tests have.

use jiff::Timestamp;
use karpenter_api::node_class_ref::NodeClassRef;
use karpenter_api::validation::ProviderRules;

use super::Settings;

const DOMAIN: &str = "karpenter.test.sh";
const NODE_CLASS: &str = "TestNodeClass";

/// Returns settings with labels and a node class of the test provider.
pub(crate) fn test_settings(now: Timestamp) -> Settings {
    let rules = ProviderRules::new(
        DOMAIN,
        [
            "karpenter.test.sh/instance-cpu",
            "karpenter.test.sh/instance-family",
            "karpenter.test.sh/instance-memory",
            "karpenter.test.sh/instance-size",
        ],
    );
    Settings::new(rules, [(DOMAIN, NODE_CLASS)], now)
}

/// Returns a reference to the node class `default` of the test provider.
#[allow(dead_code, reason = "not every test binary completes objects")]
pub(crate) fn default_class() -> NodeClassRef {
    let [group, kind, name] = [DOMAIN, NODE_CLASS, "default"].map(str::to_owned);
    NodeClassRef { group, kind, name }
}

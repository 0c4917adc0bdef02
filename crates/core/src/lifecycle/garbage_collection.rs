//! Finds NodeClaims whose instance no longer exists in the cloud (spec 40 §1.6).

/// What counts of a claim.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// Whether its node has registered. Until then the registration timeout is enough.
    pub is_registered: bool,
    /// Whether it is on its way already.
    pub is_deleting: bool,
    /// Whether the cloud lists its instance.
    pub has_instance: bool,
    /// Whether its one node says that it is ready; none if there is none, or several.
    pub node_is_ready: Option<bool>,
}

/// Whether the claim is to be deleted.
/// A kubelet that reports ready is trusted more than the cloud.
pub fn is_garbage(facts: Facts) -> bool {
    facts.is_registered
        && !facts.is_deleting
        && !facts.has_instance
        && facts.node_is_ready != Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registered_claims_without_instance_and_ready_node_are_garbage() {
        #[rustfmt::skip]
        let cases = [
            // case          registered  deleting  instance  ready        goes
            ("40/LC-37",     true,       false,    false,    Some(false), true),
            ("40/LC-38",     true,       false,    false,    Some(true),  false),
            ("40/LC-39",     false,      false,    false,    None,        false),
            ("40/LC-40",     true,       false,    true,     None,        false),
            ("no node",      true,       false,    false,    None,        true),
            ("on its way",   true,       true,     false,    None,        false),
        ];
        for (case, is_registered, is_deleting, has_instance, node_is_ready, goes) in cases {
            let facts = Facts { is_registered, is_deleting, has_instance, node_is_ready };
            assert_eq!(is_garbage(facts), goes, "{case}");
        }
    }
}

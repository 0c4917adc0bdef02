//! What the static drift hashes of an object and of its NodeClaims say together (spec 10 §12.1).
//!
//! An object is a NodePool or a node class; both carry a hash and the version of the algorithm that
//! made it, and so does every NodeClaim that was made from them. How the hash is made is not
//! this module's business.

/// A hash and its version, as far as annotations say them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StaticHash<'a> {
    /// The hash.
    pub hash: Option<&'a str>,
    /// Version of the algorithm that made it.
    pub version: Option<&'a str>,
}

/// Whether a claim was made from something else than the object is now. Hashes of different
/// versions cannot be compared, so they, like missing ones, mean no drift.
pub fn is_drifted(object: StaticHash<'_>, claim: StaticHash<'_>) -> bool {
    let comparable = object.version.is_some() && object.version == claim.version;
    match (object.hash, claim.hash) {
        (Some(object), Some(claim)) => comparable && object != claim,
        _ => false,
    }
}

/// What a claim gets when its object moves to a new version of the algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Migration {
    /// Nothing: it has the version already.
    Keep,
    /// The version, with the hash that the claim has: a claim known to be drifted stays so.
    Version,
    /// The version and the object's new hash.
    VersionAndHash,
}

/// The step for a claim with this hash; `drift_is_known` if it has a Drifted condition at all.
pub fn migration(current_version: &str, claim: StaticHash<'_>, drift_is_known: bool) -> Migration {
    match (claim.version == Some(current_version), drift_is_known) {
        (true, _) => Migration::Keep,
        (false, true) => Migration::Version,
        (false, false) => Migration::VersionAndHash,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash<'a>(hash: &'a str, version: &'a str) -> StaticHash<'a> {
        let given = |text: &'a str| (!text.is_empty()).then_some(text);
        StaticHash { hash: given(hash), version: given(version) }
    }

    #[test]
    fn only_comparable_hashes_show_drift() {
        #[rustfmt::skip]
        let cases = [
            // object           claim              drifted
            (hash("1", "v3"),   hash("2", "v3"),   true),
            (hash("1", "v3"),   hash("1", "v3"),   false),
            (hash("1", "v3"),   hash("2", "v2"),   false),
            (hash("", "v3"),    hash("2", "v3"),   false),
            (hash("1", ""),     hash("2", "v3"),   false),
            (hash("1", "v3"),   hash("", "v3"),    false),
            (hash("1", "v3"),   hash("2", ""),     false),
            (hash("1", ""),     hash("2", ""),     false),
        ];
        for (object, claim, want) in cases {
            assert_eq!(is_drifted(object, claim), want, "10/HS-7, 40/LC-54: {object:?} {claim:?}");
        }
    }

    #[test]
    fn a_new_version_reaches_claims_without_drifting_them() {
        #[rustfmt::skip]
        let cases = [
            ("10/HS-4", hash("old", "test"), false, Migration::VersionAndHash),
            ("10/HS-4", hash("", ""),        false, Migration::VersionAndHash),
            ("10/HS-5", hash("h", "v3"),     false, Migration::Keep),
            ("10/HS-6", hash("old", "v2"),   true,  Migration::Version),
        ];
        for (id, claim, drift_is_known, want) in cases {
            assert_eq!(migration("v3", claim, drift_is_known), want, "{id}: {claim:?}");
        }
    }
}

//! The AMI family that an EC2NodeClass stands for, said by the field or by the alias.

use super::{AMI_FAMILIES, Ec2NodeClassSpec};

/// Family of a class that selects its images manually.
pub const CUSTOM: &str = "Custom";
/// Amazon Linux 2023.
pub const AL2023: &str = "AL2023";
/// Bottlerocket.
pub const BOTTLEROCKET: &str = "Bottlerocket";

/// An AMI alias, split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alias<'a> {
    /// Family in lower case, as in al2023.
    pub family: &'a str,
    /// Version, or latest.
    pub version: &'a str,
}

/// The API server admits this alias, but it does not say one family and one version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'alias' is improperly formatted, must match the format 'family@version', got {0:?}")]
pub struct AliasError(pub String);

impl Ec2NodeClassSpec {
    /// The first alias among the AMI terms.
    pub fn alias(&self) -> Result<Option<Alias<'_>>, AliasError> {
        let Some(text) = self.ami_selector_terms.iter().find_map(|term| term.alias.as_deref())
        else {
            return Ok(None);
        };
        match text.split('@').collect::<Vec<_>>()[..] {
            [family, version] => Ok(Some(Alias { family, version })),
            _ => Err(AliasError(text.to_owned())),
        }
    }

    /// The family whose user data and defaults apply; `Custom` if nothing says another.
    pub fn family(&self) -> &str {
        if let Some(family) = &self.ami_family {
            return family;
        }
        let alias = self.alias().ok().flatten();
        let named = |alias: Alias<'_>| {
            AMI_FAMILIES.into_iter().find(|family| family.eq_ignore_ascii_case(alias.family))
        };
        alias.and_then(named).unwrap_or(CUSTOM)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ec2_nodeclass::AmiSelectorTerm;

    fn spec(family: Option<&str>, alias: Option<&str>) -> Ec2NodeClassSpec {
        let term = AmiSelectorTerm { alias: alias.map(str::to_owned), ..Default::default() };
        Ec2NodeClassSpec {
            ami_family: family.map(str::to_owned),
            ami_selector_terms: vec![term],
            ..Default::default()
        }
    }

    #[test]
    fn the_ami_family_field_wins_over_the_alias() {
        #[rustfmt::skip]
        let cases = [
            (Some("Custom"), Some("al2023@latest"),       "Custom"),
            (None,           Some("al2023@latest"),       "AL2023"),
            (None,           Some("bottlerocket@1.10.0"), "Bottlerocket"),
            (None,           Some("windows2025@latest"),  "Windows2025"),
            (None,           None,                        "Custom"),
            (None,           Some("ubuntu@latest"),       "Custom"),
        ];
        for (family, alias, want) in cases {
            assert_eq!(spec(family, alias).family(), want, "{family:?} {alias:?}");
        }
    }

    /// Admission lets it pass; upstream ends the process over it.
    #[test]
    fn an_alias_with_two_versions_is_an_error() {
        let spec = spec(None, Some("al2023@v1@2"));
        assert_eq!(spec.alias(), Err(AliasError("al2023@v1@2".to_owned())));
        assert_eq!(spec.family(), "Custom");
    }
}

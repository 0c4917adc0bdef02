//! AMI aliases that a cluster's version does not support (spec 50 §2.2).

use super::AmiFamily;

/// The version of an alias that follows AWS's recommendation.
pub(super) const LATEST: &str = "latest";

/// EKS publishes no AL2 images from this minor version on.
const AL2_UNTIL_MINOR: u32 = 33;
/// EKS publishes Windows Server 2025 images from this minor version on.
const WINDOWS_2025_SINCE_MINOR: u32 = 35;

/// The alias cannot be used on the cluster's Kubernetes version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnsupportedAlias {
    /// There are no AL2 images for the version.
    #[error(
        "AL2 aliases are no longer supported on EKS 1.33+ (see \
         https://docs.aws.amazon.com/eks/latest/userguide/kubernetes-versions-standard.html#kubernetes-1-33)"
    )]
    Al2,
    /// There are no Windows Server 2025 images for the version.
    #[error("Windows Server 2025 requires EKS version 1.35 or higher, current version: {0}")]
    Windows2025(String),
}

/// Checks that AWS publishes images of the alias's family for a Kubernetes version.
///
/// `version` is major and minor, as in `1.33`. One that cannot be parsed passes.
pub fn check_alias(family: AmiFamily, version: &str) -> Result<(), UnsupportedAlias> {
    let minor = version.split('.').nth(1).and_then(|minor| minor.parse::<u32>().ok());
    match (family, minor) {
        (AmiFamily::Al2, Some(AL2_UNTIL_MINOR..)) => Err(UnsupportedAlias::Al2),
        (AmiFamily::Windows2025, Some(0..WINDOWS_2025_SINCE_MINOR)) => {
            Err(UnsupportedAlias::Windows2025(version.to_owned()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aliases_depend_on_the_kubernetes_version() {
        use AmiFamily::{Al2, Al2023, Windows2022, Windows2025};
        let windows_2025 = |version: &str| Err(UnsupportedAlias::Windows2025(version.to_owned()));
        #[rustfmt::skip]
        let cases = [
            ("50/N6", Al2,         "1.32", Ok(())),
            ("50/N6", Al2,         "1.33", Err(UnsupportedAlias::Al2)),
            ("50/N6", Al2023,      "1.36", Ok(())),
            ("50/N7", Windows2025, "1.34", windows_2025("1.34")),
            ("50/N7", Windows2025, "1.35", Ok(())),
            ("50/N7", Windows2022, "1.26", Ok(())),
            ("50/N7", Windows2025, "x",    Ok(())),
            ("50/N6", Al2,         "1.x",  Ok(())),
        ];
        for (id, family, version, want) in cases {
            assert_eq!(check_alias(family, version), want, "{id}: {family:?} on {version}");
        }
        assert_eq!(
            UnsupportedAlias::Windows2025("1.34".to_owned()).to_string(),
            "Windows Server 2025 requires EKS version 1.35 or higher, current version: 1.34",
            "50/N7"
        );
        assert_eq!(
            UnsupportedAlias::Al2.to_string(),
            "AL2 aliases are no longer supported on EKS 1.33+ (see https://docs.aws.amazon.com/eks/\
             latest/userguide/kubernetes-versions-standard.html#kubernetes-1-33)",
            "50/N6"
        );
    }
}

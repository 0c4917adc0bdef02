//! Why user data cannot be rendered.
//!
//! Messages name lines and settings, never their content: user data may hold secrets.

use karpenter_api::kubelet::ManagedSettingError;
use karpenter_operator::cloud::CloudError;

/// Why the user data of a launch template cannot be rendered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BootstrapError {
    /// The CIDR of the cluster's services is not known yet.
    #[error("resolving cluster CIDR")]
    ClusterCidr,
    /// The CA bundle is not base64.
    #[error("generating NodeConfig, decoding CABundle: not base64; check --cluster-ca-bundle")]
    CaBundle,
    /// A managed kubelet setting has the wrong type.
    #[error(transparent)]
    Kubelet(#[from] ManagedSettingError),
    /// Bottlerocket's user data is not TOML, or a known setting has the wrong type.
    #[error("invalid UserData {0}")]
    Toml(String),
    /// The user data begins like a MIME archive, but is none.
    #[error("parsing custom UserData, {0}")]
    Mime(#[from] MimeError),
    /// The user data has a NUL byte.
    #[error("spec.userData: line {line} has a NUL byte; scripts and YAML must be plain text")]
    NulByte {
        /// The first such line, from 1.
        line: usize,
    },
    /// The user's part ends the archive before Karpenter's part.
    #[error(
        "spec.userData: line {line} of a part is --//--, which would end the user data before \
         Karpenter's part; remove it, or make the user data a MIME archive with another boundary"
    )]
    ClosesArchive {
        /// The line, from 1.
        line: usize,
    },
}

/// Why a MIME archive in user data cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MimeError {
    /// A header line has no colon or has characters that headers cannot have.
    #[error("malformed MIME header in line {line}; write \"Name: value\"")]
    Header {
        /// The line, from 1.
        line: usize,
    },
    /// The archive has no header `Content-Type`, or the header cannot be read.
    #[error(
        "user data does not define a content-type header; begin it, without blank lines, with \
         Content-Type: multipart/mixed; boundary=\"BOUNDARY\""
    )]
    ContentType,
    /// The archive is a single document.
    #[error("user data is not in multipart MIME format; use Content-Type: multipart/mixed")]
    NotMultipart,
    /// The header `Content-Type` names no boundary.
    #[error("multipart: boundary is empty; add boundary=\"BOUNDARY\" to Content-Type")]
    NoBoundary,
    /// No line begins a part.
    #[error("no line is the boundary of Content-Type; begin each part with a line --BOUNDARY")]
    NoParts,
    /// A line begins with the boundary and continues with other text.
    #[error("line {line} begins with the boundary but has more text; remove that text")]
    Boundary {
        /// The line, from 1.
        line: usize,
    },
    /// The last part has no end.
    #[error("unexpected EOF: the last part has no end; end the archive with a line --BOUNDARY--")]
    Unterminated,
    /// A quoted-printable part cannot be decoded.
    #[error("the part at line {line} is not quoted-printable text in UTF-8")]
    QuotedPrintable {
        /// The first line of the part's body, from 1.
        line: usize,
    },
}

impl From<BootstrapError> for CloudError {
    /// A missing CIDR makes the NodeClass not ready; any other error fails the launch.
    fn from(error: BootstrapError) -> Self {
        match error {
            BootstrapError::ClusterCidr => Self::node_class_not_ready(error),
            _ => Self::other(error),
        }
    }
}

//! The findings of the converter: every message as a value, with its code and text (spec 10 §16.9).
//!
//! `E` keeps an object from being written, `W` does not. Two codes are our own: `E00` for input
//! that does not have the shape of its own API, `W00` for fields that its API does not have.

use std::collections::HashSet;
use std::fmt;

use crate::manifest::FieldPath;

/// One message about one field of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) subject: Subject,
    /// The field of the input that it is about; the root for the whole object.
    pub(crate) field: FieldPath,
    pub(crate) note: Note,
}

/// The object of a message, as it is in the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Subject {
    pub(crate) kind: String,
    pub(crate) name: String,
}

/// The messages of the interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Note {
    /// E00
    UnexpectedType { expected: &'static str, found: String },
    /// E01
    NodeClassMissing,
    /// E02
    NodeClassDuplicate,
    /// E03
    NodeClassUnsupported { group: String, kind: String },
    /// E04
    NameTaken { kind: &'static str, name: String },
    /// E05
    ProvisionerNameRestricted,
    /// E06
    TaintEffectMissing,
    /// E07
    NegativeValue,
    /// E08
    EmptinessWithConsolidation,
    /// E10
    LaunchTemplateUnsupported,
    /// E11
    SelectorMissing,
    /// E12
    IdWithOtherFilters,
    /// E13
    TooManyTerms,
    /// E14
    OwnerWithoutNameOrTags,
    /// E15
    CustomWithoutAmis,
    /// E16
    UbuntuWithoutAmis,
    /// E17
    InvalidVolumeSize,
    /// E18
    RoleOrProfile,
    /// E30
    ConsolidateAfterMissing,
    /// E99
    Invalid { message: String },
    /// W00
    UnknownField,
    /// W01
    Skipped { kind: String },
    /// W02
    Recreated { kind: String },
    /// W03
    DefaultAdded { requirement: String },
    /// W04
    LabelRemoved { key: String },
    /// W05
    DockerdUnsupported,
    /// W06
    ForcefulExpiration,
    /// W07
    ConsolidationDisabled,
    /// W08
    DefaultBudget,
    /// W10
    ClassCopied { name: String },
    /// W11; `block` is YAML.
    KubeletBlockToAdd { class: String, block: String },
    /// W12
    DisruptionTaint,
    /// W20
    AmiTags,
    /// W21
    Al2Unavailable,
    /// W22
    UbuntuConverted,
    /// W23
    RolePlaceholder,
    /// W24
    RestrictedTag { key: String },
    /// W25
    CustomUserData,
    /// W26
    MetadataOptionsWrittenOut,
    /// W27
    NoPublicAddress,
    /// W30
    ConsolidateAfterNeverKept,
    /// W31
    AnnotationConsumed,
    /// W32
    ResourcesDropped,
    /// W33
    LatestAlias,
    /// W34
    CommaListSplit,
    /// W35
    Al2023Changes,
    /// W36
    DeprecatedLabel,
}

impl Note {
    #[rustfmt::skip]
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::UnexpectedType { .. } => "E00",
            Self::NodeClassMissing => "E01",
            Self::NodeClassDuplicate => "E02",
            Self::NodeClassUnsupported { .. } => "E03",
            Self::NameTaken { .. } => "E04",
            Self::ProvisionerNameRestricted => "E05",
            Self::TaintEffectMissing => "E06",
            Self::NegativeValue => "E07",
            Self::EmptinessWithConsolidation => "E08",
            Self::LaunchTemplateUnsupported => "E10",
            Self::SelectorMissing => "E11",
            Self::IdWithOtherFilters => "E12",
            Self::TooManyTerms => "E13",
            Self::OwnerWithoutNameOrTags => "E14",
            Self::CustomWithoutAmis => "E15",
            Self::UbuntuWithoutAmis => "E16",
            Self::InvalidVolumeSize => "E17",
            Self::RoleOrProfile => "E18",
            Self::ConsolidateAfterMissing => "E30",
            Self::Invalid { .. } => "E99",
            Self::UnknownField => "W00",
            Self::Skipped { .. } => "W01",
            Self::Recreated { .. } => "W02",
            Self::DefaultAdded { .. } => "W03",
            Self::LabelRemoved { .. } => "W04",
            Self::DockerdUnsupported => "W05",
            Self::ForcefulExpiration => "W06",
            Self::ConsolidationDisabled => "W07",
            Self::DefaultBudget => "W08",
            Self::ClassCopied { .. } => "W10",
            Self::KubeletBlockToAdd { .. } => "W11",
            Self::DisruptionTaint => "W12",
            Self::AmiTags => "W20",
            Self::Al2Unavailable => "W21",
            Self::UbuntuConverted => "W22",
            Self::RolePlaceholder => "W23",
            Self::RestrictedTag { .. } => "W24",
            Self::CustomUserData => "W25",
            Self::MetadataOptionsWrittenOut => "W26",
            Self::NoPublicAddress => "W27",
            Self::ConsolidateAfterNeverKept => "W30",
            Self::AnnotationConsumed => "W31",
            Self::ResourcesDropped => "W32",
            Self::LatestAlias => "W33",
            Self::CommaListSplit => "W34",
            Self::Al2023Changes => "W35",
            Self::DeprecatedLabel => "W36",
        }
    }

    /// Whether it keeps the object from being written.
    pub(crate) fn is_error(&self) -> bool {
        self.code().starts_with('E')
    }

    /// Returns the YAML lines to print below the message.
    pub(crate) fn yaml_block(&self) -> &str {
        match self {
            Self::KubeletBlockToAdd { block, .. } => block,
            _ => "",
        }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnexpectedType { expected, found } => {
                return write!(f, "expected {expected}, found {found}");
            }
            Self::NodeClassMissing => {
                "one of spec.provider, spec.providerRef (nodeClassRef) is required"
            }
            Self::NodeClassDuplicate => "only one of spec.provider, spec.providerRef may be set",
            Self::NodeClassUnsupported { group, kind } => {
                return write!(f, "unsupported node class reference {group}/{kind}");
            }
            Self::NameTaken { kind, name } => {
                return write!(f, "{kind} {name} already exists with different content");
            }
            Self::ProvisionerNameRestricted => {
                "label karpenter.sh/provisioner-name is restricted; \
                 it is set from the NodePool name"
            }
            Self::TaintEffectMissing => "taint effect is required",
            Self::NegativeValue => "value cannot be negative",
            Self::EmptinessWithConsolidation => {
                "ttlSecondsAfterEmpty and consolidation.enabled are mutually exclusive"
            }
            Self::LaunchTemplateUnsupported => "cannot convert with \"spec.launchTemplate\"",
            Self::SelectorMissing => "selector is required",
            Self::IdWithOtherFilters => "id filter is mutually exclusive with other filters",
            Self::TooManyTerms => "selector expands to more than 30 terms",
            Self::OwnerWithoutNameOrTags => "owner needs a name or tags",
            Self::CustomWithoutAmis => "amiFamily Custom needs AMI selectors",
            Self::UbuntuWithoutAmis => "amiFamily Ubuntu was removed; set AMI selectors",
            Self::InvalidVolumeSize => "invalid volumeSize",
            Self::RoleOrProfile => "exactly one of role, instanceProfile is required",
            Self::ConsolidateAfterMissing => {
                "consolidateAfter must be set with consolidationPolicy WhenEmpty"
            }
            Self::Invalid { message } => return write!(f, "v1 validation: {message}"),
            Self::UnknownField => "unknown field, dropped",
            Self::Skipped { kind } => return write!(f, "skipped kind {kind}"),
            Self::Recreated { kind } => {
                return write!(f, "{kind} objects are recreated by the controller, not converted");
            }
            Self::DefaultAdded { requirement } => {
                return write!(f, "added default requirement {requirement}");
            }
            Self::LabelRemoved { key } => {
                return write!(f, "label {key} no longer exists, dropped");
            }
            Self::DockerdUnsupported => "containerRuntime dockerd is not supported, dropped",
            Self::ForcefulExpiration => "expiration now drains immediately",
            Self::ConsolidationDisabled => "consolidation stays disabled (consolidateAfter: Never)",
            Self::DefaultBudget => "default disruption budget of 10% now applies",
            Self::ClassCopied { name } => {
                return write!(
                    f,
                    "kubelet settings differ between pools; created EC2NodeClass {name}"
                );
            }
            Self::KubeletBlockToAdd { class, .. } => {
                return write!(f, "add this kubelet block to EC2NodeClass {class}");
            }
            Self::DisruptionTaint => "taint karpenter.sh/disruption is now karpenter.sh/disrupted",
            Self::AmiTags => "AMI tags no longer add requirements",
            Self::Al2Unavailable => "AL2 is not available on Kubernetes 1.33+",
            Self::UbuntuConverted => "Ubuntu converted to AL2 user data",
            Self::RolePlaceholder => "set role (placeholder written)",
            Self::RestrictedTag { key } => return write!(f, "restricted tag {key} dropped"),
            Self::CustomUserData => {
                "custom user data must register with karpenter.sh/unregistered:NoExecute"
            }
            Self::MetadataOptionsWrittenOut => {
                "metadataOptions written out to keep previous values"
            }
            Self::NoPublicAddress => "associatePublicIPAddress set to false",
            Self::ConsolidateAfterNeverKept => "consolidateAfter Never kept",
            Self::AnnotationConsumed => "compatibility annotation consumed",
            Self::ResourcesDropped => "template.spec.resources dropped",
            Self::LatestAlias => "alias latest follows every AMI release",
            Self::CommaListSplit => "comma list split into terms",
            Self::Al2023Changes => "AL2023 behaviour changes",
            Self::DeprecatedLabel => "deprecated label, translated at run time",
        })
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind, self.name)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.note.code(), self.subject)?;
        if !self.field.is_root() {
            write!(f, " {}", self.field)?;
        }
        write!(f, ": {}", self.note)
    }
}

/// The findings about one object, while it is being converted.
#[derive(Clone, Debug)]
pub(super) struct Notes {
    subject: Subject,
    pub(super) findings: Vec<Finding>,
    /// Fields with a reported wrong type: a field that is read twice is reported once.
    reported_fields: HashSet<String>,
}

impl Notes {
    pub(super) fn for_object(subject: Subject) -> Self {
        Self { subject, findings: Vec::new(), reported_fields: HashSet::new() }
    }

    /// Returns an empty list about the same object.
    pub(super) fn empty_for_same_object(&self) -> Self {
        Self::for_object(self.subject.clone())
    }

    pub(super) fn add(&mut self, field: &FieldPath, note: Note) {
        let may_repeat = matches!(note, Note::UnexpectedType { .. });
        if !may_repeat || self.reported_fields.insert(field.to_string()) {
            let subject = self.subject.clone();
            self.findings.push(Finding { subject, field: field.clone(), note });
        }
    }

    pub(super) fn has_error(&self) -> bool {
        self.findings.iter().any(|finding| finding.note.is_error())
    }
}

//! Runtime validation: what a schema cannot say, with the messages that conditions carry
//! (spec 10 §4.3, §6.4, §11).
//!
//! Every check is a pure function of an object and a [`ProviderRules`]: the labels, values and
//! resources that the running provider knows. Findings come in a fixed order (maps by key), so that
//! an unchanged object keeps an unchanged condition.
//!
//! Start with [`nodepool`].

mod ec2_nodeclass;
mod nodeoverlay;
mod nodepool;
mod provider_rules;
mod requirement;
mod tags;

pub use ec2_nodeclass::ec2_nodeclass;
pub use nodeoverlay::nodeoverlay;
pub use nodepool::nodepool;
pub use provider_rules::ProviderRules;
pub use requirement::{IgnoredValues, RequirementView, requirement};
pub use tags::restricted_tags;

/// What a validation found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// What makes the object unusable.
    pub errors: Vec<String>,
    /// What should be corrected but can be worked with; the caller logs it.
    pub warnings: Vec<IgnoredValues>,
}

impl Findings {
    /// The text of the condition, or nothing when the object is valid.
    pub fn message(&self) -> Option<String> {
        (!self.errors.is_empty()).then(|| self.errors.join("; "))
    }

    fn add_error(&mut self, message: String) {
        self.errors.push(message);
    }
}

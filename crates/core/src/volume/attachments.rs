//! What a pod attaches to its node, for limits per driver (spec 20 §3.17.3, spec 45 §11.2).

use std::collections::{BTreeMap, BTreeSet};

use super::Volumes;
use crate::pod::Pod;

/// Claims, as `namespace/name`, by CSI driver. A claim that several pods share is attached once.
pub type Attachments = BTreeMap<String, BTreeSet<String>>;

impl Volumes {
    /// What the pod attaches. Claims that are missing, or without a known driver, are not counted.
    /// The error is the pod's: a claim names a volume that is gone.
    pub fn attachments(&self, pod: &Pod) -> Result<Attachments, String> {
        let mut attachments = Attachments::new();
        for name in &pod.volume_claims {
            let Ok(claim) = self.claim(pod, name) else { continue };
            if let Some(driver) = self.driver(claim)?.filter(|driver| !driver.is_empty()) {
                let claims = attachments.entry(driver.to_owned()).or_default();
                claims.insert(format!("{}/{name}", pod.namespace));
            }
        }
        Ok(attachments)
    }
}

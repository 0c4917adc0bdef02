//! Where the volumes of a pod are, or can be made (spec 20 §3.17.2).

use super::{PersistentVolume, Volumes};
use crate::labels::HOSTNAME;
use crate::pod::Pod;
use crate::requirement::Requirements;

impl Volumes {
    /// Returns the alternative node requirements of the pod's volumes.
    ///
    /// The node has to meet one of them, tried in order. Empty if the volumes require nothing.
    ///
    /// They restrict the node only and are no part of the pod's own requirements, so that spread
    /// and relaxation do not see them.
    pub fn node_requirement_alternatives(&self, pod: &Pod) -> Result<Vec<Requirements>, String> {
        let mut alternatives = Vec::new();
        for name in &pod.volume_claims {
            let terms = self.claim_terms(pod, name)?;
            if alternatives.is_empty() {
                alternatives = terms;
            } else if !terms.is_empty() {
                alternatives = product(&alternatives, &terms);
            }
        }
        Ok(alternatives)
    }

    /// Returns the alternative node requirements of one claim; empty if none.
    fn claim_terms(&self, pod: &Pod, name: &str) -> Result<Vec<Requirements>, String> {
        let claim = self
            .claim(pod, name)
            .map_err(|error| format!("discovering persistent volume claim, {error}"))?;
        if claim.is_bound() {
            let name = &claim.volume_name;
            let volume = self.volume(name).map_err(|error| {
                format!(
                    "getting existing requirements, getting persistent volume, {error} \
                     (PersistentVolume={name})"
                )
            })?;
            return Ok(volume.node_affinity_terms());
        }
        match claim.storage_class_name() {
            "" => Ok(Vec::new()),
            name => self
                .class(name)
                .map(|class| class.allowed_topologies.clone())
                .map_err(|error| format!("getting storage class, {error} (StorageClass={name})")),
        }
    }
}

impl PersistentVolume {
    /// Returns the terms of the node affinity.
    ///
    /// A local volume is created again on the next node, so the old node's name is no constraint; a
    /// term with nothing else holds anywhere.
    fn node_affinity_terms(&self) -> Vec<Requirements> {
        if !self.is_local {
            return self.node_affinity.clone();
        }
        let without_hostname = |term: &Requirements| {
            term.iter().filter(|requirement| requirement.key() != HOSTNAME).cloned().collect()
        };
        self.node_affinity.iter().map(without_hostname).collect()
    }
}

/// Every pair that agrees. If none does, every pair: their contradiction is what the pod is refused
/// with. Equal results are kept once, as trying them again gives nothing.
fn product(alternatives: &[Requirements], terms: &[Requirements]) -> Vec<Requirements> {
    let pairs = || alternatives.iter().flat_map(|a| terms.iter().map(move |term| (a, term)));
    let agreeing = merged(pairs().filter(|(a, term)| a.intersects(term).is_ok()));
    if agreeing.is_empty() { merged(pairs()) } else { agreeing }
}

fn merged<'a>(
    pairs: impl Iterator<Item = (&'a Requirements, &'a Requirements)>,
) -> Vec<Requirements> {
    let mut all = Vec::new();
    for (a, term) in pairs {
        let mut both = a.clone();
        both.extend(term.iter().cloned());
        if !all.contains(&both) {
            all.push(both);
        }
    }
    all
}

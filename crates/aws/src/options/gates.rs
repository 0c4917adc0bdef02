//! The feature gates of the AWS provider (spec 55 §1).

use std::collections::BTreeSet;
use std::fmt;

/// A feature gate of the AWS provider; all are alpha.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AwsGate {
    /// Kubelet settings of an EC2NodeClass may be CEL expressions.
    NodeClassCel,
    /// Instance types publish their NVIDIA GPUs as dynamic resources.
    DraNvidiaGpu,
    /// Instance types publish their EFAs as dynamic resources.
    DraEfa,
    /// Repair may restart an instance.
    RebootForRepair,
}

/// Every gate with its name.
const GATES: [(AwsGate, &str); 4] = [
    (AwsGate::NodeClassCel, "NodeClassCEL"),
    (AwsGate::DraNvidiaGpu, "DRANVIDIAGPU"),
    (AwsGate::DraEfa, "DRAEFA"),
    (AwsGate::RebootForRepair, "RebootForRepair"),
];

/// Which gates are on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AwsFeatureGates {
    enabled: BTreeSet<AwsGate>,
}

impl AwsFeatureGates {
    /// Parses `Name=bool,…`. Unknown names are ignored; the last of several pairs counts.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut gates = Self::default();
        for pair in text.split(',').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').ok_or("malformed pair, expect string=bool")?;
            let (name, value) = (name.trim(), value.trim());
            let is_enabled = match value {
                "1" | "t" | "T" | "TRUE" | "true" | "True" => true,
                "0" | "f" | "F" | "FALSE" | "false" | "False" => false,
                _ => return Err(format!("invalid value of {name}: {value}, expect a boolean")),
            };
            if let Some((gate, _)) = GATES.iter().find(|(_, known)| *known == name) {
                gates = gates.with_gate(*gate, is_enabled);
            }
        }
        Ok(gates)
    }

    /// Returns the gates with one turned on or off.
    #[must_use]
    pub fn with_gate(mut self, gate: AwsGate, is_enabled: bool) -> Self {
        if is_enabled {
            self.enabled.insert(gate);
        } else {
            self.enabled.remove(&gate);
        }
        self
    }

    /// Returns whether a gate is on.
    pub fn is_enabled(&self, gate: AwsGate) -> bool {
        self.enabled.contains(&gate)
    }

    /// Returns a warning about gates that dynamic resource allocation would need.
    ///
    /// This release publishes no dynamic resources on AWS, so the gates change nothing.
    pub fn dra_warning(&self, ignores_dra_requests: bool) -> Option<&'static str> {
        let is_dra = [AwsGate::DraNvidiaGpu, AwsGate::DraEfa];
        if !is_dra.into_iter().any(|gate| self.is_enabled(gate)) {
            return None;
        }
        Some(if ignores_dra_requests {
            "aws feature gate has no effect while DRA requests are ignored"
        } else {
            "aws feature gate has no effect: this release publishes no dynamic resources on AWS"
        })
    }
}

/// All gates as `--aws-feature-gates` takes them.
impl fmt::Display for AwsFeatureGates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pair = |(gate, name): &(AwsGate, &str)| format!("{name}={}", self.is_enabled(*gate));
        f.write_str(&GATES.iter().map(pair).collect::<Vec<_>>().join(","))
    }
}

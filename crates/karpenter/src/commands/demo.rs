//! `karpenter demo`: what runs today, without a cluster or a cloud account.
//!
//! Old manifests go through the code that a cluster would use: the converter, the embedded API's
//! admission with our CRDs, the controller's validation, and the drift hash. The simulated cluster
//! takes this command over when it exists.

use karpenter_api::ec2_nodeclass::Ec2NodeClass;
use karpenter_api::hash::{ec2_node_class_hash, nodepool_hash};
use karpenter_api::nodepool::NodePool;
use karpenter_api::validation::{Provider, nodepool};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Failure, Outcome, print};
use crate::admission;
use crate::convert::{self, Options};
use crate::manifest::write;

const LEGACY: &str = include_str!("../../../../scenarios/legacy/v1alpha5-inline-provider.yaml");
const REFUSED: &str = include_str!("../../../../scenarios/demo/refused.yaml");

/// Show what runs today, without a cluster or a cloud account
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args) -> Result<Outcome, Failure> {
    print(&tour()?)?;
    Ok(Outcome::Fine)
}

fn tour() -> anyhow::Result<String> {
    let legacy = documents(LEGACY)?;
    let converted = convert::convert(&legacy.iter().collect::<Vec<_>>(), &Options::default());
    let outputs: Vec<_> = converted.results.into_iter().flat_map(|result| result.outputs).collect();

    let mut text = heading("A Provisioner of 2023, converted to v1 (karpenter convert)");
    for output in &outputs {
        let notes: Vec<_> = output.notes.iter().map(ToString::to_string).collect();
        text += &write::comments(notes.iter().map(String::as_str));
        text += &write::yaml(&output.object);
        text += "---\n";
    }

    text += &heading("Admitted by the embedded API, which fills in the defaults of the CRDs");
    for output in outputs {
        let stored = admit(&output.object)?.map_err(|refusal| anyhow::anyhow!(refusal))?;
        text += &summary(&stored)?;
    }

    text += &heading("Refused, in the words of a real API server and of the controller");
    for object in documents(REFUSED)? {
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let verdict = match admit(&object)? {
            Err(refusal) => format!("API server: {refusal}"),
            Ok(stored) => {
                let found = nodepool(&typed::<NodePool>(&stored)?.spec, &Provider::aws());
                let message = found.message().unwrap_or_else(|| "nothing to say".to_owned());
                format!("ValidationSucceeded=False: {message}")
            }
        };
        text += &[&name, "\n  ", &verdict, "\n"].concat();
    }
    Ok(text)
}

fn heading(title: &str) -> String {
    format!("\n== {title}\n\n")
}

fn documents(yaml: &str) -> anyhow::Result<Vec<Value>> {
    Ok(serde_saphyr::from_multiple(yaml)?)
}

fn typed<K: DeserializeOwned>(object: &Value) -> anyhow::Result<K> {
    Ok(serde_json::from_value(object.clone())?)
}

/// What the API server would store, or its refusal.
fn admit(object: &Value) -> anyhow::Result<Result<Value, String>> {
    let kind = admission::kind_of(object);
    let kind = kind.ok_or_else(|| anyhow::anyhow!("no CRD for {}", object["kind"]))?;
    let (stored, errors) = admission::admit(kind, object);
    if errors.is_empty() {
        return Ok(Ok(stored));
    }
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    Ok(Err(kind.invalid_message(name, &errors)))
}

fn summary(stored: &Value) -> anyhow::Result<String> {
    let (title, defaults, hash) = if stored["kind"] == "NodePool" {
        let pool: NodePool = typed(stored)?;
        ("NodePool", &stored["spec"]["disruption"], nodepool_hash(&pool.spec))
    } else {
        let class: Ec2NodeClass = typed(stored)?;
        ("EC2NodeClass", &stored["spec"]["metadataOptions"], ec2_node_class_hash(&class.spec, ""))
    };
    let name = stored["metadata"]["name"].as_str().unwrap_or_default();
    Ok(format!("{title}/{name}\n  {defaults}\n  drift hash {hash}, the same as upstream's\n"))
}

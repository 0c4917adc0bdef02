//! Tests of the log fields of disruption commands.

use karpenter_core::disruption::Method;
use karpenter_operator::options::Options;
use serde_json::json;

use super::*;
use crate::disruptor::testing::{cluster, delete, node, running_pod};

#[tokio::test(start_paused = true)]
async fn log_fields_of_a_command_name_its_nodes_and_count_its_pods() {
    let bench = cluster(Options::default(), &json!({})).await;
    for (name, pods) in [("a", 3), ("b", 2)] {
        node(&bench, name, "large", &json!({})).await;
        for index in 0..pods {
            running_pod(&bench, &format!("{name}{index}"), name, "1").await;
        }
    }
    let observation = Observation::collect(&bench.context).await;
    let mut command = delete(&observation, Method::MultiNode, &["a", "b"]);
    let fields = CommandLogFields::of(&observation, &command);
    assert_eq!(
        (fields.decision, fields.disrupted_count, fields.pod_count),
        ("delete", 2, 5),
        "30/IF-6"
    );
    let shown = format!("{:?}", fields.disrupted);
    for part in
        [r#""Node":{"name":"a"}"#, r#""instance-type":"large""#, r#""capacity-type":"on-demand""#]
    {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    command.replacements.push(Replacement::Template { pool: "general".to_owned() });
    let fields = CommandLogFields::of(&observation, &command);
    assert_eq!((fields.decision, fields.replacement_count), ("replace", 1));
}

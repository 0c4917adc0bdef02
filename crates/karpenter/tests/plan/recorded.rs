//! Compares our decisions on small snapshots with those of upstream's released core (v1.15.0),
//! field by field.

use super::*;
use serde_json::{Value, json};

/// Returns the fields that upstream also has, without times, sorted.
fn comparable_fields(plan: &Value) -> Value {
    let fields = ["nodePool", "pods", "instanceTypes", "cheapestPrice", "requests", "requirements"];
    let claims = plan["nodeClaims"].as_array().unwrap().iter();
    let claim = |claim: &Value| -> Value {
        fields.iter().map(|field| ((*field).to_owned(), claim[*field].clone())).collect()
    };
    let mut claims: Vec<_> = claims.map(claim).collect();
    claims.sort_by_key(ToString::to_string);
    let mut existing = plan["existing"].as_array().unwrap().clone();
    existing.sort_by_key(ToString::to_string);
    json!({
        "nodeClaims": claims,
        "existing": existing,
        "errors": plan["errors"],
        "pods": plan["pods"],
    })
}

#[test]
fn plans_equal_the_recorded_decisions_of_upstream() {
    let folder = scenarios().join("recorded");
    let mut files: Vec<_> =
        std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    assert!(files.len() >= 5);
    for file in files {
        let upstream = std::fs::read_to_string(file.with_extension("json")).unwrap();
        let upstream: Value = serde_json::from_str(&upstream).unwrap();
        let name = file.to_str().unwrap();
        let ours = plan(&folder, &["-f", name, "-o", "json"], "").json();
        let (ours_settled, upstream_settled) =
            (comparable_fields(&ours), comparable_fields(&upstream));
        for field in ["nodeClaims", "existing", "errors", "pods"] {
            assert_eq!(ours_settled[field], upstream_settled[field], "{name}: {field}");
        }
        let price = |plan: &Value| plan["totalPrice"].as_f64().unwrap();
        assert!((price(&ours) - price(&upstream)).abs() < 1e-9, "{name}");
    }
}

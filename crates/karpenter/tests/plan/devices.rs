//! Pods that ask for devices, with `--ignore-dra-requests=false`.

use super::*;

/// Two devices that every node can reach.
const DEVICES: &str = "
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: slice}
spec:
  driver: gpu.example.com
  pool: {name: shared, generation: 1, resourceSliceCount: 1}
  allNodes: true
  devices:
  - name: small
    attributes: {model: {string: a10}, version: {version: 1.2.0}}
    capacity: {memory: {value: 16Gi}}
  - name: large
    attributes: {model: {string: h100}, version: {version: 2.0.0}, fabric.example.com/ready: {bool: true}}
    capacity: {memory: {value: 80Gi}}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec: {selectors: [{cel: {expression: device.driver == 'gpu.example.com'}}]}
";

/// A pod with a claim of its own that has a selector.
fn asks(name: &str, expression: &str) -> String {
    format!(
        r#"---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {{name: {name}}}
spec:
  devices:
    requests:
    - name: gpu
      exactly:
        deviceClassName: gpu
        selectors: [{{cel: {{expression: "{expression}"}}}}]
---
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  resourceClaims: [{{name: gpu, resourceClaimName: {name}}}]
  containers: [{{name: c, resources: {{requests: {{cpu: 1}}, claims: [{{name: gpu}}]}}}}]
"#
    )
}

/// Whether the only pod is placed, else why not.
#[track_caller]
fn placed(expression: &str) -> Result<(), String> {
    let text = format!("{POOL}---{DEVICES}{}", asks("pod", expression));
    let args = ["-f", "-", "-o", "json", "--ignore-dra-requests=false"];
    let ran = plan(&scenarios(), &args, text);
    assert_eq!(ran.stderr, "", "{ran:?}");
    let told = ran.json();
    if let Some(error) = told["errors"]["default/pod"].as_str() {
        return Err(error.to_owned());
    }
    assert_eq!(told["pods"], 1, "{ran:?}");
    Ok(())
}

#[test]
fn selectors_of_classes_and_claims_choose_devices() {
    for expression in [
        "device.attributes['gpu.example.com'].model == 'h100'",
        "device.capacity['gpu.example.com'].memory.isGreaterThan(quantity('40Gi'))",
        "device.attributes['gpu.example.com'].version.isGreaterThan(semver('1.9.0'))",
        "'fabric.example.com' in device.attributes && device.attributes['fabric.example.com'].ready",
        "cel.bind(own, device.attributes['gpu.example.com'], own.model.startsWith('a'))",
        "!device.allowMultipleAllocations",
    ] {
        assert_eq!(placed(expression), Ok(()), "{expression}");
    }
    for expression in [
        "device.attributes['gpu.example.com'].model == 'b200'",
        "device.capacity['gpu.example.com'].memory.isGreaterThan(quantity('81Gi'))",
        "device.driver == 'other.example.com'",
    ] {
        assert!(placed(expression).is_err(), "{expression}");
    }
}

#[test]
fn each_device_goes_to_one_claim() {
    let large = "device.attributes['gpu.example.com'].model == 'h100'";
    let text = format!("{POOL}---{DEVICES}{}{}", asks("a", large), asks("b", large));
    let args = ["-f", "-", "-o", "json", "--ignore-dra-requests=false"];
    let told = plan(&scenarios(), &args, text).json();
    assert_eq!(told["pods"], 1, "{told}");
    assert_eq!(told["errors"].as_object().unwrap().len(), 1, "{told}");
}

#[test]
fn selectors_that_mean_nothing_are_told() {
    let error = placed("device.nonsense == 1").unwrap_err();
    assert!(error.contains("undefined field 'nonsense'"), "{error}");
}

#[test]
fn selectors_without_a_value_are_told() {
    let missing = "device.attributes['gpu.example.com'].nonsense == 1";
    let text = format!("{POOL}---{DEVICES}{}", asks("pod", missing));
    let ran = plan(&scenarios(), &["-f", "-", "--ignore-dra-requests=false"], text);
    assert_eq!(ran.code, 1);
    let told = "ResourceClaim default/pod: selector \"device.attributes['gpu.example.com'].nonsense \
                == 1\" has no value for some devices: no such key: nonsense";
    assert!(ran.stdout.contains(told), "{}", ran.stdout);
}

#[test]
fn without_the_option_such_pods_are_left_alone() {
    let text = format!("{POOL}---{DEVICES}{}", asks("pod", "true"));
    let ran = plan(&scenarios(), &["-f", "-"], text);
    assert_eq!(ran.code, 1);
    assert!(ran.stdout.contains("-> plan with --ignore-dra-requests=false"), "{}", ran.stdout);
}

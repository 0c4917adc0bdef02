//! The containers of a pod and what they ask for.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_grammar::Amount;
use karpenter_grammar::names;
use serde_json::Value;

use super::super::field_errors::{
    FieldErrorList, is_extended_resource, is_huge_page, is_native_resource, is_overcommit_allowed,
};
use super::super::json_access::{at, entries, has, list, number, text};

/// The parts of a pod to which a container may refer.
pub(super) struct ContainerContext<'a> {
    pub(super) volumes: Vec<&'a Value>,
    pub(super) claims: Vec<&'a str>,
    pub(super) spec: &'a Value,
}

pub(super) fn validate_containers(
    problems: &mut FieldErrorList,
    context: &ContainerContext<'_>,
    path: &str,
) {
    let containers = list(context.spec, "/containers");
    let path_of = |kind: &str, index: usize| format!("{path}.{kind}[{index}]");
    if containers.is_empty() {
        problems.required(format!("{path}.containers"), "");
    }
    let mut known = BTreeSet::new();
    for (index, container) in containers.iter().enumerate() {
        let at = path_of("containers", index);
        validate_container(problems, context, container, &at);
        if !known.insert(text(container, "/name")) {
            problems.duplicate(format!("{at}.name"), text(container, "/name"));
        }
        validate_probes_and_hooks(problems, container, &at);
        let policy = text(container, "/restartPolicy");
        if !policy.is_empty() {
            let policies = ["Always", "Never", "OnFailure"];
            problems.check_one_of(&format!("{at}.restartPolicy"), policy, &policies);
        }
    }
    check_host_port_conflicts(problems, containers, &format!("{path}.containers"));
    for (index, container) in list(context.spec, "/initContainers").iter().enumerate() {
        let at = path_of("initContainers", index);
        validate_container(problems, context, container, &at);
        let policy = text(container, "/restartPolicy");
        if !policy.is_empty() {
            let policies = ["Always", "Never", "OnFailure"];
            problems.check_one_of(&format!("{at}.restartPolicy"), policy, &policies);
        }
        let name = text(container, "/name");
        if known.contains(name) {
            problems.duplicate(format!("{at}.name"), name);
        } else if !name.is_empty() {
            known.insert(name);
        }
        check_host_port_conflicts(
            problems,
            std::slice::from_ref(container),
            &format!("{path}.initContainers"),
        );
        if policy == "Always" {
            validate_probes_and_hooks(problems, container, &at);
        } else {
            for name in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
                if has(container, &format!("/{name}")) {
                    problems.forbidden(
                        format!("{at}.{name}"),
                        "may not be set for init containers without restartPolicy=Always",
                    );
                }
            }
        }
    }
}

fn validate_container(
    problems: &mut FieldErrorList,
    context: &ContainerContext<'_>,
    container: &Value,
    path: &str,
) {
    let sub = |name: &str| format!("{path}.{name}");
    match text(container, "/name") {
        "" => problems.required(sub("name"), ""),
        name => problems.check_dns_label(&sub("name"), name),
    }
    if text(container, "/image").is_empty() {
        problems.required(sub("image"), "");
    }
    let policy = text(container, "/terminationMessagePolicy");
    let policies = ["File", "FallbackToLogsOnError"];
    problems.check_one_of(&sub("terminationMessagePolicy"), policy, &policies);
    validate_container_ports(problems, container, &sub("ports"));
    validate_env(problems, container, path);
    validate_volume_mounts(problems, context, container, path);
    let policies = ["Always", "IfNotPresent", "Never"];
    problems.check_one_of(&sub("imagePullPolicy"), text(container, "/imagePullPolicy"), &policies);
    validate_resources(
        problems,
        at(container, "/resources"),
        &sub("resources"),
        ResourceLevel::Container,
    );
    validate_container_claims(problems, context, container, &sub("resources.claims"));
}

fn validate_container_ports(problems: &mut FieldErrorList, container: &Value, path: &str) {
    let mut known = BTreeSet::new();
    for (index, port) in list(container, "/ports").iter().enumerate() {
        let at = format!("{path}[{index}]");
        let name = text(port, "/name");
        if !name.is_empty() {
            let wrong = super::super::field_errors::port_name_problems(name);
            if !wrong.is_empty() {
                problems.invalid_each(&format!("{at}.name"), name, wrong);
            } else if !known.insert(name) {
                problems.duplicate(format!("{at}.name"), name);
            }
        }
        match number(port, "/containerPort") {
            0 => problems.required(format!("{at}.containerPort"), ""),
            number => problems.check_port(number, &format!("{at}.containerPort")),
        }
        match number(port, "/hostPort") {
            0 => {}
            number => problems.check_port(number, &format!("{at}.hostPort")),
        }
        let protocols = ["SCTP", "TCP", "UDP"];
        problems.check_one_of(&format!("{at}.protocol"), text(port, "/protocol"), &protocols);
    }
}

fn check_host_port_conflicts(problems: &mut FieldErrorList, containers: &[Value], path: &str) {
    let mut taken = BTreeSet::new();
    for (index, container) in containers.iter().enumerate() {
        for (place, port) in list(container, "/ports").iter().enumerate() {
            let host = number(port, "/hostPort");
            if host == 0 {
                continue;
            }
            let key = format!("{}/{}/{host}", text(port, "/protocol"), text(port, "/hostIP"));
            if !taken.insert(key.clone()) {
                problems.duplicate(format!("{path}[{index}].ports[{place}].hostPort"), key);
            }
        }
    }
}

fn validate_env(problems: &mut FieldErrorList, container: &Value, path: &str) {
    for (index, variable) in list(container, "/env").iter().enumerate() {
        let at = format!("{path}.env[{index}]");
        let name = text(variable, "/name");
        if name.is_empty() {
            problems.required(format!("{at}.name"), "");
        } else if !name.chars().all(|c| (' '..='~').contains(&c) && c != '=') {
            problems.invalid(
                format!("{at}.name"),
                name,
                "a valid environment variable name must consist only of printable ASCII \
                 characters other than '='",
            );
        }
        validate_env_source(problems, variable, &format!("{at}.valueFrom"));
    }
    for (index, source) in list(container, "/envFrom").iter().enumerate() {
        let at = format!("{path}.envFrom[{index}]");
        let kinds = ["configMapRef", "secretRef"];
        let given: Vec<&str> =
            kinds.into_iter().filter(|kind| has(source, &format!("/{kind}"))).collect();
        for kind in &given {
            if text(source, &format!("/{kind}/name")).is_empty() {
                problems.required(format!("{at}.{kind}.name"), "");
            }
        }
        match given.len() {
            0 => problems.invalid(&*at, "", "must specify one of: `configMapRef` or `secretRef`"),
            1 => {}
            _ => problems.invalid(&*at, "", "may not have more than one field specified at a time"),
        }
    }
}

fn validate_env_source(problems: &mut FieldErrorList, variable: &Value, path: &str) {
    let Some(source) = variable.get("valueFrom").filter(|source| !source.is_null()) else {
        return;
    };
    let kinds = ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"];
    let given: Vec<&str> =
        kinds.into_iter().filter(|kind| has(source, &format!("/{kind}"))).collect();
    for kind in &given {
        let (reference, at) = (&source[*kind], format!("{path}.{kind}"));
        match *kind {
            "fieldRef" if text(reference, "/fieldPath").is_empty() => {
                problems.required(format!("{at}.fieldPath"), "");
            }
            "resourceFieldRef" if text(reference, "/resource").is_empty() => {
                problems.required(format!("{at}.resource"), "");
            }
            "configMapKeyRef" | "secretKeyRef" => {
                for name in ["name", "key"] {
                    if text(reference, &format!("/{name}")).is_empty() {
                        problems.required(format!("{at}.{name}"), "");
                    }
                }
            }
            _ => {}
        }
    }
    if given.is_empty() {
        problems.invalid(
            path,
            "",
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, \
             `secretKeyRef` or `fileKeyRef`",
        );
    } else if !text(variable, "/value").is_empty() {
        problems.invalid(path, "", "may not be specified when `value` is not empty");
    } else if given.len() > 1 {
        problems.invalid(path, "", "may not have more than one field specified at a time");
    }
}

fn validate_volume_mounts(
    problems: &mut FieldErrorList,
    context: &ContainerContext<'_>,
    container: &Value,
    path: &str,
) {
    let exists = |name: &str| context.volumes.iter().any(|volume| text(volume, "/name") == name);
    let mut known = BTreeSet::new();
    for (index, mount) in list(container, "/volumeMounts").iter().enumerate() {
        let at = format!("{path}.volumeMounts[{index}]");
        let name = text(mount, "/name");
        if name.is_empty() {
            problems.required(format!("{at}.name"), "");
        }
        if !exists(name) {
            problems.not_found(format!("{at}.name"), name, "");
        }
        let place = text(mount, "/mountPath");
        if place.is_empty() {
            problems.required(format!("{at}.mountPath"), "");
        }
        if !known.insert(place) {
            problems.invalid(format!("{at}.mountPath"), place, "must be unique");
        }
    }
    for (index, device) in list(container, "/volumeDevices").iter().enumerate() {
        let at = format!("{path}.volumeDevices[{index}]");
        let name = text(device, "/name");
        if name.is_empty() {
            problems.required(format!("{at}.name"), "");
        }
        if !exists(name) {
            problems.not_found(format!("{at}.name"), name, "");
        }
        if text(device, "/devicePath").is_empty() {
            problems.required(format!("{at}.devicePath"), "");
        }
    }
}

/// Whether the resources are those of a container or of a pod.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ResourceLevel {
    Container,
    Pod,
}

fn validate_resource_name(
    problems: &mut FieldErrorList,
    name: &str,
    path: &str,
    of: ResourceLevel,
) {
    let wrong = names::qualified_name_errors(name);
    if !wrong.is_empty() {
        problems.invalid_each(path, name, wrong);
        return;
    }
    let standard = matches!(name, "cpu" | "memory" | "ephemeral-storage") || is_huge_page(name);
    if of == ResourceLevel::Pod && !name.contains('/') && !is_known_resource(name) {
        problems.invalid(path, name, "must be a standard resource type or fully qualified");
    } else if of == ResourceLevel::Pod {
        if !(matches!(name, "cpu" | "memory") || is_huge_page(name)) {
            problems.not_supported(path, name, &["cpu", "hugepages-", "memory"]);
        }
    } else if !name.contains('/') {
        if !standard {
            if !is_known_resource(name) {
                problems.invalid(path, name, "must be a standard resource type or fully qualified");
            }
            problems.invalid(path, name, "must be a standard resource for containers");
        }
    } else if !is_native_resource(name) && !is_extended_resource(name) {
        problems.invalid(path, name, "doesn't follow extended resource name standard");
    }
}

fn is_known_resource(name: &str) -> bool {
    const QUOTA_RESOURCES: &[&str] = &[
        "requests.cpu",
        "requests.memory",
        "requests.ephemeral-storage",
        "limits.cpu",
        "limits.memory",
        "limits.ephemeral-storage",
        "storage",
        "requests.storage",
    ];
    matches!(name, "cpu" | "memory" | "ephemeral-storage")
        || is_huge_page(name)
        || QUOTA_RESOURCES.contains(&name)
        || super::super::field_errors::is_integer_resource(name)
}

fn parse_amount(quantity: &Value) -> Option<Amount> {
    Amount::parse(quantity.as_str()?).ok()
}

/// Validates the requests and limits of a container or pod.
///
/// Each resource is checked by name; the real server takes them in any order.
fn validate_resources(problems: &mut FieldErrorList, own: &Value, path: &str, of: ResourceLevel) {
    let sorted = |field: &str| -> BTreeMap<&String, &Value> {
        entries(own, &format!("/{field}")).iter().collect()
    };
    let (limits, requests) = (sorted("limits"), sorted("requests"));
    for (name, quantity) in &limits {
        let at = format!("{path}.limits[{name}]");
        validate_resource_name(problems, name, &at, of);
        problems.check_resource_quantity(name, quantity, &at);
    }
    for (name, quantity) in &requests {
        let at = format!("{path}.requests[{name}]");
        validate_resource_name(problems, name, &at, of);
        problems.check_resource_quantity(name, quantity, &at);
        let text = quantity.as_str().unwrap_or_default();
        match limits.get(name) {
            Some(limit) => {
                let shown = limit.as_str().unwrap_or_default();
                let (Some(requested), Some(limit)) = (parse_amount(quantity), parse_amount(limit))
                else {
                    continue;
                };
                let path = format!("{path}.requests");
                if requested.as_nanos() != limit.as_nanos() && !is_overcommit_allowed(name) {
                    let detail = format!("must be equal to {name} limit of {shown}");
                    problems.invalid(path, text, detail);
                } else if requested.as_nanos() > limit.as_nanos() {
                    let detail = format!("must be less than or equal to {name} limit of {shown}");
                    problems.invalid(path, text, detail);
                }
            }
            None if !is_overcommit_allowed(name) => problems.required(
                format!("{path}.limits"),
                "Limit must be set for non overcommitable resources",
            ),
            None => {}
        }
    }
    let named = || limits.keys().chain(requests.keys());
    let has_base = named().any(|name| matches!(name.as_str(), "cpu" | "memory"));
    if !has_base && named().any(|name| is_huge_page(name)) {
        problems.forbidden(path, "HugePages require cpu or memory");
    }
}

fn validate_container_claims(
    problems: &mut FieldErrorList,
    context: &ContainerContext<'_>,
    container: &Value,
    path: &str,
) {
    let mut known: BTreeSet<String> = BTreeSet::new();
    for (index, claim) in list(container, "/resources/claims").iter().enumerate() {
        let at = format!("{path}[{index}]");
        let (name, request) = (text(claim, "/name"), text(claim, "/request"));
        if name.is_empty() {
            problems.required(at, "");
            continue;
        }
        let key = if request.is_empty() { name.to_owned() } else { format!("{name}/{request}") };
        let overlaps = known.contains(name)
            || (request.is_empty()
                && known.iter().any(|known| known.starts_with(&format!("{name}/"))));
        if overlaps {
            problems.duplicate(&*at, name);
        } else if !known.insert(key.clone()) {
            problems.duplicate(&*at, key);
        }
        if !context.claims.contains(&name) {
            let mut all = context.claims.clone();
            all.sort_unstable();
            let detail = if all.is_empty() {
                "must be one of the names in pod.spec.resourceClaims which is empty".to_owned()
            } else {
                format!("must be one of the names in pod.spec.resourceClaims: {}", all.join(", "))
            };
            problems.not_found(at, name, &detail);
        }
    }
}

pub(super) fn validate_pod_resources(
    problems: &mut FieldErrorList,
    context: &ContainerContext<'_>,
    path: &str,
) {
    let own = at(context.spec, "/resources");
    if own.is_null() {
        return;
    }
    let path = format!("{path}.resources");
    if !list(own, "/claims").is_empty() {
        problems.forbidden(
            format!("{path}.claims"),
            "claims may not be set for Resources at pod-level",
        );
    }
    validate_resources(problems, own, &path, ResourceLevel::Pod);
    let sums = match context.spec.as_object() {
        Some(spec) => super::super::pod::container_requests(spec),
        None => return,
    };
    for (name, sum) in sums {
        let Some(requested) = entries(own, "/requests").get(&name) else { continue };
        let (Some(requested_amount), Ok(sum_amount)) =
            (parse_amount(requested), Amount::parse(&sum))
        else {
            continue;
        };
        if sum_amount.as_nanos() > requested_amount.as_nanos() {
            problems.invalid(
                format!("{path}.requests[{name}]"),
                requested.clone(),
                format!("must be greater than or equal to aggregate container requests of {sum}"),
            );
        }
    }
    for (index, container) in list(context.spec, "/containers").iter().enumerate() {
        for (name, limit) in entries(container, "/resources/limits") {
            let Some(most) = entries(own, "/limits").get(name) else { continue };
            let (Some(limit_amount), Some(most_amount)) = (parse_amount(limit), parse_amount(most))
            else {
                continue;
            };
            if limit_amount.as_nanos() > most_amount.as_nanos() {
                let shown = most.as_str().unwrap_or_default();
                problems.invalid(
                    format!("{path}.containers[{index}][{name}].limits"),
                    limit.clone(),
                    format!("must be less than or equal to pod limits of {shown}"),
                );
            }
        }
    }
}

pub(super) fn validate_overhead(problems: &mut FieldErrorList, spec: &Value, path: &str) {
    if has(spec, "/overhead") {
        let whole = serde_json::json!({"limits": at(spec, "/overhead")});
        validate_resources(problems, &whole, path, ResourceLevel::Container);
    }
}

fn validate_probes_and_hooks(problems: &mut FieldErrorList, container: &Value, path: &str) {
    for name in ["postStart", "preStop"] {
        let handler = at(container, &format!("/lifecycle/{name}"));
        if !handler.is_null() {
            self::validate_handler(problems, handler, &format!("{path}.lifecycle.{name}"));
        }
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let probe = at(container, &format!("/{name}"));
        if probe.is_null() {
            continue;
        }
        let at = format!("{path}.{name}");
        validate_handler(problems, probe, &at);
        for name in [
            "initialDelaySeconds",
            "timeoutSeconds",
            "periodSeconds",
            "successThreshold",
            "failureThreshold",
        ] {
            problems.check_not_negative(probe, &format!("/{name}"), &format!("{at}.{name}"));
        }
        let threshold = number(probe, "/successThreshold");
        if name != "readinessProbe" && threshold != 1 {
            problems.invalid(format!("{at}.successThreshold"), threshold, "must be 1");
        }
        if name == "readinessProbe"
            && let Some(period) =
                super::super::json_access::at(probe, "/terminationGracePeriodSeconds").as_i64()
        {
            problems.invalid(
                format!("{at}.terminationGracePeriodSeconds"),
                period,
                "must not be set for readinessProbes",
            );
        }
    }
}

fn validate_handler(problems: &mut FieldErrorList, handler: &Value, path: &str) {
    let mut found = 0;
    for kind in ["exec", "httpGet", "tcpSocket", "grpc", "sleep"] {
        let action = at(handler, &format!("/{kind}"));
        if action.is_null() {
            continue;
        }
        let at = format!("{path}.{kind}");
        found += 1;
        if found > 1 {
            problems.forbidden(at, "may not specify more than 1 handler type");
            continue;
        }
        match kind {
            "exec" if list(action, "/command").is_empty() => {
                problems.required(format!("{at}.command"), "");
            }
            "httpGet" => {
                problems.check_port_or_name(
                    super::super::json_access::at(action, "/port"),
                    &format!("{at}.port"),
                );
                let scheme = text(action, "/scheme");
                if !["HTTP", "HTTPS"].contains(&scheme) {
                    problems.not_supported(format!("{at}.scheme"), scheme, &["HTTP", "HTTPS"]);
                }
            }
            "tcpSocket" | "grpc" => problems.check_port_or_name(
                super::super::json_access::at(action, "/port"),
                &format!("{at}.port"),
            ),
            _ => {}
        }
    }
    if found == 0 {
        problems.required(path, "must specify a handler type");
    }
}

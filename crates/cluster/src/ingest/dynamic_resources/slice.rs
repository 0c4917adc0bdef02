//! What drivers publish.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::resource::v1::{
    CapacityRequestPolicy, Counter, Device as WireDevice, DeviceAttribute,
    DeviceCapacity as WireCapacity, ResourceSlice,
};
use karpenter_core::resources::Quantity;
use karpenter_core::scheduling::dra::{
    Attribute, CounterSet, Device, DeviceCapacity, DeviceShape, NodeAccess, RequestPolicy,
    ShareRange, Slice,
};

use crate::ingest::{Objects, Reader, quantity, requirement, text};

/// All slices, by name.
pub(super) fn read(objects: &Objects, reader: &mut Reader<'_>) -> Vec<Arc<Slice>> {
    let mut wires: Vec<_> = objects.resource_slices.iter().collect();
    wires.sort_by_key(|wire| text(wire.metadata.name.as_ref()));
    let mut shapes = BTreeSet::new();
    let mut slices = Vec::with_capacity(wires.len());
    for wire in wires {
        slices.push(Arc::new(read_slice(wire, &mut shapes, reader)));
    }
    slices
}

/// Reads one ResourceSlice. Its devices share shapes with those that are known.
pub(crate) fn read_slice(
    wire: &ResourceSlice,
    shapes: &mut BTreeSet<Arc<DeviceShape>>,
    reader: &mut Reader<'_>,
) -> Slice {
    let mut problems = Vec::new();
    let slice = slice(wire, shapes, reader, &mut problems);
    reader.report_problems("ResourceSlice", &wire.metadata, &problems);
    slice
}

fn slice(
    wire: &ResourceSlice,
    shapes: &mut BTreeSet<Arc<DeviceShape>>,
    reader: &Reader<'_>,
    problems: &mut Vec<String>,
) -> Slice {
    let spec = &wire.spec;
    let owners = wire.metadata.owner_references.iter().flatten();
    let mut owners = owners.filter(|owner| owner.api_version == "v1" && owner.kind == "Node");
    let driver: Arc<str> = spec.driver.as_str().into();
    let devices = spec.devices.iter().flatten();
    let devices = devices.map(|wire| device(wire, &driver, shapes, problems)).collect();
    let budgets = spec.shared_counters.iter().flatten();
    let counters = budgets.map(|set| counters(&set.name, &set.counters, problems)).collect();
    Slice {
        driver,
        pool: spec.pool.name.as_str().into(),
        generation: spec.pool.generation,
        slice_count: spec.pool.resource_slice_count,
        owner_node: owners.next().map(|owner| owner.name.clone()),
        node_access: reach(wire, reader, problems),
        devices,
        counters,
    }
}

fn reach(wire: &ResourceSlice, reader: &Reader<'_>, problems: &mut Vec<String>) -> NodeAccess {
    let spec = &wire.spec;
    match (text(spec.node_name.as_ref()), &spec.node_selector) {
        _ if spec.all_nodes == Some(true) => NodeAccess::AllNodes,
        ("", Some(selector)) => {
            let terms = selector.node_selector_terms.iter();
            let read = |term| requirement::term(term, reader.aliases, problems);
            NodeAccess::Selector(terms.map(read).collect())
        }
        ("", None) => NodeAccess::PerDevice,
        (node, _) => NodeAccess::Node(node.to_owned()),
    }
}

fn device(
    wire: &WireDevice,
    driver: &Arc<str>,
    shapes: &mut BTreeSet<Arc<DeviceShape>>,
    problems: &mut Vec<String>,
) -> Device {
    let attributes = wire.attributes.iter().flatten();
    let attributes = attributes.filter_map(|(name, wire)| Some((name.clone(), attribute(wire)?)));
    let shape = DeviceShape {
        driver: Arc::clone(driver),
        attributes: attributes.collect(),
        capacity: capacities(wire.capacity.as_ref(), problems),
        allows_multiple: wire.allow_multiple_allocations == Some(true),
    };
    let shape = if let Some(known) = shapes.get(&shape) {
        Arc::clone(known)
    } else {
        let shape = Arc::new(shape);
        shapes.insert(Arc::clone(&shape));
        shape
    };
    let consumes = wire.consumes_counters.iter().flatten();
    let consumes = consumes.map(|set| counters(&set.counter_set, &set.counters, problems));
    Device { name: wire.name.as_str().into(), shape, consumes: consumes.collect() }
}

/// The value of an attribute; none for kinds of values that we do not know.
fn attribute(wire: &DeviceAttribute) -> Option<Attribute> {
    match wire {
        DeviceAttribute { string: Some(text), .. } => Some(Attribute::Text(text.clone())),
        DeviceAttribute { int: Some(number), .. } => Some(Attribute::Int(*number)),
        DeviceAttribute { bool: Some(truth), .. } => Some(Attribute::Bool(*truth)),
        DeviceAttribute { version: Some(text), .. } => Some(Attribute::Version(text.clone())),
        _ => None,
    }
}

fn capacities(
    wire: Option<&BTreeMap<String, WireCapacity>>,
    problems: &mut Vec<String>,
) -> BTreeMap<String, DeviceCapacity> {
    let mut capacities = BTreeMap::new();
    for (name, wire) in wire.into_iter().flatten() {
        // An unreadable capacity counts as zero.
        let value = quantity::read_quantity(&wire.value, name, problems).unwrap_or(Quantity::ZERO);
        let policy = wire.request_policy.as_ref().map(|wire| policy(wire, name, problems));
        capacities.insert(name.clone(), DeviceCapacity { value, policy });
    }
    capacities
}

fn policy(wire: &CapacityRequestPolicy, name: &str, problems: &mut Vec<String>) -> RequestPolicy {
    let mut one = |wire: &quantity::WireQuantity| quantity::read_quantity(wire, name, problems);
    let range = wire.valid_range.as_ref().map(|range| ShareRange {
        min: one(&range.min),
        max: range.max.as_ref().and_then(&mut one),
        step: range.step.as_ref().and_then(&mut one),
    });
    let mut values: Vec<_> = wire.valid_values.iter().flatten().filter_map(&mut one).collect();
    values.sort();
    RequestPolicy { default: wire.default.as_ref().and_then(&mut one), range, values }
}

fn counters(
    name: &str,
    wire: &BTreeMap<String, Counter>,
    problems: &mut Vec<String>,
) -> CounterSet {
    let counters = wire.iter().filter_map(|(counter, wire)| {
        Some((counter.clone(), quantity::read_quantity(&wire.value, counter, problems)?))
    });
    CounterSet { name: name.to_owned(), counters: counters.collect() }
}

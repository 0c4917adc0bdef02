//! Compiles and evaluates the CEL selectors of dynamic resource allocation.
//!
//! A selector is an expression about one device, as in `spec.selectors[].cel.expression` of a
//! DeviceClass and in requests of a ResourceClaim.
//!
//! The model is the scheduler of Kubernetes 1.36: `device.driver`, `device.attributes` and
//! `device.capacity` by domain (a domain that the device does not have is an empty map),
//! `device.allowMultipleAllocations`, and `cel.bind`. Absent: attributes that are lists, and
//! `includes` for them, which are behind a gate there.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use karpenter_grammar::Amount;

use crate::value::Map;
use crate::{CostBudget, Program, Schema, SchemaType, Val};

/// A compiled selector.
#[derive(Debug)]
pub struct Selector {
    program: Program,
}

/// What a selector sees of a device. Names without a domain are in that of the driver.
#[derive(Clone, Debug, Default)]
pub struct Device<'a> {
    pub driver: &'a str,
    /// By name or `domain/name`.
    pub attributes: Vec<(&'a str, Attribute<'a>)>,
    /// Quantities by name or `domain/name`.
    pub capacity: Vec<(&'a str, String)>,
    pub allow_multiple_allocations: bool,
}

/// The value of an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attribute<'a> {
    Text(&'a str),
    Int(i64),
    Bool(bool),
    /// A semantic version.
    Version(&'a str),
}

impl Selector {
    /// Compiles an expression.
    ///
    /// The error describes the expression and does not depend on a device.
    pub fn compile(expression: &str) -> Result<Self, String> {
        let program = Program::compile_for_variable("device", expression, &DEVICE_SCHEMA)?;
        Ok(Self { program })
    }

    /// Returns whether a device matches, or the error of the evaluation.
    ///
    /// One evaluation takes at most as many steps as the API allows, and all of them together no
    /// more than there are in `steps`.
    pub fn matches(&self, device: &CelDevice, steps: &mut u64) -> Result<bool, String> {
        let device = device.value.clone()?;
        let units = CostBudget::PER_RULE.min(*steps);
        let mut budget = CostBudget::new(units);
        let found = self.program.run(device, None, &mut budget);
        *steps = steps.saturating_sub(units - budget.remaining());
        let found = found.map_err(|error| error.to_string())?;
        found.as_bool().map_err(|_| {
            format!("CEL result of type {} could not be converted to bool", found.type_name())
        })
    }
}

/// A device as CEL expressions see it, for many selectors.
#[derive(Clone, Debug)]
pub struct CelDevice {
    /// The CEL value, or the error of an attribute that cannot be parsed.
    value: Result<Val<'static>, String>,
}

fn cel_string(text: &str) -> Val<'static> {
    Val::String(Cow::Owned(text.to_owned()))
}

impl Device<'_> {
    /// Converts the device for CEL, so that versions and quantities are parsed once.
    pub fn to_cel(&self) -> CelDevice {
        CelDevice { value: self.cel_value() }
    }

    fn cel_value(&self) -> Result<Val<'static>, String> {
        let mut attributes = ValuesByDomain::default();
        for (name, attribute) in &self.attributes {
            let value = match attribute {
                Attribute::Text(value) => cel_string(value),
                Attribute::Int(value) => Val::Int(*value),
                Attribute::Bool(value) => Val::Bool(*value),
                Attribute::Version(version) => Val::convert_string("semver", (*version).to_owned())
                    .map_err(|error| format!("attribute {name}: {error}"))?,
            };
            attributes.add(self.driver, name, value);
        }
        let mut capacity = ValuesByDomain::default();
        for (name, quantity) in &self.capacity {
            let value = Amount::parse(quantity)
                .map(Val::Quantity)
                .map_err(|error| format!("capacity {name}: {error}"))?;
            capacity.add(self.driver, name, value);
        }
        let fields = [
            ("driver", cel_string(self.driver)),
            ("allowMultipleAllocations", Val::Bool(self.allow_multiple_allocations)),
            ("attributes", attributes.into_cel()),
            ("capacity", capacity.into_cel()),
        ];
        let fields: Arc<[_]> = fields.map(|(name, value)| (cel_string(name), value)).into();
        Ok(Val::Map(Map::Computed(fields)))
    }
}

/// CEL values by domain and name.
#[derive(Default)]
struct ValuesByDomain<'a>(BTreeMap<&'a str, Vec<(Val<'static>, Val<'static>)>>);

impl<'a> ValuesByDomain<'a> {
    fn add(&mut self, driver: &'a str, name: &'a str, value: Val<'static>) {
        let (domain, name) = name.split_once('/').unwrap_or((driver, name));
        self.0.entry(domain).or_default().push((cel_string(name), value));
    }

    fn into_cel(self) -> Val<'static> {
        let domains = self.0.into_iter();
        let domains = domains
            .map(|(name, values)| (cel_string(name), Val::Map(Map::Computed(values.into()))));
        Val::Map(Map::ByDomain(domains.collect()))
    }
}

/// The schema of a device, to check expressions before there is one.
static DEVICE_SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
    let scalar = |kind| Schema { value_type: Some(kind), ..Schema::default() };
    let map = |values| Schema { map_values: Some(Arc::new(values)), ..scalar(SchemaType::Object) };
    // The types of attributes differ from device to device.
    let any = || Schema { int_or_string: true, ..Schema::default() };
    let properties = [
        ("driver", scalar(SchemaType::String)),
        ("allowMultipleAllocations", scalar(SchemaType::Boolean)),
        ("attributes", map(map(any()))),
        ("capacity", map(map(any()))),
    ];
    Schema {
        properties: properties.map(|(name, schema)| (name.to_owned(), Arc::new(schema))).into(),
        ..scalar(SchemaType::Object)
    }
});

#[cfg(test)]
mod tests {
    use super::*;

    /// `true`, `false`, or the error.
    fn eval(expression: &str, attributes: Vec<(&str, Attribute<'_>)>) -> String {
        let device = Device {
            driver: "dra.example.com",
            attributes,
            capacity: vec![("memory", "16Gi".to_owned()), ("other.com/cores", "4".to_owned())],
            allow_multiple_allocations: true,
        };
        match Selector::compile(expression) {
            Err(error) => format!("does not compile: {error}"),
            Ok(selector) => selector
                .matches(&device.to_cel(), &mut 10_000_000)
                .map_or_else(|error| error, |holds| holds.to_string()),
        }
    }

    /// The expressions are those by which Kubernetes tests its own.
    #[test]
    fn selectors_match_devices_like_the_kubernetes_scheduler() {
        use Attribute::{Bool, Int, Text, Version};
        let own = |value| vec![("name", value)];
        let name = "device.attributes['dra.example.com'].name";
        #[rustfmt::skip]
        let cases = [
            ("true".to_owned(), vec![], "true"),
            ("false".to_owned(), vec![], "false"),
            ("1".to_owned(), vec![], "does not compile: must evaluate to bool or the unknown type, not int"),
            ("device.nonsense".to_owned(), vec![], "does not compile: undefined field 'nonsense'"),
            ("self.driver == ''".to_owned(), vec![], "does not compile: undeclared reference to 'self'"),
            ("device.driver == 'dra.example.com'".to_owned(), vec![], "true"),
            ("device.allowMultipleAllocations".to_owned(), vec![], "true"),
            ("device.attributes['no'].x.isGreaterThan(quantity('0'))".to_owned(), vec![], "no such key: x"),
            ("device.attributes['no']['x'] == 1".to_owned(), vec![], "no such key: x"),
            ("'no' in device.attributes".to_owned(), vec![], "false"),
            ("'dra.example.com' in device.attributes".to_owned(), own(Bool(true)), "true"),
            ("'b.com' in device.attributes".to_owned(), vec![("b.com/x", Bool(true))], "true"),
            ("device.attributes['b.com'].x".to_owned(), vec![("b.com/x", Bool(true))], "true"),
            (name.to_owned(), own(Bool(true)), "true"),
            (name.to_owned(), own(Int(1)), "CEL result of type int could not be converted to bool"),
            (format!("{name} > 0"), own(Int(1)), "true"),
            (format!("{name} == 'fish'"), own(Text("fish")), "true"),
            (format!("{name} == 'fish'"), own(Int(1)), "false"),
            (format!("{name}.isGreaterThan(semver('0.0.1'))"), own(Version("1.0.0")), "true"),
            (format!("has({name}) && {name} == 3"), vec![], "false"),
            ("has(device.attributes['dra.example.com'].name)".to_owned(), own(Int(3)), "true"),
            ("device.capacity['dra.example.com'].memory.compareTo(quantity('16Gi')) == 0".to_owned(), vec![], "true"),
            ("device.capacity['dra.example.com'].memory.isLessThan(quantity('15Gi'))".to_owned(), vec![], "false"),
            ("device.capacity['other.com'].cores == quantity('4')".to_owned(), vec![], "true"),
            ("cel.bind(d, device.attributes['dra.example.com'], d.name && !d.other)".to_owned(),
                vec![("name", Bool(true)), ("other", Bool(false))], "true"),
            ("cel.bind(d, device, d.nonsense)".to_owned(), vec![], "does not compile: undefined field 'nonsense'"),
        ];
        for (expression, attributes, expected) in cases {
            assert_eq!(eval(&expression, attributes), expected, "{expression}");
        }
    }

    #[test]
    fn an_invalid_version_attribute_fails_every_selector_of_the_device() {
        let message = eval("true", vec![("name", Attribute::Version("latest"))]);
        assert!(message.starts_with("attribute name: "), "{message}");
    }

    #[test]
    fn selector_evaluation_stops_at_the_cost_limit() {
        let long = format!("[{}]", vec!["1"; 200].join(","));
        let expression = format!("{long}.all(a, {long}.all(b, {long}.all(c, a == b && b == c)))");
        assert_eq!(eval(&expression, vec![]), "operation cancelled: actual cost limit exceeded");
        let (selector, mut steps) = (Selector::compile("[1, 2, 3].all(a, a > 0)").unwrap(), 30);
        let mut matches = || selector.matches(&Device::default().to_cel(), &mut steps);
        assert_eq!(matches(), Ok(true));
        let error = matches().unwrap_err();
        assert_eq!(error, "operation cancelled: actual cost limit exceeded", "together");
    }
}

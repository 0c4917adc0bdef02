//! Kubelet settings that are expressions, for one instance type (spec 51 §5.4).
//!
//! The gate NodeClassCEL admits a CEL expression for `maxPods` and for each reserved resource.
//! [`KubeletExpressions`] evaluates one. Variables, rounding and the rule for a failure are here.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use karpenter_api::kubelet::{MaxPods, is_expression};
use karpenter_api::resources::{CPU, EPHEMERAL_STORAGE, MEMORY};
use karpenter_cel::{CostBudget, Environment, Expression, Type, Val};
use karpenter_operator::clock::Clock;

use super::settings::{ClassSettings, ResolutionOptions};
use crate::discovery::InstanceTypeInfo;
use crate::expiring::ExpiringMap;

/// How long a compiled expression is kept after its last use.
const COMPILED_TTL: Duration = Duration::from_hours(12);

/// Compiles and evaluates kubelet expressions.
///
/// It keeps compiled expressions; a failure to compile is not kept.
#[derive(Debug)]
pub struct KubeletExpressions {
    clock: Arc<dyn Clock>,
    environment: Environment,
    compiled: Mutex<ExpiringMap<String, Arc<Expression>>>,
}

/// The variables of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpressionVariables<'a> {
    /// `vcpus`.
    pub vcpus: i64,
    /// `memory_mib`: the memory before any overhead.
    pub memory_mib: i64,
    /// `default_enis`: interfaces of the default network card.
    pub default_enis: i64,
    /// `ips_per_eni`.
    pub ips_per_eni: i64,
    /// `max_pods`: the default number in `maxPods`, the resolved number elsewhere.
    pub max_pods: i64,
    /// `instance_type`.
    pub instance_type: &'a str,
}

impl KubeletExpressions {
    /// Returns an evaluator without compiled expressions.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let numbers = ["vcpus", "memory_mib", "default_enis", "ips_per_eni", "max_pods"];
        let numbers = numbers.into_iter().map(|name| (name, Type::Int));
        let environment = Environment::new(numbers.chain([("instance_type", Type::String)]));
        Self { clock, environment, compiled: Mutex::default() }
    }

    /// Returns the whole number that an expression gives, or why it gives none.
    ///
    /// An expression whose type is neither int nor double does not compile. A double is truncated
    /// toward zero.
    pub fn evaluate(
        &self,
        expression: &str,
        variables: &ExpressionVariables<'_>,
    ) -> Result<i64, String> {
        let compiled = self.compile(expression)?;
        let values = vec![
            Val::Int(variables.vcpus),
            Val::Int(variables.memory_mib),
            Val::Int(variables.default_enis),
            Val::Int(variables.ips_per_eni),
            Val::Int(variables.max_pods),
            Val::String(variables.instance_type.into()),
        ];
        let mut budget = CostBudget::new(CostBudget::PER_RULE);
        compiled.evaluate_int(values, &mut budget).map_err(|error| error.to_string())
    }

    fn compile(&self, expression: &str) -> Result<Arc<Expression>, String> {
        let now = self.clock.monotonic();
        let lock = || self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        let known = lock().get(expression, now).cloned();
        let compiled = match known {
            Some(known) => known,
            None => Arc::new(self.environment.compile_number(expression)?),
        };
        let mut cache = lock();
        cache.sweep(now);
        cache.insert(expression.to_owned(), Arc::clone(&compiled), now, COMPILED_TTL);
        Ok(compiled)
    }
}

/// An expression that failed for an instance type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "evaluating kubelet expression, {problem} (instance-type={instance_type}, field={field}{}, \
     expression={expression:?})",
    key.as_ref().map(|key| format!(", key={key}")).unwrap_or_default()
)]
pub struct ExpressionFailure {
    /// The instance type.
    pub instance_type: String,
    /// `maxPods`, `kubeReserved` or `systemReserved`.
    pub field: &'static str,
    /// The reserved resource.
    pub key: Option<String>,
    /// The text of the expression.
    pub expression: String,
    /// Why it gives no usable number.
    pub problem: String,
}

/// The kubelet settings of a node class on one instance type.
#[derive(Clone, Copy, Debug)]
pub struct KubeletContext<'a> {
    /// The instance type.
    pub info: &'a InstanceTypeInfo,
    /// The settings of the node class.
    pub settings: &'a ClassSettings,
    /// The settings of the process.
    pub options: &'a ResolutionOptions,
    /// Evaluates expressions.
    pub expressions: &'a KubeletExpressions,
}

impl KubeletContext<'_> {
    /// Returns `maxPods` as a number, if it is set.
    ///
    /// `default_pods` is the number of pods without `maxPods`. With the gate off an expression
    /// counts as unset.
    pub fn max_pods(&self, default_pods: i64) -> Result<Option<i64>, ExpressionFailure> {
        let expression = match &self.settings.max_pods {
            None => return Ok(None),
            Some(MaxPods::Count(number)) => return Ok(Some(i64::from(*number))),
            Some(MaxPods::Expression(_)) if !self.options.node_class_cel => return Ok(None),
            Some(MaxPods::Expression(expression)) => expression,
        };
        let result = self.evaluate(expression, default_pods);
        let result = result.and_then(|number| match i32::try_from(number) {
            Ok(0..) => Ok(number),
            _ => Err(format!("result {number} is not between 0 and {}", i32::MAX)),
        });
        result.map(Some).map_err(|problem| self.failure("maxPods", None, expression, problem))
    }

    /// Returns a map of reserved resources as quantities.
    ///
    /// An expression that fails or is negative is dropped with an error log; with the gate off all
    /// expressions are dropped.
    pub fn reserved(
        &self,
        field: &'static str,
        reserved: &BTreeMap<String, String>,
        pods: i64,
    ) -> BTreeMap<String, String> {
        let mut resolved = BTreeMap::new();
        for (key, value) in reserved {
            if !is_expression(value) {
                resolved.insert(key.clone(), value.clone());
            } else if self.options.node_class_cel {
                match self.reserved_expression(field, key, value, pods) {
                    Ok(number) => {
                        resolved.insert(key.clone(), reserved_quantity(key, number));
                    }
                    Err(failure) => tracing::error!(
                        error = %failure,
                        "dropping reserved resource whose expression failed"
                    ),
                }
            }
        }
        resolved
    }

    /// Checks every expression of the node class on this instance type.
    pub fn check(
        &self,
        default_pods: i64,
        pods: impl Fn(Option<i64>) -> i64,
    ) -> Result<(), ExpressionFailure> {
        let resolved = pods(self.max_pods(default_pods)?);
        let kube = self.settings.kube_reserved.iter().map(|entry| ("kubeReserved", entry));
        let system = self.settings.system_reserved.iter().map(|entry| ("systemReserved", entry));
        for (field, (key, value)) in kube.chain(system) {
            if is_expression(value) {
                self.reserved_expression(field, key, value, resolved)?;
            }
        }
        Ok(())
    }

    fn reserved_expression(
        &self,
        field: &'static str,
        key: &str,
        expression: &str,
        pods: i64,
    ) -> Result<i64, ExpressionFailure> {
        let result = self.evaluate(expression, pods).and_then(|number| match number {
            0.. => Ok(number),
            _ => Err(format!("result {number} is negative")),
        });
        result.map_err(|problem| self.failure(field, Some(key), expression, problem))
    }

    fn evaluate(&self, expression: &str, max_pods: i64) -> Result<i64, String> {
        let network = self.info.network.as_ref();
        let interfaces = network.and_then(super::capacity::default_card_interfaces);
        let variables = ExpressionVariables {
            vcpus: self.info.vcpus.into(),
            memory_mib: i64::try_from(self.info.memory_mib).unwrap_or(i64::MAX),
            default_enis: interfaces.unwrap_or_default().into(),
            ips_per_eni: network.map_or(0, |network| network.ipv4_per_interface).into(),
            max_pods,
            instance_type: &self.info.name,
        };
        self.expressions.evaluate(expression, &variables)
    }

    fn failure(
        &self,
        field: &'static str,
        key: Option<&str>,
        expression: &str,
        problem: String,
    ) -> ExpressionFailure {
        ExpressionFailure {
            instance_type: self.info.name.clone(),
            field,
            key: key.map(str::to_owned),
            expression: expression.to_owned(),
            problem,
        }
    }
}

/// Returns the quantity that an expression's number stands for.
pub fn reserved_quantity(key: &str, number: i64) -> String {
    match key {
        CPU => format!("{}m", round_up(number, 10)),
        MEMORY => format!("{}Mi", round_up(number, 16)),
        EPHEMERAL_STORAGE => format!("{number}Gi"),
        _ => number.to_string(),
    }
}

/// Rounds up to a multiple, unless that overflows.
fn round_up(number: i64, multiple: i64) -> i64 {
    match number.rem_euclid(multiple) {
        0 => number,
        rest => number.checked_add(multiple - rest).unwrap_or(number),
    }
}

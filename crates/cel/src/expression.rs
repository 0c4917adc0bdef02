//! Small expressions over declared variables, such as `max(60, vcpus * 30)`.
//!
//! They have the standard functions and macros of CEL, and `min(a, b)` and `max(a, b)` of numbers.
//! The functions of Kubernetes are not available. An expression is type-checked, so that a misspelt
//! variable and a sum of a number and a string are errors before any value exists.

use crate::compile::Dialect;
use crate::type_check::infer;
use crate::{CostBudget, Error, Program, Type, Val, go_text};

/// The variables that expressions may use, with their types.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    names: Vec<String>,
    types: Vec<Type>,
}

/// A compiled expression over declared variables.
#[derive(Debug)]
pub struct Expression {
    program: Program,
    result_type: Type,
    variable_count: usize,
}

impl Environment {
    /// Declares the variables.
    pub fn new<'a>(variables: impl IntoIterator<Item = (&'a str, Type)>) -> Self {
        let (names, types) =
            variables.into_iter().map(|(name, kind)| (name.to_owned(), kind)).unzip();
        Self { names, types }
    }

    /// Compiles and type-checks an expression.
    pub fn compile(&self, source: &str) -> Result<Expression, String> {
        let program = Program::compile_dialect(source, self.names.clone(), Dialect::Standard)?;
        let result_type = infer(program.root(), &self.types)?;
        Ok(Expression { program, result_type, variable_count: self.names.len() })
    }

    /// Compiles an expression that returns an integer or a double.
    pub fn compile_number(&self, source: &str) -> Result<Expression, String> {
        let expression = self.compile(source)?;
        match expression.result_type {
            Type::Int | Type::Double => Ok(expression),
            other => Err(format!("must return int or double, got {other}")),
        }
    }
}

impl Expression {
    pub fn result_type(&self) -> &Type {
        &self.result_type
    }

    /// Evaluates the expression with a value for each variable, in the order of declaration.
    pub fn evaluate<'a>(
        &'a self,
        values: Vec<Val<'a>>,
        budget: &mut CostBudget,
    ) -> Result<Val<'a>, Error> {
        if values.len() != self.variable_count {
            let (declared, given) = (self.variable_count, values.len());
            return Err(Error::new(format!("{declared} variables are declared, {given} given")));
        }
        self.program.run_with(values, budget)
    }

    /// Evaluates the expression to an integer; a double is truncated toward zero.
    ///
    /// A double that is infinite, not a number, or beyond 64 bits is an error.
    pub fn evaluate_int<'a>(
        &'a self,
        values: Vec<Val<'a>>,
        budget: &mut CostBudget,
    ) -> Result<i64, Error> {
        match self.evaluate(values, budget)? {
            Val::Int(value) => Ok(value),
            Val::Double(value) => truncate(value),
            other => {
                let found = other.type_name();
                Err(Error::new(format!("expression returned {found} instead of a number")))
            }
        }
    }
}

/// Two to the power of 63, the first double above all 64-bit integers.
const INT_LIMIT: f64 = 9_223_372_036_854_775_808.0;

#[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
fn truncate(value: f64) -> Result<i64, Error> {
    let text = || go_text::float(value);
    if !value.is_finite() {
        return Err(Error::new(format!("expression returned non-finite value {}", text())));
    }
    if !(-INT_LIMIT..INT_LIMIT).contains(&value) {
        return Err(Error::new(format!("expression returned {}, beyond 64 bits", text())));
    }
    Ok(value as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The variables of kubelet expressions (spec 51 §5.4).
    fn kubelet() -> Environment {
        let int = |name| (name, Type::Int);
        Environment::new([
            int("vcpus"),
            int("memory_mib"),
            int("default_enis"),
            int("ips_per_eni"),
            int("max_pods"),
            ("instance_type", Type::String),
        ])
    }

    /// Returns the integer of an expression about an m5.large, or its error.
    fn eval(source: &str) -> Result<i64, String> {
        let expression =
            kubelet().compile_number(source).map_err(|error| format!("compile: {error}"))?;
        let values = [2, 8192, 3, 10, 29].map(Val::Int).into_iter();
        let values = values.chain([Val::text("m5.large")]).collect();
        let mut budget = CostBudget::new(CostBudget::PER_RULE);
        expression.evaluate_int(values, &mut budget).map_err(|error| error.to_string())
    }

    #[test]
    fn kubelet_expressions_return_integers() {
        #[rustfmt::skip]
        let cases = [
            ("((default_enis - 1) * (ips_per_eni - 1)) + 2", 20),
            ("max(60, vcpus * 30)",                60),
            ("min(250, (default_enis * (ips_per_eni - 1)) * 16 + 2)", 250),
            ("min(1, 2.5)",                        1),  // int and double are a double
            ("max(1.5, 2)",                        2),
            ("max(-1.5, -2.5)",                    -1), // toward zero
            ("min(min(vcpus, 4), 1)",              1),
            ("11 * max_pods + 255",                574),
            ("memory_mib / 64",                    128),
            ("int(double(memory_mib) * 0.01)",     81),
            ("double(memory_mib) * 0.01",          81),
            ("instance_type.startsWith('m5.') ? 10 : 20", 10),
            ("instance_type == 't3.nano' || vcpus < 2 ? 10 : 20", 20),
            ("size(instance_type)",                8),
            ("[vcpus, 4].map(x, x * 2)[1]",        8),
            ("[1, 2, 3].filter(x, x > vcpus).size()", 1),
            ("{'m5.large': 7}[instance_type]",     7),
            ("instance_type.matches('^m5') ? 1 : 0", 1),
        ];
        for (source, expected) in cases {
            assert_eq!(eval(source), Ok(expected), "51 §5.4: {source}");
        }
    }

    #[test]
    fn expressions_of_other_types_or_names_do_not_compile() {
        #[rustfmt::skip]
        let cases = [
            ("instance_type",         "must return int or double, got string"),
            ("vcpus > 2",             "must return int or double, got bool"),
            ("dyn(vcpus)",            "must return int or double, got dyn"),
            ("5u",                    "must return int or double, got uint"),
            ("cpus * 2",              "undeclared reference to 'cpus'"),
            ("vcpus + 1.5",           "found no matching overload for '_+_' applied to '(int, double)'"),
            ("vcpus + instance_type", "found no matching overload for '_+_' applied to '(int, string)'"),
            ("vcpus == '2' ? 1 : 2",  "found no matching overload for '_==_' applied to '(int, string)'"),
            ("vcpus ? 1 : 2",         "expected type 'bool' but found 'int'"),
            ("true ? 1 : 'a'",        "found no matching overload for '_?_:_' applied to '(bool, int, string)'"),
            ("max(vcpus, '2')",       "found no matching overload for 'max' applied to '(int, string)'"),
            ("max(vcpus)",            "undeclared reference to 'max'"),
            ("-instance_type",        "found no matching overload for '-_' applied to '(string)'"),
            ("instance_type.size",    "type 'string' does not support field selection"),
            ("instance_type.upperAscii().size()", "undeclared reference to 'upperAscii'"),
            ("quantity('1').asInteger()", "undeclared reference to 'quantity'"),
            ("[1, 2].sum()",          "undeclared reference to 'sum'"),
            ("cel.bind(x, vcpus, x)", "undeclared reference to 'x'"),
            ("{'a': 1}.?a",           "unsupported syntax '.?'"),
            ("vcpus +",               "1:8: the expression ends"),
        ];
        for (source, expected) in cases {
            assert_eq!(eval(source), Err(format!("compile: {expected}")), "51 §5.4: {source}");
        }
    }

    #[test]
    fn expressions_that_fail_return_an_error() {
        #[rustfmt::skip]
        let cases = [
            ("vcpus / 0",                            "division by zero"),
            ("vcpus % (vcpus - 2)",                  "modulus by zero"),
            ("9223372036854775807 + vcpus",          "integer overflow"),
            ("(-9223372036854775807 - 1) / -1",      "integer overflow"),
            ("(-9223372036854775807 - 1) % -1",      "integer overflow"),
            ("-(-9223372036854775807 - 1)",          "integer overflow"),
            ("memory_mib * 9223372036854775807",     "integer overflow"),
            ("1.0 / 0.0",                            "expression returned non-finite value +Inf"),
            ("-1.0 / 0.0",                           "expression returned non-finite value -Inf"),
            ("0.0 / 0.0",                            "expression returned non-finite value NaN"),
            ("9223372036854775808.0",                "expression returned 9.223372036854776e+18, beyond 64 bits"),
            ("int(1e300)",                           "integer overflow"),
            ("int(instance_type)",                   "type conversion error from 'string' to 'int'"),
            ("[1][vcpus]",                           "index out of bounds: 2"),
            ("{'a': 1}[instance_type]",              "no such key: m5.large"),
        ];
        for (source, expected) in cases {
            assert_eq!(eval(source), Err(expected.to_owned()), "51 §5.4: {source}");
        }
        assert_eq!(eval("-9223372036854775808.0"), Ok(i64::MIN));
    }

    #[test]
    fn evaluation_is_bounded_and_takes_one_value_for_each_variable() {
        let many = "[1,2,3,4,5,6,7,8,9,0]";
        let nested =
            (0..8).fold("true".to_owned(), |inner, i| format!("{many}.all(x{i}, {inner})"));
        let limit = "operation cancelled: actual cost limit exceeded";
        assert_eq!(eval(&format!("{nested} ? 1 : 2")), Err(limit.to_owned()));

        let expression = kubelet().compile("vcpus").unwrap();
        let error = expression.evaluate(Vec::new(), &mut CostBudget::new(10)).unwrap_err();
        assert_eq!(error.to_string(), "6 variables are declared, 0 given");
    }
}

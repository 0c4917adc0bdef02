//! Expressions, one line each.
//!
//! Apart from the bounds at the end, all of these were put to a kube-apiserver 1.36 as rules, and
//! it agrees.

use serde_json::{Value, json};

use crate::{CostBudget, Error, ListType, Program, Schema, SchemaType, StringFormat, Val};

fn schema() -> Schema {
    let of_type = |value_type| Schema { value_type: Some(value_type), ..Schema::default() };
    let string = || of_type(SchemaType::String);
    let integer = || of_type(SchemaType::Integer);
    let object = |properties: Vec<(&str, Schema)>| {
        let properties = properties.into_iter();
        Schema {
            properties: properties.map(|(name, schema)| (name.into(), schema.into())).collect(),
            ..of_type(SchemaType::Object)
        }
    };
    let list = |items: Schema, list_type| Schema {
        items: Some(items.into()),
        list_type,
        ..of_type(SchemaType::Array)
    };
    let item = || object(vec![("k", string()), ("v", integer())]);
    let union = || Schema { int_or_string: true, ..Schema::default() };
    let formatted = |format| Schema { format: Some(format), ..string() };
    let nested = object(vec![
        ("a-b", string()),
        ("namespace", string()),
        ("p", object(vec![("q", string())])),
    ]);
    object(vec![
        ("s", string()),
        ("opt", string()),
        ("uni", string()),
        ("n", integer()),
        ("m", integer()),
        ("d", of_type(SchemaType::Number)),
        ("b", of_type(SchemaType::Boolean)),
        ("any", union()),
        ("pct", union()),
        ("l", list(string(), ListType::Atomic)),
        ("li", list(integer(), ListType::Atomic)),
        ("set", list(string(), ListType::Set)),
        ("set2", list(string(), ListType::Set)),
        ("keyed", list(item(), ListType::Map(vec!["k".into()]))),
        ("lo", list(item(), ListType::Atomic)),
        ("map", Schema { map_values: Some(string().into()), ..object(vec![]) }),
        ("o", nested),
        ("nul", Schema { nullable: true, ..string() }),
        ("at", formatted(StringFormat::DateTime)),
        ("for", formatted(StringFormat::Duration)),
    ])
}

fn data() -> Value {
    json!({
        "s": "abc", "uni": "Ünï 日本", "n": 3, "m": 0, "d": 1.5, "b": true, "any": 5, "pct": "50%",
        "l": ["a", "b", "c"], "li": [3, 1, 2], "set": ["a", "b"], "set2": ["b", "a"],
        "keyed": [{"k": "x", "v": 1}, {"k": "y"}], "lo": [{"k": "x"}, {"k": "y", "v": 2}],
        "map": {"a": "1", "b.c/d": "2"}, "o": {"a-b": "2", "namespace": "6", "p": {"q": "8"}},
        "nul": null, "at": "2024-01-02T05:04:05+02:00", "for": "1h30m",
    })
}

/// `true`, `false`, or the error.
fn eval(expression: &str) -> String {
    eval_on(expression, &data())
}

fn eval_on(expression: &str, data: &Value) -> String {
    let schema = schema();
    let program = match Program::compile(expression, &schema, false) {
        Ok(program) => program,
        Err(problem) => return format!("does not compile: {problem}"),
    };
    let this = Val::from_self(data, &schema, false).unwrap();
    let result = program.run(this.clone(), Some(this), &mut CostBudget::new(CostBudget::PER_RULE));
    match result.and_then(|value| value.as_bool()) {
        Ok(value) => value.to_string(),
        Err(error) => error.to_string(),
    }
}

#[track_caller]
fn assert_results(cases: &[(&str, &str)]) {
    for (expression, expected) in cases {
        assert_eq!(eval(expression), *expected, "{expression}");
    }
}

#[track_caller]
fn assert_true(expressions: &[&str]) {
    for expression in expressions {
        assert_eq!(eval(expression), "true", "{expression}");
    }
}

#[test]
fn field_selection_and_has_treat_null_fields_as_absent() {
    #[rustfmt::skip]
    assert_results(&[
        ("self.s == 'abc'",                         "true"),
        ("has(self.opt)",                           "false"),
        ("self.opt == ''",                          "no such key: opt"),
        ("has(self.nul)",                           "false"), // null is absent
        ("self.o.p.q == '8' && has(self.o.p.q)",    "true"),
        ("self.o.a__dash__b == '2'",                "true"),
        ("self.o.__namespace__ == '6' && self.o.namespace == '6'", "true"),
        ("'b.c/d' in self.map && self.map['a'] == '1' && self.map.a == '1'", "true"),
        ("self.map['zz'] == ''",                    "no such key: zz"),
        ("self.l[0] == 'a'",                        "true"),
        ("self.l[3] == 'a'",                        "index out of bounds: 3"),
        ("self.?opt.orValue('none') == 'none'",     "true"),
        ("self.?o.p.?q.orValue('none') == '8'",     "true"),
        ("self.map[?'zz'].hasValue() || self.l[?9].hasValue()", "false"),
        ("self.?opt.value() == ''",                 "optional.none() dereference"),
        ("[?self.?opt, 'b'] == ['b']",              "true"),
    ]);
}

#[test]
fn a_deciding_operand_overrides_errors_of_other_operands() {
    #[rustfmt::skip]
    assert_results(&[
        ("self.opt == '' || true",                  "true"),
        ("true || self.opt == ''",                  "true"),
        ("self.opt == '' && false",                 "false"),
        ("self.opt == '' || false",                 "no such key: opt"),
        ("self.n == 3 ? true : self.opt == ''",     "true"),
        ("self.lo.exists(x, x.v == 2)",             "true"), // the first has no v
        ("self.lo.all(x, x.v == 1)",                "false"),
        ("self.lo.exists(x, x.v == 9)",             "no such key: v"),
        ("self.lo.all(x, x.v == 2)",                "no such key: v"),
        ("self.lo.filter(x, x.v == 2).size() == 1", "no such key: v"),
        ("self.lo.exists_one(x, has(x.v))",         "true"),
    ]);
}

#[test]
fn comprehension_macros_iterate_over_lists_and_maps() {
    assert_true(&[
        "self.l.all(x, x != '') && !self.l.exists(x, x == 'z')",
        "self.l.filter(x, x != 'a') == ['b', 'c']",
        "self.l.map(x, x + '!') == ['a!', 'b!', 'c!']",
        "self.l.map(x, x != 'a', x + '!') == ['b!', 'c!']",
        "self.map.all(k, self.map[k] != '')",
        "self.map.exists(k, k.startsWith('b'))",
        "self.l.all(x, self.l.exists(y, x == y))",
        "self.keyed.all(x, self.keyed.filter(y, x.k == y.k).size() == 1)",
        "[1, 2].exists(x, [3, 4].exists(y, x + y == 5))",
    ]);
}

#[test]
fn equality_and_ordering_match_the_api_server() {
    assert_true(&[
        "self.l == ['a', 'b', 'c'] && self.l != ['c', 'b', 'a']",
        "self.set == self.set2", // in any order
        "self.map == {'a': '1', 'b.c/d': '2'}",
        "self.o == self.o && self == oldSelf",
        "self.n == 3 && self.n < 3.5 && self.d > 1",
        "dyn(self.n) == dyn(3.0) && dyn(1) != dyn('1')",
        "'a' < 'b' && self.s >= 'abc' && !(self.s in ['x']) && self.n in [1, 2, 3]",
        "type(self.any) == int && type(self.pct) == string",
        "{'a': 1, 'a': 2}['a'] == 2",
    ]);
    assert_results(&[("self.any > 3", "true"), ("self.pct > 3", "no such overload")]);
}

#[test]
fn integer_arithmetic_fails_on_overflow() {
    #[rustfmt::skip]
    assert_results(&[
        ("self.n + 1 == 4 && self.n * 2 - 1 == 5 && 7 / 2 == 3 && 7 % 4 == 3 && -self.n == -3", "true"),
        ("9223372036854775807 + 1 == 0",            "integer overflow"),
        ("self.n / self.m == 0",                    "division by zero"),
        ("self.n % self.m == 0",                    "modulus by zero"),
        ("self.d * 2.0 == 3.0 && 1.0 / 0.0 > 1.0",  "true"),
        ("1 - -1 == 2 && !!self.b && !(!self.b) && - -1 == 1", "true"),
        ("-9223372036854775808 < 0 && 1 + 2 * 3 == 7 && (1 + 2) * 3 == 9 && 7 - 2 - 1 == 4", "true"),
    ]);
}

#[test]
fn string_methods_match_the_api_server() {
    assert_true(&[
        "self.uni.size() == 6 && size(self.s) == 3", // characters
        "self.s.startsWith('a') && self.s.endsWith('c') && self.s.contains('b')",
        "self.s.matches('b') && !self.uni.matches(r'^\\w+$')",
        "self.s.find('[a-b]+') == 'ab' && self.s.find('z') == ''",
        "self.s.findAll('[a-z]') == ['a', 'b', 'c'] && self.s.findAll('[a-z]', 2).size() == 2",
        "'a.b.c'.split('.') == ['a', 'b', 'c'] && 'a.b.c'.split('.', 2) == ['a', 'b.c']",
        "'abc'.split('') == ['a', 'b', 'c'] && ''.split('.') == [''] && 'a'.split('.', 0) == []",
        "self.s.substring(1) == 'bc' && self.s.substring(1, 2) == 'b' && self.uni.substring(0, 1) == 'Ü'",
        "'aaa'.replace('a', 'x', 2) == 'xxa' && 'aaa'.replace('a', 'x', -1) == 'xxx'",
        "self.s.indexOf('b') == 1 && self.s.lastIndexOf('c') == 2 && self.s.indexOf('z') == -1",
        "self.s.charAt(0) == 'a' && self.s.charAt(3) == '' && ' a '.trim() == 'a'",
        "self.s.upperAscii() == 'ABC' && self.l.join(',') == 'a,b,c'",
        "'%s-%d'.format([self.s, self.n]) == 'abc-3'",
        r#""it\'s" == 'it\'s' && '''it's''' == 'it\'s' && b'a' < b'b'"#,
    ]);
    assert_results(&[
        ("self.s.substring(5) == ''", "index out of range: 5"),
        ("self.s.substring(2, 1) == ''", "invalid substring range. start: 2, end: 1"),
        ("self.s.split('@')[1] == ''", "index out of bounds: 1"),
    ]);
}

#[test]
fn type_conversions_match_the_api_server() {
    #[rustfmt::skip]
    assert_results(&[
        ("int('5') == 5 && int(1.9) == 1 && double('1.5') == 1.5 && uint(5) == 5u", "true"),
        ("string(1) == '1' && string(true) == 'true' && string(1.5) == '1.5' && bool('true')", "true"),
        ("int(self.s) == 5",                "type conversion error from 'string' to 'int'"),
        ("uint(-self.n) == 5u",             "unsigned integer overflow"),
        ("duration(self.s) > duration('1s')", "type conversion error from 'string' to 'google.protobuf.Duration'"),
    ]);
}

#[test]
fn list_set_and_kubernetes_library_functions_are_available() {
    assert_true(&[
        "self.li.sum() == 6 && self.li.min() == 1 && self.li.max() == 3 && !self.li.isSorted()",
        "self.li.sort() == [1, 2, 3] && self.li.indexOf(2) == 2 && self.li.slice(0, 2) == [3, 1]",
        "self.set + self.set2 == ['a', 'b']",
        "sets.contains(self.l, ['a']) && sets.equivalent(self.l, ['c', 'b', 'a'])",
        "self.l.first().value() == 'a' && [[1], [2]].flatten() == [1, 2] && lists.range(2) == [0, 1]",
        "quantity('1Gi').isGreaterThan(quantity('1G')) && isQuantity('100m') && !isQuantity(self.s)",
        "cidr('10.0.0.0/8').containsIP('10.1.2.3') && isIP('::1')",
        "url('https://example.com:80/a').getHostname() == 'example.com' && !isURL(self.s)",
        "semver('1.2.3').isLessThan(semver('1.10.0'))",
        "!format.dns1123Label().validate(self.s).hasValue()",
    ]);
    assert_results(&[
        ("[].map(x, 1).max() == 1", "max called on empty list"),
        ("self.li.slice(0, 9) == []", "cannot slice(0, 9), list is length 3"),
    ]);
}

#[test]
fn timestamps_and_durations_match_the_api_server() {
    assert_true(&[
        "self.at == timestamp('2024-01-02T03:04:05Z') && self.at.getHours() == 3", // in UTC
        "string(self.at) == '2024-01-02T05:04:05+02:00' && int(self.at) == 1704164645",
        "string(timestamp('2024-01-02T03:04:05.120Z')) == '2024-01-02T03:04:05.12Z'",
        "self.at == timestamp(1704164645)",
        "self.__for__ == duration('90m') && string(self.__for__) == '5400s'",
        "self.at + self.__for__ > self.at && self.at - self.at == duration('0s')",
    ]);
}

#[test]
fn parse_errors_name_line_and_column() {
    #[rustfmt::skip]
    assert_results(&[
        ("self.s ==",            "does not compile: 1:10: the expression ends"),
        ("self.s == 'a",         "does not compile: 1:11: a string that is not closed"),
        ("self.s\n  == )",       "does not compile: 2:6: ')' is unexpected"),
        ("[1, 2",                "does not compile: 1:6: expected ',', but the expression ends"),
        ("self.s self.s",        "does not compile: 1:8: 'self' is unexpected"),
        ("if == 1",              "does not compile: 1:1: reserved identifier: if"),
        ("has(self)",            "does not compile: invalid argument to has() macro"),
        ("self.l.all(1, true)",  "does not compile: argument must be a simple name"),
        ("9223372036854775808 > 0", "does not compile: 1:1: a number that is too big"),
        ("self.l.existsOne(x, true)", "does not compile: the macro 'existsOne' is not supported with 2 arguments"),
    ]);
}

#[test]
fn the_parser_limits_nesting_so_that_expressions_fit_a_small_stack() {
    let nested = |n: usize, open: &str, inner: &str, close: &str| {
        format!("{}{inner}{}", open.repeat(n), close.repeat(n))
    };
    let too_deep = |expression: &str| {
        assert!(eval(expression).ends_with("the expression is nested too deeply"), "{expression}");
    };
    // Nothing here may end the process, however long.
    for n in [150, 5000] {
        too_deep(&nested(n, "(", "true", ")"));
        too_deep(&nested(n, "!(", "true", ")"));
        too_deep(&nested(n, "[", "", "]"));
        too_deep(&nested(n, "true ? true : ", "true", ""));
        too_deep(&nested(n, "", "1", " + 1"));
        too_deep(&nested(n, "", "'a'", ".trim()"));
        too_deep(&nested(n, "", "self", ".?o"));
    }
    // Chains of logic are flat.
    assert_true(&[
        &nested(5000, "", "true", " && true"),
        &nested(5000, "", "false || true", " || false"),
    ]);
    // The deepest of each kind.
    let macros = (0..90).fold("true".to_owned(), |inner, i| format!("[1].all(x{i}, {inner})"));
    assert_true(&[
        &nested(90, "(", "true", ")"),
        &nested(90, "!(", "true", ")"),
        &nested(90, "true ? true : ", "true", ""),
        &(nested(90, "", "1", " + 1") + " == 91"),
        &macros,
    ]);
}

#[test]
fn evaluation_stops_at_the_cost_limit() {
    let many = "[1,2,3,4,5,6,7,8,9,0]";
    let nested = (0..8).fold("true".to_owned(), |inner, i| format!("{many}.all(x{i}, {inner})"));
    #[rustfmt::skip]
    assert_results(&[
        (&nested,                                     "operation cancelled: actual cost limit exceeded"),
        (&format!("{nested} || true"),                "operation cancelled: actual cost limit exceeded"), // not forgiven
        ("lists.range(1000000000000).size() > 0",     "operation cancelled: actual cost limit exceeded"),
    ]);
    assert_eq!(
        Error::CostLimitExceeded.to_string(),
        "operation cancelled: actual cost limit exceeded"
    );
}

#[test]
fn library_calls_charge_for_nested_list_items() {
    let mut data = data();
    let long = json!("a".repeat(1_000_000));
    data["s"] = long.clone();
    data["l"] = json!([long]);
    data["map"] = json!({"a": long});
    let cut = "operation cancelled: actual cost limit exceeded";
    for (expression, repeated) in [
        ("sets.contains([self.s], [self.s])", cut),
        ("sets.contains(self.l, self.l)", cut),
        ("sets.contains([[[self.s]]], [[[self.s]]])", cut),
        ("sets.contains([{'k': self.s}], [{'k': self.s}])", cut),
        ("sets.contains([self.map], [self.map])", cut),
        ("sets.contains([bytes(self.s)], [bytes(self.s)])", cut),
        ("sets.contains([optional.of(self.s)], [optional.of(self.s)])", cut),
        ("sets.contains(self.li, self.li)", "true"),
    ] {
        assert_eq!(eval_on(expression, &data), "true", "{expression}");
        let many = format!("lists.range(1000).all(i, {expression})");
        assert_eq!(eval_on(&many, &data), repeated, "{many}");
    }
}

/// A quantity is exact to 1e-9, and stops at a bound far above all real ones.
#[test]
fn extreme_quantities_are_rounded_or_bounded() {
    let mut data = data();
    let mut eval = |expression: &str, a: &str, b: &str| {
        data["s"] = json!(a);
        data["uni"] = json!(b);
        eval_on(
            &expression.replace('A', "quantity(self.s)").replace('B', "quantity(self.uni)"),
            &data,
        )
    };
    let uses = [
        "A == B",
        "A != B",
        "A in [B]",
        "[A] == [B]",
        "{'k': A} == {'k': B}",
        "optional.of(A) == optional.of(B)",
        "A.compareTo(B) == 0",
        "A.isLessThan(B)",
        "A.isGreaterThan(B)",
        "A.add(B) == A",
        "A.sub(B) == A",
        "A.add(9223372036854775807) == A",
        "A.sign() == B.sign()",
        "A.isInteger() || B.isInteger()",
        "sets.contains([A], [B])",
        "[A, B].distinct().size() == 1",
        "[A, B].indexOf(B) == 0",
    ];
    let zeros = "0".repeat(1000);
    let (long, tiny) = (format!("1{zeros}"), format!("0.{zeros}1"));
    let extreme = [
        "1e309",
        "-1e309",
        "1e22",
        "1e-16",
        "1e-309",
        "10e2147483647",
        "0.1e-2147483648",
        "1e-9223372036854775808",
        "99999999999999999999999",
        "100000E",
        "0.0000001n",
        "10000Ei",
        "0",
        "-0.000000000000001",
        &long,
        &tiny,
    ];
    for expression in uses {
        for a in extreme {
            for b in extreme.into_iter().chain(["1", "1n"]) {
                let result = eval(expression, a, b);
                assert!(matches!(&*result, "true" | "false"), "{expression}: {a}, {b}: {result}");
            }
        }
    }
    #[rustfmt::skip]
    let cases = [
        ("A == B",                       "1k", "1000"),
        ("A == B",                       "8000Ei", "9223372036854775807"), // Kubernetes caps binary ones
        ("A.isGreaterThan(B)",           "1e21", "0.000000000000001"),
        ("A.isLessThan(B)",              "-1e21", "-0.000000000000001"),
        ("A == B && A.sign() == 1",      "0.000000000000001", "1n"), // rounds up
        ("A in [B] && A.add(B) == quantity('2')", "1", "1000m"),
        ("A.add(1).sub(B) == quantity('1500m')", "1", "500m"),
        ("A.asInteger() == 1024 && !B.isInteger()", "1Ki", "0.5"),
        ("type(A) == type(B)",           "1", "2"),
        ("sets.equivalent([A, B], [quantity('1000m'), quantity('2')])", "2", "1"),
        ("!isQuantity(self.s) && !isQuantity(self.uni)", "1e+-3", "1e"),
        ("!isQuantity(self.s) && isQuantity(self.uni)", " 1", "+"), // as Kubernetes parses them
    ];
    for (expression, a, b) in cases {
        assert_eq!(eval(expression, a, b), "true", "{expression}: {a}, {b}");
    }
    assert_eq!(eval_on("quantity('500m').asApproximateFloat() == 0.5", &json!({})), "true");
    // A sum stops at the bound.
    let doubled = format!("[A]{}[0] == quantity('1e40')", ".map(x, x.add(x))".repeat(60));
    assert_eq!(eval(&doubled, "1e21", ""), "true");
    #[rustfmt::skip]
    let errors = [
        ("A == B",             "abc", "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"),
        ("A == B",             "1mm", "unable to parse quantity's suffix"),
        ("A.asInteger() == 1", "1e22", "cannot convert value to integer"),
        ("A.asInteger() == 1", "500m", "cannot convert value to integer"),
        ("A < B",              "1",   "no such overload"),
        ("A.add('1') == B",    "1",   "no such overload"),
        ("string(A) == '1'",   "1",   "type conversion error from 'kubernetes.Quantity' to 'string'"),
    ];
    for (expression, a, error) in errors {
        assert_eq!(eval(expression, a, "1"), error, "{expression}: {a}");
    }
}

//! Calls into the function library of kube-cel.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock};

use karpenter_grammar::Amount;
use kube_cel::cel::common::ast::{CallExpr, Expr};
use kube_cel::cel::objects::{Key, Map as LibraryMap, Opaque, OptionalValue};
use kube_cel::cel::{Context, ExecutionError, IdedExpr, Value as LibraryValue};
use kube_cel::{KubeCelExt, cel};

use crate::value::Map;
use crate::{Error, Val};

static LIBRARY_CONTEXT: LazyLock<Context<'static>> =
    LazyLock::new(|| Context::default().with_all());

/// The variable names of operands in the library.
///
/// Expressions cannot contain such names, so they are never ambiguous.
const OPERAND_NAMES: [&str; 5] = ["@0", "@1", "@2", "@3", "@4"];

/// Calls a function, as a method when there is a target. An operator is a function too.
pub(crate) fn call<'a>(
    function: &str,
    target: Option<Val<'a>>,
    args: Vec<Val<'a>>,
) -> Result<Val<'a>, Error> {
    let mut scope = LIBRARY_CONTEXT.new_inner_scope();
    let mut names = OPERAND_NAMES.iter();
    let mut bind = |value: Val<'a>| -> Result<IdedExpr, Error> {
        let name = names.next().ok_or_else(Error::no_such_overload)?;
        scope.add_variable_from_value(*name, to_library(value)?);
        Ok(IdedExpr { id: 0, expr: Expr::Ident((*name).to_owned()) })
    };
    let target = target.map(&mut bind).transpose()?.map(Box::new);
    let args = args.into_iter().map(bind).collect::<Result<_, _>>()?;
    let call = CallExpr { func_name: function.to_owned(), target, args };
    let expression = IdedExpr { id: 0, expr: Expr::Call(call) };
    let result = catch_library_panic(function, || LibraryValue::resolve(&expression, &scope))?;
    match result {
        Ok(value) => from_library(value),
        Err(ExecutionError::FunctionError { message, .. }) => Err(Error::new(message)),
        Err(ExecutionError::Overflow(..)) => Err(Error::new("integer overflow")),
        Err(_) => Err(Error::no_such_overload()),
    }
}

/// Whether two values that only the library knows are equal.
pub(crate) fn equal(a: &LibraryValue, b: &LibraryValue) -> Result<bool, Error> {
    catch_library_panic("==", || a == b)
}

/// How two values that only the library knows are ordered, if their type has an order.
pub(crate) fn compare(a: &LibraryValue, b: &LibraryValue) -> Result<Ordering, Error> {
    catch_library_panic("<", || a.partial_cmp(b))?.ok_or_else(Error::no_such_overload)
}

/// Runs library code and returns an error if it panics.
///
/// Some of it panics on extreme texts (`'%.999999f'` as a format). With these an object must only
/// be rejected. Only functions without state are shared with the library.
fn catch_library_panic<T>(function: &str, code: impl FnOnce() -> T) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(code))
        .map_err(|_| Error::new(format!("{function}: the value is too extreme")))
}

/// A quantity inside a list or map that the library compares.
#[derive(Debug, PartialEq, Eq)]
struct LibraryQuantity(Amount);

impl Opaque for LibraryQuantity {
    fn runtime_type_name(&self) -> &'static str {
        "kubernetes.Quantity"
    }
}

fn to_library(value: Val<'_>) -> Result<LibraryValue, Error> {
    Ok(match value {
        Val::Null => LibraryValue::Null,
        Val::Bool(value) => value.into(),
        Val::Int(value) => value.into(),
        Val::UInt(value) => value.into(),
        Val::Double(value) => value.into(),
        Val::String(text) => text.into_owned().into(),
        Val::Bytes(bytes) => LibraryValue::Bytes(Arc::new(bytes.to_vec())),
        Val::List(list) => {
            let items = list.iter().map(|item| to_library(item?)).collect::<Result<Vec<_>, _>>()?;
            LibraryValue::List(Arc::new(items))
        }
        Val::Map(map) => to_library_map(&map)?,
        Val::Optional(value) => {
            let inner = value.map(|value| to_library(Val::clone(&value))).transpose()?;
            LibraryValue::Opaque(Arc::new(match inner {
                Some(inner) => OptionalValue::of(inner),
                None => OptionalValue::none(),
            }))
        }
        Val::Quantity(amount) => LibraryValue::Opaque(Arc::new(LibraryQuantity(amount))),
        Val::Library(value) => value,
        Val::Type(_) | Val::Untyped(_) => return Err(Error::no_such_overload()),
    })
}

fn to_library_map(map: &Map<'_>) -> Result<LibraryValue, Error> {
    let mut entries = HashMap::new();
    for key in map.keys() {
        let Some(value) = map.get(&key) else { continue };
        let key = match key {
            Val::Bool(key) => Key::Bool(key),
            Val::Int(key) => Key::Int(key),
            Val::UInt(key) => Key::Uint(key),
            Val::String(key) => Key::String(Arc::new(key.into_owned())),
            _ => return Err(Error::no_such_overload()),
        };
        entries.insert(key, to_library(value?)?);
    }
    Ok(LibraryValue::Map(LibraryMap { map: Arc::new(entries) }))
}

fn from_library<'a>(value: LibraryValue) -> Result<Val<'a>, Error> {
    Ok(match value {
        LibraryValue::Null => Val::Null,
        LibraryValue::Bool(value) => Val::Bool(value),
        LibraryValue::Int(value) => Val::Int(value),
        LibraryValue::UInt(value) => Val::UInt(value),
        LibraryValue::Float(value) => Val::Double(value),
        LibraryValue::String(text) => Val::String(Cow::Owned(Arc::unwrap_or_clone(text))),
        LibraryValue::Bytes(bytes) => Val::Bytes(bytes.as_slice().into()),
        LibraryValue::List(items) => {
            Val::list(items.iter().cloned().map(from_library).collect::<Result<_, _>>()?)
        }
        LibraryValue::Map(map) => {
            let mut entries = map.map.iter().collect::<Vec<_>>();
            entries.sort_by_key(|(key, _)| *key); // a hash map has no order to show
            let entries = entries
                .into_iter()
                .map(|(key, value)| Ok((from_key(key), from_library(value.clone())?)))
                .collect::<Result<Vec<_>, Error>>()?;
            Val::Map(Map::Computed(entries.into()))
        }
        LibraryValue::Opaque(ref opaque) => match <&OptionalValue>::try_from(&value) {
            Ok(optional) => match optional.value() {
                Some(inner) => Val::some(from_library(inner.clone())?),
                None => Val::Optional(None),
            },
            Err(_) => match opaque.downcast_ref::<LibraryQuantity>() {
                Some(quantity) => Val::Quantity(quantity.0),
                None => Val::Library(LibraryValue::Opaque(opaque.clone())),
            },
        },
        LibraryValue::Duration(_) | LibraryValue::Timestamp(_) => Val::Library(value),
        LibraryValue::Function(..) => return Err(Error::no_such_overload()),
    })
}

fn from_key<'a>(key: &cel::objects::Key) -> Val<'a> {
    match key {
        Key::Int(key) => Val::Int(*key),
        Key::Uint(key) => Val::UInt(*key),
        Key::Bool(key) => Val::Bool(*key),
        Key::String(key) => Val::text(key.as_str()),
    }
}

/// A library function: name, whether it has a target, number of arguments.
type LibraryFunction = (&'static str, bool, std::ops::RangeInclusive<usize>);

/// The library functions that rules of CRDs may call.
///
/// They are the ones that the API server declares, as far as the library has them and this module
/// does not evaluate them itself. kube-cel knows more (`math`, `base64`, `jsonpatch`), which the
/// API server does not offer to CRDs.
const ALLOWED_FUNCTIONS: &[LibraryFunction] = &[
    ("charAt", true, 1..=1),
    ("indexOf", true, 1..=2),
    ("lastIndexOf", true, 1..=2),
    ("join", true, 0..=1),
    ("lowerAscii", true, 0..=0),
    ("upperAscii", true, 0..=0),
    ("replace", true, 2..=3),
    ("split", true, 1..=2),
    ("substring", true, 1..=2),
    ("trim", true, 0..=0),
    ("format", true, 1..=1),
    ("strings.quote", false, 1..=1),
    ("isSorted", true, 0..=0),
    ("sum", true, 0..=0),
    ("min", true, 0..=0),
    ("max", true, 0..=0),
    ("slice", true, 2..=2),
    ("flatten", true, 0..=1),
    ("distinct", true, 0..=0),
    ("sort", true, 0..=0),
    ("reverse", true, 0..=0),
    ("first", true, 0..=0),
    ("last", true, 0..=0),
    ("lists.range", false, 1..=1),
    ("sets.contains", false, 2..=2),
    ("sets.equivalent", false, 2..=2),
    ("sets.intersects", false, 2..=2),
    ("url", false, 1..=1),
    ("isURL", false, 1..=1),
    ("getScheme", true, 0..=0),
    ("getHost", true, 0..=0),
    ("getHostname", true, 0..=0),
    ("getPort", true, 0..=0),
    ("getEscapedPath", true, 0..=0),
    ("getQuery", true, 0..=0),
    ("quantity", false, 1..=1),
    ("isQuantity", false, 1..=1),
    ("isInteger", true, 0..=0),
    ("asInteger", true, 0..=0),
    ("asApproximateFloat", true, 0..=0),
    ("sign", true, 0..=0),
    ("add", true, 1..=1),
    ("sub", true, 1..=1),
    ("isGreaterThan", true, 1..=1),
    ("isLessThan", true, 1..=1),
    ("compareTo", true, 1..=1),
    ("semver", false, 1..=2),
    ("isSemver", false, 1..=2),
    ("major", true, 0..=0),
    ("minor", true, 0..=0),
    ("patch", true, 0..=0),
    ("ip", false, 1..=1),
    ("ip", true, 0..=0),
    ("isIP", false, 1..=1),
    ("ip.isCanonical", false, 1..=1),
    ("family", true, 0..=0),
    ("isLoopback", true, 0..=0),
    ("isUnspecified", true, 0..=0),
    ("isLinkLocalMulticast", true, 0..=0),
    ("isLinkLocalUnicast", true, 0..=0),
    ("isGlobalUnicast", true, 0..=0),
    ("cidr", false, 1..=1),
    ("isCIDR", false, 1..=1),
    ("containsIP", true, 1..=1),
    ("containsCIDR", true, 1..=1),
    ("prefixLength", true, 0..=0),
    ("masked", true, 0..=0),
    ("string", true, 0..=0),
    ("format.dns1123Label", false, 0..=0),
    ("format.dns1123Subdomain", false, 0..=0),
    ("format.dns1035Label", false, 0..=0),
    ("format.dns1123LabelPrefix", false, 0..=0),
    ("format.dns1123SubdomainPrefix", false, 0..=0),
    ("format.dns1035LabelPrefix", false, 0..=0),
    ("format.qualifiedName", false, 0..=0),
    ("format.labelValue", false, 0..=0),
    ("format.uri", false, 0..=0),
    ("format.uuid", false, 0..=0),
    ("format.byte", false, 0..=0),
    ("format.date", false, 0..=0),
    ("format.datetime", false, 0..=0),
    ("validate", true, 1..=1),
    ("getFullYear", true, 0..=0),
    ("getMonth", true, 0..=0),
    ("getDayOfYear", true, 0..=0),
    ("getDayOfMonth", true, 0..=0),
    ("getDate", true, 0..=0),
    ("getDayOfWeek", true, 0..=0),
    ("getHours", true, 0..=0),
    ("getMinutes", true, 0..=0),
    ("getSeconds", true, 0..=0),
    ("getMilliseconds", true, 0..=0),
];

/// Returns the library's name of a function, if rules may call it like this.
pub(crate) fn find_function(name: &str, has_target: bool, args: usize) -> Option<&'static str> {
    ALLOWED_FUNCTIONS
        .iter()
        .find(|(declared, is_method, count)| {
            *declared == name && *is_method == has_target && count.contains(&args)
        })
        .map(|(declared, ..)| *declared)
}

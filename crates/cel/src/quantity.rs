//! The functions of quantities, such as `quantity('1Gi').isLessThan(quantity('2Gi'))`.

use std::cmp::Ordering;

use karpenter_grammar::Amount;

use crate::{CostBudget, Error, Val};

/// Calls a function about the text of a quantity; `None` for another function.
pub(crate) fn call<'a>(
    function: &str,
    args: &[Val<'a>],
    budget: &mut CostBudget,
) -> Option<Result<Val<'a>, Error>> {
    let ("quantity" | "isQuantity", [arg]) = (function, args) else { return None };
    let Val::String(text) = arg else { return Some(Err(Error::no_such_overload())) };
    if let Err(error) = budget.charge_text(text) {
        return Some(Err(error));
    }
    let amount = Amount::parse(text);
    Some(match function {
        "isQuantity" => Ok(Val::Bool(amount.is_ok())),
        _ => amount.map(Val::Quantity).map_err(|error| Error::new(error.to_string())),
    })
}

/// Calls a method of a quantity.
pub(crate) fn call_method<'a>(
    method: &str,
    amount: Amount,
    args: &[Val<'a>],
    budget: &mut CostBudget,
) -> Result<Val<'a>, Error> {
    budget.charge(1 + args.len() as u64)?;
    let sign = |order: Ordering| Val::Int(order as i64);
    match (method, args) {
        ("sign", []) => Ok(sign(amount.cmp(&Amount::from(0)))),
        ("isInteger", []) => Ok(Val::Bool(amount.to_i64().is_some())),
        ("asInteger", []) => amount
            .to_i64()
            .map(Val::Int)
            .ok_or_else(|| Error::new("cannot convert value to integer")),
        ("asApproximateFloat", []) => Ok(Val::Double(amount.to_f64())),
        ("add", [Val::Quantity(other)]) => Ok(Val::Quantity(amount.saturating_add(*other))),
        ("add", [Val::Int(other)]) => {
            Ok(Val::Quantity(amount.saturating_add(Amount::from(*other))))
        }
        ("sub", [Val::Quantity(other)]) => Ok(Val::Quantity(amount.saturating_sub(*other))),
        ("sub", [Val::Int(other)]) => {
            Ok(Val::Quantity(amount.saturating_sub(Amount::from(*other))))
        }
        ("isGreaterThan", [Val::Quantity(other)]) => Ok(Val::Bool(amount > *other)),
        ("isLessThan", [Val::Quantity(other)]) => Ok(Val::Bool(amount < *other)),
        ("compareTo", [Val::Quantity(other)]) => Ok(sign(amount.cmp(other))),
        _ => Err(Error::no_such_overload()),
    }
}

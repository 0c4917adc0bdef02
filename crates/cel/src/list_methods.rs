//! Evaluates the methods of lists that differ from those of the library.
//!
//! The library has other error messages for them, or no bound on their cost.

use std::cmp::Ordering;

use crate::operators::{BinaryOperator, compare};
use crate::value::List;
use crate::{CostBudget, Error, Val};

/// Calls a method on `list`; `None` for one that the library has just the same.
pub(crate) fn call<'a>(
    method: &str,
    list: &List<'a>,
    args: &[Val<'a>],
    budget: &mut CostBudget,
) -> Option<Result<Val<'a>, Error>> {
    match (method, args) {
        ("sum", []) => Some(sum(list, budget)),
        ("min", []) => Some(min_or_max(list, "min", Ordering::Less, budget)),
        ("max", []) => Some(min_or_max(list, "max", Ordering::Greater, budget)),
        ("slice", [Val::Int(start), Val::Int(end)]) => Some(slice(list, *start, *end, budget)),
        ("join", []) => Some(join(list, "", budget)),
        ("join", [Val::String(separator)]) => Some(join(list, separator, budget)),
        _ => None,
    }
}

fn sum<'a>(list: &List<'a>, budget: &mut CostBudget) -> Result<Val<'a>, Error> {
    let mut total = None;
    for item in list.iter() {
        budget.charge(1)?;
        let item = item?;
        total = Some(match total {
            None => item,
            Some(total) => BinaryOperator::Add.apply(total, item, budget)?,
        });
    }
    Ok(total.unwrap_or(Val::Int(0)))
}

fn min_or_max<'a>(
    list: &List<'a>,
    method: &str,
    better: Ordering,
    budget: &mut CostBudget,
) -> Result<Val<'a>, Error> {
    let mut best = None;
    for item in list.iter() {
        budget.charge(1)?;
        let item = item?;
        best = Some(match best {
            Some(best) if compare(&item, &best)? != better => best,
            _ => item,
        });
    }
    best.ok_or_else(|| Error::new(format!("{method} called on empty list")))
}

fn slice<'a>(
    list: &List<'a>,
    start: i64,
    end: i64,
    budget: &mut CostBudget,
) -> Result<Val<'a>, Error> {
    let refuse = |why: String| Err(Error::new(format!("cannot slice({start}, {end}), {why}")));
    let (Ok(from), Ok(to)) = (usize::try_from(start), usize::try_from(end)) else {
        return refuse("negative indexes not supported".to_owned());
    };
    if from > to {
        return refuse("start index must be less than or equal to end index".to_owned());
    }
    if to > list.len() {
        return refuse(format!("list is length {}", list.len()));
    }
    budget.charge((to - from) as u64)?;
    let items = (from..to).filter_map(|index| list.get(index));
    Ok(Val::list(items.collect::<Result<_, _>>()?))
}

fn join<'a>(list: &List<'a>, separator: &str, budget: &mut CostBudget) -> Result<Val<'a>, Error> {
    let mut joined = String::new();
    for (index, item) in list.iter().enumerate() {
        let Val::String(text) = item? else { return Err(Error::no_such_overload()) };
        budget.charge_text(&text)?;
        if index > 0 {
            joined.push_str(separator);
        }
        joined.push_str(&text);
    }
    budget.charge_text(&joined)?;
    Ok(Val::text(joined))
}

//! Methods of lists that the library has with other words, or without a bound.

use std::cmp::Ordering;

use super::operators::{BinaryOperator, compare};
use super::value::List;
use super::{Error, Fuel, Val};

/// Calls a method on `list`; `None` for one that the library has just the same.
pub(super) fn call<'a>(
    method: &str,
    list: &List<'a>,
    args: &[Val<'a>],
    fuel: &mut Fuel,
) -> Option<Result<Val<'a>, Error>> {
    match (method, args) {
        ("sum", []) => Some(sum(list, fuel)),
        ("min", []) => Some(extreme(list, "min", Ordering::Less, fuel)),
        ("max", []) => Some(extreme(list, "max", Ordering::Greater, fuel)),
        ("slice", [Val::Int(start), Val::Int(end)]) => Some(slice(list, *start, *end, fuel)),
        ("join", []) => Some(join(list, "", fuel)),
        ("join", [Val::String(separator)]) => Some(join(list, separator, fuel)),
        _ => None,
    }
}

fn sum<'a>(list: &List<'a>, fuel: &mut Fuel) -> Result<Val<'a>, Error> {
    let mut total = None;
    for item in list.iter() {
        fuel.burn(1)?;
        let item = item?;
        total = Some(match total {
            None => item,
            Some(total) => BinaryOperator::Add.apply(total, item, fuel)?,
        });
    }
    Ok(total.unwrap_or(Val::Int(0)))
}

fn extreme<'a>(
    list: &List<'a>,
    method: &str,
    better: Ordering,
    fuel: &mut Fuel,
) -> Result<Val<'a>, Error> {
    let mut best = None;
    for item in list.iter() {
        fuel.burn(1)?;
        let item = item?;
        best = Some(match best {
            Some(best) if compare(&item, &best)? != better => best,
            _ => item,
        });
    }
    best.ok_or_else(|| Error::new(format!("{method} called on empty list")))
}

fn slice<'a>(list: &List<'a>, start: i64, end: i64, fuel: &mut Fuel) -> Result<Val<'a>, Error> {
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
    fuel.burn((to - from) as u64)?;
    let items = (from..to).filter_map(|index| list.get(index));
    Ok(Val::list(items.collect::<Result<_, _>>()?))
}

fn join<'a>(list: &List<'a>, separator: &str, fuel: &mut Fuel) -> Result<Val<'a>, Error> {
    let mut joined = String::new();
    for (index, item) in list.iter().enumerate() {
        let Val::String(text) = item? else { return Err(Error::no_such_overload()) };
        fuel.burn_text(&text)?;
        if index > 0 {
            joined.push_str(separator);
        }
        joined.push_str(&text);
    }
    fuel.burn_text(&joined)?;
    Ok(Val::text(joined))
}

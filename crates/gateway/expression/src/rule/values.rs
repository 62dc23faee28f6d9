//! Conversion of message values to CEL values and back.

use std::collections::HashMap;

use cel::common::types::{
    CelBool, CelBytes, CelDouble, CelInt, CelList, CelMap, CelMapKey, CelNull, CelString, CelUInt,
};
use cel::common::value::{Builtin, Val};
use json::Kind;
use kit::turns;

use super::wide::WideNumber;
use crate::tape::{JsonNode, JsonText};
use crate::value::made_json;
use crate::{Budget, FailureKind, Member, NameKind, Number, Scope, Value};

/// Maximum nesting of objects and arrays. The library recurses.
const DEPTH_MAX: usize = 128;

/// Maximum nesting of groups.
const GROUPS_MAX: usize = 8;

/// Maximum number of values passed to one expression. Each takes about fifty bytes.
const VALUES_MAX: u64 = 1_000_000;

/// Steps for creating a value, which takes a tenth of a microsecond.
const VALUE_STEPS: u64 = 20;

/// The value of a name. CEL values borrow its texts.
pub(super) enum HeldValue {
    Value(Value),
    Map(Vec<(Box<str>, HeldValue)>),
}

impl HeldValue {
    pub(super) fn of(
        known: NameKind,
        scope: &dyn Scope,
        depth: usize,
    ) -> Result<HeldValue, FailureKind> {
        let group = match known {
            NameKind::Value(slot) => return Ok(HeldValue::Value(scope.value(slot)?)),
            NameKind::Group(slot) => slot,
        };
        if depth >= GROUPS_MAX {
            return Err(FailureKind::Limit { name: "groups", max: GROUPS_MAX as u64 });
        }
        let of_member = |(name, member): (Box<str>, Member)| match member {
            Member::Value(value) => Ok((name, HeldValue::Value(value))),
            Member::Group(slot) => {
                Ok((name, HeldValue::of(NameKind::Group(slot), scope, depth + 1)?))
            }
        };
        let members = scope.members(group)?.into_iter().map(of_member);
        Ok(HeldValue::Map(members.collect::<Result<_, FailureKind>>()?))
    }
}

/// Creates the values passed to an expression, and counts them.
pub(super) struct GivenValues<'b> {
    budget: &'b mut Budget,
    count: u64,
}

type GivenValue<'m> = Result<Box<dyn Val + 'm>, FailureKind>;

impl GivenValues<'_> {
    pub(super) fn new(budget: &mut Budget) -> GivenValues<'_> {
        GivenValues { budget, count: 0 }
    }

    pub(super) fn value<'m>(&mut self, held: &'m HeldValue) -> GivenValue<'m> {
        match held {
            HeldValue::Value(value) => self.single(value),
            HeldValue::Map(members) => {
                let mut all = HashMap::with_capacity(members.len());
                for (name, member) in members {
                    all.insert(CelMapKey::String((&**name).into()), self.value(member)?);
                }
                Ok(Box::new(CelMap::from(all)))
            }
        }
    }

    fn single<'m>(&mut self, value: &'m Value) -> GivenValue<'m> {
        self.count()?;
        Ok(match value {
            Value::Null => Box::new(CelNull),
            Value::Boolean(yes) => Box::new(CelBool::from(*yes)),
            Value::Number(number) => numeric(number.text()),
            Value::Json(json) => match (json.singular, json.first()) {
                (true, Some(node)) => self.json(&json.text, node, 0)?,
                (true, None) => Box::new(CelString::from("")),
                (false, _) => {
                    let items = json.nodes.iter().map(|node| self.json(&json.text, *node, 1));
                    Box::new(CelList::from(items.collect::<Result<Vec<_>, _>>()?))
                }
            },
            Value::Bytes(bytes) if std::str::from_utf8(bytes).is_err() => {
                self.budget.text(bytes.len())?;
                Box::new(CelBytes::from(&**bytes))
            }
            Value::Nothing | Value::Text(_) | Value::Bytes(_) | Value::Nodes(_) => {
                let text = value.text()?;
                self.budget.text(text.len())?;
                Box::new(CelString::from(text))
            }
        })
    }

    fn count(&mut self) -> Result<(), FailureKind> {
        self.count += 1;
        if self.count > VALUES_MAX {
            return Err(FailureKind::Limit { name: "values in CEL", max: VALUES_MAX });
        }
        self.budget.charge(VALUE_STEPS)
    }

    fn json<'m>(&mut self, text: &'m JsonText, node: JsonNode, depth: usize) -> GivenValue<'m> {
        if depth > DEPTH_MAX {
            return Err(FailureKind::Limit {
                name: "depth of values in CEL",
                max: DEPTH_MAX as u64,
            });
        }
        self.count()?;
        Ok(match text.kind(node) {
            Kind::Plain | Kind::Escaped => {
                let text = text.string(node);
                self.budget.text(text.len())?;
                Box::new(CelString::from(text))
            }
            Kind::Number => numeric(text.raw(node)),
            Kind::True => Box::new(CelBool::from(true)),
            Kind::False => Box::new(CelBool::from(false)),
            Kind::Null => Box::new(CelNull),
            Kind::Array => {
                let items = text.children(node).map(|(_, item)| self.json(text, item, depth + 1));
                Box::new(CelList::from(items.collect::<Result<Vec<_>, _>>()?))
            }
            Kind::Object => {
                let mut all = HashMap::new();
                for (name, value) in text.children(node) {
                    // Harmless: each member of an object has a name.
                    let name = name.map(|name| text.string(name)).unwrap_or_default();
                    self.budget.text(name.len())?;
                    let key = CelMapKey::String(CelString::from(name));
                    all.insert(key, self.json(text, value, depth + 1)?);
                }
                Box::new(CelMap::from(all))
            }
        })
    }
}

/// Returns an int or uint if one holds the number, a [`WideNumber`] if only its digits represent it, and otherwise a double.
fn numeric<'m>(text: &str) -> Box<dyn Val + 'm> {
    match (text.parse::<i64>(), text.parse::<u64>()) {
        (Ok(number), _) => Box::new(CelInt::from(number)),
        (Err(_), Ok(number)) => Box::new(CelUInt::from(number)),
        (Err(_), Err(_)) => match WideNumber::of(text) {
            Some(wide) => Box::new(wide),
            None => Box::new(CelDouble::from(crate::number::value(text))),
        },
    }
}

/// Drops values one by one. A million take long enough that other tasks should run in between.
pub(super) fn take_apart<'m>(mut waiting: Vec<Box<dyn Val + 'm>>) {
    while let Some(value) = waiting.pop() {
        turns::count_part();
        match value.into_builtin() {
            Some(Builtin::List(list)) => waiting.extend(list.into_inner()),
            Some(Builtin::Map(map)) => waiting.extend(map.into_inner().into_values()),
            Some(_) | None => {}
        }
    }
}

/// Converts the value of an expression. Lists and maps are written as JSON, with members sorted by name.
pub(super) fn taken(value: &dyn Val, budget: &mut Budget) -> Result<Value, FailureKind> {
    if value.downcast_ref::<CelList<'_>>().is_some() || value.downcast_ref::<CelMap<'_>>().is_some()
    {
        let mut out = String::new();
        write(value, &mut out, budget, 0)?;
        return Ok(Value::Json(made_json(out, budget)?));
    }
    scalar(value, budget)
}

fn scalar(value: &dyn Val, budget: &mut Budget) -> Result<Value, FailureKind> {
    let number =
        |text: String| Number::parse(&text).map_or_else(|| Value::text_of(text), Value::Number);
    if let Some(text) = value.downcast_ref::<CelString<'_>>() {
        budget.text(text.inner().len())?;
        return Ok(Value::text_of(text.inner()));
    }
    if let Some(bytes) = value.downcast_ref::<CelBytes<'_>>() {
        return Ok(Value::Bytes(bytes.inner().into()));
    }
    let known = None
        .or_else(|| Some(Value::Boolean(*value.downcast_ref::<CelBool>()?.inner())))
        .or_else(|| Some(number(value.downcast_ref::<CelInt>()?.inner().to_string())))
        .or_else(|| Some(number(value.downcast_ref::<CelUInt>()?.inner().to_string())))
        .or_else(|| Some(Value::Number(Number::of(*value.downcast_ref::<CelDouble>()?.inner()))))
        .or_else(|| Some(number(value.downcast_ref::<WideNumber>()?.text().to_owned())))
        .or_else(|| value.downcast_ref::<CelNull>().map(|_| Value::Null));
    known.ok_or_else(|| {
        let of = value.get_type().name();
        FailureKind::Type(
            format!("the result of the expression is {of}, which no step can use").into(),
        )
    })
}

fn write(
    value: &dyn Val,
    out: &mut String,
    budget: &mut Budget,
    depth: usize,
) -> Result<(), FailureKind> {
    if depth > DEPTH_MAX {
        return Err(FailureKind::Limit { name: "depth of values in CEL", max: DEPTH_MAX as u64 });
    }
    budget.output(2)?;
    if let Some(list) = value.downcast_ref::<CelList<'_>>() {
        out.push('[');
        for (place, item) in list.inner().iter().enumerate() {
            out.push_str(if place == 0 { "" } else { "," });
            write(&**item, out, budget, depth + 1)?;
        }
        out.push(']');
    } else if let Some(map) = value.downcast_ref::<CelMap<'_>>() {
        let mut members: Vec<_> = map.inner().iter().map(|(k, v)| (key_text(k), v)).collect();
        members.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        out.push('{');
        for (place, (name, value)) in members.iter().enumerate() {
            budget.output(name.len() + 3)?;
            out.push_str(if place == 0 { "" } else { "," });
            json::push_string(out, name);
            out.push(':');
            write(&***value, out, budget, depth + 1)?;
        }
        out.push('}');
    } else {
        scalar(value, budget)?.write_json(out, budget)?;
    }
    Ok(())
}

fn key_text(key: &CelMapKey<'_>) -> String {
    match key {
        CelMapKey::Bool(yes) => yes.inner().to_string(),
        CelMapKey::Int(whole) => whole.inner().to_string(),
        CelMapKey::UInt(whole) => whole.inner().to_string(),
        CelMapKey::String(text) => text.inner().to_owned(),
    }
}

//! Removes parts that the gateway would refuse. Each is removed from the configuration and refused in the table, so that the
//! result always passes `check`.
//!
//! Owns the mapping from a place in the configuration to the artifact from which that part was made. It checks nothing itself.

use serde_json::{Map, Value as Json, json};

use super::ImportResult;
use crate::table::{ArtifactPosition, Mistake};
use crate::yaml::{COMMENT, ORIGIN, comment, is_comment};

/// The part of an artifact from which something was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) what: String,
    pub(super) place: ArtifactPosition,
}

/// Records the mediator from which a step was made. Inner steps have theirs already.
pub(super) fn with_origin(mut step: Json, what: &str, place: &ArtifactPosition) -> Json {
    let is_step = !is_comment(&step);
    if let (Json::Object(keys), true) = (&mut step, is_step)
        && !keys.contains_key(ORIGIN)
    {
        let ArtifactPosition { file, line, column } = place;
        keys.insert(ORIGIN.to_owned(), json!([what, file, line, column]));
    }
    step
}

fn origin_of(step: &Json) -> Option<Origin> {
    let said = step.get(ORIGIN)?.as_array()?;
    let [what, file, line, column] = said.as_slice() else { return None };
    // They were numbers of lines and columns when they were written.
    let number = |value: &Json| value.as_u64().map_or(0, |n| u32::try_from(n).unwrap_or(u32::MAX));
    let (file, line, column) = (file.as_str()?.to_owned(), number(line), number(column));
    let place = ArtifactPosition { file, line, column };
    Some(Origin { what: what.as_str()?.to_owned(), place })
}

impl ImportResult {
    /// Removes the parts with these mistakes, and refuses them in the table. False if a mistake belongs to no part.
    pub fn refuse(&mut self, mistakes: &[Mistake]) -> bool {
        let text = crate::yaml(&self.whole);
        let mut found: Vec<(Vec<usize>, &Mistake)> = Vec::new();
        for mistake in mistakes {
            let path = config::path_at(&text, mistake.line, mistake.column);
            match steps_on(&self.whole, &path) {
                Some(part) => found.push((part, mistake)),
                None => return false,
            }
        }
        // From last to first, so that the indices of the others stay valid. All mistakes of a part are reported.
        found.sort_by(|(a, _), (b, _)| b.cmp(a));
        while let Some((part, first)) = found.first().cloned() {
            let of_part = |(other, _): &(Vec<usize>, &Mistake)| *other == part;
            let mut why: Vec<&str> = Vec::new();
            for (_, mistake) in found.iter().filter(|found| of_part(found)) {
                if !why.contains(&mistake.what.as_str()) {
                    why.push(&mistake.what);
                }
            }
            let why = format!("the gateway would refuse it: {}", why.join("; "));
            debug_assert!(why.contains(&first.what), "the reason names the first mistake");
            self.take_out(&part, &why);
            // Its inner parts were removed with it.
            found.retain(|(other, _)| !other.starts_with(&part));
        }
        self.write();
        true
    }

    /// Replaces one part with a comment, and refuses it in the table.
    fn take_out(&mut self, part: &[usize], why: &str) {
        let Some((last, before)) = part.split_last() else { return };
        let (mut value, mut keys) = (&mut self.whole, Vec::new());
        for at in before {
            let Some((key, child)) = child_mut(value, *at) else { return };
            keys.extend(key);
            value = child;
        }
        let origin = match value {
            Json::Array(items) => items.get(*last).and_then(origin_of),
            Json::Object(entries) => {
                let (Some(name), Some(section)) = (entries.keys().nth(*last).cloned(), keys.pop())
                else {
                    return;
                };
                let owner = self.owners.get(&(section, name.clone())).cloned();
                owner.or_else(|| entries.get(&name).and_then(origin_of))
            }
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => None,
        };
        let Some(Origin { what, place }) = origin else { return };
        let remark = comment(&format!("refused: {what}, {place}: {why}"));
        match value {
            Json::Array(items) => {
                if let Some(item) = items.get_mut(*last) {
                    let empty = emptied(item);
                    *item = remark;
                    items.splice(last + 1..last + 1, empty);
                }
            }
            Json::Object(entries) => {
                let Some(name) = entries.keys().nth(*last).cloned() else { return };
                entries.shift_remove(&name);
                entries.insert(format!("{COMMENT}{what} {place} {name}"), remark);
            }
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {}
        }
        self.table.refuse(&what, &place, why);
    }

    /// Writes the texts of the configuration again.
    pub(super) fn write(&mut self) {
        self.configuration = crate::yaml(&self.whole);
        let mut part = self.whole.clone();
        if let Some(keys) = part.as_object_mut() {
            // Only the common listener is left out. Listeners of inbound endpoints stay.
            let routes = keys.get_mut("routes").and_then(Json::as_object_mut);
            for route in routes.into_iter().flat_map(Map::values_mut) {
                if let Some(Json::Object(matches)) = route.get_mut("match")
                    && matches.get("listener") == Some(&json!("public"))
                {
                    matches.remove("listener");
                }
            }
            let listeners = keys.get_mut("listen").and_then(Json::as_object_mut);
            let is_empty = listeners.is_none_or(|listeners| {
                listeners.remove("public");
                listeners.is_empty()
            });
            if is_empty {
                keys.remove("listen");
            }
        }
        self.part = crate::yaml(&part);
    }
}

/// A step that sets the variables of a removed `set` to empty texts, since later steps may read them.
fn emptied(step: &Json) -> Option<Json> {
    let set = step.get("set")?.as_object()?;
    let names: Map<String, Json> = set.keys().map(|name| (name.clone(), json!(""))).collect();
    let set = Json::Object(names);
    // If this step is refused too, nothing takes its place.
    (step.get("set") != Some(&set)).then(|| json!({ "set": set }))
}

/// The indices that lead to the innermost part on a path of keys: a step with its origin, or else the entry of a section.
fn steps_on(whole: &Json, path: &[String]) -> Option<Vec<usize>> {
    let (mut value, mut at, mut part) = (whole, Vec::new(), None);
    for (depth, key) in path.iter().enumerate() {
        let index = match value {
            Json::Object(members) => members.keys().position(|name| name == key)?,
            // The indices of a path do not count comments.
            Json::Array(items) => {
                let items = items.iter().enumerate().filter(|(_, item)| !is_comment(item));
                let Ok(nth) = key.parse::<usize>() else { break };
                items.map(|(index, _)| index).nth(nth)?
            }
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => break,
        };
        value = child(value, index)?;
        at.push(index);
        let is_entry = depth == 1 && path.first().is_some_and(|section| section != "listen");
        if is_entry || (value.get(ORIGIN).is_some() && depth > 1) {
            part = Some(at.clone());
        }
    }
    part
}

fn child(value: &Json, index: usize) -> Option<&Json> {
    match value {
        Json::Object(members) => members.values().nth(index),
        Json::Array(items) => items.get(index),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => None,
    }
}

/// A child with its key, if it has one.
fn child_mut(value: &mut Json, index: usize) -> Option<(Option<String>, &mut Json)> {
    match value {
        Json::Object(members) => {
            members.iter_mut().nth(index).map(|(key, child)| (Some(key.clone()), child))
        }
        Json::Array(items) => items.get_mut(index).map(|child| (None, child)),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => None,
    }
}

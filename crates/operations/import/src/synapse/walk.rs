//! The walk over mediators: a list of them becomes a list of steps. It is limited by the depth of the documents and by the number of
//! steps.

use serde_json::{Map, Value as Json, json};

use super::artifacts;
use super::converter::{Converter, Next};
use super::element::{Element, label};
use super::known;
use super::mediators;
use super::recheck;
use crate::table::Outcome;
use crate::yaml::comment;

/// The maximum number of mediators that are converted. A sequence that is written out several times counts each time.
const MEDIATORS_MAX: usize = 100_000;

/// The maximum depth of nested mediators, expanded sequences included. Mediators that people write stay below 20.
const DEPTH_MAX: usize = 100;

/// The note about a mediator whose settings have no effect.
const LOST: &str =
    "a property in a branch that is about a call or a reply outside of it has no effect there";

impl<'a> Converter<'a> {
    /// The steps of a list of mediators, and true if the flow ends in them.
    pub(super) fn steps(&mut self, items: &[Element<'a>]) -> (Vec<Json>, bool) {
        let items = &self.with_clones(items);
        let mut steps = Vec::new();
        let mut at = 0;
        while let Some(item) = items.get(at) {
            let rest = items.get(at + 1..).unwrap_or_default();
            match self.mediator(item, rest, &mut steps) {
                Next::Continue => at += 1,
                Next::Skip(more) => at += 1 + more,
                Next::End => {
                    self.unreachable(rest);
                    return (steps, true);
                }
                Next::EndAfter(more) => {
                    self.unreachable(rest.get(more..).unwrap_or_default());
                    return (steps, true);
                }
            }
        }
        (steps, false)
    }

    /// Returns the mediators. A sequence is replaced with its content if that has a `clone` or `iterate` whose `aggregate` follows the
    /// sequence.
    fn with_clones(&mut self, items: &[Element<'a>]) -> Vec<Element<'a>> {
        let gathers =
            |item: &Element<'a>| item.descendants().iter().any(|it| it.name() == "aggregate");
        let last = if self.artifacts.gathers { items.iter().rposition(gathers) } else { None };
        let Some(last) = last else { return items.to_vec() };
        let mut out = Vec::new();
        for (at, item) in items.iter().enumerate() {
            let key = item.attribute("key").filter(|_| item.name() == "sequence" && at < last);
            let found = key.and_then(|key| self.artifacts.sequences.get_key_value(key));
            let splits = |it: &Element<'a>| matches!(it.name(), "clone" | "iterate");
            match found {
                Some((key, sequence))
                    if sequence.children().iter().any(splits)
                        && !gathers(sequence)
                        && sequence.attribute("onError").is_none() =>
                {
                    self.used.push((*key).to_owned());
                    out.extend(sequence.children());
                }
                _ => out.push(*item),
            }
        }
        out
    }

    /// Adds notes to mediators after the end of a flow.
    fn unreachable(&mut self, rest: &[Element<'a>]) {
        let idle = ["drop", "log", "description", "respond"];
        for item in rest.iter().filter(|item| !idle.contains(&item.name())) {
            let note = "it stands behind the end of the flow; here nothing runs there";
            self.table.add(Outcome::Approximated, &label(item), item.place(), note);
        }
    }

    /// The steps of one mediator, with its row and its comment.
    fn mediator(
        &mut self,
        item: &Element<'a>,
        rest: &[Element<'a>],
        steps: &mut Vec<Json>,
    ) -> Next {
        if matches!(item.name(), "description" | "parameter") {
            return Next::Continue;
        }
        self.mediators += 1;
        let what = label(item);
        let row = self.table.begin(what.clone(), item.place());
        let notes = std::mem::take(&mut self.notes);
        let before = std::mem::take(&mut self.before);
        let mut made = Vec::new();
        self.depth += 1;
        let result = match (self.mediators > MEDIATORS_MAX, self.depth > DEPTH_MAX) {
            (true, _) => Err(format!("there are more than {MEDIATORS_MAX} mediators")),
            (_, true) => Err(format!("it is more than {DEPTH_MAX} mediators deep")),
            (false, false) => self.checked(item, rest, &mut made),
        };
        self.depth -= 1;
        let notes = std::mem::replace(&mut self.notes, notes);
        let before = std::mem::replace(&mut self.before, before);
        match result {
            Ok(next) => {
                let note = notes.join("; ");
                if std::mem::take(&mut self.losses) {
                    self.table.set(row, Outcome::Refused, LOST);
                    steps.push(comment(&format!("refused: {what}, {}: {LOST}", item.place())));
                }
                if !note.is_empty() {
                    self.table.set(row, Outcome::Approximated, &note);
                    steps.push(comment(&format!("approximated: {what}, {}: {note}", item.place())));
                }
                let made = before.into_iter().chain(made);
                steps.extend(made.map(|step| recheck::with_origin(step, &what, &item.place())));
                next
            }
            Err(why) => {
                self.table.set(row, Outcome::Refused, &why);
                steps.push(comment(&format!("refused: {what}, {}: {why}", item.place())));
                // Later steps may use variables that it would have set.
                let names = artifacts::set_by(item).into_iter().filter(|name| !name.contains('{'));
                let empty = names.map(|name| (self.out.variable(&name), json!("")));
                let empty: Map<String, Json> = empty.collect();
                if !empty.is_empty() {
                    steps.push(json!({ "set": empty }));
                }
                Next::Continue
            }
        }
    }

    /// Converts a mediator, unless the table of known parts refuses it.
    fn checked(
        &mut self,
        item: &Element<'a>,
        rest: &[Element<'a>],
        steps: &mut Vec<Json>,
    ) -> Result<Next, String> {
        for note in known::judge(item.name(), item).result()? {
            self.note(note);
        }
        mediators::convert(self, item, rest, steps)
    }

    /// The steps of a branch. Settings of its properties for later calls end with it.
    pub(super) fn branch(&mut self, items: &[Element<'a>]) -> (Vec<Json>, bool) {
        let pending = self.flow.pending.clone();
        let side = self.flow.side;
        let (steps, ended) = self.steps(items);
        self.leave(pending, side, ended);
        (steps, ended)
    }
}

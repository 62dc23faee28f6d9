//! The converter, whose state all conversions share.
//!
//! Owns the knowledge about the message at each point, and the resulting flows. `walk` goes over lists of mediators, and `mediators`
//! converts the single ones.

use std::collections::HashSet;

use serde_json::{Map, Value as Json, json};

use super::artifacts::Artifacts;
use super::element::{Element, label};
use super::known::{self, ConversionResult};
use super::output::Output;
use super::pending::{KeptProperty, PendingProperties, Sender};
use crate::table::{ArtifactPosition, Outcome, Table};
use crate::yaml::comment;

/// The maximum depth to which sequences are expanded within each other.
const EXPANDED_MAX: usize = 32;

/// The direction in which the message travels.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Side {
    /// On the way to a service.
    #[default]
    Request,
    /// Back to the client.
    Reply,
    /// In a fault sequence.
    Fault,
}

/// The flow that is being made.
#[derive(Debug, Clone, Default)]
pub(super) struct Flow<'a> {
    pub(super) name: String,
    pub(super) namespaces: Vec<(String, String)>,
    pub(super) side: Side,
    /// The mediators that run on the reply to a `send`.
    pub(super) reply: Vec<Element<'a>>,
    /// The flow with the handling of the reply, if several calls share it.
    pub(super) reply_flow: Option<String>,
    pub(super) reply_is_shared: bool,
    /// True if they are those of `receive`, which run on the reply to a reply too.
    pub(super) is_received: bool,
    /// True if the flow is one of several branches whose replies are gathered.
    pub(super) in_branch: bool,
    /// The template to whose parameters `$func` refers.
    pub(super) template: Option<&'a str>,
    /// Query parameters of the resource, by the names of its template.
    pub(super) query_names: Vec<(String, String)>,
    /// The resource of the route. Its path, with placeholders in `{{ }}`, is added to the addresses that are called.
    pub(super) resource: Option<Resource>,
    /// The front of its requests' paths. The rest of a path is appended to the addresses that are called.
    pub(super) front: Option<String>,
    /// True if its requests may be `POST`, and so may be SOAP.
    pub(super) may_post: bool,
    /// The base path of the first address that a call went to.
    pub(super) base: Option<String>,
    pub(super) pending: PendingProperties,
    pub(super) has_catch: bool,
    /// True if the message may be a reply, since both branches of a condition have a `send`.
    pub(super) has_split: bool,
    /// True if the message was converted to a form, for a later property.
    pub(super) is_form: bool,
    /// The context and the version of the API.
    pub(super) api: Option<(String, String)>,
    /// The name of the proxy.
    pub(super) proxy: Option<String>,
    /// True if its requests keep the path that the client sent.
    pub(super) is_whole: bool,
    /// True if the mediators stand in a transaction.
    pub(super) in_transaction: bool,
    /// True if the flow is an attempt at a message of a queue, for which an answer after a fault would be a success.
    pub(super) is_attempt: bool,
    /// True if the mediators run because a message is invalid.
    pub(super) in_on_fail: bool,
    /// Properties that the converter itself sets.
    pub(super) made: HashSet<String>,
    pub(super) expanding: Vec<&'a str>,
}

impl Flow<'_> {
    /// True in the steps that run after a failed attempt at a message of a queue.
    pub(super) fn is_failed_attempt(&self) -> bool {
        self.is_attempt && self.side == Side::Fault
    }
}

/// The resource of an API.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Resource {
    /// Its path below the context, as a template.
    pub(super) path: String,
    /// The path may have a rest.
    pub(super) open: bool,
}

/// The mediator with which to continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// The next mediator.
    Continue,
    /// The mediator after the next ones, of which this number were converted along with the current one.
    Skip(usize),
    /// Nothing: the flow has ended.
    End,
    /// Nothing: the flow has ended. This number of the next mediators were converted along with the current one.
    EndAfter(usize),
}

/// The state of a conversion.
#[derive(Debug)]
pub(super) struct Converter<'a> {
    pub(super) artifacts: &'a Artifacts<'a>,
    pub(super) out: Output,
    pub(super) table: Table,
    pub(super) flow: Flow<'a>,
    /// Steps that are put before the one that is being made.
    pub(super) before: Vec<Json>,
    /// Differences between the step that is being made and its mediator.
    pub(super) notes: Vec<String>,
    pub(super) computed: usize,
    /// Endpoints with upstreams, by their keys.
    pub(super) known_upstreams: Vec<(Json, String)>,
    /// Sequences that are flows, by their names.
    pub(super) sequence_flows: Vec<(&'a str, String)>,
    /// Templates that are flows, by their names.
    pub(super) template_flows: Vec<(&'a str, String)>,
    /// Queues, by the names of their stores.
    pub(super) queue_names: Vec<(String, String)>,
    /// Flows of proxies, by the proxies' names.
    pub(super) proxy_flows: Vec<(String, String)>,
    /// Names of sequences that something runs.
    pub(super) used: Vec<String>,
    /// Failures of an artifact in places that have no element.
    pub(super) failures: Vec<String>,
    /// The artifact that is being converted.
    pub(super) owner: String,
    /// Properties that variables keep, by artifacts.
    pub(super) kept: HashSet<(String, KeptProperty)>,
    /// Properties that were set in a branch and take effect after it.
    pub(super) wanted: HashSet<(String, KeptProperty)>,
    /// True if settings of the current mediator have no effect.
    pub(super) losses: bool,
    /// The number of mediators that were converted.
    pub(super) mediators: usize,
    /// The depth of the current mediator.
    pub(super) depth: usize,
}

impl<'a> Converter<'a> {
    pub(super) fn new(
        artifacts: &'a Artifacts<'a>,
        table: Table,
        kept: HashSet<(String, KeptProperty)>,
    ) -> Converter<'a> {
        Converter {
            artifacts,
            out: Output::default(),
            table,
            flow: Flow::default(),
            before: Vec::new(),
            notes: Vec::new(),
            computed: 0,
            known_upstreams: Vec::new(),
            sequence_flows: Vec::new(),
            template_flows: Vec::new(),
            queue_names: Vec::new(),
            proxy_flows: Vec::new(),
            used: Vec::new(),
            failures: Vec::new(),
            owner: String::new(),
            kept,
            wanted: HashSet::new(),
            losses: false,
            mediators: 0,
            depth: 0,
        }
    }

    /// Notes a difference between the step that is being made and its mediator.
    pub(super) fn note(&mut self, what: &str) {
        if self.notes.iter().all(|known| known != what) {
            self.notes.push(what.to_owned());
        }
    }

    /// A positive number, if one is given. Other texts are noted. As in artifacts, zero and negative numbers mean none.
    pub(super) fn number(&mut self, name: &str, text: Option<&str>) -> Option<u64> {
        let text = text?;
        self.read(name, text, |text| text.parse::<i64>().is_ok())?;
        // Harmless: the line above has checked that it is a number.
        text.parse().ok().filter(|number| *number > 0)
    }

    /// Checks the text of a number. If it is bad, notes that and returns `None`.
    pub(super) fn read(
        &mut self,
        name: &str,
        text: &str,
        is_good: impl Fn(&str) -> bool,
    ) -> Option<()> {
        if !is_good(text) {
            self.note(&format!("`{name}` is `{text}`, which is not a number; it is left out"));
            return None;
        }
        Some(())
    }

    /// Like [`Converter::flow_of`], for a flow that another one runs: its notes are not those of the other.
    pub(super) fn inner_flow(
        &mut self,
        flow: Flow<'a>,
        make: impl FnOnce(&mut Converter<'a>) -> Vec<Json>,
        catch: Option<Vec<Element<'a>>>,
    ) -> String {
        let notes = std::mem::take(&mut self.notes);
        let name = self.flow_of(flow, make, catch);
        self.notes = notes;
        name
    }

    /// Makes another flow, and returns its name. The current flow is continued afterwards.
    pub(super) fn flow_of(
        &mut self,
        flow: Flow<'a>,
        make: impl FnOnce(&mut Converter<'a>) -> Vec<Json>,
        catch: Option<Vec<Element<'a>>>,
    ) -> String {
        let name = flow.name.clone();
        let outer = std::mem::replace(&mut self.flow, flow);
        self.flow.has_catch = catch.is_some();
        // Flows are in the order in which they were begun.
        self.out.flows.insert(name.clone(), Json::Null);
        let steps = make(self);
        let catch = catch.map(|items| self.catch(&items));
        let namespaces = std::mem::take(&mut self.flow.namespaces);
        self.flow = outer;
        let written = match (namespaces.is_empty(), catch) {
            (true, None) => Json::Array(steps),
            (_, catch) => {
                let mut all = Map::new();
                if !namespaces.is_empty() {
                    let uris = namespaces.into_iter().map(|(prefix, uri)| (prefix, json!(uri)));
                    all.insert("namespaces".to_owned(), Json::Object(uris.collect()));
                }
                all.insert("steps".to_owned(), Json::Array(steps));
                all.extend(catch.map(|steps| ("catch".to_owned(), Json::Array(steps))));
                Json::Object(all)
            }
        };
        self.out.flows.insert(name.clone(), written);
        name
    }

    /// The steps of a fault sequence.
    fn catch(&mut self, items: &[Element<'a>]) -> Vec<Json> {
        let had = std::mem::replace(&mut self.flow.has_catch, false);
        let side = std::mem::replace(&mut self.flow.side, Side::Fault);
        self.flow.pending = PendingProperties::default();
        let (mut steps, ended) = self.steps(items);
        if !ended {
            if !self.flow.is_attempt {
                steps.push(comment("approximated: the fault sequence does not answer; here the fault itself is the answer"));
            }
            steps.push(same_fault());
        }
        self.flow.has_catch = had;
        self.flow.side = side;
        steps
    }

    /// The fault sequence of an artifact: its own one, or the common one.
    pub(super) fn fault_sequence(
        &mut self,
        named: Option<&'a str>,
        inline: Option<Element<'a>>,
    ) -> Option<Vec<Element<'a>>> {
        if let Some(inline) = inline {
            return Some(inline.children());
        }
        let key = named.unwrap_or("fault");
        self.used.push(key.to_owned());
        self.artifacts.sequences.get(key).map(Element::children)
    }

    /// Returns a sequence of the artifacts, with its name.
    pub(super) fn sequence_by_key(&self, key: &str) -> Result<(&'a str, Element<'a>), String> {
        let found = self.artifacts.sequences.get_key_value(key);
        let found = found.map(|(key, sequence)| (*key, *sequence));
        found.ok_or_else(|| format!("the sequence `{key}` is not among the artifacts"))
    }

    /// Adds the steps of a sequence by its name: a step that runs the sequence as a flow, or its own steps if they affect a call or a reply
    /// outside the sequence.
    pub(super) fn named_sequence(
        &mut self,
        key: &str,
        steps: &mut Vec<Json>,
    ) -> Result<Next, String> {
        let (key, sequence) = self.sequence_by_key(key)?;
        self.used.push(key.to_owned());
        if self.flow.expanding.contains(&key) {
            return Err(format!("the sequence `{key}` runs itself"));
        }
        if self.flow.expanding.len() >= EXPANDED_MAX {
            return Err(format!("sequences are more than {EXPANDED_MAX} deep"));
        }
        if !self.has_side(&sequence, &mut Vec::new()) {
            let name = self.sequence_flow(key, sequence);
            steps.push(json!({ "sequence": name }));
            self.flow.pending.has_action |= self.artifacts.sets_action;
            if sequence.descendants().iter().any(|it| matches!(it.name(), "call" | "callout")) {
                self.flow.pending.sender = Sender::Either;
            }
            let ends = sequence.children().last().is_some_and(|last| last.name() == "respond");
            return Ok(if ends { Next::End } else { Next::Continue });
        }
        if let Some(fault) = sequence.attribute("onError") {
            if !self.flow.in_branch {
                return Ok(self.guarded(key, sequence, fault, steps));
            }
            self.note("the fault sequence of a sequence that is written out has no effect");
        }
        self.flow.expanding.push(key);
        let (made, ended) = self.steps(&sequence.children());
        self.flow.expanding.pop();
        steps.extend(made);
        Ok(if ended { Next::End } else { Next::Continue })
    }

    /// Converts a sequence with a fault sequence whose effect depends on its place. It becomes a flow for this place alone, since only flows
    /// have a `catch`.
    fn guarded(
        &mut self,
        key: &'a str,
        sequence: Element<'a>,
        fault: &'a str,
        steps: &mut Vec<Json>,
    ) -> Next {
        let catch = self.fault_sequence(Some(fault), None);
        let name = self.out.fresh("flow", &format!("{}-{key}", self.flow.name));
        let mut flow = Flow { name, namespaces: Vec::new(), ..self.flow.clone() };
        flow.expanding.push(key);
        let mut left = (false, Flow::default());
        let make = |this: &mut Self| {
            let (made, ended) = this.steps(&sequence.children());
            left = (ended, this.flow.clone());
            made
        };
        let name = self.inner_flow(flow, make, catch);
        steps.push(json!({ "sequence": name }));
        let (ended, inner) = left;
        // What the sequence set also applies to the mediators after it.
        let Flow { name, namespaces, has_catch, expanding, .. } = std::mem::take(&mut self.flow);
        self.flow = Flow { name, namespaces, has_catch, expanding, ..inner };
        if ended { Next::End } else { Next::Continue }
    }

    /// The flow of a sequence that is the same wherever it is run.
    pub(super) fn sequence_flow(&mut self, key: &'a str, sequence: Element<'a>) -> String {
        if let Some((_, name)) = self.sequence_flows.iter().find(|(known, _)| *known == key) {
            return name.clone();
        }
        let name = self.out.fresh("flow", key);
        self.sequence_flows.push((key, name.clone()));
        let row = self.table.begin(format!("sequence {key}"), sequence.place());
        self.table.set(row, Outcome::Converted, "");
        let catch = match sequence.attribute("onError") {
            Some(key) => self.fault_sequence(Some(key), None),
            None => None,
        };
        let mut expanding = self.flow.expanding.clone();
        expanding.push(key);
        let flow = Flow { name, expanding, side: Side::Request, ..Flow::default() };
        self.inner_flow(flow, |this| this.steps(&sequence.children()).0, catch)
    }

    /// True if the effect of a list of mediators depends on its place: it sends, or sets something for a later call.
    pub(super) fn has_side(&self, element: &Element<'a>, seen: &mut Vec<&'a str>) -> bool {
        element.descendants().iter().any(|item| {
            let scope = item.attribute("scope").unwrap_or("");
            match item.name() {
                "send" | "loopback" | "in" | "out" | "aggregate" | "makefault" | "cache" => true,
                // An aggregate after the list may belong to it.
                "clone" | "iterate" => true,
                // The answer uses settings of earlier mediators.
                "respond" => self.artifacts.sets_axis2,
                "call" => self.artifacts.sets_axis2 || self.takes_path(item),
                "property" => scope == "axis2" || item.is("name", "RESPONSE"),
                "header" => item.attribute("name").is_some_and(|name| name == "To"),
                "rewrite" => true,
                "sequence" => match item
                    .attribute("key")
                    .and_then(|key| self.artifacts.sequences.get_key_value(key))
                {
                    Some((key, sequence)) if !seen.contains(key) && seen.len() < EXPANDED_MAX => {
                        seen.push(key);
                        self.has_side(sequence, seen)
                    }
                    _ => false,
                },
                _ => false,
            }
        })
    }

    /// True if a call appends the path of its request to an address.
    fn takes_path(&self, call: &Element<'a>) -> bool {
        let written = call.child("endpoint");
        let key = written.and_then(|endpoint| endpoint.attribute("key"));
        let named = key.and_then(|key| self.artifacts.endpoints.get(key).copied());
        let parts = named.or(written).map_or_else(Vec::new, |endpoint| endpoint.descendants());
        parts.iter().any(|part| part.name() == "address")
    }

    /// Looks up an artifact in the table of known parts, and notes the differences. The error is the reason why it is refused.
    pub(super) fn check_artifact(
        &mut self,
        of: &str,
        artifact: &Element<'a>,
    ) -> Result<(), String> {
        for note in known::judge(of, artifact).result()? {
            self.note(note);
        }
        Ok(())
    }

    /// Looks up a named parameter in the table. A refused one gets its own row.
    pub(super) fn judge_parameter(&mut self, of: &str, parameter: &Element<'a>) {
        let name = parameter.attribute("name").unwrap_or("");
        match known::named(of, name, &parameter.text()) {
            ConversionResult::Refused(why) => {
                self.refuse("routes", &label(parameter), parameter.place(), why);
            }
            ConversionResult::Differs(how) => self.note(how),
            ConversionResult::Same | ConversionResult::MayDiffer(_) => {}
        }
    }

    /// Adds a row for an artifact.
    pub(super) fn artifact(&mut self, element: &Element<'a>, outcome: Outcome, note: &str) {
        let what = label(element);
        self.table.add(outcome, &what, element.place(), note);
    }

    /// Adds a row for a refusal outside of flows, and a comment to a section of the configuration.
    pub(super) fn refuse(&mut self, section: &str, what: &str, place: ArtifactPosition, why: &str) {
        self.out.remark(section, what, &place, why);
        self.table.add(Outcome::Refused, what, place, why);
    }
}

/// The step by which a fault sequence ends with the fault that it was run for.
pub(super) fn same_fault() -> Json {
    json!({ "fault": { "code": "server", "reason": "{{ $error.message }}" } })
}

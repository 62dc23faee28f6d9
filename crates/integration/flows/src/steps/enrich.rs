//! `enrich`: inserts content into the message, or into a variable, at each node that an expression finds.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use expression::{Expression, FailureKind, JsonNode, JsonNodes, JsonText, Nodes, Template, Value};
use fault::{Fault, Kind};
use xml::Document;

use crate::edit::{Edits, has_default_namespace, put_back, undefaulted};
use crate::levels::{ActionNeeds, Levels};
use crate::soap::{self, Envelope};
use crate::state::{Run, State, Variable};
use crate::step::{Action, Step, StepRun, ended};
use crate::steps::payload;
use crate::view::{Format, View};

/// A change to parts of the message, or of a variable.
pub struct Enrich {
    /// `None` if the targets are removed.
    pub source: Option<Source>,
    pub target: Expression,
    /// The number of the variable that the targets are in; the message if absent.
    pub variable: Option<u32>,
    /// True if the target is the whole body or the whole variable.
    pub is_whole: bool,
    pub action: EnrichAction,
}

/// The content that is put into the message.
pub enum Source {
    Expression(Expression),
    Xml(Template),
}

/// The way in which it is inserted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnrichAction {
    Replace,
    Child,
    Before,
    After,
    Remove,
}

/// The evaluated content for the targets.
enum EnrichContent {
    Value(Value),
    Markup(String),
}

impl Action for Enrich {
    fn needs(&self, _levels: &Levels<'_>) -> ActionNeeds {
        let source = match &self.source {
            Some(Source::Expression(expression)) => expression.slots(),
            Some(Source::Xml(template)) => template.slots(),
            None => Vec::new(),
        };
        let slots = [source, self.target.slots()].concat();
        ActionNeeds { slots, content: true, ..ActionNeeds::default() }
    }

    fn run<'a>(&'a self, _step: &'a Step, run: &'a Run<'a>, state: &'a mut State) -> StepRun<'a> {
        ended(enrich(self, run, state))
    }
}

/// Changes the message or a variable.
fn enrich(enrich: &Enrich, run: &Run<'_>, state: &mut State) -> Result<(), Fault> {
    let Some(content) = state.message.content().cloned() else { return Ok(()) };
    let source = match &enrich.source {
        Some(Source::Expression(expression)) => EnrichContent::Value(run.value(state, expression)?),
        Some(Source::Xml(template)) => EnrichContent::Markup(run.fill(state, template)?),
        None => EnrichContent::Value(Value::Nothing),
    };
    let finds_nothing = matches!(&source, EnrichContent::Value(value) if value.is_missing());
    let sets_variable = enrich.variable.is_some() && enrich.is_whole;
    if finds_nothing && enrich.action != EnrichAction::Remove && !sets_variable {
        return Ok(());
    }
    if let Some(number) = enrich.variable {
        return in_variable(enrich, &source, number, run, state);
    }
    let target = run.value(state, &enrich.target)?;
    if let (Value::Nodes(nodes), Some(made)) = (&target, content.made_infoset())
        && nodes.iter().any(|(of, _)| Arc::ptr_eq(of, &made.document))
    {
        let (document, envelope) = (&made.document, Some(&made.envelope));
        let text = in_xml(enrich.action, &source, nodes, document, envelope, run)?;
        let text = text.ok_or_else(elsewhere)?;
        return put_back("enrich", &text, &content, run, state);
    }
    let text = match (target, content.known()?) {
        // Nothing is found, so nothing changes.
        (Value::Nothing, _) => return Ok(()),
        (Value::Text(_) | Value::Bytes(_), _) if enrich.is_whole => match enrich.action {
            EnrichAction::Replace => return whole(&source, run, state),
            EnrichAction::Remove => Some(String::new()),
            EnrichAction::Child | EnrichAction::Before | EnrichAction::After => None,
        },
        (Value::Nodes(nodes), View::Xml { document, envelope }) => {
            in_xml(enrich.action, &source, &nodes, document, envelope.as_ref(), run)?
        }
        (Value::Json(targets), View::Json(text)) => {
            in_json(enrich.action, &source, &targets, text, run)?
        }
        _ => None,
    };
    let text = text.ok_or_else(elsewhere)?;
    run.bound(text.len())?;
    state.message.rewrite(text)
}

fn elsewhere() -> Fault {
    Fault::new(Kind::FlowFailed, "enrich: the target is not part of the message")
}

/// Changes a variable. Its value is first copied to a separate document, since it may be shared.
fn in_variable(
    enrich: &Enrich,
    source: &EnrichContent,
    number: u32,
    run: &Run<'_>,
    state: &mut State,
) -> Result<(), Fault> {
    let new = match (enrich.is_whole, enrich.action, source) {
        (true, EnrichAction::Replace, EnrichContent::Value(value)) => Some(value.clone()),
        (true, EnrichAction::Replace, EnrichContent::Markup(markup)) => {
            Some(payload::read(markup, Format::Xml)?)
        }
        (true, EnrichAction::Remove, _) => Some(Value::Nothing),
        _ => None,
    };
    if let Some(new) = new {
        state.set(number, Variable::Value(new));
        return Ok(());
    }
    let Some(Variable::Value(old)) = state.variable(number).cloned() else { return Ok(()) };
    if matches!(&old, Value::Nodes(nodes) if nodes.is_empty()) {
        // A missing value has no parts.
        return Ok(());
    }
    let is_root = |(_, node)| node == Document::ROOT;
    let is_whole = matches!(&old, Value::Nodes(nodes) if nodes.iter().all(is_root));
    let (text, content_type) = payload::bytes_of(&old, run)?;
    let format = Format::of(Some(content_type.as_bytes()));
    let read = |text: &str| payload::read(text, format).map(|value| whole_again(value, is_whole));
    // Harmless: the bytes were made of a value, which is text.
    let own = read(&String::from_utf8_lossy(&text))?;
    state.set(number, Variable::Value(own.clone()));
    let text = match (run.value(state, &enrich.target)?, &own) {
        (Value::Nothing, _) => return Ok(()),
        (Value::Nodes(targets), Value::Nodes(own)) => match own.iter().next() {
            Some((document, _)) => in_xml(enrich.action, source, &targets, document, None, run)?,
            None => None,
        },
        (Value::Json(targets), Value::Json(own)) => {
            in_json(enrich.action, source, &targets, &own.text, run)?
        }
        _ => None,
    };
    let Some(text) = text else {
        return Err(Fault::new(Kind::FlowFailed, "enrich: the target is not part of the variable"));
    };
    run.bound(text.len())?;
    state.set(number, Variable::Value(read(&text)?));
    Ok(())
}

/// Returns the value of a variable after parsing it again. If the variable held a whole document, so does the result.
fn whole_again(value: Value, is_whole: bool) -> Value {
    let root = if let Value::Nodes(root) = &value { root.iter().next() } else { None };
    let document = root.filter(|_| is_whole).map(|(document, _)| document.clone());
    match document {
        Some(document) => Value::Nodes(Nodes::one(document, Document::ROOT)),
        None => value,
    }
}

/// Replaces the whole text of the message.
fn whole(source: &EnrichContent, run: &Run<'_>, state: &mut State) -> Result<(), Fault> {
    let (bytes, content_type) = match source {
        EnrichContent::Value(value) => payload::bytes_of(value, run)?,
        EnrichContent::Markup(markup) => (markup.clone().into(), payload::XML),
    };
    state.message.replace(bytes, content_type.as_bytes());
    Ok(())
}

fn in_xml(
    action: EnrichAction,
    source: &EnrichContent,
    targets: &Nodes,
    document: &Arc<Document>,
    envelope: Option<&Envelope>,
    run: &Run<'_>,
) -> Result<Option<String>, Fault> {
    let brings_body = matches!(source, EnrichContent::Value(Value::Nodes(nodes))
        if nodes.iter().any(|(document, node)| soap::is_body(document, node)));
    let mut edits = Edits::default();
    let mut budget = run.budget();
    let failed = |kind: FailureKind| Fault::new(Kind::FlowFailed, kind.to_string());
    for (of, target) in targets.iter() {
        if !Arc::ptr_eq(of, document) {
            return Ok(None);
        }
        let target = if target == Document::ROOT {
            document.root_element().unwrap_or(target)
        } else {
            target
        };
        let is_attribute = document.kind(target) == xml::Kind::Attribute;
        let is_body = envelope.is_some_and(|envelope| envelope.body == target);
        let around = match action {
            EnrichAction::Child => Some(target),
            EnrichAction::Replace
            | EnrichAction::Before
            | EnrichAction::After
            | EnrichAction::Remove => document.parent(target),
        };
        let default = around.is_some_and(|around| has_default_namespace(document, around));
        let put = match (source, is_attribute) {
            (EnrichContent::Markup(markup), false) if default => {
                budget.output(markup.len()).map_err(failed)?;
                undefaulted(markup, run)?
            }
            (EnrichContent::Markup(markup), _) => {
                budget.output(markup.len()).map_err(failed)?;
                markup.clone()
            }
            (EnrichContent::Value(value), true) => value.text().map_err(failed)?.into_owned(),
            (EnrichContent::Value(value), false) => {
                payload::markup_of(value, default, &mut budget).map_err(failed)?
            }
        };
        let change = edits.at(target);
        match action {
            EnrichAction::Replace if is_attribute && put.is_empty() => {}
            // An envelope keeps its Body.
            EnrichAction::Replace if is_body && !brings_body => change.content = Some(put),
            EnrichAction::Replace => change.instead = Some(put),
            EnrichAction::Remove => change.instead = Some(String::new()),
            EnrichAction::Child if document.kind(target) == xml::Kind::Element => {
                change.last.push_str(&put)
            }
            EnrichAction::Before if !is_attribute => change.before.push_str(&put),
            EnrichAction::After if !is_attribute => change.after.insert_str(0, &put),
            EnrichAction::Child | EnrichAction::Before | EnrichAction::After => return Ok(None),
        }
    }
    Ok(Some(edits.write(document)))
}

/// Returns the changed JSON, or `None` if the targets are not part of it. JSON supports `replace`, `child` and `remove`.
fn in_json(
    action: EnrichAction,
    source: &EnrichContent,
    targets: &JsonNodes,
    text: &Arc<JsonText>,
    run: &Run<'_>,
) -> Result<Option<String>, Fault> {
    if !Arc::ptr_eq(text, &targets.text) {
        return Ok(None);
    }
    let failed = |kind: FailureKind| Fault::new(Kind::FlowFailed, kind.to_string());
    let mut put = String::new();
    match source {
        EnrichContent::Value(value) => {
            value.write_json(&mut put, &mut run.budget()).map_err(failed)?
        }
        EnrichContent::Markup(markup) => json::push_string(&mut put, markup),
    }
    let mut targets: BTreeSet<JsonNode> = targets.nodes.iter().copied().collect();
    if action != EnrichAction::Remove {
        run.bound(put.len().saturating_mul(targets.len()))?;
    }
    let is_object = |target: &JsonNode| text.kind(*target) == json::Kind::Object;
    if action == EnrichAction::Child && put == r#""""# {
        // A missing value has no members.
        targets.retain(|target| !is_object(target));
    }
    let names;
    let edit = match action {
        EnrichAction::Replace => JsonEdit::Replace(&put),
        EnrichAction::Remove => JsonEdit::Remove,
        EnrichAction::Child if !put.starts_with('{') && targets.iter().any(is_object) => {
            let what = "enrich: a child of a JSON object must be an object with the members to add";
            return Err(Fault::new(Kind::FlowFailed, what));
        }
        EnrichAction::Child => {
            names = names_in(&put)?;
            JsonEdit::Child(&put, &names)
        }
        EnrichAction::Before | EnrichAction::After => return Ok(None),
    };
    let mut out = String::new();
    write_json(text, JsonText::ROOT, &targets, edit, &mut out);
    Ok(Some(out))
}

/// Returns the names of the members of an object. Any other value has none.
fn names_in(text: &str) -> Result<HashSet<String>, Fault> {
    if !text.starts_with('{') {
        return Ok(HashSet::new());
    }
    let Value::Json(object) = payload::read(text, Format::Json)? else {
        return Ok(HashSet::new());
    };
    let members = object.text.members(JsonText::ROOT);
    // Harmless: the members of an object have names.
    Ok(members.filter_map(|(name, _)| Some(object.text.string(name?).into_owned())).collect())
}

#[derive(Clone, Copy)]
pub(crate) enum JsonEdit<'a> {
    Replace(&'a str),
    /// Appends an item to an array, or adds the members of an object, which have these names, to an object.
    Child(&'a str, &'a HashSet<String>),
    /// Replaces each target by its own text.
    Each(&'a BTreeMap<JsonNode, &'a str>),
    Remove,
}

/// Writes a value with the edit at its targets. It recurses only towards targets, at most as deep as messages are parsed.
pub(crate) fn write_json(
    text: &JsonText,
    node: JsonNode,
    targets: &BTreeSet<JsonNode>,
    edit: JsonEdit<'_>,
    out: &mut String,
) {
    if targets.contains(&node) {
        return match edit {
            JsonEdit::Replace(put) => out.push_str(put),
            JsonEdit::Each(texts) => out.push_str(texts.get(&node).copied().unwrap_or("null")),
            JsonEdit::Remove => out.push_str("null"),
            JsonEdit::Child(put, names) => push_child(text, node, put, names, out),
        };
    }
    if targets.range(node..text.end(node)).next().is_none() {
        return out.push_str(text.raw(node));
    }
    let is_object = text.kind(node) == json::Kind::Object;
    out.push(if is_object { '{' } else { '[' });
    let mut first = true;
    for (name, child) in text.members(node) {
        if matches!(edit, JsonEdit::Remove) && targets.contains(&child) {
            continue;
        }
        if !std::mem::take(&mut first) {
            out.push(',');
        }
        if let Some(name) = name {
            out.push_str(text.raw(name));
            out.push(':');
        }
        write_json(text, child, targets, edit, out);
    }
    out.push(if is_object { '}' } else { ']' });
}

/// Appends an array with the new item, or an object with the new members. These replace members of the same name. Any other value is
/// replaced.
fn push_child(
    text: &JsonText,
    node: JsonNode,
    put: &str,
    names: &HashSet<String>,
    out: &mut String,
) {
    let raw = text.raw(node);
    let inside = |raw: &str| -> String {
        let raw = raw.strip_prefix(['[', '{']).and_then(|raw| raw.strip_suffix([']', '}']));
        // Harmless: an object or a list is in brackets.
        raw.unwrap_or_default().trim().to_owned()
    };
    let is_new = |name: JsonNode| names.contains(&*text.string(name));
    let (ends, before, added) = match (raw.as_bytes().first(), put.starts_with('{')) {
        (Some(b'['), _) => (['[', ']'], inside(raw), put.to_owned()),
        (Some(b'{'), true) => {
            let takes_a_place = text.members(node).any(|(name, _)| name.is_some_and(is_new));
            let before = if takes_a_place {
                // Harmless: members of the same name are replaced.
                let kept = text.members(node).filter_map(|(name, value)| {
                    let name = name.filter(|name| !is_new(*name))?;
                    Some([text.raw(name), ":", text.raw(value)].concat())
                });
                kept.collect::<Vec<_>>().join(",")
            } else {
                inside(raw)
            };
            (['{', '}'], before, inside(put))
        }
        _ => return out.push_str(put),
    };
    let comma = if before.is_empty() || added.is_empty() { "" } else { "," };
    let [open, close] = ends;
    out.push(open);
    out.push_str(&before);
    out.push_str(comma);
    out.push_str(&added);
    out.push(close);
}

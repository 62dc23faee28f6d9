//! The HTTP bindings of methods, found by path and HTTP method.
//!
//! Templates are in a tree of segments. At each segment a literal is tried first, then `*`, then `**`. A node has one depth, so a search
//! visits each node at most once.

use std::collections::BTreeMap;

use crate::parameters::{self, FieldPath};
use crate::rule::HttpRule;
use crate::schema::{Method, Schema, WellKnown};
use crate::template::{self, Segment, Template, Variable};

/// The bindings of the offered methods.
#[derive(Debug, Default)]
pub struct Bindings {
    all: Vec<Binding>,
    root: Node,
    /// The verbs after a colon that templates end with.
    verbs: Vec<Box<str>>,
}

/// How requests of one template call a method.
#[derive(Debug)]
pub struct Binding {
    /// The HTTP method.
    pub verb: Box<str>,
    pub template: Box<str>,
    /// The path at the service: `/package.Service/Method`.
    pub target: Box<str>,
    pub is_client_streaming: bool,
    pub is_server_streaming: bool,
    pub(crate) input: usize,
    pub(crate) output: usize,
    variables: Vec<(FieldPath, Variable)>,
    pub(crate) body: BodyField,
    /// The index of the field that the reply's body contains.
    pub(crate) response_body: Option<usize>,
}

/// The part of the request that the body contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyField {
    None,
    Whole,
    /// The field with this index.
    Field(usize),
}

/// The method that a request calls.
#[derive(Debug)]
pub struct Match {
    /// The index of the binding.
    pub binding: usize,
    /// The values of the path's variables, in the order of the binding's.
    pub values: Vec<String>,
}

/// Why a path and a method call nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoMatch {
    UnknownPath,
    /// The path is known with these methods, as a list for `Allow`.
    OtherMethods(String),
    /// A segment of the path is not UTF-8.
    NotUtf8,
}

#[derive(Debug, Default)]
struct Node {
    literals: BTreeMap<Box<str>, Node>,
    one: Option<Box<Node>>,
    /// Bindings whose last segment is `**` here.
    rest: Vec<Leaf>,
    /// Bindings that end here.
    ends: Vec<Leaf>,
}

/// The end of a template, with an index of a binding.
#[derive(Debug)]
struct Leaf {
    verb: Option<Box<str>>,
    binding: usize,
}

/// A search for one request.
struct Search<'b, 'p> {
    bindings: &'b Bindings,
    method: &'p [u8],
    segments: &'p [&'p [u8]],
    verb: Option<&'p [u8]>,
    allowed: Vec<&'b str>,
}

impl Bindings {
    /// Returns the bindings of these services' methods, or all errors.
    pub fn new(schema: &Schema, services: &[&str]) -> Result<Bindings, Vec<String>> {
        let mut made = Bindings::default();
        let mut errors = Vec::new();
        let offered = schema.services.iter().filter(|service| services.contains(&&*service.name));
        for service in offered {
            for method in &service.methods {
                let target = format!("/{}/{}", service.name, method.name);
                let own = HttpRule {
                    verb: "POST".to_owned(),
                    template: target.clone(),
                    body: "*".to_owned(),
                    response_body: String::new(),
                };
                let own = std::slice::from_ref(&own);
                let rules = if method.rules.is_empty() { own } else { &method.rules };
                for rule in rules {
                    if let Err(why) = made.add(schema, method, rule, &target) {
                        let name = target.trim_start_matches('/');
                        let written = format!("`{} {}` of `{name}`", rule.verb, rule.template);
                        errors.push(format!("{written}: {why}"));
                    }
                }
            }
        }
        if errors.is_empty() { Ok(made) } else { Err(errors) }
    }

    /// Returns all bindings, by their indices.
    pub fn all(&self) -> &[Binding] {
        &self.all
    }

    fn add(
        &mut self,
        schema: &Schema,
        method: &Method,
        rule: &HttpRule,
        target: &str,
    ) -> Result<(), String> {
        let template = Template::parse(&rule.template)?;
        let is_token = |verb: &str| !verb.is_empty() && verb.bytes().all(|b| b.is_ascii_graphic());
        if !is_token(&rule.verb) || rule.verb == "*" {
            return Err("it names no HTTP method".to_owned());
        }
        let variables = template.variables.iter().map(|variable| {
            let path = parameters::of_variable(schema, method.input, &variable.path)?;
            Ok((path, variable.clone()))
        });
        let variables = variables.collect::<Result<Vec<_>, String>>()?;
        let field_of = |message: usize, name: &str| {
            let known = schema.message(message).and_then(|message| message.field_named(name));
            known.map(|(at, _)| at).ok_or_else(|| format!("`{name}` is not a field of the message"))
        };
        let body = match &*rule.body {
            "" => BodyField::None,
            "*" => BodyField::Whole,
            name => BodyField::Field(field_of(method.input, name)?),
        };
        if let BodyField::Field(at) = body {
            let field = schema.message(method.input).and_then(|message| message.fields.get(at));
            if method.is_client_streaming && field.is_some_and(|field| !field.is_single()) {
                return Err("the body is a list in each message of a stream".to_owned());
            }
        }
        let response_body = match &*rule.response_body {
            "" => None,
            name => Some(field_of(method.output, name)?),
        };
        let index = self.all.len();
        self.insert(&template, &rule.verb, index)?;
        self.all.push(Binding {
            verb: rule.verb.as_str().into(),
            template: rule.template.as_str().into(),
            target: target.into(),
            is_client_streaming: method.is_client_streaming,
            is_server_streaming: method.is_server_streaming,
            input: method.input,
            output: method.output,
            variables,
            body,
            response_body,
        });
        Ok(())
    }

    /// Adds a template to the tree. Fails if another binding has the same template and method.
    fn insert(&mut self, template: &Template, method: &str, binding: usize) -> Result<(), String> {
        let mut node = &mut self.root;
        let mut is_rest = false;
        for segment in &template.segments {
            node = match segment {
                Segment::Literal(text) => node.literals.entry(text.clone()).or_default(),
                Segment::One => node.one.get_or_insert_default(),
                Segment::Rest => {
                    is_rest = true;
                    break;
                }
            };
        }
        let leaves = if is_rest { &mut node.rest } else { &mut node.ends };
        let same = |leaf: &&Leaf| {
            let known = self.all.get(leaf.binding);
            leaf.verb == template.verb && known.is_some_and(|known| *known.verb == *method)
        };
        if let Some(known) = leaves.iter().find(same).and_then(|leaf| self.all.get(leaf.binding)) {
            let name = known.target.trim_start_matches('/');
            return Err(format!("`{name}` has the same paths, with `{}`", known.template));
        }
        leaves.push(Leaf { verb: template.verb.clone(), binding });
        if let Some(verb) = template.verb.as_ref().filter(|verb| !self.verbs.contains(verb)) {
            self.verbs.push(verb.clone());
        }
        Ok(())
    }

    /// Finds the method that a request calls.
    pub fn find(&self, method: &[u8], path: &[u8]) -> Result<Match, NoMatch> {
        let Some(path) = path.strip_prefix(b"/") else { return Err(NoMatch::UnknownPath) };
        let mut segments: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
        let mut allowed = Vec::new();
        if let Some((last, verb)) = self.with_verb(&segments) {
            // Harmless: a path has at least one segment.
            let whole = segments.last().copied().unwrap_or_default();
            if let Some(place) = segments.last_mut() {
                *place = last;
            }
            let found = self.search(method, &segments, Some(verb), &mut allowed);
            if let Some(place) = segments.last_mut() {
                *place = whole;
            }
            if let Some(found) = found {
                return found;
            }
        }
        if let Some(found) = self.search(method, &segments, None, &mut allowed) {
            return found;
        }
        if allowed.is_empty() {
            return Err(NoMatch::UnknownPath);
        }
        allowed.sort_unstable();
        allowed.dedup();
        Err(NoMatch::OtherMethods(allowed.join(", ")))
    }

    /// Splits a verb that some template has off the last segment.
    fn with_verb<'p>(&self, segments: &[&'p [u8]]) -> Option<(&'p [u8], &'p [u8])> {
        let last = segments.last()?;
        let at = last.iter().rposition(|byte| *byte == b':')?;
        let (front, verb) = (last.get(..at)?, last.get(at + 1..)?);
        self.verbs.iter().any(|known| known.as_bytes() == verb).then_some((front, verb))
    }

    fn search<'b>(
        &'b self,
        method: &[u8],
        segments: &[&[u8]],
        verb: Option<&[u8]>,
        allowed: &mut Vec<&'b str>,
    ) -> Option<Result<Match, NoMatch>> {
        let mut search = Search { bindings: self, method, segments, verb, allowed: Vec::new() };
        let found = search.visit(&self.root, 0);
        allowed.append(&mut search.allowed);
        let (index, binding) = found?;
        let values = binding.variables.iter().map(|(_, variable)| {
            let to = if variable.ends_in_rest { segments.len() } else { variable.to };
            template::value(segments.get(variable.from..to)?, variable.is_multi)
        });
        let values: Option<Vec<String>> = values.collect();
        Some(values.map(|values| Match { binding: index, values }).ok_or(NoMatch::NotUtf8))
    }
}

impl Binding {
    /// Returns the fields of the variables.
    pub(crate) fn variables(&self) -> impl Iterator<Item = &FieldPath> {
        self.variables.iter().map(|(path, _)| path)
    }

    /// Returns true if the method takes a body of any content type (`google.api.HttpBody`).
    pub fn takes_any_body(&self, schema: &Schema) -> bool {
        let input = schema.message(self.input);
        let message = match self.body {
            BodyField::None => None,
            BodyField::Whole => input,
            BodyField::Field(at) => input
                .and_then(|input| input.fields.get(at))
                .filter(|field| field.is_single())
                .and_then(|field| schema.message_of(field)),
        };
        message.is_some_and(|message| message.known == WellKnown::HttpBody)
    }

    /// Returns true if the binding takes no body.
    pub fn takes_no_body(&self) -> bool {
        self.body == BodyField::None
    }
}

impl<'b> Search<'b, '_> {
    fn visit(&mut self, node: &'b Node, at: usize) -> Option<(usize, &'b Binding)> {
        let Some(segment) = self.segments.get(at) else {
            return self.leaf(&node.ends).or_else(|| self.leaf(&node.rest));
        };
        if !node.literals.is_empty() {
            let decoded = kit::percent::decoded(segment, false);
            // Harmless: a segment that is not UTF-8 equals no literal.
            let text = std::str::from_utf8(&decoded).ok();
            let next = text.and_then(|text| node.literals.get(text));
            if let Some(found) = next.and_then(|next| self.visit(next, at + 1)) {
                return Some(found);
            }
        }
        if let Some(one) = node.one.as_ref().filter(|_| !segment.is_empty())
            && let Some(found) = self.visit(one, at + 1)
        {
            return Some(found);
        }
        self.leaf(&node.rest)
    }

    /// Returns the binding that ends here with the request's method. Others are noted as allowed.
    fn leaf(&mut self, leaves: &'b [Leaf]) -> Option<(usize, &'b Binding)> {
        for leaf in leaves {
            if leaf.verb.as_deref().map(str::as_bytes) != self.verb {
                continue;
            }
            let Some(binding) = self.bindings.all.get(leaf.binding) else { continue };
            if binding.verb.as_bytes() == self.method {
                return Some((leaf.binding, binding));
            }
            self.allowed.push(&binding.verb);
        }
        None
    }
}

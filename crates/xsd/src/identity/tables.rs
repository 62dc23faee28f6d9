//! The identity constraints of one document as it streams by: who is selected, their key sequences, and their comparison.

use std::collections::HashMap;
use std::sync::Arc;

use super::matcher::Matcher;
use super::{Constraint, ConstraintKind, Content, IdentityLimits};
use crate::datatype::{Value, Violation};

/// The run-time state. Its memory is bounded by the depth of the document and by
/// [`IdentityLimits::identity_entries_max`].
#[derive(Debug)]
pub struct Tables {
    limits: IdentityLimits,
    depth: usize,
    /// Elements with constraints that are open, outermost first.
    scopes: Vec<Scope>,
    /// Key sequences held in all scopes.
    entries: usize,
    over: bool,
}

#[derive(Debug)]
struct Scope {
    depth: usize,
    active: Vec<Active>,
    /// What elements inside have brought together for a `keyref` of this scope or one further out.
    inherited: Vec<(Arc<Constraint>, Table)>,
}

/// One constraint of one element.
#[derive(Debug)]
struct Active {
    constraint: Arc<Constraint>,
    selector: Matcher,
    targets: Vec<Target>,
    table: Table,
}

/// The key sequences met, with how many nodes have them.
type Table = HashMap<Box<[Value]>, u32>;

/// A node that a selector selected and that is still open.
#[derive(Debug)]
struct Target {
    depth: usize,
    fields: Vec<Field>,
}

#[derive(Debug)]
struct Field {
    matcher: Matcher,
    found: Found,
}

#[derive(Debug)]
enum Found {
    Nothing,
    /// An element at this depth, which has not ended.
    Open(usize),
    Value(Value),
    /// A node without a value to compare; what had to be said has been said.
    Unusable,
}

impl Tables {
    pub fn new(limits: IdentityLimits) -> Tables {
        Tables { limits, depth: 0, scopes: Vec::new(), entries: 0, over: false }
    }

    /// No element with constraints is open: elements without constraints need not be told.
    pub fn idle(&self) -> bool {
        self.scopes.is_empty()
    }

    /// An element starts; `constraints` are those of its declaration. While [`Tables::idle`], elements without constraints
    /// may be left out, with their attributes and ends.
    pub fn start(
        &mut self,
        uri: &str,
        local: &str,
        constraints: &[Arc<Constraint>],
        violations: &mut Vec<Violation>,
    ) {
        self.depth += 1;
        let depth = self.depth;
        for active in self.scopes.iter_mut().flat_map(|scope| &mut scope.active) {
            active.start(uri, local, depth, violations);
        }
        if constraints.is_empty() {
            return;
        }
        let active = constraints.iter().map(|constraint| Active::new(constraint, depth)).collect();
        self.scopes.push(Scope { depth, active, inherited: Vec::new() });
    }

    /// Whether some field selects this attribute of the element just started; then call [`Tables::attribute`].
    pub fn wants_attribute(&self, uri: &str, local: &str) -> bool {
        self.scopes.iter().flat_map(|scope| &scope.active).any(|active| {
            active.targets.iter().any(|target| {
                active
                    .constraint
                    .fields
                    .iter()
                    .zip(&target.fields)
                    .any(|(path, field)| field.matcher.selects_attribute(path, uri, local))
            })
        })
    }

    /// An attribute of the element just started, given or by default. `None`: it has no value to compare.
    pub fn attribute(
        &mut self,
        uri: &str,
        local: &str,
        value: Option<&Value>,
        violations: &mut Vec<Violation>,
    ) {
        for active in self.scopes.iter_mut().flat_map(|scope| &mut scope.active) {
            let Active { constraint, targets, .. } = active;
            for target in targets {
                for (path, field) in constraint.fields.iter().zip(&mut target.fields) {
                    if field.matcher.selects_attribute(path, uri, local) {
                        let found = value.cloned().map_or(Found::Unusable, Found::Value);
                        field.find(found, constraint, violations);
                    }
                }
            }
        }
    }

    /// Whether some field selects the element that is now innermost, so that [`Tables::end`] needs its value.
    pub fn wants_content(&self) -> bool {
        let targets =
            self.scopes.iter().flat_map(|scope| &scope.active).flat_map(|active| &active.targets);
        targets
            .flat_map(|target| &target.fields)
            .any(|field| matches!(field.found, Found::Open(depth) if depth == self.depth))
    }

    /// The innermost element ends. `nillable` is its declaration's property.
    pub fn end(&mut self, content: &Content, nillable: bool, violations: &mut Vec<Violation>) {
        let depth = self.depth;
        let mut added = 0;
        let room = self.limits.identity_entries_max.saturating_sub(self.entries);
        for active in self.scopes.iter_mut().flat_map(|scope| &mut scope.active) {
            active.content(content, nillable, depth, violations);
            added += active.end(depth, room.saturating_sub(added), &mut self.over, violations);
        }
        self.entries += added;
        if self.scopes.last().is_some_and(|scope| scope.depth == depth)
            && let Some(scope) = self.scopes.pop()
        {
            self.close(scope, violations);
        }
        self.depth = depth.saturating_sub(1);
        if self.over && self.scopes.is_empty() {
            self.over = false;
        }
    }

    /// The element that has the constraints ends: its references are looked up, its keys handed outwards.
    fn close(&mut self, scope: Scope, violations: &mut Vec<Violation>) {
        let Scope { active, mut inherited, .. } = scope;
        for keyref in &active {
            let ConstraintKind::KeyRef { uri, local } = &keyref.constraint.kind else { continue };
            let refers = |constraint: &Constraint| {
                constraint.uri == *uri && constraint.local == *local && !constraint.is_keyref()
            };
            let own = active.iter().filter(|other| refers(&other.constraint));
            let own: Vec<&Table> = own.map(|other| &other.table).collect();
            let inner = inherited.iter().filter(|(constraint, _)| refers(constraint));
            let inner: Vec<&Table> = inner.map(|(_, table)| table).collect();
            for sequence in keyref.table.keys() {
                let found = own.iter().any(|table| table.contains_key(sequence))
                    // A sequence that several elements inside have belongs to none of them here.
                    || inner.iter().any(|table| table.get(sequence) == Some(&1));
                if !found && !self.over {
                    let message = format!(
                        "{} refers to {}, which no node has",
                        keyref.name(),
                        show(sequence)
                    );
                    violations.push(violation("cvc-identity-constraint.4.3", message));
                }
            }
        }
        let mut gone: usize = 0;
        for Active { constraint, table, .. } in active {
            match constraint.is_keyref() || !self.is_referred(&constraint) {
                true => gone += table.len(),
                false => gone += merge_own(&mut inherited, constraint, table),
            }
        }
        for (constraint, table) in inherited {
            gone += match self.scopes.last_mut() {
                Some(outer) => merge(&mut outer.inherited, constraint, table),
                None => table.len(),
            };
        }
        self.entries = self.entries.saturating_sub(gone);
    }

    /// Whether a scope further out refers to this key.
    fn is_referred(&self, key: &Constraint) -> bool {
        self.scopes.iter().flat_map(|scope| &scope.active).any(|active| {
            matches!(&active.constraint.kind, ConstraintKind::KeyRef { uri, local }
                if *uri == key.uri && *local == key.local)
        })
    }
}

impl Active {
    fn new(constraint: &Arc<Constraint>, depth: usize) -> Active {
        let selector = Matcher::new(&constraint.selector);
        let itself = selector.selects_element(&constraint.selector);
        let targets = itself.then(|| Target::new(constraint, depth)).into_iter().collect();
        Active { constraint: Arc::clone(constraint), selector, targets, table: Table::new() }
    }

    fn start(&mut self, uri: &str, local: &str, depth: usize, violations: &mut Vec<Violation>) {
        let constraint = &self.constraint;
        for target in &mut self.targets {
            for (path, field) in constraint.fields.iter().zip(&mut target.fields) {
                field.matcher.start(path, uri, local);
                if field.matcher.selects_element(path) {
                    field.find(Found::Open(depth), constraint, violations);
                }
            }
        }
        self.selector.start(&constraint.selector, uri, local);
        if self.selector.selects_element(&constraint.selector) {
            self.targets.push(Target::new(constraint, depth));
        }
    }

    /// Hands the content of the innermost element to the fields that select it.
    fn content(
        &mut self,
        content: &Content,
        nillable: bool,
        depth: usize,
        violations: &mut Vec<Violation>,
    ) {
        let constraint = &self.constraint;
        for field in self.targets.iter_mut().flat_map(|target| &mut target.fields) {
            if !matches!(field.found, Found::Open(at) if at == depth) {
                continue;
            }
            field.found = match content {
                _ if nillable && constraint.kind == ConstraintKind::Key => {
                    let message =
                        format!("a field of {} selects a nillable element", constraint.name());
                    violations.push(violation("cvc-identity-constraint.4.2.3", message));
                    Found::Unusable
                }
                Content::Value(value) => Found::Value(value.clone()),
                Content::Absent => Found::Unusable,
                Content::Complex => {
                    let message = format!(
                        "a field of {} selects an element whose content is not of a simple type",
                        constraint.name()
                    );
                    violations.push(violation("cvc-identity-constraint.3", message));
                    Found::Unusable
                }
            };
        }
    }

    /// The innermost element ends. Gives how many sequences came into the table.
    fn end(
        &mut self,
        depth: usize,
        room: usize,
        over: &mut bool,
        violations: &mut Vec<Violation>,
    ) -> usize {
        self.selector.end(&self.constraint.selector);
        let ended = match self.targets.last() {
            Some(target) if target.depth == depth => self.targets.pop(),
            Some(_) | None => None,
        };
        for target in &mut self.targets {
            for (path, field) in self.constraint.fields.iter().zip(&mut target.fields) {
                field.matcher.end(path);
            }
        }
        match ended {
            Some(target) => self.settle(target, room, over, violations),
            None => 0,
        }
    }

    /// Compares a node that is complete with those before it.
    fn settle(
        &mut self,
        target: Target,
        room: usize,
        over: &mut bool,
        violations: &mut Vec<Violation>,
    ) -> usize {
        let mut sequence = Vec::with_capacity(target.fields.len());
        let mut missing = false;
        for field in target.fields {
            match field.found {
                Found::Value(value) => sequence.push(value),
                Found::Unusable => return 0,
                Found::Nothing | Found::Open(_) => missing = true,
            }
        }
        let (code, is_key) = match self.constraint.kind {
            ConstraintKind::Unique => ("cvc-identity-constraint.4.1", false),
            ConstraintKind::Key => ("cvc-identity-constraint.4.2.2", true),
            ConstraintKind::KeyRef { .. } => ("", false),
        };
        if missing {
            if is_key {
                let message = format!("a node that {} selects lacks a field", self.name());
                violations.push(violation("cvc-identity-constraint.4.2.1", message));
            }
            return 0;
        }
        let sequence: Box<[Value]> = sequence.into();
        if self.table.contains_key(&sequence) {
            if !self.constraint.is_keyref() {
                let message = format!("{} has {} twice", self.name(), show(&sequence));
                violations.push(violation(code, message));
            }
            return 0;
        }
        if room == 0 {
            if !std::mem::replace(over, true) {
                let message = "more key sequences than are kept at one time".to_owned();
                violations.push(violation("limit.identity_entries_max", message));
            }
            return 0;
        }
        self.table.insert(sequence, 1);
        1
    }

    fn name(&self) -> String {
        self.constraint.name()
    }
}

impl Target {
    fn new(constraint: &Constraint, depth: usize) -> Target {
        let field = |path| {
            let matcher = Matcher::new(path);
            let found = match matcher.selects_element(path) {
                true => Found::Open(depth),
                false => Found::Nothing,
            };
            Field { matcher, found }
        };
        Target { depth, fields: constraint.fields.iter().map(field).collect() }
    }
}

impl Field {
    fn find(&mut self, found: Found, of: &Constraint, violations: &mut Vec<Violation>) {
        match self.found {
            Found::Nothing => self.found = found,
            Found::Open(_) | Found::Value(_) => {
                let message = format!("a field of {} selects more than one node", of.name());
                violations.push(violation("cvc-identity-constraint.3", message));
                self.found = Found::Unusable;
            }
            Found::Unusable => {}
        }
    }
}

impl Constraint {
    pub(crate) fn is_keyref(&self) -> bool {
        matches!(self.kind, ConstraintKind::KeyRef { .. })
    }

    fn name(&self) -> String {
        let kind = match self.kind {
            ConstraintKind::Unique => "unique",
            ConstraintKind::Key => "key",
            ConstraintKind::KeyRef { .. } => "keyref",
        };
        format!("the {kind} '{}'", self.local)
    }
}

/// An element's own sequences win over those from inside. Gives how many became one.
fn merge_own(
    into: &mut Vec<(Arc<Constraint>, Table)>,
    constraint: Arc<Constraint>,
    table: Table,
) -> usize {
    merge_by(into, constraint, table, Extend::extend)
}

/// Joins what several elements hand outwards: what more than one of them has is nobody's. Gives how many became one.
fn merge(
    into: &mut Vec<(Arc<Constraint>, Table)>,
    constraint: Arc<Constraint>,
    table: Table,
) -> usize {
    merge_by(into, constraint, table, |known, table| {
        for (sequence, count) in table {
            let sum = known.entry(sequence).or_insert(0);
            *sum = sum.saturating_add(count);
        }
    })
}

/// Adds a table to the one of its constraint, if there is one, by `join`. Gives how many sequences became one.
fn merge_by(
    into: &mut Vec<(Arc<Constraint>, Table)>,
    constraint: Arc<Constraint>,
    table: Table,
    join: impl FnOnce(&mut Table, Table),
) -> usize {
    match into.iter_mut().find(|(known, _)| Arc::ptr_eq(known, &constraint)) {
        None => {
            into.push((constraint, table));
            0
        }
        Some((_, known)) => {
            let before = known.len() + table.len();
            join(known, table);
            before - known.len()
        }
    }
}

fn violation(code: &'static str, message: String) -> Violation {
    Violation { code, message }
}

/// A key sequence as a person reads it.
fn show(sequence: &[Value]) -> String {
    let values: Vec<String> = sequence.iter().map(Value::to_string).collect();
    format!("({})", values.join(", "))
}

//! Identity constraints of a streamed document: selects nodes, collects their key sequences, and compares these.
//!
//! An element selected in several scopes of one constraint is tracked only once. The additional cost, mainly that of each scope's table, is
//! charged to a single budget of steps.

use std::collections::hash_map::Entry;
use std::hash::RandomState;
use std::sync::Arc;

use super::matcher::{Deep, Matcher, Reach};
use super::table::{Sequence, Table, merge, merge_own};
use super::{Constraint, ConstraintKind, Content, IdentityLimits};
use crate::datatype::{Value, Violation};

/// State of a run. Its memory is bounded by the depth of the document and by [`IdentityLimits`].
#[derive(Debug)]
pub struct Tables {
    limits: IdentityLimits,
    depth: usize,
    /// Open elements with constraints, outermost first.
    scopes: Vec<Scope>,
    /// The constraints of these elements, each once, in the order in which they were first encountered.
    followed: Vec<FollowedConstraint>,
    hasher: RandomState,
    room: Room,
}

#[derive(Debug)]
struct Scope {
    depth: usize,
    /// Sequences collected from inner elements for a `keyref` of this scope or an outer one.
    inherited: Vec<(Arc<Constraint>, Table)>,
}

/// The state of one constraint, for all open elements that have it.
#[derive(Debug)]
struct FollowedConstraint {
    constraint: Arc<Constraint>,
    selector: Matcher,
    fields: Box<[Matcher]>,
    /// The tables of the constraint, outermost first.
    held: Vec<ElementTable>,
    /// The selected nodes that are open, outermost first.
    targets: Vec<Target>,
    /// Open elements that are selected by fields, outermost first.
    open: Vec<OpenField>,
}

/// The table of one constraint at one element.
#[derive(Debug)]
struct ElementTable {
    depth: usize,
    table: Table,
}

/// An open node that a selector selected.
#[derive(Debug)]
struct Target {
    depth: usize,
    /// The elements whose selectors selected the node.
    by: Reach,
    fields: Box<[FieldState]>,
}

/// An element that is a field of a target.
#[derive(Debug)]
struct OpenField {
    depth: usize,
    target: usize,
    field: usize,
}

#[derive(Debug)]
enum FieldState {
    Nothing,
    /// An element at this depth that has not ended.
    Open(usize),
    Value(Value),
    /// A node without a comparable value. Any error has been reported already.
    Unusable,
}

/// Remaining budgets.
#[derive(Debug)]
struct Room {
    /// Key sequences, over all tables.
    entries: usize,
    /// Steps for this document.
    steps: u64,
    /// Whether a budget was exceeded, which is reported once. References are then not looked up until all scopes have ended.
    over: bool,
}

/// Maximum number of complaints reported for one event.
const TOLD_MAX: usize = 100;

/// Number of bytes that are copied or compared in the time of one step.
const BYTES_A_STEP: u64 = 64;

impl Tables {
    pub fn new(limits: IdentityLimits) -> Tables {
        let room = Room {
            entries: limits.identity_entries_max,
            steps: limits.identity_steps_max,
            over: false,
        };
        let hasher = RandomState::new();
        Tables { limits, depth: 0, scopes: Vec::new(), followed: Vec::new(), hasher, room }
    }

    /// Returns whether no element with constraints is open, so that elements without constraints need not be reported.
    pub fn idle(&self) -> bool {
        self.scopes.is_empty()
    }

    /// Returns the remaining steps of the document, for [`Tables::set_steps`].
    pub fn steps(&self) -> u64 {
        self.room.steps
    }

    pub fn set_steps(&mut self, left: u64) {
        self.room.steps = left;
    }

    /// Handles the start of an element; `constraints` are those of its declaration. While [`Tables::idle`], elements without
    /// constraints may be omitted with their attributes and ends.
    pub fn start(
        &mut self,
        uri: &str,
        local: &str,
        constraints: &[Arc<Constraint>],
        violations: &mut Vec<Violation>,
    ) {
        self.depth += 1;
        let depth = self.depth;
        for followed in &mut self.followed {
            followed.start(uri, local);
        }
        for constraint in constraints {
            match self.followed.iter_mut().find(|one| Arc::ptr_eq(&one.constraint, constraint)) {
                Some(followed) => followed.held.push(ElementTable::new(depth)),
                None => self.followed.push(FollowedConstraint::new(constraint, depth)),
            }
        }
        if !constraints.is_empty() {
            self.scopes.push(Scope { depth, inherited: Vec::new() });
        }
        for followed in &mut self.followed {
            followed.select(depth, &mut self.room, violations);
        }
    }

    /// Returns whether a field selects this attribute of the element just started, so that [`Tables::attribute`] is needed.
    pub fn wants_attribute(&self, uri: &str, local: &str) -> bool {
        self.followed.iter().filter(|followed| !followed.targets.is_empty()).any(|followed| {
            // Harmless: there is one matcher for each field.
            followed.constraint.fields.iter().zip(&followed.fields).any(|(path, matcher)| {
                matcher.to_attribute(path, self.depth, uri, local).any(&followed.targets)
            })
        })
    }

    /// Handles an attribute of the element just started, whether present or supplied by a default. `value` is `None` if it cannot be
    /// compared.
    pub fn attribute(
        &mut self,
        uri: &str,
        local: &str,
        value: Option<&Value>,
        violations: &mut Vec<Violation>,
    ) {
        let cost = value.map_or(1, cost);
        for FollowedConstraint { constraint, fields, targets, .. } in &mut self.followed {
            // Harmless: there is one matcher for each field.
            for (at, (path, matcher)) in constraint.fields.iter().zip(fields.iter()).enumerate() {
                let mut first = true;
                matcher.to_attribute(path, self.depth, uri, local).each(targets, |_, target| {
                    if !self.room.take(cost, &mut first, violations) {
                        return;
                    }
                    let found = value.cloned().map_or(FieldState::Unusable, FieldState::Value);
                    target.find(at, found, constraint, violations);
                });
            }
        }
    }

    /// Returns whether a field selects the innermost element, so that [`Tables::end`] needs its value.
    pub fn wants_content(&self) -> bool {
        let innermost = |followed: &FollowedConstraint| {
            followed.open.last().is_some_and(|open| open.depth == self.depth)
        };
        self.followed.iter().any(innermost)
    }

    /// Handles the end of the innermost element. `nillable` is the property of its declaration.
    pub fn end(&mut self, content: &Content, nillable: bool, violations: &mut Vec<Violation>) {
        let depth = self.depth;
        for followed in &mut self.followed {
            followed.content(content, nillable, depth, &mut self.room, violations);
            followed.end(depth, &self.hasher, &mut self.room, violations);
        }
        if let Some(scope) = self.scopes.pop_if(|scope| scope.depth == depth) {
            self.close(scope, violations);
        }
        self.depth = depth.saturating_sub(1);
        if self.scopes.is_empty() {
            self.room.over = false;
        }
    }

    /// Ends a scope: looks up its references, and passes its keys outwards.
    fn close(&mut self, scope: Scope, violations: &mut Vec<Violation>) {
        let Scope { depth, mut inherited } = scope;
        let mut own = Vec::new();
        for followed in &mut self.followed {
            if let Some(held) = followed.held.pop_if(|held| held.depth == depth) {
                own.push((Arc::clone(&followed.constraint), held.table));
            }
        }
        while self.followed.pop_if(|followed| followed.held.is_empty()).is_some() {}
        for (keyref, references) in own.iter().filter(|(constraint, _)| constraint.is_keyref()) {
            if !self.room.over {
                look_up(keyref, references, &own, &inherited, violations);
            }
        }
        let mut gone: usize = 0;
        for (constraint, table) in own {
            if constraint.is_keyref() || !self.is_referred(&constraint) {
                gone += table.len()
            } else {
                gone += merge_own(&mut inherited, constraint, table)
            }
        }
        for (constraint, table) in inherited {
            gone += match self.scopes.last_mut() {
                Some(outer) => merge(&mut outer.inherited, constraint, table),
                None => table.len(),
            };
        }
        self.room.entries = (self.room.entries + gone).min(self.limits.identity_entries_max);
    }

    /// Returns whether an outer scope refers to this key.
    fn is_referred(&self, key: &Constraint) -> bool {
        self.followed.iter().any(|followed| followed.constraint.refers_to(key))
    }
}

/// Looks up all references of one `keyref` in a scope.
fn look_up(
    keyref: &Constraint,
    references: &Table,
    own: &[(Arc<Constraint>, Table)],
    inherited: &[(Arc<Constraint>, Table)],
    violations: &mut Vec<Violation>,
) {
    let referred = |known: &&(Arc<Constraint>, Table)| keyref.refers_to(&known.0);
    let own: Vec<&Table> = own.iter().filter(referred).map(|(_, table)| table).collect();
    let inner: Vec<&Table> = inherited.iter().filter(referred).map(|(_, table)| table).collect();
    let is_missing = |sequence: &&Sequence| {
        !own.iter().any(|table| table.contains_key(*sequence))
            // A sequence that occurs at several inner elements is ambiguous and does not count here.
            && !inner.iter().any(|table| table.get(*sequence) == Some(&1))
    };
    let mut missing: Vec<String> =
        references.keys().filter(is_missing).map(Sequence::show).collect();
    // Tables are unordered, but equal messages must produce equal errors.
    missing.sort_unstable();
    let name = keyref.full_name();
    // Harmless: the errors already reported make the message invalid.
    for sequence in missing.iter().take(TOLD_MAX.saturating_sub(violations.len())) {
        let message = format!("No match found for key-sequence {sequence} of keyref {name}");
        violations.push(violation("cvc-identity-constraint.4.3", message));
    }
}

impl Room {
    /// Charges for one of several visits. The first one is free, because it is the cost without nesting.
    fn take(&mut self, cost: u64, first: &mut bool, violations: &mut Vec<Violation>) -> bool {
        if std::mem::take(first) {
            return true;
        }
        match self.steps.checked_sub(cost) {
            Some(left) => self.steps = left,
            None => {
                self.steps = 0;
                let message = "identity constraints within one another cost more to check than is \
                               spent on one document";
                self.refuse("limit.identity_steps_max", message, violations);
            }
        }
        !self.over
    }

    #[cold]
    fn refuse(&mut self, code: &'static str, message: &str, violations: &mut Vec<Violation>) {
        if !std::mem::replace(&mut self.over, true) {
            violations.push(violation(code, message.to_owned()));
        }
    }
}

impl FollowedConstraint {
    /// Starts at the outermost element with the constraint.
    fn new(constraint: &Arc<Constraint>, depth: usize) -> FollowedConstraint {
        FollowedConstraint {
            constraint: Arc::clone(constraint),
            selector: Matcher::new(&constraint.selector),
            fields: constraint.fields.iter().map(Matcher::new).collect(),
            held: vec![ElementTable::new(depth)],
            targets: Vec::new(),
            open: Vec::new(),
        }
    }

    fn start(&mut self, uri: &str, local: &str) {
        self.selector.start(&self.constraint.selector, uri, local);
        // Harmless: there is one matcher for each field.
        for (path, matcher) in self.constraint.fields.iter().zip(&mut self.fields) {
            matcher.start(path, uri, local);
        }
    }

    /// Determines the scopes and fields for which the innermost element is selected.
    fn select(&mut self, depth: usize, room: &mut Room, violations: &mut Vec<Violation>) {
        let FollowedConstraint { constraint, selector, fields, held, targets, open } = self;
        let by = selector.to_element(&constraint.selector, depth);
        if by.any(held) {
            let fields = constraint.fields.iter().map(|_| FieldState::Nothing).collect();
            targets.push(Target { depth, by, fields });
        }
        if targets.is_empty() {
            return;
        }
        // Harmless: there is one matcher for each field.
        for (field, (path, matcher)) in constraint.fields.iter().zip(fields.iter()).enumerate() {
            let mut first = true;
            matcher.to_element(path, depth).each(targets, |at, target| {
                if room.take(1, &mut first, violations) {
                    target.find(field, FieldState::Open(depth), constraint, violations);
                    open.push(OpenField { depth, target: at, field });
                }
            });
        }
    }

    /// Passes the content of the innermost element to the fields that select it.
    fn content(
        &mut self,
        content: &Content,
        nillable: bool,
        depth: usize,
        room: &mut Room,
        violations: &mut Vec<Violation>,
    ) {
        let constraint = &self.constraint;
        let mut first = true;
        let from = self.open.partition_point(|open| open.depth < depth);
        for OpenField { target, field, .. } in self.open.drain(from..) {
            let target = self.targets.get_mut(target);
            let Some(found) = target.and_then(|target| target.fields.get_mut(field)) else {
                continue;
            };
            if !matches!(found, FieldState::Open(at) if *at == depth) {
                continue;
            }
            *found = match content {
                _ if nillable && constraint.kind == ConstraintKind::Key => {
                    let message =
                        format!("a field of {} selects a nillable element", constraint.name());
                    violations.push(violation("cvc-identity-constraint.4.2.3", message));
                    FieldState::Unusable
                }
                Content::Value(value) if room.take(cost(value), &mut first, violations) => {
                    FieldState::Value(value.clone())
                }
                Content::Value(_) | Content::Absent => FieldState::Unusable,
                Content::Complex => {
                    let message = format!(
                        "a field of {} selects an element whose content is not of a simple type",
                        constraint.name()
                    );
                    violations.push(violation("cvc-identity-constraint.3", message));
                    FieldState::Unusable
                }
            };
        }
    }

    /// Handles the end of the innermost element.
    fn end(
        &mut self,
        depth: usize,
        hasher: &RandomState,
        room: &mut Room,
        violations: &mut Vec<Violation>,
    ) {
        self.selector.end(&self.constraint.selector);
        // Harmless: there is one matcher for each field.
        for (path, matcher) in self.constraint.fields.iter().zip(&mut self.fields) {
            matcher.end(path);
        }
        if let Some(target) = self.targets.pop_if(|target| target.depth == depth) {
            self.settle(target, hasher, room, violations);
        }
    }

    /// Compares a complete node with earlier ones, in each scope that selected it.
    fn settle(
        &mut self,
        target: Target,
        hasher: &RandomState,
        room: &mut Room,
        violations: &mut Vec<Violation>,
    ) {
        let constraint = &self.constraint;
        let mut values = Vec::with_capacity(target.fields.len());
        let mut missing = false;
        for found in target.fields {
            match found {
                FieldState::Value(value) => values.push(value),
                FieldState::Unusable => return,
                FieldState::Nothing | FieldState::Open(_) => missing = true,
            }
        }
        if missing {
            if constraint.kind == ConstraintKind::Key {
                let name = constraint.full_name();
                let message =
                    format!("Not all fields of key identity-constraint {name} evaluate to a node");
                violations.push(violation("cvc-identity-constraint.4.2.1", message));
            }
            return;
        }
        let cost = values.iter().map(cost).fold(0, u64::saturating_add);
        let sequence = Sequence::new(values, hasher);
        let mut first = true;
        target.by.each(&mut self.held, |_, held| {
            if room.take(cost, &mut first, violations) {
                held.add(&sequence, constraint, room, violations);
            }
        });
    }
}

impl ElementTable {
    fn new(depth: usize) -> ElementTable {
        ElementTable { depth, table: Table::default() }
    }

    fn add(
        &mut self,
        sequence: &Sequence,
        of: &Constraint,
        room: &mut Room,
        violations: &mut Vec<Violation>,
    ) {
        let Entry::Vacant(place) = self.table.entry(sequence.clone()) else {
            let (code, kind) = match of.kind {
                ConstraintKind::Unique => ("cvc-identity-constraint.4.1", "unique"),
                ConstraintKind::Key => ("cvc-identity-constraint.4.2.2", "key"),
                ConstraintKind::KeyRef { .. } => return,
            };
            let (sequence, name) = (sequence.show(), of.full_name());
            let message =
                format!("Duplicate key-sequence {sequence} in {kind} identity-constraint {name}");
            return violations.push(violation(code, message));
        };
        match room.entries.checked_sub(1) {
            Some(left) => {
                room.entries = left;
                place.insert(1);
            }
            None => {
                let message = "there are too many key sequences";
                room.refuse("limit.identity_entries_max", message, violations);
            }
        }
    }
}

impl Deep for ElementTable {
    fn depth(&self) -> usize {
        self.depth
    }
}

impl Deep for Target {
    fn depth(&self) -> usize {
        self.depth
    }
}

impl Target {
    fn find(
        &mut self,
        field: usize,
        found: FieldState,
        of: &Constraint,
        violations: &mut Vec<Violation>,
    ) {
        let Some(field) = self.fields.get_mut(field) else { return };
        match field {
            FieldState::Nothing => *field = found,
            FieldState::Open(_) | FieldState::Value(_) => {
                let message = format!("a field of {} selects more than one node", of.name());
                violations.push(violation("cvc-identity-constraint.3", message));
                *field = FieldState::Unusable;
            }
            FieldState::Unusable => {}
        }
    }
}

impl Constraint {
    pub(crate) fn is_keyref(&self) -> bool {
        matches!(self.kind, ConstraintKind::KeyRef { .. })
    }

    /// Returns whether this is a `keyref` to that key.
    fn refers_to(&self, key: &Constraint) -> bool {
        matches!(&self.kind, ConstraintKind::KeyRef { uri, local }
            if *uri == key.uri && *local == key.local && !key.is_keyref())
    }

    fn name(&self) -> String {
        let kind = match self.kind {
            ConstraintKind::Unique => "unique",
            ConstraintKind::Key => "key",
            ConstraintKind::KeyRef { .. } => "keyref",
        };
        format!("the {kind} '{}'", self.local)
    }

    /// Returns the name as in messages of libxml2.
    fn full_name(&self) -> String {
        match &*self.uri {
            "" => format!("'{}'", self.local),
            uri => format!("'{{{uri}}}{}'", self.local),
        }
    }
}

/// Returns the steps for copying a value or looking it up.
fn cost(value: &Value) -> u64 {
    let bytes = match value {
        Value::Text { text, .. } => text.len() as u64,
        Value::Bytes { bytes, .. } => bytes.len() as u64,
        Value::Name { uri, local, .. } => (uri.len() + local.len()) as u64,
        Value::Decimal(decimal) => decimal.borrow().total_digits(),
        Value::List(items) => return items.iter().map(cost).fold(1, u64::saturating_add),
        Value::Boolean(_)
        | Value::Float(_)
        | Value::Double(_)
        | Value::Duration(_)
        | Value::DateTime(_) => 0,
    };
    1 + bytes / BYTES_A_STEP
}

fn violation(code: &'static str, message: String) -> Violation {
    Violation { code, message }
}

//! XPath 1.0 over the documents of a message, whose values are available as variables.
//!
//! `$NAME` in a path is a value of the message. In XPath, `headers.X-Id` is a single name, so
//! `$headers.X-Id` needs no other syntax. `$body.total` selects a member of a JSON
//! value, and `$body..total` all members with that name. A path into a value that is not a node finds nothing. `count` and `sum` take the
//! items of an array.

mod scan;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, LazyLock};

use xml::{Document, Kind, NodeId};
use xpath::{
    Call, DocId, DocumentSet, DownStart, Evaluation, Expr, Host, Lookup, Name, Node, NodeKind,
    Options, Statics,
};

use crate::jsonpath::Query;
use crate::markup::detached_markup;
use crate::names::resolve;
use crate::path::scan::Use;
use crate::query::{apply_query, query_input};
use crate::value::NodeGroup;
use crate::{
    Budget, Error, ErrorKind, FailureKind, NameKind, Names, Nodes, Number, Scope, Slot, Value,
};

/// The function that joins the texts of all nodes of a set.
pub(crate) const TEXTS: &str = "texts";

/// The level of the Body in a SOAP message. The root element is level 1.
pub(crate) const BODY_LEVEL: usize = 2;

/// A compiled path or other XPath expression.
#[derive(Debug)]
pub(crate) struct Path {
    expr: Expr,
    /// The variables in the order of the text.
    variables: Vec<Variable>,
    /// The document for `/` and for paths without an explicit start, or `None` if nothing starts there.
    document: Option<Slot>,
    /// The slot of the variable that the path starts at. `None` if it starts elsewhere, or at a member, as in `$body.a`.
    started: Option<Slot>,
}

#[derive(Debug)]
struct Variable {
    slot: Slot,
    /// For a dotted name, the query for the parts after the value's own name.
    members: Option<Query>,
    taken_as: Use,
}

impl Path {
    pub(crate) fn compile(text: &str, names: &dyn Names) -> Result<Path, Error> {
        let meaning = Meaning { names, uses: scan::uses(text), found: RefCell::default() };
        let expr = Expr::compile(text, &meaning).map_err(|error| translated(text, error, names))?;
        let variables = meaning.found.into_inner();
        let is_never_nodes =
            |variable: &Variable| variable.taken_as == Use::Joined && variable.members.is_some();
        if variables.iter().any(is_never_nodes) {
            let what = "`|` joins XML nodes, not JSON members; name several members as in `$body['a','b']`";
            return Err(ErrorKind::Type(what.into()).at(text, 0));
        }
        let looks = !scan::is_plain_tail(text) && expr.looks_at_focus();
        let document = looks.then(|| names.document());
        let started = expr.start_variable().and_then(|number| variables.get(number as usize));
        let started =
            started.filter(|variable| variable.members.is_none()).map(|variable| variable.slot);
        Ok(Path { expr, variables, document, started })
    }

    pub(crate) fn slots(&self) -> Vec<Slot> {
        let variables = self.variables.iter().map(|variable| variable.slot);
        variables.chain(self.document).collect()
    }

    /// Returns the number of levels of elements that the path reads in the message. Returns `None` if that number has no limit, or if the
    /// path reads anything else. `body` is the slot of the Body of a SOAP message, which is at level 2.
    pub(crate) fn levels(&self, body: Slot) -> Option<usize> {
        let of_message = |(start, levels): (DownStart, usize)| match start {
            DownStart::Root => Some(levels),
            DownStart::Variable(number) => {
                let variable = self.variables.get(number as usize)?;
                let is_body = variable.slot == body && variable.members.is_none();
                is_body.then_some(BODY_LEVEL + levels)
            }
        };
        let levels: Option<Vec<usize>> = self.expr.levels()?.into_iter().map(of_message).collect();
        levels?.into_iter().max()
    }

    pub(crate) fn value(
        &self,
        scope: &dyn Scope,
        budget: &mut Budget,
    ) -> Result<Value, FailureKind> {
        if let Some((document, node)) = self.start_node(scope)? {
            let documents = DocumentSet::new(document);
            return self.evaluate(scope, budget, &documents, |path, evaluation| {
                let nodes = path.nodes_from(evaluation.documents.root().with(node), evaluation)?;
                Ok(taken_nodes(&nodes, evaluation.documents))
            });
        }
        let start = self.document.map(|slot| scope.value(slot)).transpose()?;
        let start = match &start {
            Some(Value::Nodes(nodes)) => nodes.iter().next().map(|(document, _)| document.clone()),
            _ => None,
        };
        // The document used for paths over a message that is not XML, and for paths that begin at a variable.
        static NOTHING: LazyLock<Arc<Document>> =
            LazyLock::new(|| Arc::new(xml::Builder::new().finish()));
        let start = start.unwrap_or_else(|| NOTHING.clone());
        let documents = DocumentSet::new(start);
        self.evaluate(scope, budget, &documents, |path, evaluation| {
            let value = path.value(evaluation)?;
            Ok(taken(&value, evaluation.documents))
        })
    }

    /// If the path starts only at a variable, and the variable holds exactly one node, returns that node. The
    /// document set is then created from the node's document, and no second document has to be added.
    fn start_node(
        &self,
        scope: &dyn Scope,
    ) -> Result<Option<(Arc<Document>, NodeId)>, FailureKind> {
        let started = self.started.filter(|_| self.document.is_none());
        let Some(slot) = started else { return Ok(None) };
        let Value::Nodes(nodes) = scope.value(slot)? else { return Ok(None) };
        let first = nodes.iter().next().filter(|_| nodes.len() == 1);
        Ok(first.map(|(document, node)| (document.clone(), node)))
    }

    fn evaluate(
        &self,
        scope: &dyn Scope,
        budget: &mut Budget,
        documents: &DocumentSet,
        work: impl FnOnce(&Expr, &mut Evaluation<'_>) -> Result<Value, xpath::Error>,
    ) -> Result<Value, FailureKind> {
        let mut spent = xpath::Budget::new(xpath::Limits {
            steps_max: budget.steps_left(),
            nodes_max: budget.limits().results_max,
            text_bytes_max: u32::try_from(budget.limits().output_bytes_max).unwrap_or(u32::MAX),
            ..xpath::Limits::default()
        });
        let mut values = Values { scope, variables: &self.variables, budget, failed: None };
        let value = work(
            &self.expr,
            &mut Evaluation::of(documents, documents.root(), &mut values, &mut spent),
        );
        let failed = values.failed.take();
        budget.charge(spent.used())?;
        match (value, failed) {
            (_, Some(kind)) => Err(kind),
            (Ok(value), None) => Ok(value),
            (Err(error), None) => Err(failure(error, budget)),
        }
    }
}

/// Resolves names while a path is compiled.
struct Meaning<'n> {
    names: &'n dyn Names,
    /// The use of each variable, in the order of the text.
    uses: Vec<Use>,
    found: RefCell<Vec<Variable>>,
}

impl Statics for Meaning<'_> {
    fn namespace(&self, prefix: &str) -> Option<&str> {
        self.names.namespace(prefix)
    }

    fn variable(&self, name: &Name) -> Option<u32> {
        let parts: Vec<&str> = name.local.split('.').collect();
        let (known, taken) = resolve(&parts, self.names).filter(|_| name.uri.is_empty())?;
        let NameKind::Value(slot) = known else { return None };
        let rest = parts.get(taken..).unwrap_or_default();
        let members = match rest {
            [] => None,
            // Two dots select descendants.
            rest if rest.contains(&"") => {
                Some(Query::compile(&format!("$.{}", rest.join("."))).ok()?)
            }
            rest => Some(Query::of_names(rest.iter().copied())),
        };
        let mut found = self.found.borrow_mut();
        let taken_as = self.uses.get(found.len()).copied().unwrap_or(Use::Value);
        found.push(Variable { slot, members, taken_as });
        // Harmless: there are fewer than 2^32 variables.
        u32::try_from(found.len() - 1).ok()
    }

    fn function(&self, name: &Name, arguments: &[Option<&str>]) -> Lookup {
        match (&*name.uri, &*name.local, arguments) {
            ("", TEXTS, [_]) => Lookup::Found(0),
            ("", TEXTS, _) => Lookup::WrongArguments("it takes one argument".into()),
            _ => Lookup::Unknown,
        }
    }

    fn key(&self, _name: &Name) -> Option<u32> {
        None
    }

    fn options(&self) -> Options {
        Options::default()
    }
}

/// Supplies the values of a message as variables during one evaluation.
struct Values<'v> {
    scope: &'v dyn Scope,
    variables: &'v [Variable],
    budget: &'v mut Budget,
    /// The reason why a value could not be supplied, or `None`.
    failed: Option<FailureKind>,
}

impl Values<'_> {
    fn find(&mut self, number: u32, documents: &DocumentSet) -> Result<xpath::Value, FailureKind> {
        let Some(variable) = self.variables.get(number as usize) else {
            return Ok(xpath::Value::text(""));
        };
        let value = match &variable.members {
            Some(query) => {
                apply_query(query, query_input(variable.slot, self.scope)?, self.budget)?
            }
            None => self.scope.value(variable.slot)?,
        };
        Ok(match &value {
            Value::Nodes(nodes) => node_set(nodes, documents)?,
            _ if variable.taken_as == Use::Start => xpath::Value::nodes(Vec::new()),
            Value::Nothing if variable.taken_as == Use::Joined => xpath::Value::nodes(Vec::new()),
            _ if variable.taken_as == Use::Joined => {
                let held = match &value {
                    Value::Json(_) => "a JSON value",
                    Value::Boolean(_) => "a boolean",
                    Value::Number(_) => "a number",
                    Value::Null => "null",
                    Value::Text(_) | Value::Bytes(_) | Value::Nodes(_) | Value::Nothing => "text",
                };
                let what = format!("`|` joins XML nodes, but a variable beside it is {held}");
                return Err(FailureKind::Type(what.into()));
            }
            _ if variable.taken_as == Use::Items => item_set(&value, documents, self.budget)?,
            Value::Boolean(yes) => xpath::Value::Boolean(*yes),
            Value::Number(number) => xpath::Value::Number(number.value()),
            Value::Json(json) if matches!(json_kind(json), Some(json::Kind::Number)) => {
                xpath::Value::Number(value.number())
            }
            Value::Json(json)
                if matches!(json_kind(json), Some(json::Kind::True | json::Kind::False)) =>
            {
                xpath::Value::Boolean(value.number() != 0.0)
            }
            Value::Nothing | Value::Null | Value::Text(_) | Value::Bytes(_) | Value::Json(_) => {
                let text = value.text()?;
                self.budget.text(text.len())?;
                xpath::Value::text(&*text)
            }
        })
    }
}

fn json_kind(json: &crate::JsonNodes) -> Option<json::Kind> {
    json.first().map(|first| json.text.kind(first))
}

impl Host for Values<'_> {
    fn variable(
        &mut self,
        number: u32,
        call: &mut Call<'_>,
    ) -> Result<xpath::Value, xpath::ErrorKind> {
        self.find(number, call.documents).map_err(|kind| {
            let what = kind.to_string().into();
            self.failed = Some(kind);
            xpath::ErrorKind::Host(what)
        })
    }

    fn call(
        &mut self,
        _number: u32,
        arguments: &mut Vec<xpath::Value>,
        call: &mut Call<'_>,
    ) -> Result<xpath::Value, xpath::ErrorKind> {
        let value = arguments.pop().unwrap_or_else(|| xpath::Value::text(""));
        let Some(nodes) = value.as_nodes() else {
            return Ok(xpath::Value::text(&*value.to_text(call.documents)));
        };
        let mut all = String::new();
        for node in nodes {
            let from = all.len();
            push_own_text(call.documents, *node, &mut all);
            call.budget.text(all.len() - from)?;
        }
        Ok(xpath::Value::text(all))
    }

    fn key(
        &mut self,
        number: u32,
        _value: &str,
        _doc: DocId,
        _call: &mut Call<'_>,
    ) -> Result<Rc<[Node]>, xpath::ErrorKind> {
        Err(xpath::ErrorKind::UnknownFunction(format!("key {number}").into()))
    }
}

/// Appends the text of a node. For an element this is the text directly in it, or its markup if that text is blank.
fn push_own_text(documents: &DocumentSet, node: Node, out: &mut String) {
    if documents.kind(node) != NodeKind::Element {
        out.push_str(&documents.string_value(node));
        return;
    }
    let document = documents.of(node);
    let texts = document.children(node.id).filter(|child| document.kind(*child) == Kind::Text);
    let own: String = texts.map(|child| document.value(child)).collect();
    if own.trim().is_empty() {
        out.push_str(&detached_markup(document, node.id));
    } else {
        out.push_str(&own);
    }
}

/// Converts the nodes of a value. Each of their documents is added to the set once.
fn node_set(nodes: &Nodes, documents: &DocumentSet) -> Result<xpath::Value, FailureKind> {
    let mut all = Vec::with_capacity(nodes.len());
    for group in nodes.groups() {
        let doc = document_in(documents, &group.document)?;
        all.extend(group.ids.iter().map(|id| Node::new(doc, *id)));
    }
    Ok(xpath::Value::nodes(all))
}

/// Converts the items of a value that is not a node, each to an element that contains the item's text.
fn item_set(
    value: &Value,
    documents: &DocumentSet,
    budget: &mut Budget,
) -> Result<xpath::Value, FailureKind> {
    let items = value.items();
    budget.results(items.len())?;
    let mut list = xml::Builder::new();
    let mut ids = Vec::with_capacity(items.len());
    let full = |_| FailureKind::Limit { name: "results_max", max: u32::MAX.into() };
    for item in &items {
        let text = item.text()?;
        budget.text(text.len())?;
        ids.push(list.start("", "item", "").map_err(full)?);
        list.text(&text).map_err(full)?;
        list.end().map_err(full)?;
    }
    let group = NodeGroup { document: Arc::new(list.finish()), ids };
    node_set(&Nodes::new(vec![group]), documents)
}

fn document_in(documents: &DocumentSet, document: &Arc<Document>) -> Result<DocId, FailureKind> {
    let known = (0..documents.len()).map(DocId);
    let known = known.into_iter().find(|id| Arc::ptr_eq(documents.shared(*id), document));
    match known {
        Some(id) => Ok(id),
        None => documents
            .add(document.clone())
            .map_err(|_| FailureKind::Limit { name: "documents", max: documents.len().into() }),
    }
}

/// Converts a result. A namespace node is not a part of a document: if it is the first node, the result is its text, and otherwise it is
/// left out.
fn taken(value: &xpath::Value, documents: &DocumentSet) -> Value {
    match value {
        xpath::Value::Boolean(yes) => Value::Boolean(*yes),
        xpath::Value::Number(number) => Value::Number(Number::of(*number)),
        xpath::Value::Text(text) => Value::Text((&**text).into()),
        xpath::Value::Tree(root) => Value::text_of(&*documents.string_value(*root)),
        xpath::Value::Nodes(nodes) => taken_nodes(nodes, documents),
    }
}

fn taken_nodes(nodes: &[Node], documents: &DocumentSet) -> Value {
    if let Some(first) = nodes.first().filter(|first| first.is_namespace()) {
        return Value::text_of(&*documents.string_value(*first));
    }
    let mut groups: Vec<NodeGroup> = Vec::new();
    let mut last = None;
    for node in nodes.iter().filter(|node| !node.is_namespace()) {
        if last != Some(node.doc) {
            let document = documents.shared(node.doc).clone();
            groups.push(NodeGroup { document, ids: Vec::new() });
            last = Some(node.doc);
        }
        if let Some(group) = groups.last_mut() {
            group.ids.push(node.id);
        }
    }
    Value::Nodes(Nodes::new(groups))
}

#[allow(clippy::wildcard_enum_match_arm, reason = "all other failures are treated alike")]
fn failure(error: xpath::Error, budget: &Budget) -> FailureKind {
    match error.kind {
        xpath::ErrorKind::Limit { name: "steps_max", .. } => budget.steps_over(),
        xpath::ErrorKind::Limit { name: "nodes_max", max } => {
            FailureKind::Limit { name: "results_max", max }
        }
        xpath::ErrorKind::Limit { name, max } => FailureKind::Limit { name, max },
        xpath::ErrorKind::Type(what) => FailureKind::Type(what),
        kind => FailureKind::Computation(kind.to_string().into()),
    }
}

#[allow(clippy::wildcard_enum_match_arm, reason = "all other errors are treated alike")]
fn translated(text: &str, error: xpath::Error, names: &dyn Names) -> Error {
    let kind = match error.kind {
        xpath::ErrorKind::Syntax(what) => ErrorKind::Syntax(what),
        xpath::ErrorKind::UndeclaredPrefix(prefix) => ErrorKind::UndeclaredPrefix(prefix),
        xpath::ErrorKind::UnknownVariable(name) => {
            let parts: Vec<&str> = name.split('.').collect();
            let shown = format!("${name}").into();
            match resolve(&parts, names) {
                Some((NameKind::Group(_), _)) => ErrorKind::Group(shown),
                Some((NameKind::Value(_), _)) | None => ErrorKind::UnknownName(shown),
            }
        }
        xpath::ErrorKind::Type(what) => ErrorKind::Type(what),
        xpath::ErrorKind::Regex(what) => ErrorKind::Regex(what),
        xpath::ErrorKind::Limit { name, max } => ErrorKind::Limit { name, max },
        kind @ (xpath::ErrorKind::UnknownFunction(_) | xpath::ErrorKind::Arity { .. }) => {
            ErrorKind::Function(kind.to_string().into())
        }
        kind => ErrorKind::Syntax(kind.to_string().into()),
    };
    kind.at(text, error.offset as usize)
}

//! Keys: an index of the nodes of each document by value, built on first use (XSLT 1.0, 12.2).

use std::collections::HashMap;
use std::rc::Rc;

use xml::NodeId;
use xpath::{DocId, ErrorKind, Evaluation, Focus, Node, Value};

use super::{Machine, Reach, dynamic};
use crate::error::Error;
use crate::program::Key;

/// Steps for an index entry, which takes a look-up and some memory. One step is the cost of visiting a node.
const ENTRY_STEPS: u64 = 4;

/// Number of bytes of a value per step. Its text is read, hashed and possibly stored.
const BYTES_PER_STEP: u64 = 32;

/// Index of a key in one document.
#[derive(Debug)]
pub(super) enum Index {
    /// Under construction. A request for it means that the key depends on itself.
    Busy,
    Done(HashMap<Rc<str>, Rc<[Node]>>),
}

impl Machine<'_> {
    /// Returns the nodes with this value for a key, in document order.
    pub(super) fn keyed(
        &mut self,
        number: u32,
        value: &str,
        doc: DocId,
        reach: &mut Reach<'_>,
    ) -> Result<Rc<[Node]>, Error> {
        let place = (number, doc);
        if !self.keys.contains_key(&place) {
            self.keys.insert(place, Index::Busy);
            let made = self.index(number, doc, reach);
            match made {
                Ok(index) => drop(self.keys.insert(place, Index::Done(index))),
                Err(error) => {
                    self.keys.remove(&place);
                    return Err(error);
                }
            }
        }
        match self.keys.get(&place) {
            Some(Index::Done(index)) => {
                Ok(index.get(value).cloned().unwrap_or_else(|| Rc::new([])))
            }
            Some(Index::Busy) | None => Err(dynamic("a key depends on itself")),
        }
    }

    fn index(
        &mut self,
        number: u32,
        doc: DocId,
        reach: &mut Reach<'_>,
    ) -> Result<HashMap<Rc<str>, Rc<[Node]>>, Error> {
        let program = self.given.program;
        let keys = program.keys.get(number as usize).map_or(&[][..], Vec::as_slice);
        let mut lists: HashMap<Rc<str>, Vec<Node>> = HashMap::new();
        let len = reach.documents.get().document(doc).len();
        for id in (0..len).map(NodeId) {
            let node = Node::new(doc, id);
            for key in keys {
                self.index_node(key, node, &mut lists, reach).map_err(|mut error| {
                    if error.at.line == 0 {
                        error.at = self.at(Some(key.place));
                    }
                    error
                })?;
            }
        }
        Ok(lists.into_iter().map(|(value, nodes)| (value, nodes.into())).collect())
    }

    fn index_node(
        &mut self,
        key: &Key,
        node: Node,
        lists: &mut HashMap<Rc<str>, Vec<Node>>,
        reach: &mut Reach<'_>,
    ) -> Result<(), Error> {
        if !self.matches(&key.matches, node, reach)? {
            return Ok(());
        }
        let focus = Focus::of(node);
        let documents = reach.documents.get();
        let value = {
            let mut evaluation =
                Evaluation { documents, focus, host: self, budget: &mut *reach.budget };
            key.value.value(&mut evaluation)
        };
        let value = value.map_err(|error| self.fault(error))?;
        let budget = &mut *reach.budget;
        let mut add = |text: &str| {
            budget.charge(ENTRY_STEPS + text.len() as u64 / BYTES_PER_STEP)?;
            let list = match lists.get_mut(text) {
                Some(list) => list,
                None => lists.entry(Rc::from(text)).or_default(),
            };
            // A node is entered only once, even if several of its values are equal.
            if list.last() != Some(&node) {
                list.push(node);
            }
            Ok(())
        };
        let added: Result<(), ErrorKind> = match &value {
            Value::Nodes(nodes) => nodes.iter().try_for_each(|n| add(&documents.string_value(*n))),
            Value::Boolean(_) | Value::Number(_) | Value::Text(_) | Value::Tree(_) => {
                add(&value.to_text(documents))
            }
        };
        added.map_err(|error| self.fault_kind(error))
    }
}

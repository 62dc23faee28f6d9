//! Validates an element of a tree with its subtree.

use kit::turns;
use xml::{Document, Kind, NodeId};

use super::ParseStop;
use super::run::Run;
use super::scope::{Bindings, Node};
use crate::schema::Schema;

/// Feeds an element and its subtree to a run.
pub(super) fn walk(
    schema: &Schema,
    run: &mut Run,
    document: &Document,
    element: NodeId,
) -> Result<(), ParseStop> {
    let mut bindings = Bindings::above(document, element);
    bindings.enter(document, element);
    run.start(schema, &Node { document, node: element, bindings: &bindings })?;
    let mut at = document.first_child(element);
    let mut parent = element;
    // Follows the links of the tree, so that depth needs no stack.
    loop {
        turns::count_part();
        match at {
            Some(node) => match document.kind(node) {
                Kind::Element => {
                    bindings.enter(document, node);
                    run.start(schema, &Node { document, node, bindings: &bindings })?;
                    parent = node;
                    at = document.first_child(node);
                    continue;
                }
                Kind::Text => {
                    let spot = Node { document, node, bindings: &bindings };
                    run.text(schema, document.value(node), &spot)?;
                    at = document.next_sibling(node);
                }
                Kind::Comment | Kind::Instruction | Kind::Document | Kind::Attribute => {
                    at = document.next_sibling(node);
                }
            },
            None => {
                let spot = Node { document, node: parent, bindings: &bindings };
                run.end(schema, document.name(parent), &spot)?;
                bindings.leave(document, parent);
                if parent == element {
                    return Ok(());
                }
                at = document.next_sibling(parent);
                let Some(outer) = document.parent(parent) else { return Ok(()) };
                parent = outer;
            }
        }
    }
}

//! Copies a tree without some of its texts, such as white space that a stylesheet strips.

use crate::tree::positions::Positions;
use crate::tree::{Declaration, Document, Kind, Node, NodeId};

impl Document {
    /// Returns a copy without these texts, which must be in document order. Ids of other kinds of nodes are ignored. Names keep their
    /// numbers; the remaining nodes get new ids in the same order.
    pub fn without(&self, texts: &[NodeId]) -> Document {
        // New id of each node. A dropped node maps to the id of the next one.
        let mut ids = Vec::with_capacity(self.nodes.len() + 1);
        let mut drops = texts.iter().peekable();
        let mut next = 0;
        let mut dropped = vec![false; self.nodes.len()];
        // Harmless: there is one mark for each node.
        for ((id, node), gone) in (0..).zip(&self.nodes).zip(&mut dropped) {
            ids.push(next);
            while drops.next_if(|at| at.0 < id).is_some() {}
            *gone = node.kind == Kind::Text && drops.next_if(|at| at.0 == id).is_some();
            next += u32::from(!*gone);
        }
        ids.push(next);
        let new = |id: u32| ids.get(id as usize).copied().unwrap_or(next);
        let is_dropped = |id: u32| dropped.get(id as usize).copied().unwrap_or(false);
        // Two texts are never adjacent, so the node before a dropped one stays.
        let previous = |id: u32, node: &Node| {
            if is_dropped(node.previous) {
                match self.nodes.get(node.previous as usize) {
                    Some(text) if text.previous != node.previous => new(text.previous),
                    Some(_) | None => new(id),
                }
            } else {
                new(node.previous)
            }
        };
        let kept = (0..).zip(&self.nodes).filter(|(id, _)| !is_dropped(*id));
        let nodes = kept.map(|(id, node)| Node {
            parent: new(node.parent),
            end: new(node.end),
            previous: previous(id, node),
            ..*node
        });
        let declarations = self.declarations.iter();
        let named = self.ids.iter().map(|(value, id)| (value.clone(), NodeId(new(id.0))));
        Document {
            nodes: nodes.collect(),
            text: self.text.clone(),
            names: self.names.clone(),
            declarations: declarations
                .map(|d| Declaration { element: new(d.element), ..*d })
                .collect(),
            ids: named.collect(),
            unparsed: self.unparsed.clone(),
            positions: match &self.positions {
                Positions::None => Positions::None,
                Positions::Source(source) => Positions::Source(source.without_copies()),
                Positions::Nodes(all) => {
                    let kept = (0..).zip(all).filter(|(id, _)| !is_dropped(*id));
                    Positions::Nodes(kept.map(|(_, place)| *place).collect())
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Document, Kind, Options};

    #[test]
    fn texts_are_left_out() {
        let source = b"<a> <b x='1'> </b> <c>t</c> \n </a>";
        let document = Document::parse(source, &Options::default()).unwrap();
        let all = (0..document.len()).map(crate::NodeId);
        let blank: Vec<_> = all
            .filter(|n| document.kind(*n) == Kind::Text && document.value(*n).trim().is_empty())
            .collect();
        let found = document.without(&blank);
        let a = found.root_element().unwrap();
        let [b, c] = found.children(a).collect::<Vec<_>>()[..] else { panic!() };
        assert_eq!((found.name(b).local, found.name(c).local), ("b", "c"));
        assert_eq!(found.attribute(b, "", "x"), Some("1"));
        assert_eq!((found.first_child(b), found.string_value(c).as_ref()), (None, "t"));
        assert_eq!((found.previous_sibling(c), found.previous_sibling(b)), (Some(b), None));
        assert_eq!((found.last_child(a), found.next_sibling(c)), (Some(c), None));
        assert_eq!(
            found.position(c),
            document.position(
                document.last_child(a).map(|n| document.previous_sibling(n).unwrap()).unwrap()
            )
        );
    }
}

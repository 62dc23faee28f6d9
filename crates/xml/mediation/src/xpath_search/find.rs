//! Finds the first nodes that plain paths select, while the message is parsed.
//!
//! Tracks how many open elements match each path, and compares the text found with the wanted text. A plain path has only steps down from
//! the root, which need nothing but what the parser reports of a node. The result is the same as with a tree.

use xml::{Here, Pool, QName, Recall, Sink, Start, TemplateCache, Transcript};
use xpath::{NodeKind, Selection, StreamNode, StreamStep};

use super::Case;

/// The paths, each with the string-value that its first node is compared with.
pub(super) struct Search {
    sought: Vec<SearchCondition>,
    known: Pool<TemplateCache<SearchState, SearchState, ()>>,
}

struct SearchCondition {
    path: Selection,
    equals: String,
}

/// The state of the search within one message.
#[derive(Debug, Clone, Default)]
pub(super) struct SearchState {
    /// Number of open elements.
    depth: usize,
    /// One position for each path.
    places: Vec<SearchPosition>,
}

#[derive(Debug, Clone, Copy, Default)]
struct SearchPosition {
    /// Number of steps of the path that the open elements match, counted from the root element.
    steps: usize,
    found: FirstNode,
}

/// What is known about the first node that the path selects.
#[derive(Debug, Clone, Copy, Default)]
enum FirstNode {
    #[default]
    Nothing,
    /// The node is open. `same` is the length of the matching prefix of the wanted text, or `None` if the text differs.
    Part { of: NodeKind, same: Option<usize> },
    /// The node is complete.
    Whole { same: bool },
}

impl Search {
    /// Returns the search, or `None` if some expression needs a tree.
    pub(super) fn of(cases: &[Case]) -> Option<Search> {
        let sought = cases.iter().map(|case| {
            let path = case.expression.selection()?;
            let plain = path.from_root && !path.below.is_empty() && path.attributes.is_empty();
            plain.then(|| SearchCondition { path, equals: case.equals.clone() })
        });
        Some(Search { sought: sought.collect::<Option<_>>()?, known: Pool::default() })
    }

    /// Returns the first case whose node has the wanted value.
    pub(super) fn first(
        &self,
        message: &[u8],
        transcript: Option<&mut Transcript>,
    ) -> Result<Option<usize>, xml::Error> {
        let mut reading = SearchSink { search: self, seen: SearchState::default() };
        reading.seen.places.resize(self.sought.len(), SearchPosition::default());
        let options = xml::Options::default();
        let replayed = transcript.and_then(|notes| notes.replay(message, &options, &mut reading));
        match replayed {
            Some(replayed) => replayed?,
            None => {
                // Harmless: without a cached template, an empty one is used.
                let mut known = self.known.take().unwrap_or_default();
                let parsed = known.parse(message, &options, &mut reading);
                self.known.give(known);
                parsed?;
            }
        }
        let is_same =
            |place: &SearchPosition| matches!(place.found, FirstNode::Whole { same: true });
        Ok(reading.seen.places.iter().position(is_same))
    }
}

impl SearchPosition {
    /// Handles the start of a node below `depth` open elements. If the node has a value, it is complete.
    fn node(&mut self, sought: &SearchCondition, depth: usize, told: &StreamNode<'_>) {
        let fits = |asked: &[StreamStep]| asked.iter().any(|asked| asked.accepts(told));
        if !matches!(self.found, FirstNode::Nothing)
            || self.steps != depth
            || !sought.path.below.get(depth).is_some_and(|asked| fits(asked))
        {
            return;
        }
        if told.kind == NodeKind::Element {
            self.steps += 1;
        }
        if depth + 1 == sought.path.below.len() {
            self.found = match told.value {
                Some(value) => FirstNode::Whole { same: value == sought.equals },
                None => FirstNode::Part { of: told.kind, same: Some(0) },
            };
        }
    }

    /// Handles further text of the open node.
    fn text(&mut self, sought: &SearchCondition, text: &str) {
        if let FirstNode::Part { same, .. } = &mut self.found {
            *same = same.and_then(|at| {
                let rest = sought.equals.get(at..)?;
                rest.starts_with(text).then(|| at + text.len())
            });
        }
    }

    /// Ends the open node, if it is of this kind.
    fn end(&mut self, sought: &SearchCondition, kind: NodeKind) {
        if let FirstNode::Part { of, same } = self.found
            && of == kind
        {
            self.found = FirstNode::Whole { same: same == Some(sought.equals.len()) };
        }
    }
}

struct SearchSink<'s> {
    search: &'s Search,
    seen: SearchState,
}

impl SearchSink<'_> {
    fn each(&mut self, mut tell: impl FnMut(&mut SearchPosition, &SearchCondition, usize)) {
        let SearchState { depth, places } = &mut self.seen;
        // Harmless: there is a position for each path.
        let all = self.search.sought.iter().zip(places);
        all.for_each(|(sought, place)| tell(place, sought, *depth));
    }

    /// Handles a node other than text, which ends any open text.
    fn node(&mut self, told: &StreamNode<'_>) {
        self.each(|place, sought, depth| {
            place.end(sought, NodeKind::Text);
            place.node(sought, depth, told);
        });
    }
}

impl Sink for SearchSink<'_> {
    type Error = xml::Error;

    fn start(&mut self, start: &Start<'_>, _: Here<'_>) -> Result<(), xml::Error> {
        let (kind, attributes) = (NodeKind::Element, Some(start.attributes));
        self.node(&StreamNode { kind, name: start.name, value: None, attributes });
        self.seen.depth += 1;
        Ok(())
    }

    fn text(&mut self, text: &str, _: bool, _: Here<'_>) -> Result<(), xml::Error> {
        let kind = NodeKind::Text;
        let told = StreamNode { kind, name: QName::NONE, value: None, attributes: None };
        self.each(|place, sought, depth| {
            place.node(sought, depth, &told);
            place.text(sought, text);
        });
        Ok(())
    }

    fn end(&mut self, _: QName<'_>, _: Here<'_>) -> Result<(), xml::Error> {
        self.seen.depth = self.seen.depth.saturating_sub(1);
        self.each(|place, sought, depth| {
            place.end(sought, NodeKind::Text);
            if place.steps > depth {
                place.steps = depth;
                place.end(sought, NodeKind::Element);
            }
        });
        Ok(())
    }

    fn comment(&mut self, text: &str, _: Here<'_>) -> Result<(), xml::Error> {
        let kind = NodeKind::Comment;
        self.node(&StreamNode { kind, name: QName::NONE, value: Some(text), attributes: None });
        Ok(())
    }

    fn instruction(&mut self, target: &str, data: &str, _: Here<'_>) -> Result<(), xml::Error> {
        let (kind, name) = (NodeKind::Instruction, QName { local: target, ..QName::NONE });
        self.node(&StreamNode { kind, name, value: Some(data), attributes: None });
        Ok(())
    }
}

impl Recall for SearchSink<'_> {
    type Memory = SearchState;
    type DocumentState = SearchState;
    type Gap = ();

    fn remember(&self) -> Option<SearchState> {
        Some(self.seen.clone())
    }

    fn resume(&mut self, seen: &SearchState) {
        self.seen.clone_from(seen);
    }

    fn gap(&self, _text: &str) -> Option<()> {
        let is_sought = |place: &SearchPosition| matches!(place.found, FirstNode::Part { .. });
        (!self.seen.places.iter().any(is_sought)).then_some(())
    }

    fn whole(&mut self) -> Option<SearchState> {
        Some(self.seen.clone())
    }

    fn fill<'t, T: Iterator<Item = (&'t (), &'t str)>>(
        &mut self,
        seen: &SearchState,
        _: T,
    ) -> bool {
        self.seen.clone_from(seen);
        true
    }
}

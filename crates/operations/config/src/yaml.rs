//! Parses YAML into a [`Node`] tree, within limits.
//!
//! Owns the limits on the memory that a file may use. It does not replace references or interpret values. An alias is expanded in place and
//! counts as if it had been written out, so an alias bomb reaches the same limits as a huge file. So do the values of a merge key (`<<`).

use std::borrow::Cow;
use std::collections::HashMap;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Tag};

use crate::node::{MapEntry, Node, Scalar, Value};
use crate::report::Report;
use crate::sources::At;

/// The maximum size of a file. 5,000 routes are about 2 MiB.
pub const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// The maximum depth of nesting, which only steps inside one another and JSON values can reach: some 20 steps, each with the lists and maps
/// around it. Reading a value recurses as deep as it is nested.
const DEPTH_MAX: usize = 64;
/// The maximum number of values and keys after aliases are expanded: about forty times what 5,000 routes need.
const NODES_MAX: usize = 2_000_000;
/// The maximum number of bytes of text after aliases are expanded. Many aliases of one long text need only few nodes.
pub(crate) const TEXT_BYTES_MAX: usize = 4 * 16 * 1024 * 1024;

/// Reads one file. Returns `None` if there is no usable tree. All problems are in the report either way.
pub(crate) fn read(text: &str, file: u32, report: &mut Report) -> Option<Node> {
    let mut tree = Tree {
        file,
        report,
        stack: Vec::new(),
        anchors: HashMap::new(),
        root: None,
        spent: Cost::default(),
        kept: Cost::default(),
    };
    let mut documents = 0;
    for event in Parser::new_from_str(text) {
        let (event, span) = match event {
            Ok(event) => event,
            Err(error) => {
                tree.bad_syntax(&error);
                return None;
            }
        };
        let at = place(file, span.start);
        if let Event::DocumentStart(_) = event {
            documents += 1;
            if documents == 2 {
                tree.report.error(
                    at,
                    "a second document starts here",
                    "write one document; remove the `---`, or make a folder with one file each",
                );
                return tree.root;
            }
        }
        if tree.take(event, at).is_err() {
            return None;
        }
    }
    if matches!(tree.root, None | Some(Node { value: Value::Null, .. })) {
        tree.report.error(
            At::file(file),
            "the file is empty",
            "write at least `listen: { public: { address: \"0.0.0.0:8080\" } }`",
        );
        return None;
    }
    tree.root
}

/// A limit was reached and reported, so parsing stops.
struct Stop;

/// The memory cost of a tree.
#[derive(Clone, Copy, Default)]
struct Cost {
    nodes: usize,
    text_bytes: usize,
    depth: usize,
}

/// A collection whose end has not been seen.
struct OpenCollection {
    at: At,
    anchor: usize,
    before: Cost,
    depth_below: usize,
    kind: OpenKind,
}

enum OpenKind {
    List(Vec<Node>),
    Map {
        entries: Vec<MapEntry>,
        seen: HashMap<String, At>,
        key: Option<(Key, At)>,
        merged: Vec<MapEntry>,
    },
}

/// A key of a map.
enum Key {
    Name(String),
    /// `<<`: the keys of the value are merged into the map.
    Merge,
    /// Not usable as a key, which was reported.
    Refused,
}

struct Tree<'r> {
    file: u32,
    report: &'r mut Report,
    stack: Vec<OpenCollection>,
    anchors: HashMap<usize, (Node, Cost)>,
    root: Option<Node>,
    /// The cost of the tree so far.
    spent: Cost,
    /// The cost of the copies kept for aliases; nested anchors keep the same text more than once.
    kept: Cost,
}

impl Cost {
    fn add(&mut self, other: Cost) {
        self.nodes = self.nodes.saturating_add(other.nodes);
        self.text_bytes = self.text_bytes.saturating_add(other.text_bytes);
    }
}

impl Tree<'_> {
    fn take(&mut self, event: Event<'_>, at: At) -> Result<(), Stop> {
        match event {
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd => Ok(()),
            Event::Alias(anchor) => self.alias(anchor, at),
            Event::Scalar(text, style, anchor, tag) => {
                self.scalar(text, style, anchor, tag.as_deref(), at)
            }
            Event::SequenceStart(anchor, tag) => {
                self.refuse_tag(tag.as_deref(), at);
                self.open(OpenKind::List(Vec::new()), anchor, at)
            }
            Event::MappingStart(anchor, tag) => {
                self.refuse_tag(tag.as_deref(), at);
                let (entries, merged) = (Vec::new(), Vec::new());
                let kind = OpenKind::Map { entries, seen: HashMap::new(), key: None, merged };
                self.open(kind, anchor, at)
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(),
        }
    }

    fn scalar(
        &mut self,
        text: Cow<'_, str>,
        style: ScalarStyle,
        anchor: usize,
        tag: Option<&Tag>,
        at: At,
    ) -> Result<(), Stop> {
        self.refuse_tag(tag, at);
        let quoted = style != ScalarStyle::Plain;
        let cost = Cost { nodes: 1, text_bytes: text.len(), depth: 0 };
        self.spend(cost, at)?;
        let value = match text.as_ref() {
            "" | "~" | "null" | "Null" | "NULL" if !quoted => Value::Null,
            _ => Value::Scalar(Scalar { text: text.into_owned(), quoted }),
        };
        let node = Node { at, owner: at, value };
        self.remember(anchor, &node, cost)?;
        self.place(node, 0);
        Ok(())
    }

    fn alias(&mut self, anchor: usize, at: At) -> Result<(), Stop> {
        // The parser refuses unknown anchors, so this one is still open and would contain itself.
        let Some((_, cost)) = self.anchors.get(&anchor) else {
            self.report.error(
                at,
                "this alias refers to a value that contains it",
                "write the value out",
            );
            return Err(Stop);
        };
        let cost = *cost;
        self.spend(cost, at)?;
        if self.stack.len() + cost.depth > DEPTH_MAX {
            return self.too_deep(at);
        }
        // Cloned only after the cost was accepted. Complaints refer to the text of the anchor, except those about the value as a whole,
        // which refer to the alias.
        if let Some((node, _)) = self.anchors.get(&anchor) {
            let node = Node { at, owner: at, value: node.value.clone() };
            self.place(node, cost.depth);
        }
        Ok(())
    }

    fn open(&mut self, kind: OpenKind, anchor: usize, at: At) -> Result<(), Stop> {
        let before = self.spent;
        self.spend(Cost { nodes: 1, ..Cost::default() }, at)?;
        if self.stack.len() >= DEPTH_MAX {
            return self.too_deep(at);
        }
        self.stack.push(OpenCollection { at, anchor, before, depth_below: 0, kind });
        Ok(())
    }

    fn close(&mut self) -> Result<(), Stop> {
        let Some(open) = self.stack.pop() else { return Ok(()) };
        let value = match open.kind {
            OpenKind::List(items) => Value::List(items),
            OpenKind::Map { mut entries, mut seen, merged, .. } => {
                // Keys that are written here take precedence over merged ones, and earlier merged ones over later ones.
                entries.extend(
                    merged
                        .into_iter()
                        .filter(|entry| seen.insert(entry.key.clone(), entry.key_at).is_none()),
                );
                Value::Map(entries)
            }
        };
        let depth = open.depth_below + 1;
        let cost = Cost {
            nodes: self.spent.nodes - open.before.nodes,
            text_bytes: self.spent.text_bytes - open.before.text_bytes,
            depth,
        };
        let node = Node { at: open.at, owner: open.at, value };
        self.remember(open.anchor, &node, cost)?;
        self.place(node, depth);
        Ok(())
    }

    fn remember(&mut self, anchor: usize, node: &Node, cost: Cost) -> Result<(), Stop> {
        // The parser numbers anchors from 1; 0 is not an anchor.
        if anchor == 0 {
            return Ok(());
        }
        self.kept.add(cost);
        self.check(self.kept, node.at)?;
        self.anchors.insert(anchor, (node.clone(), cost));
        Ok(())
    }

    /// Adds a finished value to the open collection, or makes it the root.
    fn place(&mut self, node: Node, depth: usize) {
        let Some(open) = self.stack.last_mut() else {
            self.root = Some(node);
            return;
        };
        open.depth_below = open.depth_below.max(depth);
        match &mut open.kind {
            OpenKind::List(items) => items.push(node),
            OpenKind::Map { entries, seen, key, merged } => match key.take() {
                None => *key = Some(accept_key(node, seen, self.report)),
                Some((Key::Name(name), key_at)) => {
                    let node = Node { owner: key_at, ..node };
                    entries.push(MapEntry { key: name, key_at, node });
                }
                Some((Key::Merge, _)) => take_over(node, merged, self.report),
                Some((Key::Refused, _)) => {}
            },
        }
    }

    fn spend(&mut self, cost: Cost, at: At) -> Result<(), Stop> {
        self.spent.add(cost);
        self.check(self.spent, at)
    }

    fn check(&mut self, cost: Cost, at: At) -> Result<(), Stop> {
        if cost.nodes <= NODES_MAX && cost.text_bytes <= TEXT_BYTES_MAX {
            return Ok(());
        }
        self.report.error(
            at,
            format!("the file is too large here: more than {NODES_MAX} values or {TEXT_BYTES_MAX} bytes of text with its aliases written out"),
            "use fewer aliases, or split the configuration into a folder of files",
        );
        Err(Stop)
    }

    fn too_deep(&mut self, at: At) -> Result<(), Stop> {
        let what = format!("nested deeper than {DEPTH_MAX} levels");
        self.report.error(
            at,
            what,
            "move inner steps into flows, and run those with `sequence`; write deep JSON as a text",
        );
        Err(Stop)
    }

    fn refuse_tag(&mut self, tag: Option<&Tag>, at: At) {
        if let Some(tag) = tag {
            self.report.error(
                at,
                format!("the tag `{tag}` has no meaning here"),
                "write the value without a tag",
            );
        }
    }

    fn bad_syntax(&mut self, error: &ScanError) {
        let at = place(self.file, *error.marker());
        let (what, help) = if error.info().contains("tab") {
            (
                "there is a tab where YAML allows only spaces".to_owned(),
                "indent with spaces; most editors can insert them for the tab key",
            )
        } else {
            (
                format!("this is not YAML: {}", error.info()),
                "check the indentation, colons and brackets here; write `\"${NAME}\"` in quotes inside `{ }` and `[ ]`",
            )
        };
        self.report.error(at, what, help);
    }
}

/// Collects the keys of the map after `<<`, or of each map of a list.
fn take_over(node: Node, merged: &mut Vec<MapEntry>, report: &mut Report) {
    let maps = match node.value {
        Value::List(items) => items,
        Value::Map(_) | Value::Null | Value::Unreadable | Value::Scalar(_) => vec![node],
    };
    for map in maps {
        match map.value {
            Value::Map(entries) => merged.extend(entries),
            Value::Null | Value::Unreadable | Value::Scalar(_) | Value::List(_) => report.error(
                map.at,
                format!("`<<` takes over the keys of a map, found {}", map.describe()),
                "name a map that has an anchor: `<<: *NAME`, or several: `<<: [*A, *B]`",
            ),
        }
    }
}

/// Returns the kind of a key. If it is refused, the reason has been reported.
fn accept_key(node: Node, seen: &mut HashMap<String, At>, report: &mut Report) -> (Key, At) {
    let at = node.at;
    let (name, quoted) = match node.value {
        Value::Scalar(scalar) => (scalar.text, scalar.quoted),
        Value::Null | Value::Unreadable | Value::List(_) | Value::Map(_) => {
            report.error(at, "a key must be text", "write a name before the colon");
            return (Key::Refused, at);
        }
    };
    if let Some(first) = seen.get(&name) {
        report.error(
            at,
            format!("the key `{name}` appears twice; the first is on line {}", first.line),
            "remove one of the two, or give it another name",
        );
        return (Key::Refused, at);
    }
    seen.insert(name.clone(), at);
    if name == "<<" && !quoted { (Key::Merge, at) } else { (Key::Name(name), at) }
}

fn place(file: u32, marker: Marker) -> At {
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    At { file, line: number(marker.line()), column: number(marker.col() + 1) }
}

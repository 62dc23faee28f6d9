//! Transcripts: the events of a document, recorded by the code that writes its bytes, so that the next reader need not parse them.
//!
//! Only plain documents have transcripts: a document with a reference, a comment or a CDATA section, or one that comes close to any limit
//! of a parser, has none and is parsed. Therefore a replay never fails by itself.

use std::cell::RefCell;

use crate::position_tracker::Tracker;
use crate::scope::{DeclareOutcome, NO_NAMESPACE, Spaces};
use crate::sink::{Attributes, Piece, RawAttribute, Scope, qname};
use crate::tag::wrong_declaration;
use crate::tag_cache::TagSlot;
use crate::window::Window;
use crate::{Here, Limits, Options, Sink, Start};

// Limits: a document that exceeds one of them has no transcript. Typical messages of services are far smaller. The limits bound the memory
// of transcripts that wait for their reader.
const BYTES_MAX: usize = 64 << 10;
const EVENTS_MAX: usize = 2048;
const ATTRIBUTES_MAX: usize = 256;
const DEPTH_MAX: usize = 64;
const NAMES_MAX: usize = 64;
const NAME_BYTES_MAX: usize = 256;

/// Maximum number of transcripts whose memory a thread keeps: those of one exchange, and one being written.
const KEPT_MAX: usize = 4;

/// The events of one UTF-8 document.
#[derive(Debug)]
pub struct Transcript {
    /// `Some` until the transcript is dropped.
    notes: Option<Box<Notes>>,
}

#[derive(Debug)]
struct Notes {
    events: Vec<RecordedEvent>,
    /// Declarations of all start tags: the numbers of prefix and namespace.
    declared: Vec<(u32, u32)>,
    attributes: Vec<RawAttribute>,
    spaces: Spaces,
    /// Indices of the start tags of the open elements.
    open: Vec<u32>,
    /// Whether the document contains something that cannot be recorded.
    broken: bool,
    /// Length of the document in bytes, or `None` until it is complete.
    bytes: Option<usize>,
}

#[derive(Debug, Clone, Copy)]
enum RecordedEvent {
    Start(RecordedStart),
    Text {
        from: u32,
        to: u32,
    },
    End {
        at: u32,
        /// Index of the event of the start tag.
        start: u32,
    },
}

#[derive(Debug, Clone, Copy)]
struct RecordedStart {
    at: u32,
    name_len: u16,
    prefix_len: u16,
    namespace: u32,
    /// Number of namespace declarations in the tag.
    declared: u16,
    /// Number of attributes in the tag.
    attributes: u16,
    empty: bool,
}

thread_local! {
    #[allow(clippy::vec_box, reason = "to reuse notes is then to move a pointer, not the notes")]
    static SPARE: RefCell<Vec<Box<Notes>>> = const { RefCell::new(Vec::new()) };
}

impl Default for Transcript {
    /// Returns an empty transcript, to be written.
    fn default() -> Transcript {
        // Harmless: a thread that is ending has no spare notes, so new ones are allocated.
        let spare = SPARE.try_with(|spare| spare.borrow_mut().pop()).ok().flatten();
        let notes = spare.unwrap_or_else(|| {
            Box::new(Notes {
                events: Vec::new(),
                declared: Vec::new(),
                attributes: Vec::new(),
                spaces: Spaces::new(),
                open: Vec::new(),
                broken: false,
                bytes: None,
            })
        });
        Transcript { notes: Some(notes) }
    }
}

impl Drop for Transcript {
    fn drop(&mut self) {
        let Some(mut notes) = self.notes.take() else { return };
        notes.clear();
        // Harmless: if the thread is ending, the memory is simply freed.
        let _ = SPARE.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            if spare.len() < KEPT_MAX {
                spare.push(notes);
            }
        });
    }
}

impl Transcript {
    /// Records a start tag at `at` with this name. Its declarations and attributes follow, then [`Transcript::started`].
    pub fn start(&mut self, at: usize, prefix: &str, local: &str) {
        let Some(notes) = self.writable() else { return };
        let colon = usize::from(!prefix.is_empty());
        let name_len = prefix.len() + colon + local.len();
        let is_root = notes.open.is_empty();
        let fits = notes.open.len() < DEPTH_MAX && name_len <= NAME_BYTES_MAX;
        if !fits || is_root != notes.events.is_empty() {
            notes.broken = true;
            return;
        }
        let Ok(index) = u32::try_from(notes.events.len()) else { return };
        notes.open.push(index);
        notes.note(RecordedEvent::Start(RecordedStart {
            at: small(at),
            name_len: short(name_len),
            prefix_len: short(prefix.len()),
            namespace: NO_NAMESPACE,
            declared: 0,
            attributes: 0,
            empty: false,
        }));
    }

    /// Records a declaration in the current start tag. `is_plain`: the namespace is written without escapes.
    pub fn declare(&mut self, prefix: &str, uri: &str, is_plain: bool) {
        let Some(notes) = self.writable() else { return };
        let Some(RecordedEvent::Start(start)) = notes.events.last_mut() else { return };
        let from = notes.spaces.len() - usize::from(start.declared);
        start.declared += 1;
        let is_fine = is_plain
            && wrong_declaration(prefix, uri).is_none()
            && notes.spaces.declare(from, prefix, uri) == DeclareOutcome::New
            && notes.spaces.names_len().max(notes.spaces.len()) <= NAMES_MAX;
        match notes.spaces.last().filter(|_| is_fine) {
            Some(numbers) => notes.declared.push(numbers),
            None => notes.broken = true,
        }
    }

    /// Records an attribute of the current start tag: the ranges of its name and its value. Attributes of a tag must be distinct.
    pub fn attribute(&mut self, name: (usize, usize), prefix_len: usize, value: (usize, usize)) {
        let Some(notes) = self.writable() else { return };
        let Some(RecordedEvent::Start(start)) = notes.events.last_mut() else { return };
        start.attributes += 1;
        if notes.attributes.len() >= ATTRIBUTES_MAX || name.1 - name.0 > NAME_BYTES_MAX {
            notes.broken = true;
            return;
        }
        let piece = |(from, to)| Piece { from, to, written: false };
        notes.attributes.push(RawAttribute {
            name: piece(name),
            prefix_len,
            value: piece(value),
            namespace: NO_NAMESPACE,
            defaulted: false,
            id: false,
        });
    }

    /// Ends the current start tag and resolves its prefixes in the bytes `written` so far.
    pub fn started(&mut self, written: &[u8]) {
        let Some(notes) = self.writable() else { return };
        let Some(RecordedEvent::Start(start)) = notes.events.last_mut() else { return };
        let prefix = |from: usize, len: usize| {
            let prefix = written.get(from..from + len)?;
            // Harmless: bytes that are not UTF-8 are not a prefix.
            std::str::from_utf8(prefix).ok()
        };
        let mut found = prefix(start.at as usize + 1, usize::from(start.prefix_len))
            .and_then(|prefix| notes.spaces.resolve(prefix));
        // Harmless: an unknown prefix makes the transcript unusable below.
        start.namespace = found.unwrap_or_default();
        let own = notes.attributes.len().saturating_sub(usize::from(start.attributes));
        let own = notes.attributes.get_mut(own..).unwrap_or(&mut []);
        for raw in own.iter_mut().filter(|raw| raw.prefix_len > 0) {
            let namespace = prefix(raw.name.from, raw.prefix_len)
                .and_then(|prefix| notes.spaces.resolve(prefix));
            // Harmless: an unknown prefix makes the transcript unusable below.
            raw.namespace = namespace.unwrap_or_default();
            found = found.and(namespace);
        }
        notes.broken |= found.is_none();
    }

    /// Records plain text within the root element, as a range of the document.
    pub fn text(&mut self, from: usize, to: usize) {
        let Some(notes) = self.writable() else { return };
        if notes.open.is_empty() {
            notes.broken = true;
            return;
        }
        notes.note(RecordedEvent::Text { from: small(from), to: small(to) });
    }

    /// Records an end tag at `at`. If `empty`, it is the end of the preceding empty-element tag.
    pub fn end(&mut self, at: usize, empty: bool) {
        let Some(notes) = self.writable() else { return };
        let Some(start) = notes.open.pop() else {
            notes.broken = true;
            return;
        };
        let mut at = small(at);
        if let Some(RecordedEvent::Start(tag)) = notes.events.get_mut(start as usize) {
            tag.empty = empty;
            if empty {
                at = tag.at;
            }
            // Harmless: the declarations of the element end with it.
            notes.spaces.truncate(notes.spaces.len() - usize::from(tag.declared));
        }
        notes.note(RecordedEvent::End { at, start });
    }

    /// Completes the transcript of a document of this many bytes. Returns `None` if the document has to be parsed instead.
    pub fn complete(mut self, bytes: usize) -> Option<Transcript> {
        let notes = self.writable()?;
        let is_whole = notes.open.is_empty() && !notes.events.is_empty() && bytes <= BYTES_MAX;
        notes.bytes = Some(bytes).filter(|_| is_whole);
        is_whole.then_some(self)
    }

    /// Sends the events to a sink, as parsing the same bytes would. Returns `None` if the document has to be parsed instead.
    pub fn replay<S: Sink>(
        &mut self,
        bytes: &[u8],
        options: &Options,
        sink: &mut S,
    ) -> Option<Result<(), S::Error>> {
        if !self.is_of(bytes) || !is_within(options) {
            return None;
        }
        let notes = self.notes.as_mut()?;
        let text = std::str::from_utf8(bytes).ok()?;
        Some(notes.replay(text, sink))
    }

    /// Returns whether this may be the transcript of these bytes. Compares only the length.
    pub fn is_of(&self, bytes: &[u8]) -> bool {
        self.notes.as_ref().is_some_and(|notes| notes.bytes == Some(bytes.len()))
    }

    #[inline]
    fn writable(&mut self) -> Option<&mut Notes> {
        self.notes.as_deref_mut().filter(|notes| !notes.broken)
    }
}

impl Notes {
    fn clear(&mut self) {
        self.events.clear();
        self.declared.clear();
        self.attributes.clear();
        if self.spaces.is_large() {
            self.spaces = Spaces::new()
        } else {
            self.spaces.clear()
        }
        self.open.clear();
        self.broken = false;
        self.bytes = None;
    }

    #[inline]
    fn note(&mut self, event: RecordedEvent) {
        if self.events.len() < EVENTS_MAX { self.events.push(event) } else { self.broken = true }
    }

    fn replay<S: Sink>(&mut self, text: &str, sink: &mut S) -> Result<(), S::Error> {
        let Notes { events, declared, attributes, spaces, .. } = self;
        // Harmless: an earlier replay may have been ended by its sink and left declarations.
        spaces.truncate(1);
        let source =
            Source { window: Window { text, last: true, origin: None }, tracker: Tracker::new() };
        let window = &source.window;
        let (mut declared, mut attributes) = (declared.iter(), attributes.as_slice());
        for event in &*events {
            match event {
                RecordedEvent::Text { from, to } => {
                    let text = window.get(*from as usize, *to as usize);
                    sink.text(text, false, source.here(*from, spaces))?;
                }
                RecordedEvent::Start(tag) => {
                    let from = spaces.len();
                    // Harmless: the remaining declarations belong to later elements.
                    for (prefix, uri) in declared.by_ref().take(tag.declared.into()) {
                        spaces.declare_known(*prefix, *uri);
                    }
                    let own = attributes.split_at_checked(tag.attributes.into());
                    let (raw, rest) = own.unwrap_or((attributes, &[]));
                    attributes = rest;
                    let spaces = &*spaces;
                    let start = Start {
                        name: qname(
                            tag.name(window),
                            tag.prefix_len.into(),
                            spaces.namespace(tag.namespace),
                        ),
                        attributes: Attributes { raw, window: text, written: "", spaces },
                        scope: Scope { spaces, from },
                        empty: tag.empty,
                        place: TagSlot::Nowhere,
                    };
                    sink.start(&start, source.here(tag.at, spaces))?;
                }
                RecordedEvent::End { at, start } => {
                    let Some(RecordedEvent::Start(tag)) = events.get(*start as usize) else {
                        continue;
                    };
                    let namespace = spaces.namespace(tag.namespace);
                    sink.end(
                        qname(tag.name(window), tag.prefix_len.into(), namespace),
                        source.here(*at, spaces),
                    )?;
                    // Harmless: the declarations of the element end with it.
                    spaces.truncate(spaces.len() - usize::from(tag.declared));
                }
            }
        }
        Ok(())
    }
}

/// The document of a transcript.
struct Source<'t> {
    window: Window<'t>,
    tracker: Tracker,
}

impl Source<'_> {
    fn here<'a>(&'a self, at: u32, spaces: &'a Spaces) -> Here<'a> {
        Here { tracker: &self.tracker, window: &self.window, at: at as usize, spaces }
    }
}

impl RecordedStart {
    #[inline]
    fn name<'a>(&self, window: &Window<'a>) -> &'a str {
        let from = self.at as usize + 1;
        window.get(from, from + usize::from(self.name_len))
    }
}

/// Returns whether all limits are so large that no document with a transcript can exceed them.
fn is_within(options: &Options) -> bool {
    let Limits {
        bytes_max,
        depth_max,
        attributes_max,
        name_bytes_max,
        attribute_bytes_max,
        token_bytes_max,
        tokens_max,
        namespaces_max,
        // A document with a transcript has no document type.
        expansion_bytes_max: _,
        entity_depth_max: _,
        declarations_max: _,
    } = options.limits;
    options.namespaces
        && bytes_max >= BYTES_MAX as u64
        && depth_max as usize >= DEPTH_MAX
        && attributes_max as usize >= ATTRIBUTES_MAX + NAMES_MAX
        && name_bytes_max as usize >= NAME_BYTES_MAX
        && attribute_bytes_max as usize >= BYTES_MAX
        && token_bytes_max as usize >= BYTES_MAX
        && tokens_max >= EVENTS_MAX as u64
        && namespaces_max as usize >= NAMES_MAX
}

/// Converts an offset. Documents too large for 32 bits have no transcript, so a clamped offset is never used.
fn small(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

/// Converts a length that has been checked.
fn short(len: usize) -> u16 {
    u16::try_from(len).unwrap_or(u16::MAX)
}

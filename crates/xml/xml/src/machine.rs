//! The state and the main loop of the tokenizer: the phase of the document, and the choice of the next token.
//!
//! Owns state that outlives a token: open elements, namespaces, and the counters for limits. The input is windows of text that contain only
//! allowed characters. The tokenizer returns how much of a window it has used. It never reads bytes and never keeps a window.

use std::hash::{BuildHasher, RandomState};

use kit::turns;

use crate::dtd::Dtd;
use crate::position_tracker::Tracker;
use crate::scope::Spaces;
use crate::sink::RawAttribute;
use crate::stop::{Halt, Run, Scan, Stop, bad, over};
use crate::tag_cache::{TagBytes, TagCache};
use crate::window::Window;
use crate::{Here, Options, Sink};

/// The part of a document the tokenizer is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Before the first character. An XML declaration may follow.
    Start,
    /// Before the root element.
    Prolog,
    /// Between the brackets of a document type declaration.
    Subset,
    Content,
    /// Within a CDATA section.
    Cdata,
    /// After the root element.
    Epilog,
}

/// An element whose end tag has not been read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OpenElement {
    /// Start of its name as written: an offset in the window, or in the kept names.
    pub(crate) name_from: usize,
    pub(crate) name_len: usize,
    pub(crate) prefix_len: usize,
    pub(crate) namespace: u32,
    /// Number of declarations in scope before those of the element.
    pub(crate) spaces_len: usize,
    /// The number of the enclosing scope.
    pub(crate) scope: u64,
    /// The end tag after `</`, if it is short and contains no white space.
    pub(crate) tag: TagBytes,
}

/// An open element that is read without events. It has no namespace declarations.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PassingElement {
    /// Start of its name in the window.
    pub(crate) name_from: usize,
    pub(crate) name_len: usize,
    pub(crate) prefix_len: usize,
    pub(crate) namespace: u32,
}

/// Result of reading the content of a window or of an entity.
pub(crate) enum ContentEnd {
    /// The whole window is used.
    Used(usize),
    /// Another phase begins here.
    Next(usize),
    /// A token is incomplete.
    Within(usize, &'static str),
}

/// The tokenizer.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) options: Options,
    pub(crate) phase: Phase,
    pub(crate) open: Vec<OpenElement>,
    /// Open elements that are read without events. Empty while events are sent.
    pub(crate) passing: Vec<PassingElement>,
    /// Names of the first `kept_len` open elements, whose windows are dropped.
    pub(crate) kept: String,
    pub(crate) kept_len: usize,
    pub(crate) spaces: Spaces,
    /// Number of the current scope. While it is the same, so are all namespaces in scope. Numbers are never reused, not even for another
    /// document.
    pub(crate) scope: u64,
    /// The last number given to a scope.
    pub(crate) scopes: u64,
    pub(crate) tag_cache: TagCache,
    /// Whether text in the document's own window needs no processing and ends at the next `<`.
    pub(crate) has_plain_text: bool,
    /// Attributes of the current tag.
    pub(crate) attributes: Vec<RawAttribute>,
    /// Values in the current tag that cannot be borrowed from the window.
    pub(crate) written: String,
    /// Hash table for tags with many attributes.
    pub(crate) places: Vec<u32>,
    pub(crate) tokens: u64,
    /// Number of tokens at which [`Machine::look_at_tokens`] is called next.
    pub(crate) look_at: u64,
    pub(crate) tracker: Tracker,
    /// Secret seed of hashes, so that an attacker cannot choose names that collide.
    pub(crate) seed: u64,
    /// Number of elements that were open before the current entity.
    pub(crate) floor: usize,
    pub(crate) dtd: Option<Box<Dtd>>,
    /// Whether the XML declaration says `standalone="yes"`.
    pub(crate) standalone: bool,
    /// Bytes added by entities and defaults.
    pub(crate) expanded: u64,
    /// Number of entities being read.
    pub(crate) entity_depth: u32,
}

/// State of the tokenizer between two tokens of content, without the text before it.
#[derive(Debug)]
pub(crate) struct PrefixState {
    pub(crate) open: Vec<OpenElement>,
    /// Names of the open elements, concatenated.
    pub(crate) names: String,
    pub(crate) spaces: Spaces,
    pub(crate) tracker: Tracker,
    pub(crate) tokens: u64,
    pub(crate) standalone: bool,
}

impl Machine {
    pub(crate) fn new(options: Options) -> Machine {
        Machine {
            look_at: first_look(&options),
            options,
            phase: Phase::Start,
            open: Vec::new(),
            passing: Vec::new(),
            kept: String::new(),
            kept_len: 0,
            spaces: Spaces::new(),
            scope: 0,
            scopes: 0,
            tag_cache: TagCache::new(),
            has_plain_text: false,
            attributes: Vec::new(),
            written: String::new(),
            places: Vec::new(),
            tokens: 0,
            tracker: Tracker::new(),
            seed: RandomState::new().hash_one(0u8),
            floor: 0,
            dtd: None,
            standalone: false,
            expanded: 0,
            entity_depth: 0,
        }
    }

    /// Resets the state for another document and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.phase = Phase::Start;
        self.open.clear();
        self.passing.clear();
        self.kept.clear();
        self.kept_len = 0;
        self.spaces.clear();
        self.begin_scope();
        self.tokens = 0;
        self.look_at = first_look(&self.options);
        self.tracker = Tracker::new();
        self.floor = 0;
        self.dtd = None;
        self.standalone = false;
        self.expanded = 0;
        self.entity_depth = 0;
    }

    /// Returns the state after the first `len` bytes of the window, to resume from in another document with the same prefix. Returns `None`
    /// unless that state is small.
    pub(crate) fn state(&self, window: &str, len: usize) -> Option<PrefixState> {
        let plain = self.phase == Phase::Content && self.open.len() == 2 && self.dtd.is_none();
        if !plain || self.kept_len > 0 {
            return None;
        }
        let (mut open, mut names) = (self.open.clone(), String::new());
        keep_names(&mut open, window, &mut names);
        let (spaces, mut tracker) = (self.spaces.clone(), self.tracker.clone());
        tracker.advance(window, len);
        let (tokens, standalone) = (self.tokens, self.standalone);
        Some(PrefixState { open, names, spaces, tracker, tokens, standalone })
    }

    /// Sets a fresh tokenizer to the state after a known prefix.
    pub(crate) fn restore(&mut self, state: &PrefixState) {
        self.phase = Phase::Content;
        self.open.clone_from(&state.open);
        self.kept.clone_from(&state.names);
        self.kept_len = self.open.len();
        self.spaces.restore(&state.spaces);
        // With the scope numbers of the other document, tags cached for that document would match.
        for at in 0..self.open.len() {
            self.begin_scope();
            if let Some(open) = self.open.get_mut(at) {
                open.scope = self.scope;
            }
        }
        self.begin_scope();
        self.tracker.clone_from(&state.tracker);
        self.tokens = state.tokens;
        self.standalone = state.standalone;
    }

    /// Starts a new scope with a new number.
    #[inline]
    pub(crate) fn begin_scope(&mut self) {
        self.scopes += 1;
        self.scope = self.scopes;
    }

    #[inline]
    pub(crate) fn here<'a>(&'a self, window: &'a Window<'a>, at: usize) -> Here<'a> {
        Here { tracker: &self.tracker, window, at, spaces: &self.spaces }
    }

    /// Reads as much of a window as possible. Returns how much is used, and the construct in which the window ends.
    pub(crate) fn run<S: Sink>(
        &mut self,
        window: &Window<'_>,
        from: usize,
        sink: &mut S,
    ) -> Run<(usize, Option<&'static str>), S::Error> {
        let rest = window.text.as_bytes().get(from..).unwrap_or_default();
        self.has_plain_text = memchr::memchr3(b'&', b']', b'\r', rest).is_none();
        let mut at = from;
        loop {
            let left = match self.phase {
                Phase::Start => self.begin(window),
                Phase::Prolog | Phase::Subset | Phase::Epilog => self.outside(window, at, sink),
                Phase::Content | Phase::Cdata => self.content(window, at, sink),
            };
            match left? {
                ContentEnd::Next(to) => at = to,
                ContentEnd::Used(to) => return Ok((to, self.unfinished())),
                ContentEnd::Within(to, what) => return Ok((to, Some(what))),
            }
        }
    }

    fn begin<E>(&mut self, window: &Window<'_>) -> Run<ContentEnd, E> {
        let cut = self.cut(window, 0);
        match self.declaration(cut.as_ref().unwrap_or(window)) {
            Err(Stop::More(what)) => Ok(self.incomplete(window, 0, what)?),
            other => Ok(ContentEnd::Next(other?)),
        }
    }

    /// Cuts the window at the maximum end of the token at `at`. The tokenizer never sees more, so that the limit on a token does not depend
    /// on how the document is split into chunks.
    #[inline]
    fn cut<'w>(&self, window: &Window<'w>, at: usize) -> Option<Window<'w>> {
        let max = self.options.limits.token_bytes_max as usize;
        if window.text.len().saturating_sub(at) > max { Some(window.cut(at + max)) } else { None }
    }

    /// Handles a token that continues after its window: either more input is needed, or the limit is exceeded.
    #[cold]
    fn incomplete(&self, window: &Window<'_>, at: usize, what: &'static str) -> Scan<ContentEnd> {
        let max = self.options.limits.token_bytes_max;
        if window.text.len().saturating_sub(at) > max as usize {
            Err(over(at, "token_bytes_max", max))
        } else {
            Ok(ContentEnd::Within(at, what))
        }
    }

    /// Returns the construct in which the document ends too early, if any. Called between tokens.
    fn unfinished(&self) -> Option<&'static str> {
        match self.phase {
            Phase::Start | Phase::Prolog => Some("the prolog: there is no root element"),
            Phase::Subset => Some("the internal subset"),
            Phase::Content => Some("an element that is not closed"),
            Phase::Cdata => Some("a CDATA section"),
            Phase::Epilog => None,
        }
    }

    /// Reads the parts before and after the root element.
    fn outside<S: Sink>(
        &mut self,
        window: &Window<'_>,
        from: usize,
        sink: &mut S,
    ) -> Run<ContentEnd, S::Error> {
        let mut at = from;
        loop {
            at = crate::chars::skip_space(window.text.as_bytes(), at);
            let cut = self.cut(window, at);
            let piece = cut.as_ref().unwrap_or(window);
            let read = match (window.byte(at), piece.byte(at + 1)) {
                (None, _) => return Ok(ContentEnd::Used(at)),
                (Some(_), _) if self.phase == Phase::Subset => self.subset_token(piece, at, sink),
                (Some(b'<'), None) => Err(Stop::More("markup").into()),
                (Some(b'<'), Some(b'?')) => self.instruction(piece, at, sink),
                (Some(b'<'), Some(b'!')) => self.outside_declaration(piece, at, sink),
                (Some(b'<'), Some(next)) if self.phase == Phase::Prolog && next != b'/' => {
                    self.phase = Phase::Content;
                    return Ok(ContentEnd::Next(at));
                }
                (Some(_), _) => return Err(self.stray(window, at).into()),
            };
            at = match read {
                Err(Halt::Stop(Stop::More(what))) => {
                    return Ok(self.incomplete(window, at, what)?);
                }
                other => other?,
            };
        }
    }

    fn outside_declaration<S: Sink>(
        &mut self,
        window: &Window<'_>,
        at: usize,
        sink: &mut S,
    ) -> Run<usize, S::Error> {
        if window.starts(at, "<!--", "markup")? {
            return self.comment(window, at, sink);
        }
        if self.phase == Phase::Prolog && window.starts(at, "<!DOCTYPE", "markup")? {
            return Ok(self.doctype(window, at)?);
        }
        Err(self.stray(window, at).into())
    }

    fn subset_token<S: Sink>(
        &mut self,
        window: &Window<'_>,
        at: usize,
        sink: &mut S,
    ) -> Run<usize, S::Error> {
        let (tokens, expanded) = (self.tokens, self.expanded);
        let declarations = self.dtd.as_ref().map_or(0, |dtd| dtd.declarations);
        let read = self.subset(window, at);
        if let Err(Stop::More(_)) = read {
            // The declaration is read again once more of it has arrived.
            self.tokens = tokens;
            self.expanded = expanded;
            if let Some(dtd) = &mut self.dtd {
                dtd.declarations = declarations;
            }
        }
        let to = read?;
        if self.phase == Phase::Prolog {
            self.tell_unparsed(sink).map_err(Halt::Sink)?;
        }
        Ok(to)
    }

    #[cold]
    fn stray(&self, window: &Window<'_>, at: usize) -> Stop {
        let place = if self.phase == Phase::Epilog {
            "after the root element"
        } else {
            "before the root element"
        };
        bad(at, format!("{} is not allowed {place}", window.found(at)))
    }

    /// Reads the content of the root element or of an entity. The window is cut to the limit on a token, however much of the document is
    /// available.
    pub(crate) fn content<S: Sink>(
        &mut self,
        window: &Window<'_>,
        from: usize,
        sink: &mut S,
    ) -> Run<ContentEnd, S::Error> {
        let mut at = from;
        loop {
            let cut = self.cut(window, at);
            let left = self.stretch(cut.as_ref().unwrap_or(window), at, sink)?;
            at = match (left, cut.is_some()) {
                (ContentEnd::Within(to, _) | ContentEnd::Used(to), true) if to > at => to,
                (ContentEnd::Used(to), true) => match self.characters(window, to, sink)? {
                    next if next > to => next,
                    _ if matches!(window.byte(to), Some(b'<' | b'&')) => {
                        return Ok(self.incomplete(window, to, "markup")?);
                    }
                    _ => return Ok(ContentEnd::Used(to)),
                },
                (ContentEnd::Within(to, what), _) => return Ok(self.incomplete(window, to, what)?),
                (left @ (ContentEnd::Used(_) | ContentEnd::Next(_)), _) => return Ok(left),
            };
        }
    }

    /// Reads character data longer than the limit on a token, which does not apply to character data.
    #[inline(never)]
    fn characters<S: Sink>(
        &mut self,
        window: &Window<'_>,
        at: usize,
        sink: &mut S,
    ) -> Run<usize, S::Error> {
        if self.phase == Phase::Cdata {
            self.cdata(window, at, sink)
        } else {
            self.text(window, at, sink)
        }
    }

    /// Reads content from a window that the caller has already cut.
    fn stretch<S: Sink>(
        &mut self,
        window: &Window<'_>,
        from: usize,
        sink: &mut S,
    ) -> Run<ContentEnd, S::Error> {
        let mut at = from;
        loop {
            if self.phase == Phase::Cdata {
                at = self.cdata(window, at, sink)?;
                if self.phase == Phase::Cdata {
                    return Ok(ContentEnd::Used(at));
                }
            }
            if window.origin.is_none() && !self.open.is_empty() {
                at = self.usual(window, at, sink)?;
                if self.open.is_empty() {
                    self.phase = Phase::Epilog;
                    return Ok(ContentEnd::Next(at));
                }
            }
            let first = match window.byte(at) {
                None => return Ok(ContentEnd::Used(at)),
                Some(first @ (b'<' | b'&')) => first,
                Some(_) => {
                    at = self.text(window, at, sink)?;
                    match window.byte(at) {
                        Some(first @ (b'<' | b'&')) => first,
                        // More input is needed to decide.
                        _ => return Ok(ContentEnd::Used(at)),
                    }
                }
            };
            let read = match (first, window.byte(at + 1)) {
                (b'&', _) => self.reference(window, at, sink),
                (_, Some(b'/')) => self.end_tag(window, at, sink),
                (_, Some(b'!')) => self.content_declaration(window, at, sink),
                (_, Some(b'?')) => self.instruction(window, at, sink),
                (_, Some(_)) => self.start_tag(window, at, sink),
                (_, None) => Err(Stop::More("markup").into()),
            };
            at = match read {
                Ok(to) => to,
                Err(Halt::Stop(Stop::More(what))) => return Ok(ContentEnd::Within(at, what)),
                Err(other) => return Err(other),
            };
            if self.open.is_empty() {
                self.phase = Phase::Epilog;
                return Ok(ContentEnd::Next(at));
            }
        }
    }

    fn content_declaration<S: Sink>(
        &mut self,
        window: &Window<'_>,
        at: usize,
        sink: &mut S,
    ) -> Run<usize, S::Error> {
        if window.starts(at, "<!--", "markup")? {
            return self.comment(window, at, sink);
        }
        if window.starts(at, "<![CDATA[", "markup")? {
            self.token(at)?;
            self.phase = Phase::Cdata;
            return Ok(at + "<![CDATA[".len());
        }
        Err(bad(at, "only a comment or a CDATA section may begin with `<!` here").into())
    }

    /// Copies the names of open elements out of the window before it is dropped.
    pub(crate) fn forget(&mut self, window: &str) {
        let inner = self.open.get_mut(self.kept_len..).unwrap_or(&mut []);
        keep_names(inner, window, &mut self.kept);
        self.kept_len = self.open.len();
    }
}

/// Returns the number of tokens at which [`Machine::look_at_tokens`] is first called in a document.
fn first_look(options: &Options) -> u64 {
    options.limits.tokens_max.min(turns::PARTS.into())
}

/// Copies names of open elements from their window to the kept ones.
fn keep_names(open: &mut [OpenElement], window: &str, kept: &mut String) {
    for open in open {
        let name = window.get(open.name_from..open.name_from + open.name_len);
        open.name_from = kept.len();
        kept.push_str(name.unwrap_or(""));
    }
}

impl Machine {
    /// Frees text buffers larger than `bytes_max`, and the namespaces of an unusually large document.
    pub(crate) fn shrink(&mut self, bytes_max: usize) {
        for text in [&mut self.kept, &mut self.written] {
            if text.capacity() > bytes_max {
                *text = String::new();
            }
        }
        if self.spaces.is_large() {
            self.spaces = Spaces::new();
        }
    }
}

//! Fast path for content: plain text, start tags that are in the tag cache, and their end tags.
//!
//! Everything else is left to the rest of the tokenizer, which could read this content too and would send the same events.

use crate::Sink;
use crate::chars::{plain_text_end, short_name, short_text_end};
use crate::machine::{Machine, OpenElement, PassingElement};
use crate::scope::NO_NAMESPACE;
use crate::sink::{Passed, ShortEvent, qname};
use crate::stop::{Halt, Run, Scan};
use crate::tag::StartTag;
use crate::tag_cache::{CachedTag, TagBytes, TagSlot};
use crate::window::Window;

/// Placeholder for the namespace of an unprefixed name that nothing has needed yet.
const UNRESOLVED: u32 = u32::MAX;

impl Machine {
    /// Reads the most common content: text without references, start tags in the tag cache, and short end tags. Returns the offset of
    /// anything else, or the offset after the root element. The window must be of the document itself, and an element must be open.
    #[inline(always)]
    pub(crate) fn usual<S: Sink>(
        &mut self,
        window: &Window<'_>,
        from: usize,
        sink: &mut S,
    ) -> Run<usize, S::Error> {
        let bytes = window.text.as_bytes();
        let mut at = from;
        loop {
            if let Some(passed) = sink.passed() {
                at = self.pass(window, at, passed)?;
            }
            if bytes.get(at) != Some(&b'<') {
                let end = self.text_run_end(bytes, at);
                if end <= at || end >= bytes.len() {
                    return Ok(at);
                }
                self.plain_text(window, at, end, sink)?;
                at = end;
            }
            if bytes.get(at + 1) == Some(&b'/') {
                let open = match self.open.last() {
                    Some(open) if open.tag.stands_at(bytes, at + 2) => *open,
                    Some(_) | None => return Ok(at),
                };
                self.end_element(window, at, &open, sink)?;
                at += 3 + open.name_len;
                if self.open.is_empty() {
                    return Ok(at);
                }
            } else {
                let Some((met, place)) = self.tag_cache.find(bytes, at + 1, self.scope) else {
                    return Ok(at);
                };
                at = self.start_again(window, at, &met, place, sink)?;
            }
        }
    }

    /// Returns the offset of the `<` after plain text, or `at` if the text may need processing.
    #[inline(always)]
    fn text_run_end(&self, bytes: &[u8], at: usize) -> usize {
        if self.has_plain_text { plain_text_end(bytes, at) } else { short_text_end(bytes, at) }
    }

    /// Sends text that needs no processing.
    #[inline(always)]
    fn plain_text<S: Sink>(
        &self,
        window: &Window<'_>,
        at: usize,
        end: usize,
        sink: &mut S,
    ) -> Run<(), S::Error> {
        let taken = match sink.quick(ShortEvent::Text(end - at), self.tracker.utf8_offset(at)) {
            Some(taken) => taken,
            None => sink.text(window.get(at, end), false, self.here(window, at)),
        };
        taken.map_err(Halt::Sink)
    }

    /// Reads a start tag that is in the tag cache for this scope.
    #[inline(always)]
    fn start_again<S: Sink>(
        &mut self,
        window: &Window<'_>,
        at: usize,
        met: &CachedTag,
        place: usize,
        sink: &mut S,
    ) -> Run<usize, S::Error> {
        self.count_start(at)?;
        let CachedTag { tag, prefix_len, namespace, .. } = *met;
        let (spaces_len, name_len) = (self.spaces.len(), tag.name_len());
        let to = at + name_len + 2;
        match sink.quick(ShortEvent::Start(place), self.tracker.utf8_offset(at)) {
            Some(taken) => taken.map_err(Halt::Sink)?,
            None => {
                self.attributes.clear();
                let place = TagSlot::Known(place);
                let read =
                    StartTag { name_len, prefix_len, namespace, tag, place, empty: false, to };
                let start = self.start(window, at, &read, spaces_len);
                sink.start(&start, self.here(window, at)).map_err(Halt::Sink)?;
            }
        }
        let (name_from, scope) = (at + 1, self.scope);
        self.open.push(OpenElement {
            name_from,
            name_len,
            prefix_len,
            namespace,
            spaces_len,
            scope,
            tag,
        });
        Ok(to)
    }

    /// Ends the innermost open element, after its end tag was read.
    #[inline(always)]
    pub(crate) fn end_element<S: Sink>(
        &mut self,
        window: &Window<'_>,
        at: usize,
        open: &OpenElement,
        sink: &mut S,
    ) -> Run<(), S::Error> {
        self.token(at)?;
        let quick = match window.origin {
            None => sink.quick(ShortEvent::End, self.tracker.utf8_offset(at)),
            Some(_) => None,
        };
        let ended = match quick {
            Some(ended) => ended,
            None => {
                let name = window.get(at + 2, at + 2 + open.name_len);
                let name = qname(name, open.prefix_len, self.spaces.namespace(open.namespace));
                sink.end(name, self.here(window, at))
            }
        };
        ended.map_err(Halt::Sink)?;
        if self.scope != open.scope {
            // Harmless: the declarations of the element end with it.
            self.spaces.truncate(open.spaces_len);
            self.scope = open.scope;
        }
        self.open.pop();
        if self.kept_len > self.open.len() {
            self.kept_len = self.open.len();
            // Harmless: the name of a closed element is not needed any more.
            self.kept.truncate(open.name_from);
        }
        Ok(())
    }

    /// Reads the content of the innermost open element for a sink that needs no events for it. Only checks that each end tag matches its
    /// start tag. Returns the offset of the first token that is not common content, or of the end tag of that element.
    fn pass(&mut self, window: &Window<'_>, from: usize, passed: &mut Passed) -> Scan<usize> {
        let bytes = window.text.as_bytes();
        let (mut at, mut is_bare) = (from, false);
        loop {
            if bytes.get(at) != Some(&b'<') {
                let end = self.text_run_end(bytes, at);
                if end <= at || end >= bytes.len() {
                    break;
                }
                at = end;
            }
            if bytes.get(at + 1) == Some(&b'/') {
                let Some(open) = self.passing.last() else { break };
                let (name_from, len) = (open.name_from, open.name_len + 1);
                if !TagBytes::same(bytes, name_from, at + 2, len) {
                    break;
                }
                self.token(at)?;
                self.passing.pop();
                at += 2 + len;
            } else {
                let Some(start) = self.passing_start(bytes, at + 1) else { break };
                self.count_start(at)?;
                is_bare |= start.prefix_len == 0;
                self.passing.push(start);
                at += start.name_len + 2;
            }
        }
        passed.is_any |= at > from;
        passed.is_bare |= is_bare;
        passed.open += self.passing.len();
        self.keep_passing(bytes);
        Ok(at)
    }

    /// Reads a start tag without attributes whose name has only a few letters or is in the tag cache for this scope.
    #[inline(always)]
    fn passing_start(&self, bytes: &[u8], from: usize) -> Option<PassingElement> {
        let word = bytes.get(from..)?.first_chunk()?;
        if let Some(name_len) = short_name(u64::from_le_bytes(*word))
            && self.dtd.is_none()
            && name_len <= self.options.limits.name_bytes_max as usize
        {
            return Some(PassingElement {
                name_from: from,
                name_len,
                prefix_len: 0,
                namespace: UNRESOLVED,
            });
        }
        let (met, _) = self.tag_cache.find(bytes, from, self.scope)?;
        Some(PassingElement {
            name_from: from,
            name_len: met.tag.name_len(),
            prefix_len: met.prefix_len,
            namespace: met.namespace,
        })
    }

    /// Moves the elements that are still open to `open`.
    fn keep_passing(&mut self, bytes: &[u8]) {
        let bare =
            if self.options.namespaces { self.spaces.default_namespace() } else { NO_NAMESPACE };
        let (spaces_len, scope) = (self.spaces.len(), self.scope);
        self.open.extend(self.passing.drain(..).map(|passing| {
            let PassingElement { name_from, name_len, prefix_len, .. } = passing;
            let namespace = if prefix_len == 0 { bare } else { passing.namespace };
            let tag = TagBytes::of_name(bytes, name_from, name_len);
            OpenElement { name_from, name_len, prefix_len, namespace, spaces_len, scope, tag }
        }));
    }
}

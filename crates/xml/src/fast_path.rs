//! Fast path of content: text as it stands, start tags that are in the cache, and their end tags, in the fewest steps.
//!
//! Whatever is not that is left to the rest of the tokenizer, which reads all of it and makes the same events.

use crate::Sink;
use crate::chars::{plain_text_end, short_text_end};
use crate::machine::{Halt, Machine, OpenElement, Run, Window};
use crate::sink::{ShortEvent, qname};
use crate::tag::StartTag;
use crate::tag_cache::{CachedTag, TagSlot};

impl Machine {
    /// Reads what most content consists of: text without references, start tags that were met, and end tags as short. Returns
    /// where something else stands, or the root element has ended. The window is of the document itself, and an element is open.
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
            if bytes.get(at) != Some(&b'<') {
                let end = match self.has_plain_text {
                    true => plain_text_end(bytes, at),
                    false => short_text_end(bytes, at),
                };
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
                let Some((met, place)) = self.met.find(bytes, at + 1, self.scope) else {
                    return Ok(at);
                };
                at = self.start_again(window, at, &met, place, sink)?;
            }
        }
    }

    /// Sends text that stands in the document as it is meant.
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

    /// Reads a tag that was met in this scope.
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

    /// Ends the innermost open element, whose end tag was read.
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
            self.spaces.truncate(open.spaces_len);
            self.scope = open.scope;
        }
        self.open.pop();
        if self.kept_len > self.open.len() {
            self.kept_len = self.open.len();
            self.kept.truncate(open.name_from);
        }
        Ok(())
    }
}

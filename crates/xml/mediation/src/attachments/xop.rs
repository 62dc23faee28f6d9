//! Inclusions of XOP (XML-binary Optimized Packaging 1.0): elements that refer to an attachment.

use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use xml::{Doctype, Here, Options, QName, Sink, Start};

use super::IncludeError;
use crate::multipart::Part;

/// The namespace of XOP.
const XOP: &str = "http://www.w3.org/2004/08/xop/include";

/// Inlines the attachments that a root includes, and returns whether every attachment is included.
pub(super) fn included(
    root: &Bytes,
    whole: &[u8],
    parts: &[&Part],
    bytes_max: usize,
) -> Result<(Bytes, bool), IncludeError> {
    let malformed = |what: &str| IncludeError::Malformed(what.to_owned());
    let text = std::str::from_utf8(root)
        .map_err(|_| malformed("the root part of an XOP message is not in UTF-8"))?;
    let mut finder = Finder { text, open: None, found: Vec::new() };
    let options = Options { doctype: Doctype::Refuse, ..Options::default() };
    if xml::parse(root, &options, &mut finder).is_err() {
        // Harmless: the step that parses the root refuses it and gives the reason.
        return Ok((root.clone(), true));
    }
    let mut used = vec![false; parts.len()];
    let mut out = Vec::with_capacity(whole.len().min(bytes_max));
    let mut from = 0;
    for Inclusion { range, href } in finder.found {
        let id =
            href.strip_prefix("cid:").ok_or_else(|| malformed("an inclusion is not a `cid:`"))?;
        let id = kit::percent::decoded(id.as_bytes(), false);
        let is_named = |(part, _): &(&&Part, &mut bool)| {
            part.line(whole, "content-id").is_some_and(|own| unbracketed(&own) == &*id)
        };
        // Harmless: there is a flag for each part.
        let mut all = parts.iter().zip(&mut used);
        let (part, used) = all
            .find(is_named)
            .ok_or_else(|| malformed("an inclusion names a part that does not exist"))?;
        let content = part.content(whole).map_err(malformed)?;
        let before = root.get(from..range.start).unwrap_or_default();
        if out.len() + before.len() + content.len() / 3 * 4 + 4 > bytes_max {
            return Err(IncludeError::TooLarge);
        }
        out.extend_from_slice(before);
        out.extend_from_slice(STANDARD.encode(&content).as_bytes());
        from = range.end;
        *used = true;
    }
    let all = used.iter().all(|used| *used);
    if from == 0 {
        return Ok((root.clone(), all));
    }
    out.extend_from_slice(root.get(from..).unwrap_or_default());
    if out.len() > bytes_max { Err(IncludeError::TooLarge) } else { Ok((out.into(), all)) }
}

fn unbracketed(id: &[u8]) -> &[u8] {
    id.strip_prefix(b"<").and_then(|id| id.strip_suffix(b">")).unwrap_or(id)
}

struct Inclusion {
    range: Range<usize>,
    href: String,
}

struct Finder<'t> {
    text: &'t str,
    /// The open inclusion: its offset, its `href`, and the number of open elements inside it.
    open: Option<(usize, String, usize)>,
    found: Vec<Inclusion>,
}

impl Finder<'_> {
    /// Returns the end of the tag that begins at an offset.
    fn tag_end(&self, at: usize) -> usize {
        let mut quote = None;
        for (index, byte) in self.text.as_bytes().iter().enumerate().skip(at) {
            match (quote, byte) {
                (None, b'"' | b'\'') => quote = Some(*byte),
                (None, b'>') => return index + 1,
                (Some(open), byte) if open == *byte => quote = None,
                // Harmless: any other byte is part of the tag.
                _ => {}
            }
        }
        self.text.len()
    }
}

impl Sink for Finder<'_> {
    type Error = xml::Error;

    fn start(&mut self, start: &Start<'_>, here: Here<'_>) -> Result<(), xml::Error> {
        if let Some((_, _, inside)) = &mut self.open {
            *inside += 1;
            return Ok(());
        }
        if (start.name.namespace.uri, start.name.local) == (XOP, "Include") {
            let at = usize::try_from(here.offset()).unwrap_or(usize::MAX);
            let href = start.attributes.get("", "href").map(|href| href.value.trim().to_owned());
            // Harmless: no part has an empty name.
            self.open = Some((at, href.unwrap_or_default(), 0));
        }
        Ok(())
    }

    fn text(&mut self, _: &str, _: bool, _: Here<'_>) -> Result<(), xml::Error> {
        Ok(())
    }

    fn end(&mut self, _: QName<'_>, here: Here<'_>) -> Result<(), xml::Error> {
        match &mut self.open {
            None => {}
            Some((_, _, inside)) if *inside > 0 => *inside -= 1,
            Some(_) => {
                if let Some((at, href, _)) = self.open.take() {
                    // An empty element ends at the tag that starts it.
                    let end = usize::try_from(here.offset()).unwrap_or(usize::MAX);
                    self.found.push(Inclusion { range: at..self.tag_end(end), href });
                }
            }
        }
        Ok(())
    }
}

//! Inclusions of XOP (XML-binary Optimized Packaging 1.0): elements that refer to an attachment.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use xml::{Doctype, Here, Options, QName, Sink, Start};

use super::IncludeError;
use crate::multipart::{MultipartError, Part};

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
    let mut attachments = Attachments::new(parts, whole);
    let mut out = Vec::with_capacity(whole.len().min(bytes_max));
    let mut from = 0;
    for Inclusion { range, href } in finder.found {
        let id =
            href.strip_prefix("cid:").ok_or_else(|| malformed("an inclusion is not a `cid:`"))?;
        let id = kit::percent::decoded(id.as_bytes(), false);
        let content = attachments.content(&id).map_err(malformed)?;
        let before = root.get(from..range.start).unwrap_or_default();
        if out.len() + before.len() + content.len() / 3 * 4 + 4 > bytes_max {
            return Err(IncludeError::TooLarge);
        }
        out.extend_from_slice(before);
        out.extend_from_slice(STANDARD.encode(content).as_bytes());
        from = range.end;
    }
    let all = attachments.all_used();
    if from == 0 {
        return Ok((root.clone(), all));
    }
    out.extend_from_slice(root.get(from..).unwrap_or_default());
    if out.len() > bytes_max { Err(IncludeError::TooLarge) } else { Ok((out.into(), all)) }
}

/// The attachments by Content-ID. Each is searched for its lines and decoded once, because a root may include one as often as it likes.
struct Attachments<'m> {
    whole: &'m [u8],
    /// The first part with each Content-ID.
    by_id: HashMap<Vec<u8>, usize>,
    parts: Vec<(&'m Part, Option<Cow<'m, [u8]>>)>,
}

impl<'m> Attachments<'m> {
    fn new(parts: &[&'m Part], whole: &'m [u8]) -> Attachments<'m> {
        let mut by_id = HashMap::with_capacity(parts.len());
        for (index, part) in parts.iter().enumerate() {
            if let Some(id) = part.line(whole, "content-id") {
                by_id.entry(unbracketed(&id).to_vec()).or_insert(index);
            }
        }
        let parts = parts.iter().map(|part| (*part, None)).collect();
        Attachments { whole, by_id, parts }
    }

    fn content(&mut self, id: &[u8]) -> Result<&[u8], MultipartError> {
        let index = self.by_id.get(id);
        let entry = index.and_then(|index| self.parts.get_mut(*index));
        let (part, content) = entry.ok_or("an inclusion names a part that does not exist")?;
        match content {
            Some(content) => Ok(content),
            None => Ok(content.insert(part.content(self.whole)?)),
        }
    }

    fn all_used(&self) -> bool {
        self.parts.iter().all(|(_, content)| content.is_some())
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attachments::Root;

    const TYPE: &[u8] = b"multipart/related; type=\"application/xop+xml\"; boundary=b";

    /// Returns the root with its inclusions, and whether every attachment is included.
    fn inlined(
        root: &str,
        parts: &[String],
        bytes_max: usize,
    ) -> Result<(String, bool), IncludeError> {
        let mut message = format!("--b\r\nContent-Type: application/xop+xml\r\n\r\n{root}");
        for part in parts {
            message.push_str(&format!("\r\n--b\r\n{part}"));
        }
        let whole = Bytes::from(message + "\r\n--b--");
        let read = Root::of(TYPE, &whole).unwrap().unwrap();
        let (bytes, all) = read.with_included(&whole, bytes_max)?;
        Ok((String::from_utf8(bytes.to_vec()).unwrap(), all))
    }

    fn include(id: &str) -> String {
        format!(r#"<Include xmlns="{XOP}" href="cid:{id}"/>"#)
    }

    #[test]
    fn inclusions_become_base64() {
        let parts = [
            "Content-ID: <1@x>\r\n\r\none".to_owned(),
            "Content-ID: <2@x>\r\nContent-Transfer-Encoding: base64\r\n\r\ndHdv".to_owned(),
            "Content-ID: <1@x>\r\n\r\nanother".to_owned(),
        ];
        for (ids, expected) in [
            (&["1@x"][..], Ok((r"<a>b25l</a>", false))),
            (&["2%40x", "1@x", "2@x"], Ok((r"<a>dHdvb25ldHdv</a>", false))),
            (&["3@x"], Err("an inclusion names a part that does not exist")),
        ] {
            let root: String = ids.iter().map(|id| include(id)).collect();
            let expected = expected
                .map(|(text, all)| (text.to_owned(), all))
                .map_err(|why| IncludeError::Malformed(why.to_owned()));
            assert_eq!(inlined(&format!("<a>{root}</a>"), &parts, 1_000), expected, "{ids:?}");
        }
        let root = format!("<a>{}{}</a>", include("1@x"), include("2@x"));
        let expected = ("<a>b25ldHdv</a>".to_owned(), true);
        assert_eq!(inlined(&root, &parts[..2], 1_000), Ok(expected));
        assert_eq!(inlined(&root, &parts[..2], 14), Err(IncludeError::TooLarge));
    }

    /// A search or decoding for each inclusion would read more than 100 GB here.
    #[test]
    fn the_cost_of_an_inclusion_does_not_grow_with_the_parts() {
        let line = "x".repeat(10_000);
        let soft = "=\r\n".repeat(1_000_000);
        let mut parts: Vec<String> = (0..500)
            .map(|number| format!("A: {line}\r\nContent-ID: <{number}@x>\r\n\r\n"))
            .collect();
        parts.push(format!(
            "Content-ID: <soft@x>\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n{soft}x"
        ));
        let root = include("499@x").repeat(20_000) + &include("soft@x").repeat(20_000);
        let (text, all) = inlined(&format!("<a>{root}</a>"), &parts, 100_000_000).unwrap();
        assert_eq!((text.len(), all), ("<a></a>".len() + 20_000 * "eA==".len(), false));
    }
}

//! Edits the fields of a form of several parts (`multipart/form-data`, RFC 7578). Parts that are not edited are copied byte for byte.

use std::borrow::Cow;

use mediation::form;
use mediation::multipart::{Multipart, MultipartError, Part};
use policy::Template;

use super::query::{Edit, QueryEdits};

/// A part of the form after the edits.
struct Field<'f> {
    /// The original part, or `None` for a new field.
    part: Option<&'f Part>,
    name: Cow<'f, str>,
    /// The header lines, each with its line end.
    head: Cow<'f, [u8]>,
    body: Cow<'f, [u8]>,
}

impl QueryEdits {
    /// Returns a form of several parts after the edits, or `None` if nothing changes. `fill` fills in the placeholders of a value.
    pub(super) fn of_parts(
        &self,
        content_type: &[u8],
        message: &[u8],
        fill: impl Fn(&Template) -> Vec<u8>,
    ) -> Result<Option<Vec<u8>>, MultipartError> {
        let read = Multipart::read(content_type, message)?;
        let mut fields = Vec::new();
        for part in read.parts() {
            let (name, _) = form::name_of(part, message)?;
            // Harmless: the positions of a part are inside the message.
            let head = message.get(part.head.clone()).unwrap_or_default();
            // Harmless: the positions of a part are inside the message.
            let body = message.get(part.body.clone()).unwrap_or_default();
            let part = Some(part);
            fields.push(Field { part, name: name.into(), head: head.into(), body: body.into() });
        }
        let mut changed = false;
        for (old, new) in &self.rename {
            if !fields.iter().any(|field| field.name == *old) {
                continue;
            }
            changed = true;
            fields.retain(|field| field.name != *new);
            for field in fields.iter_mut().filter(|field| field.name == *old) {
                let Some(part) = field.part else { continue };
                let (_, disposition) = form::name_of(part, message)?;
                let disposition = form::disposition(new, &disposition);
                field.head = part.head_with(message, "content-disposition", &disposition).into();
                field.name = new.into();
            }
        }
        let before = fields.len();
        fields.retain(|field| !self.remove.iter().any(|name| field.name == *name));
        changed |= fields.len() != before;
        for (edit, (name, value)) in self.values() {
            let is_there = fields.iter().any(|field| field.name == *name);
            let applies = match edit {
                Edit::Replace => is_there,
                Edit::Default => !is_there,
                Edit::Set | Edit::Add => true,
            };
            if !applies {
                continue;
            }
            changed = true;
            if matches!(edit, Edit::Replace | Edit::Set) {
                fields.retain(|field| field.name != *name);
            }
            let body = fill(value);
            if read.is_cut_by(&body) {
                return Err("a new value contains the boundary of the form");
            }
            let disposition = form::disposition(name, b"");
            let head = [b"Content-Disposition: ", &*disposition, b"\r\n"].concat();
            let part = None;
            fields.push(Field { part, name: name.into(), head: head.into(), body: body.into() });
        }
        Ok(changed.then(|| written(&fields, read.delimiter(), message.len())))
    }
}

fn written(fields: &[Field<'_>], delimiter: &[u8], len: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(len);
    for field in fields {
        let parts: [&[u8]; 6] = [delimiter, b"\r\n", &field.head, b"\r\n", &field.body, b"\r\n"];
        parts.iter().for_each(|part| out.extend_from_slice(part));
    }
    out.extend_from_slice(delimiter);
    out.extend_from_slice(b"--\r\n");
    out
}

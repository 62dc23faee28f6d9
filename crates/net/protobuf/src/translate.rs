//! Translates requests and replies of one service.

use std::sync::Arc;

use crate::bindings::{Binding, Bindings, BodyField, Match, NoMatch};
use crate::error::{Error, TranslationError};
use crate::from_json::{self, Writer};
use crate::parameters;
use crate::scalar;
use crate::schema::{Field, MessageType, Schema, WellKnown};
use crate::to_json::{self, JsonStyle};
use crate::wire::{Raw, WireError, each, push_bytes};

/// The length of a message's prefix in a body of gRPC: a byte for compression, and four for the message's length.
pub const PREFIX_BYTES: usize = 5;

/// The offered methods of a descriptor set, and how their messages are written.
#[derive(Debug)]
pub struct Transcoder {
    pub schema: Arc<Schema>,
    pub bindings: Bindings,
    pub style: JsonStyle,
    /// The names of query parameters that set no field.
    pub ignored: Vec<Box<str>>,
    /// The maximum size of an output.
    pub bytes_max: usize,
}

/// The parts of a request besides its method.
#[derive(Debug, Clone, Copy)]
pub struct RequestParts<'r> {
    /// The text after the question mark.
    pub query: &'r [u8],
    pub content_type: &'r [u8],
    pub body: &'r [u8],
}

/// A status as JSON (`google.rpc.Status`).
#[derive(Debug, Clone, Copy)]
pub struct StatusParts<'r> {
    pub code: i32,
    /// The value of `grpc-message`, without its escapes.
    pub message: &'r str,
    /// The decoded value of `grpc-status-details-bin`.
    pub details: Option<&'r [u8]>,
}

/// A body of any content type (`google.api.HttpBody`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpBody<'m> {
    pub content_type: &'m str,
    pub data: &'m [u8],
}

impl Transcoder {
    /// Finds the method that a request calls.
    pub fn find(&self, method: &[u8], path: &[u8]) -> Result<Match, NoMatch> {
        self.bindings.find(method, path)
    }

    pub fn binding(&self, found: &Match) -> Option<&Binding> {
        self.bindings.all().get(found.binding)
    }

    /// Returns the body of the call: its messages, each with its prefix.
    pub fn request(
        &self,
        found: &Match,
        parts: &RequestParts<'_>,
    ) -> Result<Vec<u8>, TranslationError> {
        Ok(self.messages(found, parts)?)
    }

    fn messages(&self, found: &Match, parts: &RequestParts<'_>) -> Result<Vec<u8>, Error> {
        let Some(binding) = self.binding(found) else { return Err(Error::wrong("no such method")) };
        if binding.takes_any_body(&self.schema) {
            let mut out = vec![0; PREFIX_BYTES];
            self.raw_body(binding, parts, &mut out)?;
            self.set_parameters(binding, found, parts, &mut out)?;
            close_frame(0, &mut out)?;
            return Ok(out);
        }
        let text =
            std::str::from_utf8(parts.body).map_err(|_| Error::wrong("the body is not UTF-8"))?;
        if text.trim_ascii().is_empty() {
            if binding.is_client_streaming {
                return Ok(Vec::new());
            }
            let mut out = vec![0; PREFIX_BYTES];
            self.set_parameters(binding, found, parts, &mut out)?;
            close_frame(0, &mut out)?;
            return Ok(out);
        }
        let tape = from_json::tape(text)?;
        let mut writer = Writer::new(&self.schema, text, &tape, self.bytes_max);
        if !binding.is_client_streaming {
            self.one_message(&mut writer, binding, 0, Some((found, parts)))?;
        } else {
            let mut is_first = true;
            writer.items(0, |writer, at| {
                let set = std::mem::take(&mut is_first).then_some((found, parts));
                self.one_message(writer, binding, at, set)
            })?;
        }
        let out = writer.out;
        if out.len() > self.bytes_max { Err(Error::TooLarge) } else { Ok(out) }
    }

    /// Appends a message with its prefix. Path and query are added to the first one.
    fn one_message(
        &self,
        writer: &mut Writer<'_, '_>,
        binding: &Binding,
        at: usize,
        set: Option<(&Match, &RequestParts<'_>)>,
    ) -> Result<(), Error> {
        let from = writer.out.len();
        writer.out.extend_from_slice(&[0; PREFIX_BYTES]);
        match self.body_field(binding) {
            None => writer.message(binding.input, at)?,
            Some(field) => writer.field(field, at).map_err(|why| why.within(&field.name))?,
        }
        if let Some((found, parts)) = set {
            self.set_parameters(binding, found, parts, &mut writer.out)?;
        }
        close_frame(from, &mut writer.out)
    }

    /// Returns the field that the body contains, if it does not contain the whole message.
    fn body_field(&self, binding: &Binding) -> Option<&Field> {
        match binding.body {
            BodyField::None | BodyField::Whole => None,
            BodyField::Field(at) => self.schema.message(binding.input)?.fields.get(at),
        }
    }

    /// Appends a `google.api.HttpBody` with the body as it is.
    fn raw_body(
        &self,
        binding: &Binding,
        parts: &RequestParts<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let content_type = std::str::from_utf8(parts.content_type)
            .map_err(|_| Error::wrong("the content type is not UTF-8"))?;
        let mut body = Vec::with_capacity(parts.body.len() + content_type.len() + 16);
        push_bytes(1, content_type.as_bytes(), &mut body);
        push_bytes(2, parts.body, &mut body);
        match self.body_field(binding) {
            None => out.append(&mut body),
            Some(field) => push_bytes(field.number, &body, out),
        }
        Ok(())
    }

    fn set_parameters(
        &self,
        binding: &Binding,
        found: &Match,
        parts: &RequestParts<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let schema = &*self.schema;
        // Harmless: a match has a value for each variable.
        for (path, value) in binding.variables().zip(&found.values) {
            parameters::push_variable(schema, binding.input, path, value, out)?;
        }
        if parts.query.is_empty() {
            return Ok(());
        }
        let body = match binding.body {
            BodyField::Field(at) => Some(parameters::own_field(at)),
            BodyField::None | BodyField::Whole => None,
        };
        let bound: Vec<_> = binding.variables().chain(&body).collect();
        parameters::push_query(schema, binding.input, parts.query, &bound, &self.ignored, out)
    }

    /// Returns a message of the reply as JSON.
    pub fn reply(&self, binding: &Binding, message: &[u8]) -> Result<String, TranslationError> {
        let mut writer = to_json::Writer::new(&self.schema, self.style, self.bytes_max);
        let written = match binding.response_body {
            None => writer.whole(binding.output, message),
            Some(field) => writer.field_of(binding.output, field, message),
        };
        written?;
        Ok(writer.out)
    }

    /// Returns the body that a reply contains, if its type is `google.api.HttpBody`.
    pub fn http_body<'m>(&self, binding: &Binding, message: &'m [u8]) -> Option<HttpBody<'m>> {
        let output = self.schema.message(binding.output)?;
        let field = match binding.response_body {
            None => None,
            Some(at) => Some(output.fields.get(at).filter(|field| field.is_single())?),
        };
        let of = match field {
            None => output,
            Some(field) => self.schema.message_of(field)?,
        };
        if !is_http_body(of) {
            return None;
        }
        let bytes = match field {
            None => message,
            // Harmless: a reply that is not a message is refused when it is written as JSON.
            Some(field) => last_bytes(message, field.number).ok()?,
        };
        // Harmless: a body without a type has no content type.
        let content_type = last_bytes(bytes, 1).ok().and_then(|of| std::str::from_utf8(of).ok());
        // Harmless: a body without data is empty.
        let data = last_bytes(bytes, 2).unwrap_or_default();
        // Harmless: a body without a type has no content type.
        Some(HttpBody { content_type: content_type.unwrap_or_default(), data })
    }

    /// Returns a status as JSON. Details that cannot be read are left out.
    pub fn status(&self, parts: &StatusParts<'_>) -> String {
        let mut out = format!("{{\"code\":{},\"message\":", parts.code);
        json::push_string(&mut out, parts.message);
        let details = parts.details.and_then(|status| self.details(status));
        if let Some(details) = details {
            out.push_str(",\"details\":[");
            out.push_str(&details);
            out.push(']');
        } else {
            out.push_str(",\"details\":[]");
        }
        out.push('}');
        out
    }

    /// Returns the items of a status's list of details.
    fn details(&self, status: &[u8]) -> Option<String> {
        let mut made = String::new();
        let read = each(status, |number, raw| {
            let (3, Raw::Bytes(any)) = (number, raw) else { return Ok(()) };
            let url = std::str::from_utf8(last_bytes(any, 1)?).map_err(|_| WireError)?;
            let value = last_bytes(any, 2)?;
            let mut writer = to_json::Writer::new(&self.schema, self.style, self.bytes_max);
            if writer.any_of(url, value).is_err() {
                // The bytes are more use than nothing.
                writer.out = String::from("{\"@type\":");
                json::push_string(&mut writer.out, url);
                writer.out.push_str(",\"value\":");
                scalar::push_base64(value, &mut writer.out);
                writer.out.push('}');
            }
            if !made.is_empty() {
                made.push(',');
            }
            made.push_str(&writer.out);
            Ok(())
        });
        // Harmless: the status itself is in header lines.
        read.ok().map(|()| made)
    }
}

fn is_http_body(message: &MessageType) -> bool {
    message.known == WellKnown::HttpBody
}

/// Returns the last bytes of a field, or none.
fn last_bytes(message: &[u8], number: u32) -> Result<&[u8], WireError> {
    let mut last = &[][..];
    each(message, |known, raw| {
        match raw {
            Raw::Bytes(bytes) if known == number => last = bytes,
            // Harmless: other fields are not wanted.
            _ => {}
        }
        Ok(())
    })?;
    Ok(last)
}

/// Writes the prefix of a message that begins at `from`, where five bytes are reserved for it.
fn close_frame(from: usize, out: &mut [u8]) -> Result<(), Error> {
    let len = out.len().saturating_sub(from + PREFIX_BYTES);
    let len = u32::try_from(len).map_err(|_| Error::TooLarge)?;
    let prefix = std::iter::once(0).chain(len.to_be_bytes());
    // Harmless: both have five bytes.
    for (place, byte) in out.iter_mut().skip(from).zip(prefix) {
        *place = byte;
    }
    Ok(())
}

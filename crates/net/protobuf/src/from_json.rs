//! Writes a message from JSON, by the JSON mapping of Protocol Buffers.
//!
//! The text is read as a tape, whose depth is bounded; the writer recurses as deep. Names are refused if the type has no such field, or if
//! a field appears twice.

use std::borrow::Cow;
use std::collections::HashSet;

use json::{Kind, Limits, Tape, TapeEntry};
use kit::turns;

use crate::error::Error;
use crate::output_limit::OutputLimit;
use crate::scalar::{self, JsonScalar};
use crate::schema::{Cardinality, Field, FieldKind, MessageType, Schema, WellKnown};
use crate::well_known;
use crate::wire::{self, WireType, close_length, open_length, push_bytes, push_tag, push_varint};

/// The limits on a text. Each value takes 20 bytes, and a text of the default size fits.
pub(crate) const LIMITS: Limits = Limits { depth_max: wire::DEPTH_MAX, entries_max: 4_000_000 };

/// Writes messages from one text.
pub(crate) struct Writer<'s, 't> {
    schema: &'s Schema,
    text: &'t str,
    tape: &'t [TapeEntry],
    pub(crate) out: Vec<u8>,
    limit: OutputLimit,
}

/// The fields and oneofs of a message that were set.
struct SetFields {
    small: u128,
    large: HashSet<usize>,
}

/// Parses a text.
pub(crate) fn tape(text: &str) -> Result<Tape, Error> {
    Tape::read(text, &LIMITS).map_err(|why| {
        if why.what.contains("no memory") {
            return Error::NoRoom;
        }
        Error::wrong(format!("the JSON is not valid: at byte {}, expected {}", why.at, why.what))
    })
}

impl<'s, 't> Writer<'s, 't> {
    pub(crate) fn new(
        schema: &'s Schema,
        text: &'t str,
        tape: &'t Tape,
        bytes_max: usize,
    ) -> Writer<'s, 't> {
        let tape = tape.entries();
        Writer { schema, text, tape, out: Vec::new(), limit: OutputLimit::new(bytes_max) }
    }

    fn entry(&self, at: usize) -> Result<TapeEntry, Error> {
        self.tape.get(at).copied().ok_or_else(|| Error::wrong("a value is missing"))
    }

    /// Returns the text of an entry. Escapes of a string are decoded.
    fn string(&self, entry: &TapeEntry) -> Cow<'t, str> {
        let inner = self.text.get(entry.from as usize..entry.to as usize).unwrap_or_default();
        match entry.kind {
            Kind::Escaped => Cow::Owned(json::unescaped(inner)),
            _ => Cow::Borrowed(inner),
        }
    }

    /// Calls `each` with the name and the index of the value of each member.
    fn members(
        &mut self,
        at: usize,
        mut each: impl FnMut(&mut Self, Cow<'t, str>, usize) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let object = self.entry(at)?;
        if object.kind != Kind::Object {
            return Err(Error::wrong("it is not an object"));
        }
        let mut name_at = at + 1;
        for _ in 0..object.count {
            let name = self.string(&self.entry(name_at)?);
            let value = self.entry(name_at + 1)?;
            self.limit.spend(self.out.len())?;
            each(self, name, name_at + 1)?;
            name_at = value.next as usize;
        }
        Ok(())
    }

    /// Calls `each` with the index of each item.
    pub(crate) fn items(
        &mut self,
        at: usize,
        mut each: impl FnMut(&mut Self, usize) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let array = self.entry(at)?;
        if array.kind != Kind::Array {
            return Err(Error::wrong("it is not an array"));
        }
        let mut item_at = at + 1;
        for index in 0..array.count as usize {
            let item = self.entry(item_at)?;
            self.limit.spend(self.out.len())?;
            each(self, item_at).map_err(|why| why.within_index(index))?;
            item_at = item.next as usize;
        }
        Ok(())
    }

    /// Appends the fields of a message.
    pub(crate) fn message(&mut self, of: usize, at: usize) -> Result<(), Error> {
        let schema = self.schema;
        let Some(message) = schema.message(of) else { return Err(Error::wrong("no such type")) };
        match message.known {
            WellKnown::None | WellKnown::HttpBody => self.fields(message, at, None),
            WellKnown::Wrapper => match message.fields.first() {
                Some(field) => self.single(field, at),
                None => Ok(()),
            },
            WellKnown::Timestamp | WellKnown::Duration | WellKnown::FieldMask => {
                let text = self.text_at(at)?;
                push_text(message.known, &text, &mut self.out)
            }
            WellKnown::Struct => self.structure(at),
            WellKnown::Value => self.any_value(at),
            WellKnown::ListValue => {
                self.items(at, |writer, at| writer.delimited(1, at, Self::any_value))
            }
            WellKnown::Any => self.any(at),
        }
    }

    fn text_at(&self, at: usize) -> Result<Cow<'t, str>, Error> {
        let entry = self.entry(at)?;
        match entry.kind {
            Kind::Plain | Kind::Escaped => Ok(self.string(&entry)),
            _ => Err(Error::wrong("it is not a string")),
        }
    }

    /// Appends the fields of a message that is an object. `but` is the name of a member to leave out.
    fn fields(&mut self, message: &MessageType, at: usize, but: Option<&str>) -> Result<(), Error> {
        let mut seen = SetFields { small: 0, large: HashSet::new() };
        self.members(at, |writer, name, at| {
            if but == Some(&*name) {
                return Ok(());
            }
            let Some((index, field)) = message.field_named(&name) else {
                return Err(Error::wrong("the message has no such field").within(&name));
            };
            if !seen.insert(index) {
                return Err(Error::wrong("the field appears twice").within(&name));
            }
            let is_null = writer.entry(at)?.kind == Kind::Null;
            if is_null && !writer.takes_null(field) {
                return Ok(());
            }
            if let Some(oneof) = field.oneof
                && !seen.insert(message.fields.len() + oneof)
            {
                let what = "another field of the same oneof is set";
                return Err(Error::wrong(what).within(&name));
            }
            writer.field(field, at).map_err(|why| why.within(&name))
        })
    }

    /// Returns true if `null` is a value of the field, and not its absence.
    fn takes_null(&self, field: &Field) -> bool {
        if !field.is_single() {
            return false;
        }
        self.has_null(field)
    }

    fn has_null(&self, field: &Field) -> bool {
        self.is_null_enum(field.kind)
            || self.schema.message_of(field).is_some_and(|of| of.known == WellKnown::Value)
    }

    /// Appends a field with all its values.
    pub(crate) fn field(&mut self, field: &Field, at: usize) -> Result<(), Error> {
        match field.cardinality {
            Cardinality::Single { .. } => self.single(field, at),
            Cardinality::Map => self.map(field, at),
            Cardinality::Repeated { packed: true } => self.packed(field, at),
            Cardinality::Repeated { packed: false } => self.items(at, |writer, at| {
                if writer.entry(at)?.kind == Kind::Null && !writer.has_null(field) {
                    return Err(Error::wrong("an item is null"));
                }
                writer.one(field, at, true)
            }),
        }
    }

    fn single(&mut self, field: &Field, at: usize) -> Result<(), Error> {
        let keeps_default = !matches!(field.cardinality, Cardinality::Single { presence: false });
        self.one(field, at, keeps_default)
    }

    /// Appends one value of a field, with its tag. A default value is left out if it is the same as no value.
    pub(crate) fn one(
        &mut self,
        field: &Field,
        at: usize,
        keeps_default: bool,
    ) -> Result<(), Error> {
        match field.kind {
            FieldKind::Message(of) => {
                self.delimited(field.number, at, |writer, at| writer.message(of, at))
            }
            FieldKind::Group(of) => {
                push_tag(field.number, WireType::GroupBegin, &mut self.out);
                self.message(of, at)?;
                push_tag(field.number, WireType::GroupEnd, &mut self.out);
                Ok(())
            }
            kind => {
                let value = self.scalar(kind, at)?;
                if keeps_default || !value.is_default() {
                    push_tag(field.number, value.wire_type(), &mut self.out);
                    value.push(&mut self.out);
                }
                Ok(())
            }
        }
    }

    /// Appends a tag, and what `write` appends with its length.
    fn delimited(
        &mut self,
        number: u32,
        at: usize,
        write: impl FnOnce(&mut Self, usize) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let entry = self.entry(at)?;
        push_tag(number, WireType::Bytes, &mut self.out);
        let open = open_length((entry.to - entry.from) as usize, &mut self.out);
        write(self, at)?;
        close_length(open, &mut self.out);
        Ok(())
    }

    fn scalar(&self, kind: FieldKind, at: usize) -> Result<scalar::Scalar<'t>, Error> {
        let entry = self.entry(at)?;
        let value = match entry.kind {
            Kind::Plain | Kind::Escaped => JsonScalar::String(self.string(&entry)),
            Kind::Null if self.is_null_enum(kind) => JsonScalar::Literal("0"),
            Kind::Null => return Err(Error::wrong("it is null")),
            Kind::True => JsonScalar::Literal("true"),
            Kind::False => JsonScalar::Literal("false"),
            Kind::Number => {
                let range = entry.from as usize..entry.to as usize;
                // Harmless: the range of an entry is within the text.
                JsonScalar::Literal(self.text.get(range).unwrap_or_default())
            }
            Kind::Object => return Err(Error::wrong("it is an object")),
            Kind::Array => return Err(Error::wrong("it is an array")),
        };
        scalar::read(self.schema, kind, value).map_err(Error::wrong)
    }

    fn is_null_enum(&self, kind: FieldKind) -> bool {
        match kind {
            FieldKind::Enum(index) => self.schema.enums.get(index).is_some_and(|one| one.is_null),
            _ => false,
        }
    }

    fn packed(&mut self, field: &Field, at: usize) -> Result<(), Error> {
        let array = self.entry(at)?;
        if array.kind == Kind::Array && array.count == 0 {
            return Ok(());
        }
        self.delimited(field.number, at, |writer, at| {
            writer.items(at, |writer, at| {
                let value = writer.scalar(field.kind, at)?;
                value.push(&mut writer.out);
                Ok(())
            })
        })
    }

    fn map(&mut self, field: &Field, at: usize) -> Result<(), Error> {
        let entry_type = self.schema.message_of(field);
        let fields =
            entry_type.and_then(|of| Some((of.field_numbered(1)?.1, of.field_numbered(2)?.1)));
        let Some((key, value)) = fields else { return Err(Error::wrong("no such type")) };
        let mut known = HashSet::new();
        self.members(at, |writer, name, at| {
            if writer.entry(at)?.kind == Kind::Null && !writer.has_null(value) {
                return Err(Error::wrong("a value is null").within(&name));
            }
            let made = writer.map_entry(field.number, key, value, &name, at);
            made.map_err(|why| why.within(&name))?;
            if known.insert(name.clone()) {
                Ok(())
            } else {
                Err(Error::wrong("the key appears twice").within(&name))
            }
        })
    }

    fn map_entry(
        &mut self,
        number: u32,
        key: &Field,
        value: &Field,
        name: &str,
        at: usize,
    ) -> Result<(), Error> {
        // Keys are always strings in JSON.
        let written = match (key.kind, name) {
            (FieldKind::Bool, "true" | "false") => JsonScalar::Literal(name),
            _ => JsonScalar::String(Cow::Borrowed(name)),
        };
        let written = scalar::read(self.schema, key.kind, written).map_err(Error::wrong)?;
        let entry = self.entry(at)?;
        push_tag(number, WireType::Bytes, &mut self.out);
        let guess = name.len() + 6 + (entry.to - entry.from) as usize;
        let open = open_length(guess, &mut self.out);
        push_tag(key.number, written.wire_type(), &mut self.out);
        written.push(&mut self.out);
        self.one(value, at, true)?;
        close_length(open, &mut self.out);
        Ok(())
    }

    fn structure(&mut self, at: usize) -> Result<(), Error> {
        let mut known = HashSet::new();
        self.members(at, |writer, name, at| {
            let entry = writer.entry(at)?;
            push_tag(1, WireType::Bytes, &mut writer.out);
            let guess = name.len() + 6 + (entry.to - entry.from) as usize;
            let open = open_length(guess, &mut writer.out);
            push_bytes(1, name.as_bytes(), &mut writer.out);
            writer.delimited(2, at, Self::any_value).map_err(|why| why.within(&name))?;
            close_length(open, &mut writer.out);
            if known.insert(name.clone()) {
                Ok(())
            } else {
                Err(Error::wrong("the name appears twice").within(&name))
            }
        })
    }

    /// Appends a `google.protobuf.Value`.
    fn any_value(&mut self, at: usize) -> Result<(), Error> {
        let entry = self.entry(at)?;
        match entry.kind {
            Kind::Null => {
                push_tag(1, WireType::Varint, &mut self.out);
                self.out.push(0);
            }
            Kind::True | Kind::False => {
                push_tag(4, WireType::Varint, &mut self.out);
                self.out.push(u8::from(entry.kind == Kind::True));
            }
            Kind::Number => {
                let number = self.scalar(FieldKind::Double, at)?;
                push_tag(2, WireType::Fixed64, &mut self.out);
                number.push(&mut self.out);
            }
            Kind::Plain | Kind::Escaped => {
                push_bytes(3, self.string(&entry).as_bytes(), &mut self.out);
            }
            Kind::Object => return self.delimited(5, at, Self::structure),
            Kind::Array => {
                return self.delimited(6, at, |writer, at| {
                    writer.items(at, |writer, at| writer.delimited(1, at, Self::any_value))
                });
            }
        }
        Ok(())
    }

    /// Appends a `google.protobuf.Any`.
    fn any(&mut self, at: usize) -> Result<(), Error> {
        let (mut url, mut value, mut count) = (None, None, 0);
        self.members(at, |writer, name, at| {
            count += 1;
            match &*name {
                "@type" if url.is_some() => {
                    return Err(Error::wrong("the member appears twice").within(&name));
                }
                "@type" => url = Some(writer.text_at(at).map_err(|why| why.within(&name))?),
                "value" => value = Some(at),
                // Harmless: other members are read later.
                _ => {}
            }
            Ok(())
        })?;
        let Some(url) = url else {
            return if count == 0 { Ok(()) } else { Err(Error::wrong("it has no `@type`")) };
        };
        let name = url.rsplit('/').next().unwrap_or_default();
        let schema = self.schema;
        let Some(of) = schema.by_name.get(name).copied() else {
            return Err(Error::wrong("the descriptors have no such type").within("@type"));
        };
        push_bytes(1, url.as_bytes(), &mut self.out);
        let Some(message) = schema.message(of) else { return Ok(()) };
        self.delimited(2, at, |writer, at| {
            if !message.known.is_special() {
                return writer.fields(message, at, Some("@type"));
            }
            match value {
                Some(value) if count == 2 => {
                    writer.message(of, value).map_err(|why| why.within("value"))
                }
                _ => Err(Error::wrong("it has other members than `@type` and `value`")),
            }
        })
    }
}

impl SetFields {
    /// Notes an index. Returns false if it was noted before.
    fn insert(&mut self, index: usize) -> bool {
        if index >= 128 {
            return self.large.insert(index);
        }
        let bit = 1 << index;
        let is_new = self.small & bit == 0;
        self.small |= bit;
        is_new
    }
}

/// Appends the fields of a message that is a text in JSON.
pub(crate) fn push_text(known: WellKnown, text: &str, out: &mut Vec<u8>) -> Result<(), Error> {
    match known {
        WellKnown::Timestamp => {
            let (seconds, nanos) = well_known::timestamp(text).map_err(Error::wrong)?;
            push_time(seconds, nanos, out);
        }
        WellKnown::Duration => {
            let (seconds, nanos) = well_known::duration(text).map_err(Error::wrong)?;
            push_time(seconds, nanos, out);
        }
        WellKnown::FieldMask => push_mask(text, out).map_err(Error::wrong)?,
        _ => return Err(Error::wrong("it is a message")),
    }
    Ok(())
}

/// Appends the fields of a time.
fn push_time(seconds: i64, nanos: i32, out: &mut Vec<u8>) {
    if seconds != 0 {
        push_tag(1, WireType::Varint, out);
        push_varint(seconds.cast_unsigned(), out);
    }
    if nanos != 0 {
        push_tag(2, WireType::Varint, out);
        push_varint(i64::from(nanos).cast_unsigned(), out);
    }
}

/// Appends the paths of a field mask.
fn push_mask(text: &str, out: &mut Vec<u8>) -> Result<(), &'static str> {
    for path in text.split(',').filter(|_| !text.is_empty()) {
        turns::count_part();
        push_bytes(1, well_known::mask_path(path)?.as_bytes(), out);
    }
    Ok(())
}

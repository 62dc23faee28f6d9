//! Writes JSON from a message, by the JSON mapping of Protocol Buffers.
//!
//! The fields of a message may be in any order, and one field may be in several places. So they are collected first, as parts of the
//! message's bytes, in the order of their numbers. Nothing is copied before it is written.

use std::collections::HashMap;
use std::mem::size_of;

use kit::turns;

use crate::error::Error;
use crate::output_limit::OutputLimit;
use crate::scalar;
use crate::schema::{Cardinality, Field, FieldKind, MessageType, Schema, WellKnown};
use crate::well_known;
use crate::wire::{DEPTH_MAX, Fields, Raw, WireError};

/// How messages are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JsonStyle {
    /// Whether fields have the names of the definition instead of those in JSON.
    pub proto_names: bool,
    /// Whether fields with their default values are written, if they have no presence.
    pub defaults: bool,
}

/// The number of fields up to which they are sorted at once, since that cannot pause.
const SORTED_MAX: usize = 1024;

/// The approximate memory that is needed for one more key of a map, while the list of keys grows and in the table made of it.
const KEY_BYTES: usize = 160;

/// The index of a field that was overwritten by another one of its oneof.
const OVERWRITTEN: u32 = u32::MAX;

/// One field of a message: the index of the field, and its value.
#[derive(Debug, Clone, Copy)]
struct Occurrence<'m> {
    field: u32,
    raw: Raw<'m>,
}

/// Writes the messages of one reply.
pub(crate) struct Writer<'s, 'm> {
    schema: &'s Schema,
    style: JsonStyle,
    pub(crate) out: String,
    /// The fields of the messages that are being written, the outermost first.
    fields: Vec<Occurrence<'m>>,
    limit: OutputLimit,
    depth: usize,
}

/// The bytes of a message: all of its parts, if it was sent in several.
#[derive(Clone, Copy)]
enum Parts<'m> {
    One(&'m [u8]),
    /// The occurrences with these indices.
    Several(usize, usize),
}

impl<'s, 'm> Writer<'s, 'm> {
    pub(crate) fn new(schema: &'s Schema, style: JsonStyle, bytes_max: usize) -> Writer<'s, 'm> {
        let (out, fields) = (String::new(), Vec::new());
        Writer { schema, style, out, fields, limit: OutputLimit::new(bytes_max), depth: 0 }
    }

    fn spend(&mut self) -> Result<(), Error> {
        self.limit.spend(self.out.len())
    }

    /// Appends a whole message.
    pub(crate) fn whole(&mut self, of: usize, bytes: &'m [u8]) -> Result<(), Error> {
        self.message(of, Parts::One(bytes))?;
        self.spend()
    }

    /// Appends the value of one field of a message, or its default value.
    pub(crate) fn field_of(
        &mut self,
        of: usize,
        field: usize,
        bytes: &'m [u8],
    ) -> Result<(), Error> {
        let schema = self.schema;
        let Some(message) = schema.message(of) else { return Err(WireError.into()) };
        let Some(wanted) = message.fields.get(field) else { return Err(WireError.into()) };
        self.collect(message, Parts::One(bytes))?;
        let is_it = |one: &Occurrence<'_>| usize::try_from(one.field).is_ok_and(|at| at == field);
        let from = self.fields.iter().position(is_it).unwrap_or(self.fields.len());
        let count = self.fields.iter().skip(from).take_while(|one| is_it(one)).count();
        if count == 0 {
            self.default_of(wanted);
        } else {
            self.value(wanted, from, from + count)?;
        }
        self.spend()
    }

    /// Collects the fields of a message at the end of `fields`, sorted. Unknown fields are left out.
    fn collect(&mut self, message: &MessageType, parts: Parts<'m>) -> Result<usize, Error> {
        let base = self.fields.len();
        match parts {
            Parts::One(bytes) => self.collect_part(message, bytes)?,
            Parts::Several(from, to) => {
                for at in from..to {
                    match self.fields.get(at).map(|one| one.raw) {
                        Some(Raw::Bytes(bytes) | Raw::Group(bytes)) => {
                            self.collect_part(message, bytes)?;
                        }
                        _ => return Err(WireError.into()),
                    }
                }
            }
        }
        if message.oneofs > 0 {
            self.keep_last_of_oneofs(message, base);
        }
        self.sort(message, base);
        Ok(base)
    }

    fn collect_part(&mut self, message: &MessageType, bytes: &'m [u8]) -> Result<(), Error> {
        let mut fields = Fields::of(bytes);
        while let Some((number, raw)) = fields.next()? {
            turns::count_part();
            let Some((index, _)) = message.field_numbered(number) else { continue };
            if self.fields.len() == self.fields.capacity() {
                let more = self.fields.len().max(16);
                let bytes = (self.fields.len() + more) * size_of::<Occurrence<'_>>();
                if !kit::memory::has_room(bytes) {
                    return Err(Error::NoRoom);
                }
                self.fields.reserve_exact(more);
            }
            let field = u32::try_from(index).unwrap_or(OVERWRITTEN);
            self.fields.push(Occurrence { field, raw });
        }
        Ok(())
    }

    /// Removes fields that a later field of the same oneof replaces.
    fn keep_last_of_oneofs(&mut self, message: &MessageType, base: usize) {
        let mut last = vec![OVERWRITTEN; message.oneofs];
        for one in self.fields.iter_mut().skip(base).rev() {
            turns::count_part();
            // Harmless: an index that does not fit belongs to an overwritten field.
            let field = usize::try_from(one.field).ok().and_then(|at| message.fields.get(at));
            let Some(place) = field.and_then(|field| last.get_mut(field.oneof?)) else { continue };
            if *place == OVERWRITTEN {
                *place = one.field;
            } else if *place != one.field {
                one.field = OVERWRITTEN;
            }
        }
    }

    fn sort(&mut self, message: &MessageType, base: usize) {
        let Some(new) = self.fields.get_mut(base..) else { return };
        if new.is_sorted_by_key(|one| one.field) {
            return;
        }
        if new.len() <= SORTED_MAX {
            new.sort_by_key(|one| one.field);
            return;
        }
        // One list for each field, in the order of the fields; the last one has what was overwritten.
        let mut lists: Vec<Vec<Occurrence<'m>>> = vec![Vec::new(); message.fields.len() + 1];
        let last = message.fields.len();
        for one in self.fields.drain(base..) {
            turns::count_part();
            let at = usize::try_from(one.field).unwrap_or(last).min(last);
            if let Some(list) = lists.get_mut(at) {
                list.push(one);
            }
        }
        for mut list in lists {
            turns::count_part();
            self.fields.append(&mut list);
        }
    }

    fn message(&mut self, of: usize, parts: Parts<'m>) -> Result<(), Error> {
        let schema = self.schema;
        let Some(message) = schema.message(of) else { return Err(WireError.into()) };
        if self.depth >= DEPTH_MAX {
            return Err(Error::wrong(format!("messages are nested more than {DEPTH_MAX} deep")));
        }
        self.depth += 1;
        let base = self.collect(message, parts)?;
        let written = match message.known {
            WellKnown::None | WellKnown::HttpBody => {
                self.out.push('{');
                let written = self.members(message, base, true);
                self.out.push('}');
                written
            }
            _ => self.special(message, base),
        };
        // Harmless: these fields were written.
        self.fields.truncate(base);
        self.depth -= 1;
        written
    }

    /// Appends the members of an object: the collected fields from `base` on.
    fn members(
        &mut self,
        message: &'s MessageType,
        base: usize,
        mut is_first: bool,
    ) -> Result<(), Error> {
        let end = self.fields.len();
        let mut from = base;
        // The index of the next field whose default value may have to be written.
        let mut next = 0;
        while let Some(one) = self.fields.get(from).copied().filter(|_| from < end) {
            // Harmless: an index fits, unless the field was overwritten.
            let Some(index) = usize::try_from(one.field).ok().filter(|_| one.field != OVERWRITTEN)
            else {
                break;
            };
            let same = self.fields.get(from..end).unwrap_or_default().iter();
            let to = from + same.take_while(|other| other.field == one.field).count();
            self.defaults(message, next..index, &mut is_first)?;
            next = index + 1;
            let Some(field) = message.fields.get(index) else { break };
            self.spend()?;
            if self.is_left_out(field, to)? {
                from = to;
                continue;
            }
            self.name(field, &mut is_first);
            self.value(field, from, to).map_err(|why| why.within(&field.name))?;
            from = to;
        }
        self.defaults(message, next..message.fields.len(), &mut is_first)
    }

    fn name(&mut self, field: &Field, is_first: &mut bool) {
        if !std::mem::take(is_first) {
            self.out.push(',');
        }
        let name = if self.style.proto_names { &field.name } else { &field.json_name };
        json::push_string(&mut self.out, name);
        self.out.push(':');
    }

    /// Returns true for a field without presence whose default value was sent.
    fn is_left_out(&self, field: &Field, to: usize) -> Result<bool, Error> {
        if self.style.defaults || field.cardinality != (Cardinality::Single { presence: false }) {
            return Ok(false);
        }
        let last = to.checked_sub(1).and_then(|at| self.fields.get(at));
        Ok(match last.ok_or(WireError)?.raw {
            Raw::Varint(number) | Raw::Fixed64(number) => number == 0,
            Raw::Fixed32(number) => number == 0,
            Raw::Bytes(bytes) | Raw::Group(bytes) => bytes.is_empty(),
        })
    }

    /// Appends the default values of fields that were not sent.
    fn defaults(
        &mut self,
        message: &MessageType,
        range: std::ops::Range<usize>,
        is_first: &mut bool,
    ) -> Result<(), Error> {
        if !self.style.defaults {
            return Ok(());
        }
        // Harmless: the range is within the fields.
        for field in message.fields.get(range).unwrap_or_default() {
            if field.cardinality != (Cardinality::Single { presence: true }) {
                self.spend()?;
                self.name(field, is_first);
                self.default_of(field);
            }
        }
        Ok(())
    }

    fn default_of(&mut self, field: &Field) {
        match field.cardinality {
            Cardinality::Single { .. } => {
                scalar::write_default(self.schema, field.kind, &mut self.out);
            }
            Cardinality::Repeated { .. } => self.out.push_str("[]"),
            Cardinality::Map => self.out.push_str("{}"),
        }
    }

    /// Appends the value of a field, whose occurrences are `from..to`.
    fn value(&mut self, field: &'s Field, from: usize, to: usize) -> Result<(), Error> {
        match field.cardinality {
            Cardinality::Single { .. } => self.single(field, from, to),
            Cardinality::Repeated { .. } => self.list(field, from, to),
            Cardinality::Map => self.map(field, from, to),
        }
    }

    fn single(&mut self, field: &Field, from: usize, to: usize) -> Result<(), Error> {
        match field.kind {
            FieldKind::Message(of) | FieldKind::Group(of) => {
                self.message(of, Parts::Several(from, to))
            }
            kind => {
                let last = to.checked_sub(1).and_then(|at| self.fields.get(at)).ok_or(WireError)?;
                Ok(scalar::write(self.schema, kind, last.raw, &mut self.out)?)
            }
        }
    }

    fn list(&mut self, field: &Field, from: usize, to: usize) -> Result<(), Error> {
        self.out.push('[');
        let mut index = 0;
        for at in from..to {
            let raw = self.fields.get(at).ok_or(WireError)?.raw;
            match (field.kind, raw) {
                (FieldKind::Message(of) | FieldKind::Group(of), _) => {
                    self.comma(&mut index)?;
                    let written = self.message(of, Parts::Several(at, at + 1));
                    written.map_err(|why| why.within_index(index - 1))?;
                }
                (kind, Raw::Bytes(mut packed)) if kind.is_packable() => {
                    while !packed.is_empty() {
                        let raw = scalar::read_packed(kind, &mut packed)?;
                        self.comma(&mut index)?;
                        scalar::write(self.schema, kind, raw, &mut self.out)?;
                    }
                }
                (kind, raw) => {
                    self.comma(&mut index)?;
                    scalar::write(self.schema, kind, raw, &mut self.out)?;
                }
            }
        }
        self.out.push(']');
        Ok(())
    }

    /// Separates items, and counts them.
    fn comma(&mut self, index: &mut usize) -> Result<(), Error> {
        self.spend()?;
        if *index > 0 {
            self.out.push(',');
        }
        *index += 1;
        Ok(())
    }

    fn map(&mut self, field: &Field, from: usize, to: usize) -> Result<(), Error> {
        let schema = self.schema;
        let message = schema.message_of(field).ok_or(WireError)?;
        let key = message.field_numbered(1).ok_or(WireError)?.1;
        let value = message.field_numbered(2).ok_or(WireError)?.1;
        self.out.push('{');
        let mut names = Vec::new();
        for at in from..to {
            turns::count_part();
            if names.len() == names.capacity() && !kit::memory::has_room(names.len() * KEY_BYTES) {
                return Err(Error::NoRoom);
            }
            names.push(self.key(key, at)?);
        }
        // Of several entries with one key, the last counts.
        let mut last = HashMap::with_capacity(names.len());
        // Harmless: the indices do not end.
        for (name, at) in names.iter().zip(from..) {
            turns::count_part();
            last.insert(name, at);
        }
        let is_unique = last.len() == names.len();
        let mut index = 0;
        // Harmless: as above.
        for (name, at) in names.iter().zip(from..) {
            if !is_unique && last.get(name) != Some(&at) {
                continue;
            }
            self.comma(&mut index)?;
            self.out.push_str(name);
            self.out.push(':');
            let written = self.map_value(message, value, at);
            written.map_err(|why| why.within(name.trim_matches('"')))?;
        }
        self.out.push('}');
        Ok(())
    }

    /// Returns the key of an entry as a string of JSON.
    fn key(&self, key: &Field, at: usize) -> Result<String, Error> {
        let Some(Raw::Bytes(entry)) = self.fields.get(at).map(|one| one.raw) else {
            return Err(WireError.into());
        };
        let mut last = None;
        let mut fields = Fields::of(entry);
        while let Some((number, raw)) = fields.next()? {
            turns::count_part();
            if number == key.number {
                last = Some(raw);
            }
        }
        let mut name = String::new();
        match last {
            Some(raw) => scalar::write(self.schema, key.kind, raw, &mut name)?,
            None => scalar::write_default(self.schema, key.kind, &mut name),
        }
        Ok(if name.starts_with('"') { name } else { format!("\"{name}\"") })
    }

    fn map_value(
        &mut self,
        message: &'s MessageType,
        value: &'s Field,
        at: usize,
    ) -> Result<(), Error> {
        let base = self.collect(message, Parts::Several(at, at + 1))?;
        let is_value = |one: &Occurrence<'_>| {
            // Harmless: an index fits.
            let index = usize::try_from(one.field).ok();
            let field = index.and_then(|index| message.fields.get(index));
            field.is_some_and(|field| field.number == value.number)
        };
        let new = self.fields.get(base..).unwrap_or_default();
        let from = new.iter().position(is_value).map_or(self.fields.len(), |at| base + at);
        let to = self.fields.len();
        let written = match value.kind {
            FieldKind::Message(of) | FieldKind::Group(of) => {
                self.message(of, Parts::Several(from, to))
            }
            kind if from == to => {
                scalar::write_default(self.schema, kind, &mut self.out);
                Ok(())
            }
            _ => self.single(value, from, to),
        };
        // Harmless: these fields were written.
        self.fields.truncate(base);
        written
    }

    /// Returns the last value with this number among the collected fields.
    fn last(&self, message: &MessageType, base: usize, number: u32) -> Option<Raw<'m>> {
        let (index, _) = message.field_numbered(number)?;
        let index = u32::try_from(index).ok()?;
        let new = self.fields.get(base..)?;
        new.iter().rev().find(|one| one.field == index).map(|one| one.raw)
    }

    /// Appends a well-known message whose JSON is not an object of its fields.
    fn special(&mut self, message: &'s MessageType, base: usize) -> Result<(), Error> {
        match message.known {
            WellKnown::Timestamp | WellKnown::Duration => {
                let number = |raw: Option<Raw<'_>>| match raw {
                    None => Ok(0),
                    Some(Raw::Varint(number)) => Ok(number),
                    Some(_) => Err(WireError),
                };
                let seconds = number(self.last(message, base, 1))?.cast_signed();
                let nanos = scalar::int32_of(number(self.last(message, base, 2))?);
                let written = if message.known == WellKnown::Timestamp {
                    well_known::push_timestamp(seconds, nanos, &mut self.out)
                } else {
                    well_known::push_duration(seconds, nanos, &mut self.out)
                };
                written.ok_or_else(|| Error::wrong("the time is out of range"))
            }
            WellKnown::FieldMask => self.mask(base),
            WellKnown::Wrapper => {
                let field = message.fields.first().ok_or(WireError)?;
                match self.last(message, base, field.number) {
                    Some(raw) => Ok(scalar::write(self.schema, field.kind, raw, &mut self.out)?),
                    None => {
                        scalar::write_default(self.schema, field.kind, &mut self.out);
                        Ok(())
                    }
                }
            }
            WellKnown::Struct => {
                let fields = message.fields.first().ok_or(WireError)?;
                self.map(fields, base, self.fields.len())
            }
            WellKnown::ListValue => {
                let values = message.fields.first().ok_or(WireError)?;
                self.list(values, base, self.fields.len())
            }
            WellKnown::Value => self.any_value(message, base),
            WellKnown::Any => self.any(message, base),
            WellKnown::None | WellKnown::HttpBody => Ok(()),
        }
    }

    fn mask(&mut self, base: usize) -> Result<(), Error> {
        self.out.push('"');
        for at in base..self.fields.len() {
            self.spend()?;
            let Some(Raw::Bytes(path)) = self.fields.get(at).map(|one| one.raw) else {
                return Err(WireError.into());
            };
            let path = std::str::from_utf8(path).map_err(|_| WireError)?;
            if at > base {
                self.out.push(',');
            }
            let written = well_known::push_mask_path(path, &mut self.out);
            written.ok_or_else(|| Error::wrong("a path of the field mask has no form in JSON"))?;
        }
        self.out.push('"');
        Ok(())
    }

    /// Appends a `google.protobuf.Value`, whose fields are a oneof.
    fn any_value(&mut self, message: &'s MessageType, base: usize) -> Result<(), Error> {
        let end = self.fields.len();
        let last = (base..end)
            .rev()
            .find(|at| self.fields.get(*at).is_some_and(|one| one.field != OVERWRITTEN));
        let Some(at) = last else { return Err(Error::wrong("a value has no kind")) };
        let index = self.fields.get(at).map(|one| one.field).ok_or(WireError)?;
        // Harmless: the caller refuses a field that does not exist.
        let field = usize::try_from(index).ok().and_then(|index| message.fields.get(index));
        let field = field.ok_or(WireError)?;
        if let Some(Raw::Fixed64(bits)) = self.fields.get(at).map(|one| one.raw)
            && !f64::from_bits(bits).is_finite()
        {
            return Err(Error::wrong("a number of a value is not finite"));
        }
        let fields = self.fields.get(base..=at).unwrap_or_default().iter().rev();
        let same = fields.take_while(|one| one.field == index).count();
        self.single(field, at + 1 - same, at + 1)
    }

    /// Appends a `google.protobuf.Any`. A type that the descriptors do not have is written as its bytes in Base64.
    fn any(&mut self, message: &'s MessageType, base: usize) -> Result<(), Error> {
        let bytes = |raw: Option<Raw<'m>>| match raw {
            None => Ok(&[][..]),
            Some(Raw::Bytes(bytes)) => Ok(bytes),
            Some(_) => Err(WireError),
        };
        let url = bytes(self.last(message, base, 1))?;
        let value = bytes(self.last(message, base, 2))?;
        self.any_of(std::str::from_utf8(url).map_err(|_| WireError)?, value)
    }

    pub(crate) fn any_of(&mut self, url: &str, value: &'m [u8]) -> Result<(), Error> {
        if url.is_empty() && value.is_empty() {
            self.out.push_str("{}");
            return Ok(());
        }
        self.out.push_str("{\"@type\":");
        json::push_string(&mut self.out, url);
        let schema = self.schema;
        let name = url.rsplit('/').next().unwrap_or_default();
        let known = schema.by_name.get(name).copied();
        let known = known.and_then(|of| Some((of, schema.message(of)?)));
        match known {
            None => {
                self.out.push_str(",\"value\":");
                scalar::push_base64(value, &mut self.out);
            }
            Some((of, message)) if message.known.is_special() => {
                self.out.push_str(",\"value\":");
                self.message(of, Parts::One(value))?;
            }
            Some((_, message)) => {
                if self.depth >= DEPTH_MAX {
                    return Err(WireError.into());
                }
                self.depth += 1;
                let base = self.collect(message, Parts::One(value))?;
                self.members(message, base, false)?;
                // Harmless: these fields were written.
                self.fields.truncate(base);
                self.depth -= 1;
            }
        }
        self.out.push('}');
        Ok(())
    }
}

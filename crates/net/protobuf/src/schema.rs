//! The types and services of a descriptor set as tables, in which names are resolved to indices.

use std::collections::HashMap;

use crate::rule::HttpRule;

/// The messages, enums and services of a descriptor set.
#[derive(Debug, Default)]
pub struct Schema {
    pub(crate) messages: Vec<MessageType>,
    pub(crate) enums: Vec<EnumType>,
    /// Messages by their full names, for `google.protobuf.Any`.
    pub(crate) by_name: HashMap<Box<str>, usize>,
    pub(crate) services: Vec<Service>,
}

/// A service with its methods.
#[derive(Debug)]
pub struct Service {
    /// The full name, such as `shop.v1.Orders`.
    pub name: Box<str>,
    pub methods: Vec<Method>,
}

/// A method of a service.
#[derive(Debug)]
pub struct Method {
    pub name: Box<str>,
    pub(crate) input: usize,
    pub(crate) output: usize,
    pub is_client_streaming: bool,
    pub is_server_streaming: bool,
    /// Its `google.api.http` rule and the additional bindings.
    pub(crate) rules: Vec<HttpRule>,
}

/// A message type.
#[derive(Debug)]
pub(crate) struct MessageType {
    pub(crate) known: WellKnown,
    /// The fields in the order of their numbers.
    pub(crate) fields: Vec<Field>,
    /// The names of fields in JSON and in the definition, sorted, with the indices of the fields.
    pub(crate) names: Vec<(Box<str>, usize)>,
    /// The number of oneofs.
    pub(crate) oneofs: usize,
}

/// A field of a message type.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) number: u32,
    pub(crate) name: Box<str>,
    pub(crate) json_name: Box<str>,
    pub(crate) kind: FieldKind,
    pub(crate) cardinality: Cardinality,
    /// The index of the oneof that the field belongs to.
    pub(crate) oneof: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cardinality {
    /// One value. Without `presence`, the default value is the same as no value.
    Single {
        presence: bool,
    },
    Repeated {
        packed: bool,
    },
    /// A map, whose kind is the message of its entries.
    Map,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldKind {
    Double,
    Float,
    Int32,
    Int64,
    Uint32,
    Uint64,
    Sint32,
    Sint64,
    Fixed32,
    Fixed64,
    Sfixed32,
    Sfixed64,
    Bool,
    String,
    Bytes,
    Enum(usize),
    Message(usize),
    Group(usize),
}

/// The messages that have a form of their own in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WellKnown {
    None,
    Any,
    Timestamp,
    Duration,
    FieldMask,
    Struct,
    Value,
    ListValue,
    /// A message of the single field `value`.
    Wrapper,
    /// A body of any content type (`google.api.HttpBody`).
    HttpBody,
}

/// An enum type.
#[derive(Debug)]
pub(crate) struct EnumType {
    /// True for `google.protobuf.NullValue`, which is `null` in JSON.
    pub(crate) is_null: bool,
    /// The names by number. Of several names, the first counts.
    pub(crate) by_number: HashMap<i32, Box<str>>,
    pub(crate) by_name: HashMap<Box<str>, i32>,
}

impl Schema {
    pub fn services(&self) -> &[Service] {
        &self.services
    }

    pub(crate) fn message(&self, index: usize) -> Option<&MessageType> {
        self.messages.get(index)
    }

    /// Returns the message type of a field that is neither a scalar nor a map.
    pub(crate) fn message_of(&self, field: &Field) -> Option<&MessageType> {
        match field.kind {
            FieldKind::Message(index) | FieldKind::Group(index) => self.message(index),
            _ => None,
        }
    }
}

impl MessageType {
    /// Returns a field by its name in JSON or in the definition.
    pub(crate) fn field_named(&self, name: &str) -> Option<(usize, &Field)> {
        let at = self.names.binary_search_by(|(known, _)| (**known).cmp(name)).ok()?;
        let (_, index) = self.names.get(at)?;
        Some((*index, self.fields.get(*index)?))
    }

    /// Returns a field by its number.
    pub(crate) fn field_numbered(&self, number: u32) -> Option<(usize, &Field)> {
        // The numbers of most fields are those of their places.
        let guess = usize::try_from(number).unwrap_or(0).wrapping_sub(1);
        if let Some(field) = self.fields.get(guess).filter(|field| field.number == number) {
            return Some((guess, field));
        }
        let at = self.fields.binary_search_by_key(&number, |field| field.number).ok()?;
        Some((at, self.fields.get(at)?))
    }
}

impl Field {
    pub(crate) fn is_single(&self) -> bool {
        matches!(self.cardinality, Cardinality::Single { .. })
    }
}

impl FieldKind {
    /// Returns true if repeated values of the kind can be packed.
    pub(crate) fn is_packable(self) -> bool {
        !matches!(
            self,
            FieldKind::String | FieldKind::Bytes | FieldKind::Message(_) | FieldKind::Group(_)
        )
    }
}

impl WellKnown {
    pub(crate) fn of(name: &str) -> WellKnown {
        let Some(own) = name.strip_prefix("google.protobuf.") else {
            return match name {
                "google.api.HttpBody" => WellKnown::HttpBody,
                _ => WellKnown::None,
            };
        };
        match own {
            "Any" => WellKnown::Any,
            "Timestamp" => WellKnown::Timestamp,
            "Duration" => WellKnown::Duration,
            "FieldMask" => WellKnown::FieldMask,
            "Struct" => WellKnown::Struct,
            "Value" => WellKnown::Value,
            "ListValue" => WellKnown::ListValue,
            "DoubleValue" | "FloatValue" | "Int64Value" | "UInt64Value" | "Int32Value"
            | "UInt32Value" | "BoolValue" | "StringValue" | "BytesValue" => WellKnown::Wrapper,
            _ => WellKnown::None,
        }
    }

    /// Returns true if the JSON form is not an object of the message's fields.
    pub(crate) fn is_special(self) -> bool {
        !matches!(self, WellKnown::None | WellKnown::HttpBody)
    }
}

//! Reads a descriptor set (`google/protobuf/descriptor.proto`), as `protoc --include_imports --descriptor_set_out` writes it.
//!
//! Owns the resolution of type names, and the features of editions. The set is read with the reader of [`wire`](crate::wire), so that no
//! generated code is needed for it.

use std::collections::HashMap;

use crate::rule::{self, HttpRule};
use crate::schema::{
    Cardinality, EnumType, Field, FieldKind, MessageType, Method, Schema, Service, WellKnown,
};
use crate::wire::{Raw, WireError, each, text};

/// The maximum nesting of type definitions. The reader recurses this deep.
const NESTED_MAX: usize = 32;

/// The number of the first edition, which is 2023.
const EDITION_2023: u64 = 1000;

/// The number of the extension `google.api.http` of `google.protobuf.MethodOptions`.
const HTTP: u32 = 72_295_728;

impl Schema {
    /// Reads a descriptor set. Returns all errors.
    pub fn read(set: &[u8]) -> Result<Schema, Vec<String>> {
        let mut loader = Loader::default();
        if loader.set(set).is_err() || loader.files.is_empty() {
            return Err(vec!["it is not a descriptor set".to_owned()]);
        }
        loader.check_imports();
        let schema = loader.resolve();
        if loader.errors.is_empty() { Ok(schema) } else { Err(loader.errors) }
    }
}

/// The definitions as written, before names are resolved.
#[derive(Default)]
struct Loader {
    files: Vec<FileProto>,
    messages: Vec<MessageProto>,
    enums: Vec<EnumProto>,
    services: Vec<ServiceProto>,
    errors: Vec<String>,
}

#[derive(Default)]
struct FileProto {
    name: String,
    imports: Vec<String>,
}

/// Features that a file or a message hands on to what it contains.
#[derive(Debug, Clone, Copy)]
struct Features {
    presence: Presence,
    packed: bool,
    delimited: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Presence {
    Explicit,
    Implicit,
}

struct MessageProto {
    name: String,
    fields: Vec<FieldProto>,
    oneofs: usize,
    is_map_entry: bool,
}

#[derive(Default)]
struct FieldProto {
    name: String,
    json_name: String,
    number: u32,
    label: u64,
    kind: u64,
    type_name: String,
    oneof: Option<usize>,
    optional: bool,
    packed: Option<bool>,
    features: Option<Features>,
}

struct EnumProto {
    name: String,
    values: Vec<(String, i32)>,
}

struct ServiceProto {
    name: String,
    methods: Vec<MethodProto>,
}

#[derive(Default)]
struct MethodProto {
    name: String,
    input: String,
    output: String,
    is_client_streaming: bool,
    is_server_streaming: bool,
    rules: Vec<HttpRule>,
}

fn index(number: u64) -> Result<usize, WireError> {
    usize::try_from(number).map_err(|_| WireError)
}

fn joined(scope: &str, name: &str) -> String {
    if scope.is_empty() { name.to_owned() } else { format!("{scope}.{name}") }
}

impl Loader {
    fn set(&mut self, set: &[u8]) -> Result<(), WireError> {
        each(set, |number, raw| match (number, raw) {
            (1, Raw::Bytes(file)) => self.file(file),
            _ => Err(WireError),
        })
    }

    fn file(&mut self, file: &[u8]) -> Result<(), WireError> {
        let mut read = FileProto::default();
        let (mut package, mut syntax, mut edition) = (String::new(), String::new(), 0);
        let mut options: &[u8] = &[];
        each(file, |number, raw| {
            match (number, raw) {
                (1, Raw::Bytes(name)) => read.name = text(name)?,
                (2, Raw::Bytes(name)) => package = text(name)?,
                (3, Raw::Bytes(import)) => read.imports.push(text(import)?),
                (8, Raw::Bytes(bytes)) => options = bytes,
                (12, Raw::Bytes(name)) => syntax = text(name)?,
                (14, Raw::Varint(number)) => edition = number,
                // Harmless: other fields are not needed.
                _ => {}
            }
            Ok(())
        })?;
        let features = match &*syntax {
            "" | "proto2" => {
                Features { presence: Presence::Explicit, packed: false, delimited: false }
            }
            "proto3" => Features { presence: Presence::Implicit, packed: true, delimited: false },
            "editions" if edition >= EDITION_2023 => {
                let own = Features { presence: Presence::Explicit, packed: true, delimited: false };
                own.with(options, 50)?
            }
            _ => {
                self.errors.push(format!("`{}` has an unknown syntax `{syntax}`", read.name));
                return Ok(());
            }
        };
        let in_editions = syntax == "editions";
        let mut scope = Scope { loader: self, features, in_editions };
        each(file, |number, raw| match (number, raw) {
            (4, Raw::Bytes(message)) => scope.message(message, &package, 0),
            (5, Raw::Bytes(definition)) => scope.enumeration(definition, &package),
            (6, Raw::Bytes(service)) => scope.service(service, &package),
            _ => Ok(()),
        })?;
        self.files.push(read);
        Ok(())
    }

    fn check_imports(&mut self) {
        for file in &self.files {
            for import in &file.imports {
                if !self.files.iter().any(|known| known.name == *import) {
                    self.errors
                        .push(format!("`{}`, which `{}` imports, is not in it", import, file.name));
                }
            }
        }
    }

    /// Resolves the names of types. Errors are added to the list.
    fn resolve(&mut self) -> Schema {
        let mut schema = Schema::default();
        let messages = std::mem::take(&mut self.messages);
        let enums = std::mem::take(&mut self.enums);
        let services = std::mem::take(&mut self.services);
        let names = messages.iter().enumerate().map(|(at, one)| (one.name.as_str(), at)).collect();
        let enum_names =
            enums.iter().enumerate().map(|(at, one)| (one.name.as_str(), at)).collect();
        let names = Names { messages: names, enums: enum_names, all: &messages };
        for (at, message) in messages.iter().enumerate() {
            if schema.by_name.insert(message.name.as_str().into(), at).is_some() {
                self.errors.push(format!("`{}` is defined twice", message.name));
            }
            schema.messages.push(self.message_type(message, &names));
        }
        schema.enums = enums.iter().map(enum_type).collect();
        for service in services {
            let name = service.name;
            let methods = service.methods.into_iter();
            // Harmless: a method with an unknown type has an error.
            let methods = methods.filter_map(|method| self.method(&name, method, &names)).collect();
            schema.services.push(Service { name: name.into(), methods });
        }
        schema
    }

    fn message_type(&mut self, written: &MessageProto, names: &Names<'_>) -> MessageType {
        // Harmless: a field with an unknown type has an error.
        let fields = written.fields.iter().filter_map(|field| {
            let made = field.resolved(names);
            if made.is_none() {
                self.errors.push(format!("`{}.{}` has no known type", written.name, field.name));
            }
            made
        });
        let mut fields: Vec<Field> = fields.collect();
        fields.sort_by_key(|field| field.number);
        let mut by_name: Vec<(Box<str>, usize)> = Vec::new();
        for (at, field) in fields.iter().enumerate() {
            by_name.push((field.json_name.clone(), at));
            if field.name != field.json_name {
                by_name.push((field.name.clone(), at));
            }
        }
        by_name.sort();
        // The first of two equal names counts; `protoc` refuses such definitions except in old files.
        by_name.dedup_by(|later, first| later.0 == first.0);
        MessageType {
            known: WellKnown::of(&written.name),
            fields,
            names: by_name,
            oneofs: written.oneofs,
        }
    }

    fn method(&mut self, service: &str, method: MethodProto, names: &Names<'_>) -> Option<Method> {
        let mut known = |name: &str| {
            let found = names.messages.get(name.trim_start_matches('.')).copied();
            if found.is_none() {
                self.errors.push(format!("`{service}.{}` has no known type", method.name));
            }
            found
        };
        Some(Method {
            input: known(&method.input)?,
            output: known(&method.output)?,
            name: method.name.into(),
            is_client_streaming: method.is_client_streaming,
            is_server_streaming: method.is_server_streaming,
            rules: method.rules,
        })
    }
}

/// The types by name.
struct Names<'a> {
    messages: HashMap<&'a str, usize>,
    enums: HashMap<&'a str, usize>,
    all: &'a [MessageProto],
}

impl FieldProto {
    fn resolved(&self, names: &Names<'_>) -> Option<Field> {
        let name = self.type_name.trim_start_matches('.');
        let message = || names.messages.get(name).copied();
        let delimited = self.features.is_some_and(|features| features.delimited);
        let kind = match self.kind {
            1 => FieldKind::Double,
            2 => FieldKind::Float,
            3 => FieldKind::Int64,
            4 => FieldKind::Uint64,
            5 => FieldKind::Int32,
            6 => FieldKind::Fixed64,
            7 => FieldKind::Fixed32,
            8 => FieldKind::Bool,
            9 => FieldKind::String,
            10 => FieldKind::Group(message()?),
            11 if delimited => FieldKind::Group(message()?),
            11 => FieldKind::Message(message()?),
            12 => FieldKind::Bytes,
            13 => FieldKind::Uint32,
            14 => FieldKind::Enum(*names.enums.get(name)?),
            15 => FieldKind::Sfixed32,
            16 => FieldKind::Sfixed64,
            17 => FieldKind::Sint32,
            18 => FieldKind::Sint64,
            _ => return None,
        };
        let entry = match kind {
            FieldKind::Message(at) | FieldKind::Group(at) => {
                names.all.get(at).filter(|message| message.is_map_entry)
            }
            _ => None,
        };
        // Entries of maps are never groups.
        let kind = match (entry, kind) {
            (Some(_), FieldKind::Group(at)) => FieldKind::Message(at),
            (_, kind) => kind,
        };
        let cardinality = match self.label {
            3 if entry.is_some_and(MessageProto::is_entry) => Cardinality::Map,
            3 => {
                let packed = self.packed.or(self.features.map(|features| features.packed));
                Cardinality::Repeated { packed: packed == Some(true) && kind.is_packable() }
            }
            _ => {
                let is_message = matches!(kind, FieldKind::Message(_) | FieldKind::Group(_));
                let is_implicit = self.features.is_some_and(|of| of.presence == Presence::Implicit);
                let has_presence = is_message || self.optional || self.oneof.is_some();
                Cardinality::Single { presence: has_presence || !is_implicit || self.label == 2 }
            }
        };
        // The oneof of an optional field of proto3 is not written in the definition.
        let oneof = self.oneof.filter(|_| !self.optional);
        let number = (1..1 << 29).contains(&self.number).then_some(self.number)?;
        let json_name =
            if self.json_name.is_empty() { json_name(&self.name) } else { self.json_name.clone() };
        Some(Field {
            number,
            name: self.name.as_str().into(),
            json_name: json_name.into(),
            kind,
            cardinality,
            oneof,
        })
    }
}

impl MessageProto {
    /// Returns true if this is the message of a map's entries: a key and a value.
    fn is_entry(&self) -> bool {
        let has = |number| self.fields.iter().any(|field| field.number == number);
        self.is_map_entry && has(1) && has(2)
    }
}

/// Returns the default name in JSON, as `protoc` writes it.
fn json_name(name: &str) -> String {
    let mut out = String::new();
    let mut upper = false;
    for letter in name.chars() {
        match letter {
            '_' => upper = true,
            _ if upper => {
                out.push(letter.to_ascii_uppercase());
                upper = false;
            }
            _ => out.push(letter),
        }
    }
    out
}

fn enum_type(written: &EnumProto) -> EnumType {
    let mut made = EnumType {
        is_null: written.name == "google.protobuf.NullValue",
        by_number: HashMap::new(),
        by_name: HashMap::new(),
    };
    for (name, number) in &written.values {
        made.by_number.entry(*number).or_insert_with(|| name.as_str().into());
        made.by_name.insert(name.as_str().into(), *number);
    }
    made
}

impl Features {
    /// Returns the features with those that options set. `field` is the number of the field `features` in these options.
    fn with(self, options: &[u8], field: u32) -> Result<Features, WireError> {
        let mut made = self;
        each(options, |number, raw| match raw {
            Raw::Bytes(features) if number == field => each(features, |number, raw| {
                match (number, raw) {
                    (1, Raw::Varint(2)) => made.presence = Presence::Implicit,
                    (1, Raw::Varint(1 | 3)) => made.presence = Presence::Explicit,
                    (3, Raw::Varint(value)) => made.packed = value == 1,
                    (5, Raw::Varint(value)) => made.delimited = value == 2,
                    // Harmless: other features do not matter here.
                    _ => {}
                }
                Ok(())
            }),
            _ => Ok(()),
        })?;
        Ok(made)
    }
}

/// Reads the definitions within a file or a message.
struct Scope<'l> {
    loader: &'l mut Loader,
    features: Features,
    in_editions: bool,
}

impl Scope<'_> {
    fn message(&mut self, message: &[u8], scope: &str, depth: usize) -> Result<(), WireError> {
        if depth > NESTED_MAX {
            return Err(WireError);
        }
        let mut made = MessageProto {
            name: String::new(),
            fields: Vec::new(),
            oneofs: 0,
            is_map_entry: false,
        };
        let mut features = self.features;
        each(message, |number, raw| {
            match (number, raw) {
                (1, Raw::Bytes(name)) => made.name = joined(scope, &text(name)?),
                (7, Raw::Bytes(options)) => {
                    if self.in_editions {
                        features = features.with(options, 12)?;
                    }
                    each(options, |number, raw| {
                        made.is_map_entry |= (number, raw) == (7, Raw::Varint(1));
                        Ok(())
                    })?;
                }
                (8, Raw::Bytes(_)) => made.oneofs += 1,
                // Harmless: other fields are not needed.
                _ => {}
            }
            Ok(())
        })?;
        let around = std::mem::replace(&mut self.features, features);
        let name = made.name.clone();
        each(message, |number, raw| {
            match (number, raw) {
                (2, Raw::Bytes(field)) => made.fields.push(self.field(field)?),
                (3, Raw::Bytes(nested)) => self.message(nested, &name, depth + 1)?,
                (4, Raw::Bytes(nested)) => self.enumeration(nested, &name)?,
                // Harmless: other fields are not needed.
                _ => {}
            }
            Ok(())
        })?;
        self.features = around;
        let oneofs = made.oneofs;
        for field in &mut made.fields {
            field.oneof = field.oneof.filter(|oneof| *oneof < oneofs);
        }
        self.loader.messages.push(made);
        Ok(())
    }

    fn field(&mut self, field: &[u8]) -> Result<FieldProto, WireError> {
        let mut made = FieldProto { features: Some(self.features), ..FieldProto::default() };
        each(field, |number, raw| {
            match (number, raw) {
                (1, Raw::Bytes(name)) => made.name = text(name)?,
                (3, Raw::Varint(number)) => {
                    made.number = u32::try_from(number).map_err(|_| WireError)?;
                }
                (4, Raw::Varint(label)) => made.label = label,
                (5, Raw::Varint(kind)) => made.kind = kind,
                (6, Raw::Bytes(name)) => made.type_name = text(name)?,
                (8, Raw::Bytes(options)) => {
                    if self.in_editions {
                        made.features = Some(self.features.with(options, 21)?);
                    }
                    each(options, |number, raw| {
                        if let (2, Raw::Varint(packed)) = (number, raw) {
                            made.packed = Some(packed == 1);
                        }
                        Ok(())
                    })?;
                }
                (9, Raw::Varint(oneof)) => made.oneof = Some(index(oneof)?),
                (10, Raw::Bytes(name)) => made.json_name = text(name)?,
                (17, Raw::Varint(optional)) => made.optional = optional == 1,
                // Harmless: other fields are not needed.
                _ => {}
            }
            Ok(())
        })?;
        Ok(made)
    }

    fn enumeration(&mut self, definition: &[u8], scope: &str) -> Result<(), WireError> {
        let mut made = EnumProto { name: String::new(), values: Vec::new() };
        each(definition, |number, raw| {
            match (number, raw) {
                (1, Raw::Bytes(name)) => made.name = joined(scope, &text(name)?),
                (2, Raw::Bytes(value)) => {
                    let (mut name, mut number) = (String::new(), 0);
                    each(value, |field, raw| {
                        match (field, raw) {
                            (1, Raw::Bytes(bytes)) => name = text(bytes)?,
                            (2, Raw::Varint(value)) => number = crate::scalar::int32_of(value),
                            // Harmless: other fields are not needed.
                            _ => {}
                        }
                        Ok(())
                    })?;
                    made.values.push((name, number));
                }
                // Harmless: other fields are not needed.
                _ => {}
            }
            Ok(())
        })?;
        self.loader.enums.push(made);
        Ok(())
    }

    fn service(&mut self, service: &[u8], scope: &str) -> Result<(), WireError> {
        let mut made = ServiceProto { name: String::new(), methods: Vec::new() };
        each(service, |number, raw| {
            match (number, raw) {
                (1, Raw::Bytes(name)) => made.name = joined(scope, &text(name)?),
                (2, Raw::Bytes(method)) => made.methods.push(method_proto(method)?),
                // Harmless: other fields are not needed.
                _ => {}
            }
            Ok(())
        })?;
        self.loader.services.push(made);
        Ok(())
    }
}

fn method_proto(method: &[u8]) -> Result<MethodProto, WireError> {
    let mut made = MethodProto::default();
    each(method, |number, raw| {
        match (number, raw) {
            (1, Raw::Bytes(name)) => made.name = text(name)?,
            (2, Raw::Bytes(name)) => made.input = text(name)?,
            (3, Raw::Bytes(name)) => made.output = text(name)?,
            (4, Raw::Bytes(options)) => each(options, |number, raw| match raw {
                Raw::Bytes(http) if number == HTTP => rule::read(http, &mut made.rules),
                _ => Ok(()),
            })?,
            (5, Raw::Varint(streams)) => made.is_client_streaming = streams == 1,
            (6, Raw::Varint(streams)) => made.is_server_streaming = streams == 1,
            // Harmless: other fields are not needed.
            _ => {}
        }
        Ok(())
    })?;
    Ok(made)
}

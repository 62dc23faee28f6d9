//! The descriptor set of a service for tests, made without `protoc`: its definitions are below, and [`set`] writes them in the wire format.
//!
//! Tests of several crates include this file. Method: input and output are always `Order`, except where a line says otherwise.

/// A field: its number, name, type, and what it is besides.
type Line = (u32, &'static str, &'static str, &'static str);

const ORDER: &[Line] = &[
    (1, "id", "string", ""),
    (2, "total_quantity", "int64", ""),
    (3, "status", "shop.v1.Status", ""),
    (4, "customer", "shop.v1.Customer", ""),
    (5, "tags", "string", "repeated"),
    (6, "counts", "shop.v1.Order.CountsEntry", "repeated"),
    (7, "created", "google.protobuf.Timestamp", ""),
    (8, "limit", "google.protobuf.Int32Value", ""),
    (9, "data", "bytes", ""),
    (10, "card", "string", "oneof"),
    (11, "cash", "int32", "oneof"),
    (12, "extra", "google.protobuf.Struct", ""),
    (13, "mask", "google.protobuf.FieldMask", ""),
    (14, "wait", "google.protobuf.Duration", ""),
    (15, "any", "google.protobuf.Any", ""),
    (16, "price", "double", ""),
    (17, "sizes", "sint32", "repeated"),
    (18, "inner", "shop.v1.Order", ""),
    (19, "note", "int32", "optional"),
    (20, "items", "shop.v1.Order", "repeated"),
    (21, "nothing", "google.protobuf.NullValue", ""),
    (22, "big", "fixed64", ""),
    (23, "gift", "bool", ""),
    (24, "weight", "float", ""),
];

const MESSAGES: &[(&str, &[Line])] = &[
    ("shop.v1.Order", ORDER),
    ("shop.v1.Customer", &[(1, "name", "string", ""), (2, "address", "shop.v1.Address", "")]),
    ("shop.v1.Address", &[(1, "city", "string", "")]),
    ("google.rpc.ErrorInfo", &[(1, "reason", "string", ""), (2, "domain", "string", "")]),
    ("google.api.HttpBody", &[(1, "content_type", "string", ""), (2, "data", "bytes", "")]),
    ("google.protobuf.Timestamp", TIME),
    ("google.protobuf.Duration", TIME),
    ("google.protobuf.FieldMask", &[(1, "paths", "string", "repeated")]),
    ("google.protobuf.Int32Value", &[(1, "value", "int32", "")]),
    ("google.protobuf.Any", &[(1, "type_url", "string", ""), (2, "value", "bytes", "")]),
    ("google.protobuf.Struct", &[(1, "fields", "google.protobuf.Struct.FieldsEntry", "repeated")]),
    ("google.protobuf.ListValue", &[(1, "values", "google.protobuf.Value", "repeated")]),
    (
        "google.protobuf.Value",
        &[
            (1, "null_value", "google.protobuf.NullValue", "oneof"),
            (2, "number_value", "double", "oneof"),
            (3, "string_value", "string", "oneof"),
            (4, "bool_value", "bool", "oneof"),
            (5, "struct_value", "google.protobuf.Struct", "oneof"),
            (6, "list_value", "google.protobuf.ListValue", "oneof"),
        ],
    ),
];

const TIME: &[Line] = &[(1, "seconds", "int64", ""), (2, "nanos", "int32", "")];

/// The messages of maps: the message around, its name, and the type of its values.
const ENTRIES: &[(&str, &str, &str)] = &[
    ("shop.v1.Order", "CountsEntry", "int32"),
    ("google.protobuf.Struct", "FieldsEntry", "google.protobuf.Value"),
];

const ENUMS: &[(&str, &[&str])] = &[
    ("shop.v1.Status", &["UNKNOWN", "OPEN", "SHIPPED"]),
    ("google.protobuf.NullValue", &["NULL_VALUE"]),
];

/// A binding: the field of `HttpRule` with the method, the template, the body, and the body of the reply.
pub(crate) type Rule = (u32, &'static str, &'static str, &'static str);

const GET: u32 = 2;
const PUT: u32 = 3;
const POST: u32 = 4;
const PATCH: u32 = 6;

/// The methods of `shop.v1.Orders`: name, output, whether the client and the server stream, and the bindings.
const METHODS: &[(&str, &str, bool, bool, &[Rule])] = &[
    ("Get", "shop.v1.Order", false, false, &[(GET, "/v1/orders/{id}", "", "")]),
    (
        "Create",
        "shop.v1.Order",
        false,
        false,
        &[(POST, "/v1/orders", "*", ""), (PUT, "/v1/orders/{id}", "*", "")],
    ),
    (
        "Update",
        "shop.v1.Order",
        false,
        false,
        &[(PATCH, "/v1/{customer.name=customers/*}/orders/{id}", "inner", "inner")],
    ),
    ("List", "shop.v1.Order", false, true, &[(GET, "/v1/orders", "", "")]),
    ("Upload", "shop.v1.Order", true, false, &[(POST, "/v1/uploads", "*", "")]),
    ("Cancel", "shop.v1.Order", false, false, &[(POST, "/v1/orders/{id}:cancel", "*", "")]),
    ("File", "google.api.HttpBody", false, false, &[(GET, "/v1/files/{id=**}", "", "")]),
    ("Plain", "shop.v1.Order", false, false, &[]),
];

/// Returns the descriptor set.
pub(crate) fn set() -> Vec<u8> {
    set_with(&[])
}

/// Returns the descriptor set with further bindings of a method `Extra`.
pub(crate) fn set_with(extra: &[Rule]) -> Vec<u8> {
    let mut set = Vec::new();
    for package in ["google.protobuf", "google.api", "google.rpc", "shop.v1"] {
        let mut file = Vec::new();
        bytes(1, format!("{package}.proto").as_bytes(), &mut file);
        bytes(2, package.as_bytes(), &mut file);
        if package == "shop.v1" {
            bytes(3, b"google.protobuf.proto", &mut file);
        }
        let is_own = |name: &str| name.rsplit_once('.').is_some_and(|(own, _)| own == package);
        for (name, fields) in MESSAGES.iter().filter(|(name, _)| is_own(name)) {
            bytes(4, &message(name, fields), &mut file);
        }
        for (name, values) in ENUMS.iter().filter(|(name, _)| is_own(name)) {
            bytes(5, &enumeration(name, values), &mut file);
        }
        if package == "shop.v1" {
            bytes(6, &service(extra), &mut file);
        }
        bytes(12, b"proto3", &mut file);
        bytes(1, &file, &mut set);
    }
    set
}

fn last(name: &str) -> &[u8] {
    name.rsplit('.').next().unwrap_or_default().as_bytes()
}

fn message(name: &str, lines: &[Line]) -> Vec<u8> {
    let mut made = Vec::new();
    bytes(1, last(name), &mut made);
    for line in lines {
        bytes(2, &field(line), &mut made);
    }
    for (_, entry, value) in ENTRIES.iter().filter(|(around, ..)| *around == name) {
        let mut nested = Vec::new();
        bytes(1, entry.as_bytes(), &mut nested);
        bytes(2, &field(&(1, "key", "string", "")), &mut nested);
        bytes(2, &field(&(2, "value", value, "")), &mut nested);
        bytes(7, &[0x38, 1], &mut nested);
        bytes(3, &nested, &mut made);
    }
    if lines.iter().any(|(.., is)| *is == "oneof") {
        bytes(8, &[0x0a, 1, b'o'], &mut made);
    }
    made
}

fn field((number, name, kind, is): &Line) -> Vec<u8> {
    let mut made = Vec::new();
    bytes(1, name.as_bytes(), &mut made);
    varint(3, (*number).into(), &mut made);
    varint(4, if *is == "repeated" { 3 } else { 1 }, &mut made);
    let scalar = match *kind {
        "double" => 1,
        "float" => 2,
        "int64" => 3,
        "int32" => 5,
        "fixed64" => 6,
        "bool" => 8,
        "string" => 9,
        "bytes" => 12,
        "sint32" => 17,
        name if ENUMS.iter().any(|(known, _)| *known == name) => 14,
        _ => 11,
    };
    varint(5, scalar, &mut made);
    if kind.contains('.') {
        bytes(6, format!(".{kind}").as_bytes(), &mut made);
    }
    match *is {
        "oneof" => varint(9, 0, &mut made),
        "optional" => varint(17, 1, &mut made),
        _ => {}
    }
    made
}

fn enumeration(name: &str, values: &[&str]) -> Vec<u8> {
    let mut made = Vec::new();
    bytes(1, last(name), &mut made);
    for (value, number) in values.iter().zip(0..) {
        let mut one = Vec::new();
        bytes(1, value.as_bytes(), &mut one);
        varint(2, number, &mut one);
        bytes(2, &one, &mut made);
    }
    made
}

fn service(extra: &[Rule]) -> Vec<u8> {
    let mut made = Vec::new();
    bytes(1, b"Orders", &mut made);
    let extra = [("Extra", "shop.v1.Order", false, false, extra)];
    let extra = extra.iter().filter(|(.., rules)| !rules.is_empty());
    for (name, output, takes_many, gives_many, rules) in METHODS.iter().chain(extra) {
        let mut method = Vec::new();
        bytes(1, name.as_bytes(), &mut method);
        bytes(2, b".shop.v1.Order", &mut method);
        bytes(3, format!(".{output}").as_bytes(), &mut method);
        if let [first, others @ ..] = *rules {
            let mut http = rule(first);
            for other in others {
                bytes(11, &rule(other), &mut http);
            }
            let mut options = Vec::new();
            bytes(72_295_728, &http, &mut options);
            bytes(4, &options, &mut method);
        }
        varint(5, u64::from(*takes_many), &mut method);
        varint(6, u64::from(*gives_many), &mut method);
        bytes(2, &method, &mut made);
    }
    made
}

fn rule((verb, template, body, response): &Rule) -> Vec<u8> {
    let mut made = Vec::new();
    bytes(*verb, template.as_bytes(), &mut made);
    bytes(7, body.as_bytes(), &mut made);
    bytes(12, response.as_bytes(), &mut made);
    made
}

/// Appends a field of bytes.
pub(crate) fn bytes(number: u32, bytes: &[u8], out: &mut Vec<u8>) {
    push(u64::from(number) << 3 | 2, out);
    push(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// Appends a field with a number.
pub(crate) fn varint(number: u32, value: u64, out: &mut Vec<u8>) {
    push(u64::from(number) << 3, out);
    push(value, out);
}

fn push(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(u8::try_from(number & 0x7f).unwrap_or(0) | 0x80);
        number >>= 7;
    }
    out.push(u8::try_from(number).unwrap_or(0));
}

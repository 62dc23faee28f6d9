//! Messages to JSON and back, by the descriptors of a shop.

use std::sync::Arc;

use crate::{
    Bindings, JsonStyle, NoMatch, PREFIX_BYTES, RequestParts, Schema, StatusParts, Transcoder,
    TranslationError,
};

#[path = "../../../../tests/grpc/shop.rs"]
mod shop;

const BYTES_MAX: usize = 1 << 20;

fn transcoder(style: JsonStyle) -> Transcoder {
    let schema = Schema::read(&shop::set()).unwrap();
    let bindings = Bindings::new(&schema, &["shop.v1.Orders"]).unwrap();
    let ignored = vec!["key".into()];
    Transcoder { schema: Arc::new(schema), bindings, style, ignored, bytes_max: BYTES_MAX }
}

/// Returns the body of the call, or the error.
fn call(of: &Transcoder, start: &str, body: &str) -> Result<Vec<u8>, String> {
    let (method, target) = start.split_once(' ').unwrap();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let found = of.find(method.as_bytes(), path.as_bytes()).map_err(|why| format!("{why:?}"))?;
    let content_type = b"text/plain";
    let parts = RequestParts { query: query.as_bytes(), content_type, body: body.as_bytes() };
    of.request(&found, &parts).map_err(|why| match why {
        TranslationError::Wrong(what) => what,
        other => format!("{other:?}"),
    })
}

/// Returns a message as JSON.
fn json(of: &Transcoder, message: &[u8]) -> Result<String, TranslationError> {
    let found = of.find(b"GET", b"/v1/orders/a").unwrap();
    of.reply(of.binding(&found).unwrap(), message)
}

/// Returns what the service would get, as JSON of `Order`.
fn received(start: &str, body: &str) -> Result<String, String> {
    let of = transcoder(JsonStyle::default());
    let sent = call(&of, start, body)?;
    let (prefix, message) = sent.split_at(PREFIX_BYTES);
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    assert_eq!(prefix, [&[0][..], &length].concat());
    json(&of, message).map_err(|why| format!("{why:?}"))
}

#[test]
fn what_is_written_is_read_back() {
    for text in [
        r#"{}"#,
        r#"{"id":"a","totalQuantity":"-9007199254740993","status":"SHIPPED"}"#,
        r#"{"customer":{"name":"Ann","address":{"city":"M\u00fcnchen \"x\"\n"}}}"#,
        r#"{"customer":{},"tags":["a","","b"]}"#,
        r#"{"counts":{"a":1,"b":0,"c":-5}}"#,
        r#"{"created":"2026-01-31T12:30:05.500Z","limit":0,"wait":"-1.500s"}"#,
        r#"{"data":"+/8=","card":""}"#,
        r#"{"cash":0}"#,
        r#"{"extra":{"a":null,"b":[1,"x",true,{"c":{}}],"d":1.5}}"#,
        r#"{"mask":"customer.name,totalQuantity","any":{"@type":"t/shop.v1.Address","city":"B"}}"#,
        r#"{"any":{"@type":"t/google.protobuf.Duration","value":"1s"}}"#,
        r#"{"price":1e300,"sizes":[0,-1,300,-2147483648],"note":0}"#,
        r#"{"price":"NaN","weight":"-Infinity"}"#,
        r#"{"inner":{"inner":{"inner":{"id":"deep"}}},"items":[{"id":"1"},{},{"gift":true}]}"#,
        r#"{"big":"18446744073709551615","status":17}"#,
    ] {
        let expected: serde_json::Value = serde_json::from_str(text).unwrap();
        let read = received("POST /v1/orders", text).unwrap();
        let read: serde_json::Value = serde_json::from_str(&read).unwrap();
        assert_eq!(read, expected, "{text}");
    }
}

#[test]
fn other_spellings_of_values_are_read() {
    for (text, expected) in [
        ("", "{}"),
        (" \n", "{}"),
        (r#"{"total_quantity":5,"status":1}"#, r#"{"totalQuantity":"5","status":"OPEN"}"#),
        (r#"{"totalQuantity":1e3,"note":"7"}"#, r#"{"totalQuantity":"1000","note":7}"#),
        (r#"{"id":null,"customer":null,"tags":null,"card":null,"cash":1}"#, r#"{"cash":1}"#),
        (r#"{"nothing":null,"id":"\u0061"}"#, r#"{"id":"a"}"#),
        (r#"{"id":"","totalQuantity":0,"status":"UNKNOWN","tags":[],"counts":{}}"#, "{}"),
        (r#"{"data":"-_8"}"#, r#"{"data":"+/8="}"#),
        (r#"{"limit":"5","wait":"1s"}"#, r#"{"limit":5,"wait":"1s"}"#),
        (r#"{"created":"2026-01-31T13:30:05+01:00"}"#, r#"{"created":"2026-01-31T12:30:05Z"}"#),
        (r#"{"any":{}}"#, r#"{"any":{}}"#),
        (
            r#"{"any":{"city":"B","@type":"t/shop.v1.Address"}}"#,
            r#"{"any":{"@type":"t/shop.v1.Address","city":"B"}}"#,
        ),
    ] {
        assert_eq!(received("POST /v1/orders", text).as_deref(), Ok(expected), "{text}");
    }
}

#[test]
fn what_does_not_fit_is_refused_with_its_place() {
    let deep = r#"{"inner":"#.repeat(100) + "{}" + &"}".repeat(100);
    for (text, error) in [
        (r#"{"x":1}"#, "/x: the message has no such field"),
        (
            r#"{"customer":{"address":{"x~/y":1}}}"#,
            "/customer/address/x~0~1y: the message has no such field",
        ),
        (r#"{"id":1}"#, "/id: it is not a string"),
        (r#"{"id":["a"]}"#, "/id: it is an array"),
        (r#"{"id":{}}"#, "/id: it is an object"),
        (
            r#"{"totalQuantity":1.5}"#,
            "/totalQuantity: it is not an integer in the range of its type",
        ),
        (r#"{"totalQuantity":true}"#, "/totalQuantity: it is not a number"),
        (r#"{"note":2147483648}"#, "/note: it is not an integer in the range of its type"),
        (r#"{"status":"open"}"#, "/status: it is not a name of the enum"),
        (r#"{"tags":"a"}"#, "/tags: it is not an array"),
        (r#"{"tags":["a",null]}"#, "/tags/1: an item is null"),
        (r#"{"sizes":[1,null]}"#, "/sizes/1: it is null"),
        (r#"{"items":[{},{"items":[{"id":1}]}]}"#, "/items/1/items/0/id: it is not a string"),
        (r#"{"counts":{"a":null}}"#, "/counts/a: a value is null"),
        (r#"{"counts":{"a":1,"a":2}}"#, "/counts/a: the key appears twice"),
        (r#"{"counts":[1]}"#, "/counts: it is not an object"),
        (r#"{"id":"a","id":"b"}"#, "/id: the field appears twice"),
        (r#"{"totalQuantity":1,"total_quantity":1}"#, "/total_quantity: the field appears twice"),
        (r#"{"card":"a","cash":1}"#, "/cash: another field of the same oneof is set"),
        (r#"{"created":"now"}"#, "/created: it is not a time such as `2026-01-31T12:00:00Z`"),
        (r#"{"wait":"1"}"#, "/wait: it is not a duration such as `1.5s`"),
        (r#"{"mask":"a_b"}"#, "/mask: a path of a field mask is written as in JSON, without `_`"),
        (r#"{"data":"a b"}"#, "/data: it is not Base64"),
        (r#"{"gift":"true"}"#, "/gift: it is neither true nor false"),
        (r#"{"weight":1e39}"#, "/weight: it is out of range"),
        (r#"{"extra":{"a":1,"a":2}}"#, "/extra/a: the name appears twice"),
        (r#"{"extra":[]}"#, "/extra: it is not an object"),
        (r#"{"any":{"@type":"t/x.Y"}}"#, "/any/@type: the descriptors have no such type"),
        (r#"{"any":{"city":"a"}}"#, "/any: it has no `@type`"),
        (
            r#"{"any":{"@type":"t/google.protobuf.Duration","value":"1s","x":1}}"#,
            "/any: it has other members than `@type` and `value`",
        ),
        (r#"[]"#, "/: it is not an object"),
        (r#"{"id":"a""#, "/: the JSON is not valid: at byte 9, expected `,` or `}`"),
    ] {
        let read = received("POST /v1/orders", text).unwrap_err();
        let begins = read.split(": the JSON").next() == error.split(": the JSON").next();
        assert!(read == error || begins && error.contains("the JSON"), "{text}: {read}");
    }
    assert!(received("POST /v1/orders", &deep).is_err());
    assert!(received("POST /v1/orders", deep.get(9..deep.len() - 1).unwrap()).is_ok());
}

#[test]
fn path_and_query_set_fields() {
    for (start, body, expected) in [
        ("GET /v1/orders/a%20b%2Fc", "", r#"{"id":"a b/c"}"#),
        (
            "GET /v1/orders/1?total_quantity=5&customer.address.city=B+C&tags=a&tags=%26&status=OPEN",
            "",
            r#"{"id":"1","totalQuantity":"5","status":"OPEN","customer":{"address":{"city":"B C"}},"tags":["a","&"]}"#,
        ),
        (
            "GET /v1/orders/1?limit=0&created=2026-01-31T12:30:05Z&wait=1s&mask=a,bC&data=-_8&gift=true&status=2",
            "",
            r#"{"id":"1","status":"SHIPPED","created":"2026-01-31T12:30:05Z","limit":0,"data":"+/8=","mask":"a,bC","wait":"1s","gift":true}"#,
        ),
        ("GET /v1/orders/1?sizes=1&sizes=-1&key=secret&", "", r#"{"id":"1","sizes":[1,-1]}"#),
        ("PUT /v1/orders/1", r#"{"id":"2","note":3}"#, r#"{"id":"1","note":3}"#),
        ("PUT /v1/orders/1?note=4", r#"{"id":"2"}"#, r#"{"id":"1","note":4}"#),
        ("PUT /v1/orders/1?total_quantity=0", r#"{"totalQuantity":"2"}"#, r#"{"id":"1"}"#),
        (
            "PATCH /v1/customers/a%2Fb%20c/orders/5?note=1",
            r#"{"id":"x"}"#,
            r#"{"id":"5","customer":{"name":"customers/a%2Fb c"},"inner":{"id":"x"},"note":1}"#,
        ),
        ("POST /v1/orders/5:cancel", "{}", r#"{"id":"5"}"#),
        ("GET /v1/files/a/b%2fc/d", "", r#"{"id":"a/b%2fc/d"}"#),
        ("GET /v1/files", "", "{}"),
        ("POST /shop.v1.Orders/Plain", r#"{"id":"p"}"#, r#"{"id":"p"}"#),
    ] {
        assert_eq!(received(start, body).as_deref(), Ok(expected), "{start}");
    }
    for (start, error) in [
        ("GET /v1/orders/1?x=1", "/x: the message has no such field"),
        ("GET /v1/orders/1?=1", "/: the message has no such field"),
        (
            "GET /v1/orders/1?customer=1",
            "/customer: a query parameter cannot set a whole message or a map",
        ),
        (
            "GET /v1/orders/1?counts=1",
            "/counts: a query parameter cannot set a whole message or a map",
        ),
        ("GET /v1/orders/1?items.id=1", "/items.id: a field within a list cannot be set"),
        ("GET /v1/orders/1?id=2", "/id: the path or the body sets the field"),
        ("GET /v1/orders/1?note=1&note=2", "/note: the parameter appears twice"),
        ("GET /v1/orders/1?note=x", "/note: it is not a number"),
        ("GET /v1/orders/1?gift=1", "/gift: it is neither true nor false"),
        ("GET /v1/orders/1?status=x", "/status: it is not a name of the enum"),
        ("GET /v1/orders/1?created.seconds=1", "/created.seconds: the message has no such field"),
        ("GET /v1/orders/1?note=%ff", "/: a query parameter is not UTF-8"),
        ("GET /v1/orders/%ff", "NotUtf8"),
        ("GET /v1/orders/", "UnknownPath"),
        ("GET /v1/orders/a/b", "UnknownPath"),
        ("GET /v2", "UnknownPath"),
        ("DELETE /v1/orders/1", "OtherMethods(\"GET, PUT\")"),
        ("DELETE /v1/orders", "OtherMethods(\"GET, POST\")"),
        ("GET /shop.v1.Orders/Get", "UnknownPath"),
        ("GET /shop.v1.Orders/Plain", "OtherMethods(\"POST\")"),
    ] {
        assert_eq!(received(start, "").unwrap_err(), error, "{start}");
    }
    let deep = format!("GET /v1/orders/1?{}id=x", "inner.".repeat(31));
    assert!(received(&deep, "").is_ok());
    let deep = format!("GET /v1/orders/1?{}id=x", "inner.".repeat(32));
    assert!(received(&deep, "").unwrap_err().ends_with("the field is nested too deep"));
}

#[test]
fn a_stream_of_messages_is_an_array() {
    let of = transcoder(JsonStyle::default());
    let sent = call(&of, "POST /v1/uploads?note=1", r#"[{"id":"a"},{"id":"b"}]"#).unwrap();
    assert_eq!(sent, b"\0\0\0\0\x06\x0a\x01a\x98\x01\x01\0\0\0\0\x03\x0a\x01b");
    assert_eq!(call(&of, "POST /v1/uploads", "[]").unwrap(), b"");
    assert_eq!(call(&of, "POST /v1/uploads", "").unwrap(), b"");
    let error = call(&of, "POST /v1/uploads", r#"[{},{"x":1}]"#).unwrap_err();
    assert_eq!(error, "/1/x: the message has no such field");
    assert_eq!(call(&of, "POST /v1/uploads", "{}").unwrap_err(), "/: it is not an array");
}

/// Fields in any order, in several parts, and repeated, as the wire format allows.
#[test]
fn parts_of_a_message_are_merged() {
    let of = transcoder(JsonStyle::default());
    let mut message = Vec::new();
    shop::bytes(5, b"x", &mut message);
    shop::bytes(1, b"first", &mut message);
    shop::bytes(4, &[0x0a, 1, b'A'], &mut message);
    shop::bytes(10, b"card", &mut message);
    shop::bytes(17, &[1, 2], &mut message);
    shop::varint(17, 3, &mut message);
    shop::varint(11, 7, &mut message);
    shop::bytes(4, &[0x12, 3, 0x0a, 1, b'C'], &mut message);
    shop::bytes(5, b"y", &mut message);
    shop::bytes(1, b"last", &mut message);
    shop::bytes(6, &[0x0a, 1, b'k', 0x10, 1], &mut message);
    shop::bytes(6, &[0x10, 2, 0x0a, 1, b'k'], &mut message);
    shop::bytes(6, &[0x0a, 1, b'z'], &mut message);
    shop::bytes(999, b"unknown", &mut message);
    assert_eq!(
        json(&of, &message).unwrap(),
        r#"{"id":"last","customer":{"name":"A","address":{"city":"C"}},"tags":["x","y"],"counts":{"k":2,"z":0},"cash":7,"sizes":[-1,1,-2]}"#
    );
    // More fields than are sorted at once.
    let mut many = Vec::new();
    for number in 0..3000 {
        shop::varint(17, number, &mut many);
        shop::bytes(5, b"t", &mut many);
    }
    let read: serde_json::Value = serde_json::from_str(&json(&of, &many).unwrap()).unwrap();
    assert_eq!(read["tags"].as_array().unwrap().len(), 3000);
    assert_eq!((&read["sizes"][2], &read["sizes"][2999]), (&1.into(), &(-1500).into()));
}

#[test]
fn defaults_and_names_are_written_as_wanted() {
    let of = transcoder(JsonStyle { proto_names: true, defaults: true });
    assert_eq!(
        json(&of, &[]).unwrap(),
        r#"{"id":"","total_quantity":"0","status":"UNKNOWN","tags":[],"counts":{},"data":"","price":0,"sizes":[],"items":[],"nothing":null,"big":"0","gift":false,"weight":0}"#
    );
}

#[test]
fn bytes_that_are_no_message_are_refused() {
    let of = transcoder(JsonStyle::default());
    let mut deep = Vec::new();
    for _ in 0..100 {
        let inner = std::mem::take(&mut deep);
        shop::bytes(18, &inner, &mut deep);
    }
    for (message, error) in [
        (&b"\x0a\x02a"[..], "/: it is not a message of its type"),
        (b"\x0a\x01\xff", "/id: it is not a message of its type"),
        (b"\x08\x01", "/id: it is not a message of its type"),
        (b"\x22\x02\x08\x01", "/customer/name: it is not a message of its type"),
        (b"\x8a\x01\x01\x80", "/sizes: it is not a message of its type"),
        (b"\x3a\x02\x10\x7f", "/created: "),
        (b"\x62\x05\x0a\x03\x0a\x01a", "/extra/a: a value has no kind"),
    ] {
        let Err(TranslationError::Wrong(what)) = json(&of, message) else {
            assert_eq!(error, "/created: ");
            continue;
        };
        assert_eq!(what, error);
    }
    assert!(matches!(json(&of, &deep), Err(TranslationError::Wrong(_))));
    assert!(json(&of, &deep[4..]).is_ok());
}

#[test]
fn outputs_are_bounded() {
    let text = format!(r#"{{"sizes":[{}0]}}"#, "-1000000000,".repeat(300_000));
    assert_eq!(received("POST /v1/orders", &text).unwrap_err(), "TooLarge");
    let of = transcoder(JsonStyle { proto_names: false, defaults: true });
    let empty = b"\xa2\x01\x00".repeat(100_000);
    assert_eq!(json(&of, &empty), Err(TranslationError::TooLarge));
}

#[test]
fn statuses_have_their_details() {
    let of = transcoder(JsonStyle::default());
    let mut info = Vec::new();
    shop::bytes(1, b"STOCK", &mut info);
    let any = |url: &str, value: &[u8]| {
        let mut any = Vec::new();
        shop::bytes(1, url.as_bytes(), &mut any);
        shop::bytes(2, value, &mut any);
        any
    };
    let mut status = Vec::new();
    shop::varint(1, 9, &mut status);
    shop::bytes(3, &any("type.googleapis.com/google.rpc.ErrorInfo", &info), &mut status);
    shop::bytes(3, &any("type.googleapis.com/x.Unknown", b"\x08\x01"), &mut status);
    shop::bytes(3, &any("type.googleapis.com/google.rpc.ErrorInfo", b"\xff"), &mut status);
    let json = |details| of.status(&StatusParts { code: 9, message: "no \"x\"", details });
    assert_eq!(json(None), r#"{"code":9,"message":"no \"x\"","details":[]}"#);
    assert_eq!(json(Some(&b"\xff"[..])), json(None));
    assert_eq!(
        json(Some(&status)),
        r#"{"code":9,"message":"no \"x\"","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"STOCK"},{"@type":"type.googleapis.com/x.Unknown","value":"CAE="},{"@type":"type.googleapis.com/google.rpc.ErrorInfo","value":"/w=="}]}"#
    );
}

#[test]
fn bodies_of_any_type_pass_as_they_are() {
    let of = transcoder(JsonStyle::default());
    let found = of.find(b"GET", b"/v1/files/a").unwrap();
    let mut message = Vec::new();
    shop::bytes(1, b"text/csv", &mut message);
    shop::bytes(2, b"a,b", &mut message);
    let body = of.http_body(of.binding(&found).unwrap(), &message).unwrap();
    assert_eq!((body.content_type, body.data), ("text/csv", &b"a,b"[..]));
    let found = of.find(b"GET", b"/v1/orders/a").unwrap();
    assert_eq!(of.http_body(of.binding(&found).unwrap(), &message), None);
}

#[test]
fn one_field_of_a_reply_may_be_its_body() {
    let of = transcoder(JsonStyle::default());
    let found = of.find(b"PATCH", b"/v1/customers/a/orders/1").unwrap();
    let binding = of.binding(&found).unwrap();
    assert_eq!(of.reply(binding, b"\x92\x01\x03\x0a\x01x").unwrap(), r#"{"id":"x"}"#);
    assert_eq!(of.reply(binding, b"").unwrap(), "null");
}

#[test]
fn wrong_descriptors_are_explained() {
    for wrong in [&b""[..], b"syntax = \"proto3\";", b"\x0a\x01", b"\0", &[0xff; 20]] {
        assert_eq!(Schema::read(wrong).unwrap_err(), ["it is not a descriptor set"]);
    }
    let mut file = Vec::new();
    shop::bytes(1, b"a.proto", &mut file);
    shop::bytes(3, b"google/api/annotations.proto", &mut file);
    let mut set = Vec::new();
    shop::bytes(1, &file, &mut set);
    assert_eq!(
        Schema::read(&set).unwrap_err(),
        ["`google/api/annotations.proto`, which `a.proto` imports, is not in it"]
    );
    let whole = shop::set();
    for len in 0..whole.len() {
        // It must not panic.
        let _ = Schema::read(&whole[..len]);
    }
}

#[test]
fn wrong_rules_are_explained() {
    for (rule, error) in [
        ((2, "v1/x", "", ""), "`GET v1/x` of `shop.v1.Orders/Extra`: it does not begin with `/`"),
        (
            (2, "/x/{nope}", "", ""),
            "`GET /x/{nope}` of `shop.v1.Orders/Extra`: the variable `nope`: the message has no such field",
        ),
        (
            (2, "/x/{tags}", "", ""),
            "`GET /x/{tags}` of `shop.v1.Orders/Extra`: the variable `tags` is a list",
        ),
        (
            (2, "/x/{customer}", "", ""),
            "`GET /x/{customer}` of `shop.v1.Orders/Extra`: the variable `customer` is a message",
        ),
        (
            (4, "/x", "nope", ""),
            "`POST /x` of `shop.v1.Orders/Extra`: `nope` is not a field of the message",
        ),
        (
            (4, "/x", "*", "nope"),
            "`POST /x` of `shop.v1.Orders/Extra`: `nope` is not a field of the message",
        ),
        (
            (2, "/v1/orders/{note}", "", ""),
            "`GET /v1/orders/{note}` of `shop.v1.Orders/Extra`: `shop.v1.Orders/Get` has the same paths, with `/v1/orders/{id}`",
        ),
    ] {
        let schema = Schema::read(&shop::set_with(&[rule])).unwrap();
        assert_eq!(Bindings::new(&schema, &["shop.v1.Orders"]).unwrap_err(), [error]);
    }
}

#[test]
fn the_most_specific_template_wins() {
    let rules = [
        (2, "/t/a/b", "", ""),
        (2, "/t/a/{id}", "", ""),
        (2, "/t/{id}/b", "", ""),
        (2, "/t/{id=**}", "", ""),
        (2, "/t/{id=**}:go", "", ""),
        (4, "/t/a/b", "*", ""),
    ];
    let schema = Schema::read(&shop::set_with(&rules)).unwrap();
    let bindings = Bindings::new(&schema, &["shop.v1.Orders"]).unwrap();
    let template = |method: &[u8], path: &str| {
        let found = bindings.find(method, path.as_bytes())?;
        Ok::<_, NoMatch>(format!("{} {:?}", bindings.all()[found.binding].template, found.values))
    };
    for (path, expected) in [
        ("/t/a/b", "/t/a/b []"),
        ("/t/a/c", "/t/a/{id} [\"c\"]"),
        ("/t/c/b", "/t/{id}/b [\"c\"]"),
        ("/t/a/b/c", "/t/{id=**} [\"a/b/c\"]"),
        ("/t", "/t/{id=**} [\"\"]"),
        ("/t/c/d:go", "/t/{id=**}:go [\"c/d\"]"),
        ("/t/a/b:stop", "/t/a/{id} [\"b:stop\"]"),
        ("/t/%61/b", "/t/a/b []"),
    ] {
        assert_eq!(template(b"GET", path).as_deref(), Ok(expected), "{path}");
    }
    assert_eq!(template(b"POST", "/t/a/c"), Err(NoMatch::OtherMethods("GET".to_owned())));
}

/// Changes one byte at a time. Nothing may panic, and what is written is JSON and can be read back.
#[test]
fn damaged_input_is_refused_or_read() {
    let of = transcoder(JsonStyle::default());
    let text = r#"{"id":"a","counts":{"a":1},"customer":{"address":{"city":"B"}},"created":"2026-01-31T12:30:05Z","extra":{"a":[1]},"any":{"@type":"t/shop.v1.Address","city":"B"},"sizes":[1,-1]}"#;
    let message = call(&of, "POST /v1/orders", text).unwrap().split_off(PREFIX_BYTES);
    for at in 0..message.len() {
        for byte in 0..=255 {
            let mut damaged = message.clone();
            damaged[at] = byte;
            if let Ok(json) = json(&of, &damaged) {
                let _: serde_json::Value = serde_json::from_str(&json).unwrap();
            }
        }
        let _ = json(&of, &message[..at]);
    }
    for at in 0..text.len() {
        for byte in b" ,:{}[]\"\\0-.eEtn\x80" {
            let mut damaged = text.as_bytes().to_vec();
            damaged[at] = *byte;
            let Ok(damaged) = String::from_utf8(damaged) else { continue };
            if let Ok(sent) = call(&of, "POST /v1/orders", &damaged) {
                assert!(json(&of, &sent[PREFIX_BYTES..]).is_ok(), "{damaged}");
            }
        }
    }
}

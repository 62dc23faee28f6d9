//! Messages and descriptors: no panic, replies that are JSON, and JSON that is the same after a message was written from it and read back.

#![no_main]

use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use protobuf::{Bindings, JsonStyle, PREFIX_BYTES, RequestParts, Schema, StatusParts, Transcoder};

#[path = "../../tests/grpc/shop.rs"]
mod shop;

static SHOP: LazyLock<Transcoder> = LazyLock::new(|| {
    let schema = Schema::read(&shop::set()).unwrap();
    let bindings = Bindings::new(&schema, &["shop.v1.Orders"]).unwrap();
    let (style, ignored) = (JsonStyle::default(), Vec::new());
    Transcoder { schema: Arc::new(schema), bindings, style, ignored, bytes_max: 1 << 24 }
});

fuzz_target!(|bytes: &[u8]| {
    let of = &*SHOP;
    let _ = Schema::read(bytes);
    let found = of.find(b"POST", b"/v1/orders").unwrap();
    let binding = of.binding(&found).unwrap();
    if let Ok(json) = of.reply(binding, bytes) {
        let _read: serde_json::Value = serde_json::from_str(&json).unwrap();
    }
    let status = of.status(&StatusParts { code: 2, message: "m", details: Some(bytes) });
    let _read: serde_json::Value = serde_json::from_str(&status).unwrap();
    let parts = RequestParts { query: b"", content_type: b"", body: bytes };
    if let Ok(message) = of.request(&found, &parts) {
        let json = of.reply(binding, &message[PREFIX_BYTES..]).unwrap();
        let parts = RequestParts { body: json.as_bytes(), ..parts };
        let again = of.request(&found, &parts).unwrap();
        assert_eq!(of.reply(binding, &again[PREFIX_BYTES..]).unwrap(), json);
    }
    let parts = RequestParts { query: bytes, body: b"{}", ..parts };
    let _ = of.request(&found, &parts);
    let _ = of.find(b"GET", bytes);
});

//! Documents of any bytes against a schema that uses everything: no panic, and a stream says what a tree says.
#![no_main]

use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use xsd::{Bounds, Limits, NoDocuments, Root, Schema, SchemaSet, Validator};

static SCHEMA: LazyLock<Arc<Schema>> = LazyLock::new(|| {
    let text = include_bytes!("../seeds/xsd_schema/everything.xsd");
    let mut set = SchemaSet::new(&NoDocuments, Limits::default());
    set.add_bytes(text, "everything.xsd");
    Arc::new(set.compile().expect("the schema keeps the rules"))
});

fuzz_target!(|bytes: &[u8]| {
    let options = xml::Options::default();
    let mut validator = Validator::new(Arc::clone(&SCHEMA), Root::Lax, Bounds::default());
    if validator.validate(bytes, &options).is_err() {
        return;
    }
    let codes = |v: &Validator| v.invalid().iter().map(|i| i.code).collect::<Vec<_>>();
    let streamed = codes(&validator);
    if let Ok(document) = xml::Document::parse(bytes, &options)
        && let Some(root) = document.root_element()
    {
        validator.validate_tree(&document, root);
        assert_eq!(streamed, codes(&validator));
    }
});

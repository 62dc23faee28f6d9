//! Tests the switch of docs/adr/0025. It applies to the whole process, so another test here could see it change.

use xml::{Document, Options};

#[test]
fn without_shortcuts_all_levels_have_nodes() {
    let (bytes, options) = (b"<a><b><c>x</c></b></a>", Options::default());
    let first_levels = || Document::parse_levels(bytes, &options, 2, 100).unwrap();
    let whole = Document::parse(bytes, &options).unwrap();
    xml::set_shortcuts(true);
    assert!(first_levels().len() < whole.len());
    xml::set_shortcuts(false);
    assert_eq!(first_levels().len(), whole.len());
}

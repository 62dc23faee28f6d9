//! JSON as XML and back: what each form becomes, and what is refused.

use super::*;
use crate::view::read_json;

fn json(text: &str) -> std::sync::Arc<JsonText> {
    read_json(text, false).unwrap()
}

fn xml(text: &str) -> Result<String, Kind> {
    to_xml(&json(text), "r", Marks::None, Sender::Client).map_err(|fault| fault.kind)
}

/// Writes an element as JSON, with types, and with these paths as arrays.
fn as_json(text: &str, arrays: &[&str]) -> Result<String, Kind> {
    let document = Document::parse(text.as_bytes(), &xml::Options::default()).unwrap();
    let root = document.root_element().unwrap();
    let arrays: Vec<Box<str>> = arrays.iter().map(|array| (*array).into()).collect();
    let writer = ToJson {
        document: &document,
        root: document.name(root).local,
        arrays: &arrays,
        types: true,
        last_counts: false,
        sender: Sender::Upstream,
    };
    writer.write(Some(root)).map_err(|fault| fault.kind)
}

#[test]
fn members_become_elements_attributes_and_text() {
    for (text, expected) in [
        ("{}", "<r></r>"),
        ("null", "<r></r>"),
        ("\"a<&\"", "<r>a&lt;&amp;</r>"),
        ("1.50", "<r>1.50</r>"),
        (r#"{"a":1,"b":{"c":true}}"#, "<r><a>1</a><b><c>true</c></b></r>"),
        (r#"{"a":[1,[2,3],{}]}"#, "<r><a>1</a><a><item>2</item><item>3</item></a><a></a></r>"),
        (r#"{"a":[]}"#, "<r></r>"),
        ("[1,2]", "<r><item>1</item><item>2</item></r>"),
        (r##"{"@id":"x\"<","#text":"t"}"##, "<r id=\"x&quot;&lt;\">t</r>"),
        // Only a scalar can be an attribute or a text.
        (r#"{"@id":{"a":1}}"#, "<r><_x0040_id><a>1</a></_x0040_id></r>"),
        (r#"{"1 a":null,"":2}"#, "<r><_x0031__x0020_a></_x0031__x0020_a><_x_>2</_x_></r>"),
    ] {
        assert_eq!(xml(text).as_deref(), Ok(expected), "{text}");
    }
}

#[test]
fn what_xml_cannot_represent_is_refused_and_not_dropped() {
    assert_eq!(xml(r#"{"@xmlns":"urn:a"}"#), Err(Kind::RequestInvalid));
    for text in [r#"{"a":"\u0000"}"#, r#"{"@a":"\u0001"}"#, r##"{"#text":"\uffff"}"##] {
        assert_eq!(xml(text), Err(Kind::Template), "{text}");
    }
    let fault = to_xml(&json(r#""\u0000""#), "r", Marks::None, Sender::Client).unwrap_err();
    assert_eq!(fault.side(), Side::Client);
    let fault = to_xml(&json(r#""\u0000""#), "r", Marks::None, Sender::Upstream).unwrap_err();
    assert_eq!(fault.side(), Side::Upstream);
}

#[test]
fn lists_are_marked_as_their_reader_needs() {
    let text = json(r#"{"a":[],"b":[1],"c":[1,2]}"#);
    for (marks, expected) in [
        (Marks::None, "<r><b>1</b><c>1</c><c>2</c></r>"),
        (Marks::Empty, "<r><?xml-multiple a?><b>1</b><c>1</c><c>2</c></r>"),
        (
            Marks::All,
            "<r><?xml-multiple a?><?xml-multiple b?><b>1</b><?xml-multiple c?><c>1</c><c>2</c></r>",
        ),
    ] {
        let made = to_xml(&text, "r", marks, Sender::Flow).unwrap();
        assert_eq!(made, expected, "{marks:?}");
    }
}

#[test]
fn elements_become_members_and_repeated_ones_arrays() {
    for (text, arrays, expected) in [
        ("<r/>", &[][..], r#"{"r":""}"#),
        ("<r> t </r>", &[], r#"{"r":" t "}"#),
        ("<r><a>1</a></r>", &[], r#"{"r":{"a":1}}"#),
        ("<r><a>1</a><b/><a>x</a></r>", &[], r#"{"r":{"a":[1,"x"],"b":""}}"#),
        ("<r><a>1</a></r>", &["a"], r#"{"r":{"a":[1]}}"#),
        ("<r><a>1</a></r>", &["r/a"], r#"{"r":{"a":[1]}}"#),
        ("<r><b><a>1</a></b></r>", &["a"], r#"{"r":{"a":[],"b":{"a":1}}}"#),
        ("<r><b><a>1</a></b></r>", &["b/a"], r#"{"r":{"b":{"a":[1]}}}"#),
        ("<r/>", &["a", "r/a"], r#"{"r":{"a":[]}}"#),
        ("<r><?xml-multiple a?></r>", &[], r#"{"r":{"a":[]}}"#),
        ("<r><?xml-multiple a?><a>1</a></r>", &[], r#"{"r":{"a":[1]}}"#),
        ("<r x='1'>t<!-- c --><a/>u</r>", &[], r##"{"r":{"@x":1,"a":"","#text":"tu"}}"##),
        ("<p:r xmlns:p='urn:p'><p:a>1</p:a></p:r>", &[], r#"{"r":{"a":1}}"#),
        ("<r><_x0031__x0020_a/></r>", &[], r#"{"r":{"1 a":""}}"#),
    ] {
        assert_eq!(as_json(text, arrays).as_deref(), Ok(expected), "{text}");
    }
    let doubled = "<r xmlns:p='urn:p' x='1' p:x='2'/>";
    assert_eq!(as_json(doubled, &[]), Err(Kind::ReplyInvalid));
}

#[test]
fn only_plain_numbers_and_truths_are_typed() {
    for (text, expected) in [
        ("0", "0"),
        ("-1.5", "-1.5"),
        ("true", "true"),
        ("TRUE", "\"TRUE\""),
        ("1e3", "\"1e3\""),
        ("007", "\"007\""),
        (" 1", "\" 1\""),
        ("+1", "\"+1\""),
        ("NaN", "\"NaN\""),
        ("", "\"\""),
    ] {
        let made = as_json(&format!("<r><a>{text}</a><b>x</b></r>"), &[]).unwrap();
        assert_eq!(made, format!(r#"{{"r":{{"a":{expected},"b":"x"}}}}"#), "{text}");
    }
}

/// Steps work on JSON as XML, so a message that no step changes must come back as it was.
#[test]
fn json_comes_back_from_its_xml_form() {
    for text in [
        "[]",
        "[1]",
        r#"[{"a":1},{"a":[]}]"#,
        r#"{"a":1,"b":[1],"c":[],"d":[1,2]}"#,
        r#"{"a":{"b":{"c":"x"}},"e f":true}"#,
        r#"{"a":[{"b":[1]},{"b":[]}]}"#,
    ] {
        let made = json_as_xml(&json(text), Sender::Client, Marks::All).unwrap();
        let around = format!("<around>{made}</around>");
        let document = Document::parse(around.as_bytes(), &xml::Options::default()).unwrap();
        let root = document.root_element().unwrap();
        let back = xml_as_json(&document, root, Sender::Client).unwrap();
        let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(value(&back), value(text), "{made}");
    }
}

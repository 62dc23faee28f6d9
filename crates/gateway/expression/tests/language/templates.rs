//! The output of templates: no value breaks out of its place.

use expression::{Budget, FailureKind, Kind, Limits, Template, Value};
use proptest::prelude::*;

use crate::message::{Message, text};

fn fill(template: &str, kind: Kind, message: &Message) -> Result<String, FailureKind> {
    let compiled = Template::compile(template, kind, message);
    let compiled = compiled.unwrap_or_else(|error| panic!("{template}: {error}"));
    compiled.fill(message, &mut Budget::default()).map_err(|failure| failure.kind)
}

fn xml() -> Message {
    Message::xml(r#"<p:e xmlns:p="urn:p" xmlns:q="urn:q" xmlns:u="urn:u"><a x="1&amp;2">b &lt; c</a><p:d t="q:n"/><!--c--></p:e>"#)
        .with("v", text(r#"<&>"']]>"#))
}

#[test]
fn values_are_written_as_their_place_demands() {
    let message = xml();
    for (kind, template, expected) in [
        (Kind::Xml, "<r>{{ $v }}</r>", r#"<r>&lt;&amp;&gt;"']]&gt;</r>"#),
        (
            Kind::Xml,
            r#"<r a="{{ $v }}" b='{{$v}}'/>"#,
            r#"<r a="&lt;&amp;&gt;&quot;&#39;]]&gt;" b='&lt;&amp;&gt;&quot;&#39;]]&gt;'/>"#,
        ),
        (
            Kind::Xml,
            "<r><![CDATA[{{ $v }}]]></r>",
            r#"<r><![CDATA[<&]]>&gt;<![CDATA["']]]]>&gt;<![CDATA[]]></r>"#,
        ),
        (Kind::Xml, "<r>{{ $body/a }}</r>", r#"<r><a x="1&amp;2">b &lt; c</a></r>"#),
        (
            Kind::Xml,
            "<r xmlns='urn:r'>{{ $body/a }}</r>",
            r#"<r xmlns='urn:r'><a xmlns="" x="1&amp;2">b &lt; c</a></r>"#,
        ),
        (Kind::Xml, "<r>{{ $body/a/@x }}{{ $body/a/text() }}</r>", "<r>1&amp;2b &lt; c</r>"),
        (
            Kind::Xml,
            "<r>{{ $body/* }}</r>",
            r#"<r><a x="1&amp;2">b &lt; c</a><p:d xmlns:p="urn:p" xmlns:q="urn:q" t="q:n"/></r>"#,
        ),
        (Kind::Xml, "<r>{{ $body/comment() }}</r>", "<r><!--c--></r>"),
        (Kind::Xml, "<r a='{{ $body/a }}'/>", "<r a='b &lt; c'/>"),
        (Kind::Xml, "<r>{{ count($body/*) }}{{ '}}' }}</r>", "<r>2}}</r>"),
        (Kind::Xml, "<?xml version='1.0'?><r/>", "<?xml version='1.0'?><r/>"),
        (Kind::Xml, "<a/>{{ $v }}<b/>", r#"<a/>&lt;&amp;&gt;"']]&gt;<b/>"#),
        (Kind::Xml, "<r>{{ $status }}></r>", "<r>200&gt;</r>"),
        (
            Kind::Json,
            r#"{"a": {{ $status }}, "b": "{{ $v }}", "c": {{ $v }}, "d": {{ $body/a }}}"#,
            r#"{"a": 200, "b": "<&>\"']]>", "c": "<&>\"']]>", "d": "b < c"}"#,
        ),
        (Kind::Json, r#"{"a":{"b":{{ $status = 200 }}}}"#, r#"{"a":{"b":true}}"#),
        (Kind::Json, "{{ $absent }}", "\"\""),
        (Kind::Text, "a {{ $v }}\n{{ $body/a }}", "a <&>\"']]>\nb < c"),
        (Kind::Line, "x={{ $status }}\t{{ $v }}", "x=200\t<&>\"']]>"),
        (
            Kind::Path,
            "/a/{{ $v }}?x={{ $v }}",
            "/a/%3C%26%3E%22%27%5D%5D%3E?x=%3C%26%3E%22%27%5D%5D%3E",
        ),
        (Kind::Query, "a={{ $v }}&b={{ $status }}", "a=%3C%26%3E%22%27%5D%5D%3E&b=200"),
    ] {
        assert_eq!(fill(template, kind, &message).as_deref(), Ok(expected), "{template}");
    }
}

#[test]
fn json_goes_in_to_the_digit() {
    let message = Message::json(
        r#"{"n": 1.10, "big": 12345678901234567890123, "a": [1, {"x": null}], "s": "\u0041"}"#,
    );
    let template = r#"{"n": {{ $body.n }}, "big": {{ $body.big }}, "a": {{ $body.a }}, "all": {{ $body.a[*] }}, "s": {{ $body.s }}, "t": "{{ $body.a }}"}"#;
    let expected = r#"{"n": 1.10, "big": 12345678901234567890123, "a": [1, {"x": null}], "all": [1,{"x": null}], "s": "\u0041", "t": "[1, {\"x\": null}]"}"#;
    assert_eq!(fill(template, Kind::Json, &message).unwrap(), expected);
}

#[test]
fn what_cannot_be_put_in_safely_does_not_compile() {
    let message = xml();
    for (kind, template, place, part) in [
        (Kind::Xml, "<{{ $v }}/>", "1:2", "within a tag"),
        (Kind::Xml, "<a {{ $v }}='1'/>", "1:4", "within a tag"),
        (Kind::Xml, "<a b={{ $v }}/>", "1:6", "within a tag"),
        (Kind::Xml, "<a></{{ $v }}>", "1:6", "within a tag"),
        (Kind::Xml, "<a><!-- {{ $v }} --></a>", "1:9", "into a comment"),
        (Kind::Xml, "<a><?p {{ $v }}?></a>", "1:8", "processing instruction"),
        (Kind::Xml, "<?xml version='{{ $v }}'?><a/>", "1:16", "processing instruction"),
        (Kind::Xml, "<a xmlns:b='{{ $v }}'/>", "1:13", "a namespace"),
        (Kind::Xml, "<a xmlns = \"{{ $v }}\"/>", "1:13", "a namespace"),
        (Kind::Xml, "<!DOCTYPE a><a/>", "1:1", "cannot have a document type"),
        (Kind::Xml, "<a>", "1:4", "found the end, expected `</a>`"),
        (Kind::Xml, "</r><r>", "1:", "not well-formed"),
        (Kind::Xml, "<a>\n<x:b/></a>", "2:", "not well-formed"),
        (Kind::Xml, "<a>&nope;</a>", "1:", "not well-formed"),
        (Kind::Json, "{ {{ $v }}: 1 }", "1:3", "not JSON"),
        (Kind::Json, "1{{ $v }}", "1:2", "not JSON"),
        (Kind::Json, "[{{ $v }}{{ $v }}]", "1:10", "not JSON"),
        (Kind::Json, r#"["\{{ $v }}"]"#, "1:", "not JSON"),
        (Kind::Json, r#"["\u00{{ $v }}"]"#, "1:", "not JSON"),
        (Kind::Json, "", "1:1", "not JSON"),
        (Kind::Line, "a\r\nb", "1:2", "U+000D"),
        (Kind::Path, "/a b", "1:3", "percent-encoded"),
        (Kind::Path, "/%4{{ $v }}", "1:4", "percent escape"),
        (Kind::Query, "a=#", "1:3", "percent-encoded"),
        (Kind::Text, "a {{ $v", "1:3", "no `}}`"),
        (Kind::Text, "a {{ }}", "1:3", "is missing"),
        (Kind::Text, "a\n{{ $nope }}", "2:4", "there is no `$nope`"),
        (Kind::Text, "{{ $v[ }}", "1:7", ""),
    ] {
        let error = Template::compile(template, kind, &message).unwrap_err();
        assert!(error.to_string().contains(part), "{template}: {error}");
        assert!(error.at.to_string().starts_with(place), "{template}: {error}");
    }
}

#[test]
fn what_must_not_stand_there_fails() {
    let forbidden = |character: char| move |kind: &FailureKind| matches!(kind, FailureKind::Forbidden { character: found, .. } if *found == character);
    for (kind, template, value, character) in [
        (Kind::Xml, "<a>{{ $v }}</a>", "\0", '\0'),
        (Kind::Xml, "<a b='{{ $v }}'/>", "x\u{1}", '\u{1}'),
        (Kind::Xml, "<a><![CDATA[{{ $v }}]]></a>", "\u{FFFE}", '\u{FFFE}'),
        (Kind::Line, "{{ $v }}", "a\r\nX: 1", '\r'),
        (Kind::Line, "{{ $v }}", "a\n", '\n'),
        (Kind::Line, "{{ $v }}", "a\0", '\0'),
        (Kind::Line, "{{ $v }}", "\u{7f}", '\u{7f}'),
    ] {
        let kind = fill(template, kind, &Message::default().with("v", text(value))).unwrap_err();
        assert!(forbidden(character)(&kind), "{template} {value:?}: {kind}");
    }
    for value in ["", ".", "..", "%2e"] {
        let message = Message::default().with("v", text(value));
        let filled = fill("/a/{{ $v }}/b", Kind::Path, &message);
        let refused = matches!(filled, Err(FailureKind::Segment(_)));
        assert_eq!(refused, value != "%2e", "{value}: {filled:?}");
        assert!(
            matches!(fill("/a/.{{ $v }}", Kind::Path, &message), Err(FailureKind::Segment(_)))
                == matches!(value, "" | "."),
            "{value}"
        );
    }
    let not_text = Message::default().with("v", Value::Bytes(vec![0xFF].into()));
    assert_eq!(fill("{{ $v }}", Kind::Text, &not_text), Err(FailureKind::NotText));
}

#[test]
fn output_is_held_to_the_budget() {
    let message =
        Message::xml(&format!("<a>{}</a>", "x".repeat(1000))).with("v", text(&"&".repeat(1000)));
    let limits = Limits { output_bytes_max: 4000, ..Limits::default() };
    for (kind, template, fits) in [
        (Kind::Xml, "<r>{{ $v }}</r>", false),
        (Kind::Xml, "<r>{{ $body }}{{ $body }}</r>", true),
        (Kind::Xml, "<r>{{ $body }}{{ $body }}{{ $body }}{{ $body }}</r>", false),
        (Kind::Text, "{{ $v }}{{ $v }}", true),
        (Kind::Text, "{{ $v }}{{ $v }}{{ $v }}{{ $v }}{{ $v }}", false),
        (Kind::Query, "a={{ $v }}{{ $v }}", false),
        (Kind::Json, "[{{ $v }},{{ $v }},{{ $v }},{{ $v }}]", false),
    ] {
        let filled = Template::compile(template, kind, &message)
            .unwrap()
            .fill(&message, &mut Budget::new(limits.clone()));
        match filled {
            Ok(_) => assert!(fits, "{template}"),
            Err(failure) => {
                assert!(!fits, "{template}: {failure}");
                assert_eq!(
                    failure.kind,
                    FailureKind::Limit { name: "output_bytes_max", max: 4000 }
                );
            }
        }
    }
}

/// Kinds and names of all nodes but texts, and where elements end.
fn structure(text: &str) -> Result<Vec<String>, xml::Error> {
    let wrapped = format!("<r>{text}</r>");
    let document = xml::Document::parse(wrapped.as_bytes(), &xml::Options::default())?;
    let nodes = (0..document.len()).map(xml::NodeId);
    let nodes = nodes.filter(|node| document.kind(*node) != xml::Kind::Text);
    let named = |node: xml::NodeId| {
        let above = std::iter::successors(Some(node), |node| document.parent(*node)).count();
        format!("{:?} {} {above}", document.kind(node), document.name(node).local)
    };
    Ok(nodes.map(named).collect())
}

const XML: &str = "<a b=\"x\" c='y'>t]]<!-- c --><![CDATA[d]>e]]x>f]]]>]>g]]x>h<?p q?>&amp;<e xmlns='urn:e'><f/></e></a>";
const JSON: &str = r#"{"a": [1, "b\n\\", {}], "c\"": null, "\u0041": true}"#;

/// Returns templates with a placeholder at every place of a text where one is allowed.
fn everywhere(source: &str, kind: Kind) -> Vec<(String, Template)> {
    let message = Message::default().with("v", text(""));
    let places = (0..=source.len())
        .flat_map(|from| (from..=source.len().min(from + 1)).map(move |to| (from, to)));
    let templates =
        places.map(|(from, to)| format!("{}{{{{ $v }}}}{}", &source[..from], &source[to..]));
    let compiled = templates
        .filter_map(|text| Some((text.clone(), Template::compile(&text, kind, &message).ok()?)));
    compiled.collect()
}

/// Returns the structure of JSON: kinds of values and their number of children.
fn shape(text: &str) -> Result<Vec<(bool, bool, u32)>, json::JsonError> {
    let mut tape = Vec::new();
    json::read(text, &json::Limits { depth_max: 100, entries_max: 1000 }, &mut tape)?;
    let is_string = |kind| matches!(kind, json::Kind::Plain | json::Kind::Escaped);
    Ok(tape.iter().map(|e| (is_string(e.kind), e.kind == json::Kind::Object, e.next)).collect())
}

fn hostile() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("<"),
        Just(">"),
        Just("&"),
        Just("\""),
        Just("'"),
        Just("]]>"),
        Just("]"),
        Just("]]"),
        Just("\r"),
        Just("\n"),
        Just("\t"),
        Just("{{"),
        Just("}}"),
        Just("{"),
        Just("}"),
        Just("\\"),
        Just("\\u"),
        Just("--"),
        Just("?>"),
        Just("/"),
        Just(".."),
        Just("."),
        Just("%2e"),
        Just("%"),
        Just("&amp;"),
        Just("<!--"),
        Just("<![CDATA["),
        Just("#"),
        Just("?"),
        Just(" "),
        Just(","),
        Just(":"),
        Just("a"),
        Just("é"),
        Just("{{ $v }}"),
        Just(" xmlns='x'"),
        Just("1"),
    ];
    prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

#[test]
fn placeholders_find_their_places() {
    // Ensures that the properties below test something.
    assert!(everywhere(XML, Kind::Xml).len() > 20);
    assert!(everywhere(JSON, Kind::Json).len() > 10);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_value_breaks_out_of_xml(value in hostile()) {
        let message = Message::default().with("v", text(&value));
        let plain = Message::default().with("v", text("x"));
        for (template, compiled) in everywhere(XML, Kind::Xml) {
            let fill = |message: &Message| compiled.fill(message, &mut Budget::default()).unwrap();
            let made = structure(&fill(&message));
            prop_assert!(made.is_ok(), "{template} with {value:?}: {made:?}");
            prop_assert_eq!(made.unwrap(), structure(&fill(&plain)).unwrap(), "{} with {:?}", template, value);
        }
        // The value comes back as it was.
        let template = r#"<a b="{{ $v }}" c='{{ $v }}'>{{ $v }}<![CDATA[{{ $v }}]]]><d/>{{ $v }}]></a>"#;
        let made = fill(template, Kind::Xml, &message).unwrap();
        let document = xml::Document::parse(made.as_bytes(), &xml::Options::default()).unwrap();
        let root = document.root_element().unwrap();
        prop_assert_eq!(document.attribute(root, "", "b"), Some(&*value));
        prop_assert_eq!(document.attribute(root, "", "c"), Some(&*value));
        prop_assert_eq!(document.string_value(root), format!("{value}{value}]{value}]>"));
    }

    #[test]
    fn no_value_breaks_out_of_json(value in hostile()) {
        let message = Message::default().with("v", text(&value));
        let plain = Message::default().with("v", text("x"));
        for (template, compiled) in everywhere(JSON, Kind::Json) {
            let fill = |message: &Message| compiled.fill(message, &mut Budget::default()).unwrap();
            let made = shape(&fill(&message));
            prop_assert!(made.is_ok(), "{template} with {value:?}: {made:?}");
            prop_assert_eq!(made.unwrap(), shape(&fill(&plain)).unwrap(), "{} with {:?}", template, value);
        }
        let made = fill(r#"{"a": {{ $v }}, "b": "-{{ $v }}-"}"#, Kind::Json, &message).unwrap();
        let made: serde_json::Value = serde_json::from_str(&made).unwrap();
        prop_assert_eq!(&made["a"], &*value);
        prop_assert_eq!(&made["b"], &*format!("-{value}-"));
    }

    #[test]
    fn no_value_breaks_out_of_lines_and_paths(value in hostile()) {
        let message = Message::default().with("v", text(&value));
        match fill("a {{ $v }} b", Kind::Line, &message) {
            Ok(line) => prop_assert_eq!(line, format!("a {value} b")),
            Err(_) => prop_assert!(value.contains(['\r', '\n'])),
        }
        match fill("/a/{{ $v }}/b?x={{ $v }}&y=1", Kind::Path, &message) {
            Ok(target) => {
                prop_assert!(target.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#'));
                let (path, query) = target.split_once('?').unwrap();
                let segments: Vec<&str> = path.split('/').collect();
                prop_assert_eq!(segments.len(), 4);
                let decoded = |text: &str| kit::percent::decoded(text.as_bytes(), true).into_owned();
                prop_assert_eq!(decoded(segments[2]), value.as_bytes());
                let pairs: Vec<&str> = query.split('&').collect();
                prop_assert_eq!(pairs.len(), 2);
                prop_assert_eq!(decoded(pairs[0].strip_prefix("x=").unwrap()), value.as_bytes());
            }
            Err(_) => prop_assert!(matches!(&*value, "" | "." | "..")),
        }
    }

    /// No text makes any of the compilers panic, and a compiled text runs.
    #[test]
    fn any_text_may_be_compiled(source in hostile()) {
        let message = Message::json("{\"a\": [1]}").with("v", text("x"));
        for kind in [Kind::Xml, Kind::Json, Kind::Text, Kind::Line, Kind::Path, Kind::Query] {
            for source in [source.clone(), format!("<a>{source}{{{{ $v }}}}</a>")] {
                if let Ok(template) = Template::compile(&source, kind, &message) {
                    drop(template.fill(&message, &mut Budget::default()));
                }
            }
        }
    }
}

#[test]
fn nodes_mean_the_same_where_they_are_put() {
    let message = Message::xml(
        r#"<e xmlns="urn:e" xmlns:x="urn:x" xmlns:unused="urn:u"><a y="x:t"><x:b z="1"/></a></e>"#,
    );
    let made = fill("<r xmlns='urn:r'>{{ $body/* }}</r>", Kind::Xml, &message).unwrap();
    assert!(!made.contains("unused"), "{made}");
    let document = xml::Document::parse(made.as_bytes(), &xml::Options::default()).unwrap();
    let names: Vec<String> = document
        .descendants(xml::Document::ROOT)
        .map(|node| format!("{}#{}", document.name(node).namespace.uri, document.name(node).local))
        .collect();
    assert_eq!(names, ["urn:r#r", "urn:e#a", "urn:x#b"]);
    let prefix = document.descendants(xml::Document::ROOT).nth(1).unwrap();
    assert_eq!(document.lookup_prefix(prefix, "x"), Some("urn:x"));
}

/// Markup is copied with its own quotes and spaces, and with declarations for the prefixes that it uses but does not declare.
#[test]
fn nodes_are_copied_as_they_were_written() {
    let many: String = (0..9).map(|n| format!(" xmlns:n{n}='urn:{n}'")).collect();
    for (around, node, made) in [
        ("", "<a  b='1' ></a >", "<a  b='1' ></a >"),
        (" xmlns:x='urn:x'", "<a>x:t</a>", "<a xmlns:x=\"urn:x\">x:t</a>"),
        (" xmlns:x='urn:x'", "<a>ax:t x y:x</a>", "<a>ax:t x y:x</a>"),
        (" xmlns:x='urn:x'", "<a b='x:t'/>", "<a xmlns:x=\"urn:x\" b='x:t'/>"),
        (" xmlns:x='urn:x'", "<a><x:b/>x:t</a>", "<a xmlns:x=\"urn:x\"><x:b/>x:t</a>"),
        (" xmlns:x='urn:x'", "<x:a xmlns:x='urn:y'/>", "<x:a xmlns:x='urn:y'/>"),
        (" xmlns:x='urn:x'", "<a>&#120;:t</a>", "<a xmlns:x=\"urn:x\">x:t</a>"),
        (" xmlns='urn:d'", "<a/>", "<a xmlns=\"urn:d\"/>"),
        (" xmlns='urn:d' xmlns:x='urn:x'", "<x:a/>", "<x:a xmlns:x=\"urn:x\"/>"),
        (
            " xmlns='urn:d' xmlns:x='urn:x'",
            "<x:a x:type='t'/>",
            "<x:a xmlns=\"urn:d\" xmlns:x=\"urn:x\" x:type='t'/>",
        ),
        (
            &many,
            "<a b='n8:t'>n3:t</a>",
            "<a xmlns:n3=\"urn:3\" xmlns:n8=\"urn:8\" b=\"n8:t\">n3:t</a>",
        ),
    ] {
        let message = Message::xml(&format!("<e{around}>{node}</e>"));
        let filled = fill("<r>{{ $body/* }}</r>", Kind::Xml, &message).unwrap();
        let parse = |text: &str| xml::Document::parse(text.as_bytes(), &xml::Options::default());
        assert!(parse(&filled).is_ok(), "{filled}");
        assert_eq!(sorted(&filled), sorted(&format!("<r>{made}</r>")), "{filled}");
    }
}

/// Returns the parts of markup in sorted order, because the order of declarations is unspecified.
fn sorted(markup: &str) -> Vec<&str> {
    let mut parts: Vec<&str> = markup.split([' ', '/', '>']).collect();
    parts.sort_unstable();
    parts
}

/// Each element that is copied examines the declarations in scope, and a sender may write thousands of them.
#[test]
fn many_namespaces_are_held_to_the_budget() {
    let declared: String = (0..400).map(|n| format!(" xmlns:p{n}='urn:{n}'")).collect();
    let limits = Limits { steps_max: 1_000_000, ..Limits::default() };
    for child in ["<p1:a/>", "<p1:a>&#65;</p1:a>"] {
        for (children, fits) in [(10, true), (100, false)] {
            let message = Message::xml(&format!("<r{declared}>{}</r>", child.repeat(children)));
            let template = Template::compile("<m>{{ $body/* }}</m>", Kind::Xml, &message).unwrap();
            let filled = template.fill(&message, &mut Budget::new(limits.clone()));
            let kind = filled.map_err(|failure| failure.kind);
            let over = Err(FailureKind::Limit { name: "steps_max", max: 1_000_000 });
            if fits {
                assert!(kind.is_ok(), "{child}: {kind:?}")
            } else {
                assert_eq!(kind, over, "{child}")
            }
        }
    }
}

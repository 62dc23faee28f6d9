//! Schemas that break a rule, as data: the document, and every complaint with its place.

use xsd::{Limits, Map, SchemaSet};

/// Complaints about a schema document whose `schema` element is around `body`; other documents are resolved.
fn complaints(body: &str, others: &[(&str, &str)]) -> Vec<String> {
    let mut files = Map::default();
    for (location, text) in others {
        files.insert(location, wrapped(text));
    }
    let mut set = SchemaSet::new(&files, Limits::default());
    set.add_bytes(wrapped(body).as_bytes(), "a.xsd");
    match set.compile() {
        Ok(_) => Vec::new(),
        Err(all) => all.iter().map(|c| format!("{}:{} {}", c.location, c.at, c.code)).collect(),
    }
}

fn wrapped(body: &str) -> String {
    if body.starts_with("<s:schema") {
        body.to_owned()
    } else {
        format!("<s:schema xmlns:s='http://www.w3.org/2001/XMLSchema'>\n{body}\n</s:schema>")
    }
}

/// Name of the fault, body, expected complaints.
const BROKEN: &[(&str, &str, &[&str])] = &[
    ("an unknown attribute", "<s:element name='a' nmae='b'/>", &["a.xsd:2:1 s4s-att-not-allowed"]),
    ("a name that is none", "<s:element name='1'/>", &["a.xsd:2:1 s4s-att-invalid-value"]),
    (
        "a child out of place",
        "<s:complexType name='t'><s:attribute name='a'/><s:sequence/></s:complexType>",
        &["a.xsd:2:48 s4s-elt-invalid-content.1"],
    ),
    ("a type that is not there", "<s:element name='a' type='t'/>", &["a.xsd:2:1 src-resolve"]),
    (
        "two of a name",
        "<s:element name='a'/>\n<s:element name='a'/>",
        &["a.xsd:3:1 sch-props-correct.2"],
    ),
    (
        "default and fixed",
        "<s:element name='a' default='1' fixed='1'/>",
        &["a.xsd:2:1 src-element.1"],
    ),
    (
        "a default of another type",
        "<s:element name='a' type='s:int' default='x'/>",
        &["a.xsd:2:1 e-props-correct.2"],
    ),
    (
        "a value for an element that is an ID",
        "<s:element name='a' type='s:ID' default='x'/>",
        &["a.xsd:2:1 e-props-correct.5"],
    ),
    (
        "values for attributes that are IDs",
        "<s:attribute name='a' type='s:ID' fixed='x'/>\n<s:complexType name='t'><s:attribute name='b' type='s:ID' default='x'/></s:complexType>",
        &["a.xsd:3:25 a-props-correct.3", "a.xsd:2:1 a-props-correct.3"],
    ),
    (
        "more at least than at most",
        "<s:group name='g'><s:sequence><s:element name='a' minOccurs='2'/></s:sequence></s:group>",
        &["a.xsd:2:31 p-props-correct.2.1"],
    ),
    (
        "a group in itself",
        "<s:group name='g'><s:sequence>\n<s:group ref='g'/></s:sequence></s:group>",
        &["a.xsd:3:1 mg-props-correct.2"],
    ),
    (
        "an attribute group in itself",
        "<s:attributeGroup name='g'>\n<s:attributeGroup ref='g'/></s:attributeGroup>",
        &["a.xsd:3:1 src-attribute_group.3"],
    ),
    (
        "a simple type of itself",
        "<s:simpleType name='t'><s:restriction base='t'/></s:simpleType>",
        &["a.xsd:2:1 st-props-correct.2"],
    ),
    (
        "a complex type of itself",
        "<s:complexType name='t'><s:complexContent><s:extension base='t'/></s:complexContent></s:complexType>",
        &["a.xsd:2:1 ct-props-correct.3"],
    ),
    (
        "a substitution group in a circle",
        "<s:element name='a' substitutionGroup='b'/><s:element name='b' substitutionGroup='a'/>",
        &["a.xsd:2:1 e-props-correct.6", "a.xsd:2:44 e-props-correct.6"],
    ),
    (
        "a member of another type",
        "<s:element name='a' type='s:int'/><s:element name='b' type='s:string' substitutionGroup='a'/>",
        &["a.xsd:2:35 e-props-correct.4"],
    ),
    (
        "two particles for a name",
        "<s:complexType name='t'><s:sequence><s:element name='a' minOccurs='0'/><s:element name='a'/></s:sequence></s:complexType>",
        &["a.xsd:2:1 cos-nonambig"],
    ),
    (
        "a particle beside a wildcard",
        "<s:complexType name='t'><s:sequence><s:any minOccurs='0'/><s:element name='a'/></s:sequence></s:complexType>",
        &["a.xsd:2:1 cos-nonambig"],
    ),
    (
        "one name of two types",
        "<s:complexType name='t'><s:sequence><s:element name='a' type='s:int'/><s:element name='a' type='s:string'/></s:sequence></s:complexType>",
        &["a.xsd:2:1 cos-element-consistent"],
    ),
    (
        "an all-group among others",
        "<s:group name='g'><s:all><s:element name='a'/></s:all></s:group><s:complexType name='t'><s:sequence><s:group ref='g'/></s:sequence></s:complexType>",
        &["a.xsd:2:101 cos-all-limited.1"],
    ),
    (
        "two attributes of a name",
        "<s:complexType name='t'><s:attribute name='a'/><s:attribute name='a'/></s:complexType>",
        &["a.xsd:2:48 ct-props-correct.4"],
    ),
    (
        "two IDs",
        "<s:complexType name='t'><s:attribute name='a' type='s:ID'/><s:attribute name='b' type='s:ID'/></s:complexType>",
        &["a.xsd:2:1 ct-props-correct.5"],
    ),
    (
        "a restriction that widens",
        "<s:complexType name='t'><s:sequence><s:element name='a'/></s:sequence></s:complexType>\n<s:complexType name='u'><s:complexContent><s:restriction base='t'><s:sequence><s:element name='a' maxOccurs='2'/></s:sequence></s:restriction></s:complexContent></s:complexType>",
        &["a.xsd:3:1 rcase-NameAndTypeOK.3"],
    ),
    (
        "a restriction that drops",
        "<s:complexType name='t'><s:sequence><s:element name='a'/></s:sequence></s:complexType>\n<s:complexType name='u'><s:complexContent><s:restriction base='t'><s:sequence/></s:restriction></s:complexContent></s:complexType>",
        &["a.xsd:3:1 derivation-ok-restriction.5.2"],
    ),
    (
        "a final base",
        "<s:complexType name='t' final='extension'/>\n<s:complexType name='u'><s:complexContent><s:extension base='t'/></s:complexContent></s:complexType>",
        &["a.xsd:3:1 cos-ct-extends.1.1"],
    ),
    (
        "a key that is not there",
        "<s:element name='a'>\n<s:keyref name='r' refer='k'><s:selector xpath='b'/><s:field xpath='@c'/></s:keyref></s:element>",
        &["a.xsd:3:1 src-resolve"],
    ),
    (
        "a facet out of range",
        "<s:simpleType name='t'><s:restriction base='s:int'><s:minInclusive value='5'/><s:maxInclusive value='3'/></s:restriction></s:simpleType>",
        &["a.xsd:2:79 minInclusive-less-than-equal-to-maxInclusive"],
    ),
    (
        "an import of its own namespace",
        "<s:schema xmlns:s='http://www.w3.org/2001/XMLSchema' targetNamespace='a'><s:import namespace='a'/></s:schema>",
        &["a.xsd:1:74 src-import.1.1"],
    ),
];

#[test]
fn what_breaks_a_rule_is_named_with_its_place() {
    for (what, body, expected) in BROKEN {
        assert_eq!(complaints(body, &[]), *expected, "{what}");
    }
}

#[test]
fn documents_are_joined() {
    let own = "<s:schema xmlns:s='http://www.w3.org/2001/XMLSchema' targetNamespace='t' xmlns:t='t'>BODY</s:schema>";
    let body = |text: &str| own.replace("BODY", text);
    let ct =
        "<s:complexType name='t'><s:sequence><s:element name='a'/></s:sequence></s:complexType>";
    for (what, text, others, expected) in [
        (
            "a chameleon",
            body("<s:include schemaLocation='b.xsd'/><s:element name='e' type='t:t'/>"),
            vec![("b.xsd", ct.to_owned())],
            vec![],
        ),
        (
            "a circle of includes",
            body("<s:include schemaLocation='b.xsd'/><s:element name='e' type='t:t'/>"),
            vec![
                ("b.xsd", body(&format!("<s:include schemaLocation='a.xsd'/>{ct}"))),
                (
                    "a.xsd",
                    body("<s:include schemaLocation='b.xsd'/><s:element name='e' type='t:t'/>"),
                ),
            ],
            vec![],
        ),
        (
            "an include of another namespace",
            body("<s:include schemaLocation='b.xsd'/>"),
            vec![("b.xsd", body("").replace("'t' xmlns", "'u' xmlns"))],
            vec!["b.xsd:1:1 src-include.2.1"],
        ),
        (
            "a reference without an import",
            body("<s:element name='e' type='u:t' xmlns:u='u'/>"),
            vec![],
            vec!["a.xsd:1:86 src-resolve.4"],
        ),
        (
            "a redefinition",
            body(
                "<s:redefine schemaLocation='b.xsd'><s:complexType name='t'><s:complexContent><s:extension base='t:t'><s:sequence><s:element name='b'/></s:sequence></s:extension></s:complexContent></s:complexType></s:redefine><s:element name='e' type='t:t'/>",
            ),
            vec![("b.xsd", ct.to_owned())],
            vec![],
        ),
        (
            "a redefinition of nothing",
            body("<s:redefine schemaLocation='b.xsd'><s:complexType name='u'/></s:redefine>"),
            vec![("b.xsd", ct.to_owned())],
            vec!["a.xsd:1:121 src-redefine.5"],
        ),
        (
            "an include that is not XML",
            body("<s:include schemaLocation='b.xsd'/>"),
            vec![("b.xsd", "<s:schema><".to_owned())],
            vec!["b.xsd:1:2 s4s-not-xml"],
        ),
    ] {
        let others: Vec<(&str, &str)> =
            others.iter().map(|(at, text)| (*at, text.as_str())).collect();
        assert_eq!(complaints(&text, &others), expected, "{what}");
    }
}

/// Hostile schemas end with a complaint about a limit, or compile, and soon.
#[test]
fn budgets_hold() {
    let nested = |levels: usize, open: &str, close: &str| {
        format!(
            "<s:complexType name='t'>{}{}</s:complexType>",
            open.repeat(levels),
            close.repeat(levels)
        )
    };
    let doubled: String = (0..60)
        .map(|n| format!("<s:group name='g{n}'><s:sequence><s:group ref='g{0}'/><s:group ref='g{0}'/></s:sequence></s:group>", n + 1))
        .collect::<String>()
        + "<s:group name='g60'><s:sequence><s:element name='a'/></s:sequence></s:group><s:complexType name='t'><s:group ref='g0'/></s:complexType>";
    let chain = |length: usize| {
        let links: String = (1..length)
            .map(|n| format!("<s:complexType name='t{n}'><s:complexContent><s:extension base='t{}'/></s:complexContent></s:complexType>", n - 1))
            .collect();
        format!("<s:complexType name='t0'/>{links}")
    };
    let group_chain: String = (0..5000)
        .map(|n| {
            format!(
                "<s:group name='g{n}'><s:sequence><s:group ref='g{}'/></s:sequence></s:group>",
                n + 1
            )
        })
        .collect::<String>()
        + "<s:group name='g5000'><s:sequence/></s:group>";
    for (what, body, code) in [
        ("occurrence beyond any document", "<s:complexType name='t'><s:sequence><s:element name='a' maxOccurs='99999999999999999999'/></s:sequence></s:complexType>".to_owned(), None),
        ("large exact occurrence", "<s:complexType name='t'><s:sequence minOccurs='100000' maxOccurs='100000'><s:element name='a'/><s:element name='b' minOccurs='7' maxOccurs='4000'/></s:sequence></s:complexType>".to_owned(), None),
        ("nesting", nested(200, "<s:sequence>", "</s:sequence>"), Some("limit")),
        ("groups that double", doubled, Some("limit")),
        ("a chain of groups", group_chain, Some("limit")),
        ("a chain of types", chain(5000), Some("limit")),
        ("a chain of types people might write", chain(100), None),
    ] {
        let found = complaints(&body, &[]);
        let first = found.first().and_then(|first| first.rsplit_once(' ')).map(|(_, code)| code);
        assert_eq!(first, code, "{what}: {found:?}");
    }
}

#[test]
fn includes_without_end_are_bounded() {
    struct Endless;
    impl xsd::Resolver for Endless {
        fn load(&self, location: &str) -> Result<Vec<u8>, xsd::ResolveError> {
            let next = format!("<s:include schemaLocation='{location}x'/>");
            Ok(wrapped(&next).into_bytes())
        }
    }
    let mut set = SchemaSet::new(&Endless, Limits { documents_max: 50, ..Limits::default() });
    assert!(set.add_location("a"));
    let complaints = set.compile().map(drop).unwrap_err();
    assert_eq!(complaints.iter().map(|c| c.code).collect::<Vec<_>>(), ["limit"]);
}

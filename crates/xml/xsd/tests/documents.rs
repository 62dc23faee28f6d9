//! Documents against schemas, as data: the schema's body, the document, and the expected errors with their positions.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends where something does not work")]

use std::sync::Arc;

use xsd::{Bounds, Limits, NoDocuments, Root, Schema, SchemaSet, Validator};

fn schema(body: &str) -> Arc<Schema> {
    let text = format!("<s:schema xmlns:s='http://www.w3.org/2001/XMLSchema'>{body}</s:schema>");
    let mut set = SchemaSet::new(&NoDocuments, Limits::default());
    set.add_bytes(text.as_bytes(), "a.xsd");
    Arc::new(set.compile().unwrap_or_else(|complaints| panic!("{complaints:?} in {body}")))
}

/// Validates a document by its bytes, in chunks of one byte, and as a tree. All three results must be equal.
fn invalid(schema: &Arc<Schema>, document: &str, root: &Root) -> Vec<String> {
    let options = xml::Options::default();
    let mut validator = Validator::new(Arc::clone(schema), root.clone(), Bounds::default());
    validator.validate(document.as_bytes(), &options).unwrap();
    let whole = validator.invalid().to_vec();
    validator.reset();
    let mut parser = xml::Parser::new(options.clone());
    for byte in document.as_bytes().chunks(1) {
        parser.feed(byte, &mut validator).unwrap();
    }
    parser.finish(&mut validator).unwrap();
    let tree = xml::Document::parse(document.as_bytes(), &options).unwrap();
    let codes = |all: &[xsd::Invalid]| all.iter().map(|i| i.code).collect::<Vec<_>>();
    assert_eq!(codes(&whole), codes(validator.invalid()), "{document} in chunks");
    validator.validate_tree(&tree, tree.root_element().unwrap());
    assert_eq!(codes(&whole), codes(validator.invalid()), "{document} as a tree");
    whole.iter().map(|i| format!("{} {} {}", i.at, i.node, i.code)).collect()
}

const PEOPLE: &str = "<s:element name='r' type='r'/><s:complexType name='r'><s:sequence>\
  <s:element name='a' type='s:int'/><s:element name='b' minOccurs='0' maxOccurs='2' nillable='true' type='s:date'/>\
  <s:element ref='head' minOccurs='0'/></s:sequence><s:attribute name='id' type='s:ID'/><s:attribute name='to' type='s:IDREF'/>\
  <s:attribute name='v' fixed='1.0' type='s:decimal'/></s:complexType>\
  <s:element name='head' abstract='true'/><s:element name='tail' type='s:boolean' substitutionGroup='head'/>\
  <s:complexType name='wider'><s:complexContent><s:extension base='r'><s:sequence><s:element name='z'/></s:sequence></s:extension></s:complexContent></s:complexType>\
  <s:complexType name='other'/>";
const COUNTED: &str = "<s:element name='r'><s:complexType><s:sequence minOccurs='50' maxOccurs='100'>\
  <s:element name='a' minOccurs='2' maxOccurs='40'/><s:element name='b'/></s:sequence></s:complexType></s:element>";
const ALL: &str = "<s:element name='r'><s:complexType><s:all><s:element name='a'/><s:element name='b' minOccurs='0'/><s:element name='c'/></s:all></s:complexType></s:element>";
const WILD: &str = "<s:element name='r'><s:complexType><s:sequence><s:any processContents='lax' namespace='##other' minOccurs='0'/>\
  <s:any processContents='strict' namespace='##local' minOccurs='0'/></s:sequence><s:anyAttribute processContents='lax'/></s:complexType></s:element>\
  <s:element name='n' type='s:int'/><s:attribute name='w' type='s:int'/>";
const TEXT: &str = "<s:element name='r'><s:complexType mixed='true'><s:sequence><s:element name='b' default='7' type='s:int' minOccurs='0'/></s:sequence></s:complexType></s:element>\
  <s:element name='e'><s:complexType/></s:element><s:element name='f' type='s:int' fixed='1'/>";
const KEYS: &str = "<s:element name='r'><s:complexType><s:sequence><s:element name='k' maxOccurs='9'><s:complexType><s:attribute name='n' type='s:int'/></s:complexType></s:element></s:sequence></s:complexType>\
  <s:unique name='u'><s:selector xpath='k'/><s:field xpath='@n'/></s:unique></s:element>";

const NAMES: &str = "<s:element name='r'><s:complexType><s:sequence><s:element name='q' type='s:QName' minOccurs='0' maxOccurs='unbounded'/></s:sequence>\
  <s:attribute name='a' type='s:QName'/></s:complexType></s:element>\
  <s:element name='o'><s:complexType><s:choice><s:element ref='o'/><s:element ref='r'/></s:choice></s:complexType></s:element>";

/// Schema, document, expected errors.
const CASES: &[(&str, &str, &[&str])] = &[
    (PEOPLE, "<r><a>1</a></r>", &[]),
    (PEOPLE, "<r id='x' to='x' v='1'><a> 1\n</a><b>2026-11-21</b><tail>true</tail></r>", &[]),
    (PEOPLE, "<s/>", &["1:1 s cvc-elt.1"]),
    (PEOPLE, "<r/>", &["1:1 r cvc-complex-type.2.4.b"]),
    (
        NAMES,
        "<r xmlns:p='p' a='p:x'><q>p:x</q><q>x</q><q>xml:x</q><q xmlns:o='o'>o:<!-- -->x</q></r>",
        &[],
    ),
    (NAMES, "<r a='p:x'/>", &["1:1 a cvc-datatype-valid.1.2.1"]),
    (NAMES, "<r><q xmlns:p='p'>p:x</q><q>p:x</q></r>", &["1:32 q cvc-datatype-valid.1.2.1"]),
    (PEOPLE, "<r>\n<b>2026-11-21</b></r>", &["2:1 b cvc-complex-type.2.4.a"]),
    (PEOPLE, "<r><a>1</a><b>2026-11-31</b></r>", &["1:25 b cvc-datatype-valid.1.2.1"]),
    (PEOPLE, "<r><a>1</a><head/></r>", &["1:12 head cvc-elt.2"]),
    (PEOPLE, "<r><a>1</a>x</r>", &["1:12 r cvc-complex-type.2.3"]),
    (PEOPLE, "<r><a>1<a/></a></r>", &["1:8 a cvc-type.3.1.2"]),
    (
        PEOPLE,
        "<r u='1'><a y='1'>1</a></r>",
        &["1:1 r cvc-complex-type.3.2.1", "1:10 a cvc-type.3.1.1"],
    ),
    (PEOPLE, "<r v='2'><a>1</a></r>", &["1:1 v cvc-attribute.4"]),
    (PEOPLE, "<r to='y'><a>1</a></r>", &["1:1 to cvc-id.1"]),
    (
        PEOPLE,
        "<r xmlns:i='http://www.w3.org/2001/XMLSchema-instance' i:type='wider'><a>1</a><z/></r>",
        &[],
    ),
    (
        PEOPLE,
        "<r xmlns:i='http://www.w3.org/2001/XMLSchema-instance' i:type='other'><a>1</a></r>",
        &["1:1 r cvc-elt.4.3"],
    ),
    (
        PEOPLE,
        "<r xmlns:i='http://www.w3.org/2001/XMLSchema-instance' i:type='none'><a>1</a></r>",
        &["1:1 r cvc-elt.4.2"],
    ),
    (
        PEOPLE,
        "<r xmlns:i='http://www.w3.org/2001/XMLSchema-instance'><a>1</a><b i:nil='true'/></r>",
        &[],
    ),
    (
        PEOPLE,
        "<r xmlns:i='http://www.w3.org/2001/XMLSchema-instance'><a i:nil='true'>1</a></r>",
        &["1:56 a cvc-elt.3.1"],
    ),
    (
        PEOPLE,
        "<r xmlns:i='http://www.w3.org/2001/XMLSchema-instance'><a>1</a><b i:nil='true'> </b></r>",
        &["1:80 b cvc-elt.3.2.1"],
    ),
    (ALL, "<r><c/><a/></r>", &[]),
    (ALL, "<r><c/><b/></r>", &["1:12 r cvc-complex-type.2.4.b"]),
    (ALL, "<r><c/><a/><c/></r>", &["1:12 c cvc-complex-type.2.4.a"]),
    (WILD, "<r w='1' x='y'><o:o xmlns:o='o'><n>1</n></o:o><n>1</n></r>", &[]),
    (WILD, "<r w='x'/>", &["1:1 w cvc-datatype-valid.1.2.1"]),
    (WILD, "<r><o:o xmlns:o='o'><n>x</n></o:o></r>", &["1:25 n cvc-datatype-valid.1.2.1"]),
    (WILD, "<r><m/></r>", &["1:4 m cvc-complex-type.2.4.c"]),
    (TEXT, "<r>a<b/>c</r>", &[]),
    (TEXT, "<e> </e>", &["1:4 e cvc-complex-type.2.1"]),
    (TEXT, "<f/>", &[]),
    (TEXT, "<f>01</f>", &[]),
    (TEXT, "<f>2</f>", &["1:5 f cvc-elt.5.2.2.2.2"]),
    (KEYS, "<r><k n='1'/><k n='2'/><k/></r>", &[]),
    (KEYS, "<r><k n='1'/><k n='01'/></r>", &["1:14 k cvc-identity-constraint.4.1"]),
];

#[test]
fn what_is_wrong_is_named_with_its_place() {
    for (body, document, expected) in CASES {
        assert_eq!(invalid(&schema(body), document, &Root::Declared), *expected, "{document}");
    }
}

#[test]
fn large_occurrences_are_counted() {
    let schema = schema(COUNTED);
    for (sequences, each, valid) in [
        (50, 2, true),
        (100, 40, true),
        (49, 2, false),
        (101, 2, false),
        (50, 1, false),
        (50, 41, false),
    ] {
        let document = format!("<r>{}</r>", ("<a/>".repeat(each) + "<b/>").repeat(sequences));
        let mut validator = Validator::new(Arc::clone(&schema), Root::Declared, Bounds::default());
        validator.validate(document.as_bytes(), &xml::Options::default()).unwrap();
        assert_eq!(
            validator.is_valid(),
            valid,
            "{sequences} times {each}: {:?}",
            validator.invalid()
        );
    }
}

#[test]
fn the_root_may_be_given() {
    let schema = schema(PEOPLE);
    let element = |local: &str| Root::Element { uri: String::new(), local: local.to_owned() };
    let of_type = |local: &str| Root::Type { uri: String::new(), local: local.to_owned() };
    for (root, document, expected) in [
        (element("tail"), "<tail>1</tail>", &[][..]),
        (element("tail"), "<r><a>1</a></r>", &["1:1 r cvc-elt.1"][..]),
        (of_type("r"), "<anything><a>1</a></anything>", &[]),
        (of_type("none"), "<anything/>", &["1:1 anything cvc-type.1"]),
        (Root::Lax, "<anything><r/></anything>", &["1:11 r cvc-complex-type.2.4.b"]),
    ] {
        assert_eq!(invalid(&schema, document, &root), expected, "{document}");
    }
}

#[test]
fn complaints_are_bounded() {
    let schema = schema(PEOPLE);
    let document = format!("<r>{}</r>", "<a>x</a>".repeat(1000));
    for (invalid_max, found) in [(1, 1), (2, 2), (0, 1)] {
        let bounds = Bounds { invalid_max, ..Bounds::default() };
        let mut validator = Validator::new(Arc::clone(&schema), Root::Declared, bounds);
        validator.validate(document.as_bytes(), &xml::Options::default()).unwrap();
        assert_eq!(validator.invalid().len(), found);
    }
}

/// Patterns without a DFA cost as much as their texts make them. All texts of a document share one budget, in elements,
/// attributes and lists alike.
#[test]
fn patterns_have_one_budget_for_a_document() {
    let schema = schema(
        "<s:simpleType name='p'><s:restriction base='s:string'><s:pattern value='([ab]*a[ab]{2000})*b'/></s:restriction></s:simpleType>\
         <s:simpleType name='l'><s:list itemType='p'/></s:simpleType>\
         <s:element name='r'><s:complexType><s:sequence><s:element name='t' type='p' minOccurs='0' maxOccurs='unbounded'/>\
         <s:element name='l' type='l' minOccurs='0'/></s:sequence><s:attribute name='v' type='p'/></s:complexType></s:element>",
    );
    let mut validator = Validator::new(schema, Root::Declared, Bounds::default());
    let mut codes = |document: String| -> Vec<&'static str> {
        validator.validate(document.as_bytes(), &xml::Options::default()).unwrap();
        validator.invalid().iter().map(|invalid| invalid.code).collect()
    };
    // Over 3 million steps of the 8 million that a short document has.
    let text = format!("{}b", "a".repeat(2_500));
    let element = format!("<t>{text}</t>");
    assert_eq!(codes(format!("<r v='{text}'>{element}</r>")), [""; 0]);
    let list = format!("<l>{text}</l>");
    let all = format!("<r v='{text}'>{element}{list}</r>");
    assert_eq!(codes(all), ["limit.regex_steps_max"]);
    // The next document has the whole budget again.
    assert_eq!(codes(format!("<r>{element}</r>")), [""; 0]);
}

/// A nested element with constraints is in the tables of all enclosing ones. One budget covers this.
#[test]
fn constraints_within_one_another_have_one_budget() {
    let schema = schema(
        "<s:element name='r'><s:complexType><s:choice minOccurs='0' maxOccurs='unbounded'>\
         <s:element name='k'><s:complexType><s:attribute name='n' type='s:int'/></s:complexType></s:element>\
         <s:element ref='r'/></s:choice></s:complexType>\
         <s:key name='u'><s:selector xpath='.//k'/><s:field xpath='@n'/></s:key></s:element>\
         <s:element name='o'><s:complexType><s:sequence><s:element ref='r' maxOccurs='unbounded'/></s:sequence></s:complexType></s:element>",
    );
    let mut validator = Validator::new(schema, Root::Declared, Bounds::default());
    let mut codes = |document: &str| -> Vec<&'static str> {
        validator.validate(document.as_bytes(), &xml::Options::default()).unwrap();
        validator.invalid().iter().map(|invalid| invalid.code).collect()
    };
    let keys = |count: usize| -> String { (0..count).map(|n| format!("<k n='{n}'/>")).collect() };
    let deep = |depth: usize, count: usize| {
        format!("{}{}{}", "<r>".repeat(depth), keys(count), "</r>".repeat(depth))
    };
    assert_eq!(codes(&deep(1, 200_000)), [""; 0]);
    assert_eq!(codes(&format!("<o>{}</o>", deep(1, 100).repeat(1_000))), [""; 0]);
    assert_eq!(codes(&deep(64, 5_000)), [""; 0]);
    assert_eq!(codes(&deep(250, 20_000)), ["limit.identity_steps_max"]);
    assert_eq!(codes(&deep(2, 10)), [""; 0]);
}

/// IDs are kept until the end of the document, and so are IDREFs whose ID has not occurred yet: in elements, attributes and items of a
/// list.
/// A copy of the declarations for each element would take minutes.
#[test]
fn the_cost_of_a_qname_does_not_grow_with_the_declarations() {
    let schema = schema(NAMES);
    let declared =
        |at| (0..500).map(move |n| format!(" xmlns:p{n}_{at}='{n}'")).collect::<String>();
    let outer: String = (0..16).map(|at| format!("<o{}>", declared(at))).collect();
    let names = "<q>p0_0:x</q>".repeat(100_000);
    let document = format!("{outer}<r>{names}</r>{}", "</o>".repeat(16));
    assert_eq!(invalid(&schema, &document, &Root::Declared), [""; 0]);
}

#[test]
fn ids_and_idrefs_have_one_budget_of_memory() {
    let schema = schema(
        "<s:element name='r'><s:complexType><s:sequence>\
         <s:element name='a' minOccurs='0' maxOccurs='unbounded'><s:complexType><s:attribute name='id' type='s:ID'/>\
         <s:attribute name='to' type='s:IDREF'/></s:complexType></s:element>\
         <s:element name='l' type='s:IDREFS' minOccurs='0' maxOccurs='unbounded'/></s:sequence></s:complexType></s:element>",
    );
    let bounds = Bounds { identifier_bytes_max: 20_000, ..Bounds::default() };
    let mut validator = Validator::new(schema, Root::Declared, bounds);
    let mut codes = |content: String| -> Vec<&'static str> {
        let document = format!("<r>{content}</r>");
        validator.validate(document.as_bytes(), &xml::Options::default()).unwrap();
        validator.invalid().iter().map(|invalid| invalid.code).collect()
    };
    let each = |count: usize, one: fn(usize) -> String| (0..count).map(one).collect::<String>();
    let (valid, over) = (&[""; 0][..], &["limit.identifier_bytes_max"][..]);
    assert_eq!(codes(each(200, |n| format!("<a id='i{n}'/>"))), valid);
    assert_eq!(codes(each(400, |n| format!("<a id='i{n}'/>"))), over);
    assert_eq!(codes(each(400, |n| format!("<a to='i{n}'/>"))), over);
    assert_eq!(codes(format!("<l>{}</l>", each(400, |n| format!("i{n} ")))), over);
    assert_eq!(codes(format!("<a id='{}'/>", "i".repeat(30_000))), over);
    // IDREFs to known IDs take no memory.
    assert_eq!(codes(format!("<a id='i'/>{}", "<a to='i'/>".repeat(400))), valid);
    assert_eq!(codes(format!("<a id='i'/><l>{}</l>", "i ".repeat(400))), valid);
    assert_eq!(codes("<a to='i'/><a to='j'/><a id='j'/>".to_owned()), ["cvc-id.1"]);
}

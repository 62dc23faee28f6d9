//! Messages that make validation expensive: patterns, nested constraints, IDs. Each message has one budget for each
//! of them.

use super::*;

/// `long` and `short` have no table: one has too many states, the other just too many.
const SCHEMA: &str = r#"<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" targetNamespace="urn:p" elementFormDefault="qualified">
  <xs:element name="m"><xs:complexType><xs:sequence>
    <xs:element name="long" minOccurs="0" maxOccurs="unbounded"><xs:simpleType><xs:restriction base="xs:string">
      <xs:pattern value="([ab]*a[ab]{2000})*b"/></xs:restriction></xs:simpleType></xs:element>
    <xs:element name="short" minOccurs="0" maxOccurs="unbounded"><xs:simpleType><xs:restriction base="xs:string">
      <xs:pattern value="[ab]*a[ab]{20}"/></xs:restriction></xs:simpleType></xs:element>
  </xs:sequence></xs:complexType></xs:element>
</xs:schema>"#;

/// A message with this many texts of each kind.
fn message(long: usize, short: usize) -> String {
    let long = format!("<long>{}b</long>", "a".repeat(2_500)).repeat(long);
    let short = format!("<short>{}</short>", "b".repeat(20) + "a" + &"b".repeat(20)).repeat(short);
    envelope(SOAP_11, &format!("<m xmlns=\"urn:p\">{long}{short}</m>"))
}

#[test]
fn patterns_have_one_budget_for_a_message() {
    let origin = Origin::echo();
    let route = "policies: [{ soap: { schema: p.xsd, verbose: true } }]";
    let gateway = gateway_to(&origin.url(), route, &[("p.xsd", SCHEMA)]);
    // Each text is right by itself, and below its own bound.
    for (long, short, status) in [(1, 0, 200), (0, 5000, 200), (4, 0, 500), (1, 5000, 200)] {
        let reply = post(&gateway, &message(long, short));
        assert_eq!(reply.status(), status, "{long} and {short}: {reply:?}");
    }
    let told = post(&gateway, &message(4, 0)).text();
    assert!(told.contains("costs more to match"), "{told}");
    assert_eq!(origin.requests().len(), 3);
}

/// Nested elements, each of which requires different keys below it; IDs and references to them.
const KEYS: &str = r#"<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" targetNamespace="urn:p" xmlns="urn:p" elementFormDefault="qualified">
  <xs:element name="m"><xs:complexType><xs:choice minOccurs="0" maxOccurs="unbounded">
    <xs:element ref="m"/>
    <xs:element name="k"><xs:complexType><xs:attribute name="n" type="xs:int"/></xs:complexType></xs:element>
    <xs:element name="i"><xs:complexType><xs:attribute name="to" type="xs:IDREFS"/></xs:complexType></xs:element>
    <xs:element name="id" type="xs:ID"/>
  </xs:choice></xs:complexType>
  <xs:unique name="key"><xs:selector xpath=".//*"/><xs:field xpath="@n"/></xs:unique></xs:element>
</xs:schema>"#;

#[test]
fn keys_within_one_another_and_references_have_budgets() {
    let origin = Origin::echo();
    let route = "policies: [{ soap: { schema: p.xsd, verbose: true } }]";
    let gateway = gateway_to(&origin.url(), route, &[("p.xsd", KEYS)]);
    let keys = |depth: usize, count: usize| {
        let keys: String = (0..count).map(|n| format!("<k n=\"{n}\"/>")).collect();
        format!("{}{keys}{}", "<m>".repeat(depth), "</m>".repeat(depth))
    };
    let references = |text: &str| format!("<i to=\"{text}\"/><id>a</id>");
    let many: String = (0..200_000).map(|n| format!("i{n} ")).collect();
    for (content, refused) in [
        (keys(1, 10_000), None),
        (keys(64, 2_000), None),
        (keys(200, 10_000), Some("identity constraints within one another cost more to check")),
        (references("a a"), None),
        (references(&many), Some("IDs and IDREFs take over 12582912 bytes of memory")),
    ] {
        let body = envelope(SOAP_11, &format!("<m xmlns=\"urn:p\">{content}</m>"));
        let reply = post(&gateway, &body);
        assert_eq!(reply.status(), if refused.is_some() { 500 } else { 200 });
        assert!(reply.text().contains(refused.unwrap_or("<soap:Body>")), "{refused:?}");
    }
}

//! Schemas and documents for benchmarks: a SOAP 1.1 envelope around the calculator's requests.
#![allow(clippy::expect_used, reason = "it is for measurements: what does not work ends it")]

/// The envelope (SOAP 1.1, section 4): header and body may hold anything.
pub(crate) const ENVELOPE: &str = r###"<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"
  xmlns:tns="http://schemas.xmlsoap.org/soap/envelope/"
  targetNamespace="http://schemas.xmlsoap.org/soap/envelope/">
<xs:import namespace="http://tempuri.org/" schemaLocation="calculator.xsd"/>
<xs:element name="Envelope" type="tns:Envelope"/>
<xs:complexType name="Envelope"><xs:sequence>
  <xs:element ref="tns:Header" minOccurs="0"/><xs:element ref="tns:Body"/>
  <xs:any namespace="##other" minOccurs="0" maxOccurs="unbounded" processContents="lax"/>
</xs:sequence><xs:anyAttribute namespace="##other" processContents="lax"/></xs:complexType>
<xs:element name="Header" type="tns:Contents"/>
<xs:element name="Body" type="tns:Contents"/>
<xs:complexType name="Contents"><xs:sequence>
  <xs:any namespace="##any" minOccurs="0" maxOccurs="unbounded" processContents="lax"/>
</xs:sequence><xs:anyAttribute namespace="##any" processContents="lax"/></xs:complexType>
</xs:schema>"###;

/// The calculator's types, with one operation of many items.
pub(crate) const CALCULATOR: &str = r###"<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" xmlns:tns="http://tempuri.org/"
  targetNamespace="http://tempuri.org/" elementFormDefault="qualified">
<xs:complexType name="Pair"><xs:sequence>
  <xs:element name="intA" type="xs:int"/><xs:element name="intB" type="xs:int"/>
</xs:sequence></xs:complexType>
<xs:element name="Add" type="tns:Pair"/><xs:element name="Subtract" type="tns:Pair"/>
<xs:element name="Multiply" type="tns:Pair"/><xs:element name="Divide" type="tns:Pair"/>
<xs:element name="AddResponse"><xs:complexType><xs:sequence>
  <xs:element name="AddResult" type="xs:int"/></xs:sequence></xs:complexType></xs:element>
<xs:element name="AddMany"><xs:complexType><xs:sequence>
  <xs:element name="item" type="tns:Item" minOccurs="0" maxOccurs="unbounded"/>
</xs:sequence><xs:attribute name="batch" type="xs:NMTOKEN"/></xs:complexType></xs:element>
<xs:complexType name="Item"><xs:sequence>
  <xs:element name="intA" type="xs:int"/><xs:element name="intB" type="xs:int"/>
  <xs:element name="memo" minOccurs="0"><xs:simpleType><xs:restriction base="xs:string">
    <xs:minLength value="1"/><xs:maxLength value="80"/></xs:restriction></xs:simpleType></xs:element>
  <xs:choice><xs:element name="price" type="xs:decimal"/><xs:element name="free" type="xs:boolean"/></xs:choice>
  <xs:element name="when" type="xs:dateTime" minOccurs="0"/>
</xs:sequence><xs:attribute name="id" type="xs:unsignedInt" use="required"/>
<xs:attribute name="kind"><xs:simpleType><xs:restriction base="xs:string">
  <xs:enumeration value="credit"/><xs:enumeration value="debit"/>
</xs:restriction></xs:simpleType></xs:attribute></xs:complexType>
</xs:schema>"###;

/// 345 bytes, as clients send them.
pub(crate) const REQUEST: &str = r###"<?xml version="1.0" encoding="utf-8"?>
<soap:Envelope xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xmlns:xsd="http://www.w3.org/2001/XMLSchema" xmlns:soap="http://schemas.xmlsoap.org/soap/envelope/">
  <soap:Body>
    <Add xmlns="http://tempuri.org/">
      <intA>5</intA>
      <intB>7</intB>
    </Add>
  </soap:Body>
</soap:Envelope>
"###;

const OPEN: &str = r###"<?xml version="1.0" encoding="utf-8"?>
<soap:Envelope xmlns:soap="http://schemas.xmlsoap.org/soap/envelope/">
  <soap:Body>
    <AddMany xmlns="http://tempuri.org/" batch="b-17">
"###;

const CLOSE: &str = "    </AddMany>\n  </soap:Body>\n</soap:Envelope>\n";

/// A request with many items.
pub(crate) fn item(number: usize) -> String {
    let how = match number % 3 {
        0 => "<free>true</free>".to_owned(),
        _ => format!("<price>{}.{:02}</price>", number * 7 % 1000, number % 100),
    };
    format!(
        "      <item id=\"{number}\" kind=\"credit\">\n        <intA>{}</intA>\n        <intB>{}</intB>\n        \
         <memo>Payment &amp; fee no. {number}, thank you</memo>\n        {how}\n        \
         <when>2026-11-21T10:{:02}:{:02}Z</when>\n      </item>\n",
        number * 31 % 100_000,
        number * 17 % 100_000,
        number % 60,
        number * 7 % 60
    )
}

/// A request of about this many bytes.
pub(crate) fn document(bytes: usize) -> String {
    if bytes <= REQUEST.len() {
        return REQUEST.to_owned();
    }
    let mut text = OPEN.to_owned();
    for number in 1.. {
        if text.len() + CLOSE.len() >= bytes {
            break;
        }
        text.push_str(&item(number));
    }
    text + CLOSE
}

/// The compiled schema of both documents.
pub(crate) fn schema() -> std::sync::Arc<xsd::Schema> {
    let mut files = xsd::Map::default();
    files.insert("envelope.xsd", ENVELOPE);
    files.insert("calculator.xsd", CALCULATOR);
    let mut set = xsd::SchemaSet::new(&files, xsd::Limits::default());
    assert!(set.add_location("envelope.xsd"));
    std::sync::Arc::new(set.compile().expect("the schemas keep the rules"))
}

//! Built-in schemas of the SOAP encodings, which rpc/encoded descriptions extend but do not include.
//!
//! Owns the text of those schemas (SOAP 1.1, section 5; SOAP 1.2 part 2, section 3), generated from the list of built-in types that they
//! mirror. One text serves both encodings: definitions that only one of them has do no harm in the other.

use std::fmt::Write as _;

use xml::{Document, Kind};

use crate::documents::{Documents, SCHEMA};

/// Namespaces of the SOAP 1.1 and 1.2 encodings. Each is also the published address of its schema.
const NAMESPACES: [&str; 2] =
    ["http://schemas.xmlsoap.org/soap/encoding/", "http://www.w3.org/2003/05/soap-encoding"];

/// The simple types for which the schema has an element and a complex type with `id` and `href`.
const MIRRORED: [&str; 44] = [
    "duration",
    "dateTime",
    "NOTATION",
    "time",
    "date",
    "gYearMonth",
    "gYear",
    "gMonthDay",
    "gDay",
    "gMonth",
    "boolean",
    "base64Binary",
    "hexBinary",
    "float",
    "double",
    "anyURI",
    "QName",
    "string",
    "normalizedString",
    "token",
    "language",
    "Name",
    "NMTOKEN",
    "NCName",
    "NMTOKENS",
    "ID",
    "IDREF",
    "ENTITY",
    "IDREFS",
    "ENTITIES",
    "decimal",
    "integer",
    "nonPositiveInteger",
    "negativeInteger",
    "long",
    "int",
    "short",
    "byte",
    "nonNegativeInteger",
    "unsignedLong",
    "unsignedInt",
    "unsignedShort",
    "unsignedByte",
    "positiveInteger",
];

const HEAD: &str = r###"<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"
  xmlns:tns="NAMESPACE" targetNamespace="NAMESPACE">
<xs:attribute name="root"><xs:simpleType><xs:restriction base="xs:boolean">
  <xs:pattern value="0|1"/></xs:restriction></xs:simpleType></xs:attribute>
<xs:attributeGroup name="commonAttributes"><xs:attribute name="id" type="xs:ID"/>
  <xs:attribute name="href" type="xs:anyURI"/>
  <xs:anyAttribute namespace="##other" processContents="lax"/></xs:attributeGroup>
<xs:simpleType name="arrayCoordinate"><xs:restriction base="xs:string"/></xs:simpleType>
<xs:attribute name="arrayType" type="xs:string"/>
<xs:attribute name="itemType" type="xs:QName"/>
<xs:attribute name="arraySize" type="xs:string"/>
<xs:attribute name="offset" type="tns:arrayCoordinate"/>
<xs:attributeGroup name="arrayAttributes"><xs:attribute ref="tns:arrayType"/>
  <xs:attribute ref="tns:offset"/></xs:attributeGroup>
<xs:attribute name="position" type="tns:arrayCoordinate"/>
<xs:attributeGroup name="arrayMemberAttributes"><xs:attribute ref="tns:position"/></xs:attributeGroup>
<xs:group name="Array"><xs:sequence>
  <xs:any namespace="##any" minOccurs="0" maxOccurs="unbounded" processContents="lax"/></xs:sequence></xs:group>
<xs:element name="Array" type="tns:Array"/>
<xs:complexType name="Array"><xs:group ref="tns:Array" minOccurs="0"/>
  <xs:attributeGroup ref="tns:arrayAttributes"/><xs:attributeGroup ref="tns:commonAttributes"/></xs:complexType>
<xs:element name="Struct" type="tns:Struct"/>
<xs:group name="Struct"><xs:sequence>
  <xs:any namespace="##any" minOccurs="0" maxOccurs="unbounded" processContents="lax"/></xs:sequence></xs:group>
<xs:complexType name="Struct"><xs:group ref="tns:Struct" minOccurs="0"/>
  <xs:attributeGroup ref="tns:commonAttributes"/></xs:complexType>
<xs:simpleType name="base64"><xs:restriction base="xs:base64Binary"/></xs:simpleType>
<xs:element name="anyType"/>
"###;

/// Returns the text of an encoding's schema.
pub(crate) fn schema(namespace: &str) -> String {
    let mut text = HEAD.replace("NAMESPACE", namespace);
    for name in MIRRORED {
        // XSD allows NOTATION only with an enumeration, so its mirror is based on QName.
        let base = if name == "NOTATION" { "QName" } else { name };
        let _ = write!(
            text,
            r#"<xs:element name="{name}" type="tns:{name}"/><xs:complexType name="{name}"><xs:simpleContent>
<xs:extension base="xs:{base}"><xs:attributeGroup ref="tns:commonAttributes"/></xs:extension></xs:simpleContent></xs:complexType>"#
        );
    }
    text.push_str("</xs:schema>");
    text
}

/// Returns the encoding whose schema is published at a location, with or without a trailing slash.
pub(crate) fn at(location: &str) -> Option<&'static str> {
    let bare = |text: &'static str| text.trim_end_matches('/') == location.trim_end_matches('/');
    NAMESPACES.into_iter().find(|namespace| bare(namespace))
}

/// Returns the encodings that a description imports without a location.
pub(crate) fn imported(documents: &Documents) -> Vec<&'static str> {
    NAMESPACES
        .into_iter()
        .filter(|namespace| documents.files.iter().any(|file| imports(&file.document, namespace)))
        .collect()
}

fn imports(tree: &Document, namespace: &str) -> bool {
    tree.descendants(Document::ROOT).any(|node| {
        let name = tree.name(node);
        tree.kind(node) == Kind::Element
            && name.namespace.uri == SCHEMA
            && name.local == "import"
            && tree.attribute(node, "", "namespace") == Some(namespace)
            && tree.attribute(node, "", "schemaLocation").is_none()
    })
}

#[cfg(test)]
mod tests {
    use xsd::datatype::Builtin;

    use super::*;

    #[test]
    fn every_simple_type_has_a_mirror() {
        let all = Builtin::ALL.iter().filter(|one| **one != Builtin::AnySimpleType);
        let mut all: Vec<&str> = all.map(|one| one.name()).collect();
        let mut mirrored = MIRRORED.to_vec();
        all.sort_unstable();
        mirrored.sort_unstable();
        assert_eq!(mirrored, all);
    }
}

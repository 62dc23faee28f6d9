//! The schema for schemas as a table.

/// Type of an attribute's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Value {
    Text,
    Uri,
    NcName,
    QName,
    QNames,
    Boolean,
    NonNegative,
    MaxOccurs,
    ZeroOrOne,
    One,
    Form,
    Use,
    ProcessContents,
    Namespaces,
    /// A list of words, or `#all`.
    Set(&'static [&'static str]),
}

pub(super) struct Attribute {
    pub(super) name: &'static str,
    pub(super) value: Value,
    pub(super) required: bool,
}

/// The children allowed in one position.
pub(super) struct Slot {
    pub(super) tags: &'static [&'static str],
    pub(super) min: usize,
    pub(super) max: usize,
}

/// The rule for an element of a schema document inside certain parents.
pub(super) struct Rule {
    pub(super) tag: &'static str,
    /// The parents of the element; empty if there may be any.
    parents: &'static [&'static str],
    pub(super) attributes: &'static [Attribute],
    /// The content has to match any of these sequences.
    pub(super) content: &'static [&'static [Slot]],
}

/// Returns the rule for an element in a parent. The first match counts.
pub(super) fn find(parent: &str, tag: &str) -> Option<&'static Rule> {
    RULES.iter().find(|r| r.tag == tag && (r.parents.is_empty() || r.parents.contains(&parent)))
}

pub(super) fn is_known(tag: &str) -> bool {
    RULES.iter().any(|rule| rule.tag == tag)
}

const fn may(name: &'static str, value: Value) -> Attribute {
    Attribute { name, value, required: false }
}

const fn must(name: &'static str, value: Value) -> Attribute {
    Attribute { name, value, required: true }
}

const fn opt(tags: &'static [&'static str]) -> Slot {
    Slot { tags, min: 0, max: 1 }
}

const fn one(tags: &'static [&'static str]) -> Slot {
    Slot { tags, min: 1, max: 1 }
}

const fn any(tags: &'static [&'static str]) -> Slot {
    Slot { tags, min: 0, max: usize::MAX }
}

const ID: Attribute = may("id", Value::NcName);
const NAME: Attribute = must("name", Value::NcName);
const MIN: Attribute = may("minOccurs", Value::NonNegative);
const MAX: Attribute = may("maxOccurs", Value::MaxOccurs);
const NOTE: Slot = opt(&["annotation"]);
const MODEL: Slot = opt(&["group", "all", "choice", "sequence"]);
const USES: Slot = any(&["attribute", "attributeGroup"]);
const REST: Slot = opt(&["anyAttribute"]);
const ONLY_NOTE: &[&[Slot]] = &[&[NOTE]];
const PARTICLES: &[&[Slot]] = &[&[NOTE, any(&["element", "group", "choice", "sequence", "any"])]];
const TOP: &[&str] = &["schema", "redefine"];
const BLOCK: Value = Value::Set(&["extension", "restriction", "substitution"]);
const DERIVATIONS: Value = Value::Set(&["extension", "restriction"]);
const FACETS: Slot = any(&[
    "minExclusive",
    "minInclusive",
    "maxExclusive",
    "maxInclusive",
    "totalDigits",
    "fractionDigits",
    "length",
    "minLength",
    "maxLength",
    "enumeration",
    "whiteSpace",
    "pattern",
]);
const FACET: &[Attribute] = &[ID, must("value", Value::Text), may("fixed", Value::Boolean)];
const LISTED: &[Attribute] = &[ID, must("value", Value::Text)];

const fn facet(tag: &'static str, attributes: &'static [Attribute]) -> Rule {
    Rule { tag, parents: &["restriction"], attributes, content: ONLY_NOTE }
}

const SCHEMA: Rule = Rule {
    tag: "schema",
    parents: &[""],
    attributes: &[
        ID,
        may("targetNamespace", Value::Uri),
        may("version", Value::Text),
        may("finalDefault", Value::Set(&["extension", "restriction", "list", "union"])),
        may("blockDefault", BLOCK),
        may("attributeFormDefault", Value::Form),
        may("elementFormDefault", Value::Form),
    ],
    content: &[&[
        any(&["include", "import", "redefine", "annotation"]),
        any(&[
            "simpleType",
            "complexType",
            "group",
            "attributeGroup",
            "element",
            "attribute",
            "notation",
            "annotation",
        ]),
    ]],
};

const RULES: &[Rule] = &[
    SCHEMA,
    Rule {
        tag: "include",
        parents: &["schema"],
        attributes: &[ID, must("schemaLocation", Value::Uri)],
        content: ONLY_NOTE,
    },
    Rule {
        tag: "import",
        parents: &["schema"],
        attributes: &[ID, may("namespace", Value::Uri), may("schemaLocation", Value::Uri)],
        content: ONLY_NOTE,
    },
    Rule {
        tag: "redefine",
        parents: &["schema"],
        attributes: &[ID, must("schemaLocation", Value::Uri)],
        content: &[&[any(&["annotation", "simpleType", "complexType", "group", "attributeGroup"])]],
    },
    Rule {
        tag: "annotation",
        parents: &[],
        attributes: &[ID],
        content: &[&[any(&["appinfo", "documentation"])]],
    },
    Rule {
        tag: "appinfo",
        parents: &["annotation"],
        attributes: &[may("source", Value::Uri)],
        content: &[],
    },
    Rule {
        tag: "documentation",
        parents: &["annotation"],
        attributes: &[may("source", Value::Uri)],
        content: &[],
    },
    Rule {
        tag: "notation",
        parents: &["schema"],
        attributes: &[ID, NAME, may("public", Value::Text), may("system", Value::Uri)],
        content: ONLY_NOTE,
    },
    Rule {
        tag: "element",
        parents: &["schema"],
        attributes: &[
            ID,
            NAME,
            may("type", Value::QName),
            may("default", Value::Text),
            may("fixed", Value::Text),
            may("nillable", Value::Boolean),
            may("abstract", Value::Boolean),
            may("final", DERIVATIONS),
            may("block", BLOCK),
            may("substitutionGroup", Value::QName),
        ],
        content: ELEMENT,
    },
    Rule {
        tag: "element",
        parents: &["all"],
        attributes: &local_element(Value::ZeroOrOne, Value::ZeroOrOne),
        content: ELEMENT,
    },
    Rule {
        tag: "element",
        parents: &["choice", "sequence"],
        attributes: &local_element(Value::NonNegative, Value::MaxOccurs),
        content: ELEMENT,
    },
    Rule {
        tag: "attribute",
        parents: &["schema"],
        attributes: &[
            ID,
            NAME,
            may("type", Value::QName),
            may("default", Value::Text),
            may("fixed", Value::Text),
        ],
        content: &[&[NOTE, opt(&["simpleType"])]],
    },
    Rule {
        tag: "attribute",
        parents: &["complexType", "restriction", "extension", "attributeGroup"],
        attributes: &[
            ID,
            may("name", Value::NcName),
            may("ref", Value::QName),
            may("type", Value::QName),
            may("use", Value::Use),
            may("default", Value::Text),
            may("fixed", Value::Text),
            may("form", Value::Form),
        ],
        content: &[&[NOTE, opt(&["simpleType"])]],
    },
    Rule {
        tag: "complexType",
        parents: TOP,
        attributes: &[
            ID,
            NAME,
            may("mixed", Value::Boolean),
            may("abstract", Value::Boolean),
            may("final", DERIVATIONS),
            may("block", DERIVATIONS),
        ],
        content: COMPLEX_TYPE,
    },
    Rule {
        tag: "complexType",
        parents: &["element"],
        attributes: &[ID, may("mixed", Value::Boolean)],
        content: COMPLEX_TYPE,
    },
    Rule {
        tag: "simpleContent",
        parents: &["complexType"],
        attributes: &[ID],
        content: &[&[NOTE, one(&["restriction", "extension"])]],
    },
    Rule {
        tag: "complexContent",
        parents: &["complexType"],
        attributes: &[ID, may("mixed", Value::Boolean)],
        content: &[&[NOTE, one(&["restriction", "extension"])]],
    },
    Rule {
        tag: "restriction",
        parents: &["simpleContent"],
        attributes: &[ID, must("base", Value::QName)],
        content: &[&[NOTE, opt(&["simpleType"]), FACETS, USES, REST]],
    },
    Rule {
        tag: "extension",
        parents: &["simpleContent"],
        attributes: &[ID, must("base", Value::QName)],
        content: &[&[NOTE, USES, REST]],
    },
    Rule {
        tag: "restriction",
        parents: &["complexContent"],
        attributes: &[ID, must("base", Value::QName)],
        content: &[&[NOTE, MODEL, USES, REST]],
    },
    Rule {
        tag: "extension",
        parents: &["complexContent"],
        attributes: &[ID, must("base", Value::QName)],
        content: &[&[NOTE, MODEL, USES, REST]],
    },
    Rule {
        tag: "restriction",
        parents: &["simpleType"],
        attributes: &[ID, may("base", Value::QName)],
        content: &[&[NOTE, opt(&["simpleType"]), FACETS]],
    },
    Rule {
        tag: "simpleType",
        parents: TOP,
        attributes: &[ID, NAME, may("final", Value::Set(&["list", "union", "restriction"]))],
        content: SIMPLE_TYPE,
    },
    Rule {
        tag: "simpleType",
        parents: &["element", "attribute", "restriction", "list", "union"],
        attributes: &[ID],
        content: SIMPLE_TYPE,
    },
    Rule {
        tag: "list",
        parents: &["simpleType"],
        attributes: &[ID, may("itemType", Value::QName)],
        content: &[&[NOTE, opt(&["simpleType"])]],
    },
    Rule {
        tag: "union",
        parents: &["simpleType"],
        attributes: &[ID, may("memberTypes", Value::QNames)],
        content: &[&[NOTE, any(&["simpleType"])]],
    },
    Rule {
        tag: "group",
        parents: TOP,
        attributes: &[ID, NAME],
        content: &[&[NOTE, one(&["all", "choice", "sequence"])]],
    },
    Rule {
        tag: "group",
        parents: &[],
        attributes: &[ID, must("ref", Value::QName), MIN, MAX],
        content: ONLY_NOTE,
    },
    // In a named group, the model has no occurrence attributes. References to the group have them instead.
    Rule { tag: "all", parents: &["group"], attributes: &[ID], content: ALL },
    Rule {
        tag: "all",
        parents: &["complexType", "restriction", "extension"],
        attributes: &[ID, may("minOccurs", Value::ZeroOrOne), may("maxOccurs", Value::One)],
        content: ALL,
    },
    Rule { tag: "choice", parents: &["group"], attributes: &[ID], content: PARTICLES },
    Rule { tag: "choice", parents: &[], attributes: &[ID, MIN, MAX], content: PARTICLES },
    Rule { tag: "sequence", parents: &["group"], attributes: &[ID], content: PARTICLES },
    Rule { tag: "sequence", parents: &[], attributes: &[ID, MIN, MAX], content: PARTICLES },
    Rule {
        tag: "any",
        parents: &["choice", "sequence"],
        attributes: &[
            ID,
            MIN,
            MAX,
            may("namespace", Value::Namespaces),
            may("processContents", Value::ProcessContents),
        ],
        content: ONLY_NOTE,
    },
    Rule {
        tag: "anyAttribute",
        parents: &[],
        attributes: &[
            ID,
            may("namespace", Value::Namespaces),
            may("processContents", Value::ProcessContents),
        ],
        content: ONLY_NOTE,
    },
    Rule {
        tag: "attributeGroup",
        parents: TOP,
        attributes: &[ID, NAME],
        content: &[&[NOTE, USES, REST]],
    },
    Rule {
        tag: "attributeGroup",
        parents: &[],
        attributes: &[ID, must("ref", Value::QName)],
        content: ONLY_NOTE,
    },
    Rule { tag: "unique", parents: &["element"], attributes: &[ID, NAME], content: CONSTRAINT },
    Rule { tag: "key", parents: &["element"], attributes: &[ID, NAME], content: CONSTRAINT },
    Rule {
        tag: "keyref",
        parents: &["element"],
        attributes: &[ID, NAME, must("refer", Value::QName)],
        content: CONSTRAINT,
    },
    Rule {
        tag: "selector",
        parents: &["unique", "key", "keyref"],
        attributes: &[ID, must("xpath", Value::Text)],
        content: ONLY_NOTE,
    },
    Rule {
        tag: "field",
        parents: &["unique", "key", "keyref"],
        attributes: &[ID, must("xpath", Value::Text)],
        content: ONLY_NOTE,
    },
    facet("minExclusive", FACET),
    facet("minInclusive", FACET),
    facet("maxExclusive", FACET),
    facet("maxInclusive", FACET),
    facet("totalDigits", FACET),
    facet("fractionDigits", FACET),
    facet("length", FACET),
    facet("minLength", FACET),
    facet("maxLength", FACET),
    facet("whiteSpace", FACET),
    facet("enumeration", LISTED),
    facet("pattern", LISTED),
];

const fn local_element(min: Value, max: Value) -> [Attribute; 11] {
    [
        ID,
        may("name", Value::NcName),
        may("ref", Value::QName),
        may("type", Value::QName),
        may("minOccurs", min),
        may("maxOccurs", max),
        may("default", Value::Text),
        may("fixed", Value::Text),
        may("nillable", Value::Boolean),
        may("block", BLOCK),
        may("form", Value::Form),
    ]
}

const ELEMENT: &[&[Slot]] =
    &[&[NOTE, opt(&["simpleType", "complexType"]), any(&["unique", "key", "keyref"])]];
const COMPLEX_TYPE: &[&[Slot]] =
    &[&[NOTE, one(&["simpleContent", "complexContent"])], &[NOTE, MODEL, USES, REST]];
const SIMPLE_TYPE: &[&[Slot]] = &[&[NOTE, one(&["restriction", "list", "union"])]];
const ALL: &[&[Slot]] = &[&[NOTE, any(&["element"])]];
const CONSTRAINT: &[&[Slot]] =
    &[&[NOTE, one(&["selector"]), Slot { tags: &["field"], min: 1, max: usize::MAX }]];

//! Random schemas, and instances that fit them or nearly do.
//!
//! Owns a small model of a schema: enough to write it and to walk it. Names repeat now and then, so that some schemas are
//! ambiguous and have to be refused.

use std::fmt::Write as _;

use fastrand::Rng;

/// A schema with one root element.
pub(crate) struct Schema {
    root: Element,
    qualified: bool,
}

struct Element {
    name: String,
    kind: Kind,
    occurs: Occurs,
    nillable: bool,
}

#[derive(Clone, Copy)]
struct Occurs {
    min: u32,
    /// The maximum, or `None` if unbounded.
    max: Option<u32>,
}

enum Kind {
    Simple(Simple),
    Complex { model: Model, attributes: Vec<Attribute>, mixed: bool },
}

struct Simple {
    base: &'static str,
    /// Name and value.
    facets: Vec<(&'static str, &'static str)>,
    list: bool,
}

struct Attribute {
    name: &'static str,
    kind: Simple,
    required: bool,
}

enum Model {
    Group { sort: Sort, parts: Vec<Part>, occurs: Occurs },
    All(Vec<Element>),
}

enum Part {
    Element(Element),
    Model(Model),
    /// Any element of another namespace.
    Any(Occurs),
}

#[derive(Clone, Copy, PartialEq)]
enum Sort {
    Sequence,
    Choice,
}

const ONCE: Occurs = Occurs { min: 1, max: Some(1) };
const OCCURS: &[Occurs] = &[
    ONCE,
    ONCE,
    Occurs { min: 0, max: Some(1) },
    Occurs { min: 0, max: None },
    Occurs { min: 1, max: None },
    Occurs { min: 2, max: Some(3) },
    Occurs { min: 0, max: Some(5) },
];

/// A base type, facets by name and value, and values.
type Family = (&'static str, &'static [(&'static str, &'static str)], &'static [&'static str]);

/// Bases with facets that fit, and values near their limits.
const SIMPLE: &[Family] = &[
    ("string", &[("maxLength", "3"), ("minLength", "1")], &["", "a", "abc", "abcd", "été", " a "]),
    ("token", &[("pattern", "[a-c]{1,3}|x\\d+")], &["abc", "x12", " ab ", "d", "x", ""]),
    (
        "int",
        &[("minInclusive", "-5"), ("maxExclusive", "10")],
        &["-5", "9", "10", "+3", "007", "2147483648", "1.0", ""],
    ),
    (
        "decimal",
        &[("totalDigits", "4"), ("fractionDigits", "2")],
        &["12.34", "123.4", "0.123", "00012.340", "-1", ".5", "5.", "+.5", "1e2"],
    ),
    ("boolean", &[], &["true", "1", "0", "TRUE", " false "]),
    (
        "date",
        &[("minInclusive", "2000-01-01")],
        &[
            "2000-01-01",
            "1999-12-31",
            "2004-02-29",
            "2003-02-29",
            "2000-01-01Z",
            "10000-01-01",
            "2000-1-1",
        ],
    ),
    (
        "dateTime",
        &[],
        &[
            "2001-01-01T00:00:00",
            "2001-01-01T24:00:00",
            "2001-01-01T12:00:00.5+14:00",
            "2001-01-01T12:00:00+14:01",
            "2001-01-01",
        ],
    ),
    (
        "duration",
        &[("maxInclusive", "P1Y")],
        &["P1Y", "P12M", "P366D", "PT1S", "-P1Y", "P", "P1YT"],
    ),
    ("double", &[], &["1e400", "INF", "-INF", "NaN", "+INF", "1.5E-3", "1,5"]),
    ("QName", &[], &["a", "p:a", "xs:int", "a:b:c", ""]),
    (
        "NMTOKEN",
        &[("enumeration", "red"), ("enumeration", "green")],
        &["red", " green ", "blue", "re d"],
    ),
    ("anyURI", &[], &["http://a/b", "a b", "", "#x"]),
    ("hexBinary", &[("length", "2")], &["0aFF", "0a", "0aF", "xx"]),
    ("base64Binary", &[], &["AAAA", "AA==", "A", "A A A A"]),
    ("gYearMonth", &[], &["2000-12", "2000-13", "2000-12+01:00"]),
    ("language", &[], &["en", "en-GB", "e1", "english-too-long1"]),
];

/// A schema, correct or not.
pub(crate) fn schema(random: &mut Rng) -> Schema {
    let kind = complex(random, 3);
    Schema {
        root: Element { name: "root".to_owned(), kind, occurs: ONCE, nillable: false },
        qualified: random.bool(),
    }
}

fn occurs(random: &mut Rng) -> Occurs {
    random.choice(OCCURS.iter().copied()).unwrap_or(ONCE)
}

fn complex(random: &mut Rng, depth: usize) -> Kind {
    let names = ["k", "l", "m"];
    let attributes = names.into_iter().take(random.usize(0..4));
    let attributes =
        attributes.map(|name| Attribute { name, kind: simple(random), required: random.bool() });
    let attributes = attributes.collect();
    let model = match random.u8(0..5) {
        0 => Model::All((0..random.usize(1..4)).map(|n| element(random, n, 0)).map(once).collect()),
        _ => group(random, depth),
    };
    Kind::Complex { model, attributes, mixed: random.u8(0..4) == 0 }
}

/// In an all-group an element occurs at most once.
fn once(mut element: Element) -> Element {
    element.occurs.min = element.occurs.min.min(1);
    element.occurs.max = Some(1);
    element
}

fn group(random: &mut Rng, depth: usize) -> Model {
    let sort = if random.bool() { Sort::Sequence } else { Sort::Choice };
    let parts = (0..random.usize(1..4)).map(|number| match random.u8(0..6) {
        0 if depth > 0 => Part::Model(group(random, depth - 1)),
        1 => Part::Any(occurs(random)),
        _ => Part::Element(element(random, number, depth)),
    });
    let parts = parts.collect();
    Model::Group { sort, parts, occurs: occurs(random) }
}

fn element(random: &mut Rng, number: usize, depth: usize) -> Element {
    // Usually each place has a new name. Occasionally a name is repeated.
    let name = match random.u8(0..8) {
        0 => "e0".to_owned(),
        _ => format!("e{depth}{number}{}", random.u8(0..10)),
    };
    let kind = match random.u8(0..3) {
        0 if depth > 0 => complex(random, depth - 1),
        _ => Kind::Simple(simple(random)),
    };
    Element { name, kind, occurs: occurs(random), nillable: random.u8(0..5) == 0 }
}

fn simple(random: &mut Rng) -> Simple {
    let (base, facets, _) = random.choice(SIMPLE).copied().unwrap_or(("string", &[], &[]));
    let facets = facets.iter().copied().filter(|_| random.bool()).collect();
    Simple { base, facets, list: random.u8(0..8) == 0 }
}

impl Schema {
    /// The schema document.
    pub(crate) fn text(&self) -> String {
        let mut out = String::from(
            "<xs:schema xmlns:xs=\"http://www.w3.org/2001/XMLSchema\" targetNamespace=\"urn:t\"",
        );
        if self.qualified {
            out.push_str(" elementFormDefault=\"qualified\"");
        }
        out.push_str(">\n");
        self.root.write(true, &mut out);
        out.push_str("</xs:schema>\n");
        out
    }

    /// Writes a document that is valid against the schema, except for occasional deliberate mistakes.
    pub(crate) fn instance(&self, random: &mut Rng) -> String {
        let mut out = String::from("<?xml version=\"1.0\"?>\n");
        let mut walk = Walk { random, qualified: self.qualified, out: &mut out, left: 400 };
        walk.root(&self.root);
        out
    }
}

impl Element {
    fn write(&self, global: bool, out: &mut String) {
        let _ = write!(out, "<xs:element name=\"{}\"", self.name);
        if !global {
            self.occurs.write(out);
        }
        if self.nillable {
            out.push_str(" nillable=\"true\"");
        }
        out.push('>');
        match &self.kind {
            Kind::Simple(simple) => simple.write(out),
            Kind::Complex { model, attributes, mixed } => {
                let _ = write!(out, "<xs:complexType mixed=\"{mixed}\">");
                model.write(out);
                for attribute in attributes {
                    let usage = if attribute.required { "required" } else { "optional" };
                    let _ =
                        write!(out, "<xs:attribute name=\"{}\" use=\"{usage}\">", attribute.name);
                    attribute.kind.write(out);
                    out.push_str("</xs:attribute>");
                }
                out.push_str("</xs:complexType>");
            }
        }
        out.push_str("</xs:element>\n");
    }
}

impl Occurs {
    fn write(self, out: &mut String) {
        let max = self.max.map_or("unbounded".to_owned(), |max| max.to_string());
        let _ = write!(out, " minOccurs=\"{}\" maxOccurs=\"{max}\"", self.min);
    }
}

impl Simple {
    fn write(&self, out: &mut String) {
        let _ = write!(out, "<xs:simpleType><xs:restriction base=\"xs:{}\">", self.base);
        for (name, value) in &self.facets {
            let _ = write!(out, "<xs:{name} value=\"{value}\"/>");
        }
        out.push_str("</xs:restriction></xs:simpleType>");
        if self.list {
            // Replaces the type by a list of it.
            let item = out.rfind("<xs:simpleType>").map(|at| out.split_off(at)).unwrap_or_default();
            let _ = write!(out, "<xs:simpleType><xs:list>{item}</xs:list></xs:simpleType>");
        }
    }

    fn value(&self, random: &mut Rng) -> String {
        let values = SIMPLE.iter().find(|(base, _, _)| *base == self.base).map(|(_, _, v)| *v);
        let values = values.unwrap_or_default();
        let count = if self.list { random.usize(0..3) } else { 1 };
        // The first values are valid more often than the last ones.
        let mut one = || {
            let end = random.usize(1..=values.len().max(1));
            random.choice(values.iter().take(end).copied()).unwrap_or_default()
        };
        (0..count).map(|_| one()).collect::<Vec<_>>().join(" ")
    }
}

impl Model {
    fn write(&self, out: &mut String) {
        match self {
            Model::All(elements) => {
                out.push_str("<xs:all>");
                elements.iter().for_each(|element| element.write(false, out));
                out.push_str("</xs:all>");
            }
            Model::Group { sort, parts, occurs } => {
                let tag = if *sort == Sort::Sequence { "sequence" } else { "choice" };
                let _ = write!(out, "<xs:{tag}");
                occurs.write(out);
                out.push_str(">\n");
                for part in parts {
                    match part {
                        Part::Element(element) => element.write(false, out),
                        Part::Model(model) => model.write(out),
                        Part::Any(occurs) => {
                            out.push_str("<xs:any namespace=\"##other\" processContents=\"lax\"");
                            occurs.write(out);
                            out.push_str("/>\n");
                        }
                    }
                }
                let _ = writeln!(out, "</xs:{tag}>");
            }
        }
    }
}

/// Writes an instance with occasional mistakes.
struct Walk<'w> {
    random: &'w mut Rng,
    qualified: bool,
    out: &'w mut String,
    /// Elements that may still be written.
    left: usize,
}

impl Walk<'_> {
    fn root(&mut self, root: &Element) {
        self.out.push_str("<t:root xmlns:t=\"urn:t\" xmlns:p=\"urn:p\" xmlns:xs=\"http://www.w3.org/2001/XMLSchema\" xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\"");
        self.inside(root, "t:root");
    }

    /// Returns true in one of 40 calls, on average. The caller then makes a mistake.
    fn makes_mistake(&mut self) -> bool {
        self.random.u8(0..40) == 0
    }

    fn element(&mut self, element: &Element) {
        if self.left == 0 {
            return;
        }
        self.left -= 1;
        let name = if self.qualified != self.makes_mistake() {
            format!("t:{}", element.name)
        } else {
            element.name.clone()
        };
        let _ = write!(self.out, "<{name}");
        self.inside(element, &name);
    }

    fn inside(&mut self, element: &Element, name: &str) {
        if self.random.u8(0..12) == 0 {
            self.out.push_str(" xsi:nil=\"true\"");
        }
        if let Kind::Complex { attributes, .. } = &element.kind {
            for attribute in attributes {
                if attribute.required != self.makes_mistake() || self.random.bool() {
                    let value = attribute.kind.value(self.random);
                    let _ = write!(self.out, " {}=\"{value}\"", attribute.name);
                }
            }
        }
        self.out.push('>');
        match &element.kind {
            Kind::Simple(simple) => {
                let value = simple.value(self.random);
                self.out.push_str(&value);
            }
            Kind::Complex { model, mixed, .. } => {
                if *mixed || self.makes_mistake() {
                    self.out.push_str("text");
                }
                self.model(model);
            }
        }
        let _ = writeln!(self.out, "</{name}>");
    }

    fn times(&mut self, occurs: Occurs) -> u32 {
        let max = occurs.max.unwrap_or(occurs.min + 3).max(occurs.min);
        let times = self.random.u32(occurs.min..=max);
        if self.makes_mistake() { times + 1 } else { times }
    }

    fn model(&mut self, model: &Model) {
        match model {
            Model::All(elements) => {
                let mut order: Vec<&Element> = elements.iter().collect();
                self.random.shuffle(&mut order);
                for element in order {
                    for _ in 0..self.times(element.occurs) {
                        self.element(element);
                    }
                }
            }
            Model::Group { sort, parts, occurs } => {
                for _ in 0..self.times(*occurs) {
                    match sort {
                        Sort::Sequence => parts.iter().for_each(|part| self.part(part)),
                        Sort::Choice => {
                            if let Some(part) = self.random.choice(parts) {
                                self.part(part);
                            }
                        }
                    }
                }
            }
        }
    }

    fn part(&mut self, part: &Part) {
        match part {
            Part::Element(element) => {
                for _ in 0..self.times(element.occurs) {
                    self.element(element);
                }
            }
            Part::Model(model) => self.model(model),
            Part::Any(occurs) => {
                for _ in 0..self.times(*occurs) {
                    self.out.push_str("<p:any k=\"1\">x</p:any>");
                }
            }
        }
    }
}

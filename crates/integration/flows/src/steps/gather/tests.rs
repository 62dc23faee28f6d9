//! Compares parts cut from the first levels of results with those cut from whole trees.

use expression::{Budget, Language, Limits, Member, NameKind, Names, Scope, Slot};

use super::*;
use crate::content::Content;
use crate::message::Payload;
use crate::sender::Sender;

const DOCUMENT: Slot = Slot(0);
const BODY: Slot = Slot(1);

const SOAP: &str = "http://schemas.xmlsoap.org/soap/envelope/";
const XSI: &str = "http://www.w3.org/2001/XMLSchema-instance";

struct MessageNames;

impl Names for MessageNames {
    fn find(&self, path: &[&str]) -> Option<NameKind> {
        (path == ["body"]).then_some(NameKind::Value(BODY))
    }

    fn namespace(&self, prefix: &str) -> Option<&str> {
        [("p", "urn:p"), ("d", "urn:d"), ("s", SOAP)]
            .iter()
            .find_map(|(known, uri)| (*known == prefix).then_some(*uri))
    }

    fn document(&self) -> Slot {
        DOCUMENT
    }

    fn body(&self) -> Slot {
        BODY
    }
}

struct ContentScope<'c>(&'c Content);

impl Scope for ContentScope<'_> {
    fn value(&self, slot: Slot) -> Result<Value, FailureKind> {
        match slot {
            DOCUMENT => self.0.document(),
            _ => self.0.body(),
        }
    }

    fn members(&self, _group: Slot) -> Result<Vec<(Box<str>, Member)>, FailureKind> {
        Ok(Vec::new())
    }
}

fn message(text: &[u8], content_type: &str) -> Message {
    let content =
        Content::new(text.to_vec().into(), Some(content_type.as_bytes()), Sender::Upstream);
    Message { status: None, lines: Headers::new(), payload: Payload::Held(Rc::new(content)) }
}

/// Returns the part that is cut, for a place with or without a default namespace, and the text around it, or the error.
fn cut_of(message: &Message, take: Option<&Expression>, default_namespace: bool) -> String {
    let content = message.content().unwrap();
    let mut budget = Budget::new(Limits::default());
    let value = match take {
        None => whole_value(message).map_err(|fault| fault.to_string()),
        Some(take) => {
            take.value(&ContentScope(content), &mut budget).map_err(|failure| failure.to_string())
        }
    };
    let value = match value {
        Ok(value) => value,
        Err(wrong) => return wrong,
    };
    let mut text = String::new();
    value.write_xml(default_namespace, &mut text, &mut budget).unwrap();
    let around = around(&value, message).map_or_else(String::new, |around| {
        format!("{} | {} | {}", around.before, around.after, around.default_namespace)
    });
    format!("{text} in {around}")
}

fn compile(take: &str) -> Expression {
    Expression::compile(take, Language::Marked, &MessageNames).unwrap()
}

/// The number of nodes, to see that some are left out.
fn nodes(message: &Message) -> u32 {
    match message.content().unwrap().view() {
        Ok(View::Xml { document, .. }) => document.len(),
        Ok(View::Empty | View::Json(_) | View::Text(_) | View::Bytes) | Err(_) => 0,
    }
}

const TAKES: [&str; 19] = [
    "$body",
    "$body/*",
    "$body/*[1]",
    "$body/*[last()]",
    "$body/a",
    "$body/p:b",
    "$body/a/p:b",
    "$body/*/*/a",
    "$body/node()",
    "$body/text()",
    "$body/comment()",
    "$body/@x",
    "$body/*/@*",
    "$body/*[@x='1']/*",
    "/a",
    "/*/*",
    "/*/d:a",
    "/s:Envelope/s:Body/*[2]",
    "$body/a | /*/*",
];

/// Pseudorandom numbers, which are the same in each run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % sides
    }

    fn one<'t>(&mut self, of: &[&'t str]) -> &'t str {
        of[self.roll(of.len())]
    }

    fn element(&mut self, depth: usize, out: &mut String) {
        let name = self.one(&["a", "a", "b", "c", "p:a", "p:b", "p:c", "q:a", "longerName", "b2"]);
        let declared = self.one(&[
            "",
            "",
            "",
            "",
            " xmlns='urn:d'",
            " xmlns=''",
            " xmlns:p='urn:p'",
            " xmlns:p='urn:r' xmlns:q='urn:s&amp;'",
        ]);
        let attributes = self.one(&[
            "",
            "",
            "",
            " x='1'",
            " p:x='>'",
            " i:type='a'",
            " i:type='p:a'",
            " p:type='q' x=\"'\"",
            " x='p:a'",
        ]);
        let content = if depth == 0 { 0 } else { self.roll(5) };
        out.push_str(&format!("<{name}{declared}{attributes}"));
        if content == 0 && self.roll(2) == 0 {
            out.push_str(self.one(&["/>", " />"]));
            return;
        }
        out.push('>');
        for _ in 0..content {
            match self.roll(3) {
                0 => out.push_str(self.one(&[
                    "t",
                    " \n ",
                    "p:w",
                    "&amp;&lt;",
                    "<![CDATA[<a>]]>",
                    "<!-- p:c -->",
                    "<?p q:c?>",
                    "é",
                    "q:w",
                    "&#13;",
                ])),
                _ => self.element(depth - 1, out),
            }
        }
        out.push_str(&format!("</{name}{}>", self.one(&["", "", " "])));
    }

    fn document(&mut self) -> String {
        let mut out =
            self.one(&["", "\u{feff}", "<?xml version='1.0'?>\n", "<!-- c -->"]).to_owned();
        let more: String = match self.roll(6) {
            0 => (0..9).map(|n| format!(" xmlns:n{n}='urn:{n}'")).collect(),
            _ => String::new(),
        };
        let default = self.one(&["", "", " xmlns='urn:d'"]);
        let declared = format!("{default} xmlns:p='urn:p' xmlns:q='urn:q' xmlns:i='{XSI}'{more}");
        let levels = 1 + self.roll(4);
        let (open, close) = match self.roll(3) {
            0 => (format!("<a{declared}>"), "</a>".to_owned()),
            1 => (
                format!("<e:Envelope xmlns:e='{SOAP}'{declared}><e:Header>"),
                "</e:Body></e:Envelope>".to_owned(),
            ),
            _ => (
                format!("<e:Envelope xmlns:e='{SOAP}'{declared}><e:Body p:x='1'>"),
                "</e:Body> </e:Envelope><!-- c -->".to_owned(),
            ),
        };
        out.push_str(&open);
        let elements = self.roll(4);
        for _ in 0..elements {
            self.element(levels, &mut out);
            out.push_str(self.one(&["", "", " "]));
        }
        if open.ends_with("Header>") {
            out.push_str(self.one(&[
                "</e:Header><e:Body>",
                "</e:Header> <e:Body >",
                "</e:Header><e:Body/><e:Body>",
            ]));
            self.element(levels, &mut out);
        }
        out.push_str(&close);
        out
    }
}

/// Issue 21: the parts cut while a result is parsed equal those cut from its tree.
#[test]
fn parts_of_the_first_levels_are_those_of_a_whole_tree() {
    let takes: Vec<Option<Expression>> =
        TAKES.iter().map(|take| Some(compile(take))).chain([None]).collect();
    let mut dice = Dice(21);
    let (mut parts, mut wrong) = (0, 0);
    for _ in 0..1_500 {
        let mut text = dice.document().into_bytes();
        match dice.roll(8) {
            0 => text.truncate(dice.roll(text.len())),
            1 => {
                let at = dice.roll(text.len());
                text[at] = b"<>&/:= "[dice.roll(7)];
            }
            _ => {}
        }
        for take in &takes {
            let levels = match take {
                Some(take) => take.levels().unwrap(),
                None => Envelope::CONTENT_LEVELS,
            };
            let (whole, part) = (message(&text, "text/xml"), message(&text, "text/xml"));
            read_levels(&part, Some(levels), None);
            for default_namespace in [false, true] {
                let expected = cut_of(&whole, take.as_ref(), default_namespace);
                let found = cut_of(&part, take.as_ref(), default_namespace);
                let shown = String::from_utf8_lossy(&text);
                assert_eq!(found, expected, "{take:?} of {shown}");
            }
            parts += usize::from(nodes(&part) < nodes(&whole));
            wrong += usize::from(nodes(&whole) == 0);
        }
    }
    assert!(parts > 3_000 && wrong > 1_000, "{parts} in part, {wrong} malformed");
}

#[test]
fn expressions_that_read_deeper_need_a_whole_tree() {
    for take in [
        "//a",
        "$body//a",
        "$body/a[b]",
        "$body/a[. = '1']",
        "$body/..",
        "$body/a/..",
        "/",
        "$body[1]",
        "$body/a[position() < 3]",
        "$body/a | //b",
        "$body/a/following::b",
    ] {
        assert_eq!(compile(take).levels(), None, "{take}");
    }
    for (take, levels) in [("$body", 2), ("$body/*[1]", 3), ("/a/b/@c", 2), ("/a | $body/b/c", 4)] {
        assert_eq!(compile(take).levels(), Some(levels), "{take}");
    }
}

/// Covers other encodings, a shared body, and a result for JSON, which needs the texts of elements.
#[test]
fn what_is_not_cut_from_its_source_has_a_whole_tree() {
    let text = "<a><b><c><d>é</d></c></b></a>";
    let utf16: Vec<u8> =
        format!("\u{feff}{text}").encode_utf16().flat_map(u16::to_le_bytes).collect();
    let latin: Vec<u8> = text.chars().map(|c| u8::try_from(u32::from(c)).unwrap()).collect();
    for (bytes, content_type) in
        [(utf16, "text/xml"), (latin.clone(), "text/xml; charset=iso-8859-1")]
    {
        let (whole, part) = (message(&bytes, content_type), message(&bytes, content_type));
        read_levels(&part, Some(2), None);
        let take = compile("/a/b");
        assert_eq!(cut_of(&part, Some(&take), false), cut_of(&whole, Some(&take), false));
        assert!(cut_of(&part, Some(&take), false).starts_with("<b><c><d>é</d></c></b>"));
    }
    let shared = message(text.as_bytes(), "text/xml");
    let _other = shared.copy();
    read_levels(&shared, Some(2), None);
    let json = message(text.as_bytes(), "text/xml");
    read_levels(&json, Some(2), Some(&Wrapper::Json));
    let cut = message(text.as_bytes(), "text/xml");
    read_levels(&cut, Some(2), None);
    assert_eq!((nodes(&shared), nodes(&json), nodes(&cut)), (6, 6, 3));
}

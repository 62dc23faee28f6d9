//! Reuse of earlier replies: a service sends the same markup again and again, with different values.
//!
//! If the markup of a message is known, its JSON is the earlier JSON with different values. Only values that depend on nothing but their
//! own text can differ; all other text counts as markup.

use xml::Recall;
use xsd::datatype::Steps;

use super::frames::FrameKind;
use super::texts::{Prefixes, push_value};
use super::{Done, ReadMessage, Reader};
use crate::typed::model::{Message, Scalar, ScalarKind};
use crate::typed::options;
use crate::typed::reply_cache::{KnownReply, Part, Prefix, Value};

impl Value {
    /// Appends the value of another text. Returns false and appends nothing if the text is invalid for the type.
    fn push(&self, out: &mut String, text: &str, steps: &Steps) -> bool {
        let names = Prefixes { resolve: &|_| None, steps };
        let is_valid = self.scalar.simple.check(text, &names).is_ok();
        if is_valid {
            push_value(out, &self.scalar, text, &names);
        }
        is_valid
    }
}

impl Reader<'_> {
    /// Reads a message as [`Reader::read`] does, using the cache of the API's earlier replies.
    pub(in crate::typed) fn read_again(mut self, bytes: &[u8]) -> Done<ReadMessage> {
        let replies = &self.api.replies;
        // Harmless: without a cached template, an empty one is used.
        let mut known = replies.take().unwrap_or_default();
        let parsed = known.parse(bytes, options(), &mut self);
        replies.give(known);
        parsed?;
        self.finish(bytes)
    }

    fn tables(&self) -> usize {
        self.message.map_or(0, |message| std::ptr::from_ref::<Message>(message).addr())
    }
}

/// Returns whether a value depends only on its own text.
fn stands_alone(scalar: &Scalar) -> bool {
    match scalar.kind {
        ScalarKind::Boolean
        | ScalarKind::Number { .. }
        | ScalarKind::Float
        | ScalarKind::Text
        | ScalarKind::Free => true,
        ScalarKind::Name | ScalarKind::List(_) | ScalarKind::Union(_) => false,
    }
}

impl Recall for Reader<'_> {
    type Memory = Prefix;
    type DocumentState = KnownReply;
    type Gap = Value;

    fn remember(&self) -> Option<Prefix> {
        // A prefix ends before the first element within the root's first child, so nothing has been written yet.
        let part = match self.part {
            part @ (Part::Envelope | Part::Header | Part::Body) => part,
            Part::Outside
            | Part::SkippedHeader(_)
            | Part::SkippedBody(_)
            | Part::Value
            | Part::Fault => return None,
        };
        Some(Prefix { part, version: self.version })
    }

    fn resume(&mut self, prefix: &Prefix) {
        self.part = prefix.part;
        self.version = prefix.version;
    }

    fn gap(&self, text: &str) -> Option<Value> {
        let FrameKind::Text(scalar) = &self.frames.last()?.kind else { return None };
        // Headers and details are first written to another buffer.
        if self.part != Part::Value || self.in_header || !stands_alone(scalar) {
            return None;
        }
        let from = self.out.len();
        let mut value = Value { from, to: from, scalar: (*scalar).clone() };
        let mut written = String::new();
        let is_valid = value.push(&mut written, text, &Steps::default());
        value.to += written.len();
        is_valid.then_some(value)
    }

    fn whole(&mut self) -> Option<KnownReply> {
        let is_value = self.said && self.fault.is_none() && !self.unsure;
        is_value.then(|| KnownReply { tables: self.tables(), json: self.out.as_str().into() })
    }

    fn fill<'t, T>(&mut self, known: &KnownReply, texts: T) -> bool
    where
        T: Iterator<Item = (&'t Value, &'t str)> + Clone,
    {
        if known.tables != self.tables() {
            return false;
        }
        let mut out = std::mem::take(&mut self.out);
        let steps = Steps::default();
        let (mut from, mut fit) = (0, true);
        for (value, text) in texts {
            out.push_str(known.json.get(from..value.from).unwrap_or_default());
            fit = value.push(&mut out, text, &steps);
            if !fit {
                break;
            }
            from = value.to;
        }
        out.push_str(known.json.get(from..).unwrap_or_default());
        // A reply that is too long is parsed, which gives the error.
        fit &= out.len() <= self.bytes_max;
        if !fit {
            out.clear();
        }
        self.out = out;
        self.said = fit;
        fit
    }
}

#[cfg(test)]
mod tests {
    use xsd::Map;

    use super::super::{ReadError, XSI};
    use super::*;
    use crate::typed::{Api, Operation, PortChoice, api};

    const TYPES: &str = include_str!("../../../../../../tests/soap_rest/types.wsdl");

    fn types() -> Api {
        let mut documents = Map::default();
        documents.insert("a.wsdl", TYPES);
        let read = crate::read("a.wsdl", &documents, &crate::Limits::default()).unwrap();
        api(&read, PortChoice::default()).unwrap()
    }

    fn operation<'a>(api: &'a Api, name: &str) -> &'a Operation {
        api.operations().iter().find(|operation| operation.name() == name).unwrap()
    }

    fn envelope(body: &str) -> String {
        format!(
            r#"<s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/" xmlns:t="urn:types"><s:Body>{body}</s:Body></s:Envelope>"#
        )
    }

    fn order(content: &str) -> String {
        envelope(&format!("<t:Order>{content}</t:Order>"))
    }

    fn reader<'a>(api: &'a Api, operation: &'a Operation, bytes_max: usize) -> Reader<'a> {
        Reader::new(api, &operation.faults, operation.output.as_ref(), bytes_max)
    }

    /// Returns whether the reply is found in the cache, so that it is not parsed.
    fn is_known(api: &Api, operation: &Operation, message: &str) -> bool {
        let mut reader = reader(api, operation, 1 << 20);
        let mut known = api.replies.take().unwrap_or_default();
        known.parse(message.as_bytes(), options(), &mut reader).unwrap();
        api.replies.give(known);
        reader.frames.capacity() == 0
    }

    #[test]
    fn a_reply_is_known_by_its_markup() {
        let api = types();
        let of = operation(&api, "Order");
        let message = |number: &str, rate: &str| {
            order(&format!(
                "<t:number>{number}</t:number><t:rate>{rate}</t:rate><t:paid>true</t:paid>"
            ))
        };
        assert!(!is_known(&api, of, &message("1", "2.50")));
        assert_eq!(is_known(&api, of, &message("-007", "3")), xml::shortcuts());
        let read = api.reply(of, message("-007", " 3 ").as_bytes(), 1 << 20);
        let expected = r#"{"number":-7,"rate":3,"paid":true}"#;
        assert_eq!(read, Ok(ReadMessage::Value(expected.to_owned())));
        for other in [message("", "1"), message("1", "x"), message("1&#48;", "1")] {
            let fresh = reader(&api, of, 1 << 20).read(other.as_bytes());
            assert_eq!(api.reply(of, other.as_bytes(), 1 << 20), fresh);
        }
        let loose = operation(&api, "Loose");
        let read = api.reply(loose, message("1", "2").as_bytes(), 1 << 20);
        assert!(matches!(read, Err(ReadError::Mismatch(_))), "{read:?}");
    }

    #[test]
    fn a_second_element_is_told_from_a_wrong_one() {
        let api = types();
        let of = operation(&api, "Order");
        let first =
            "<t:Order><t:number>1</t:number><t:rate>1</t:rate><t:paid>true</t:paid></t:Order>";
        for (body, expected) in [
            (
                format!("{first}{first}"),
                r#"the body has a second element, <Order> in the namespace "urn:types""#,
            ),
            (
                "<t:Other/>".to_owned(),
                r#"the body contains <Other> in the namespace "urn:types" instead of <Order> in the namespace "urn:types""#,
            ),
        ] {
            let read = reader(&api, of, 1 << 20).read(envelope(&body).as_bytes());
            assert_eq!(read, Err(ReadError::Mismatch(expected.to_owned())), "{body}");
        }
    }

    #[test]
    fn the_size_limit_applies_to_known_replies() {
        let api = types();
        let of = operation(&api, "Order");
        let long = "1".repeat(100);
        for number in ["1", long.as_str(), "2"] {
            for bytes_max in [10, 50, 500] {
                let values = format!("<t:number>{number}</t:number><t:rate>2</t:rate>");
                let message = order(&values);
                let read = api.reply(of, message.as_bytes(), bytes_max);
                assert_eq!(read, reader(&api, of, bytes_max).read(message.as_bytes()));
                assert_eq!(read.is_ok(), bytes_max == 500 || number.len() == 1 && bytes_max == 50);
            }
        }
    }

    /// Returns messages of all kinds that contain this text.
    fn messages(text: &str) -> Vec<String> {
        let member = |name: &str, before: &str| {
            order(&format!("<t:number>8</t:number>{before}<t:{name}>{text}</t:{name}>"))
        };
        let loose = envelope(&format!("<l:Loose xmlns:l=\"urn:loose\"><a>{text}</a></l:Loose>"));
        let headed = |header: &str| loose.replace("<s:Body>", &format!("{header}<s:Body>"));
        vec![
            order(&format!("<t:number>{text}</t:number>")),
            order(&format!(
                "<t:number>1</t:number><t:price currency=\"{}\">{text}</t:price><t:weight>INF</t:weight>",
                text.len()
            )),
            member("paid", ""),
            member("due", ""),
            member("sizes", ""),
            member("card", ""),
            member("bic", "<t:iban>A</t:iban>"),
            member("tag", "<t:tag>\"\\</t:tag>"),
            member("kind", ""),
            member("kind", "").replace("<t:kind>", "<t:kind xmlns=\"urn:d\">"),
            member("state", ""),
            member("anything", ""),
            member("note", ""),
            member("mail", ""),
            order(&format!(
                "<t:number>9</t:number><t:shape xsi:type=\"t:Circle\" xmlns:xsi=\"{XSI}\"><t:radius>{text}</t:radius></t:shape>"
            )),
            envelope(&format!("<t:Symbol>{text}</t:Symbol>")),
            envelope(&format!(
                "<s:Fault><faultcode>s:Server</faultcode><faultstring>no</faultstring><detail><t:TooMany><t:max>{text}</t:max></t:TooMany></detail></s:Fault>"
            )),
            headed(&format!(
                "<s:Header><t:Key><t:user>{text}</t:user></t:Key><t:Other>{text}</t:Other></s:Header>"
            )),
            headed("<s:Header/>"),
            loose,
            envelope(text),
            envelope(&format!("<t:Symbol>{text}")),
        ]
    }

    /// Reads a message without a cache.
    fn read_first(api: &Api, of: &Operation, message: &str) -> Done<ReadMessage> {
        let read = reader(api, of, 1 << 20).read(message.as_bytes());
        let Err(why @ ReadError::Mismatch(_)) = read else { return read };
        match Reader::new(api, &[], of.output.as_ref(), 1 << 20).read(message.as_bytes()) {
            Ok(fault @ ReadMessage::Fault(_)) => Ok(fault),
            Ok(_) | Err(_) => Err(why),
        }
    }

    #[test]
    fn earlier_replies_do_not_affect_later_ones() {
        let texts =
            ["1", "", " 2\n", "x", "t:x", "+03", "&#49;", "<![CDATA[4]]>", "5<!-- -->6", "7<?p?>"];
        let api = types();
        let all = texts.map(messages);
        let (mut values, mut errors) = (0, 0);
        for name in ["Order", "Symbol", "Loose", "Opened"] {
            let of = operation(&api, name);
            for at in 0..all[0].len() {
                for (one, other) in
                    all.iter().flat_map(|one| all.iter().map(move |other| (one, other)))
                {
                    while api.replies.take().is_some() {}
                    for message in [&one[at], &other[at], &one[at]] {
                        let read = api.reply(of, message.as_bytes(), 1 << 20);
                        assert_eq!(read, read_first(&api, of, message), "{name}: {message}");
                        *(if read.is_ok() { &mut values } else { &mut errors }) += 1;
                    }
                }
            }
        }
        assert!(values > 1000 && errors > 1000, "{values} {errors}");
    }
}

//! Implements the schema library's view of JSON for a [`Document`], so that no value tree has to be built.

use std::borrow::Cow;

use json::Kind;
use jsonschema::JsonType;
use jsonschema::json::{Array, Json, Node, NodeIdentity, Object, cmp};
use serde_json::Value;

use super::document::{self, Document, WHOLE};
use super::number::Literal;

/// Marker type: the library is generic over the representation of JSON.
pub(super) struct OnTape;

/// One value of a document.
#[derive(Clone, Copy)]
pub(super) struct Part<'a> {
    document: &'a Document<'a>,
    at: u32,
}

/// A part that is an object, as the library sees it.
pub(super) struct Members<'a>(Part<'a>);

/// A part that is an array, as the library sees it.
pub(super) struct Items<'a>(Part<'a>);

/// Iterates over the parts of an object or array.
pub(super) struct Walk<'a> {
    document: &'a Document<'a>,
    at: u32,
    end: u32,
}

/// Iterates over the members of an object.
pub(super) enum MemberWalk<'a> {
    Of(Walk<'a>),
    /// The document as the only member of [`WHOLE`]; `None` once it was returned.
    Document(Option<Part<'a>>),
}

impl<'a> Part<'a> {
    /// Returns the whole document.
    pub(super) fn whole(document: &'a Document<'a>) -> Part<'a> {
        Part { document, at: 0 }
    }

    /// Returns a virtual object that has the document as its only member, with this number as the name.
    pub(super) fn as_member(document: &'a Document<'a>, number: u32) -> Part<'a> {
        document.set_number(number);
        Part { document, at: WHOLE }
    }

    #[inline]
    fn kind(&self) -> Kind {
        if self.document.look() { self.document.entry(self.at).kind } else { Kind::Null }
    }

    fn parts(&self) -> Walk<'a> {
        Walk { document: self.document, at: self.at + 1, end: self.document.entry(self.at).next }
    }

    fn literal(&self) -> Option<Literal<'a>> {
        let (document, entry) = (self.document, self.document.entry(self.at));
        (entry.kind == Kind::Number).then(|| Literal(document.span(entry)))
    }
}

impl Json for OnTape {
    type Node<'a> = Part<'a>;
    type PreparedKey = Box<str>;
    type StringBuffer = ();

    /// The library's value for its own representation. It decides between one walk over all members and several look-ups, and with it the
    /// order of errors.
    const KEYS_PER_LOOKUP: usize = 2;

    fn prepare_key(key: &str) -> Box<str> {
        key.into()
    }

    fn with_string_node<T>((): &mut (), string: &str, f: impl FnOnce(Part<'_>) -> T) -> T {
        f(Part::whole(&Document::string(Cow::Borrowed(string))))
    }
}

impl<'a> Node<'a, OnTape> for Part<'a> {
    type Object = Members<'a>;
    type Array = Items<'a>;
    type Number = Literal<'a>;

    #[inline]
    fn as_object(&self) -> Option<Members<'a>> {
        (self.kind() == Kind::Object).then_some(Members(*self))
    }

    #[inline]
    fn as_array(&self) -> Option<Items<'a>> {
        (self.kind() == Kind::Array).then_some(Items(*self))
    }

    #[inline]
    fn as_string(&self) -> Option<Cow<'a, str>> {
        self.is_string().then(|| self.document.string_at(self.at))
    }

    fn as_number(&self) -> Option<Literal<'a>> {
        self.literal()
    }

    fn as_boolean(&self) -> Option<bool> {
        match self.kind() {
            Kind::True => Some(true),
            Kind::False => Some(false),
            Kind::Null
            | Kind::Number
            | Kind::Plain
            | Kind::Escaped
            | Kind::Object
            | Kind::Array => None,
        }
    }

    fn is_null(&self) -> bool {
        self.kind() == Kind::Null
    }

    fn is_number(&self) -> bool {
        self.kind() == Kind::Number
    }

    #[inline]
    fn is_string(&self) -> bool {
        matches!(self.kind(), Kind::Plain | Kind::Escaped)
    }

    #[inline]
    fn json_type(&self) -> JsonType {
        match self.kind() {
            Kind::Null => JsonType::Null,
            Kind::False | Kind::True => JsonType::Boolean,
            Kind::Number => JsonType::Number,
            Kind::Plain | Kind::Escaped => JsonType::String,
            Kind::Object => JsonType::Object,
            Kind::Array => JsonType::Array,
        }
    }

    fn equals_value(&self, expected: &Value) -> bool {
        match (self.kind(), expected) {
            (Kind::Plain | Kind::Escaped, Value::String(expected)) => {
                self.document.string_at(self.at) == *expected
            }
            (Kind::Object, Value::Object(expected)) => {
                Members(*self).len() == expected.len()
                    && expected.iter().all(|(name, expected)| {
                        let found = self.document.member(self.at, name);
                        let found = found.map(|at| Part { document: self.document, at });
                        found.is_some_and(|found| found.equals_value(expected))
                    })
            }
            (Kind::Array, Value::Array(expected)) => {
                Items(*self).len() == expected.len()
                    && self
                        .parts()
                        .zip(expected)
                        .all(|(part, expected)| part.equals_value(expected))
            }
            (Kind::Number, Value::Number(expected)) => {
                self.literal().is_some_and(|number| cmp::equal_numbers(&number, expected))
            }
            (Kind::Null, Value::Null)
            | (Kind::True, Value::Bool(true))
            | (Kind::False, Value::Bool(false)) => true,
            _ => false,
        }
    }

    fn to_value(&self) -> Cow<'a, Value> {
        Cow::Owned(match self.kind() {
            Kind::Null => Value::Null,
            Kind::False => Value::Bool(false),
            Kind::True => Value::Bool(true),
            Kind::Number => {
                let number = self.literal().and_then(|literal| document::number(literal.0));
                number.map_or(Value::Null, Value::Number)
            }
            Kind::Plain | Kind::Escaped => {
                Value::String(self.document.string_at(self.at).into_owned())
            }
            Kind::Array => self.parts().map(|part| part.to_value().into_owned()).collect(),
            Kind::Object => Members(*self)
                .members()
                .map(|(name, part)| (name.into_owned(), part.to_value().into_owned()))
                .collect(),
        })
    }

    fn identity(&self) -> Option<NodeIdentity> {
        Some(NodeIdentity::tagged(std::ptr::from_ref(self.document).addr(), self.at))
    }
}

impl<'a> Object<'a, OnTape> for Members<'a> {
    type Node = Part<'a>;
    type MemberName = Cow<'a, str>;
    type MembersIter = MemberWalk<'a>;

    fn len(&self) -> usize {
        self.0.document.entry(self.0.at).count as usize
    }

    fn get(&self, key: &Box<str>) -> Option<Part<'a>> {
        let document = self.0.document;
        if self.0.at == WHOLE {
            let is_it = **key == *document.number().to_string();
            return is_it.then(|| Part::whole(document));
        }
        document.member(self.0.at, key).map(|at| Part { document, at })
    }

    fn members(&self) -> MemberWalk<'a> {
        match self.0.at {
            WHOLE => MemberWalk::Document(Some(Part::whole(self.0.document))),
            _ => MemberWalk::Of(self.0.parts()),
        }
    }
}

impl<'a> Array<'a, OnTape> for Items<'a> {
    type Node = Part<'a>;
    type ElementsIter = Walk<'a>;

    fn len(&self) -> usize {
        self.0.document.entry(self.0.at).count as usize
    }

    fn elements(&self) -> Walk<'a> {
        self.0.parts()
    }
}

impl<'a> Iterator for Walk<'a> {
    type Item = Part<'a>;

    #[inline]
    fn next(&mut self) -> Option<Part<'a>> {
        let at = (self.at < self.end && self.document.look()).then_some(self.at)?;
        self.at = self.document.entry(at).next;
        Some(Part { document: self.document, at })
    }
}

impl<'a> Iterator for MemberWalk<'a> {
    type Item = (Cow<'a, str>, Part<'a>);

    #[inline]
    fn next(&mut self) -> Option<(Cow<'a, str>, Part<'a>)> {
        match self {
            MemberWalk::Of(walk) => {
                let name = walk.next()?;
                Some((name.document.string_at(name.at), walk.next()?))
            }
            MemberWalk::Document(part) => {
                let part = part.take()?;
                Some((Cow::Owned(part.document.number().to_string()), part))
            }
        }
    }
}

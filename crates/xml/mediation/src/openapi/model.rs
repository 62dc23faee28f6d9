//! The operations of a document, in the form used for checking.

use super::encoded::decoded;
use crate::json_schema::Schema;

/// One path of the document.
#[derive(Debug)]
pub struct PathItem {
    /// The path as the document writes it.
    pub template: Box<str>,
    /// The segments. One has several pieces if a parameter is only part of the segment.
    pub segments: Vec<Vec<SegmentPiece>>,
    /// Whether the path ends in `/*` and so includes all paths below it, as WSO2 defines.
    pub open: bool,
    /// Conditions on the query, which some documents write after a path: names with their required value, or `None` if any value will do.
    pub query: Vec<(Box<str>, Option<Box<str>>)>,
    pub operations: Vec<Operation>,
}

/// A piece of a path's segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SegmentPiece {
    Literal(Box<str>),
    Parameter(Box<str>),
}

impl SegmentPiece {
    /// Makes a literal piece of a document's path. It is unescaped, because a request's segment is unescaped before the comparison.
    pub fn literal(text: &str) -> SegmentPiece {
        SegmentPiece::Literal(decoded(text.as_bytes(), false).into())
    }
}

/// One method of a path.
#[derive(Debug)]
pub struct Operation {
    /// In upper case.
    pub method: String,
    pub parameters: Vec<Parameter>,
    pub body: Option<RequestBody>,
    pub replies: Vec<Reply>,
}

#[derive(Debug)]
pub struct Parameter {
    pub place: ParameterLocation,
    pub required: bool,
    pub field: Field,
    pub schema: Schema,
}

/// A named value and its serialization: a parameter, or a member of a form.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    pub name: Box<str>,
    pub style: Style,
    pub explode: bool,
    pub shape: ParameterTypes,
    /// Whether the value is JSON.
    pub json: bool,
    /// Whether the value may be empty, whatever the schema says.
    pub may_be_empty: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ParameterLocation {
    Path,
    Query,
    Header,
    Cookie,
}

/// The serialization of values that are not plain texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    Simple,
    Label,
    Matrix,
    Form,
    SpaceDelimited,
    PipeDelimited,
    TabDelimited,
    DeepObject,
}

/// The types of a parameter according to its schema: the types that its text may have to be converted to.
#[derive(Debug, Clone, PartialEq)]
pub enum ParameterTypes {
    Plain(Types),
    /// A list of values of these types.
    List(Types),
    Object(Object),
}

/// An object in a parameter or a form.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Object {
    /// The members by name. A member that may also be a list has the list's types.
    pub members: Vec<(Box<str>, ParameterTypes)>,
    /// The types of members that are not in `members`.
    pub others: Types,
    /// Whether members that are not in `members` are lists.
    pub others_are_lists: bool,
}

/// The members of a form.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Form {
    /// All members.
    pub object: Object,
    /// The members for which the document specifies a style.
    pub fields: Vec<Field>,
}

/// The types that a text may be converted to. A text that fits none of them stays a text, which the schema then refuses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Types {
    pub number: bool,
    pub boolean: bool,
    pub null: bool,
    /// Whether the schema specifies no type, so that several texts may be a list.
    pub anything: bool,
}

#[derive(Debug)]
pub struct RequestBody {
    pub required: bool,
    pub content: Vec<Content>,
}

/// A content type of a body, with its schema and its form members.
#[derive(Debug)]
pub struct Content {
    pub range: MediaRange,
    pub schema: Option<Schema>,
    pub form: Form,
}

/// A media range such as `application/json`, `text/*` or `*/*`, in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MediaRange(pub String);

#[derive(Debug)]
pub struct Reply {
    pub statuses: Statuses,
    pub content: Vec<Content>,
    pub headers: Vec<Parameter>,
}

/// The statuses for which a reply is described.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Statuses {
    One(u16),
    /// All statuses with this first digit.
    Class(u16),
    Default,
}

impl MediaRange {
    /// Returns the rank of the match with a media type: 0 if it does not match, 3 if it is exact.
    pub(super) fn fits(&self, media_type: &str) -> u8 {
        let front =
            |range: &str| range.strip_suffix('*').map(|front| media_type.starts_with(front));
        if self.0 == media_type {
            3
        } else if self.0 == "*/*" {
            1
        } else if front(&self.0) == Some(true) {
            2
        } else {
            0
        }
    }
}

impl Statuses {
    /// Returns the rank of the match with a status: 0 if it does not match, 3 if it is exact.
    pub(super) fn fits(self, status: u16) -> u8 {
        match self {
            Statuses::One(one) if one == status => 3,
            Statuses::Class(class) if status / 100 == class => 2,
            Statuses::Default => 1,
            Statuses::One(_) | Statuses::Class(_) => 0,
        }
    }
}

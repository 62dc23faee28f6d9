//! Operations as they are checked.

use super::text::decoded;
use crate::json_schema::Schema;

/// One path of the document.
#[derive(Debug)]
pub struct PathItem {
    /// As the document writes it.
    pub template: Box<str>,
    /// By segment; more than one piece where a parameter is only part of a segment.
    pub segments: Vec<Vec<SegmentPiece>>,
    /// Ends in `/*`: it is all paths below too, as WSO2 means it.
    pub open: bool,
    /// Conditions on the query that some documents write behind a path: names with the values they must have, or any.
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
    /// A text of a document's path. A request's segment is compared without its escapes, so this has none either.
    pub fn literal(text: &str) -> SegmentPiece {
        SegmentPiece::Literal(decoded(text.as_bytes(), false).into())
    }
}

/// One method of a path.
#[derive(Debug)]
pub struct Operation {
    /// In capitals.
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

/// A named value, and how it is written: a parameter, or a member of a form.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    pub name: Box<str>,
    pub style: Style,
    pub explode: bool,
    pub shape: ParameterTypes,
    /// Its value is JSON.
    pub json: bool,
    /// It may have no value, whatever its schema says.
    pub may_be_empty: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ParameterLocation {
    Path,
    Query,
    Header,
    Cookie,
}

/// The serialisation of values that are not plain texts.
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

/// The types of a parameter by its schema: all that a text may have to be read as.
#[derive(Debug, Clone, PartialEq)]
pub enum ParameterTypes {
    Plain(Types),
    /// A list of such.
    List(Types),
    Object(Object),
}

/// An object in a parameter or a form.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Object {
    /// By name; a member that may also be a list has that shape.
    pub members: Vec<(Box<str>, ParameterTypes)>,
    /// The types of members without a name.
    pub others: Types,
    /// Members without a name are lists of such.
    pub others_are_lists: bool,
}

/// The members of a form.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Form {
    /// All of them.
    pub object: Object,
    /// Those whose style the document says.
    pub fields: Vec<Field>,
}

/// The types a text may mean. A text that means none of them stays a text, for the schema to refuse.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Types {
    pub number: bool,
    pub boolean: bool,
    pub null: bool,
    /// Nothing is said of it, so that several texts may be a list.
    pub anything: bool,
}

#[derive(Debug)]
pub struct RequestBody {
    pub required: bool,
    pub content: Vec<Content>,
}

/// The format of a body of one content type.
#[derive(Debug)]
pub struct Content {
    pub range: MediaRange,
    pub schema: Option<Schema>,
    pub form: Form,
}

/// `application/json`, `text/*` or `*/*`, in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MediaRange(pub String);

#[derive(Debug)]
pub struct Reply {
    pub statuses: Statuses,
    pub content: Vec<Content>,
    pub headers: Vec<Parameter>,
}

/// The statuses a described reply is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Statuses {
    One(u16),
    /// All with this first digit.
    Class(u16),
    Default,
}

impl MediaRange {
    /// The rank of the match with a media type: 0 is none, 3 is exact.
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
    /// The rank of the match with a status: 0 is none, 3 is exact.
    pub(super) fn fits(self, status: u16) -> u8 {
        match self {
            Statuses::One(one) if one == status => 3,
            Statuses::Class(class) if status / 100 == class => 2,
            Statuses::Default => 1,
            Statuses::One(_) | Statuses::Class(_) => 0,
        }
    }
}

//! The meaning of an expression's names: asked once when it is compiled, by number when it runs.

use crate::{FailureKind, Value};

/// The number of a value, given by [`Names`] and understood by [`Scope`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u32);

/// The kind of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameKind {
    /// A value. The rest behind the name is a path into it.
    Value(Slot),
    /// Several values, each by a further name: `headers`, `path`. CEL may take all of them as a map.
    Group(Slot),
}

/// The kind of a value that is a whole number whatever a message says, for [`Names::kind`].
pub const WHOLE_NUMBER: &str = "a whole number";

/// The kind of a value that is a text whatever a message says, for [`Names::kind`].
pub const TEXT: &str = "a text";

/// The meaning of names at an expression's place.
pub trait Names {
    /// The meaning of a dotted name, without the `$`: `["body"]`, `["headers", "X-Id"]`, `["reply", "status"]`. It is asked
    /// with one part more as long as the answer is a group. None: there is no such name.
    fn find(&self, path: &[&str]) -> Option<NameKind>;

    /// The URI of a prefix.
    fn namespace(&self, prefix: &str) -> Option<&str>;

    /// The document in which a path that begins with `/` begins.
    fn document(&self) -> Slot;

    /// The kind of a value in words, such as `a text`, where it is known and is not true or false: for what CEL names in full,
    /// `request.headers['a']`. The error says why there is no such member.
    fn kind(&self, path: &[&str]) -> Result<Option<&'static str>, String> {
        let _ = path;
        Ok(None)
    }

    /// The value that a whole query (`{ json: TEXT }`) is put to.
    fn body(&self) -> Slot;
}

/// One of a group's values.
#[derive(Debug, Clone)]
pub enum Member {
    /// A value.
    Value(Value),
    /// Several again.
    Group(Slot),
}

/// The values of one message, by the numbers that [`Names`] gave.
pub trait Scope {
    /// A value; [`Value::Nothing`] where the message has none.
    fn value(&self, slot: Slot) -> Result<Value, FailureKind>;

    /// All values of a group with their names, for CEL.
    fn members(&self, group: Slot) -> Result<Vec<(Box<str>, Member)>, FailureKind>;

    /// The fields of a value that is a text and also a form, for a path that follows it. None: it is not a form.
    fn fields(&self, slot: Slot) -> Result<Option<Value>, FailureKind> {
        let _ = slot;
        Ok(None)
    }

    /// The bytes of an XML document that nobody has made a tree of yet. Paths that can do without a tree are then found
    /// while the bytes are read; for all others [`Scope::value`] is asked. None: there is a tree, or it is not XML.
    fn unread(&self, slot: Slot) -> Option<&[u8]> {
        let _ = slot;
        None
    }
}

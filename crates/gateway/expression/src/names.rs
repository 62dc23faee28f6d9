//! The names in an expression: resolved once when it is compiled, and looked up by number when it is evaluated.

use crate::{FailureKind, Value};

/// The number of a value, assigned by [`Names`] and used with [`Scope`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u32);

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameKind {
    /// A value. The parts after the name are a path into it.
    Value(Slot),
    /// A group of values, each with a further name: `headers`, `path`. CEL may use the whole group as a map.
    Group(Slot),
}

/// The type of a value that is a whole number in every message, for [`Names::kind`].
pub const WHOLE_NUMBER: &str = "a whole number";

/// The type of a value that is a text in every message, for [`Names::kind`].
pub const TEXT: &str = "a text";

/// Resolves the names in one expression.
pub trait Names {
    /// Resolves a dotted name, given without the `$`: `["body"]`, `["headers", "X-Id"]`, `["reply", "status"]`. While the result is a
    /// group, the caller tries again with one more part. Returns `None` if there is no such name.
    fn find(&self, path: &[&str]) -> Option<NameKind>;

    /// Returns the namespace URI of a prefix.
    fn namespace(&self, prefix: &str) -> Option<&str>;

    /// Returns the slot of the document in which a path that begins with `/` starts.
    fn document(&self) -> Slot;

    /// Returns the type of a value in words, such as `a text`, if it is known and not boolean. Used for names that CEL writes in full, such
    /// as `request.headers['a']`. The error says why there is no such member.
    fn kind(&self, path: &[&str]) -> Result<Option<&'static str>, String> {
        let _ = path;
        Ok(None)
    }

    /// Returns the slot of the value that a whole query (`{ json: TEXT }`) is applied to.
    fn body(&self) -> Slot;
}

/// A member of a group.
#[derive(Debug, Clone)]
pub enum Member {
    /// A value.
    Value(Value),
    /// A nested group.
    Group(Slot),
}

/// The values of one message, by the numbers that [`Names`] assigned.
pub trait Scope {
    /// Returns a value, or [`Value::Nothing`] if the message does not have it.
    fn value(&self, slot: Slot) -> Result<Value, FailureKind>;

    /// Returns all members of a group with their names, for CEL.
    fn members(&self, group: Slot) -> Result<Vec<(Box<str>, Member)>, FailureKind>;

    /// Returns the fields of a value that is a form, for a path into it, or `None` if the value is not a form.
    fn fields(&self, slot: Slot) -> Result<Option<Value>, FailureKind> {
        let _ = slot;
        Ok(None)
    }
}

/// Resolves the value that a dotted name begins with. Returns it with the number of parts that name it.
pub(crate) fn resolve(parts: &[&str], names: &dyn Names) -> Option<(NameKind, usize)> {
    let mut taken = 1;
    loop {
        let known = names.find(parts.get(..taken)?)?;
        match known {
            NameKind::Group(_) if taken < parts.len() => taken += 1,
            NameKind::Group(_) | NameKind::Value(_) => return Some((known, taken)),
        }
    }
}

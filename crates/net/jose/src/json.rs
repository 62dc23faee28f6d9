//! JSON objects without duplicate names. With a duplicate name, two parsers could use different values.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor,
};
use serde_json::{Map, Number, Value};

/// The members of an object.
pub type Object = Map<String, Value>;

/// The members of an object in the order of the text. They are parsed once and looked up a few times, for which a list is faster than a
/// map. Nested objects are ordinary maps.
#[derive(Debug, Clone, PartialEq)]
pub struct Members<'t>(Vec<(Cow<'t, str>, Value)>);

/// Up to this number, names are compared one by one; beyond it, a hash set is used.
const COMPARED_MAX: usize = 16;

impl<'t> Members<'t> {
    /// Parses one object, as [`object`] does.
    pub fn read(text: &'t [u8]) -> Option<Members<'t>> {
        // Checking the whole text for UTF-8 is faster than checking name by name.
        let mut reader = serde_json::Deserializer::from_str(std::str::from_utf8(text).ok()?);
        let members = reader.deserialize_map(Flat).ok()?;
        reader.end().ok()?;
        let names = members.0.iter().map(|(name, _)| name);
        let doubled = if members.0.len() <= COMPARED_MAX {
            names
                .enumerate()
                // Harmless: each name is compared with the names before it.
                .any(|(at, name)| members.0.iter().take(at).any(|(before, _)| before == name))
        } else {
            names.collect::<HashSet<_>>().len() < members.0.len()
        };
        (!doubled).then_some(members)
    }

    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (name.as_ref(), value))
    }
}

impl From<Object> for Members<'static> {
    fn from(object: Object) -> Members<'static> {
        Members(object.into_iter().map(|(name, value)| (Cow::Owned(name), value)).collect())
    }
}

struct Flat;

impl<'de> Visitor<'de> for Flat {
    type Value = Members<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Members<'de>, A::Error> {
        // Most tokens have at most this many members.
        let mut list = Vec::with_capacity(8);
        while let Some(Name(name)) = members.next_key()? {
            list.push((name, members.next_value_seed(Strict)?));
        }
        Ok(Members(list))
    }
}

/// A name, borrowed from the text if it has no escapes.
struct Name<'t>(Cow<'t, str>);

impl<'de> Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Name<'de>, D::Error> {
        deserializer.deserialize_str(AnyName)
    }
}

struct AnyName;

impl<'de> Visitor<'de> for AnyName {
    type Value = Name<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_borrowed_str<E>(self, name: &'de str) -> Result<Name<'de>, E> {
        Ok(Name(Cow::Borrowed(name)))
    }

    fn visit_str<E>(self, name: &str) -> Result<Name<'de>, E> {
        Ok(Name(Cow::Owned(name.to_owned())))
    }
}

/// Parses one object with nothing after it. Returns `None` if the text is not JSON, is not an object, or contains an object with duplicate
/// names. `serde_json` limits the depth.
pub fn object(text: &[u8]) -> Option<Object> {
    let mut reader = serde_json::Deserializer::from_slice(text);
    let value = Strict.deserialize(&mut reader).ok()?;
    reader.end().ok()?;
    match value {
        Value::Object(members) => Some(members),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            None
        }
    }
}

struct Strict;

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON without duplicate names")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(Strict)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Object::new();
        while let Some(name) = members.next_key::<String>()? {
            let value = members.next_value_seed(Strict)?;
            if object.insert(name, value).is_some() {
                return Err(A::Error::custom("a name occurs twice"));
            }
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_with_duplicate_names_is_refused() {
        for (text, good) in [
            (r#"{"a":1,"b":{"a":2}}"#, true),
            (r#"{"a":1,"a":1}"#, false),
            (r#"{"a":1,"\u0061":2}"#, false),
            (r#"{"b":[{"a":1,"a":2}]}"#, false),
            (r#"{"a":1}{}"#, false),
            (r#"{"a":1} "#, true),
            ("[]", false),
            ("", false),
        ] {
            assert_eq!(object(text.as_bytes()).is_some(), good, "{text}");
            assert_eq!(Members::read(text.as_bytes()).is_some(), good, "{text}");
        }
        let deep = format!("{}1{}", r#"{"a":"#.repeat(1000), "}".repeat(1000));
        assert!(object(deep.as_bytes()).is_none());
        assert!(Members::read(deep.as_bytes()).is_none());
    }

    #[test]
    fn members_are_found_and_duplicates_refused_at_any_size() {
        for count in [0, 1, COMPARED_MAX, COMPARED_MAX + 1, 500] {
            let names: Vec<String> = (0..count).map(|n| format!(r#""n{n}":{n}"#)).collect();
            let text = format!("{{{}}}", names.join(","));
            let members = Members::read(text.as_bytes()).unwrap();
            assert_eq!(members.iter().count(), count);
            for number in 0..count {
                assert_eq!(members.get(&format!("n{number}")), Some(&number.into()));
            }
            assert_eq!(members.get("n"), None);
            assert_eq!(members, object(text.as_bytes()).unwrap().into());
            if count > 0 {
                let doubled = format!("{{{},\"n\\u0030\":0}}", names.join(","));
                assert!(Members::read(doubled.as_bytes()).is_none(), "{doubled}");
            }
        }
    }
}

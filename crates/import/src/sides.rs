//! `readOnly` and `writeOnly`: what a request may not say, and what a reply may not.

use serde_json::{Map, Value as Json};

use crate::documents::Documents;

/// Which message a schema is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    Request,
    Response,
}

impl Documents {
    /// The documents as one side's messages have to obey them: properties of the other side are neither required nor
    /// allowed.
    pub fn of_side(&self, side: Side) -> Vec<(String, Json)> {
        let flag = match side {
            Side::Request => "readOnly",
            Side::Response => "writeOnly",
        };
        let files = self.files().map(|(uri, document)| {
            let mut document = document.clone();
            self.without(uri, &mut document, flag);
            (uri.to_owned(), document)
        });
        files.collect()
    }

    fn without(&self, uri: &str, value: &mut Json, flag: &str) {
        match value {
            Json::Object(members) => {
                self.drop_properties(uri, members, flag);
                members
                    .iter_mut()
                    .filter(|(name, _)| {
                        !matches!(
                            name.as_str(),
                            "example" | "examples" | "default" | "enum" | "const"
                        )
                    })
                    .for_each(|(_, member)| self.without(uri, member, flag));
            }
            Json::Array(items) => items.iter_mut().for_each(|item| self.without(uri, item, flag)),
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {}
        }
    }

    fn drop_properties(&self, uri: &str, members: &mut Map<String, Json>, flag: &str) {
        let Some(Json::Object(properties)) = members.get_mut("properties") else { return };
        let mut gone = Vec::new();
        for (name, property) in properties.iter_mut() {
            if self.has_flag(uri, property, flag) {
                *property = Json::Bool(false);
                gone.push(name.clone());
            }
        }
        if let Some(Json::Array(required)) = members.get_mut("required") {
            required.retain(|name| !name.as_str().is_some_and(|n| gone.iter().any(|g| g == n)));
        }
    }

    fn has_flag(&self, uri: &str, property: &Json, flag: &str) -> bool {
        let flagged = |value: &Json| value.get(flag) == Some(&Json::Bool(true));
        let reference = property.get("$ref").and_then(Json::as_str);
        let target = reference.and_then(|reference| self.target(uri, reference));
        flagged(property) || target.is_some_and(flagged)
    }
}

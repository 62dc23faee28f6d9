//! Extensions by level: those of an operation win over those of its path, and these over those of the API.

use serde_json::Value as Json;

use crate::documents::{Documents, JsonLocation};

/// The places where extensions are looked up, the most specific first.
#[derive(Clone, Copy)]
pub(crate) struct Levels<'a> {
    pub(crate) documents: &'a Documents,
    pub(crate) root: &'a JsonLocation,
    pub(crate) path: Option<&'a JsonLocation>,
    pub(crate) operation: Option<&'a JsonLocation>,
}

impl<'a> Levels<'a> {
    /// The most specific value of an extension: `x-tidegate-NAME`, or else `x-wso2-NAME`.
    pub(crate) fn nearest(&self, name: &str) -> Option<&'a Json> {
        self.places().find_map(|spot| self.of(spot, name))
    }

    /// The API's own value, ignoring lower levels.
    pub(crate) fn of_api(&self, name: &str) -> Option<&'a Json> {
        self.of(self.root, name)
    }

    /// The most specific member with exactly this name.
    pub(crate) fn member(&self, name: &str) -> Option<&'a Json> {
        self.places().find_map(|spot| self.documents.at(spot)?.get(name))
    }

    fn places(&self) -> impl Iterator<Item = &'a JsonLocation> {
        [self.operation, self.path, Some(self.root)].into_iter().flatten()
    }

    fn of(&self, spot: &JsonLocation, name: &str) -> Option<&'a Json> {
        let value = self.documents.at(spot)?;
        let ours = value.get(format!("x-tidegate-{name}"));
        ours.or_else(|| value.get(format!("x-wso2-{name}"))).filter(|value| !value.is_null())
    }
}

//! Identifies an API in tokens that list their subscriptions.

use serde_json::Value;

/// The API in terms of `subscribedAPIs`. An absent field matches any value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApiReference {
    pub name: Option<String>,
    pub context: Option<String>,
    pub version: Option<String>,
}

impl ApiReference {
    /// Returns true if an item of `subscribedAPIs` refers to this API.
    pub(crate) fn matches(&self, one: &Value) -> bool {
        // Harmless: an absent member is compared as an empty text, which no API has.
        let text = |name: &str| one.get(name).and_then(Value::as_str).unwrap_or("");
        let is = |name: &str, wanted: &Option<String>| {
            wanted
                .as_ref()
                .is_none_or(|wanted| text(name).trim_matches('/') == wanted.trim_matches('/'))
        };
        is("name", &self.name) && is("context", &self.context) && is("version", &self.version)
    }
}

//! Extensions by level: those of an operation win over those of its path, and these over those of the API.

use config::{At, Decode, Report};
use serde_json::Value as Json;

use crate::documents::Documents;
use crate::json_location::JsonLocation;

/// Names of extensions after `x-wso2-` or `x-tidegate-` that are only valid for a whole API.
const OF_API: [&str; 4] = ["basePath", "base-path", "endpoints", "cors"];

/// Names of extensions, after the same prefixes, that are valid for operations, paths and whole APIs.
const OF_ALL: [&str; 8] = [
    "production-endpoints",
    "sandbox-endpoints",
    "throttling-tier",
    "disable-security",
    "auth-header",
    "application-security",
    "request-interceptor",
    "response-interceptor",
];

/// Extensions with other names that have an effect.
const OTHERS: [&str; 4] = ["x-auth-type", "x-scopes", "x-throttling-tier", OWN_POLICIES];

/// Policies of an operation. No other system has an extension of this meaning.
pub(crate) const OWN_POLICIES: &str = "x-tidegate-policies";

/// Extensions of other systems that have no effect here and are reported.
const IGNORED: [&str; 2] = ["x-mediation-script", "x-amzn-resource-name"];

/// The level at which an extension is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    Api,
    /// A path or an operation.
    Below,
}

/// The name after the prefix of this system or of WSO2 API Manager.
fn own_name(name: &str) -> Option<&str> {
    name.strip_prefix("x-wso2-").or_else(|| name.strip_prefix("x-tidegate-"))
}

/// True for extensions that are read, or reported as not supported.
pub(crate) fn may_have_effect(name: &str) -> bool {
    own_name(name).is_some() || OTHERS.contains(&name) || IGNORED.contains(&name)
}

/// True for an extension that has no effect at its place, although its name suggests one.
pub(crate) fn is_ignored(name: &str, level: Level) -> bool {
    match own_name(name).filter(|_| !OTHERS.contains(&name)) {
        Some(name) => !(OF_ALL.contains(&name) || level == Level::Api && OF_API.contains(&name)),
        None => IGNORED.contains(&name),
    }
}

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
        self.nearest_at(name).map(|(_, value)| value)
    }

    /// The nearest value, with its place.
    pub(crate) fn nearest_at(&self, name: &str) -> Option<(JsonLocation, &'a Json)> {
        self.places().find_map(|location| self.of(location, name))
    }

    /// The API's own value, ignoring lower levels.
    pub(crate) fn of_api(&self, name: &str) -> Option<&'a Json> {
        self.of_api_at(name).map(|(_, value)| value)
    }

    /// The value for the API, with its place.
    pub(crate) fn of_api_at(&self, name: &str) -> Option<(JsonLocation, &'a Json)> {
        self.of(self.root, name)
    }

    /// The most specific member with exactly this name.
    pub(crate) fn member(&self, name: &str) -> Option<&'a Json> {
        self.member_at(name).map(|(_, value)| value)
    }

    /// The member, with its place.
    pub(crate) fn member_at(&self, name: &str) -> Option<(JsonLocation, &'a Json)> {
        self.places().find_map(|location| {
            Some((location.child(name), self.documents.at(location)?.get(name)?))
        })
    }

    fn places(&self) -> impl Iterator<Item = &'a JsonLocation> {
        [self.operation, self.path, Some(self.root)].into_iter().flatten()
    }

    fn of(&self, location: &JsonLocation, name: &str) -> Option<(JsonLocation, &'a Json)> {
        let values = self.documents.at(location)?;
        let names = [format!("x-tidegate-{name}"), format!("x-wso2-{name}")];
        let written = names.iter().find_map(|name| Some((name, values.get(name)?)));
        let (name, value) = written.filter(|(_, value)| !value.is_null())?;
        Some((location.child(name), value))
    }
}

/// The mistakes in a part of a configuration that was made from an extension. Each complaint has the place of the
/// extension.
pub(crate) fn faults<T: Decode>(made: &Json, location: &JsonLocation) -> Vec<String> {
    let mut report = Report::default();
    let _: Option<T> = config::decode(made, At::NOWHERE, &mut report);
    let told = report.errors().map(|complaint| match &complaint.help {
        Some(help) => format!("{location}: {}; {help}", complaint.what),
        None => format!("{location}: {}", complaint.what),
    });
    told.collect()
}

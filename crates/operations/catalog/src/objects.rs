//! The objects of the catalog. Each is stored as a row in JSON.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// An object that is stored as one row.
pub(crate) trait Object:
    Serialize + for<'de> Deserialize<'de> + Clone + Send + Sync + 'static
{
    /// The prefix of its row's key.
    const KIND: &'static str;

    /// The identifier, which is unique among objects of the kind.
    fn id(&self) -> &str;

    /// Names that must be unique among objects of the kind.
    fn names(&self) -> Vec<String> {
        Vec::new()
    }
}

/// An API.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Api {
    pub(crate) id: String,
    pub(crate) state: ApiState,
    pub(crate) owner: String,
    /// The publisher's definition, in the format of WSO2 API Manager.
    pub(crate) dto: Value,
    /// The imported document: OpenAPI, AsyncAPI, or a WSDL with its files.
    pub(crate) document: Option<Value>,
    pub(crate) revisions: Vec<Revision>,
    /// The number of the newest revision, which may have been removed.
    pub(crate) revision_last: u32,
    /// Milliseconds since the Unix epoch.
    pub(crate) created: u64,
    /// Milliseconds since the Unix epoch.
    pub(crate) updated: u64,
}

/// A revision of an API: a copy of its definition, which can be deployed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Revision {
    pub(crate) id: String,
    pub(crate) number: u32,
    pub(crate) description: String,
    pub(crate) created: u64,
    pub(crate) dto: Value,
    pub(crate) document: Option<Value>,
    /// The deployments as in the request. Empty if the revision is not deployed.
    pub(crate) deployments: Vec<Value>,
    pub(crate) deployed: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(crate) enum ApiState {
    Created,
    Published,
    Blocked,
    Deprecated,
    Retired,
}

/// An application.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Application {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) owner: String,
    pub(crate) plan: String,
    pub(crate) description: String,
    pub(crate) attributes: Value,
    pub(crate) keys: Vec<ApplicationKey>,
    pub(crate) created: u64,
    pub(crate) updated: u64,
    /// True if it was removed, but its subscriptions were not yet.
    #[serde(default)]
    pub(crate) removed: bool,
}

/// The keys of an application for production or for tests.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ApplicationKey {
    pub(crate) id: String,
    pub(crate) kind: KeyKind,
    pub(crate) consumer_key: String,
    pub(crate) secret_hash: String,
    pub(crate) grants: Vec<String>,
    pub(crate) callback: String,
    /// Scopes that its tokens may have. If empty, all scopes of its APIs.
    pub(crate) scopes: Vec<String>,
    /// The lifetime of its tokens in seconds. If absent, that of the catalog.
    pub(crate) lifetime: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(crate) enum KeyKind {
    Production,
    Sandbox,
}

/// A subscription of an application to an API.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Subscription {
    pub(crate) id: String,
    pub(crate) api: String,
    pub(crate) application: String,
    pub(crate) plan: String,
    pub(crate) state: SubscriptionState,
    pub(crate) created: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(crate) enum SubscriptionState {
    Unblocked,
    Blocked,
    ProdOnlyBlocked,
}

/// A plan that an administrator has made.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) id: String,
    pub(crate) level: PlanLevel,
    pub(crate) name: String,
    /// The definition in the format of WSO2 API Manager.
    pub(crate) dto: Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PlanLevel {
    Application,
    Subscription,
    /// Plans of APIs and resources.
    Advanced,
}

/// A client of the catalog's REST interface.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Client {
    /// Its client id.
    pub(crate) id: String,
    pub(crate) secret_hash: String,
    pub(crate) name: String,
    pub(crate) owner: String,
    pub(crate) grants: Vec<String>,
}

/// A key that signs tokens.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct SigningKey {
    pub(crate) id: String,
    /// The key as PKCS#8 in PEM.
    pub(crate) pem: String,
    /// Seconds since the Unix epoch.
    pub(crate) created: u64,
    /// When the last of its tokens with an unusually long lifetime, such as API keys, expires; in seconds since the Unix epoch.
    #[serde(default)]
    pub(crate) until: u64,
}

/// A sequence of refresh tokens, with the access tokens issued with them.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Family {
    pub(crate) id: String,
    pub(crate) client: String,
    pub(crate) subject: String,
    pub(crate) scope: String,
    /// The SHA-256 of the valid refresh token, in hexadecimal digits.
    pub(crate) current: String,
    /// Seconds since the Unix epoch.
    pub(crate) until: u64,
    /// `jti` and expiry of access tokens that may still be valid.
    pub(crate) tokens: Vec<(String, u64)>,
    pub(crate) revoked: bool,
}

/// A token that was revoked.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Revoked {
    /// Its `jti`.
    pub(crate) id: String,
    /// Seconds since the Unix epoch.
    pub(crate) until: u64,
}

/// A consumer key of a removed application, or the id of that application. Its tokens contain the former, and its API keys the latter.
/// Both are refused until they expire.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct RemovedKey {
    /// The consumer key, or the id of the application.
    pub(crate) id: String,
    /// Seconds since the Unix epoch.
    pub(crate) until: u64,
}

macro_rules! objects {
    ($($kind:ty = $name:literal $(, |$object:ident| $names:expr)?;)*) => {
        $(impl Object for $kind {
            const KIND: &'static str = $name;

            fn id(&self) -> &str {
                &self.id
            }

            $(fn names(&self) -> Vec<String> {
                let $object = self;
                $names
            })?
        })*
    };
}

objects! {
    Api = "api", |api| vec![
        format!("name {} {}", api.name(), api.version()).to_lowercase(),
        format!("context {}", api.context()).to_lowercase(),
    ];
    Application = "application", |application| {
        let name = format!("{} {}", application.owner, application.name);
        // The name can be used again at once.
        if application.removed { Vec::new() } else { vec![name] }
    };
    Subscription = "subscription", |subscription| vec![
        format!("{} {}", subscription.application, subscription.api),
    ];
    Plan = "plan", |plan| vec![plan.name.clone()];
    Client = "client";
    SigningKey = "key";
    Family = "family";
    Revoked = "revoked";
    RemovedKey = "gone";
}

impl Api {
    pub(crate) fn text(&self, key: &str) -> &str {
        text(&self.dto, key)
    }

    pub(crate) fn name(&self) -> &str {
        self.text("name")
    }

    pub(crate) fn version(&self) -> &str {
        self.text("version")
    }

    /// The path of the API, including the version.
    pub(crate) fn context(&self) -> String {
        context(&self.dto)
    }

    pub(crate) fn kind(&self) -> &str {
        match self.text("type") {
            "" => "HTTP",
            kind => kind,
        }
    }

    /// The deployed revision.
    pub(crate) fn deployed(&self) -> Option<&Revision> {
        self.revisions.iter().rev().find(|revision| !revision.deployments.is_empty())
    }

    /// The plans that it offers.
    pub(crate) fn plans(&self) -> Vec<String> {
        texts(self.dto.get("policies"))
    }
}

/// The path of an API, including the version.
pub(crate) fn context(dto: &Value) -> String {
    let (context, version) = (text(dto, "context").trim_end_matches('/'), text(dto, "version"));
    let context = if context.starts_with('/') { context.to_owned() } else { format!("/{context}") };
    if context.contains("{version}") {
        context.replace("{version}", version)
    } else {
        format!("{context}/{version}")
    }
}

/// The name of an API in the gateway's configuration.
pub(crate) fn config_name(dto: &Value) -> String {
    format!("{} {}", text(dto, "name"), text(dto, "version"))
}

/// The text of a member. Empty if it is absent or not a string.
pub(crate) fn text<'v>(object: &'v Value, key: &str) -> &'v str {
    // Harmless: callers that need a text refuse an empty one.
    object.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// The items of a list. Empty if there is no list.
pub(crate) fn items(list: Option<&Value>) -> &[Value] {
    list.and_then(Value::as_array).map_or(&[][..], Vec::as_slice)
}

/// A whole number in any notation: JSON Schema also accepts `5.0` as an integer.
pub(crate) fn integer(value: &Value) -> Option<i64> {
    // Up to here every whole number is exact as a float (RFC 8259, 6).
    const EXACT_MAX: f64 = 9_007_199_254_740_991.0;
    if let Some(number) = value.as_i64() {
        return Some(number);
    }
    let number = value.as_f64()?;
    let is_whole = number.fract() == 0.0 && number.abs() <= EXACT_MAX;
    // Harmless: such a number is exact in both types.
    #[allow(clippy::cast_possible_truncation, reason = "the line above limits it to 53 bits")]
    is_whole.then_some(number as i64)
}

/// Sets a member of an object.
pub(crate) fn set(object: &mut Value, key: &str, value: Value) {
    if let Some(members) = object.as_object_mut() {
        members.insert(key.to_owned(), value);
    }
}

/// Returns the texts of a list, such as scopes. A single text counts as a list of one, and `null` as an empty list. Other values are
/// returned as JSON, so that an operation never loses a scope that it requires.
pub(crate) fn texts(list: Option<&Value>) -> Vec<String> {
    let text = |item: &Value| item.as_str().map_or_else(|| item.to_string(), str::to_owned);
    match list {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(items)) => items.iter().map(text).collect(),
        Some(alone) => vec![text(alone)],
    }
}

impl ApiState {
    pub(crate) fn read(text: &str) -> Option<ApiState> {
        let all = [
            ApiState::Created,
            ApiState::Published,
            ApiState::Blocked,
            ApiState::Deprecated,
            ApiState::Retired,
        ];
        all.into_iter().find(|state| state.as_str() == text)
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            ApiState::Created => "CREATED",
            ApiState::Published => "PUBLISHED",
            ApiState::Blocked => "BLOCKED",
            ApiState::Deprecated => "DEPRECATED",
            ApiState::Retired => "RETIRED",
        }
    }

    /// The actions that are possible in this state, with the resulting states.
    pub(crate) fn actions(self) -> &'static [(&'static str, ApiState)] {
        match self {
            ApiState::Created => &[("Publish", ApiState::Published)],
            ApiState::Published => &[
                ("Block", ApiState::Blocked),
                ("Deprecate", ApiState::Deprecated),
                ("Demote to Created", ApiState::Created),
                ("Publish", ApiState::Published),
            ],
            ApiState::Blocked => {
                &[("Re-Publish", ApiState::Published), ("Deprecate", ApiState::Deprecated)]
            }
            ApiState::Deprecated => &[("Retire", ApiState::Retired)],
            ApiState::Retired => &[],
        }
    }
}

impl KeyKind {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            KeyKind::Production => "PRODUCTION",
            KeyKind::Sandbox => "SANDBOX",
        }
    }

    pub(crate) fn read(text: &str) -> Option<KeyKind> {
        match text {
            "PRODUCTION" => Some(KeyKind::Production),
            "SANDBOX" => Some(KeyKind::Sandbox),
            _ => None,
        }
    }
}

impl SubscriptionState {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            SubscriptionState::Unblocked => "UNBLOCKED",
            SubscriptionState::Blocked => "BLOCKED",
            SubscriptionState::ProdOnlyBlocked => "PROD_ONLY_BLOCKED",
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn no_item_of_a_list_is_lost() {
        for (list, expected) in [
            (json!(null), &[][..]),
            (json!([]), &[]),
            (json!(["read", "write"]), &["read", "write"]),
            (json!("read"), &["read"]),
            (json!(["read", 7, true, null]), &["read", "7", "true", "null"]),
            (json!({ "read": "Reads" }), &["{\"read\":\"Reads\"}"]),
        ] {
            assert_eq!(texts(Some(&list)), expected, "{list}");
        }
    }

    #[test]
    fn whole_numbers_are_read_however_they_are_written() {
        let read = |text: &str| integer(&serde_json::from_str(text).unwrap());
        assert_eq!(
            ["5", "5.0", "5e2", "-1", "-1.0", "0.0"].map(read),
            [Some(5), Some(5), Some(500), Some(-1), Some(-1), Some(0)]
        );
        for bad in ["5.5", "1e300", "9007199254740993.0", "18446744073709551615", "\"5\"", "null"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}

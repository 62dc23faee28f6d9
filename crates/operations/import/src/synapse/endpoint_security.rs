//! Additions of an endpoint to messages: an access token, and headers of WS-Security and WS-Addressing.
//!
//! Secrets are not copied. Each is replaced with an environment variable, whose name is noted in the table of results.

use serde_json::{Map, Value as Json, json};
use xml::{Document, Kind, Options};

use super::converter::Converter;
use super::element::Element;
use super::endpoints::duration;
use crate::yaml::variable;

/// The elements of a policy that asks for nothing but a UsernameToken and a Timestamp over TLS.
const POLICY: [&str; 32] = [
    "Policy",
    "ExactlyOne",
    "All",
    "TransportBinding",
    "TransportToken",
    "HttpsToken",
    "AlgorithmSuite",
    "Basic128",
    "Basic192",
    "Basic256",
    "TripleDes",
    "Basic128Rsa15",
    "Basic256Rsa15",
    "Layout",
    "Lax",
    "Strict",
    "IncludeTimestamp",
    "SupportingTokens",
    "SignedSupportingTokens",
    "SignedEncryptedSupportingTokens",
    "UsernameToken",
    "WssUsernameToken10",
    "WssUsernameToken11",
    "HashPassword",
    "Wss10",
    "Wss11",
    "RampartConfig",
    "user",
    "passwordCallbackClass",
    "timestampTTL",
    "timestampMaxSkew",
    "timestampPrecisionInMilliseconds",
];

/// The validity of a Timestamp in seconds, if the policy does not set it.
const TIMESTAMP_SECONDS: u64 = 300;

impl<'a> Converter<'a> {
    /// Adds the security and addressing settings of an endpoint to its upstream.
    pub(super) fn secured(
        &mut self,
        name: &str,
        kind: &Element<'a>,
        upstream: &mut Map<String, Json>,
    ) -> Result<(), String> {
        if let Some(authentication) = kind.child("authentication") {
            upstream.insert("oauth".to_owned(), self.oauth(name, &authentication)?);
        }
        if let Some(security) = kind.child("enableSec") {
            upstream.extend(self.username(name, &security)?);
        }
        if let Some(addressing) = kind.child("enableAddressing") {
            let version = addressing.attribute("version").unwrap_or("final");
            upstream.insert("ws_addressing".to_owned(), json!({ "version": version }));
        }
        Ok(())
    }

    /// Replaces a secret with an environment variable, and notes its name.
    fn secret(&mut self, name: &str, what: &str) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
        let name: String = format!("{name}_{what}").chars().map(plain).collect();
        self.note(&format!("the secret is not copied; it is in the variable {name}"));
        self.out.stand_ins.insert(name.clone(), "stand-in".to_owned());
        variable(&name)
    }

    /// `oauth` of the upstream, by client credentials.
    fn oauth(&mut self, name: &str, authentication: &Element<'a>) -> Result<Json, String> {
        if authentication.child("basicAuth").is_some() {
            return Err("a password for a service is not copied; `header: { set }` before the call sends `Authorization`".to_owned());
        }
        let grant = authentication.child("oauth").ok_or("its authentication has no kind")?;
        let grants = grant.children();
        let [grant] = grants.as_slice() else {
            return Err("its OAuth has not one grant".to_owned());
        };
        if grant.name() != "clientCredentials" {
            return Err(format!(
                "OAuth by `{}` needs a user; `oauth` of an upstream is client credentials",
                grant.name()
            ));
        }
        let mut keys = Map::new();
        let mut has_secret = false;
        for part in grant.children() {
            let text = part.text();
            let is_computed = text.starts_with(['{', '$']);
            match part.name() {
                "clientSecret" => has_secret = true,
                name if is_computed => {
                    return Err(format!(
                        "`{name}` of its OAuth is computed, which has no counterpart"
                    ));
                }
                "tokenUrl" => drop(keys.insert("token_url".to_owned(), json!(text))),
                "clientId" => drop(keys.insert("client_id".to_owned(), json!(text))),
                "scopes" | "scope" => {
                    let scopes: Vec<&str> = text.split_whitespace().collect();
                    keys.insert("scopes".to_owned(), json!(scopes));
                }
                "authMode" if text.eq_ignore_ascii_case("payload") => {
                    keys.insert("authentication".to_owned(), json!("body"));
                }
                "authMode" => {}
                "requestParameters" => {
                    let mut parameters = Map::new();
                    for parameter in part.all("parameter") {
                        let name =
                            parameter.attribute("name").ok_or("a parameter without a name")?;
                        let text = parameter.text();
                        if text.starts_with(['{', '$']) {
                            return Err(format!("the parameter `{name}` of its OAuth is computed"));
                        }
                        parameters.insert(name.to_owned(), json!(text));
                    }
                    if let Some(Json::String(scope)) = parameters.shift_remove("scope") {
                        let scopes: Vec<&str> = scope.split_whitespace().collect();
                        keys.insert("scopes".to_owned(), json!(scopes));
                    }
                    if !parameters.is_empty() {
                        keys.insert("parameters".to_owned(), Json::Object(parameters));
                    }
                }
                other => return Err(format!("`{other}` of its OAuth has no counterpart")),
            }
        }
        if !keys.contains_key("token_url") || !keys.contains_key("client_id") || !has_secret {
            return Err("its OAuth lacks a token URL, a client id or a secret".to_owned());
        }
        keys.insert("client_secret".to_owned(), json!(self.secret(name, "CLIENT_SECRET")));
        Ok(Json::Object(keys))
    }

    /// `ws_security` of the upstream. A policy with any element that is not in [`POLICY`] is an error.
    fn username(
        &mut self,
        name: &str,
        security: &Element<'a>,
    ) -> Result<Option<(String, Json)>, String> {
        if security.attribute("inboundPolicy").is_some() {
            return Err("WS-Security of replies is not verified".to_owned());
        }
        let key = security.attribute("policy").or(security.attribute("outboundPolicy"));
        let key = key.ok_or("its WS-Security has no policy")?;
        let content = self.artifacts.resource(key)?.content;
        let policy = Document::parse(&content, &Options::default())
            .map_err(|error| format!("the policy `{key}` cannot be read: {error}"))?;
        let parts: Vec<_> = policy
            .descendants(Document::ROOT)
            .filter(|node| policy.kind(*node) == Kind::Element)
            .collect();
        let unknown = parts.iter().map(|node| policy.name(*node).local);
        if let Some(other) = unknown.into_iter().find(|name| !POLICY.contains(name)) {
            return Err(format!(
                "`{other}` of the policy `{key}` has no counterpart: WS-Security is UsernameToken and Timestamp here"
            ));
        }
        let found = |wanted: &str| {
            let node = parts.iter().find(|node| policy.name(**node).local == wanted);
            node.map(|node| policy.string_value(*node).trim().to_owned())
        };
        let mut keys = Map::new();
        if found("UsernameToken").is_some() {
            let user = found("user").filter(|user| !user.is_empty());
            let user = user.ok_or_else(|| format!("the policy `{key}` names no user"))?;
            let form = if found("HashPassword").is_some() { "digest" } else { "text" };
            keys.insert("username".to_owned(), json!(user));
            keys.insert("password".to_owned(), json!(self.secret(name, "PASSWORD")));
            keys.insert("password_type".to_owned(), json!(form));
        }
        if found("IncludeTimestamp").is_some() {
            let written = found("timestampTTL");
            let seconds = written.map_or(Ok(TIMESTAMP_SECONDS), |text| text.parse::<u64>());
            let seconds = seconds
                .map_err(|_| format!("`timestampTTL` of the policy `{key}` is not a number"))?;
            keys.insert("timestamp".to_owned(), json!(duration(seconds.saturating_mul(1000))));
        }
        if keys.is_empty() {
            return Err(format!("the policy `{key}` asks for nothing"));
        }
        self.note("the service's own WS-Security in replies is not verified");
        Ok(Some(("ws_security".to_owned(), Json::Object(keys))))
    }
}

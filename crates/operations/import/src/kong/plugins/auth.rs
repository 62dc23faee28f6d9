//! Plugins for authentication and for authorisation.

use serde_json::{Map, Value as Json, json};

use super::super::consumers::{Clients, consumer_id};
use super::super::converter::Converter;
use super::super::entities::{CredentialKind, Entity, PluginInstance};
use super::super::fields::Verdict;
use super::super::output::{one_or_more, regex_here};
use super::super::plugin_fields::LOGIN;
use super::super::tree::Item;
use super::{OneCredential, RouteEffect};

/// The algorithms of `hmac-auth`, if it lists none.
const HMAC_ALGORITHMS: [&str; 4] = ["hmac-sha1", "hmac-sha256", "hmac-sha384", "hmac-sha512"];

const ANONYMOUS: &str =
    "Tidegate refuses wrong credentials, and the anonymous consumer has neither headers nor groups";

impl Converter<'_> {
    /// Reads `anonymous` of a plugin with credentials. True if requests without a credential pass.
    fn anonymous(&mut self, config: &Item, verdict: &mut Verdict) -> bool {
        let Some(name) = config.text("anonymous").filter(|name| !name.is_empty()) else {
            return false;
        };
        let all = self.all;
        // The id that Kong makes has 36 characters. It is not computed for other names, since there may be many consumers.
        let is_it = |consumer: &Entity| {
            consumer.name == name
                || consumer.item.text("id") == Some(name)
                || name.len() == 36 && consumer_id(consumer) == name
        };
        let known = all.consumers.iter().position(is_it);
        if known.is_none() {
            verdict.nearly(format!(
                "there is no consumer `{name}`: a request without this credential is 401; in Kong it is 500, unless another plugin identifies the client"
            ));
            return false;
        }
        verdict.nearly(ANONYMOUS);
        let ends = |plugin: &PluginInstance| {
            plugin.name == "request-termination"
                && plugin.scope.consumer == known
                && plugin.item.is_true("enabled", true)
        };
        let ends = all.plugins.iter().any(ends);
        if ends {
            verdict.nearly("Tidegate refuses requests without a credential with 401, as its `request-termination` does");
        }
        !ends
    }

    pub(super) fn key_auth(
        &mut self,
        plugin: &PluginInstance,
        people: &Clients,
        made: &mut RouteEffect,
        verdict: &mut Verdict,
    ) {
        let config = &plugin.config;
        let mut names = config.texts("key_names");
        if names.is_empty() {
            names.push("apikey");
        }
        let mut keys = Map::new();
        for (switch, key) in [("key_in_header", "header"), ("key_in_query", "query")] {
            if config.is_true(switch, true) {
                let names = names.iter().map(|name| json!(name)).collect();
                keys.insert(key.to_owned(), one_or_more(names));
            }
        }
        if config.is_true("key_in_body", false) {
            verdict.nearly("keys are looked for in forms and JSON, not in forms of several parts");
            let names = names.iter().map(|name| json!(name)).collect();
            keys.insert("body".to_owned(), one_or_more(names));
        }
        if keys.is_empty() {
            verdict.refuse("the key is looked for nowhere");
            return;
        }
        let anonymous = self.anonymous(config, verdict);
        keys.insert("keys".to_owned(), Json::Object(people.keys.clone()));
        keys.insert("forward".to_owned(), json!(!config.is_true("hide_credentials", false)));
        made.credential =
            Some(OneCredential { kind: "api_key", keys: Json::Object(keys), anonymous });
        made.policies = identity(people, verdict);
    }

    pub(super) fn basic_auth(
        &mut self,
        plugin: &PluginInstance,
        people: &Clients,
        made: &mut RouteEffect,
        verdict: &mut Verdict,
    ) {
        let config = &plugin.config;
        let anonymous = self.anonymous(config, verdict);
        let keys = json!({
            "users": people.users,
            "realm": config.text("realm").unwrap_or("service"),
            "forward": !config.is_true("hide_credentials", false),
            "proxy_authorization": true,
        });
        made.credential = Some(OneCredential { kind: "basic", keys, anonymous });
        made.policies = identity(people, verdict);
    }

    pub(super) fn hmac_auth(
        &mut self,
        plugin: &PluginInstance,
        people: &Clients,
        made: &mut RouteEffect,
        verdict: &mut Verdict,
    ) {
        let config = &plugin.config;
        let algorithms = config.texts("algorithms");
        let algorithms = if algorithms.is_empty() { HMAC_ALGORITHMS.to_vec() } else { algorithms };
        let skew = config.number("clock_skew").unwrap_or(300.0);
        if skew <= 0.0 {
            self.mistakes.add(config.place_of("clock_skew"), "`clock_skew` must be above 0");
            return;
        }
        let mut keys = Map::new();
        keys.insert("users".to_owned(), Json::Object(people.signers.clone()));
        keys.insert("algorithms".to_owned(), json!(algorithms));
        keys.insert("clock_skew".to_owned(), json!(format!("{}ms", (skew * 1000.0).round())));
        keys.insert("headers".to_owned(), json!(config.texts("enforce_headers")));
        if config.is_true("validate_request_body", false) {
            keys.insert("body".to_owned(), json!(true));
            verdict.nearly("a body of more than 1 MiB is refused where its digest is compared");
        }
        if let Some(realm) = config.text("realm") {
            keys.insert("realm".to_owned(), json!(realm));
        }
        keys.insert("forward".to_owned(), json!(!config.is_true("hide_credentials", false)));
        let anonymous = self.anonymous(config, verdict);
        made.credential = Some(OneCredential { kind: "hmac", keys: Json::Object(keys), anonymous });
        made.policies = identity(people, verdict);
    }

    /// `openid-connect`, restricted to tokens in requests.
    pub(super) fn openid(
        &mut self,
        plugin: &PluginInstance,
        made: &mut RouteEffect,
        verdict: &mut Verdict,
    ) {
        let config = &plugin.config;
        let Some(issuer) = config.text("issuer") else {
            self.mistakes.add(config.at, "an openid-connect without `issuer`");
            return;
        };
        if config.texts("auth_methods") != ["bearer"] {
            verdict.refuse(format!("`auth_methods` must be `[bearer]`: {LOGIN}"));
            return;
        }
        if config.get("anonymous").is_some() {
            verdict.refuse("Tidegate has no anonymous requests beside `openid-connect`");
            return;
        }
        let base = issuer.strip_suffix("/.well-known/openid-configuration").unwrap_or(issuer);
        let issuer = json!({
            "issuer": base,
            "discovery": true,
            "leeway": format!("{}s", config.number("leeway").unwrap_or(0.0)),
        });
        let known = self.out.issuers.iter().find(|(_, known)| **known == issuer);
        let name = match known.map(|(name, _)| name.clone()) {
            Some(name) => name,
            None => self.out.fresh("issuer", "openid"),
        };
        self.out.issuers.insert(name.clone(), issuer);
        let mut keys = Map::new();
        keys.insert("issuers".to_owned(), json!([name]));
        keys.insert("forward".to_owned(), json!(!config.is_true("hide_credentials", false)));
        let claims = config.texts("upstream_headers_claims");
        let names = config.texts("upstream_headers_names");
        if claims.len() != names.len() {
            let what =
                "`upstream_headers_claims` and `upstream_headers_names` must have the same length";
            self.mistakes.add(config.place_of("upstream_headers_names"), what);
        }
        if !claims.is_empty() {
            // Harmless: lists of different lengths are a mistake.
            let lines = names.into_iter().zip(claims);
            let lines: Map<String, Json> =
                lines.map(|(name, claim)| (name.to_ascii_lowercase(), json!(claim))).collect();
            keys.insert("claims_to_headers".to_owned(), Json::Object(lines));
        }
        let audiences = config.texts("audience_required");
        if !audiences.is_empty() {
            keys.insert("audiences".to_owned(), json!(audiences));
        }
        let scopes = config.texts("scopes_required");
        if !scopes.is_empty() {
            // The texts of the list are alternatives. All words within one text are required.
            if scopes.iter().any(|scope| scope.contains(' ')) && scopes.len() > 1 {
                verdict.refuse("Tidegate has no alternatives of several scopes");
            }
            let rule = if scopes.len() == 1 { "all" } else { "any" };
            let words: Vec<&str> = scopes.iter().flat_map(|scope| scope.split(' ')).collect();
            keys.insert("scopes".to_owned(), json!({ rule: words }));
        }
        verdict.nearly("tokens are verified by the keys of the issuer; a claim names no consumer");
        made.policies.push(json!({ "jwt": keys }));
    }

    pub(super) fn jwt(
        &mut self,
        plugin: &PluginInstance,
        people: &Clients,
        made: &mut RouteEffect,
        verdict: &mut Verdict,
    ) {
        let config = &plugin.config;
        let mut keys = Map::new();
        let verified = config.texts("claims_to_verify");
        let base64 = config.is_true("secret_is_base64", false);
        let claim = config.text("key_claim_name").unwrap_or("iss");
        let mut names = Vec::new();
        for token in &people.tokens {
            let mut name = token.name.clone();
            let issuer = token.issuer(self, &verified, claim, base64);
            match self.out.issuers.get(&name) {
                Some(known) if *known == issuer => {}
                Some(_) => {
                    name = self.out.fresh("issuer", &token.name);
                    self.out.issuers.insert(name.clone(), issuer);
                }
                None => drop(self.out.issuers.insert(name.clone(), issuer)),
            }
            let origin = (token.what.clone(), token.at);
            self.origins.insert(("issuers".to_owned(), name.clone()), origin);
            names.push(name);
        }
        if names.is_empty() && config.text("anonymous").is_some_and(|name| !name.is_empty()) {
            verdict.refuse("no consumer has a credential of `jwt`, and others may pass");
            return;
        }
        if names.is_empty() {
            if self.all.credentials.iter().any(|one| one.kind == CredentialKind::Jwt) {
                verdict.say("the credentials of `jwt` are refused, so every request is 401");
            } else {
                verdict.say(
                    "no consumer has a credential of `jwt`, so every request is 401, as in Kong",
                );
            }
            let body = json!({ "message": "Unauthorized" }).to_string();
            let headers = json!({ "content-type": "application/json; charset=utf-8", "www-authenticate": "Bearer" });
            made.respond = Some(json!({ "status": 401, "body": body, "headers": headers }));
            return;
        }
        keys.insert("issuers".to_owned(), json!(names));
        one_of(config, "header_names", "authorization", "header", &mut keys, verdict);
        match config.get("uri_param_names") {
            None => drop(keys.insert("query".to_owned(), json!("jwt"))),
            Some(_) => one_of(config, "uri_param_names", "", "query", &mut keys, verdict),
        }
        one_of(config, "cookie_names", "", "cookie", &mut keys, verdict);
        let seconds = config.number("maximum_expiration").unwrap_or(0.0);
        if seconds > 0.0 {
            keys.insert("lifetime_max".to_owned(), json!(format!("{seconds}s")));
        }
        keys.insert("forward".to_owned(), json!(true));
        if let Some(realm) = config.text("realm") {
            keys.insert("realm".to_owned(), json!(realm));
        }
        let anonymous = self.anonymous(config, verdict);
        made.credential = Some(OneCredential { kind: "jwt", keys: Json::Object(keys), anonymous });
        made.policies = identity(people, verdict);
    }

    pub(super) fn acl(&mut self, config: &Item, made: &mut RouteEffect, verdict: &mut Verdict) {
        let (allow, deny) = lists(config);
        if allow.is_empty() == deny.is_empty() {
            self.mistakes.add(config.at, "an acl needs one of `allow` and `deny`");
            return;
        }
        let mut groups = Map::new();
        if !allow.is_empty() {
            groups.insert("allow".to_owned(), json!(allow));
        }
        if !deny.is_empty() {
            verdict.nearly(
                "Kong refuses a request without a consumer with 401, and Tidegate lets it pass",
            );
            groups.insert("deny".to_owned(), json!(deny));
        }
        made.policies.push(json!({ "authorize": { "groups": groups } }));
        if !config.is_true("hide_groups_header", false) {
            let set = json!({ "x-consumer-groups": "{groups}" });
            made.policies.push(json!({ "headers": { "request": { "set": set } } }));
        }
    }

    pub(super) fn ip_restriction(&mut self, config: &Item, made: &mut RouteEffect) {
        let (allow, deny) = lists(config);
        if allow.is_empty() && deny.is_empty() {
            self.mistakes.add(config.at, "an ip-restriction needs `allow` or `deny`");
            return;
        }
        let mut keys = Map::new();
        for (key, list) in [("allow", allow), ("deny", deny)] {
            if !list.is_empty() {
                keys.insert(key.to_owned(), json!(list));
            }
        }
        let status = config.whole("status", 403);
        if status != 403 {
            keys.insert("status".to_owned(), json!(status));
        }
        if let Some(message) = config.text("message") {
            keys.insert("message".to_owned(), json!(message));
        }
        made.policies.push(json!({ "ip_filter": keys }));
    }
}

pub(super) fn bots(config: &Item, made: &mut RouteEffect, verdict: &mut Verdict) {
    let (allow, deny) = lists(config);
    let mut keys = Map::new();
    for (key, list) in [("allow", allow), ("deny", deny)] {
        for text in &list {
            if let Err(why) = regex_here(text) {
                verdict.refuse(format!("the regular expression `{text}` of `{key}`: {why}"));
            }
        }
        if !list.is_empty() {
            keys.insert(key.to_owned(), json!(list));
        }
    }
    verdict.nearly("which programs are robots is a list of the gateway's own");
    made.policies.push(json!({ "user_agent": keys }));
}

/// `allow` and `deny`, which once were `whitelist` and `blacklist`.
fn lists(config: &Item) -> (Vec<&str>, Vec<&str>) {
    let either = |new: &str, old: &str| {
        let list = config.texts(new);
        if list.is_empty() { config.texts(old) } else { list }
    };
    (either("allow", "whitelist"), either("deny", "blacklist"))
}

/// The headers with the name and the ids of the consumer and of its credential.
fn identity(people: &Clients, verdict: &mut Verdict) -> Vec<Json> {
    let mut set = Map::new();
    set.insert("x-consumer-username".to_owned(), json!("{subject}"));
    set.insert("x-consumer-id".to_owned(), json!("{attributes.id}"));
    set.insert("x-credential-identifier".to_owned(), json!("{attributes.credential}"));
    if people.lacks_username {
        verdict.nearly("`X-Consumer-Username` is the custom id of a consumer without a username");
    }
    let (some, each) = people.custom_ids;
    if some {
        set.insert("x-consumer-custom-id".to_owned(), json!("{attributes.custom_id}"));
        if !each {
            verdict.nearly("`X-Consumer-Custom-ID` is empty for a consumer without one");
        }
    }
    let mut remove = vec!["x-anonymous-consumer"];
    if !some {
        remove.push("x-consumer-custom-id");
    }
    vec![json!({ "headers": { "request": { "set": set, "remove": remove } } })]
}

/// Sets a key that takes one name from a list of names. `absent` is the name if there is no list.
fn one_of(
    config: &Item,
    list: &str,
    absent: &str,
    key: &str,
    keys: &mut Map<String, Json>,
    verdict: &mut Verdict,
) {
    let names = config.texts(list);
    let first = names.first().copied().unwrap_or(absent);
    if names.len() > 1 {
        verdict.refuse(format!("`{list}`: Tidegate looks for a token under one name"));
    }
    if !first.is_empty() && (key != "header" || !first.eq_ignore_ascii_case("authorization")) {
        keys.insert(key.to_owned(), json!(first));
    }
}

//! The configuration bundle for an API.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::api_kind::{is_stream, kind};
use crate::definition::{Site, default_plan, topic};
use crate::endpoints::{PRODUCTION, SANDBOX, SIDES, Side, is_failover, parts};
use crate::objects::{ApiState, config_name, context, items, set, text, texts};
use crate::{document, mediation, wsdl_document};

/// The paths of a WEBSUB API to which publishers send events: WSO2 API Manager's path, and the default path of hubs.
const PUBLISH: [&str; 2] = ["/webhooks_events_receiver_resource", "/publish"];

/// The files of an API's bundle: its configuration and, if it has one, its document.
pub(crate) fn files(
    dto: &Value,
    document: Option<&Value>,
    state: ApiState,
    site: &Site<'_>,
) -> Vec<(String, Vec<u8>)> {
    let configuration =
        |value: Value| ("tidegate.yaml".to_owned(), literal(value).to_string().into_bytes());
    let api = Bundle { dto, site, name: config_name(dto), context: context(dto) };
    if state == ApiState::Blocked {
        return vec![configuration(api.blocked())];
    }
    match kind(dto) {
        "HTTP" => {
            let document = document::served(dto, document).to_string().into_bytes();
            vec![configuration(api.api()), ("definition.json".to_owned(), document)]
        }
        "SSE" => vec![configuration(api.sse())],
        "WEBSUB" => vec![configuration(api.websub())],
        "SOAPTOREST" => {
            // Harmless: a configuration without its files is refused.
            let files = wsdl_document::files(document).unwrap_or_default();
            let wsdl = files.first().map_or("service.wsdl", |(name, _)| name.as_str());
            let mut all = vec![configuration(api.soap_to_rest(wsdl))];
            all.extend(files);
            all
        }
        kind => vec![configuration(api.route(kind))],
    }
}

/// Escapes the texts of a value. In a configuration, texts may refer to variables and files of the gateway, which a publisher must
/// not use.
fn literal(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(text.replace("${", "$${")),
        Value::Array(items) => items.into_iter().map(literal).collect(),
        Value::Object(members) => {
            members.into_iter().map(|(key, value)| (key, literal(value))).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value,
    }
}

/// The API for which a bundle is made.
struct Bundle<'a> {
    dto: &'a Value,
    site: &'a Site<'a>,
    name: String,
    context: String,
}

impl Bundle<'_> {
    /// The configuration of a blocked API: every request gets the same refusal.
    fn blocked(&self) -> Value {
        let body = json!({
            "code": "700700",
            "message": "API blocked",
            "description": "This API has been blocked temporarily. Please try again later or contact the system administrators.",
        });
        let respond = json!({
            "status": 503,
            "headers": { "content-type": "application/json" },
            "body": body.to_string(),
        });
        let route = json!({ "match": self.matches(&["/**"]), "respond": respond });
        json!({ "routes": { self.name.as_str(): route } })
    }

    /// The `match` of a route for these paths, which are relative to the path of the API.
    fn matches(&self, below: &[&str]) -> Value {
        let paths: Vec<String> =
            below.iter().map(|below| format!("{}{below}", self.context)).collect();
        let mut matches = match paths.as_slice() {
            [path] => json!({ "path": path }),
            paths => json!({ "path": paths }),
        };
        if let Some(listener) = self.site.gateway {
            set(&mut matches, "listener", json!(listener));
        }
        matches
    }

    /// The policy that authenticates the client. If there are scopes, an OAuth token needs one of them, and an API key needs none.
    fn credentials(&self, scopes: &[String]) -> Value {
        let schemes = texts(self.dto.get("securityScheme"));
        let takes = |scheme: &str| schemes.iter().any(|known| known == scheme);
        let mut any = Vec::new();
        if takes("oauth2") || !takes("api_key") {
            let mut jwt = json!({ "issuers": self.site.issuers });
            if is_stream(kind(self.dto)) {
                set(&mut jwt, "query", json!("access_token"));
            }
            let header = text(self.dto, "authorizationHeader").to_ascii_lowercase();
            if !["", "authorization"].contains(&header.as_str()) {
                set(&mut jwt, "header", json!(header));
            }
            if !scopes.is_empty() {
                set(&mut jwt, "scopes", json!({ "any": scopes }));
            }
            any.push(json!({ "jwt": jwt }));
        }
        if takes("api_key")
            && let Some(issuer) = self.site.key_issuer
        {
            let header = text(self.dto, "apiKeyHeader").to_ascii_lowercase();
            let header = if header.is_empty() { "apikey".to_owned() } else { header };
            any.push(
                json!({ "jwt": { "issuers": [issuer], "header": header, "query": "apikey" } }),
            );
        }
        json!({ "authenticate": { "any": any } })
    }

    /// An API with operations.
    fn api(&self) -> Value {
        let mut api = json!({
            "openapi": "definition.json",
            "base_path": self.context,
            "subscription": "required",
            "plans": texts(self.dto.get("policies")),
            "errors": "wso2_apim",
            "policies": [self.credentials(&[])],
        });
        if let Some(listener) = self.site.gateway {
            set(&mut api, "listener", json!(listener));
        }
        if self.dto.get("enableSchemaValidation").and_then(Value::as_bool) == Some(true) {
            set(&mut api, "validate", json!({ "request": true, "response": true }));
        }
        json!({ "apis": { self.name.as_str(): api } })
    }

    /// The policy that enforces subscriptions. `resource` is the plan of the route.
    fn subscription(&self, resource: &str) -> Value {
        let mut check = json!({
            "api": self.name,
            "plans": texts(self.dto.get("policies")),
            "context": self.context,
        });
        match text(self.dto, "apiThrottlingPolicy") {
            "" if ["", "Unlimited"].contains(&resource) => {}
            "" => set(&mut check, "resource_plan", json!(resource)),
            own => set(&mut check, "api_plan", json!(own)),
        }
        json!({ "subscription": check })
    }

    /// The policies of a route to an upstream.
    fn policies(&self, scopes: &[String], resource: &str, more: Option<Value>) -> Vec<Value> {
        let mut policies: Vec<Value> = self.cors().into_iter().collect();
        policies.push(self.credentials(scopes));
        policies.push(self.subscription(resource));
        policies.extend(self.key_type());
        policies.extend(more);
        policies
    }

    /// The CORS settings for pages of other origins, as in the document of an API with operations.
    fn cors(&self) -> Option<Value> {
        let written = self.dto.get("corsConfiguration")?;
        if written.get("corsConfigurationEnabled").and_then(Value::as_bool) != Some(true) {
            return None;
        }
        let mut cors = Map::new();
        for (theirs, ours) in [
            ("accessControlAllowOrigins", "origins"),
            ("accessControlAllowMethods", "methods"),
            ("accessControlAllowHeaders", "headers"),
            ("accessControlExposeHeaders", "expose"),
            ("accessControlAllowCredentials", "credentials"),
        ] {
            if let Some(value) = written.get(theirs).filter(|value| !value.is_null()) {
                cors.insert(ours.to_owned(), value.clone());
            }
        }
        Some(json!({ "cors": cors }))
    }

    fn urls(&self, side: Side) -> Vec<String> {
        side.urls(self.dto.get("endpointConfig"))
    }

    /// The policy that sends requests with sandbox tokens to the sandbox, and refuses tokens of a type that has no endpoints. None
    /// without endpoints.
    fn key_type(&self) -> Option<Value> {
        let has = |side: Side| !self.urls(side).is_empty();
        match (has(PRODUCTION), has(SANDBOX)) {
            (true, false) => Some(json!({ "key_type": {} })),
            (true, true) => Some(json!({ "key_type": { "sandbox": self.sandbox() } })),
            (false, true) => {
                Some(json!({ "key_type": { "production": false, "sandbox": self.sandbox() } }))
            }
            (false, false) => None,
        }
    }

    fn sandbox(&self) -> String {
        format!("{} sandbox", self.name)
    }

    /// The upstreams of the endpoints. An upstream without targets causes a complaint.
    fn upstreams(&self) -> Value {
        let config = self.dto.get("endpointConfig");
        let upstream = |urls: Vec<String>, side: Side| {
            let target = |url: &String| {
                let (scheme, authority, _) = parts(url)?;
                let has_tls = matches!(scheme, "https" | "wss");
                let scheme = if has_tls { "https" } else { "http" };
                Some(format!("{scheme}://{authority}"))
            };
            // Harmless: the check of a definition refuses other URLs.
            let targets: Vec<String> = urls.iter().filter_map(target).collect();
            let mut made = Map::new();
            if is_failover(config) && targets.len() > 1 {
                made.insert("balance".to_owned(), json!("failover"));
                made.insert("health".to_owned(), json!({}));
            }
            made.insert("targets".to_owned(), json!(targets));
            made.extend(side.credentials(config));
            Value::Object(made)
        };
        let (production, sandbox) = (self.urls(PRODUCTION), self.urls(SANDBOX));
        let mut all = Map::new();
        if sandbox.is_empty() || !production.is_empty() {
            all.insert(self.name.clone(), upstream(production, PRODUCTION));
        }
        if !sandbox.is_empty() {
            all.insert(self.sandbox(), upstream(sandbox, SANDBOX));
        }
        Value::Object(all)
    }

    /// The upstream of the routes, unless the type of a token selects another.
    fn upstream(&self) -> String {
        if self.urls(PRODUCTION).is_empty() && !self.urls(SANDBOX).is_empty() {
            self.sandbox()
        } else {
            self.name.clone()
        }
    }

    /// The common path of all endpoints.
    fn path(&self) -> String {
        let url = SIDES.into_iter().flat_map(|side| self.urls(side)).next();
        let path = url.as_deref().and_then(parts).map_or("", |(_, _, path)| path);
        path.trim_end_matches('/').to_owned()
    }

    fn to_upstream(&self, below: &str, rewrite: String, policies: Vec<Value>) -> Value {
        json!({
            "match": self.matches(&[below]),
            "rewrite": rewrite,
            "upstream": self.upstream(),
            "host": "target",
            "errors": "wso2_apim",
            "policies": policies,
        })
    }

    fn limited(&self) -> Value {
        json!({ "plans": true, "default": default_plan(kind(self.dto)) })
    }

    /// The methods of a route: those of its operations, and OPTIONS if pages of other origins are allowed.
    fn methods<'m>(&self, of_operations: &[&'m str]) -> Vec<&'m str> {
        let mut methods = of_operations.to_vec();
        if self.cors().is_some() {
            methods.push("OPTIONS");
        }
        methods.sort_unstable();
        methods.dedup();
        methods
    }

    /// The common scopes of all operations.
    fn scopes(&self) -> Vec<String> {
        let first = items(self.dto.get("operations")).first();
        // Harmless: the check of a definition adds operations if there are none.
        first.map(|one| texts(one.get("scopes"))).unwrap_or_default()
    }

    /// An API with one route, which does not distinguish operations.
    fn route(&self, kind: &str) -> Value {
        let websocket = (kind == "WS").then(|| {
            let mut keys = self.limited();
            let topics = self.sockets();
            if !topics.is_empty() {
                set(&mut keys, "topics", Value::Object(topics));
            }
            json!({ "websocket": keys })
        });
        // Topics of WebSockets have their own scopes.
        let scopes = if kind == "WS" { Vec::new() } else { self.scopes() };
        let mut policies = self.policies(&scopes, "", websocket);
        if kind == "SOAP" {
            policies.extend(self.mediation());
        }
        let mut route = self.to_upstream("/**", format!("{}/{{**}}", self.path()), policies);
        if kind == "SOAP"
            && let Some(matches) = route.get_mut("match")
        {
            let verbs: Vec<&str> =
                items(self.dto.get("operations")).iter().map(|one| text(one, "verb")).collect();
            set(matches, "methods", json!(self.methods(&verbs)));
        }
        json!({ "routes": { self.name.as_str(): route }, "upstreams": self.upstreams() })
    }

    /// The mediation policies, which are the same for all operations.
    fn mediation(&self) -> Vec<Value> {
        let first = items(self.dto.get("operations")).first();
        let own = first.and_then(|one| one.get("operationPolicies"));
        mediation::policies(self.dto.get("apiPolicies"), own)
    }

    /// A SOAP service as a JSON API, with the paths of the definition.
    fn soap_to_rest(&self, wsdl: &str) -> Value {
        let path = self.path();
        let soap_rest = json!({ "soap_rest": {
            "wsdl": wsdl,
            "prefix": self.context,
            "path": if path.is_empty() { "/" } else { &path },
            "openapi": "off",
        } });
        let mut policies = self.policies(&self.scopes(), "", None);
        policies.extend(self.mediation());
        policies.push(soap_rest);
        let operations = items(self.dto.get("operations"));
        let targets: Vec<&str> = operations.iter().map(|one| text(one, "target")).collect();
        let mut matches = self.matches(&targets);
        set(&mut matches, "methods", json!(self.methods(&["POST"])));
        let route = json!({
            "match": matches,
            "upstream": self.upstream(),
            "host": "target",
            "errors": "wso2_apim",
            "policies": policies,
        });
        json!({ "routes": { self.name.as_str(): route }, "upstreams": self.upstreams() })
    }

    /// The topics of WebSockets, with the allowed directions. Empty if everything is allowed everywhere.
    fn sockets(&self) -> Map<String, Value> {
        let mut topics: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
        for operation in items(self.dto.get("operations")) {
            topics.entry(text(operation, "target")).or_default().push(operation);
        }
        let mut made = Map::new();
        for (target, operations) in &topics {
            let (mut allow, mut keys) = (Vec::new(), json!({}));
            for (verb, key) in [("PUBLISH", "publish"), ("SUBSCRIBE", "subscribe")] {
                let Some(found) = operations.iter().find(|one| text(one, "verb") == verb) else {
                    continue;
                };
                allow.push(key);
                let scopes = texts(found.get("scopes"));
                if !scopes.is_empty() {
                    set(&mut keys, key, json!(scopes));
                }
            }
            if allow.len() < 2 {
                set(&mut keys, "allow", json!(allow));
            }
            if let Some(mapped) = operations.iter().find_map(|one| mapping(one)) {
                set(&mut keys, "path", json!(format!("{}{mapped}", self.path())));
            }
            made.insert(all_below(target), keys);
        }
        let is_open = |(name, keys): (&String, &Value)| {
            name == "/**" && keys.as_object().is_some_and(Map::is_empty)
        };
        if made.len() == 1 && made.iter().all(is_open) { Map::new() } else { made }
    }

    /// Event streams: a route for each topic.
    fn sse(&self) -> Value {
        let mut routes = Map::new();
        for operation in items(self.dto.get("operations")) {
            let target = text(operation, "target");
            let below = all_below(target);
            let to = mapping(operation).map_or_else(|| below.clone(), all_below);
            let rewrite = match to.strip_suffix("/**") {
                Some(before) => format!("{}{before}/{{**}}", self.path()),
                None => format!("{}{to}", self.path()),
            };
            let scopes = texts(operation.get("scopes"));
            let limited = json!({ "sse": self.limited() });
            let policies =
                self.policies(&scopes, text(operation, "throttlingPolicy"), Some(limited));
            let mut route = self.to_upstream(&below, rewrite, policies);
            if let Some(matches) = route.get_mut("match") {
                set(matches, "methods", json!(self.methods(&["GET", "HEAD"])));
            }
            let name = if routes.is_empty() {
                self.name.clone()
            } else {
                format!("{} {target}", self.name)
            };
            routes.insert(name, route);
        }
        json!({ "routes": routes, "upstreams": self.upstreams() })
    }

    /// A hub with its topics. Publishers need a signature if one is configured, and a subscription otherwise.
    fn websub(&self) -> Value {
        let operations = items(self.dto.get("operations"));
        let mut topics: Vec<&str> =
            operations.iter().map(|one| topic(text(one, "target"))).collect();
        topics.sort_unstable();
        topics.dedup();
        let verify = self.dto.get("enableSubscriberVerification").and_then(Value::as_bool);
        let mut scopes = Map::new();
        for operation in operations {
            // All operations of a topic have the same scopes.
            let own = texts(operation.get("scopes"));
            if !own.is_empty() {
                scopes.insert(topic(text(operation, "target")).to_owned(), json!(own));
            }
        }
        let mut hub = json!({
            "topics": topics,
            "publish": PUBLISH,
            "verify": verify.unwrap_or(true),
            "callbacks": { "allow": self.site.callbacks },
            "limits": self.limited(),
        });
        if !scopes.is_empty() {
            set(&mut hub, "scopes", Value::Object(scopes));
        }
        let signature = self.dto.get("websubSubscriptionConfiguration");
        let signature =
            signature.filter(|one| one.get("enable").and_then(Value::as_bool) == Some(true));
        if let Some(signature) = signature {
            set(&mut hub, "secret", json!(text(signature, "secret")));
            let header = text(signature, "signatureHeader").to_ascii_lowercase();
            set(
                &mut hub,
                "signature",
                json!(if header.is_empty() { "x-hub-signature" } else { &header }),
            );
            let algorithm =
                text(signature, "signingAlgorithm").to_ascii_lowercase().replace('-', "");
            set(
                &mut hub,
                "algorithm",
                json!(if algorithm.is_empty() { "sha1" } else { &algorithm }),
            );
        } else {
            // Subscribers of WSO2 API Manager verify SHA-1.
            set(&mut hub, "algorithm", json!("sha1"));
        }
        let mut policies: Vec<Value> = self.cors().into_iter().collect();
        // Topics have their own scopes.
        policies.push(self.credentials(&[]));
        policies.push(self.subscription(""));
        let route = |below: &[&str], policies: Vec<Value>| json!({ "match": self.matches(below), "hub": self.name, "errors": "wso2_apim", "policies": policies });
        let mut routes = Map::new();
        routes.insert(self.name.clone(), route(&["/**"], policies));
        if signature.is_some() {
            routes.insert(format!("{} publish", self.name), route(&PUBLISH, Vec::new()));
        }
        json!({ "routes": routes, "hubs": { self.name.as_str(): hub } })
    }
}

/// The path at the backend for an operation, if it names one.
fn mapping(operation: &Value) -> Option<&str> {
    let named = ["uriMapping", "x-uri-mapping"].map(|key| text(operation, key));
    named.into_iter().find(|path| path.starts_with('/'))
}

/// Converts a target to a path of the gateway: `/*` at its end includes all paths below.
fn all_below(target: &str) -> String {
    match target.strip_suffix("/*") {
        Some(before) => format!("{before}/**"),
        None => target.to_owned(),
    }
}

//! The policies that a document's extensions require.

use config::Policy;
use serde_json::{Map, Value as Json, json};

use super::{Expansion, NotedTier, Options};
use crate::Outcome;
use crate::endpoints::{self, Places};
use crate::extensions::{self, Levels};
use crate::json_location::JsonLocation;
use crate::model::{Operation, Path, truth};
use crate::note::ImportNote;

/// The credentials that an operation requires.
#[derive(Default)]
pub(super) struct RequiredCredentials {
    pub(super) policy: Option<Json>,
    pub(super) scopes: Vec<String>,
    pub(super) open: bool,
    /// True if one of several alternative credentials is enough.
    pub(super) alternatives: bool,
    pub(super) optional: bool,
}

impl RequiredCredentials {
    /// True if some policy finds the client identity, so that a token's claims are known.
    pub(super) fn is_secured(&self, options: &Options) -> bool {
        !self.open && (self.policy.is_some() || options.secured)
    }
}

/// The document's requirements for credentials.
#[derive(Default)]
struct Requirements {
    /// True if a token is one of the alternatives.
    bearer: bool,
    scopes: Vec<String>,
    /// Schemes other than tokens.
    others: Vec<String>,
    /// The number of alternative credentials or sets of them.
    ways: usize,
    /// True if another scheme is required together with a token.
    together: bool,
    /// True if credentials are optional.
    optional: bool,
    /// True if the document lifts all requirements here with an empty `security`.
    lifted: bool,
}

impl Requirements {
    /// The requirements in WSO2 API Manager's own extension.
    fn of_application(&mut self, said: Option<&Json>) {
        let Some(said) = said else { return };
        self.optional = said.get("optional").and_then(truth) == Some(true);
        for kind in words(said.get("security-types")) {
            self.ways += 1;
            match kind.as_str() {
                "oauth2" | "default" => self.bearer = true,
                _ => self.others.push(kind),
            }
        }
    }
}

impl Expansion<'_> {
    /// Returns a policy that was made from the extension at `location`. If it is invalid, reports its faults and returns `None`.
    fn usable(&mut self, policy: Json, location: &JsonLocation) -> Option<Json> {
        let faults = extensions::faults::<Policy>(&policy, location);
        let policy = faults.is_empty().then_some(policy);
        faults.into_iter().for_each(|fault| self.refuse(fault));
        policy
    }

    /// The policies that the document itself has for an operation, its path or the whole API.
    pub(super) fn own_policies(&mut self, levels: &Levels<'_>) -> Vec<Json> {
        let Some((location, written)) = levels.member_at(extensions::OWN_POLICIES) else {
            return Vec::new();
        };
        let Some(list) = written.as_array() else {
            self.refuse(format!("{location} must be a list"));
            return Vec::new();
        };
        let numbered = list.iter().enumerate();
        let usable = |(number, policy): (usize, &Json)| {
            self.usable(policy.clone(), &location.child(&number.to_string()))
        };
        // Harmless: an invalid policy is reported by `usable`.
        numbered.filter_map(usable).collect()
    }

    pub(super) fn cors(&self) -> Option<Json> {
        self.made.cors.as_ref().map(|(_, policy)| policy.clone())
    }

    pub(super) fn read_cors(&mut self) -> Option<(JsonLocation, Json)> {
        let (location, written) = self.api.of_api_at("cors")?;
        if written.get("corsConfigurationEnabled").and_then(truth) == Some(false) {
            return None;
        }
        let names = [
            ("accessControlAllowOrigins", "origins"),
            ("accessControlAllowMethods", "methods"),
            ("accessControlAllowHeaders", "headers"),
            ("accessControlExposeHeaders", "expose"),
            ("accessControlAllowCredentials", "credentials"),
        ];
        // Harmless: a key that is not written keeps its default.
        let theirs = names
            .into_iter()
            .filter_map(|(theirs, ours)| Some((ours.to_owned(), written.get(theirs)?.clone())));
        let mut cors: Map<String, Json> = theirs.collect();
        if let (true, Some(ours)) = (cors.is_empty(), written.as_object()) {
            cors = ours.clone();
            cors.remove("corsConfigurationEnabled");
        } else {
            let known = |key: &str| names.iter().any(|(theirs, _)| *theirs == key);
            for key in written.as_object().iter().flat_map(|keys| keys.keys()) {
                if !known(key) && key != "corsConfigurationEnabled" {
                    let (prefix, what) = (format!("{location}: "), format!("`{key}`"));
                    let note = "has no effect here".to_owned();
                    self.note(ImportNote::new(
                        Outcome::Refused,
                        &location.child(key),
                        &prefix,
                        &what,
                        note,
                    ));
                }
            }
        }
        let policy = self.usable(json!({ "cors": cors }), &location)?;
        Some((location, policy))
    }

    pub(super) fn openapi(&self, template: Option<&str>) -> Json {
        let Options { request, response, verbose, body_bytes_max, document, .. } = self.options;
        let mut keys = Map::new();
        keys.insert("document".to_owned(), json!(document.to_string_lossy()));
        if !self.base.is_empty() {
            keys.insert("base_path".to_owned(), json!(self.base));
        }
        if let Some(template) = template {
            keys.insert("path".to_owned(), json!(template));
        }
        for (name, on) in [("request", *request), ("response", *response), ("verbose", *verbose)] {
            keys.insert(name.to_owned(), json!(on));
        }
        keys.insert("paths".to_owned(), json!(true));
        if !body_bytes_max.is_empty() {
            keys.insert("body_bytes_max".to_owned(), json!(body_bytes_max));
        }
        json!({ "openapi": keys })
    }

    pub(super) fn credentials(
        &mut self,
        levels: &Levels<'_>,
        location: &JsonLocation,
    ) -> RequiredCredentials {
        if self.is_open(levels) {
            return RequiredCredentials { open: true, ..RequiredCredentials::default() };
        }
        let mut scopes = words(levels.member("x-scopes"));
        let header = levels.nearest("auth-header").and_then(Json::as_str);
        if let (Some((location, _)), None) = (levels.nearest_at("auth-header"), header) {
            self.refuse(format!("{location} must be a text"));
        }
        let asked = self.requirements(levels);
        for scope in asked.scopes {
            if !scopes.contains(&scope) {
                scopes.push(scope);
            }
        }
        if self.options.secured {
            let (alternatives, optional) = (asked.ways > 1, asked.optional);
            return RequiredCredentials {
                scopes,
                alternatives,
                optional,
                ..RequiredCredentials::default()
            };
        }
        let bearer = asked.bearer || !scopes.is_empty() || header.is_some() && !asked.lifted;
        if !bearer || self.options.issuers.is_empty() {
            let what = match (bearer, asked.others.first()) {
                (true, _) => "a token, and there are no `issuers`".to_owned(),
                (false, Some(name)) if !asked.optional => format!("`{name}`"),
                (false, _) => return RequiredCredentials::default(),
            };
            self.unchecked(location, format!("asks for {what}, so nobody is asked"));
            return RequiredCredentials::default();
        }
        if let Some(name) = asked.others.first() {
            let what = if asked.together {
                format!("asks for `{name}` beside a token, and only the token is checked")
            } else {
                format!("takes `{name}` in place of a token, and here only a token is taken")
            };
            self.unchecked(location, what);
        }
        let mut jwt = Map::new();
        jwt.insert("issuers".to_owned(), json!(self.options.issuers));
        if !scopes.is_empty() {
            jwt.insert("scopes".to_owned(), json!({ "any": scopes }));
        }
        if let Some(header) = header {
            jwt.insert("header".to_owned(), json!(header));
        }
        if asked.optional {
            jwt.insert("optional".to_owned(), json!(true));
        }
        let policy = Some(json!({ "jwt": jwt }));
        RequiredCredentials { policy, scopes, ..RequiredCredentials::default() }
    }

    /// True if the document requires no credentials.
    fn is_open(&mut self, levels: &Levels<'_>) -> bool {
        let kind = levels.member("x-auth-type").and_then(Json::as_str);
        let is_none = kind.is_some_and(|kind| kind.eq_ignore_ascii_case("none"));
        let Some((location, value)) = levels.nearest_at("disable-security") else { return is_none };
        let off = truth(value);
        if off.is_none() {
            self.refuse(format!("{location} must be true or false"));
        }
        is_none || off == Some(true)
    }

    fn unchecked(&mut self, location: &JsonLocation, what: String) {
        let noted = self.unchecked.entry(what);
        noted.and_modify(|(_, more)| *more += 1).or_insert((location.clone(), 0));
    }

    /// The requirements in `security`, or in `application-security` if there is none.
    fn requirements(&mut self, levels: &Levels<'_>) -> Requirements {
        let mut all = Requirements::default();
        // Only an operation and the document as a whole can have `security`.
        let of_api = Levels { path: None, ..*levels };
        let Some((location, written)) = of_api.member_at("security") else {
            all.of_application(levels.nearest("application-security"));
            return all;
        };
        let Some(written) = written.as_array() else {
            self.refuse(format!("{location}: `security` must be a list"));
            return all;
        };
        all.lifted = written.is_empty();
        for requirement in written {
            let Some(requirement) = requirement.as_object() else {
                let what = "must be a map from the name of a scheme to its scopes";
                self.refuse(format!("{location}: `{requirement}` {what}"));
                continue;
            };
            all.optional |= requirement.is_empty();
            all.ways += usize::from(!requirement.is_empty());
            let (bearer, others): (Vec<_>, Vec<_>) =
                requirement.iter().partition(|(name, _)| self.is_bearer(name));
            all.bearer |= !bearer.is_empty();
            all.together |= !bearer.is_empty() && !others.is_empty();
            all.scopes.extend(bearer.iter().flat_map(|(_, wanted)| words(Some(wanted))));
            all.others.extend(others.iter().map(|(name, _)| (*name).clone()));
        }
        all
    }

    /// The policy that separates tokens for production and sandbox, or `None` if the API names no endpoint for either.
    pub(super) fn key_type(&self, places: &Places, sandbox: Option<&str>) -> Option<Json> {
        let Some(sandbox) = sandbox else {
            let named = self.api.of_api("production-endpoints").is_some();
            return (places.production && named).then(|| json!({ "key_type": {} }));
        };
        let mut keys = Map::new();
        if !places.production {
            keys.insert("production".to_owned(), json!(false));
        }
        keys.insert("sandbox".to_owned(), json!(sandbox));
        let path = places.sandbox.as_ref().map(|sandbox| sandbox.base_path.as_str());
        if let Some(path) = path.filter(|path| *path != places.endpoint.base_path) {
            keys.insert("sandbox_path".to_owned(), json!(path));
            keys.insert("base_path".to_owned(), json!(self.base));
        }
        Some(json!({ "key_type": keys }))
    }

    fn is_bearer(&self, name: &str) -> bool {
        let documents = self.api.documents;
        let location = self.api.root.child("components").child("securitySchemes").child(name);
        let scheme = documents.at(&location);
        let word = |key: &str| scheme.and_then(|s| s.get(key)).and_then(Json::as_str).unwrap_or("");
        matches!(
            (word("type"), word("scheme").to_ascii_lowercase().as_str()),
            ("oauth2" | "openIdConnect", _) | ("http", "bearer")
        )
    }

    /// The tier of an operation's requests: the API's replaces those of its operations.
    pub(super) fn noted_tier(&self, levels: &Levels<'_>) -> Option<NotedTier> {
        let find = |levels: &Levels<'_>| {
            let tier =
                levels.nearest("throttling-tier").or_else(|| levels.member("x-throttling-tier"));
            tier.filter(|tier| !tier.is_null()).map(crate::model::text)
        };
        let of_api = find(&self.api).map(|name| NotedTier { name, of_api: true });
        let tier = of_api.or_else(|| find(levels).map(|name| NotedTier { name, of_api: false }));
        tier.filter(|tier| tier.name != "Unlimited")
    }

    /// The limit of an operation's requests by its tier.
    pub(super) fn tier(&mut self, levels: &Levels<'_>, location: &JsonLocation) -> Option<Json> {
        let NotedTier { name: tier, of_api: shared } = self.noted_tier(levels)?;
        let known = self.options.plans.get(&tier).and_then(Json::as_object);
        if let (None, Some(plan)) = (known, &self.options.plan_unknown) {
            let plan = Json::Object(plan.clone());
            let prefix = "the document does not say what ";
            let what = format!("the tier `{tier}`");
            let note = format!("allows; its limits here are {plan}");
            let mut note = ImportNote::new(Outcome::Approximated, location, prefix, &what, note);
            note.note = format!("its limits are not in the document; here they are {plan}");
            self.note(note);
        }
        let Some(plan) = known.or(self.options.plan_unknown.as_ref()) else {
            let fault = format!(
                "{location}: the tier `{tier}` is none of the `plans`; add `plans: {{ {tier}: {{ requests: 100, per: 1m }} }}`"
            );
            self.made.errors.push(fault);
            return None;
        };
        if plan.get("unlimited") == Some(&Json::Bool(true)) {
            return None;
        }
        let mut limit: Map<String, Json> = plan
            .iter()
            .filter(|(name, value)| {
                *name != "unlimited" && !value.as_array().is_some_and(Vec::is_empty)
            })
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        limit.insert("by".to_owned(), json!("route"));
        if shared {
            limit.insert("name".to_owned(), json!(format!("{} {tier}", self.options.name)));
        }
        Some(json!({ "rate_limit": limit }))
    }

    pub(super) fn interceptor(
        &mut self,
        levels: &Levels<'_>,
        path: &Path,
        operation: &Operation,
        template: &str,
        production: &str,
        sandbox: Option<&str>,
    ) -> Option<Json> {
        let mut keys = Map::new();
        for (side, is_response) in [("request", false), ("response", true)] {
            let Some((location, value)) = levels.nearest_at(&format!("{side}-interceptor")) else {
                continue;
            };
            let Some(value) = value.as_object() else {
                self.refuse(format!("{location}: an interceptor must be a map"));
                continue;
            };
            let service = self.service(&location, value.clone(), is_response);
            let policy = self.usable(json!({ "interceptor": { side: service } }), &location);
            let service = policy.as_ref().and_then(|policy| policy.get("interceptor")?.get(side));
            keys.extend(service.map(|service| (side.to_owned(), service.clone())));
        }
        let asks = keys.contains_key("request");
        if keys.is_empty() {
            return None;
        }
        let named = if asks { self.named.clone() } else { Vec::new() };
        let endpoints: Map<String, Json> = named
            .iter()
            .map(|(name, endpoint)| {
                let upstream = self.upstream(
                    &format!("{} {name}", self.options.name),
                    &path.template,
                    endpoint,
                );
                (name.clone(), json!({ "upstream": upstream, "base_path": endpoint.base_path }))
            })
            .collect();
        if !endpoints.is_empty() {
            keys.insert("endpoints".to_owned(), Json::Object(endpoints));
        }
        let methods: Vec<&str> =
            path.operations.iter().map(|other| other.method.as_str()).collect();
        let mut api = json!({
            "name": self.model.title,
            "version": self.model.version,
            "base_path": self.base,
            "path_template": template,
            "methods": if methods.is_empty() { vec![operation.method.as_str()] } else { methods },
            "production": production,
            "sandbox": sandbox.unwrap_or(""),
        });
        if let (Some(host), Some(api)) = (self.options.host.first(), api.as_object_mut()) {
            api.insert("vhost".to_owned(), json!(host));
        }
        let is_told = |side: &str| {
            let includes = keys.get(side).and_then(|side| side.get("includes")?.as_array());
            includes.is_some_and(|parts| parts.iter().any(|part| part == "invocation_context"))
        };
        if is_told("request") || is_told("response") {
            // As in WSO2 API Manager, whether or not the upstream gets the token.
            keys.insert("token".to_owned(), json!(true));
        }
        keys.insert("api".to_owned(), api);
        Some(json!({ "interceptor": keys }))
    }

    /// One side of an interceptor: WSO2 API Manager's keys are translated, ours stay.
    fn service(
        &mut self,
        location: &JsonLocation,
        mut keys: Map<String, Json>,
        is_response: bool,
    ) -> Json {
        if let Some(url) = keys.remove("serviceURL") {
            keys.insert("url".to_owned(), url);
            let mut seconds = |name: &str| {
                let written = keys.remove(name).filter(|value| !value.is_null())?;
                let read = endpoints::whole(&written).map(|s| json!(format!("{s}s")));
                if read.is_none() {
                    let what = format!("`{name}` of an interceptor");
                    let note = format!("is {written}, which is not a number of seconds");
                    self.note(ImportNote::new(Outcome::Refused, location, "", &what, note));
                }
                read
            };
            let connect = seconds("clusterTimeout");
            let whole = seconds("requestTimeout");
            keys.extend(connect.clone().map(|limit| ("connect_timeout".to_owned(), limit)));
            keys.extend(whole.or(connect).map(|limit| ("timeout".to_owned(), limit)));
        }
        // Parts of a reply do not exist yet at the request.
        if let Some(Json::Array(includes)) = keys.get_mut("includes")
            && !is_response
        {
            includes
                .retain(|part| !part.as_str().is_some_and(|part| part.starts_with("response_")));
        }
        Json::Object(keys)
    }
}

/// A list of words, or a text with words.
fn words(value: Option<&Json>) -> Vec<String> {
    match value {
        Some(Json::Array(items)) => {
            // Other values are converted to text, so that no scope is lost.
            items.iter().map(crate::model::text).collect()
        }
        Some(Json::String(text)) => {
            text.split([' ', ',']).filter(|w| !w.is_empty()).map(str::to_owned).collect()
        }
        None | Some(Json::Null) => Vec::new(),
        Some(other) => vec![crate::model::text(other)],
    }
}

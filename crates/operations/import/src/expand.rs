//! Turns a document into the routes and upstreams it describes.

mod merge_routes;
mod policies;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use serde_json::{Map, Value as Json, json};

use crate::Outcome;
use crate::documents::Documents;
use crate::endpoints::{self, Endpoint, Places};
use crate::extensions::{self, Level, Levels};
use crate::json_location::JsonLocation;
use crate::model::{Model, Operation, Path};
use crate::note::ImportNote;

/// The options of an API that are not in its document.
#[derive(Debug, Clone, Default)]
pub struct Options {
    pub name: String,
    pub document: PathBuf,
    pub base_path: Option<String>,
    pub upstream: Option<String>,
    pub host: Vec<String>,
    pub errors: String,
    pub request: bool,
    pub response: bool,
    pub verbose: bool,
    pub body_bytes_max: String,
    /// The names of all `issuers`.
    pub issuers: Vec<String>,
    /// The `plans` by name, as written.
    pub plans: Map<String, Json>,
    /// The replacement for an unknown plan. Without it an unknown plan is an error.
    pub plan_unknown: Option<Map<String, Json>>,
    /// True if the API's own policies require credentials.
    pub secured: bool,
    /// True if tiers are recorded with the routes, so that subscriptions can count by them.
    pub subscription: bool,
}

/// The routes and upstreams of an API.
#[derive(Debug, Default)]
pub struct GeneratedApi {
    /// The prefix of its paths.
    pub base: String,
    pub routes: Vec<GeneratedRoute>,
    /// Upstreams by name, each the value for `upstreams.NAME`.
    pub upstreams: Vec<(String, Json)>,
    /// Errors that make the document unusable.
    pub errors: Vec<String>,
    /// Notes about parts that have no effect or a different effect.
    pub notes: Vec<ImportNote>,
    /// The policy `cors` of all routes, with the place of the extension from which it was made.
    pub cors: Option<(JsonLocation, Json)>,
}

#[derive(Debug)]
pub struct GeneratedRoute {
    pub name: String,
    /// The value for `routes.NAME`.
    pub route: Json,
    /// The position of the API's own policies among the generated ones.
    pub own_at: usize,
    /// True if it is for anonymous clients: the API's policies that require credentials are left out.
    pub open: bool,
    /// A token needs one of these scopes.
    pub scopes: Vec<String>,
    /// True if the document allows several alternative credentials.
    pub alternatives: bool,
    /// True if the document makes credentials optional.
    pub optional: bool,
    /// The tier of its requests. Only set if [`Options::subscription`] is true.
    pub tier: Option<NotedTier>,
}

/// The tier of an API or of one of its operations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotedTier {
    pub name: String,
    /// True if the tier is the API's. It then counts the requests of all operations together.
    pub of_api: bool,
}

/// The longest name of a route or an upstream, in characters.
const NAME_CHARS_MAX: usize = 128;

/// Makes the routes and upstreams of a document.
pub fn expand(documents: &Documents, model: &Model, options: &Options) -> GeneratedApi {
    let root = documents.root();
    let api = Levels { documents, root: &root, path: None, operation: None };
    let written = api.of_api("basePath").or_else(|| api.of_api("base-path"));
    let base =
        options.base_path.clone().or_else(|| written.and_then(Json::as_str).map(str::to_owned));
    let base = base.as_deref().unwrap_or("").trim_end_matches('/').to_owned();
    let mut expansion = Expansion {
        options,
        api,
        base,
        model,
        named: Vec::new(),
        shapes: shapes(model),
        unchecked: BTreeMap::new(),
        made: GeneratedApi::default(),
    };
    match endpoints::named(&api) {
        Ok(named) => expansion.named = named,
        Err(fault) => expansion.made.errors.push(fault),
    }
    expansion.made.cors = expansion.read_cors();
    for path in &model.paths {
        for operation in &path.operations {
            expansion.operation(path, operation);
        }
    }
    expansion.note_ignored();
    expansion.note_unchecked();
    expansion.rest();
    merge_routes::join(&mut expansion.made);
    expansion.made.base = expansion.base;
    expansion.made
}

struct Expansion<'a> {
    options: &'a Options,
    api: Levels<'a>,
    base: String,
    model: &'a Model,
    named: Vec<(String, Endpoint)>,
    /// The number of paths that routes cannot distinguish, by their form without parameter names.
    shapes: HashMap<String, usize>,
    /// Requirements for credentials that are not checked: the place of the first, and the number of others.
    unchecked: BTreeMap<String, (JsonLocation, usize)>,
    made: GeneratedApi,
}

impl<'a> Expansion<'a> {
    fn operation(&mut self, path: &'a Path, operation: &'a Operation) {
        let levels =
            Levels { path: Some(&path.location), operation: Some(&operation.location), ..self.api };
        let Some((upstream, places)) = self.destination(&levels, path) else { return };
        let (written, query) = without_query(&path.template);
        let (template, partial) = pattern(written);
        let mut methods = vec![operation.method.clone()];
        if operation.method == "GET" && !path.operations.iter().any(|other| other.method == "HEAD")
        {
            methods.push("HEAD".to_owned());
        }
        let asked = self.credentials(&levels, &operation.location);
        let mut policies = Vec::new();
        policies.extend(self.cors());
        let secured = asked.is_secured(self.options);
        policies.extend(asked.policy);
        let own_at = policies.len();
        let sandbox = places.as_ref().and_then(|places| self.sandbox(places, path));
        if let Some(places) = places.as_ref().filter(|_| secured) {
            policies.extend(self.key_type(places, sandbox.as_deref()));
        }
        let (limit, tier) = self.limit_or_tier(&levels, operation);
        policies.extend(limit);
        let endpoint = places.map(|places| places.endpoint);
        if self.options.request || self.options.response || partial {
            policies.push(self.openapi(self.own_path(path)));
        }
        policies.extend(self.own_policies(&levels));
        let sandbox = sandbox.as_deref();
        policies.extend(self.interceptor(&levels, path, operation, &template, &upstream, sandbox));
        let mut route = self.route(&format!("{}{template}", self.base), policies);
        if let Some(matches) = route.get_mut("match").and_then(Json::as_object_mut) {
            matches.insert("methods".to_owned(), json!(methods));
            if !query.is_empty() {
                matches.insert("query".to_owned(), Json::Object(query));
            }
        }
        route.insert("upstream".to_owned(), json!(upstream));
        match endpoint {
            Some(endpoint) => {
                route.insert("host".to_owned(), json!("target"));
                match endpoint.base_path.as_str() {
                    "" => self.cut(&mut route),
                    path => {
                        let sent = template.replace("**", "{**}");
                        route.insert("rewrite".to_owned(), json!(format!("{path}{sent}")));
                    }
                }
            }
            None => self.cut(&mut route),
        }
        let name = fitting(format!("{} {} {}", self.options.name, operation.method, path.template));
        let route = Json::Object(route);
        let made = GeneratedRoute {
            name,
            route,
            own_at,
            open: asked.open,
            scopes: asked.scopes,
            alternatives: asked.alternatives,
            optional: asked.optional,
            tier,
        };
        self.made.routes.push(made);
    }

    /// The limit of an operation's tier, or the tier itself where subscriptions count by it.
    fn limit_or_tier(
        &mut self,
        levels: &Levels<'a>,
        operation: &Operation,
    ) -> (Option<Json>, Option<NotedTier>) {
        if self.options.subscription {
            (None, self.noted_tier(levels))
        } else {
            (self.tier(levels, &operation.location), None)
        }
    }

    /// Adds routes for undescribed requests: other methods, `OPTIONS` and other paths.
    fn rest(&mut self) {
        if self.base.is_empty() {
            for path in &self.model.paths {
                let name = fitting(format!("{} {}", self.options.name, path.template));
                let (written, _) = without_query(&path.template);
                self.undescribed(name, &pattern(written).0, self.own_path(path));
            }
        } else {
            let path = format!("{}/**", self.base);
            self.undescribed(self.options.name.clone(), &path, None);
        }
    }

    fn undescribed(&mut self, name: String, path: &str, template: Option<&str>) {
        let mut policies: Vec<Json> = self.cors().into_iter().collect();
        let own_at = policies.len();
        let mut openapi = self.openapi(template);
        if let Some(keys) = openapi.get_mut("openapi").and_then(Json::as_object_mut) {
            keys.extend([
                ("request".to_owned(), json!(false)),
                ("response".to_owned(), json!(false)),
                ("paths".to_owned(), json!(true)),
            ]);
        }
        policies.push(openapi);
        let mut route = self.route(path, policies);
        route.insert("respond".to_owned(), json!({ "status": 404 }));
        let route = Json::Object(route);
        self.made.routes.push(GeneratedRoute {
            name,
            route,
            own_at,
            open: true,
            scopes: Vec::new(),
            alternatives: false,
            optional: false,
            tier: None,
        });
    }

    fn route(&self, path: &str, policies: Vec<Json>) -> Map<String, Json> {
        let mut matches = Map::new();
        matches.insert("path".to_owned(), json!(path));
        if !self.options.host.is_empty() {
            matches.insert("host".to_owned(), json!(self.options.host));
        }
        let mut route = Map::new();
        route.insert("match".to_owned(), Json::Object(matches));
        if !policies.is_empty() {
            route.insert("policies".to_owned(), json!(policies));
        }
        if !self.options.errors.is_empty() {
            route.insert("errors".to_owned(), json!(self.options.errors));
        }
        route
    }

    fn cut(&self, route: &mut Map<String, Json>) {
        if !self.base.is_empty() {
            route.insert("strip_prefix".to_owned(), json!(self.base));
        }
    }

    /// The name of the sandbox's upstream.
    fn sandbox(&mut self, places: &Places, path: &Path) -> Option<String> {
        let sandbox = places.sandbox.as_ref()?;
        let name = format!("{} sandbox", self.options.name);
        Some(self.upstream(&name, &path.template, sandbox))
    }

    /// The upstream's name, and the endpoints that it was made from.
    fn destination(
        &mut self,
        levels: &Levels<'a>,
        path: &Path,
    ) -> Option<(String, Option<Places>)> {
        if let Some(name) = &self.options.upstream {
            return Some((name.clone(), None));
        }
        match endpoints::of_operation(levels) {
            Ok(places) => {
                let name = self.upstream(&self.options.name, &path.template, &places.endpoint);
                Some((name, Some(places)))
            }
            Err(fault) => {
                self.refuse(fault);
                None
            }
        }
    }

    /// The name of the upstream for an endpoint; equal endpoints share one.
    fn upstream(&mut self, name: &str, path: &str, endpoint: &Endpoint) -> String {
        endpoint.ignored.iter().for_each(|note| self.note(note.clone()));
        let known = self.made.upstreams.iter().find(|(_, known)| *known == endpoint.upstream);
        if let Some((name, _)) = known {
            return name.clone();
        }
        let taken = |name: &str| self.made.upstreams.iter().any(|(known, _)| known == name);
        let mut free = fitting(name.to_owned());
        let mut number = 1;
        while taken(&free) {
            free = match number {
                1 => format!("{name} {path}"),
                number => format!("{name} {path} {number}"),
            };
            free = fitting(free);
            number += 1;
        }
        self.made.upstreams.push((free.clone(), endpoint.upstream.clone()));
        free
    }

    /// Adds a note, each sentence only once.
    fn note(&mut self, note: ImportNote) {
        if !self.made.notes.iter().any(|known| known.text == note.text) {
            self.made.notes.push(note);
        }
    }

    /// Adds an error, each only once.
    fn refuse(&mut self, fault: String) {
        if !self.made.errors.contains(&fault) {
            self.made.errors.push(fault);
        }
    }

    /// The path to which a route's `openapi` policy is restricted. Paths that routes cannot distinguish are not separated, so
    /// that the methods of each are known.
    fn own_path<'p>(&self, path: &'p Path) -> Option<&'p str> {
        let (written, query) = without_query(&path.template);
        let shape = merge_routes::unnamed(&pattern(written).0);
        let alone = self.shapes.get(&shape).is_none_or(|count| *count < 2);
        (alone && query.is_empty()).then_some(path.template.as_str())
    }

    /// Notes each extension without an effect, and each path with a query, once.
    fn note_ignored(&mut self) {
        let mut ignored: BTreeMap<String, (JsonLocation, usize)> = BTreeMap::new();
        let mut look = |location: &JsonLocation, level: Level| {
            let members = self.api.documents.at(location).and_then(Json::as_object);
            for (name, _) in members.iter().flat_map(|members| members.iter()) {
                if extensions::is_ignored(name, level) {
                    let noted = ignored.entry(name.clone());
                    noted.and_modify(|(_, more)| *more += 1).or_insert((location.clone(), 0));
                }
            }
        };
        look(self.api.root, Level::Api);
        for path in &self.model.paths {
            look(&path.location, Level::Below);
            path.operations.iter().for_each(|operation| look(&operation.location, Level::Below));
        }
        for (name, (location, more)) in ignored {
            let what = format!("`{name}`");
            let note = "has no effect here".to_owned();
            let prefix = match more {
                0 => format!("{location}: "),
                more => format!("{location} and {more} more places: "),
            };
            let mut ignored = ImportNote::new(Outcome::Refused, &location, &prefix, &what, note);
            if more > 0 {
                ignored.note.push_str(&format!(", nor in {more} more places"));
            }
            ignored.location = location.child(&name);
            self.note(ignored);
        }
        if self.api.member("security").is_some()
            && let Some((location, _)) = self.api.nearest_at("application-security")
        {
            let what = location.to_string();
            let note = "has no effect beside `security`".to_owned();
            self.note(ImportNote::new(Outcome::Refused, &location, "", &what, note));
        }
        for path in &self.model.paths {
            if !without_query(&path.template).1.is_empty() {
                let location = &path.location;
                let prefix = format!("{location}: ");
                let what = "the query in the path";
                let note = "becomes a condition on the query".to_owned();
                self.note(ImportNote::new(Outcome::Approximated, location, &prefix, what, note));
            }
        }
    }

    /// Notes each requirement for credentials that no policy checks, once.
    fn note_unchecked(&mut self) {
        let help = "add the policies that check what is asked to the API's `policies`";
        for (what, (location, more)) in std::mem::take(&mut self.unchecked) {
            let place = match more {
                0 => location.to_string(),
                more => format!("{location}, with {more} more operations,"),
            };
            let note = format!("{what}; {help}");
            let mut note = ImportNote::new(Outcome::Refused, &location, "", &place, note);
            note.what = "security".to_owned();
            if more > 0 {
                note.note = format!("with {more} more operations {}", note.note);
            }
            self.made.notes.push(note);
        }
    }
}

/// The number of paths of each form.
fn shapes(model: &Model) -> HashMap<String, usize> {
    let mut shapes = HashMap::new();
    for path in &model.paths {
        let (written, _) = without_query(&path.template);
        *shapes.entry(merge_routes::unnamed(&pattern(written).0)).or_default() += 1;
    }
    shapes
}

/// Splits off a query that some documents write after a path, and returns the conditions for it.
fn without_query(template: &str) -> (&str, Map<String, Json>) {
    let Some((path, query)) = template.split_once('?') else { return (template, Map::new()) };
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let condition = |pair: &str| match pair.split_once('=') {
        // A template parameter in the place of a value accepts any value.
        Some((name, value)) if !value.is_empty() && !value.starts_with('{') => {
            (name.to_owned(), json!(value))
        }
        Some((name, _)) => (name.to_owned(), json!({ "present": true })),
        None => (pair.to_owned(), json!({ "present": true })),
    };
    (path, pairs.map(condition).collect())
}

/// Shortens a name that is too long. A shortened name ends in a hash of the whole name.
fn fitting(name: String) -> String {
    if name.chars().count() <= NAME_CHARS_MAX {
        return name;
    }
    // FNV-1a, so that a document gets the same names each time.
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    // Harmless: the hash tells names with the same beginning apart.
    let front: String = name.chars().take(NAME_CHARS_MAX - 17).collect();
    format!("{front}~{hash:016x}")
}

/// Converts a path to a route's syntax; a final `/*` becomes `/**`. The flag is true if the result matches more paths than the
/// document's, because a parameter of a route is a whole segment.
fn pattern(template: &str) -> (String, bool) {
    let mut partial = false;
    let (template, rest) = match template.strip_suffix("/*") {
        Some(front) => (front, "/**"),
        None => (template, ""),
    };
    if template.is_empty() && !rest.is_empty() {
        return (rest.to_owned(), false);
    }
    let segments = template.trim_start_matches('/').split('/').enumerate().map(|(at, segment)| {
        if !segment.contains('{') {
            return segment.to_owned();
        }
        let name = segment.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
        let whole = name.filter(|name| !name.contains(['{', '}']));
        partial |= whole.is_none();
        let plain =
            |name: &&str| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
        match whole.filter(plain) {
            Some(name) => format!("{{{name}}}"),
            None => format!("{{p{at}}}"),
        }
    });
    (format!("/{}{rest}", segments.collect::<Vec<_>>().join("/")), partial)
}

//! Routes: each proxy becomes one route, and so does each resource of an API.

use serde_json::{Map, Value as Json, json};

use super::artifacts::Resource as Content;
use super::converter::{Converter, Flow, Resource, Side};
use super::element::{Element, label};
use super::mediators::calls;
use super::value::member;
use crate::table::Outcome;

/// The sequences of a proxy or a resource.
struct Sequences<'a> {
    request: Vec<Element<'a>>,
    /// The name of the request's sequence, which must not run itself.
    named: Option<&'a str>,
    reply: Vec<Element<'a>>,
    catch: Option<Vec<Element<'a>>>,
    endpoint: Option<Element<'a>>,
    endpoint_key: Option<&'a str>,
}

/// A resource's path, as a route matches it.
struct Pattern {
    /// Below the context: `/orders/{id}`, empty for the context itself.
    path: String,
    open: bool,
    /// True if it is a text with which paths begin, which may end within a segment.
    is_prefix: bool,
    /// True if the path with a trailing slash is included.
    is_root: bool,
    query_names: Vec<(String, String)>,
}

impl<'a> Converter<'a> {
    fn sequences(&mut self, of: &Element<'a>) -> Result<Sequences<'a>, String> {
        let mut items = |name: &str| -> Result<(Vec<Element<'a>>, Option<&'a str>), String> {
            if let Some(inline) = of.child(name) {
                return Ok((inline.children(), None));
            }
            let Some(key) = of.attribute(name) else { return Ok((Vec::new(), None)) };
            self.used.push(key.to_owned());
            let (key, sequence) = self.sequence_by_key(key)?;
            Ok((sequence.children(), Some(key)))
        };
        let (request, named) = items("inSequence")?;
        let (reply, _) = items("outSequence")?;
        Ok(Sequences {
            request,
            named,
            reply,
            catch: self.fault_sequence(of.attribute("faultSequence"), of.child("faultSequence")),
            endpoint: of.child("endpoint"),
            endpoint_key: of.attribute("endpoint"),
        })
    }

    /// Makes the flow of a proxy or a resource. Also returns the base path of its calls, if the route has to put it before forwarded paths.
    fn service_flow(
        &mut self,
        flow: Flow<'a>,
        sequences: Sequences<'a>,
    ) -> (String, Option<String>) {
        let Sequences { request, named, reply, catch, endpoint, endpoint_key } = sequences;
        let sends = self.sends(&request, &mut Vec::new())
            + usize::from(endpoint.is_some() || endpoint_key.is_some());
        let expanding = named.into_iter().collect();
        let flow = Flow { reply, reply_is_shared: sends > 1, expanding, ..flow };
        let mut base = None;
        let name = self.flow_of(
            flow,
            |this| {
                let steps = this.service_steps(&request, endpoint, endpoint_key);
                base.clone_from(&this.flow.base);
                steps
            },
            catch,
        );
        (name, base)
    }

    fn service_steps(
        &mut self,
        request: &[Element<'a>],
        endpoint: Option<Element<'a>>,
        endpoint_key: Option<&'a str>,
    ) -> Vec<Json> {
        let mut steps: Vec<Json> = self.begin_kept().into_iter().collect();
        steps.extend(self.parameters());
        let (made, ended) = self.steps(request);
        steps.extend(made);
        if ended {
            return steps;
        }
        let targets = match (endpoint, endpoint_key) {
            (Some(endpoint), _) => self.endpoint(&endpoint),
            (None, Some(key)) => self.endpoint_by_key(key),
            (None, None) => {
                steps.push(json!({ "drop": {} }));
                return steps;
            }
        };
        let sent = targets.and_then(|targets| calls::sent(self, &targets, &mut steps));
        if let Err(why) = sent {
            let name = self.flow.name.clone();
            let place = endpoint.map(|endpoint| endpoint.place());
            let text = format!("refused: endpoint of {name}: {why}");
            steps.push(crate::yaml::comment(&text));
            match place {
                Some(place) => self.table.add(Outcome::Refused, "endpoint", place, &why),
                None => self.failures.push(why),
            }
        }
        steps
    }

    /// Makes variables of the resource's parameters that artifacts overwrite. At first they have the values of the request.
    fn parameters(&mut self) -> Vec<Json> {
        let path = self.flow.resource.as_ref().map_or("", |resource| &resource.path).to_owned();
        // Harmless: each placeholder has an end.
        let of_path = path.split("{{ $path.").skip(1).filter_map(|rest| rest.split_once(" }}"));
        let of_path = of_path.map(|(name, _)| (name.to_owned(), "path", name.to_owned()));
        let of_query = self.flow.query_names.iter();
        let of_query = of_query.map(|(name, key)| (name.clone(), "query", key.clone()));
        let mut values = Map::new();
        for (name, group, key) in of_path.chain(of_query).collect::<Vec<_>>() {
            let property = format!("uri.var.{name}");
            if let (true, Ok(came)) = (self.artifacts.set.contains(&property), member(group, &key))
            {
                values.insert(self.out.variable(&property), json!(came));
            }
        }
        if values.is_empty() { Vec::new() } else { vec![json!({ "set": values })] }
    }

    /// The number of times that a list of mediators sends or loops back.
    fn sends(&self, items: &[Element<'a>], seen: &mut Vec<&'a str>) -> usize {
        let all = items.iter().flat_map(Element::descendants);
        let mut count = 0;
        for item in all {
            match item.name() {
                "send" | "loopback" => count += 1,
                "sequence" => {
                    let found = item
                        .attribute("key")
                        .and_then(|key| self.artifacts.sequences.get_key_value(key));
                    if let Some((key, sequence)) =
                        found.filter(|(key, _)| !seen.contains(*key) && seen.len() < 64)
                    {
                        seen.push(key);
                        count += self.sends(&sequence.children(), seen);
                    }
                }
                // Harmless: no other mediator sends.
                _ => {}
            }
        }
        count
    }

    pub(super) fn proxy(&mut self, proxy: &Element<'a>) {
        let name = proxy.attribute("name").unwrap_or("proxy");
        let row = self.table.begin(format!("proxy {name}"), proxy.place());
        let notes = std::mem::take(&mut self.notes);
        let result = self.proxied(proxy, name);
        self.close(row, notes, result);
    }

    /// Ends the row of an artifact with its notes.
    pub(super) fn close(&mut self, row: usize, outer: Vec<String>, result: Result<(), String>) {
        let notes = std::mem::replace(&mut self.notes, outer).join("; ");
        let failures = std::mem::take(&mut self.failures).join("; ");
        match (result, notes.is_empty()) {
            (Err(why), _) => {
                self.table.set(row, Outcome::Refused, &why);
                let told =
                    self.table.rows.get(row).map(|row| (row.what.clone(), row.place.clone()));
                if let Some((what, place)) = told {
                    self.out.remark("routes", &what, &place, &why);
                }
            }
            (Ok(()), false) => self.table.set(row, Outcome::Approximated, &notes),
            (Ok(()), true) => {}
        }
        if !failures.is_empty() {
            self.table.set(row, Outcome::Refused, &failures);
        }
    }

    fn proxied(&mut self, proxy: &Element<'a>, name: &str) -> Result<(), String> {
        self.check_artifact("proxy", proxy)?;
        for parameter in proxy.all("parameter") {
            self.judge_parameter("proxy parameter", &parameter);
        }
        let transports = proxy.attribute("transports").unwrap_or("http https");
        let spoken = |word: &str| matches!(word.trim(), "http" | "https" | "");
        if !transports.split([' ', ',']).any(spoken) {
            return Err(format!(
                "there is no transport `{transports}`; a queue with a flow may do"
            ));
        }
        if let Some(other) = transports.split([' ', ',']).find(|word| !spoken(word)) {
            self.note(&format!("the transport `{other}` is not spoken"));
        }
        let target = proxy.child("target").unwrap_or(*proxy);
        let sequences = self.sequences(&target)?;
        let flow_name = self.out.fresh("flow", name);
        self.proxy_flows.push((name.to_owned(), flow_name.clone()));
        let front = format!("/services/{}", crate::wsdl::slug(name));
        let path = format!("{front}/**");
        let flow = Flow {
            name: flow_name,
            proxy: Some(name.to_owned()),
            front: Some(front),
            may_post: true,
            is_whole: true,
            ..Flow::default()
        };
        let (flow, _) = self.service_flow(flow, sequences);
        let mut route = Map::new();
        route.insert("match".to_owned(), json!({ "path": path }));
        if let Some(wsdl) = proxy.child("publishWSDL") {
            match self.published(&wsdl, name) {
                Ok((file, imports)) => {
                    let mut services = json!({ "wsdl": file });
                    if let (false, Some(services)) = (imports.is_empty(), services.as_object_mut())
                    {
                        services.insert("imports".to_owned(), Json::Object(imports));
                    }
                    route.insert("services".to_owned(), services);
                }
                Err(why) => self.refuse("routes", "publishWSDL", wsdl.place(), &why),
            }
        }
        route.insert("flow".to_owned(), json!(flow));
        let route_name = self.out.fresh("route", name);
        self.out.routes.insert(route_name, Json::Object(route));
        Ok(())
    }

    /// The file with the description that a proxy publishes, and the files of its imports by their locations.
    fn published(
        &mut self,
        wsdl: &Element<'a>,
        name: &str,
    ) -> Result<(String, Map<String, Json>), String> {
        let mut imports = Map::new();
        for resource in wsdl.all("resource") {
            if let Some(key) = resource.attribute("key") {
                let found = self.artifacts.resource(key)?;
                let file = self.out.file(found, "xsd");
                if let Some(location) = resource.attribute("location") {
                    imports.insert(location.to_owned(), json!(file));
                }
            }
        }
        let inline =
            wsdl.children().into_iter().find(|c| matches!(c.name(), "definitions" | "description"));
        let resource = match (inline, wsdl.attribute("key").or(wsdl.attribute("uri"))) {
            (Some(inline), _) => {
                Content { name: format!("{name}.wsdl"), content: inline.document().into_bytes() }
            }
            (None, Some(key)) => self.artifacts.resource(key)?,
            (None, None) => {
                return Err("the description of an endpoint would have to be downloaded".to_owned());
            }
        };
        Ok((self.out.file(resource, "wsdl"), imports))
    }

    pub(super) fn api(&mut self, api: &Element<'a>) {
        let name = api.attribute("name").unwrap_or("api");
        let row = self.table.begin(format!("api {name}"), api.place());
        let notes = std::mem::take(&mut self.notes);
        let judged = self.check_artifact("api", api);
        let is_refused = judged.is_err();
        self.close(row, notes, judged);
        if is_refused {
            return;
        }
        let handlers = api.child("handlers").map_or_else(Vec::new, |h| h.all("handler"));
        for handler in handlers {
            let class = handler.attribute("class").unwrap_or("");
            let why = if class.ends_with("CORSRequestHandler") {
                "write it as the policy `cors` of the routes"
            } else {
                "code in Java is not run; policies of the route do what the common ones do"
            };
            self.refuse("routes", &format!("handler {class}"), handler.place(), why);
        }
        let context = api.attribute("context").unwrap_or("/").trim_end_matches('/');
        let version = api.attribute("version").unwrap_or("");
        let base = match (api.attribute("version-type"), version) {
            (_, "") => context.to_owned(),
            (Some("url"), version) => format!("{context}/{version}"),
            (_, version) => context.replace("{version}", version),
        };
        let resources = api.all("resource");
        for resource in &resources {
            let row = self.table.begin(format!("resource of {name}"), resource.place());
            let notes = std::mem::take(&mut self.notes);
            let result = self.resource(api, name, resource, &base, resources.len() == 1);
            self.close(row, notes, result);
            self.out.own(&format!("resource of {name}"), &resource.place());
        }
    }

    fn resource(
        &mut self,
        api: &Element<'a>,
        name: &str,
        resource: &Element<'a>,
        base: &str,
        is_only: bool,
    ) -> Result<(), String> {
        self.check_artifact("resource", resource)?;
        let mapped = resource.attribute("uri-template").or(resource.attribute("url-mapping"));
        let pattern = pattern(mapped.unwrap_or("/*"))?;
        let sequences = self.sequences(resource)?;
        let methods = resource.attribute("methods").unwrap_or("").replace(',', " ");
        let methods: Vec<String> =
            methods.split_whitespace().map(str::to_ascii_uppercase).collect();
        let wanted = resource_name(name, &methods, &pattern, is_only);
        let may_post = methods.is_empty() || methods.iter().any(|method| method == "POST");
        let flow = Flow {
            name: self.out.fresh("flow", &wanted),
            query_names: pattern.query_names.clone(),
            resource: Some(Resource { path: template(&pattern.path), open: pattern.open }),
            side: Side::Request,
            front: Some(base.to_owned()),
            may_post,
            is_whole: may_post,
            api: Some((
                api.attribute("context").unwrap_or("/").to_owned(),
                api.attribute("version").unwrap_or("").to_owned(),
            )),
            ..Flow::default()
        };
        let (flow, before) = self.service_flow(flow, sequences);
        let whole = match (pattern.open, format!("{base}{}", pattern.path)) {
            (true, path) if pattern.is_prefix => json!({ "prefix": path }),
            (true, path) => json!(format!("{path}/**")),
            (false, path) if path.is_empty() => json!("/"),
            (false, path) if pattern.is_root => json!([path.clone(), format!("{path}/")]),
            (false, path) => json!(path),
        };
        let mut matches = Map::from_iter([("path".to_owned(), json!(whole))]);
        if !methods.is_empty() {
            matches.insert("methods".to_owned(), json!(methods));
        }
        matches.extend(api.attribute("hostname").map(|host| ("host".to_owned(), json!(host))));
        let mut route = Map::from_iter([("match".to_owned(), Json::Object(matches))]);
        match before.as_deref() {
            None => {}
            Some("") if base.is_empty() => {}
            Some("") => drop(route.insert("strip_prefix".to_owned(), json!(base))),
            Some(_) if pattern.is_prefix => {
                return Err(
                    "a rest of the path behind an address that has a path has no counterpart here"
                        .to_owned(),
                );
            }
            Some(front) => {
                let rest = if pattern.open { "/{**}" } else { "" };
                let path = format!("{front}{}{rest}", pattern.path);
                route.insert("rewrite".to_owned(), json!(path));
            }
        }
        route.insert("flow".to_owned(), json!(flow));
        let route_name = self.out.fresh("route", &wanted);
        self.out.routes.insert(route_name, Json::Object(route));
        Ok(())
    }

    /// Converts an inbound endpoint over HTTP to a listener, with a route for this listener alone.
    pub(super) fn inbound(&mut self, inbound: &Element<'a>) {
        let what = label(inbound);
        let row = self.table.begin(what, inbound.place());
        let notes = std::mem::take(&mut self.notes);
        let result = self.listened(inbound);
        self.close(row, notes, result);
    }

    fn listened(&mut self, inbound: &Element<'a>) -> Result<(), String> {
        self.check_artifact("inboundEndpoint", inbound)?;
        let name = inbound.attribute("name").unwrap_or("inbound");
        let parameters =
            inbound.child("parameters").map_or_else(Vec::new, |all| all.all("parameter"));
        for parameter in &parameters {
            self.judge_parameter("inbound parameter", parameter);
        }
        let is_port = |parameter: &&Element<'a>| parameter.is("name", "inbound.http.port");
        let port = parameters.iter().find(is_port).ok_or("it has no port")?.text();
        // Harmless: an invalid port is refused.
        let port = port.parse::<u16>().ok().filter(|port| *port > 0);
        let port = port.ok_or("its port is not a number")?;
        let key = inbound.attribute("sequence").ok_or("it has no sequence")?;
        let (key, sequence) = self.sequence_by_key(key)?;
        self.used.push(key.to_owned());
        let sequences = Sequences {
            request: sequence.children(),
            named: Some(key),
            reply: Vec::new(),
            catch: self.fault_sequence(inbound.attribute("onError"), None),
            endpoint: None,
            endpoint_key: None,
        };
        let front = Some(String::new());
        let name_of_flow = self.out.fresh("flow", name);
        let flow =
            Flow { name: name_of_flow, front, may_post: true, is_whole: true, ..Flow::default() };
        let (flow, _) = self.service_flow(flow, sequences);
        let listener = self.out.fresh("listener", name);
        let address = format!("0.0.0.0:{port}");
        self.out.listeners.insert(listener.clone(), json!({ "address": address }));
        let matches = json!({ "listener": listener, "path": "/**" });
        let route = self.out.fresh("route", name);
        self.out.routes.insert(route, json!({ "match": matches, "flow": flow }));
        Ok(())
    }

    /// The main sequence, which gets requests that are for no proxy and no API.
    pub(super) fn main(&mut self, main: Element<'a>) {
        self.artifact(&main, Outcome::Converted, "");
        // It also runs for replies: `in` and `out` separate requests and replies.
        let reply = main.children();
        let catch = self.fault_sequence(main.attribute("onError"), None);
        let sequences = Sequences {
            request: main.children(),
            named: Some("main"),
            reply,
            catch,
            endpoint: None,
            endpoint_key: None,
        };
        let name = self.out.fresh("flow", "main");
        let front = Some(String::new());
        let flow = Flow { name, front, may_post: true, is_whole: true, ..Flow::default() };
        let (flow, _) = self.service_flow(flow, sequences);
        let route = self.out.fresh("route", "main");
        self.out.routes.insert(route, json!({ "match": { "path": "/**" }, "flow": flow }));
    }
}

/// The name of a resource's flow and route.
fn resource_name(api: &str, methods: &[String], pattern: &Pattern, is_only: bool) -> String {
    if is_only {
        return api.to_owned();
    }
    let methods = methods.join("-").to_ascii_lowercase();
    let path = pattern.path.replace(['/', '{', '}'], "-");
    format!("{api}-{methods}{path}").trim_end_matches('-').to_owned()
}

/// A path with parameters as a template.
fn template(path: &str) -> String {
    let segments = path.split('/').map(|segment| {
        let name = segment.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
        name.map_or_else(|| segment.to_owned(), |name| format!("{{{{ $path.{name} }}}}"))
    });
    segments.collect::<Vec<_>>().join("/")
}

/// Reads `/orders/{id}?limit={max}`, `/orders/*`.
fn pattern(mapped: &str) -> Result<Pattern, String> {
    let (path, query) = mapped.split_once('?').unwrap_or((mapped, ""));
    let refused = |why: &str| Err(format!("the path `{mapped}` {why}"));
    let mut query_names = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        if let Some(name) = value.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
            query_names.push((name.trim_start_matches('+').to_owned(), key.to_owned()));
        }
    }
    if !path.starts_with('/') {
        return refused("does not begin with `/`; a `{ regex }` as the route's path may do");
    }
    let is_root = path == "/";
    let is_prefix = path.ends_with('*') && !path.ends_with("/*");
    let (path, open) = match path.strip_suffix("/*") {
        Some(front) => (front, true),
        None => (path.trim_end_matches('*').trim_end_matches('/'), is_prefix),
    };
    let mut segments = Vec::new();
    for (at, segment) in path.split('/').enumerate() {
        let name = segment.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
        let plain = name.unwrap_or(segment);
        let is_name = name.is_none()
            || plain.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
        if segment == "*" && !is_prefix {
            segments.push(format!("{{any{at}}}"));
            continue;
        }
        if plain.contains(['{', '}', '*']) || !is_name || (name.is_some() && plain.is_empty()) {
            return refused("has a segment that is neither a name nor text");
        }
        segments.push(segment.to_owned());
    }
    if is_prefix && segments.iter().any(|segment| segment.starts_with('{')) {
        return refused("has parameters before a text that other text may follow");
    }
    Ok(Pattern { path: segments.join("/"), open, is_prefix, is_root, query_names })
}

//! Data services. Each resource becomes a route, all SOAP operations together become another one, and queries become `sql` steps.
//!
//! Owns the parameters of a service's requests, and the route of a request through the service. `queries` converts statements,
//! `arrays` parameters with several values, and `results` rows.

mod arrays;
mod groups;
mod parameters;
mod queries;
mod results;

use serde_json::{Map, Value as Json, json};

use super::converter::Converter;
use super::element::Element;
use super::jdbc::Vendor;
use super::known::{self, ConversionResult};
use super::recheck;
use super::value::member;
use crate::table::ArtifactPosition;

/// A data service, with what its parts refer to.
struct Service<'a> {
    name: &'a str,
    namespace: &'a str,
    /// Databases, by the identifiers of their configurations.
    databases: Vec<(&'a str, Result<DataSource, String>)>,
    queries: Vec<Element<'a>>,
    /// True if requests without a result are also accepted in batches.
    has_batches: bool,
    /// True if several requests are also accepted together, in a `request_box`.
    has_boxes: bool,
}

/// A database of a service.
#[derive(Clone)]
struct DataSource {
    name: String,
    /// The vendor, or `None` if it is only known where the service runs.
    vendor: Option<Vendor>,
}

/// A resource or an operation, by the name of the element that holds its parameters.
struct Request<'a> {
    name: String,
    element: Element<'a>,
    call: Element<'a>,
    has_result: bool,
}

/// The places of a request's parameters.
enum Source<'a> {
    /// The parameters with these names are in the path, and the others in the query.
    Address(Vec<&'a str>),
    /// The parameters with these names are in the path, and the others in the element or object of the body.
    Body(Vec<&'a str>),
    /// In the operation's element.
    Operation,
    /// In the element that is the whole message, as for each of several requests.
    Part,
}

/// The namespace of services that name none.
const NAMESPACE: &str = "http://ws.wso2.org/dataservice";

const SOAP11: &str = "http://schemas.xmlsoap.org/soap/envelope/";
const SOAP12: &str = "http://www.w3.org/2003/05/soap-envelope";

impl<'a> Converter<'a> {
    /// A data service, with a row for itself and one for each resource and operation.
    pub(super) fn data_service(&mut self, data: &Element<'a>) {
        let name = data.attribute("name").unwrap_or("");
        let row = self.table.begin(format!("data service {name}"), data.place());
        let notes = std::mem::take(&mut self.notes);
        let result = self.served(data, name);
        self.close(row, notes, result);
    }

    fn served(&mut self, data: &Element<'a>, name: &'a str) -> Result<(), String> {
        self.check_artifact("data", data)?;
        if name.is_empty() {
            return Err("it has no name".to_owned());
        }
        let transports = data.attribute("transports").unwrap_or("http");
        let mut spoken = transports.split([' ', ',']);
        if !spoken.any(|word| matches!(word, "http" | "https")) {
            return Err(format!("it is served by `{transports}` only, which is not spoken"));
        }
        self.note("no description is published, and faults are those of the gateway");
        let base = data.attribute("baseURI").or(data.attribute("serviceNamespace"));
        let mut databases = Vec::new();
        for config in data.all("config") {
            let id = config.attribute("id").unwrap_or("default");
            databases.push((id, self.configured(&config, name)));
        }
        let queries = data.all("query");
        let namespace = base.unwrap_or(NAMESPACE);
        let (has_batches, has_boxes) =
            (data.is("enableBatchRequests", "true"), data.is("enableBoxcarring", "true"));
        let service = Service { name, namespace, databases, queries, has_batches, has_boxes };
        let mut requests = Vec::new();
        for resource in data.all("resource") {
            let method = resource.attribute("method").unwrap_or("GET");
            let path = resource.attribute("path").unwrap_or("");
            let what = format!("resource {method} {path} of {name}");
            let row = self.table.begin(what.clone(), resource.place());
            let notes = std::mem::take(&mut self.notes);
            let made = self.data_resource(&service, &resource, &what);
            let result = made.map(|request| requests.push(request));
            self.close(row, notes, result);
            self.out.own(&what, &resource.place());
        }
        self.operations(&service, &data.all("operation"), &mut requests);
        Ok(())
    }

    /// The database of a configuration.
    fn configured(&mut self, config: &Element<'a>, service: &str) -> Result<DataSource, String> {
        self.check_artifact("data config", config)?;
        let mut found = Map::new();
        for property in config.all("property") {
            let name = property.attribute("name").unwrap_or("");
            let short = name.strip_prefix("org.wso2.ws.dataservice.").unwrap_or(name);
            match known::named("data property", short, &property.text()) {
                ConversionResult::Refused(why) => {
                    return Err(format!("its property `{short}`: {why}"));
                }
                ConversionResult::Differs(how) => self.note(how),
                ConversionResult::Same | ConversionResult::MayDiffer(_) => {}
            }
            found.insert(short.to_owned(), json!(property.text()));
        }
        let text = |names: &[&str]| {
            let found = names.iter().find_map(|name| found.get(*name)?.as_str());
            found.filter(|text| !text.is_empty()).map(str::to_owned)
        };
        if let Some(source) = text(&["carbon_datasource_name"]) {
            let name = self.database_of_source(&source, &source);
            return Ok(DataSource { name, vendor: None });
        }
        let url = text(&["url", "protocol"]).ok_or("it is not a database with a URL")?;
        // Harmless: a server needs a user, and an empty one is refused.
        let user = text(&["username", "user"]).unwrap_or_default();
        let name = self.database_at(&url, &user, service)?;
        Ok(DataSource { name, vendor: Vendor::of(&url) })
    }

    /// A resource: a route whose flow answers with XML, or with JSON if the client asks for it.
    fn data_resource(
        &mut self,
        service: &Service<'a>,
        resource: &Element<'a>,
        what: &str,
    ) -> Result<Request<'a>, String> {
        self.check_artifact("data resource", resource)?;
        let method = resource.attribute("method").unwrap_or("GET").to_ascii_uppercase();
        let path = resource.attribute("path").ok_or("it has no path")?.trim_matches('/');
        let names = placeholders(path)?;
        let call = resource.child("call-query").ok_or("it calls no query")?;
        let source = match &*method {
            "GET" | "DELETE" | "HEAD" => Source::Address(names),
            "POST" | "PUT" | "PATCH" => Source::Body(names),
            _ => return Err(format!("the method {method} is not one of a resource")),
        };
        let (mut steps, has_result) = self.called(service, &call, &source)?;
        if has_result {
            self.note("JSON is made of the XML");
        }
        steps.extend(resource_answer(has_result, status(resource)));
        self.data_route(service, &method, &[path], steps, what, &resource.place());
        let simple = path.replace('/', "_").replace(['{', '}'], "");
        let name = format!("_{}{simple}", method.to_ascii_lowercase());
        let request = Request { name, element: *resource, call, has_result };
        if service.has_batches && !has_result {
            let steps = self.batch(service, &request)?;
            let steps = [steps, resource_answer(false, status(resource))].concat();
            let by_path = (!path.contains('{')).then(|| format!("{path}_batch_req"));
            let paths = [Some(format!("{}_batch_req", request.name)), by_path];
            // Harmless: a path with parameters has no second path for batches.
            let paths: Vec<&str> = paths.iter().flatten().map(String::as_str).collect();
            self.data_route(service, &method, &paths, steps, what, &resource.place());
        }
        Ok(request)
    }

    /// A route for paths of a service, whose flow has these steps.
    fn data_route(
        &mut self,
        service: &Service<'a>,
        method: &str,
        paths: &[&str],
        steps: Vec<Json>,
        what: &str,
        place: &ArtifactPosition,
    ) {
        let path = paths.first().copied().unwrap_or("");
        let wanted = format!("{}-{}-{path}", service.name, method.to_ascii_lowercase());
        let wanted = wanted.replace(['/', '{', '}'], "-");
        let flow = self.out.fresh("flow", &wanted);
        let steps = steps.into_iter().map(|step| recheck::with_origin(step, what, place));
        self.out.flows.insert(flow.clone(), steps.collect());
        let fronts = |path: &&str| {
            ["", ".HTTPEndpoint"].map(|end| format!("/services/{}{end}/{path}", service.name))
        };
        let paths: Vec<String> = paths.iter().flat_map(fronts).collect();
        let route = self.out.fresh("route", &wanted);
        let matches = json!({ "path": paths, "methods": [method] });
        self.out.routes.insert(route, json!({ "match": matches, "flow": flow }));
    }

    /// The operations of SOAP: one route whose flow looks at the element in the Body.
    fn operations(
        &mut self,
        service: &Service<'a>,
        operations: &[Element<'a>],
        requests: &mut Vec<Request<'a>>,
    ) {
        let mut cases = Vec::new();
        for operation in operations {
            let name = operation.attribute("name").unwrap_or("");
            let what = format!("operation {name} of {}", service.name);
            let row = self.table.begin(what.clone(), operation.place());
            let notes = std::mem::take(&mut self.notes);
            let made = self.operation(service, operation, requests);
            let result = made.map(|made| {
                for (name, steps) in made {
                    let place = operation.place();
                    let steps = steps.into_iter().map(|it| recheck::with_origin(it, &what, &place));
                    cases.push(json!({ "equals": name, "steps": steps.collect::<Vec<_>>() }));
                }
            });
            self.close(row, notes, result);
        }
        if service.has_boxes && !requests.is_empty() {
            let steps = self.box_of(service, requests);
            cases.extend(steps.map(|steps| json!({ "equals": "request_box", "steps": steps })));
        }
        if cases.is_empty() {
            return;
        }
        let envelope = self.out.variable("dbs envelope");
        let unknown =
            json!({ "fault": { "code": "client", "reason": "There is no such operation" } });
        let flow = self.out.fresh("flow", service.name);
        self.out.flows.insert(
            flow.clone(),
            json!([
                { "set": { envelope: "namespace-uri($envelope/*)" } },
                { "switch": { "on": "local-name($infoset_body/*)", "cases": cases, "default": [unknown] } },
            ]),
        );
        let ends = ["", ".SOAP11Endpoint", ".SOAP12Endpoint"].into_iter();
        let paths = ends.flat_map(|end| {
            let path = format!("/services/{}{end}", service.name);
            [path.clone(), format!("{path}/")]
        });
        let matches = json!({ "path": paths.collect::<Vec<_>>(), "methods": ["POST"] });
        let route = self.out.fresh("route", service.name);
        self.out.routes.insert(route, json!({ "match": matches, "flow": flow }));
    }

    /// The steps of an operation, and those of its batches, by their names.
    fn operation(
        &mut self,
        service: &Service<'a>,
        operation: &Element<'a>,
        requests: &mut Vec<Request<'a>>,
    ) -> Result<Vec<(String, Vec<Json>)>, String> {
        self.check_artifact("data operation", operation)?;
        let name = operation.attribute("name").ok_or("it has no name")?.to_owned();
        let call = operation.child("call-query").ok_or("it calls no query")?;
        let (mut steps, has_result) = self.called(service, &call, &Source::Operation)?;
        steps.extend(self.operation_answer(has_result, status(operation)));
        let mut all = vec![(name.clone(), steps)];
        let request = Request { name, element: *operation, call, has_result };
        if service.has_batches && !has_result {
            let steps = self.batch(service, &request)?;
            let answer = self.operation_answer(false, status(operation));
            all.push((format!("{}_batch_req", request.name), [steps, answer].concat()));
        }
        requests.push(request);
        Ok(all)
    }

    /// The steps that answer an operation, in its version of SOAP.
    fn operation_answer(&mut self, has_result: bool, status: Option<String>) -> Vec<Json> {
        let mut steps = Vec::new();
        if !has_result {
            let Some(status) = status else { return vec![json!({ "drop": {} })] };
            steps.push(json!({ "payload": { "xml": status, "envelope": "drop" } }));
        }
        let versions = [(SOAP11, "soap11"), (SOAP12, "soap12")].map(|(namespace, version)| {
            json!({ "equals": namespace, "steps": [{ "convert": { "to": version } }] })
        });
        let envelope = format!("${}", self.out.variable("dbs envelope"));
        steps.push(json!({ "switch": { "on": envelope, "cases": versions } }));
        steps.push(json!({ "respond": {} }));
        steps
    }
}

/// The steps that answer a resource.
fn resource_answer(has_result: bool, status: Option<String>) -> Vec<Json> {
    if !has_result {
        return vec![match status {
            Some(status) => json!({ "respond": { "xml": status } }),
            None => json!({ "drop": {} }),
        }];
    }
    let asks =
        r#""accept" in request.headers && request.headers["accept"].contains("application/json")"#;
    vec![
        json!({ "filter": { "when": { "cel": asks }, "then": [{ "convert": { "to": "json", "types": true } }] } }),
        json!({ "respond": {} }),
    ]
}

/// The answer of a request whose query has no result, if it wants one.
fn status(request: &Element<'_>) -> Option<String> {
    let text = format!("<REQUEST_STATUS xmlns=\"{NAMESPACE}\">SUCCESSFUL</REQUEST_STATUS>");
    request.is("returnRequestStatus", "true").then_some(text)
}

/// The names in a path.
fn placeholders(path: &str) -> Result<Vec<&str>, String> {
    let mut names = Vec::new();
    for segment in path.split('/') {
        match segment.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
            Some(name) if results::is_name(name) && !names.contains(&name) => names.push(name),
            None if !segment.contains(['{', '}', '*', '?']) => {}
            Some(_) | None => {
                return Err(format!(
                    "the path `{path}` has a segment that is neither a name nor text"
                ));
            }
        }
    }
    Ok(names)
}

impl Source<'_> {
    /// True for a parameter of the path or the query.
    fn in_address(&self, name: &str) -> bool {
        match self {
            Source::Address(_) => true,
            Source::Body(names) => names.contains(&name),
            Source::Operation | Source::Part => false,
        }
    }

    /// The expression of a parameter.
    fn expression(&self, name: &str) -> Result<String, String> {
        match self {
            Source::Address(names) | Source::Body(names) if names.contains(&name) => {
                member("path", name)
            }
            Source::Address(_) => member("query", name),
            Source::Body(_) | Source::Operation | Source::Part if !results::is_name(name) => {
                Err(format!(
                    "the parameter `{name}` is not an XML name of ASCII characters without a colon"
                ))
            }
            Source::Body(_) => {
                let of = |path: &str| format!("$infoset_body/{path}/*[local-name()='{name}']");
                Ok(format!(
                    "{} | {}",
                    of("*[local-name()!='jsonObject']"),
                    of("*[local-name()='jsonObject']/*")
                ))
            }
            Source::Operation => Ok(format!("$infoset_body/*/*[local-name()='{name}']")),
            Source::Part => Ok(format!("/*/*[local-name()='{name}']")),
        }
    }
}

fn insert(keys: &mut Json, name: &str, value: Json) {
    if let Some(keys) = keys.as_object_mut() {
        keys.insert(name.to_owned(), value);
    }
}

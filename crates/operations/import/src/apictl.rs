//! Projects of apictl: one API with its documents, in a folder or an archive.
//!
//! Owns the limits on files, the substitution of an environment's values, and the places of values in files. It does not interpret
//! APIs.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use config::node::{Node, Value as Tree};
use config::{Decode, Decoder, SchemaBuilder};
use serde_json::{Map, Value as Json, json};

use crate::table::ArtifactPosition;
use crate::zip_entries::{self, bounded};

/// The files of a project, by their paths in it.
#[derive(Debug, Default)]
pub struct Project {
    files: Vec<(String, Vec<u8>)>,
    bytes: u64,
}

/// An API as its project writes it.
#[derive(Debug)]
pub struct ApiProject {
    /// The API as WSO2 API Manager's DTO, with the values of the environment applied.
    pub dto: Json,
    /// The OpenAPI or AsyncAPI document, or the WSDL with its files: `{root, files}`.
    pub document: Option<Json>,
    /// The environments of the deployment, as for `deploy-revision`. Empty if the project names none.
    pub deployments: Vec<Json>,
    /// Files that do not affect a gateway, or that are not read.
    pub unread: Vec<String>,
    written: Placed,
    params: Option<Placed>,
}

/// Values of an environment, which override those of the project.
#[derive(Debug, Clone, Default)]
pub struct Environment<'e> {
    /// One of the `environments` of `api_params.yaml`.
    pub name: Option<&'e str>,
    /// The name and the text of an `api_params.yaml` that replaces the project's own.
    pub params: Option<(&'e str, &'e [u8])>,
    /// Values of `${NAME}` and `$env{NAME}`.
    pub variables: HashMap<String, String>,
}

/// A document whose values have places.
#[derive(Debug)]
struct Placed {
    file: String,
    json: Json,
    tree: Option<Node>,
}

/// The maximum number of files in a project. An API has one for each document, image and policy.
const FILES_MAX: usize = 2_000;

/// The maximum size of one file.
const FILE_BYTES_MAX: u64 = 10 << 20;
/// The maximum size of all files together.
const ALL_BYTES_MAX: u64 = 64 << 20;

/// The maximum depth of nested folders.
const DEPTH_MAX: usize = 8;

/// The names that the file of an API may have.
const API_FILES: [&str; 2] = ["api.yaml", "api.json"];

/// The file into which apictl writes the parameters of one environment before it uploads a project.
const SENT_PARAMS: &str = "intermediate_params.yaml";

/// The paths of OpenAPI and AsyncAPI documents, in the order in which they are tried.
const DOCUMENTS: [&str; 6] = [
    "Definitions/swagger.yaml",
    "Definitions/swagger.json",
    "Definitions/openapi.yaml",
    "Definitions/asyncapi.yaml",
    "Definitions/asyncapi.json",
    "Definitions/asyncapi.yml",
];

impl Project {
    /// Reads a folder or an archive.
    pub fn read(path: &Path) -> Result<Project, String> {
        let shown = path.display();
        let failed = |error| format!("cannot read `{shown}`: {}", config::reason(&error));
        if fs::metadata(path).map_err(failed)?.is_dir() {
            let mut project = Project::default();
            project.folder(path, "", 0)?;
            return project.rooted();
        }
        let file = fs::File::open(path).map_err(failed)?;
        let bytes = bounded(file, ALL_BYTES_MAX).map_err(|why| format!("`{shown}`: {why}"))?;
        Project::unzip(&bytes).map_err(|why| format!("`{shown}`: {why}"))
    }

    /// Reads an archive.
    pub fn unzip(bytes: &[u8]) -> Result<Project, String> {
        let mut project = Project::default();
        zip_entries::each(bytes, FILES_MAX, |name, entry| project.push(name, entry))?;
        project.rooted()
    }

    fn folder(&mut self, path: &Path, below: &str, depth: usize) -> Result<(), String> {
        let shown = path.display();
        let failed = |error| format!("cannot read `{shown}`: {}", config::reason(&error));
        if depth > DEPTH_MAX {
            return Err(format!("`{shown}` is deeper than {DEPTH_MAX} folders"));
        }
        for entry in fs::read_dir(path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let kind = entry.file_type().map_err(failed)?;
            let name = format!("{below}{}", entry.file_name().to_string_lossy());
            if kind.is_dir() {
                self.folder(&entry.path(), &format!("{name}/"), depth + 1)?;
            } else if kind.is_file() {
                self.push(&name, fs::File::open(entry.path()).map_err(failed)?)?;
            } else {
                return Err(format!("`{name}` is a link or a device; put a copy in its place"));
            }
        }
        Ok(())
    }

    fn push(&mut self, name: &str, content: impl std::io::Read) -> Result<(), String> {
        let left = ALL_BYTES_MAX.saturating_sub(self.bytes);
        let bytes = bounded(content, FILE_BYTES_MAX.min(left));
        let bytes = bytes.map_err(|why| format!("the file {name:?}: {why}"))?;
        if self.files.len() >= FILES_MAX {
            return Err(format!("there are more than {FILES_MAX} files"));
        }
        self.bytes += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        self.files.push((name.to_owned(), bytes));
        Ok(())
    }

    /// Makes all paths relative to the folder of the API's file, and drops the files outside that folder.
    fn rooted(mut self) -> Result<Project, String> {
        let is_api =
            |name: &str| API_FILES.iter().any(|file| name.rsplit('/').next() == Some(file));
        let found = self.files.iter().map(|(name, _)| name.as_str()).filter(|name| is_api(name));
        let mut found: Vec<&str> = found.collect();
        found.sort_by_key(|name| name.matches('/').count());
        let root = match found.as_slice() {
            [] => return Err("it has no `api.yaml`".to_owned()),
            [first, second, ..] if first.matches('/').count() == second.matches('/').count() => {
                return Err(format!("it has two APIs, `{first}` and `{second}`"));
            }
            [first, ..] => {
                first.rsplit_once('/').map_or(String::new(), |(root, _)| format!("{root}/"))
            }
        };
        self.files.retain_mut(|(name, _)| match name.strip_prefix(&root) {
            Some(rest) => {
                *name = rest.to_owned();
                true
            }
            None => false,
        });
        self.files.sort();
        Ok(self)
    }

    fn file(&self, name: &str) -> Option<&[u8]> {
        self.files.iter().find(|(known, _)| known == name).map(|(_, bytes)| bytes.as_slice())
    }

    fn placed(&self, name: &str) -> Result<Option<Placed>, String> {
        self.file(name).map(|bytes| Placed::read(name, bytes)).transpose()
    }

    /// Returns the API with the values of an environment applied, or all mistakes.
    pub fn api(&self, environment: &Environment<'_>) -> Result<ApiProject, Vec<String>> {
        let mut mistakes = Vec::new();
        let mut told = |read: Result<Option<Placed>, String>| {
            read.unwrap_or_else(|why| {
                mistakes.push(why);
                None
            })
        };
        let mut api = None;
        for name in API_FILES {
            api = api.or_else(|| told(self.placed(name)));
        }
        let own = told(self.placed("api_params.yaml"));
        let given = environment.params.map(|(name, bytes)| Placed::read(name, bytes)).transpose();
        let given = told(given);
        let sent = told(self.placed(SENT_PARAMS));
        let deployed = told(self.placed("deployment_environments.yaml"));
        let written = match (api, mistakes.is_empty()) {
            (Some(written), true) => written,
            (None, true) => return Err(vec!["it has no `api.yaml`".to_owned()]),
            (_, false) => return Err(mistakes),
        };
        let document = self.document().unwrap_or_else(|why| {
            mistakes.push(why);
            None
        });
        let mut project = ApiProject {
            dto: written.data().clone(),
            document,
            deployments: deployed.iter().flat_map(deployments).collect(),
            unread: self.unread(),
            written,
            params: None,
        };
        if !project.dto.is_object() {
            mistakes.push(format!("{}: the API is not a map", project.place(&[])));
        }
        let values = match environment.name {
            Some(name) => named(given.or(own), name, &mut mistakes),
            None => sent.map(|sent| {
                let configs = sent.json.get("configs").unwrap_or(&sent.json).clone();
                (sent, configs)
            }),
        };
        if let Some((params, values)) = values {
            project.params = Some(params);
            project.apply(&values, environment, &mut mistakes);
        }
        if mistakes.is_empty() { Ok(project) } else { Err(mistakes) }
    }

    fn document(&self) -> Result<Option<Json>, String> {
        for name in DOCUMENTS {
            if let Some(placed) = self.placed(name)? {
                return Ok(Some(placed.json));
            }
        }
        let mut files = Map::new();
        for (name, bytes) in &self.files {
            let Some(below) = name.strip_prefix("WSDL/") else { continue };
            let text = std::str::from_utf8(bytes).map_err(|_| format!("{name} is not UTF-8"))?;
            files.insert(below.to_owned(), json!(text));
        }
        let root = files.keys().find(|name| name.to_ascii_lowercase().ends_with(".wsdl")).cloned();
        Ok(root.map(|root| json!({ "root": root, "files": files })))
    }

    fn unread(&self) -> Vec<String> {
        let known =
            ["api_meta.yaml", "api_params.yaml", "deployment_environments.yaml", SENT_PARAMS];
        let is_read = |name: &str| {
            API_FILES.contains(&name)
                || known.contains(&name)
                || DOCUMENTS.contains(&name)
                || name.starts_with("WSDL/")
        };
        self.files.iter().map(|(name, _)| name.clone()).filter(|name| !is_read(name)).collect()
    }
}

/// Reads all files of an archive. Each file must be UTF-8 text.
pub fn texts(archive: &[u8]) -> Result<Vec<(String, String)>, String> {
    let mut all = Project::default();
    zip_entries::each(archive, FILES_MAX, |name, entry| all.push(name, entry))?;
    let text = |(name, bytes): (String, Vec<u8>)| match String::from_utf8(bytes) {
        Ok(text) => Ok((name, text)),
        Err(_) => Err(format!("{name} is not UTF-8")),
    };
    all.files.into_iter().map(text).collect()
}

/// The environments of `deployment_environments.yaml`, as `deploy-revision` writes them.
fn deployments(written: &Placed) -> Vec<Json> {
    let list = written.data().as_array().cloned();
    let one = |one: Json| {
        let text = |key: &str, otherwise: &str| {
            one.get(key).and_then(Json::as_str).unwrap_or(otherwise).to_owned()
        };
        let shown = one.get("displayOnDevportal").and_then(Json::as_bool).unwrap_or(true);
        json!({
            "name": text("deploymentEnvironment", "Default"),
            "vhost": text("deploymentVhost", "localhost"),
            "displayOnDevportal": shown,
        })
    };
    // Harmless: without a list, the API is deployed nowhere.
    list.into_iter().flatten().map(one).collect()
}

/// Finds the values of the environment with this name in a file of parameters.
fn named(params: Option<Placed>, name: &str, mistakes: &mut Vec<String>) -> Option<(Placed, Json)> {
    let Some(params) = params else {
        mistakes.push(format!("there is no `api_params.yaml` with the environment `{name}`"));
        return None;
    };
    let all = params.json.get("environments").and_then(Json::as_array);
    // Harmless: without a list the name is not found.
    let found = all.into_iter().flatten().find(|one| one.get("name") == Some(&json!(name)));
    match found {
        Some(found) => {
            let values = found.get("configs").unwrap_or(found).clone();
            Some((params, values))
        }
        None => {
            mistakes.push(format!(
                "{}: there is no environment `{name}`",
                params.at(&["environments"])
            ));
            None
        }
    }
}

impl ApiProject {
    /// The place of a value in `api.yaml`, or of the innermost enclosing map or list that exists.
    pub fn place(&self, keys: &[&str]) -> ArtifactPosition {
        let data = if self.written.json.get("data").is_some() { &["data"][..] } else { &[] };
        self.written.at(&[data, keys].concat())
    }

    /// Overrides values of the API with those of an environment.
    fn apply(&mut self, values: &Json, environment: &Environment<'_>, mistakes: &mut Vec<String>) {
        let mut values = values.clone();
        substitute(&mut values, environment, mistakes);
        let Some(members) = values.as_object() else { return };
        for (key, value) in members {
            match key.as_str() {
                "name" => {}
                "endpoints" => self.apply_endpoints(value, mistakes),
                "policies" => self.set("policies", value.clone()),
                "deploymentEnvironments" => {
                    let placed = Placed { file: String::new(), json: value.clone(), tree: None };
                    self.deployments = deployments(&placed);
                }
                "security" if is_disabled(value) => {}
                "security" => self.apply_security(value),
                _ if value.is_null() || value == &json!([]) => {}
                _ => mistakes.push(format!("{}: `{key}` is not read here", self.params_file())),
            }
        }
    }

    fn params_file(&self) -> &str {
        self.params.as_ref().map_or("api_params.yaml", |params| &params.file)
    }

    fn apply_endpoints(&mut self, value: &Json, mistakes: &mut Vec<String>) {
        for (theirs, ours) in
            [("production", "production_endpoints"), ("sandbox", "sandbox_endpoints")]
        {
            let Some(endpoint) = value.get(theirs).filter(|one| !one.is_null()) else { continue };
            match endpoint.get("url").and_then(Json::as_str) {
                Some(url) => self.set_in("endpointConfig", ours, json!({ "url": url })),
                None => {
                    mistakes.push(format!(
                        "{}: the endpoint `{theirs}` has no `url`",
                        self.params_file()
                    ));
                }
            }
        }
        let known = ["production", "sandbox"];
        for key in value.as_object().iter().flat_map(|members| members.keys()) {
            if !known.contains(&key.as_str()) {
                mistakes
                    .push(format!("{}: `endpoints.{key}` is not read here", self.params_file()));
            }
        }
    }

    fn apply_security(&mut self, value: &Json) {
        self.set_in("endpointConfig", "endpoint_security", value.clone());
    }

    fn set(&mut self, key: &str, value: Json) {
        if let Some(members) = self.dto.as_object_mut() {
            members.insert(key.to_owned(), value);
        }
    }

    fn set_in(&mut self, object: &str, key: &str, value: Json) {
        let mut inner = self.dto.get(object).filter(|one| one.is_object()).cloned();
        let mut inner = inner.take().unwrap_or_else(|| json!({ "endpoint_type": "http" }));
        if let Some(members) = inner.as_object_mut() {
            members.insert(key.to_owned(), value);
        }
        self.set(object, inner);
    }
}

fn is_disabled(security: &Json) -> bool {
    let kinds = security.as_object().into_iter().flat_map(|kinds| kinds.values());
    let mut all = kinds.chain([security]);
    all.all(|kind| kind.get("enabled").and_then(Json::as_bool) != Some(true))
}

/// Replaces `${NAME}` and `$env{NAME}` with the values of the variables.
fn substitute(value: &mut Json, environment: &Environment<'_>, mistakes: &mut Vec<String>) {
    match value {
        Json::String(text) => *text = substituted(text, environment, mistakes),
        Json::Array(items) => {
            items.iter_mut().for_each(|item| substitute(item, environment, mistakes));
        }
        Json::Object(members) => {
            members.values_mut().for_each(|member| substitute(member, environment, mistakes));
        }
        Json::Null | Json::Bool(_) | Json::Number(_) => {}
    }
}

fn substituted(text: &str, environment: &Environment<'_>, mistakes: &mut Vec<String>) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some(at) = rest.find('$') {
        let (before, from) = rest.split_at(at);
        let inner = from.strip_prefix("${").or_else(|| from.strip_prefix("$env{"));
        let Some((name, behind)) = inner.and_then(|inner| inner.split_once('}')) else {
            let (sign, behind) = from.split_at(1);
            out.push_str(before);
            out.push_str(sign);
            rest = behind;
            continue;
        };
        out.push_str(before);
        match environment.variables.get(name) {
            Some(value) => out.push_str(value),
            None => mistakes.push(format!("the variable `{name}` is not set")),
        }
        rest = behind;
    }
    out.push_str(rest);
    out
}

/// The untyped tree of a file.
struct Raw(Node);

impl Decode for Raw {
    fn decode(node: &Node, _: &mut Decoder<'_>) -> Option<Raw> {
        Some(Raw(node.clone()))
    }

    fn encode(&self) -> Json {
        Json::Null
    }

    fn schema(_: &mut SchemaBuilder) -> Json {
        Json::Bool(true)
    }
}

impl Placed {
    fn read(file: &str, bytes: &[u8]) -> Result<Placed, String> {
        let text = std::str::from_utf8(bytes).map_err(|_| format!("{file} is not UTF-8"))?;
        let path = Path::new(file);
        let json = config::document(text, path).map_err(|why| format!("{file}: {why}"))?;
        // Harmless: `config::document` has reported all errors already. The tree only gives messages their places.
        let tree = config::read::<Raw>(text, path).0.map(|Raw(node)| node);
        Ok(Placed { file: file.to_owned(), json, tree })
    }

    /// The content of `data`, or everything if there is no such key.
    fn data(&self) -> &Json {
        self.json.get("data").unwrap_or(&self.json)
    }

    fn at(&self, keys: &[&str]) -> ArtifactPosition {
        let mut place = ArtifactPosition { file: self.file.clone(), line: 1, column: 1 };
        let Some(mut node) = self.tree.as_ref() else { return place };
        for key in keys {
            let next = match &node.value {
                Tree::Map(entries) => {
                    let entry = entries.iter().find(|entry| entry.key == *key);
                    entry.map(|entry| (entry.key_at, &entry.node))
                }
                Tree::List(items) => {
                    // Harmless: a key that is not a number selects no item.
                    let item = key.parse::<usize>().ok().and_then(|at| items.get(at));
                    item.map(|item| (item.at, item))
                }
                Tree::Null | Tree::Unreadable | Tree::Scalar(_) => None,
            };
            let Some((at, inner)) = next else { break };
            (place.line, place.column) = (at.line, at.column);
            node = inner;
        }
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn project(files: &[(&str, &str)]) -> Project {
        let files = files.iter().map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec()));
        Project { files: files.collect(), bytes: 0 }.rooted().unwrap()
    }

    const API: &str = "type: api\nversion: v4.7.0\ndata:\n  name: Pets\n  policies:\n    - Gold\n";

    #[test]
    fn an_api_has_places_and_the_values_of_its_environment() {
        let params = "environments:\n- name: dev\n  configs:\n    endpoints:\n      production:\n        url: http://${HOST}/b\n    policies: [Bronze]\n    deploymentEnvironments:\n    - deploymentEnvironment: One\n";
        let read = project(&[
            ("Pets-1.0/api.yaml", API),
            ("Pets-1.0/api_params.yaml", params),
            ("Pets-1.0/Definitions/swagger.yaml", "openapi: 3.0.1\npaths: {}\n"),
            ("Pets-1.0/Image/icon.png", ""),
        ]);
        let plain = read.api(&Environment::default()).unwrap();
        assert_eq!(plain.dto["policies"], json!(["Gold"]));
        assert_eq!(plain.place(&["policies", "0"]).to_string(), "api.yaml:6:7");
        assert_eq!(plain.place(&["context"]).to_string(), "api.yaml:3:1");
        assert_eq!(plain.unread, ["Image/icon.png"]);
        assert!(plain.document.is_some_and(|document| document["openapi"] == "3.0.1"));
        let variables = HashMap::from([("HOST".to_owned(), "a.test".to_owned())]);
        let environment = Environment { name: Some("dev"), params: None, variables };
        let dev = read.api(&environment).unwrap();
        assert_eq!(dev.dto["endpointConfig"]["production_endpoints"]["url"], "http://a.test/b");
        assert_eq!(
            (&dev.dto["policies"], &dev.deployments[0]["name"]),
            (&json!(["Bronze"]), &json!("One"))
        );
        let unset = Environment { name: Some("dev"), ..Environment::default() };
        assert!(read.api(&unset).unwrap_err()[0].contains("HOST"));
        let other = Environment { name: Some("prod"), ..Environment::default() };
        assert!(read.api(&other).unwrap_err()[0].contains("prod"));
    }

    #[test]
    fn a_project_without_exactly_one_api_is_refused() {
        let two = [("a/api.yaml", API), ("b/api.yaml", API)];
        let files = two.iter().map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec()));
        let read = Project { files: files.collect(), bytes: 0 }.rooted();
        assert!(read.unwrap_err().contains("two APIs"));
        assert!(Project::default().rooted().unwrap_err().contains("api.yaml"));
        assert!(Project::unzip(b"PK nonsense").is_err());
        let wrong = project(&[("api.yaml", "data: [\n")]).api(&Environment::default());
        assert!(wrong.unwrap_err()[0].starts_with("api.yaml"));
        let list = project(&[("api.yaml", "- a\n")]).api(&Environment::default());
        assert!(list.unwrap_err()[0].contains("not a map"));
    }
}

//! All artifacts of an import by their kinds and names, and the files that they refer to.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use xml::Document;

use super::archive::Sources;
use super::element::{Element, File, options};
use super::endpoint_templates::{self, TemplateResult};
use crate::table::{ArtifactPosition, Outcome, Table};

/// A file's or local entry's content.
#[derive(Debug, Clone)]
pub(super) struct Resource {
    /// The last part of its path, or the key.
    pub(super) name: String,
    pub(super) content: Vec<u8>,
}

impl Resource {
    /// The content as text.
    pub(super) fn text(&self) -> Result<String, String> {
        let text = std::str::from_utf8(&self.content);
        let text = text.map_err(|_| format!("`{}` is not text in UTF-8", self.name))?;
        Ok(text.trim().to_owned())
    }
}

/// The parsed files, into which [`Artifacts`] points.
#[derive(Debug, Default)]
pub(super) struct Files {
    artifacts: Vec<File>,
    data_services: Vec<File>,
    resources: Vec<(String, Vec<u8>)>,
    /// Names of resources by their paths in the registry.
    registry: HashMap<String, String>,
    /// Endpoints that are made of templates, by the places of their uses.
    made: HashMap<ArtifactPosition, TemplateResult>,
}

/// All artifacts.
#[derive(Debug, Default)]
pub(super) struct Artifacts<'a> {
    pub(super) proxies: Vec<Element<'a>>,
    pub(super) apis: Vec<Element<'a>>,
    pub(super) tasks: Vec<Element<'a>>,
    pub(super) data_services: Vec<Element<'a>>,
    pub(super) stores: Vec<Element<'a>>,
    pub(super) processors: Vec<Element<'a>>,
    /// Artifacts without a counterpart: inbound endpoints, connectors, registries.
    pub(super) others: Vec<Element<'a>>,
    pub(super) sequences: HashMap<&'a str, Element<'a>>,
    pub(super) endpoints: HashMap<&'a str, Element<'a>>,
    pub(super) templates: HashMap<&'a str, Element<'a>>,
    pub(super) entries: HashMap<&'a str, Element<'a>>,
    /// In the order of the files, for artifacts that nothing else refers to.
    pub(super) named: Vec<Element<'a>>,
    /// Names of all properties and variables that something sets.
    pub(super) set: HashSet<String>,
    /// Something reads the counter or the message of a loop.
    pub(super) reads_loops: bool,
    /// Something gathers messages.
    pub(super) gathers: bool,
    /// Something sets a property that is about a later call or reply.
    pub(super) sets_axis2: bool,
    /// Something sets the action of a message.
    pub(super) sets_action: bool,
    /// Templates that endpoints are made of.
    used_templates: HashSet<&'a str>,
    /// The endpoints that messages themselves name for a message processor.
    pub(super) message_endpoints: HashSet<&'a str>,
    /// Properties whose value is markup.
    pub(super) inline: HashMap<&'a str, Element<'a>>,
    resources: &'a [(String, Vec<u8>)],
    registry: Option<&'a HashMap<String, String>>,
    made: Option<&'a HashMap<ArtifactPosition, TemplateResult>>,
    /// Local entries that something took.
    taken: RefCell<HashSet<&'a str>>,
}

impl Files {
    /// Parses artifacts, and keeps other files for references.
    pub(super) fn parse(sources: Sources, table: &mut Table) -> Files {
        let mut files = Files::default();
        for unread in sources.refused {
            let place = ArtifactPosition { file: unread.name, line: 1, column: 1 };
            table.add(Outcome::Refused, unread.what, place, unread.why);
        }
        for source in sources.files {
            let name = source.name.to_ascii_lowercase();
            let is_data_service = name.ends_with(".dbs");
            let is_parsed = name.ends_with(".xml") || is_data_service;
            let parsed = is_parsed.then(|| Document::parse(&source.bytes, &options()));
            match parsed {
                Some(Ok(document)) => {
                    let file = File { name: source.name.clone(), document, at: None };
                    let root = Element::root(&file);
                    let is_artifact = root.is_some_and(|root| root.is_synapse());
                    if is_data_service && root.is_some_and(|root| root.name() == "data") {
                        files.data_services.push(file)
                    } else if is_artifact {
                        files.artifacts.push(file)
                    } else {
                        files.registry.extend(registered(&file));
                        files.resources.push((source.name, source.bytes));
                    }
                }
                Some(Err(error)) => {
                    let place = ArtifactPosition {
                        file: source.name,
                        line: error.at.line,
                        column: error.at.column,
                    };
                    table.add(Outcome::Refused, "file", place, &error.kind.to_string());
                }
                None => files.resources.push((source.name, source.bytes)),
            }
        }
        files.made = endpoint_templates::fill(&files.artifacts);
        files
    }

    /// Returns true if there is no artifact.
    pub(super) fn is_empty(&self) -> bool {
        self.artifacts.is_empty() && self.data_services.is_empty()
    }
}

impl<'a> Artifacts<'a> {
    /// Sorts all artifacts by kind.
    pub(super) fn of(files: &'a Files, table: &mut Table) -> Artifacts<'a> {
        let mut artifacts = Artifacts {
            resources: &files.resources,
            registry: Some(&files.registry),
            made: Some(&files.made),
            // Harmless: a document has a root.
            data_services: files.data_services.iter().filter_map(Element::root).collect(),
            ..Artifacts::default()
        };
        // Harmless: a document has a root.
        for root in files.artifacts.iter().filter_map(Element::root) {
            match root.name() {
                "definitions" => {
                    root.children().into_iter().for_each(|child| artifacts.sort(child, table));
                }
                _ => artifacts.sort(root, table),
            }
            for element in root.descendants() {
                artifacts.set.extend(sets(&element));
                if element.name() == "foreach" {
                    artifacts.set.extend(loop_properties(&element));
                }
                artifacts.reads_loops |= reads_loop(&element);
                artifacts.sets_axis2 |= is_about_call(&element);
                artifacts.sets_action |= sets_action(&element);
                artifacts.gathers |= element.name() == "aggregate";
                if element.name() == "endpoint" {
                    artifacts.used_templates.extend(element.attribute("template"));
                }
                let name = element.attribute("name").filter(|_| element.name() == "property");
                if name == Some("target.endpoint") {
                    // Harmless: a computed name does not name an endpoint of the artifacts, which is an error.
                    let named = element.attribute("value").or(element.attribute("expression"));
                    artifacts.message_endpoints.extend(named);
                }
                if let Some(name) = name.filter(|_| !element.children().is_empty()) {
                    artifacts.inline.insert(name, element);
                }
            }
        }
        artifacts
    }

    fn sort(&mut self, element: Element<'a>, table: &mut Table) {
        let by_name = match element.name() {
            "proxy" => return self.proxies.push(element),
            "api" => return self.apis.push(element),
            "task" => return self.tasks.push(element),
            "messageStore" => return self.stores.push(element),
            "messageProcessor" => return self.processors.push(element),
            // These configure the server, not messages.
            "registry" | "taskManager" | "description" => return,
            "sequence" => &mut self.sequences,
            "endpoint" => &mut self.endpoints,
            "template" => &mut self.templates,
            "localEntry" => &mut self.entries,
            _ => return self.others.push(element),
        };
        let name = element.attribute("name").or(element.attribute("key")).unwrap_or("");
        if by_name.contains_key(name) {
            let what = format!("{} {name}", element.name());
            let why = "there is one of this name already; the first is taken";
            table.add(Outcome::Refused, &what, element.place(), why);
        } else {
            by_name.insert(name, element);
            self.named.push(element);
        }
    }

    /// The content of a key's target: a local entry, a resource of the registry, or a file.
    pub(super) fn resource(&self, key: &str) -> Result<Resource, String> {
        if let Some((&key, entry)) = self.entries.get_key_value(key) {
            self.taken.borrow_mut().insert(key);
            return match entry.attribute("src") {
                Some(source) => self.file(source),
                None => {
                    let content = match entry.children().as_slice() {
                        [one] => one.document().into_bytes(),
                        _ => entry.content().into_bytes(),
                    };
                    Ok(Resource { name: key.to_owned(), content })
                }
            };
        }
        self.file(key)
    }

    /// The endpoint that is made of a template.
    pub(super) fn made(&self, used: &Element<'a>) -> Result<Element<'a>, String> {
        match self.made.and_then(|made| made.get(&used.place())) {
            Some(Ok(file)) => {
                Element::root(file).ok_or_else(|| "the template has no endpoint".to_owned())
            }
            Some(Err(why)) => Err(why.clone()),
            None => Err("too many endpoints are made of templates".to_owned()),
        }
    }

    /// True if some endpoint is made of this template.
    pub(super) fn is_template_used(&self, name: &str) -> bool {
        self.used_templates.contains(name)
    }

    /// True if a local entry was used.
    pub(super) fn is_taken(&self, key: &str) -> bool {
        self.taken.borrow().contains(key)
    }

    /// A file of the import whose path ends as the key does.
    fn file(&self, key: &str) -> Result<Resource, String> {
        let absent = || format!("`{key}` is not among the artifacts");
        let path = ["gov:", "conf:", "resources:", "file:", "local:"]
            .into_iter()
            .find_map(|scheme| key.strip_prefix(scheme))
            .unwrap_or(key);
        if path.contains("://") {
            return Err(format!("`{key}` would have to be downloaded"));
        }
        let path = path.trim_start_matches("./").trim_start_matches('/');
        if path.split(['/', '\\']).any(|part| part == "..") {
            return Err(format!("`{key}` leads out of the artifacts"));
        }
        let name = path.rsplit('/').next().filter(|name| !name.is_empty()).ok_or_else(absent)?;
        let ends = |whole: &str, with: &str| {
            whole.strip_suffix(with).is_some_and(|front| front.is_empty() || front.ends_with('/'))
        };
        let registered = self.registry.and_then(|registry| registry.get(&registry_path(key)));
        let registered =
            registered.and_then(|file| self.resources.iter().find(|(whole, _)| whole == file));
        if let Some((_, content)) = registered {
            return Ok(Resource { name: name.to_owned(), content: content.clone() });
        }
        // A path in the registry may not be a path in the archive, so the name of the file alone is tried last.
        let mut found = Vec::new();
        for with in [path, name] {
            found = self.resources.iter().filter(|(whole, _)| ends(whole, with)).collect();
            if !found.is_empty() {
                break;
            }
        }
        match found.as_slice() {
            [] => Err(absent()),
            [(_, content)] => Ok(Resource { name: name.to_owned(), content: content.clone() }),
            [_, ..] => Err(format!("`{key}` may be one of several files")),
        }
    }
}

/// The resources that a `registry-info.xml` puts into the registry: their paths there, and their files.
fn registered(file: &File) -> Vec<(String, String)> {
    let Some(folder) = file.name.strip_suffix("registry-info.xml") else { return Vec::new() };
    let items = Element::root(file).map_or_else(Vec::new, |root| root.all("item"));
    // Harmless: what refers to an item without a place is refused.
    let placed = items.iter().filter_map(|item| {
        let (name, path) = (item.text_of("file")?, item.text_of("path")?);
        let path = path.trim_matches('/');
        Some((format!("{path}/{name}"), format!("{folder}resources/{name}")))
    });
    placed.collect()
}

/// The path in the registry to which a key refers.
fn registry_path(key: &str) -> String {
    let roots = [
        ("conf:", "_system/config"),
        ("gov:", "_system/governance"),
        ("resources:", "_system/governance/mi-resources"),
    ];
    let below = roots.into_iter().find_map(|(scheme, root)| {
        Some(format!("{root}/{}", key.strip_prefix(scheme)?.trim_start_matches('/')))
    });
    below.unwrap_or_else(|| key.trim_start_matches('/').to_owned())
}

/// The properties of the message that a mediator sets, by itself or by its results and targets.
pub(super) fn set_by(item: &Element<'_>) -> Vec<String> {
    let scope = item.attribute("scope").unwrap_or("default");
    let is_property = matches!(item.name(), "property" | "variable")
        && matches!(scope, "default" | "synapse" | "operation");
    let within = item.descendants().into_iter();
    let within = within.filter(|element| matches!(element.name(), "result" | "target"));
    let all = is_property.then_some(*item).into_iter().chain(within);
    // Harmless: other elements set nothing.
    all.filter_map(|element| sets(&element)).collect()
}

/// True for a property that is about a later call or reply.
fn is_about_call(element: &Element<'_>) -> bool {
    let names = ["HTTP_SC", "HTTP_METHOD", "REST_URL_POSTFIX", "messageType", "ContentType"];
    element.name() == "property"
        && element.is("scope", "axis2")
        && element.attribute("name").is_some_and(|name| names.contains(&name))
}

fn sets_action(element: &Element<'_>) -> bool {
    let is_action = element.is("name", "Action") && !element.is("scope", "transport");
    element.name() == "header" && is_action || element.attribute("soapAction").is_some()
}

/// The properties that a loop sets: its number of finished rounds, and the message that it began with.
pub(super) fn loop_properties(element: &Element<'_>) -> [String; 2] {
    let prefix = element.attribute("id").map(|id| format!("{id}_")).unwrap_or_default();
    ["FOREACH_COUNTER", "FOREACH_ORIGINAL_MESSAGE"].map(|name| format!("{prefix}{name}"))
}

fn reads_loop(element: &Element<'_>) -> bool {
    let is_named = |text: &str| text.contains("FOREACH_");
    element.attributes().iter().any(|(_, value)| is_named(value)) || is_named(&element.text())
}

/// The name that an element gives a value to.
fn sets(element: &Element<'_>) -> Option<String> {
    let named = match element.name() {
        "property" | "variable" | "with-param" | "parameter" | "result" => {
            element.attribute("name")
        }
        "target" => {
            let attribute = |name: &str| element.attribute(name);
            let named = attribute("property").or(attribute("name")).or(attribute("key"));
            if named.is_none() && (element.is("type", "property") || element.is("type", "variable"))
            {
                return Some(element.text());
            }
            named
        }
        "scatter-gather" => element.attribute("target-variable"),
        "foreach" => element.attribute("counter-variable").or(element.attribute("result-target")),
        _ => None,
    };
    named.map(str::to_owned)
}

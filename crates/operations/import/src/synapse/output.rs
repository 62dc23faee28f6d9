//! The resulting configuration, section by section, and its files.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value as Json, json};

use super::artifacts::Resource;
use super::recheck::Origin;
use crate::table::ArtifactPosition;
use crate::wsdl::slug;
use crate::yaml::{COMMENT, comment};

/// Everything that is written.
#[derive(Debug, Default)]
pub(super) struct Output {
    pub(super) upstreams: Map<String, Json>,
    pub(super) routes: Map<String, Json>,
    /// The listeners of inbound endpoints, besides the common one.
    pub(super) listeners: Map<String, Json>,
    pub(super) flows: Map<String, Json>,
    pub(super) queues: Map<String, Json>,
    pub(super) schedules: Map<String, Json>,
    pub(super) databases: Map<String, Json>,
    /// Addresses that may be called by a URL that is only known at run time.
    pub(super) allowed: Vec<String>,
    /// True if a call goes to such an address.
    pub(super) calls_urls: bool,
    /// The files of the configuration, by their paths.
    pub(super) files: Vec<(String, Vec<u8>)>,
    /// The artifact from which each entry was made, by the section and the entry's name.
    pub(super) owners: HashMap<(String, String), Origin>,
    /// The number of entries of a section that have an owner.
    owned: HashMap<String, usize>,
    /// Stand-in values for the environment variables that the configuration names, so that it can be checked.
    pub(super) stand_ins: HashMap<String, String>,
    taken: HashSet<String>,
    /// The names of variables, by the properties whose values they hold.
    variables: HashMap<String, String>,
}

impl Output {
    /// A name that nothing of this kind has yet.
    pub(super) fn fresh(&mut self, kind: &str, wanted: &str) -> String {
        let wanted = match slug(wanted).trim_matches('-') {
            "" => kind.to_owned(),
            name => name.replace("--", "-"),
        };
        let names = (2..).map(|number| format!("{wanted}-{number}"));
        let free = std::iter::once(wanted.clone()).chain(names);
        let mut free = free.filter(|name| !self.taken.contains(&format!("{kind} {name}")));
        let name = free.next().unwrap_or(wanted);
        self.taken.insert(format!("{kind} {name}"));
        name
    }

    /// Allows calls to the literal scheme, host and port at the beginning of a text. False if it has none.
    pub(super) fn allow(&mut self, text: &str) -> bool {
        let schemes = ["http://", "https://"].into_iter();
        // Harmless: without a scheme there is no host.
        let found = schemes.filter_map(|scheme| Some((scheme, text.find(scheme)?))).next();
        let Some((scheme, at)) = found else { return false };
        let rest = text.get(at + scheme.len()..).unwrap_or_default();
        let is_host = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':');
        let host = rest.get(..rest.find(|c| !is_host(c)).unwrap_or(rest.len())).unwrap_or_default();
        let origin = format!("{scheme}{host}");
        if !host.is_empty() && !self.allowed.contains(&origin) {
            self.allowed.push(origin);
        }
        !host.is_empty()
    }

    /// Allows calls of the host that a variable of the environment has.
    pub(super) fn allow_from(&mut self, name: &str) {
        let entry = crate::yaml::variable(name);
        if !self.allowed.contains(&entry) {
            self.allowed.push(entry);
            self.stand_ins.insert(name.to_owned(), "http://stand-in.invalid".to_owned());
        }
    }

    /// The variable for a property: letters, digits and `_`. Reserved names of the expression language are avoided.
    pub(super) fn variable(&mut self, property: &str) -> String {
        if let Some(known) = self.variables.get(property) {
            return known.clone();
        }
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        let mut name: String = property.chars().map(plain).collect();
        if !name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
            name.insert(0, '_');
        }
        let is_taken = |name: &str, variables: &HashMap<String, String>| {
            config::RESERVED_NAMES.contains(&name) || variables.values().any(|known| known == name)
        };
        while is_taken(&name, &self.variables) {
            name.push('_');
        }
        self.variables.insert(property.to_owned(), name.clone());
        name
    }

    /// Adds a file to the configuration, and returns its path.
    pub(super) fn file(&mut self, resource: Resource, ending: &str) -> String {
        let plain = slug(&resource.name);
        let plain = plain.trim_start_matches('.');
        let (stem, own) = plain.rsplit_once('.').unwrap_or((plain, ""));
        let is_ending = matches!(own, "xsl" | "xslt" | "xsd" | "wsdl" | "json" | "xml" | "txt");
        let (stem, ending) = if is_ending { (stem, own) } else { (plain, ending) };
        let same = |path: &str| {
            let file = path.rsplit_once('.').map_or(path, |(file, _)| file);
            file == stem || file.strip_prefix(stem).is_some_and(|rest| rest.starts_with('-'))
        };
        let known =
            self.files.iter().find(|(path, bytes)| *bytes == resource.content && same(path));
        if let Some((path, _)) = known {
            return path.clone();
        }
        let stem = if stem.is_empty() { "file" } else { stem };
        let names = (2..).map(|number| format!("{stem}-{number}.{ending}"));
        let mut free = std::iter::once(format!("{stem}.{ending}")).chain(names);
        // Harmless: there are more numbers than files.
        let path =
            free.find(|path| self.files.iter().all(|(known, _)| known != path)).unwrap_or_default();
        self.files.push((path.clone(), resource.content));
        path
    }

    /// Notes that all entries without an owner were made of this artifact.
    pub(super) fn own(&mut self, what: &str, place: &ArtifactPosition) {
        let mut fresh = Vec::new();
        for (section, entries) in self.sections() {
            // New entries are at the end; a replaced entry keeps its place.
            let known = self.owned.get(section).map_or(0, |known| *known);
            fresh.extend(entries.keys().skip(known).map(|name| (section.to_owned(), name.clone())));
        }
        for key in fresh {
            *self.owned.entry(key.0.clone()).or_default() += 1;
            self.owners.insert(key, Origin { what: what.to_owned(), place: place.clone() });
        }
    }

    fn sections(&self) -> [(&'static str, &Map<String, Json>); 6] {
        [
            ("upstreams", &self.upstreams),
            ("databases", &self.databases),
            ("routes", &self.routes),
            ("flows", &self.flows),
            ("queues", &self.queues),
            ("schedules", &self.schedules),
        ]
    }

    /// Puts a comment about a refused part into a section.
    pub(super) fn remark(
        &mut self,
        section: &str,
        what: &str,
        place: &ArtifactPosition,
        why: &str,
    ) {
        let section = match section {
            "upstreams" => &mut self.upstreams,
            "queues" => &mut self.queues,
            "schedules" => &mut self.schedules,
            _ => &mut self.routes,
        };
        let text = format!("refused: {what}, {place}: {why}");
        section.insert(format!("{COMMENT}{what} {place}"), comment(&text));
    }

    /// The whole configuration.
    pub(super) fn configuration(&self) -> Json {
        let mut all = Map::new();
        // Harmless: an upstream without targets uses no port.
        let targets =
            self.upstreams.values().filter_map(|upstream| upstream.get("targets")?.as_array());
        // Harmless: the converter writes all targets as texts.
        let targets: Vec<&str> = targets.flatten().filter_map(Json::as_str).collect();
        let address = crate::listen_beside(targets);
        let mut listeners = self.listeners.clone();
        listeners.insert("public".to_owned(), json!({ "address": address }));
        all.insert("listen".to_owned(), Json::Object(listeners));
        if self.calls_urls {
            all.insert("endpoints".to_owned(), json!({ "allow": self.allowed }));
        }
        for (name, section) in self.sections() {
            if !section.is_empty() {
                all.insert(name.to_owned(), Json::Object(section.clone()));
            }
        }
        if let (false, Some(Json::Object(routes))) =
            (self.listeners.is_empty(), all.get_mut("routes"))
        {
            // The listener of an inbound endpoint serves no other routes.
            for route in routes.values_mut() {
                if let Some(Json::Object(matches)) = route.get_mut("match") {
                    matches.entry("listener").or_insert_with(|| json!("public"));
                }
            }
        }
        Json::Object(all)
    }
}

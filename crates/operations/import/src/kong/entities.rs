//! All files as one set of entities: nested entities are moved to the top level, defaults are filled in, and references are
//! resolved.

use std::collections::HashMap;

use super::fields::{self, Verdict};
use super::tree::{FilePosition, Item, Mistakes, Value};

/// The entities of all files.
#[derive(Debug, Default)]
pub(super) struct Entities {
    pub(super) services: Vec<Entity>,
    pub(super) routes: Vec<Entity>,
    pub(super) upstreams: Vec<Entity>,
    pub(super) targets: Vec<Entity>,
    pub(super) consumers: Vec<Entity>,
    pub(super) groups: Vec<Entity>,
    pub(super) plugins: Vec<PluginInstance>,
    pub(super) credentials: Vec<Credential>,
    pub(super) certificates: Vec<Entity>,
    pub(super) snis: Vec<Entity>,
    pub(super) ca_certificates: Vec<Entity>,
    pub(super) vaults: Vec<Entity>,
    /// Entities of kinds that have no counterpart, with the name of the kind.
    pub(super) others: Vec<(String, Item)>,
    /// Configurations of plugins that plugins share, by name.
    plugin_configs: HashMap<String, Item>,
}

/// An entity with its parent: the service of a route, the upstream of a target, or the certificate of an SNI.
#[derive(Debug, Default)]
pub(super) struct Entity {
    pub(super) item: Item,
    /// The name in rows and in references.
    pub(super) name: String,
    pub(super) parent: Option<usize>,
    /// True if the format of the file is older than 3.0. Regular expressions have no mark there.
    pub(super) is_old: bool,
}

impl Entity {
    /// The name for messages. Routes and services need none.
    pub(super) fn label(&self) -> &str {
        let own = Some(self.name.as_str()).filter(|name| !name.is_empty());
        let address = || self.item.text("url").or_else(|| self.item.text("host"));
        own.or_else(address).unwrap_or("without a name")
    }
}

/// A plugin and where it applies.
#[derive(Debug)]
pub(super) struct PluginInstance {
    pub(super) item: Item,
    pub(super) name: String,
    pub(super) config: Item,
    pub(super) scope: Scope,
}

/// The scope of a plugin. If it is empty, the plugin applies everywhere.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct Scope {
    pub(super) service: Option<usize>,
    pub(super) route: Option<usize>,
    pub(super) consumer: Option<usize>,
    pub(super) group: Option<usize>,
}

/// A credential or a group of a consumer.
#[derive(Debug)]
pub(super) struct Credential {
    pub(super) kind: CredentialKind,
    pub(super) item: Item,
    pub(super) consumer: usize,
    pub(super) is_hashed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CredentialKind {
    Key,
    Basic,
    Jwt,
    Hmac,
    Acl,
    Other(&'static str),
}

const CREDENTIALS: [(&str, CredentialKind); 7] = [
    ("keyauth_credentials", CredentialKind::Key),
    ("basicauth_credentials", CredentialKind::Basic),
    ("jwt_secrets", CredentialKind::Jwt),
    ("hmacauth_credentials", CredentialKind::Hmac),
    ("acls", CredentialKind::Acl),
    ("oauth2_credentials", CredentialKind::Other("oauth2 credential")),
    ("mtls_auth_credentials", CredentialKind::Other("mtls-auth credential")),
];

/// Keys of a file that are not entities.
const PLAIN: [&str; 8] = [
    "_comment",
    "_ignore",
    "_format_version",
    "_transform",
    "_info",
    "_workspace",
    "_konnect",
    "_plugin_configs",
];

/// The settings of a file while it is read.
struct File<'f> {
    root: &'f Item,
    is_old: bool,
    is_hashed: bool,
    /// The tags that an entity must have to be selected.
    wanted: &'f [String],
    /// The tags that all entities of the file have.
    tags: Vec<String>,
}

/// Puts the files together.
pub(super) fn merge(files: &[Item], wanted: &[String], mistakes: &mut Mistakes) -> Entities {
    let mut all = Entities::default();
    let mut references = References::default();
    let is_old = !version(files, mistakes).starts_with('3');
    for root in files {
        if !root.is_map() {
            mistakes.add(root.at, "expected a map with `_format_version` and entities");
            continue;
        }
        let mut tags = Vec::new();
        if let Some(info) = root.get("_info") {
            let mut verdict = Verdict::default();
            fields::check_config(info, fields::INFO, mistakes, &mut verdict);
            verdict.notes.into_iter().for_each(|note| mistakes.add(info.at, note));
            if !info.is_map() {
                mistakes.add(info.at, "`_info` must be a map");
            }
            tags = info.texts("select_tags").into_iter().map(str::to_owned).collect();
        }
        let file =
            File { root, is_old, is_hashed: !root.is_true("_transform", true), wanted, tags };
        all.shared_configs(root, mistakes);
        all.take(&file, &mut references, mistakes);
    }
    references.resolve(&mut all, mistakes);
    all
}

/// The format of all files. As in decK, a file without `_format_version` has the version of the other files, or 1.1 if no file has one.
fn version<'f>(files: &'f [Item], mistakes: &mut Mistakes) -> &'f str {
    let mut version: Option<&str> = None;
    // Harmless: a file that is not a map is a mistake.
    for item in files.iter().filter_map(|root| root.get("_format_version")) {
        match (item.scalar(), version) {
            (Some(found), Some(known)) if found != known => mistakes
                .add(item.at, format!("the files have different versions, {known} and {found}")),
            (Some("1.1" | "2.1" | "3.0"), _) => version = item.scalar(),
            _ => mistakes.add(item.at, "`_format_version` must be 1.1, 2.1 or 3.0"),
        }
    }
    version.unwrap_or("1.1")
}

/// References by name, which are resolved once all files are read.
#[derive(Default)]
struct References {
    routes: Vec<(usize, Item)>,
    targets: Vec<(usize, Item)>,
    snis: Vec<(usize, Item)>,
    credentials: Vec<(CredentialKind, Item, bool)>,
    plugins: Vec<(Item, Scope)>,
}

impl Entities {
    fn take(&mut self, file: &File<'_>, references: &mut References, mistakes: &mut Mistakes) {
        for (kind, list) in file.root.entries() {
            if PLAIN.contains(&kind.as_str()) || list.is_null() {
                continue;
            }
            let Value::List(items) = &list.value else {
                let mark = format!("_{kind}");
                let what = if PLAIN.contains(&mark.as_str()) {
                    format!("`{kind}` is unknown: write `{mark}`")
                } else {
                    format!("`{kind}` must be a list of entities")
                };
                mistakes.add(list.at, what);
                continue;
            };
            for item in items.iter().filter(|item| file.selects(item)) {
                if !item.is_map() {
                    mistakes.add(item.at, format!("expected an entity of `{kind}`, a map"));
                    continue;
                }
                self.one(kind, item, file, references);
            }
        }
    }

    /// The configurations that plugins share.
    fn shared_configs(&mut self, root: &Item, mistakes: &mut Mistakes) {
        if let Some(shared) = root.get("_plugin_configs")
            && !shared.is_map()
        {
            mistakes.add(shared.at, "`_plugin_configs` must be a map");
        }
        for (name, config) in root.map("_plugin_configs") {
            if !config.is_map() {
                mistakes.add(config.at, "a configuration of plugins must be a map");
            }
            if self.plugin_configs.insert(name.clone(), config.clone()).is_some() {
                mistakes.add(config.at, format!("`{name}` appears twice in `_plugin_configs`"));
            }
        }
    }

    fn one(&mut self, kind: &str, item: &Item, file: &File<'_>, references: &mut References) {
        match kind {
            "services" => self.service(item, file, references),
            "routes" => self.route(item, None, file, references),
            "upstreams" => {
                let entity = file.entity(item, "upstream", "name");
                self.upstreams.push(entity);
                let parent = self.upstreams.len() - 1;
                for target in item.list("targets") {
                    let mut entity = file.entity(target, "target", "target");
                    entity.parent = Some(parent);
                    self.targets.push(entity);
                }
            }
            "targets" => {
                let entity = file.entity(item, "target", "target");
                references.targets.push((self.targets.len(), reference(item, "upstream")));
                self.targets.push(entity);
            }
            "consumers" => self.consumer(item, file, references),
            "consumer_groups" => {
                self.groups.push(file.entity(item, "consumer_group", "name"));
                let group = Some(self.groups.len() - 1);
                references.add_plugins(item, Scope { group, ..Scope::default() });
            }
            "plugins" => references.plugins.push((item.clone(), Scope::default())),
            "certificates" => {
                self.certificates.push(file.entity(item, "certificate", "id"));
                let parent = self.certificates.len() - 1;
                for sni in item.list("snis") {
                    // The conversion of listeners reports an sni without a name.
                    let name = sni.scalar().or_else(|| sni.text("name")).unwrap_or("");
                    let (item, name) = (sni.clone(), name.to_owned());
                    self.snis.push(Entity {
                        item,
                        name,
                        parent: Some(parent),
                        ..Entity::default()
                    });
                }
            }
            "snis" => {
                references.snis.push((self.snis.len(), reference(item, "certificate")));
                self.snis.push(file.entity(item, "sni", "name"));
            }
            "ca_certificates" => {
                self.ca_certificates.push(file.entity(item, "ca_certificate", "id"))
            }
            "vaults" => self.vaults.push(file.entity(item, "vault", "prefix")),
            _ => match CREDENTIALS.iter().find(|(name, _)| *name == kind) {
                Some((_, kind)) => {
                    references.credentials.push((*kind, item.clone(), file.is_hashed))
                }
                None => self.others.push((kind.to_owned(), item.clone())),
            },
        }
    }

    fn service(&mut self, item: &Item, file: &File<'_>, references: &mut References) {
        self.services.push(file.entity(item, "service", "name"));
        let service = self.services.len() - 1;
        for route in item.list("routes") {
            self.route(route, Some(service), file, references);
        }
        references.add_plugins(item, Scope { service: Some(service), ..Scope::default() });
    }

    fn route(
        &mut self,
        item: &Item,
        parent: Option<usize>,
        file: &File<'_>,
        references: &mut References,
    ) {
        let mut entity = file.entity(item, "route", "name");
        entity.parent = parent;
        if parent.is_none() && item.get("service").is_some() {
            references.routes.push((self.routes.len(), reference(item, "service")));
        }
        self.routes.push(entity);
        let route = Some(self.routes.len() - 1);
        references.add_plugins(item, Scope { route, ..Scope::default() });
    }

    fn consumer(&mut self, item: &Item, file: &File<'_>, references: &mut References) {
        let key = if item.text("username").is_some() { "username" } else { "custom_id" };
        self.consumers.push(file.entity(item, "consumer", key));
        let consumer = self.consumers.len() - 1;
        for (name, kind) in CREDENTIALS {
            for credential in item.list(name) {
                let (item, is_hashed) = (credential.clone(), file.is_hashed);
                self.credentials.push(Credential { kind, item, consumer, is_hashed });
            }
        }
        references.add_plugins(item, Scope { consumer: Some(consumer), ..Scope::default() });
    }
}

impl File<'_> {
    /// An entity with the defaults of its kind.
    fn entity(&self, item: &Item, kind: &str, named: &str) -> Entity {
        let mut item = item.clone();
        let info = self.root.get("_info").and_then(|info| info.get("defaults"));
        if let Some(defaults) = info.and_then(|defaults| defaults.get(kind)) {
            item.complete(defaults);
        }
        let name = item.text(named).or_else(|| item.text("id")).unwrap_or("").to_owned();
        Entity { item, name, parent: None, is_old: self.is_old }
    }

    fn selects(&self, item: &Item) -> bool {
        let own = item.texts("tags");
        self.wanted.iter().all(|tag| own.contains(&tag.as_str()) || self.tags.contains(tag))
    }
}

/// The reference under this key of an entity; null if the key is absent.
fn reference(item: &Item, key: &str) -> Item {
    item.get(key).cloned().unwrap_or(Item { at: item.at, value: Value::Null })
}

/// The name or the id in a reference.
fn referred(reference: &Item) -> Option<&str> {
    let named = ["id", "name", "username"].iter().find_map(|key| reference.text(key));
    reference.scalar().or(named)
}

/// The entities of one kind, by their names and ids.
struct Index(&'static str, HashMap<String, usize>);

impl Index {
    fn of(kind: &'static str, list: &[Entity]) -> Index {
        let mut index = HashMap::new();
        for (at, entity) in list.iter().enumerate() {
            let names =
                [Some(entity.name.as_str()), entity.item.text("id"), entity.item.text("name")];
            // Harmless: an entity may lack an id or a name.
            let names = names.into_iter().flatten();
            for name in names.filter(|name| !name.is_empty()) {
                index.entry(name.to_owned()).or_insert(at);
            }
        }
        Index(kind, index)
    }

    /// The entity that is referred to.
    fn find(&self, reference: &Item, mistakes: &mut Mistakes) -> Option<usize> {
        let Index(kind, index) = self;
        let Some(name) = referred(reference) else {
            mistakes.add(reference.at, format!("expected the name or the id of a {kind}"));
            return None;
        };
        let found = index.get(name).copied();
        if found.is_none() {
            mistakes.add(reference.at, format!("there is no {kind} `{name}`"));
        }
        found
    }
}

impl References {
    /// The plugins nested in an entity.
    fn add_plugins(&mut self, item: &Item, scope: Scope) {
        let plugins = item.list("plugins").iter();
        self.plugins.extend(plugins.map(|plugin| (plugin.clone(), scope)));
    }

    fn resolve(self, all: &mut Entities, mistakes: &mut Mistakes) {
        let services = Index::of("service", &all.services);
        let upstreams = Index::of("upstream", &all.upstreams);
        let certificates = Index::of("certificate", &all.certificates);
        let consumers = Index::of("consumer", &all.consumers);
        let routes = Index::of("route", &all.routes);
        let groups = Index::of("consumer_group", &all.groups);
        attach(&mut all.routes, self.routes, &services, mistakes);
        attach(&mut all.targets, self.targets, &upstreams, mistakes);
        attach(&mut all.snis, self.snis, &certificates, mistakes);
        for (kind, item, is_hashed) in self.credentials {
            let reference = reference(&item, "consumer");
            if let Some(consumer) = consumers.find(&reference, mistakes) {
                all.credentials.push(Credential { kind, item, consumer, is_hashed });
            }
        }
        let mut seen = HashMap::new();
        for (item, nested) in self.plugins {
            let mut of = |index: &Index, nested: Option<usize>| match item.get(index.0) {
                Some(reference) => index.find(reference, mistakes).or(nested),
                None => nested,
            };
            let scope = Scope {
                service: of(&services, nested.service),
                route: of(&routes, nested.route),
                consumer: of(&consumers, nested.consumer),
                group: of(&groups, nested.group),
            };
            if let Some(plugin) = plugin(item, scope, &all.plugin_configs, mistakes) {
                match seen.get(&(plugin.name.clone(), scope)) {
                    Some(first) => {
                        let (name, first) = (&plugin.name, mistakes.position(*first));
                        let what = format!(
                            "the plugin `{name}` appears twice for the same; the first is at {first}"
                        );
                        mistakes.add(plugin.item.at, what);
                    }
                    None => drop(seen.insert((plugin.name.clone(), scope), plugin.item.at)),
                }
                all.plugins.push(plugin);
            }
        }
    }
}

/// Sets the parents of entities that refer to them.
fn attach(
    entities: &mut [Entity],
    references: Vec<(usize, Item)>,
    parents: &Index,
    mistakes: &mut Mistakes,
) {
    for (at, reference) in references {
        let parent = parents.find(&reference, mistakes);
        if let Some(entity) = entities.get_mut(at) {
            entity.parent = parent;
        }
    }
}

/// A plugin with its configuration.
fn plugin(
    item: Item,
    scope: Scope,
    configs: &HashMap<String, Item>,
    mistakes: &mut Mistakes,
) -> Option<PluginInstance> {
    let Some(name) = item.text("name").map(str::to_owned) else {
        mistakes.add(item.at, "a plugin without `name`");
        return None;
    };
    let empty = || Item { at: item.at, value: Value::Map(Vec::new()) };
    let mut config = item.get("config").cloned().unwrap_or_else(empty);
    if let Some(shared) = item.get("_config") {
        match shared.scalar().and_then(|name| configs.get(name)) {
            Some(known) => config.complete(known),
            None => mistakes.add(shared.at, "`_config` names nothing in `_plugin_configs`"),
        }
    }
    Some(PluginInstance { item, name, config, scope })
}

/// Reports entities of one kind that have the same text in a field.
pub(super) fn unique<'i>(
    items: impl Iterator<Item = &'i Item>,
    field: &str,
    kind: &str,
    mistakes: &mut Mistakes,
) {
    let mut seen: HashMap<&str, FilePosition> = HashMap::new();
    for item in items {
        let Some(value) = item.get(field) else { continue };
        let Some(text) = value.scalar() else { continue };
        match seen.get(text) {
            Some(first) => {
                let first = mistakes.position(*first);
                // The value is not shown, since the field of a credential may be its secret.
                let what = format!("another {kind} has this `{field}`; the first is at {first}");
                mistakes.add(value.at, what);
            }
            None => drop(seen.insert(text, value.at)),
        }
    }
}

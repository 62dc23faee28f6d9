//! Reads a file, a folder of files or a text into a [`Config`].
//!
//! Owns which files are read, and how the files of a folder become one configuration.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};

use crate::decode::{Decode as _, Decoder};
use crate::node::{MapEntry, Node, Value};
use crate::policies::Policy;
use crate::report::Report;
use crate::sections::Config;
use crate::sources::{At, Source, Sources};
use crate::substitute::{Substitution, Variables, read_text};
use crate::yaml;

/// The outcome of reading a configuration.
#[derive(Clone, Debug)]
pub struct LoadedConfig {
    /// The configuration with defaults, or `None` if the text cannot be parsed at all. If the report has errors, it is the part that could
    /// be read: `compile` uses it to find further complaints, and it is never served.
    pub config: Option<Config>,
    /// Complaints about values that could not be read, with the texts that their places refer to.
    pub report: Report,
    /// All files and folders that the configuration depends on: its own, the folder of bundles, files included with `${file:PATH}`, and
    /// files that values name, such as certificates. If one of them changes, the configuration has changed.
    pub files: Vec<PathBuf>,
    /// Those of the files that contain secrets: files included by references, and lists of credentials.
    pub secret_files: Vec<PathBuf>,
    /// The tree as written, with references replaced.
    pub(crate) tree: Option<Node>,
    /// The places of secrets, in order.
    pub(crate) secrets: Vec<At>,
}

impl LoadedConfig {
    /// Returns true if there is a configuration in which a key, or a probable misspelling of it, is absent or an empty map.
    pub fn lacks(&self, key: &str) -> bool {
        let Some(Value::Map(entries)) = self.tree.as_ref().map(|tree| &tree.value) else {
            return false;
        };
        let meant = |entry: &&MapEntry| Report::nearest(&entry.key, [key]).is_some();
        let empty =
            |entry: &MapEntry| matches!(&entry.node.value, Value::Map(map) if map.is_empty());
        entries.iter().find(meant).is_none_or(empty)
    }
}

/// The keys whose maps may be spread over several files of a folder. Every other key may be in one file only.
const KEYED_BY_NAME: &[&str] = &[
    "listen",
    "upstreams",
    "issuers",
    "routes",
    "flows",
    "databases",
    "hubs",
    "queues",
    "schedules",
    "cases",
    "plans",
    "applications",
    "stores",
    "policy_sets",
    "apis",
];

/// The keys that may be in one file only, and not in a bundle, since they apply to the whole gateway.
const OF_THE_GATEWAY: &[&str] = &[
    "admin",
    "status",
    "workers",
    "endpoints",
    "shutdown",
    "upgrade",
    "drain",
    "store",
    "control",
    "defaults",
    "limits",
    "bundles",
    "catalog",
    "saxon",
    "telemetry",
];

/// The maximum number of entries in a folder. A folder with more is refused, since it is probably not a folder of configurations.
const FILES_MAX: usize = 10_000;

/// The folder in which a catalog keeps its deployed APIs, relative to the file that configures it.
const CATALOG_FOLDER: &str = "var/catalog";

/// The maximum number of bundles in a folder. A folder with more is refused.
const BUNDLES_MAX: usize = 1_000;

/// Reads a file, or all `*.yaml` and `*.yml` files of a folder as one configuration, and the bundles in the folder that it names.
pub fn load(path: &Path) -> LoadedConfig {
    let mut reading = Reading::of(path);
    let variables = environment();
    reading.add_bundles(&variables);
    reading.finish(&variables)
}

/// Returns the folder of bundles that a configuration names, or else the folder of its catalog, even if the configuration has errors.
pub fn folder_of_bundles(path: &Path) -> Option<PathBuf> {
    Reading::of(path).folder_of_bundles(&environment())
}

/// Returns the folders of the bundles in a folder, ordered by name; an empty list if the folder does not exist yet.
///
/// # Errors
///
/// If the folder cannot be listed, or has more than [`BUNDLES_MAX`] folders.
pub fn bundles_in(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let hidden =
        |path: &Path| path.file_name().is_none_or(|name| name.to_string_lossy().starts_with('.'));
    let mut folders = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if !path.is_dir() || hidden(&path) {
            continue;
        }
        if folders.len() == BUNDLES_MAX {
            return Err(too_many("bundles", BUNDLES_MAX));
        }
        folders.push(path);
    }
    folders.sort();
    Ok(folders)
}

/// Returns the entries of a folder. Fails if there are more than [`FILES_MAX`].
fn entries_of(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        if paths.len() == FILES_MAX {
            return Err(too_many("entries", FILES_MAX));
        }
        paths.push(entry?.path());
    }
    Ok(paths)
}

fn too_many(what: &str, most: usize) -> io::Error {
    io::Error::other(format!("the folder has more than {most} {what}"))
}

/// Reads a text. Relative paths start at the folder of `name`.
pub fn parse(text: &str, name: &Path) -> LoadedConfig {
    parse_with(text, name, &environment())
}

/// Reads texts again, with the current environment and the current content of the files they name.
pub fn read_again(sources: &Sources) -> LoadedConfig {
    let texts = sources.iter().cloned().collect();
    Reading { texts, ..Reading::default() }.finish(&environment())
}

/// [`parse`] with the caller's variables instead of the environment.
pub fn parse_with(text: &str, name: &Path, variables: &HashMap<String, String>) -> LoadedConfig {
    let mut reading = Reading::default();
    let bytes = u64::try_from(text.len()).unwrap_or(u64::MAX);
    if bytes > yaml::FILE_BYTES_MAX {
        reading.unreadable(name, &format!("it is larger than {} bytes", yaml::FILE_BYTES_MAX))
    } else {
        reading.texts.push(source(name, text.to_owned()))
    }
    reading.add_bundles(variables);
    reading.finish(variables)
}

fn environment() -> HashMap<String, String> {
    // Harmless: a reference to a variable that is not Unicode is refused, like one to an absent variable.
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

fn source(path: &Path, text: String) -> Source {
    let folder = path.parent().unwrap_or(Path::new("")).to_owned();
    Source { name: path.display().to_string(), folder, text }
}

/// The texts read so far, and the complaints about reading them.
#[derive(Default)]
struct Reading {
    texts: Vec<Source>,
    files: Vec<PathBuf>,
    unreadable: Vec<(At, String)>,
    /// The index of the first text that belongs to a bundle.
    of_bundles: Option<usize>,
}

impl Reading {
    /// Reads the texts of a file or a folder.
    fn of(path: &Path) -> Reading {
        let mut reading = Reading::default();
        if path.is_dir() {
            reading.add_folder(path)
        } else {
            reading.add_file(path)
        }
        reading
    }

    /// Returns the folder of bundles that one of the texts names, or else the folder of the catalog, with references replaced. Errors in
    /// the texts are reported later.
    fn folder_of_bundles(&self, variables: Variables<'_>) -> Option<PathBuf> {
        let written = self.named_folder("bundles", variables, |tree| {
            Some(tree.get("bundles")?.get("folder")?.text()?.to_owned())
        });
        written.or_else(|| {
            self.named_folder("catalog", variables, |tree| {
                let folder = tree.get("catalog")?.get("folder").and_then(Node::text);
                Some(folder.unwrap_or(CATALOG_FOLDER).to_owned())
            })
        })
    }

    /// Returns the folder that one of the files names below a key.
    fn named_folder(
        &self,
        key: &str,
        variables: Variables<'_>,
        find: impl Fn(&Node) -> Option<String>,
    ) -> Option<PathBuf> {
        self.texts.iter().filter(|source| source.text.contains(key)).find_map(|source| {
            let mut unsaid = Report::new(Sources::new(vec![source.clone()]));
            let mut tree = yaml::read(&source.text, 0, &mut unsaid)?;
            let folder = &source.folder;
            let (report, files) = (&mut unsaid, &mut Vec::new());
            Substitution { variables, folder, files, report, bytes: 0 }.apply(&mut tree);
            Some(folder.join(find(&tree)?))
        })
    }

    fn add_bundles(&mut self, variables: Variables<'_>) {
        let Some(folder) = self.folder_of_bundles(variables) else { return };
        self.of_bundles = Some(self.texts.len());
        match bundles_in(&folder) {
            Ok(bundles) => bundles.iter().for_each(|bundle| self.add_folder(bundle)),
            Err(error) => self.unreadable(&folder, &error.to_string()),
        }
        self.files.push(folder);
    }

    fn add_folder(&mut self, folder: &Path) {
        self.files.push(folder.to_owned());
        let mut paths = match entries_of(folder) {
            Ok(paths) => paths,
            Err(error) => return self.unreadable(folder, &error.to_string()),
        };
        paths.retain(|path| is_configuration(path));
        paths.sort();
        if paths.is_empty() {
            self.unreadable(folder, "the folder has no file that ends in .yaml or .yml");
        }
        for path in paths {
            self.add_file(&path);
        }
    }

    fn add_file(&mut self, path: &Path) {
        self.files.push(path.to_owned());
        match read_text(path, yaml::FILE_BYTES_MAX) {
            Ok(text) => self.texts.push(source(path, text)),
            Err(reason) => self.unreadable(path, &reason),
        }
    }

    fn unreadable(&mut self, path: &Path, reason: &str) {
        let index = u32::try_from(self.texts.len()).unwrap_or(u32::MAX);
        self.texts.push(source(path, String::new()));
        self.unreadable.push((At::file(index), format!("cannot read this: {reason}")));
    }

    fn finish(self, variables: Variables<'_>) -> LoadedConfig {
        let Self { texts, mut files, unreadable, of_bundles } = self;
        let sources = Sources::new(texts);
        let mut report = Report::new(sources.clone());
        let mut unread = HashSet::new();
        for (at, what) in unreadable {
            report.error(at, what, "name a readable YAML file, or a folder of them");
            unread.insert(at.file);
        }

        let mut trees = Vec::new();
        for (file, source) in (0..).zip(sources.iter()) {
            if unread.contains(&file) {
                continue;
            }
            let Some(mut tree) = yaml::read(&source.text, file, &mut report) else { continue };
            Substitution {
                variables,
                folder: &source.folder,
                files: &mut files,
                report: &mut report,
                bytes: 0,
            }
            .apply(&mut tree);
            if of_bundles.is_some_and(|first| usize::try_from(file).is_ok_and(|at| at >= first)) {
                refuse_gateway_keys(&mut tree, &mut report);
            }
            trees.push(tree);
        }

        let put_in =
            files.iter().filter(|file| !sources.iter().any(|of| Path::new(&of.name) == **file));
        let mut secret_files: Vec<PathBuf> = put_in.cloned().collect();
        let tree = trees.into_iter().reduce(|all, tree| merge(all, tree, &mut report));
        let mut decoder = Decoder::new(&mut report, Policy::NAMES);
        let config = tree.as_ref().and_then(|tree| Config::decode(tree, &mut decoder));
        let decoded = decoder.finish();
        for file in decoded.named {
            if !files.contains(&file) {
                files.push(file);
            }
        }
        secret_files.extend(decoded.secret_files);
        LoadedConfig { config, report, files, secret_files, tree, secrets: decoded.secrets }
    }
}

/// Returns true if a file of a folder is part of the configuration. Hidden files are not: editors and Kubernetes keep copies in them.
pub fn is_configuration(path: &Path) -> bool {
    let hidden = path.file_name().is_none_or(|name| name.to_string_lossy().starts_with('.'));
    let yaml = path.extension().is_some_and(|end| end == "yaml" || end == "yml");
    // A file that cannot be read, such as a dangling link, is kept so that it is reported.
    yaml && !hidden && std::fs::metadata(path).map_or(true, |meta| meta.is_file())
}

/// Refuses keys that a bundle may not have because they apply to the whole gateway.
fn refuse_gateway_keys(tree: &mut Node, report: &mut Report) {
    let Value::Map(entries) = &mut tree.value else { return };
    entries.retain(|entry| {
        let is_own = OF_THE_GATEWAY.contains(&entry.key.as_str());
        if is_own {
            let what = format!("`{}` is not allowed in a bundle", entry.key);
            report.error(entry.key_at, what, "write it into the gateway's own configuration");
        }
        !is_own
    });
}

/// Merges two files of a folder into one map. A root that is not a map is kept, so that decoding reports it.
fn merge(all: Node, tree: Node, report: &mut Report) -> Node {
    match (all, tree) {
        (
            Node { value: Value::Map(mut entries), at, owner },
            Node { value: Value::Map(more), .. },
        ) => {
            for entry in more {
                add_section(&mut entries, entry, report);
            }
            Node { at, owner, value: Value::Map(entries) }
        }
        (Node { value: Value::Map(_), .. }, odd) | (odd, _) => odd,
    }
}

fn add_section(entries: &mut Vec<MapEntry>, entry: MapEntry, report: &mut Report) {
    let Some(first) = entries.iter_mut().find(|first| first.key == entry.key) else {
        entries.push(entry);
        return;
    };
    if !KEYED_BY_NAME.contains(&entry.key.as_str()) {
        return complain_twice(&entry, first.key_at, "keep one of the two", report);
    }
    match (&mut first.node.value, entry.node.value) {
        (Value::Map(names), Value::Map(more)) => add_names(names, more, report),
        // A value that is not a map is kept, so that decoding reports it.
        (Value::Map(_), odd) => first.node = Node { value: odd, ..entry.node },
        (_, _) => {}
    }
}

fn add_names(names: &mut Vec<MapEntry>, more: Vec<MapEntry>, report: &mut Report) {
    let places: HashMap<String, At> =
        names.iter().map(|entry| (entry.key.clone(), entry.key_at)).collect();
    for entry in more {
        match places.get(&entry.key) {
            Some(first) => {
                let help = "keep one of the two, or give it another name";
                complain_twice(&entry, *first, help, report);
            }
            None => names.push(entry),
        }
    }
}

fn complain_twice(entry: &MapEntry, first: At, help: &str, report: &mut Report) {
    let first = report.sources().place(first);
    let what = format!("`{}` is in two files; the other is at {first}", entry.key);
    report.error(entry.key_at, what, help);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_either_keyed_by_name_or_of_the_gateway() {
        let schema = crate::json_schema();
        let keys = schema.pointer("/$defs/Config/properties").unwrap().as_object().unwrap();
        for (key, about) in keys {
            let has_names = about.get("additionalProperties").is_some();
            let key = key.as_str();
            assert_eq!(KEYED_BY_NAME.contains(&key), has_names, "{key}: {about}");
            assert_eq!(OF_THE_GATEWAY.contains(&key), !has_names, "{key}: {about}");
        }
        assert_eq!(keys.len(), KEYED_BY_NAME.len() + OF_THE_GATEWAY.len());
    }
}

//! Resolvers of schema documents.
//!
//! Joins locations, and provides two safe resolvers: a map, and files below one directory. It never uses the network.

use std::collections::HashMap;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

/// Finds the documents to which schema documents refer.
pub trait Resolver {
    /// Returns the bytes at a location, which has been joined with that of the referring document.
    fn load(&self, location: &str) -> Result<Vec<u8>, ResolveError>;

    /// Returns the location of a namespace's schema, for imports without a location.
    fn of_namespace(&self, _namespace: &str) -> Option<String> {
        None
    }
}

/// The reason why there is no document at a location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResolveError {
    /// The document does not exist. This is not an error where the rules allow a location hint to fail.
    Absent,
    /// The document must not be read.
    Refused(String),
}

/// A resolver without documents, for schemas in a single document.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoDocuments;

/// Documents in memory, by location.
#[derive(Debug, Clone, Default)]
pub struct Map {
    documents: HashMap<String, Vec<u8>>,
}

/// Files below one directory; locations are relative to it.
#[derive(Debug, Clone)]
pub struct Directory {
    root: PathBuf,
    bytes_max: u64,
}

impl Resolver for NoDocuments {
    fn load(&self, _location: &str) -> Result<Vec<u8>, ResolveError> {
        Err(ResolveError::Absent)
    }
}

impl Map {
    pub fn insert(&mut self, location: &str, bytes: impl Into<Vec<u8>>) {
        self.documents.insert(join("", location), bytes.into());
    }
}

impl Resolver for Map {
    fn load(&self, location: &str) -> Result<Vec<u8>, ResolveError> {
        self.documents.get(location).cloned().ok_or(ResolveError::Absent)
    }
}

impl Directory {
    pub fn new(root: impl Into<PathBuf>, bytes_max: u64) -> Directory {
        Directory { root: root.into(), bytes_max }
    }
}

impl Resolver for Directory {
    fn load(&self, location: &str) -> Result<Vec<u8>, ResolveError> {
        if scheme(location).is_some() {
            return Err(ResolveError::Absent);
        }
        let relative = Path::new(location);
        if !relative.components().all(|part| matches!(part, Component::Normal(_))) {
            return Err(ResolveError::Refused("it is outside the directory".to_owned()));
        }
        let refused = |error: std::io::Error| {
            if error.kind() == std::io::ErrorKind::NotFound {
                ResolveError::Absent
            } else {
                ResolveError::Refused(error.to_string())
            }
        };
        // A symbolic link below the directory may lead out of it.
        let root = self.root.canonicalize().map_err(refused)?;
        let path = root.join(relative).canonicalize().map_err(refused)?;
        if !path.starts_with(&root) {
            return Err(ResolveError::Refused("it is outside the directory".to_owned()));
        }
        let file = std::fs::File::open(&path).map_err(refused)?;
        let mut bytes = Vec::new();
        // Harmless: reading one byte more than allowed shows that the file is too large.
        file.take(self.bytes_max.saturating_add(1)).read_to_end(&mut bytes).map_err(refused)?;
        if u64::try_from(bytes.len()).is_ok_and(|length| length <= self.bytes_max) {
            Ok(bytes)
        } else {
            Err(ResolveError::Refused(format!("over {} bytes", self.bytes_max)))
        }
    }
}

fn scheme(location: &str) -> Option<&str> {
    let (scheme, _) = location.split_once(':')?;
    let mut letters = scheme.chars();
    let first = letters.next().is_some_and(|c| c.is_ascii_alphabetic());
    let valid = first && letters.all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    valid.then_some(scheme)
}

/// Resolves a location against `base` (RFC 3986, 5.2), and removes `.` and `..`. An empty location is that of the folder of `base`, so that no
/// document is found there: in schemas it stands for one that is not named.
pub fn join(base: &str, location: &str) -> String {
    let location = location.split('#').next().unwrap_or_default().trim();
    if scheme(location).is_some() {
        return location.to_owned();
    }
    let (root, base_path) = authority(base);
    if let (Some(of_base), true) = (scheme(base), location.starts_with("//")) {
        return format!("{of_base}:{location}");
    }
    let (path, query) = location.split_at(location.find('?').unwrap_or(location.len()));
    let path = match base_path.rsplit_once('/') {
        _ if path.is_empty() && !query.is_empty() => base_path.to_owned(),
        _ if path.starts_with('/') => path.to_owned(),
        Some((folder, _)) => format!("{folder}/{path}"),
        // A host without a path has the folder `/` (5.2.3).
        None if root.ends_with(':') || root.is_empty() => path.to_owned(),
        None => format!("/{path}"),
    };
    format!("{root}{}{query}", without_dots(&path))
}

/// Splits a location into `http://host` and the path, and drops its query. A relative location is the name of a file, and only a path.
fn authority(base: &str) -> (&str, &str) {
    let Some(scheme) = scheme(base) else { return ("", base) };
    let base = base.split('?').next().unwrap_or_default();
    let rest = base.get(scheme.len() + 1..).unwrap_or_default();
    let host = match rest.strip_prefix("//") {
        Some(after) => 2 + after.find('/').unwrap_or(after.len()),
        None => 0,
    };
    base.split_at_checked(scheme.len() + 1 + host).unwrap_or((base, ""))
}

fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "." => {}
            ".." if kept.last().is_some_and(|last| !last.is_empty() && *last != "..") => {
                kept.pop();
            }
            // The root has no parent.
            ".." if *kept == [""] => {}
            segment => kept.push(segment),
        }
    }
    kept.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_are_joined() {
        for (base, location, joined) in [
            ("", "a.xsd", "a.xsd"),
            ("x/y/a.xsd", "b.xsd", "x/y/b.xsd"),
            ("x/y/a.xsd", "../b.xsd", "x/b.xsd"),
            ("x/y/a.xsd", "./z/./b.xsd#part", "x/y/z/b.xsd"),
            ("a.xsd", "../b.xsd", "../b.xsd"),
            ("http://host/x/a.xsd", "b.xsd", "http://host/x/b.xsd"),
            ("http://host/x/a.xsd", "/b.xsd", "http://host/b.xsd"),
            ("http://host/x/a.xsd", "../../../b.xsd", "http://host/b.xsd"),
            ("http://host/x/a.xsd", "//other/b.xsd", "http://other/b.xsd"),
            ("x/a.xsd", "urn:b", "urn:b"),
            ("http://host", "b.xsd", "http://host/b.xsd"),
            ("http://host", "../x/b.xsd", "http://host/x/b.xsd"),
            ("http://host", "?b", "http://host?b"),
            ("http://host?x=/y/z", "b.xsd", "http://host/b.xsd"),
            ("http://host/x/s?wsdl=/y/a.wsdl", "b.xsd", "http://host/x/b.xsd"),
            ("http://host/x/s?wsdl", "?xsd=1", "http://host/x/s?xsd=1"),
            ("http://host/x/s", "b?x=/../c", "http://host/x/b?x=/../c"),
            ("https://a.test/x/y.json", "./z.json#/a", "https://a.test/x/z.json"),
            ("https://a.test/x/", "urn:b:c", "urn:b:c"),
            ("file:///w/api.yaml", "pet", "file:///w/pet"),
            ("file:a.xsd", "b.xsd", "file:b.xsd"),
            ("x?/a.xsd", "b.xsd", "x?/b.xsd"),
        ] {
            assert_eq!(join(base, location), joined, "{base} {location}");
        }
    }

    #[test]
    fn files_outside_the_directory_are_refused() {
        let here = Directory::new(env!("CARGO_MANIFEST_DIR"), 1 << 20);
        assert!(here.load("Cargo.toml").is_ok());
        assert_eq!(here.load("none.xsd"), Err(ResolveError::Absent));
        assert_eq!(here.load("http://host/a.xsd"), Err(ResolveError::Absent));
        for outside in ["../xml/Cargo.toml", "/etc/passwd", "src/../../xml/Cargo.toml"] {
            assert!(matches!(here.load(outside), Err(ResolveError::Refused(_))), "{outside}");
        }
        let small = Directory::new(env!("CARGO_MANIFEST_DIR"), 3);
        assert!(matches!(small.load("Cargo.toml"), Err(ResolveError::Refused(_))));
    }
}

//! Cycles between the files of a crate: sets of files of which each depends on all others. A list has those that are accepted.
//!
//! Owns the graph of a crate's files. A file depends on another if its shipped code names a path into the other's module. A path that leads
//! through a re-export or an import counts for the file that it ends in. A module and the modules inside it are one unit here: they may
//! name each other.

use std::collections::{BTreeMap, BTreeSet};

use super::Complaint;
use super::ratchet::is_entry;
use super::source::{Source, closing, is_name, shipped, whole};

/// The list, with one `CRATE: MODULE MODULE...` per set.
pub(crate) const LIST: &str = "xtask/tidy-cycles.txt";

/// Re-exports that are followed from one path, at most.
const REEXPORTS_MAX: usize = 6;

/// The names in a path, such as `["crate", "a", "B"]`. A module is its path from the root of the crate, without `crate`.
type Path<'s> = Vec<&'s str>;

/// What a file names.
#[derive(Default)]
struct Names<'s> {
    /// All paths in its shipped code.
    paths: Vec<Path<'s>>,
    /// The paths of its `use` items, by the names that they introduce.
    imports: BTreeMap<&'s str, Path<'s>>,
}

/// The files of a crate, by module.
type Files<'s> = BTreeMap<Path<'s>, Names<'s>>;

/// Sets that the list does not have, and lines of the list that are no such set any more.
pub(crate) fn check(sources: &[Source], list: &str) -> Vec<Complaint> {
    let complain = |line: usize, what: String, instead: &str| Complaint {
        file: LIST.to_owned(),
        line,
        what,
        instead: instead.to_owned(),
    };
    let mut listed = BTreeMap::new();
    let mut complaints = Vec::new();
    for (index, line) in list.lines().enumerate().filter(|(_, line)| is_entry(line)) {
        if listed.insert(line.to_owned(), index + 1).is_some() {
            complaints.push(complain(
                index + 1,
                format!("`{line}` is here twice"),
                "write it once",
            ));
        }
    }
    for (name, files) in crates(sources) {
        for set in cycles(&files) {
            let entry = format!("{name}: {}", set.join(" "));
            if listed.remove(&entry).is_none() {
                let what = format!("these files depend on one another: `{entry}`");
                let instead = "move what they share to a file that depends on none of them";
                complaints.push(complain(1, what, instead));
            }
        }
    }
    complaints.extend(listed.into_iter().map(|(entry, line)| {
        complain(line, format!("`{entry}` is no longer a cycle"), "remove the line")
    }));
    complaints
}

/// The shipped files of each crate, by its name.
fn crates(sources: &[Source]) -> BTreeMap<&str, Files<'_>> {
    let mut crates: BTreeMap<&str, Files<'_>> = BTreeMap::new();
    for (stem, source) in shipped(sources) {
        let Some(name) = source.crate_name() else { continue };
        let module =
            stem.split('/').skip(4).filter(|part| !matches!(*part, "lib" | "main" | "mod"));
        crates.entry(name).or_default().insert(module.collect(), Names::read(&source.shipped));
    }
    crates
}

/// The sets of at least two files of which each reaches all others.
fn cycles(files: &Files<'_>) -> Vec<Vec<String>> {
    let reached: BTreeMap<&Path<'_>, BTreeSet<&Path<'_>>> = {
        let edges = edges(files);
        files.keys().map(|from| (from, reachable(&edges, from))).collect()
    };
    let mut seen = BTreeSet::new();
    let mut sets = Vec::new();
    for (from, to) in &reached {
        let back = |other: &&&Path<'_>| reached.get(*other).is_some_and(|set| set.contains(from));
        let set: Vec<&&Path<'_>> = to.iter().filter(back).collect();
        if set.len() > 1 && seen.insert(set.clone()) {
            sets.push(set.iter().map(|module| module.join("/")).collect());
        }
    }
    sets
}

/// What each file depends on, without the modules above it and inside it.
fn edges<'f, 's>(files: &'f Files<'s>) -> BTreeMap<&'f Path<'s>, BTreeSet<&'f Path<'s>>> {
    let of_file = |(from, names): (&'f Path<'s>, &'f Names<'s>)| {
        let to = names.paths.iter().filter_map(|path| target(files, from, path, REEXPORTS_MAX));
        let others = to.filter(|to| !to.starts_with(from) && !from.starts_with(to));
        (from, others.collect())
    };
    files.iter().map(of_file).collect()
}

/// The files that can be reached from one. It is among them if it is part of a cycle.
fn reachable<'f, 's>(
    edges: &BTreeMap<&'f Path<'s>, BTreeSet<&'f Path<'s>>>,
    from: &Path<'s>,
) -> BTreeSet<&'f Path<'s>> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&'f Path<'s>> = edges.get(from).into_iter().flatten().copied().collect();
    while let Some(module) = open.pop() {
        if reached.insert(module) {
            open.extend(edges.get(module).into_iter().flatten());
        }
    }
    reached
}

/// The file that a path in the file `from` leads to, if it leads into this crate.
fn target<'f, 's>(
    files: &'f Files<'s>,
    from: &[&'s str],
    path: &[&'s str],
    reexports: usize,
) -> Option<&'f Path<'s>> {
    let (mut module, mut rest) = absolute(files, from, path)?;
    while let [first, after @ ..] = rest
        && files.contains_key([&*module, &[first]].concat().as_slice())
    {
        module.push(first);
        rest = after;
    }
    let (found, names) = files.get_key_value(module.as_slice())?;
    let import = rest.first().and_then(|name| names.imports.get(name));
    let through = import
        .filter(|import| reexports > 0 && (from != *found || import.as_slice() != path))
        .and_then(|import| target(files, found, import, reexports - 1));
    Some(through.unwrap_or(found))
}

/// Divides a path into the module where it begins and the rest.
fn absolute<'s, 'p>(
    files: &Files<'s>,
    from: &[&'s str],
    path: &'p [&'s str],
) -> Option<(Path<'s>, &'p [&'s str])> {
    match path {
        ["crate", rest @ ..] => Some((Path::new(), rest)),
        ["self", rest @ ..] => Some((from.to_vec(), rest)),
        ["super", ..] => {
            let ups = path.iter().take_while(|name| **name == "super").count();
            let kept = from.len().saturating_sub(ups);
            Some((from.get(..kept)?.to_vec(), path.get(ups..)?))
        }
        [first, ..] => {
            let is_child = files.contains_key([from, &[first]].concat().as_slice());
            is_child.then(|| (from.to_vec(), path))
        }
        [] => None,
    }
}

impl<'s> Names<'s> {
    fn read(code: &'s str) -> Names<'s> {
        let mut names = Names::default();
        let mut end = 0;
        for at in whole(code, "use ") {
            let item = code.get(at + "use ".len()..).unwrap_or_default();
            let tree = item.split(';').next().unwrap_or(item);
            names.read_paths(code.get(end..at).unwrap_or_default());
            names.read_tree(tree, &[]);
            end = at + "use ".len() + tree.len();
        }
        names.read_paths(code.get(end..).unwrap_or_default());
        names
    }

    /// Reads the paths outside `use` items.
    fn read_paths(&mut self, code: &'s str) {
        let words = code.split(|c: char| !c.is_ascii() || !(is_name(c as u8) || c == ':'));
        let paths = words.filter(|word| word.contains("::")).map(parts);
        self.paths.extend(paths.filter(|path| path.len() > 1));
    }

    /// Reads the tree of a `use` item. `front` is the path before it.
    fn read_tree(&mut self, tree: &'s str, front: &[&'s str]) {
        for branch in branches(tree) {
            if let Some(open) = branch.find('{') {
                let path = [front, &parts(branch.get(..open).unwrap_or_default())].concat();
                let inside = branch.get(open + 1..closing(branch, open) - 1).unwrap_or_default();
                self.read_tree(inside, &path);
                continue;
            }
            let (path, alias) = branch.split_once(" as ").unwrap_or((branch, ""));
            let mut path = [front, &parts(path)].concat();
            path.pop_if(|last| *last == "self");
            let Some(last) = path.last() else { continue };
            let name = if alias.is_empty() { last } else { alias.trim() };
            self.imports.insert(name, path.clone());
            self.paths.push(path);
        }
    }
}

fn parts(path: &str) -> Vec<&str> {
    path.split("::").map(|part| part.trim_matches(':').trim()).filter(|p| !p.is_empty()).collect()
}

/// Splits a list at the commas that are outside braces.
fn branches(list: &str) -> Vec<&str> {
    let mut depth = 0usize;
    let parts = list.split(|c| {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    });
    parts.map(str::trim).filter(|part| !part.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::Text;

    fn found(files: &[(&str, &str)], list: &str) -> Vec<String> {
        let read = |(file, text): &(&str, &str)| {
            let path = format!("crates/xml/a/src/{file}.rs");
            Source::read(&Text { path, text: (*text).to_owned() })
        };
        let sources: Vec<Source> = files.iter().map(read).collect();
        check(&sources, list).iter().map(ToString::to_string).collect()
    }

    fn is_cycle(files: &[(&str, &str)]) -> bool {
        found(files, "# why\n\na: b c\n").is_empty()
    }

    #[test]
    fn a_cycle_is_listed_as_long_as_it_is_there() {
        let both = [("b", "use crate::c::C;"), ("c", "use super::b::B;")];
        assert_eq!(
            found(&both, ""),
            [
                "xtask/tidy-cycles.txt:1: these files depend on one another: `a: b c`; move what they share to a file that depends on none of them"
            ]
        );
        assert_eq!(found(&both, "a: b c\n"), [""; 0]);
        assert_eq!(
            found(&both, "a: b c\na: b c\n"),
            ["xtask/tidy-cycles.txt:2: `a: b c` is here twice; write it once"]
        );
        assert_eq!(
            found(&[("b", "use crate::c::C;"), ("c", "")], "a: b c\n"),
            ["xtask/tidy-cycles.txt:1: `a: b c` is no longer a cycle; remove the line"]
        );
    }

    #[test]
    fn paths_are_followed_in_every_form() {
        let b = ("b", "fn f() -> crate::c::C {}");
        for c in [
            "use crate::{d::D, b::{self, B as X}};",
            "fn f() { super::b::g::<T>(); }",
            "use crate::B;",
            "use crate::Renamed;",
        ] {
            let lib = "pub use b::B;\npub(crate) use b::Other as Renamed;\nmod b; mod c;";
            assert!(is_cycle(&[b, ("c", c), ("lib", lib)]), "{c}");
        }
    }

    #[test]
    fn other_paths_are_no_dependencies() {
        let b = ("b", "use crate::c::C;");
        for c in [
            "// crate::b::B\nconst S: &str = \"crate::b::B\";",
            "#[cfg(test)]\nmod tests { use crate::b::B; }",
            "use b::B; use other::b::B;",
        ] {
            assert!(!is_cycle(&[b, ("c", c)]), "{c}");
        }
        assert!(!is_cycle(&[b, ("c", ""), ("c/tests", "use crate::b::B;")]));
        let parent = [("b/mod", "mod c; use c::C;"), ("b/c", "use super::B;")];
        assert_eq!(found(&parent, ""), [""; 0]);
    }

    #[test]
    fn longer_cycles_are_one_set() {
        let files = [
            ("b", "use crate::c::C;"),
            ("c", "use crate::d::e::E;"),
            ("d", "mod e;"),
            ("d/e", "use crate::b::B;"),
            ("f", "use crate::b::B;"),
        ];
        assert_eq!(found(&files, "a: b c d/e\n"), [""; 0]);
    }
}

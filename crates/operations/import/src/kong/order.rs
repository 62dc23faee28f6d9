//! The order in which Kong and this gateway match routes, and where they differ.
//!
//! Kong compares the number of kinds of conditions first, and the path last. Among routes of the same priority, this gateway compares
//! the host first, then the path, then the rest. Owns both orders, and an example for each pair of routes that both match a request
//! but have a different winner here than in Kong.

use std::cmp::{Ordering, Reverse};
use std::collections::HashMap;

use super::overlap;
use super::tree::FilePosition;

/// A route with one of its hosts and one of its paths.
#[derive(Debug, Clone)]
pub(super) struct Atom {
    /// The route's index.
    pub(super) route: usize,
    /// Which of the route's alternatives.
    pub(super) alternative: usize,
    pub(super) host: HostWant,
    pub(super) path: PathCondition,
    pub(super) methods: Vec<String>,
    /// Names with the values that fit each.
    pub(super) headers: HeaderWants,
    /// The numbers of an expression's conditions on headers and on parameters.
    pub(super) raw: (usize, usize),
    pub(super) sources: Vec<String>,
    /// The only listener, if there is one.
    pub(super) listener: Option<&'static str>,
    /// The server names (SNI) that the client may send. If empty, any name fits.
    pub(super) snis: Vec<String>,
    pub(super) kong: KongRank,
    /// When the route was created, if the file says so.
    pub(super) created_at: Option<u64>,
}

/// Names of headers with their accepted values.
pub(super) type HeaderWants = Vec<(String, Vec<String>)>;

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum HostWant {
    Any,
    /// The part before a final `*`. Here it becomes a condition on the header `host`.
    Begins(String),
    /// The part after `*.`.
    Below(String),
    Exact(String),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum PathCondition {
    Any,
    /// The whole path.
    Exact(String),
    Prefix(String),
    /// A regular expression for the beginning of the path.
    Regex(String),
}

/// The rank of an atom in Kong. The fields stand in the order in which they are compared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct KongRank {
    /// Routes with an expression come after all others.
    pub(super) is_traditional: bool,
    /// The priority of a route with an expression.
    pub(super) priority: u64,
    /// The number of kinds of conditions.
    pub(super) kinds: u8,
    pub(super) plain_hosts: bool,
    pub(super) headers: usize,
    pub(super) is_regex: bool,
    pub(super) regex_priority: u64,
    pub(super) length: usize,
}

/// Pairs of atoms that may match the same request. The first one wins in Kong.
#[derive(Debug, Default)]
pub(super) struct Overlaps {
    pub(super) pairs: Vec<(usize, usize)>,
    /// False if there are too many pairs to examine.
    pub(super) is_complete: bool,
}

/// Two routes with a different winner here than in Kong, and a request that both match. `winner` is the route that wins in Kong.
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) winner: usize,
    pub(super) loser: usize,
    pub(super) example: String,
}

/// The conditions that two equal routes have in common: host, path, headers and server names.
type Shape = (HostWant, PathCondition, HeaderWants, Vec<String>);

/// The most pairs that are reported.
pub(super) const PAIRS_MAX: usize = 1_000;

/// What remains of an atom after an equal, earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Left {
    /// Its requests all go to this route.
    Nothing(usize),
    /// Some of its methods go to this route.
    Part(usize),
    All,
}

/// Removes from each atom the methods of equal atoms that come earlier in Kong, since the gateway refuses routes with equal conditions.
/// Returns what remains of each atom.
pub(super) fn remove_duplicates(atoms: &mut [Atom], places: &[FilePosition]) -> Vec<Left> {
    let mut left = vec![Left::All; atoms.len()];
    let mut groups: HashMap<Shape, Vec<usize>> = HashMap::new();
    // Expressions may have more conditions than are compared here.
    let traditional = atoms.iter().enumerate().filter(|(_, atom)| atom.kong.is_traditional);
    for (at, atom) in traditional {
        let mut headers = atom.headers.clone();
        headers.iter_mut().for_each(|(_, values)| values.sort());
        headers.sort();
        let mut snis = atom.snis.clone();
        snis.sort();
        let key = (atom.host.clone(), atom.path.clone(), headers, snis);
        groups.entry(key).or_default().push(at);
    }
    let mut groups: Vec<Vec<usize>> =
        groups.into_values().filter(|group| group.len() > 1).collect();
    groups.sort();
    for mut group in groups {
        group.sort_by(|a, b| by_kong(atoms.get(*a), atoms.get(*b), places));
        let mut before: Vec<usize> = Vec::new();
        for at in group {
            let Some(atom) = atoms.get(at) else { continue };
            let meets = |other: &&Atom| {
                other.listener == atom.listener
                    && other.methods.is_empty() == atom.methods.is_empty()
            };
            let earlier = before.iter().flat_map(|other| atoms.get(*other));
            let earlier: Vec<&Atom> = earlier.filter(meets).collect();
            let mut methods = atom.methods.clone();
            methods.retain(|method| !earlier.iter().any(|other| other.methods.contains(method)));
            let is_gone = !earlier.is_empty() && methods.is_empty();
            if let (Some(left), Some(first)) = (left.get_mut(at), earlier.first()) {
                *left = match (is_gone, methods.len() < atom.methods.len()) {
                    (true, _) => Left::Nothing(first.route),
                    (false, true) => Left::Part(first.route),
                    (false, false) => Left::All,
                };
            }
            if let (false, Some(atom)) = (is_gone, atoms.get_mut(at)) {
                atom.methods = methods;
            }
            before.push(at);
        }
    }
    left
}

/// Which of two routes comes first in Kong.
fn by_kong(a: Option<&Atom>, b: Option<&Atom>, places: &[FilePosition]) -> Ordering {
    let (Some(a), Some(b)) = (a, b) else { return Ordering::Equal };
    let age = |atom: &Atom| atom.created_at.unwrap_or(u64::MAX);
    let place = |atom: &Atom| places.get(atom.route).copied();
    b.kong.cmp(&a.kong).then(age(a).cmp(&age(b))).then(place(a).cmp(&place(b)))
}

/// Which of two atoms that both match a request comes first here.
pub(super) fn by_us(a: &Atom, b: &Atom) -> Ordering {
    let host = |atom: &Atom| match &atom.host {
        HostWant::Exact(_) => (0, Reverse(0)),
        HostWant::Below(parent) => (1, Reverse(parent.len())),
        HostWant::Begins(_) | HostWant::Any => (2, Reverse(0)),
    };
    let path = |atom: &Atom| match &atom.path {
        PathCondition::Exact(text) => (0, Reverse(regex::escape(text).len()), text.clone()),
        PathCondition::Regex(text) => (0, Reverse(text.len()), text.clone()),
        PathCondition::Prefix(text) => (1, Reverse(text.len()), String::new()),
        PathCondition::Any => (2, Reverse(0), String::new()),
    };
    let rest = |atom: &Atom| {
        let hosts = usize::from(matches!(atom.host, HostWant::Begins(_)));
        let (listener, snis) = (atom.listener.is_some(), !atom.snis.is_empty());
        let (headers, query) = (atom.headers.len() + hosts + atom.raw.0, atom.raw.1);
        let (sources, methods) = (!atom.sources.is_empty(), !atom.methods.is_empty());
        Reverse((listener, snis, sources, methods, headers, query))
    };
    host(a).cmp(&host(b)).then(path(a).cmp(&path(b))).then(rest(a).cmp(&rest(b)))
}

/// The pairs of routes that, without priorities, have a different winner here than in Kong, each once. Also returns a count of the pairs
/// of atoms past `PAIRS_MAX`.
pub(super) fn pairs(atoms: &[Atom], overlaps: &Overlaps) -> (Vec<Pair>, usize) {
    let mut found: HashMap<(usize, usize), Pair> = HashMap::new();
    let mut more = 0;
    for (winner, loser) in &overlaps.pairs {
        let (Some(winner), Some(loser)) = (atoms.get(*winner), atoms.get(*loser)) else { continue };
        let key = (winner.route, loser.route);
        if by_us(winner, loser) == Ordering::Less || found.contains_key(&key) {
            continue;
        }
        if found.len() >= PAIRS_MAX {
            more += 1;
            continue;
        }
        if let Some(example) = example(winner, loser) {
            found.insert(key, Pair { winner: winner.route, loser: loser.route, example });
        }
    }
    let mut pairs: Vec<Pair> = found.into_values().collect();
    pairs.sort_by_key(|pair| (pair.winner.min(pair.loser), pair.winner.max(pair.loser)));
    (pairs, more)
}

/// Which of two atoms that both match a request comes first in Kong. Between equal ranks the older route does, if the files say when
/// both were created.
pub(super) fn kong_order(a: &Atom, b: &Atom) -> Ordering {
    // Harmless: without both creation times, neither atom comes first.
    let age = a.created_at.zip(b.created_at).map_or(Ordering::Equal, |(a, b)| a.cmp(&b));
    b.kong.cmp(&a.kong).then(age)
}

/// True if a request can meet the conditions of both, apart from the path.
pub(super) fn meets(a: &Atom, b: &Atom) -> bool {
    // Listeners are not compared, since a route for HTTPS alone also answers plain requests.
    let methods = a.methods.is_empty()
        || b.methods.is_empty()
        || a.methods.iter().any(|method| b.methods.contains(method));
    let names = a.snis.is_empty() || b.snis.is_empty() || a.snis.iter().any(|n| b.snis.contains(n));
    names && methods && host(&a.host, &b.host).is_some()
}

/// A host that both take.
fn host(a: &HostWant, b: &HostWant) -> Option<String> {
    use HostWant::{Any, Begins, Below, Exact};
    let is_below = |name: &str, parent: &str| {
        name.strip_suffix(parent).is_some_and(|front| front.len() > 1 && front.ends_with('.'))
    };
    let shown = |want: &HostWant| match want {
        Any => "h".to_owned(),
        Exact(name) => name.clone(),
        Below(parent) => format!("a.{parent}"),
        Begins(begins) => format!("{begins}test"),
    };
    match (a, b) {
        (Any, other) | (other, Any) => Some(shown(other)),
        (Exact(one), Exact(other)) => (one == other).then(|| one.clone()),
        (Exact(name), Below(parent)) | (Below(parent), Exact(name)) => {
            is_below(name, parent).then(|| name.clone())
        }
        (Exact(name), Begins(begins)) | (Begins(begins), Exact(name)) => {
            name.starts_with(begins.as_str()).then(|| name.clone())
        }
        (Below(one), Below(other)) => {
            let (short, long) = if one.len() < other.len() { (one, other) } else { (other, one) };
            (short == long || is_below(long, short)).then(|| format!("a.{long}"))
        }
        (Begins(one), Begins(other)) => {
            let (short, long) = if one.len() < other.len() { (one, other) } else { (other, one) };
            long.starts_with(short.as_str()).then(|| format!("{long}test"))
        }
        (Begins(begins), Below(parent)) | (Below(parent), Begins(begins)) => {
            Some(format!("{begins}{parent}"))
        }
    }
}

/// A request that both match, as text.
fn example(winner: &Atom, loser: &Atom) -> Option<String> {
    let path = path(&winner.path, &loser.path)?;
    let host = host(&winner.host, &loser.host)?;
    let both = |method: &&String| loser.methods.is_empty() || loser.methods.contains(method);
    let method = winner.methods.iter().find(both).or(loser.methods.first());
    let method = method.map_or("GET", String::as_str);
    let scheme = match winner.listener.or(loser.listener) {
        Some("secure") => "https",
        _ => "http",
    };
    let headers = winner.headers.iter().chain(&loser.headers);
    let one = |(name, values): &(String, Vec<String>)| {
        format!("{name}: {}", values.first().map_or("", String::as_str))
    };
    let headers: Vec<String> = headers.map(one).collect();
    let with =
        if headers.is_empty() { String::new() } else { format!(" with {}", headers.join(", ")) };
    Some(format!("{method} {scheme}://{host}{path}{with}"))
}

/// A path that both take.
fn path(a: &PathCondition, b: &PathCondition) -> Option<String> {
    use PathCondition::{Any, Exact, Prefix, Regex};
    match (a, b) {
        (Any, Any) => Some("/".to_owned()),
        (Exact(text), _) | (_, Exact(text)) => Some(text.clone()),
        (Any, Prefix(text)) | (Prefix(text), Any) => Some(text.clone()),
        (Prefix(one), Prefix(other)) => {
            let (short, long) = if one.len() < other.len() { (one, other) } else { (other, one) };
            long.starts_with(short.as_str()).then(|| long.clone())
        }
        (Any, Regex(text)) | (Regex(text), Any) => overlap::example(text, ""),
        (Prefix(prefix), Regex(text)) | (Regex(text), Prefix(prefix)) => {
            overlap::example(text, &regex::escape(prefix))
        }
        (Regex(one), Regex(other)) => overlap::example(one, other),
    }
}

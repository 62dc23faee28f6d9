//! The route table, which finds the route of a request. `find` is pure. A search visits each node of a host's tree at most twice: once for
//! the path that is written out, and once for all other paths.
//!
//! Specificity decides, never the order in a file. Routes are tried in this order:
//!
//! 1. by their own priority, the highest first;
//! 2. by host: an exact host, then wildcards, the longest first, then any host;
//! 3. by path: a path that is written out, then regular expressions, the longest first, then all others: the longer path first, a literal
//!    segment before a parameter, an exact path before `**`. A prefix counts as literal up to where it ends;
//! 4. by their other conditions: listeners, server names, sources, methods, more headers, more query parameters.
//!
//! If a route's other conditions do not hold, the next less specific route is tried. `HEAD` goes where `GET` does, unless a route of the
//! same path names it, or the route does not take it (`match.head`).

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use message::RequestHead;

use crate::matcher::{Refusal, is_below};
use crate::path_regex::SharedTails;
use crate::prefixes::{Prefixes, RemainingBeginnings};
use crate::quick_test::{AskedMethod, QuickTest, USUAL};
use crate::{Arrival, HostPattern, Matcher, PathCondition, PathRegex, Pattern, Route, Segment};
use crate::{path, path_regex};

/// All routes, ready to search.
#[derive(Default)]
pub struct Table {
    entries: Vec<TableRoute>,
    /// The conditions of each entry. They are not among the entries, because most requests need none of them.
    matchers: Vec<Matcher>,
    /// The routes of each priority, the highest first.
    ranks: Vec<Rank>,
    /// Methods that routes name in addition to the usual ones, without duplicates.
    unusual: Vec<String>,
}

/// A route that was found.
pub struct RouteMatch<'t> {
    pub route: &'t Arc<Route>,
    /// The path condition that matched.
    pub condition: &'t PathCondition,
    /// Whether the route restricts methods.
    pub names_method: bool,
    /// Values of the path parameters, as in the matched path.
    pub parameters: Vec<Box<[u8]>>,
    /// The length of the part of `path` before the part that `**` matched, without the slash between the two.
    pub prefix: usize,
    /// The offset in `path` of the part that `**` matched, after its slash.
    pub rest: usize,
}

/// Two routes that match the same requests, as indices into the list given to [`Table::build`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conflict {
    pub first: usize,
    pub second: usize,
}

struct TableRoute {
    test: QuickTest,
    route: Arc<Route>,
}

/// The routes of one priority.
#[derive(Default)]
struct Rank {
    priority: i32,
    hosts: Hosts,
}

/// One tree for each host, so that a host's routes are never mixed with another's.
#[derive(Default)]
struct Hosts {
    exact: HashMap<Box<[u8]>, Tree>,
    /// Longest first.
    below: Vec<(Box<[u8]>, Tree)>,
    any: Tree,
}

/// The paths of a host's routes.
struct Tree {
    /// Patterns, as nodes by index; the first is the root.
    nodes: Vec<Node>,
    /// Regular expressions, in the order in which they are tried.
    regexes: Vec<RegexRoutes>,
    /// Regular expressions in the same order, the longest first, until [`Tree::unite`] numbers them.
    expressed: BTreeMap<(Reverse<usize>, Arc<str>, bool), RegexRoutes>,
    /// Prefixes, and how regular expressions begin.
    prefixes: Prefixes,
}

/// The routes of one regular expression.
struct RegexRoutes {
    regex: PathRegex,
    /// Most specific first.
    entries: Vec<usize>,
}

#[derive(Default)]
struct Node {
    /// Children by literal name. A few comparisons are faster than hashing the name.
    literals: BTreeMap<Box<[u8]>, usize>,
    parameter: Option<usize>,
    /// Entries whose pattern ends here, most specific first.
    exact: Vec<usize>,
    /// Entries whose pattern ends here with `**`, most specific first.
    open: Vec<usize>,
}

impl Table {
    /// Builds the table, or returns the routes that conflict.
    pub fn build(routes: Vec<(Matcher, Arc<Route>)>) -> Result<Table, Vec<Conflict>> {
        let mut ranks: Vec<Rank> = Vec::new();
        let mut entries: Vec<TableRoute> = Vec::with_capacity(routes.len());
        let mut matchers: Vec<Matcher> = Vec::with_capacity(routes.len());
        let mut conflicts = Vec::new();
        let mut tails = SharedTails::default();
        for (index, (mut matcher, route)) in routes.into_iter().enumerate() {
            if let PathCondition::Regex(regex) = &mut matcher.path {
                *regex = regex.shared(&mut tails);
            }
            let hosts = hosts(&mut ranks, matcher.priority);
            let list = hosts.tree(matcher.host.as_ref()).list(&matcher.path);
            let known = |at: &usize| matchers.get(*at);
            if let Some(first) =
                list.iter().find(|at| known(at).is_some_and(|m| m.clashes(&matcher)))
            {
                conflicts.push(Conflict { first: *first, second: index });
            }
            let place = list
                .iter()
                .position(|at| known(at).is_some_and(|m| m.specificity() < matcher.specificity()));
            list.insert(place.unwrap_or(list.len()), index);
            entries.push(TableRoute { test: QuickTest::of(&matcher), route });
            matchers.push(matcher);
        }
        for Rank { hosts, .. } in &mut ranks {
            hosts.all_mut().for_each(Tree::unite);
            hosts.below.sort_by_key(|(suffix, _)| Reverse(suffix.len()));
        }
        let unusual = unusual(&matchers);
        if !conflicts.is_empty() {
            return Err(conflicts);
        }
        Ok(Table { entries, matchers, ranks, unusual })
    }

    /// Returns the route of a request, if there is one. `path` is the path as resolved by [`path::resolve`]. A preflight gets the route of
    /// the request it asks about, unless a route that names `OPTIONS` matches, or the route of that request does not attract preflights.
    pub fn find(
        &self,
        arrival: Arrival<'_>,
        head: &RequestHead,
        path: &[u8],
    ) -> Option<RouteMatch<'_>> {
        let found = self.find_for(head.method(), arrival, head, path);
        let Some(asked) = preflight_method(head) else { return found };
        if found.as_ref().is_some_and(|found| found.names_method) {
            return found;
        }
        let answering = self.find_for(asked, arrival, head, path);
        answering.filter(|found| found.route.preflights.attracted).or(found)
    }

    /// Returns the `Allow` header for an `OPTIONS` request that no route accepts, if routes accept other methods (RFC 9110, 9.3.7).
    pub fn options(&self, arrival: Arrival<'_>, head: &RequestHead, path: &[u8]) -> Option<String> {
        if head.method() != b"OPTIONS" {
            return None;
        }
        self.other_methods(arrival, head, path).map(|(allow, _)| allow)
    }

    /// Returns the `Allow` header for a request whose method no route accepts (RFC 9110, 15.5.6), and one of the routes that accept another
    /// method, or `None` if there is no such route.
    pub fn other_methods(
        &self,
        arrival: Arrival<'_>,
        head: &RequestHead,
        path: &[u8],
    ) -> Option<(String, &Arc<Route>)> {
        let named = self.unusual.iter().map(String::as_str).filter(|name| *name != "OPTIONS");
        let taken: Vec<(&str, &Arc<Route>)> = USUAL
            .into_iter()
            .chain(named)
            // Harmless: methods that no route accepts are not listed.
            .filter_map(|name| {
                Some((name, self.find_for(name.as_bytes(), arrival, head, path)?.route))
            })
            .collect();
        let (_, route) = taken.first()?;
        let allow = taken.iter().map(|(name, _)| *name).chain(["OPTIONS"]);
        Some((allow.collect::<Vec<_>>().join(", "), route))
    }

    /// Returns true if some route names the method and it is not one of the usual ones.
    pub fn names(&self, method: &[u8]) -> bool {
        self.unusual.iter().any(|named| named.as_bytes() == method)
    }

    fn find_for(
        &self,
        method: &[u8],
        arrival: Arrival<'_>,
        head: &RequestHead,
        path: &[u8],
    ) -> Option<RouteMatch<'_>> {
        let named = self.ranks.iter().any(|rank| rank.hosts.has_conditions());
        let host = if named { head.host_name() } else { Cow::default() };
        let segments: Vec<&[u8]> = path::segments(path).collect();
        let asked = AskedMethod::of(method);
        self.ranks.iter().flat_map(|rank| rank.hosts.trees(&host)).find_map(|tree| {
            let (parameters, prefixes) = (Vec::new(), tree.prefixes.of(path));
            let mut search =
                Search { table: self, arrival, method, asked, head, path, parameters, prefixes };
            let by_regex = if tree.regexes.is_empty() {
                None
            } else {
                search.with_regexes(tree, &segments, path)
            };
            let (at, split) = by_regex.or_else(|| search.below(tree, 0, &segments, 0))?;
            let parameters = search.parameters.into_iter().map(Box::from).collect();
            let entry = self.entries.get(at)?;
            Some(RouteMatch {
                route: &entry.route,
                condition: &self.matchers.get(at)?.path,
                names_method: entry.test.names_method(),
                parameters,
                prefix: split.end.min(path.len()),
                rest: split.rest.min(path.len()),
            })
        })
    }

    /// Returns every route with the first condition that this request does not meet, or with `None` for the route that is found.
    pub fn examine(
        &self,
        arrival: Arrival<'_>,
        head: &RequestHead,
        path: &[u8],
    ) -> Vec<(&Arc<Route>, Option<Refusal>)> {
        let found = self.find(arrival, head, path).map(|found| found.route);
        let is_found = |route: &Arc<Route>| found.is_some_and(|found| Arc::ptr_eq(found, route));
        let highest = self.routes().find(|(_, route)| is_found(route));
        let highest = highest.map(|(matcher, _)| matcher.priority);
        let met = |matcher: &Matcher| match highest {
            Some(highest) if highest > matcher.priority => Refusal::LowerPriority,
            Some(_) | None => Refusal::LessSpecific,
        };
        let why = |matcher: &Matcher| {
            matcher.refusal(arrival, head, path).unwrap_or_else(|| met(matcher))
        };
        let all = self.routes();
        all.map(|(matcher, route)| (route, (!is_found(route)).then(|| why(matcher)))).collect()
    }

    /// Returns all routes with their conditions, in the order they were added.
    pub fn routes(&self) -> impl Iterator<Item = (&Matcher, &Arc<Route>)> {
        // Harmless: there is a matcher for each entry.
        self.matchers.iter().zip(self.entries.iter().map(|entry| &entry.route))
    }
}

/// Where the part of a path ends that a route's condition names, and where the rest begins.
#[derive(Debug, Clone, Copy)]
struct PathSplit {
    end: usize,
    rest: usize,
}

/// The state of one search in a tree.
struct Search<'t, 'r> {
    table: &'t Table,
    arrival: Arrival<'r>,
    method: &'r [u8],
    asked: AskedMethod,
    head: &'r RequestHead,
    path: &'r [u8],
    parameters: Vec<&'r [u8]>,
    prefixes: RemainingBeginnings<'t>,
}

impl<'t, 'r> Search<'t, 'r> {
    /// Searches the routes that take precedence over parameters and `**`: the literal path, and then regular expressions.
    fn with_regexes(
        &mut self,
        tree: &'t Tree,
        segments: &[&'r [u8]],
        path: &'r [u8],
    ) -> Option<(usize, PathSplit)> {
        let written = tree.written_out(segments).and_then(|node| self.first(&node.exact));
        if let Some(entry) = written {
            return Some((entry, PathSplit { end: path.len(), rest: path.len() }));
        }
        self.prefixes.regexes(path).into_iter().find_map(|at| {
            let expressed = tree.regexes.get(at)?;
            let (captured, end) = expressed.regex.captured(path)?;
            let entry = self.first(&expressed.entries)?;
            self.parameters = captured;
            Some((entry, PathSplit { end, rest: after_slash(path, end) }))
        })
    }

    /// Returns the most specific entry at or below a node, and how it splits the path. `passed` is the length of the part of the path that
    /// led to the node, without the slash that follows it.
    fn below(
        &mut self,
        tree: &'t Tree,
        at: usize,
        segments: &[&'r [u8]],
        passed: usize,
    ) -> Option<(usize, PathSplit)> {
        let split = PathSplit { end: passed, rest: passed + 1 };
        let node = tree.nodes.get(at)?;
        let Some((segment, others)) = segments.split_first() else {
            return self
                .first(&node.exact)
                .or_else(|| self.first(&node.open))
                .map(|entry| (entry, split));
        };
        let end = passed + 1 + segment.len();
        let literal = node.literals.get(*segment);
        if let Some(found) = literal.and_then(|next| self.below(tree, *next, others, end)) {
            return Some(found);
        }
        if let Some(found) = self.by_prefix(passed + 1) {
            return Some(found);
        }
        if let Some(next) = node.parameter.filter(|_| !segment.is_empty()) {
            self.parameters.push(segment);
            if let Some(found) = self.below(tree, next, others, end) {
                return Some(found);
            }
            self.parameters.pop();
        }
        if let Some(found) = self.by_prefix(passed) {
            return Some(found);
        }
        self.first(&node.open).map(|entry| (entry, split))
    }

    /// Returns the most specific entry among the untried prefixes of the path that are longer than `bytes`.
    fn by_prefix(&mut self, bytes: usize) -> Option<(usize, PathSplit)> {
        while let Some((length, entries)) = self.prefixes.longer_than(bytes) {
            if let Some(entry) = self.first(entries) {
                self.parameters.clear();
                let rest = after_slash(self.path, length);
                return Some((entry, PathSplit { end: length, rest }));
            }
        }
        None
    }

    /// Returns the first entry of a list whose other conditions the request meets.
    fn first(&self, list: &[usize]) -> Option<usize> {
        let is_met = |at: &usize| self.is_met(*at);
        if !self.asked.is_head() {
            return list.iter().copied().find(is_met);
        }
        // Harmless: a route that names HEAD comes first, if there is one.
        let names = |at: &usize| self.table.entries.get(*at).is_some_and(|e| e.test.names_head());
        let named = list.iter().copied().filter(names).find(is_met);
        named.or_else(|| list.iter().copied().find(is_met))
    }

    fn is_met(&self, at: usize) -> bool {
        // Harmless: the lists hold valid indices of entries.
        let tested = self.table.entries.get(at).map(|entry| entry.test.met_by(self.asked));
        let unmet = |matcher: &Matcher| matcher.unmet(self.arrival, self.method, self.head);
        let others_are_met =
            || self.table.matchers.get(at).is_some_and(|matcher| unmet(matcher).is_none());
        tested.is_some_and(|met| met.unwrap_or_else(others_are_met))
    }
}

/// Returns the hosts of a priority, which are created if necessary.
fn hosts(ranks: &mut Vec<Rank>, priority: i32) -> &mut Hosts {
    let at = ranks.partition_point(|rank| rank.priority > priority);
    if ranks.get(at).is_none_or(|rank| rank.priority != priority) {
        ranks.insert(at, Rank { priority, hosts: Hosts::default() });
    }
    #[allow(clippy::indexing_slicing, reason = "the lines above make the index valid")]
    &mut ranks[at].hosts
}

/// Returns the offset where the rest of a path begins if the first part ends at `end`. A slash between the two belongs to neither.
fn after_slash(path: &[u8], end: usize) -> usize {
    end + usize::from(
        path.get(end) == Some(&b'/') && !path.get(..end).is_some_and(|p| p.ends_with(b"/")),
    )
}

impl Hosts {
    fn tree(&mut self, host: Option<&HostPattern>) -> &mut Tree {
        match host {
            None => &mut self.any,
            Some(HostPattern::Exact(name)) => self.exact.entry(name.as_bytes().into()).or_default(),
            Some(HostPattern::Below(parent)) => {
                let known =
                    self.below.iter().position(|(suffix, _)| **suffix == *parent.as_bytes());
                let at = known.unwrap_or(self.below.len());
                if known.is_none() {
                    self.below.push((parent.as_bytes().into(), Tree::default()));
                }
                self.below.get_mut(at).map_or(&mut self.any, |(_, tree)| tree)
            }
        }
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut Tree> {
        let below = self.below.iter_mut().map(|(_, tree)| tree);
        self.exact.values_mut().chain(below).chain([&mut self.any])
    }

    /// Returns true if some route has a condition on the host.
    fn has_conditions(&self) -> bool {
        !(self.exact.is_empty() && self.below.is_empty())
    }

    /// Returns the trees to search for a host, most specific first.
    fn trees<'t, 'h>(&'t self, host: &'h [u8]) -> impl Iterator<Item = &'t Tree> + use<'t, 'h> {
        let below = self
            .below
            .iter()
            .filter(move |(parent, _)| is_below(host, parent))
            .map(|(_, tree)| tree);
        self.exact.get(host).into_iter().chain(below).chain([&self.any])
    }
}

impl Tree {
    /// Returns the list of entries for a path, which is created if necessary.
    fn list(&mut self, path: &PathCondition) -> &mut Vec<usize> {
        match path {
            PathCondition::Pattern(pattern) => self.ending(pattern),
            PathCondition::Regex(regex) => self.expressed(regex),
            PathCondition::Prefix(prefix) => self.prefixes.list(prefix),
        }
    }

    fn expressed(&mut self, regex: &PathRegex) -> &mut Vec<usize> {
        let fresh = || RegexRoutes { regex: regex.clone(), entries: Vec::new() };
        let key = (Reverse(regex.text().len()), regex.text().into(), regex.is_open());
        &mut self.expressed.entry(key).or_insert_with(fresh).entries
    }

    /// Numbers the regular expressions, and links prefixes.
    fn unite(&mut self) {
        self.regexes = std::mem::take(&mut self.expressed).into_values().collect();
        for (at, RegexRoutes { regex, .. }) in self.regexes.iter().enumerate() {
            regex.beginnings().iter().for_each(|text| self.prefixes.add_regex(text, at));
        }
        let regexes = &self.regexes;
        self.prefixes.link(|several| {
            // Harmless: the numbers are those of the regular expressions.
            path_regex::set(several.iter().filter_map(|at| Some(&regexes.get(*at)?.regex)))
        });
    }

    /// Returns the node that matches the path with literal segments only.
    fn written_out(&self, segments: &[&[u8]]) -> Option<&Node> {
        segments.iter().try_fold(self.nodes.first()?, |node, segment| {
            self.nodes.get(*node.literals.get(*segment)?)
        })
    }

    /// Returns the list of entries for a pattern, which is created if necessary.
    fn ending(&mut self, pattern: &Pattern) -> &mut Vec<usize> {
        let mut at = 0;
        for segment in &pattern.segments {
            at = self.child(at, segment);
        }
        if self.nodes.len() <= at {
            self.nodes.resize_with(at + 1, Node::default);
        }
        #[allow(clippy::indexing_slicing, reason = "the lines above make the index valid")]
        let node = &mut self.nodes[at];
        if pattern.open { &mut node.open } else { &mut node.exact }
    }

    fn child(&mut self, at: usize, segment: &Segment) -> usize {
        let fresh = self.nodes.len();
        let Some(node) = self.nodes.get_mut(at) else { return at };
        let child = match segment {
            Segment::Literal(text) => *node.literals.entry(text.clone()).or_insert(fresh),
            Segment::Parameter(_) => *node.parameter.get_or_insert(fresh),
        };
        if child == fresh {
            self.nodes.push(Node::default());
        }
        child
    }
}

impl Default for Tree {
    fn default() -> Tree {
        Tree {
            nodes: vec![Node::default()],
            regexes: Vec::new(),
            expressed: BTreeMap::new(),
            prefixes: Prefixes::default(),
        }
    }
}

fn unusual(matchers: &[Matcher]) -> Vec<String> {
    let mut named = Vec::new();
    for method in matchers.iter().flat_map(|matcher| &matcher.methods) {
        if !USUAL.contains(&method.as_str()) && !named.contains(method) {
            named.push(method.clone());
        }
    }
    named
}

/// Returns the method that a preflight asks about (Fetch standard, 3.2.2).
fn preflight_method(head: &RequestHead) -> Option<&[u8]> {
    let is_options = head.method() == b"OPTIONS";
    let asked = is_options.then(|| head.headers.get("access-control-request-method")).flatten();
    asked.filter(|_| head.headers.contains("origin"))
}

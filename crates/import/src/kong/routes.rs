//! Routes of Kong as routes of ours.

use serde_json::{Map, Value as Json, json};

use super::certificates::{PUBLIC, SECURE};
use super::converter::Converter;
use super::criteria::Criteria;
use super::entities::{Entity, unique};
use super::fields::{self, Verdict};
use super::order::{self, Atom, PathWant};
use super::output::closed;
use super::plugins::{RouteEffect, Scopes};
use super::recheck::PolicyOrigin;
use super::tree::Place;
use super::upstreams::ServiceEnd;

/// A route that is not written yet.
struct Draft {
    name: String,
    what: String,
    at: Place,
    criteria: Criteria,
    /// What stands beside `match`.
    keys: Map<String, Json>,
    /// The answer to plain HTTP, where the route is for HTTPS alone.
    upgrade: Option<Map<String, Json>>,
    origins: Vec<PolicyOrigin>,
    verdict: Verdict,
}

impl Converter<'_> {
    pub(super) fn routes(
        &mut self,
        services: &[ServiceEnd],
        scopes: &Scopes,
        plugins: &[RouteEffect],
    ) {
        let all = self.all;
        self.look_for_twins();
        let mut drafts = Vec::new();
        for (at, route) in all.routes.iter().enumerate() {
            let service = route.parent.and_then(|parent| services.get(parent));
            let on = scopes.on(&all.plugins, at, route.parent);
            drafts.push(self.draft(route, service, &on, plugins));
        }
        let mut atoms: Vec<Atom> = Vec::new();
        for (at, draft) in drafts.iter().enumerate() {
            atoms.extend(draft.iter().flat_map(|draft| draft.criteria.atoms(at)));
        }
        let places: Vec<Place> = all.routes.iter().map(|route| route.item.at).collect();
        let left = order::without_doubles(&mut atoms, &places);
        self.write_all(&mut drafts, &atoms, &left);
        // Harmless: there is a draft for each route.
        for (route, draft) in all.routes.iter().zip(drafts) {
            match draft {
                Some(draft) => self.row(&draft.what, &route.item, draft.verdict),
                None => self.row(&title(route), &route.item, Verdict::default()),
            }
        }
        // Harmless: there is a mark for each atom.
        let kept: Vec<Atom> =
            atoms.into_iter().zip(left).filter(|(_, left)| *left).map(|(atom, _)| atom).collect();
        self.say_pairs(&kept);
        let message = json!({ "message": "no Route matched with those values" }).to_string();
        let headers = json!({ "content-type": "application/json; charset=utf-8" });
        let respond = json!({ "status": 404, "body": message, "headers": headers });
        let name = self.out.fresh("route", "no-route-matched");
        self.out.routes.insert(name, json!({ "match": { "path": "/**" }, "respond": respond }));
    }

    fn look_for_twins(&mut self) {
        let all = self.all;
        for (list, kind) in
            [(&all.services, "service"), (&all.routes, "route"), (&all.upstreams, "upstream")]
        {
            for field in ["name", "id"] {
                unique(list.iter().map(|entity| &entity.item), field, kind, self.mistakes);
            }
        }
    }

    /// None for a route of a service that is switched off.
    fn draft(
        &mut self,
        route: &Entity,
        service: Option<&ServiceEnd>,
        on: &[usize],
        plugins: &[RouteEffect],
    ) -> Option<Draft> {
        let mut verdict = self.checked(&route.item, fields::ROUTE);
        let criteria = Criteria::read(route, self.mistakes, &mut verdict);
        if service.is_some_and(|service| !service.enabled) {
            return None;
        }
        let mut draft = Draft {
            name: self.out.fresh("route", &route.name),
            what: title(route),
            at: route.item.at,
            criteria,
            keys: Map::new(),
            upgrade: None,
            origins: Vec::new(),
            verdict,
        };
        let closing = on.iter().find(|at| plugins.get(**at).is_some_and(|made| made.closes));
        let guard =
            closing.and_then(|at| self.all.plugins.get(*at)).map(|plugin| plugin.name.clone());
        match guard {
            Some(name) => {
                draft.verdict.refuse(format!("its guard `{name}` is refused, so it answers 503"));
                draft.keys.insert("respond".to_owned(), closed());
            }
            None if draft.criteria.is_closed => {
                draft.keys.insert("respond".to_owned(), closed());
            }
            None => self.destination(route, service, on, plugins, &mut draft),
        }
        self.protocols(route, &mut draft);
        Some(draft)
    }

    /// Policies and where requests go.
    fn destination(
        &mut self,
        route: &Entity,
        service: Option<&ServiceEnd>,
        on: &[usize],
        plugins: &[RouteEffect],
        draft: &mut Draft,
    ) {
        let mut ordered: Vec<usize> = on.to_vec();
        ordered
            .sort_by_key(|at| std::cmp::Reverse(plugins.get(*at).map_or(0, |made| made.priority)));
        // Harmless: each plugin has its effect.
        let made: Vec<(usize, &RouteEffect)> =
            ordered.iter().filter_map(|at| Some((*at, plugins.get(*at)?))).collect();
        self.policies_of(&made, draft);
        let answers = made.iter().any(|(_, made)| made.answers);
        let triggered = made.iter().find(|(_, made)| made.is_triggered);
        let triggered = triggered.and_then(|(_, made)| made.respond.clone());
        let mut whole = made.iter().filter(|(_, made)| !made.is_triggered);
        let respond = whole.find_map(|(_, made)| made.respond.clone());
        let upstream = service.and_then(|service| Some((service, service.upstream.clone()?)));
        match (answers, respond, upstream) {
            (true, ..) => {}
            (false, Some(respond), _) => drop(draft.keys.insert("respond".to_owned(), respond)),
            (false, None, None) => {
                if service.is_some() && draft.verdict.outcome.is_none() {
                    draft.verdict.nearly("its service cannot be reached, so it answers 503");
                }
                draft.keys.insert("respond".to_owned(), closed());
            }
            (false, None, Some((service, upstream))) => {
                self.forwarding(route, service, draft);
                draft.keys.insert("upstream".to_owned(), json!(upstream));
                draft.keys.extend(triggered.map(|respond| ("respond".to_owned(), respond)));
                for (_, made) in &made {
                    for (key, value) in &made.route {
                        if key == "rewrite" {
                            draft.keys.remove("strip_prefix");
                        }
                        draft.keys.insert(key.clone(), value.clone());
                    }
                }
            }
        }
    }

    fn policies_of(&mut self, made: &[(usize, &RouteEffect)], draft: &mut Draft) {
        let identified = made.iter().any(|(_, made)| {
            made.credential.is_some()
                || made.set.as_deref().is_some_and(|set| self.is_credential(set))
        });
        let several: Vec<_> =
            made.iter().filter_map(|(_, made)| made.credential.as_ref()).collect();
        let anonymous = several.iter().any(|one| one.anonymous);
        let mut policies: Vec<Json> = Vec::new();
        let mut is_first = true;
        for (at, one) in made {
            let before = policies.len();
            if let Some(set) = &one.set {
                policies.push(json!({ "use": set }));
            }
            match &one.credential {
                Some(credential) if !anonymous => {
                    policies.push(json!({ (credential.kind): credential.keys }));
                }
                Some(_) if is_first => {
                    is_first = false;
                    let any: Vec<Json> =
                        several.iter().map(|one| json!({ (one.kind): one.keys })).collect();
                    policies
                        .push(json!({ "authenticate": { "any": any, "otherwise": "anonymous" } }));
                }
                Some(_) | None => {}
            }
            policies.extend(one.policies.iter().map(|policy| by_client(policy, identified)));
            let Some(plugin) = self.all.plugins.get(*at) else { continue };
            let row = super::plugin_fields::row(&plugin.name);
            let origin = PolicyOrigin {
                what: self.plugin_title(plugin),
                place: self.mistakes.position(plugin.item.at),
                guards: row.is_none_or(|row| row.guards),
            };
            draft.origins.extend(std::iter::repeat_n(origin, policies.len() - before));
        }
        if !policies.is_empty() {
            draft.keys.insert("policies".to_owned(), Json::Array(policies));
        }
    }

    fn is_credential(&self, set: &str) -> bool {
        let policies = self.out.policy_sets.get(set).and_then(Json::as_array);
        let is_one = |policy: &Json| {
            ["api_key", "basic", "jwt"].iter().any(|kind| policy.get(kind).is_some())
        };
        policies.is_some_and(|policies| policies.iter().any(is_one))
    }

    /// The path and the Host that the service sees.
    fn forwarding(&mut self, route: &Entity, service: &ServiceEnd, draft: &mut Draft) {
        let grpc = draft.criteria.protocols.iter().all(|protocol| protocol.starts_with("grpc"));
        let strips = route.item.is_true("strip_path", !grpc);
        if route.item.text("path_handling") == Some("v1") && !service.base.is_empty() {
            draft.verdict.nearly("a slash stands between the path of the service and the rest, as with `path_handling: v0`");
        }
        let paths = &draft.criteria.paths;
        let is_root = paths.iter().all(|path| match path {
            PathWant::Any => true,
            PathWant::Prefix(prefix) => prefix == "/",
            PathWant::Regex(_) => false,
        });
        let rewrite = match (strips && !is_root, service.base.is_empty(), paths.as_slice()) {
            (false, true, _) => None,
            (false, false, _) => Some(format!("{}{{path}}", service.base)),
            (true, true, [PathWant::Prefix(prefix)]) => {
                draft.keys.insert("strip_prefix".to_owned(), json!(prefix));
                None
            }
            (true, ..) => Some(format!("{}/{{**}}", service.base)),
        };
        if let Some(rewrite) = rewrite {
            draft.keys.insert("rewrite".to_owned(), json!(rewrite));
        }
        if !route.item.is_true("preserve_host", false) {
            draft.keys.insert("host".to_owned(), json!(service.host));
        }
    }

    /// The listeners of a route, by its protocols.
    fn protocols(&mut self, route: &Entity, draft: &mut Draft) {
        let protocols = &draft.criteria.protocols;
        let plain = protocols.iter().any(|protocol| protocol == "http" || protocol == "grpc");
        let secure = protocols.iter().any(|protocol| protocol == "https" || protocol == "grpcs");
        match (plain, secure) {
            (true, false) if self.has_tls() => draft.criteria.listener = Some(PUBLIC),
            (false, true) => {
                if self.has_tls() {
                    draft.criteria.listener = Some(SECURE);
                } else {
                    draft.verdict.refuse("there is no certificate, so nothing listens for HTTPS");
                }
                let status = route.item.whole("https_redirect_status_code", 426);
                let mut upgrade = Map::new();
                match status {
                    426 => {
                        let body = json!({ "message": "Please use HTTPS protocol" }).to_string();
                        let headers = json!({ "content-type": "application/json; charset=utf-8" });
                        let respond = json!({ "status": 426, "body": body, "headers": headers });
                        upgrade.insert("respond".to_owned(), respond);
                    }
                    status => {
                        let keys = json!({ "status": status, "to": "https://{host}", "keep_path": true, "keep_query": true });
                        upgrade.insert("policies".to_owned(), json!([{ "redirect": keys }]));
                    }
                }
                draft.upgrade = Some(upgrade);
            }
            (true, _) | (false, false) => {}
        }
    }

    /// Writes all routes with what is left of their conditions.
    fn write_all(&mut self, drafts: &mut [Option<Draft>], atoms: &[Atom], left: &[bool]) {
        for (at, draft) in drafts.iter_mut().enumerate() {
            let Some(draft) = draft else { continue };
            // Atoms stand in the order of their routes.
            let start = atoms.partition_point(|atom| atom.route < at);
            let (Some(atoms), Some(left)) = (atoms.get(start..), left.get(start..)) else {
                continue;
            };
            // Harmless: there is a mark for each atom, and those of one route stand together.
            let of_it = || atoms.iter().zip(left).take_while(|(atom, _)| atom.route == at);
            let first = draft.criteria.methods.clone();
            let is_whole = of_it().all(|(atom, left)| *left && atom.methods == first);
            let matches: Vec<Json> = if is_whole {
                draft.criteria.whole()
            } else {
                of_it()
                    .filter(|(_, left)| **left)
                    .map(|(atom, _)| draft.criteria.one(atom))
                    .collect()
            };
            for found in matches {
                self.write(draft, &found);
            }
        }
    }

    fn write(&mut self, draft: &Draft, found: &Json) {
        let mut keys = Map::new();
        let on = |listener: &str| {
            let mut found = found.clone();
            if let Some(found) = found.as_object_mut() {
                found.insert("listener".to_owned(), json!(listener));
            }
            found
        };
        if let Some(upgrade) = &draft.upgrade {
            let name = self.out.fresh("route", &format!("{}-plain", draft.name));
            let mut keys = Map::new();
            keys.insert("match".to_owned(), on(PUBLIC));
            keys.extend(upgrade.clone());
            self.out.routes.insert(name, Json::Object(keys));
            if draft.criteria.listener.is_none() {
                return;
            }
        }
        let found = draft.criteria.listener.map_or_else(|| found.clone(), on);
        keys.insert("match".to_owned(), found);
        keys.extend(draft.keys.clone());
        let name = if self.out.routes.contains_key(&draft.name) {
            self.out.fresh("route", &draft.name)
        } else {
            draft.name.clone()
        };
        let origin = (draft.what.clone(), draft.at);
        self.origins.insert(("routes".to_owned(), name.clone()), origin);
        self.policies.insert(name.clone(), draft.origins.clone());
        self.out.routes.insert(name, Json::Object(keys));
    }

    /// Adds a row for each pair of routes with another winner here than in Kong.
    fn say_pairs(&mut self, atoms: &[Atom]) {
        let all = self.all;
        let (pairs, more) = order::pairs(atoms);
        for pair in &pairs {
            let (Some(winner), Some(loser)) =
                (all.routes.get(pair.winner), all.routes.get(pair.loser))
            else {
                continue;
            };
            let (a, b) = (name(winner), name(loser));
            let mut verdict = Verdict::default();
            verdict.nearly(format!("{} goes to {a} in Kong, here to {b}", pair.example));
            self.row(&format!("routes {a}, {b}"), &winner.item, verdict);
        }
        if let (true, Some(first)) = (more > 0, all.routes.first()) {
            let mut verdict = Verdict::default();
            verdict.nearly(format!("{more} more pairs of routes have another winner here"));
            self.row("routes", &first.item, verdict);
        }
    }
}

/// A policy of the route. Without a credential there is no subject, so a limit by subject counts by client.
fn by_client(policy: &Json, identified: bool) -> Json {
    let mut policy = policy.clone();
    if let Some(limit) = policy.get_mut("rate_limit").filter(|_| !identified)
        && limit.get("by") == Some(&json!("subject"))
        && let Some(limit) = limit.as_object_mut()
    {
        limit.insert("by".to_owned(), json!("client"));
    }
    policy
}

fn title(route: &Entity) -> String {
    format!("route {}", name(route))
}

fn name(route: &Entity) -> &str {
    if route.name.is_empty() {
        route.item.text("id").unwrap_or("without a name")
    } else {
        &route.name
    }
}

//! Converts routes of Kong to routes of this gateway.

use serde_json::{Map, Value as Json, json};

use super::certificates::{PUBLIC, SECURE};
use super::clients::PluginClients;
use super::converter::{Converter, ServiceEnd};
use super::criteria::Criteria;
use super::entities::{Entity, unique};
use super::fields::{self, Verdict};
use super::order::{self, Atom, Left, Overlaps, PathCondition};
use super::output::closed;
use super::plugins::{RouteEffect, Scopes, counting};
use super::ranks;
use super::recheck::PolicyOrigin;
use super::tree::FilePosition;

/// A plugin that runs on a route.
struct RunningEffect<'e> {
    at: usize,
    effect: &'e RouteEffect,
    /// The clients for which it runs.
    clients: PluginClients,
}

/// The plugins that may run on a route.
struct PluginsOn<'s> {
    route: usize,
    /// Plugins for all clients.
    on: Vec<usize>,
    /// All plugins for one consumer or group.
    of_clients: &'s [usize],
}

/// A route that is not written yet.
struct Draft {
    name: String,
    what: String,
    at: FilePosition,
    /// One set of conditions, or one for each alternative of an expression.
    criteria: Vec<Criteria>,
    /// The only listener, if there is one.
    listener: Option<&'static str>,
    /// The keys other than `match`.
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
            let on = PluginsOn { route: at, on, of_clients: scopes.of_clients() };
            drafts.push(self.draft(route, service, &on, plugins));
        }
        let mut atoms: Vec<Atom> = Vec::new();
        let has_tls = self.has_tls();
        for (at, draft) in drafts.iter().enumerate() {
            for (number, one) in draft.iter().flat_map(|draft| draft.criteria.iter().enumerate()) {
                atoms.extend(one.atoms(at, number, has_tls));
            }
        }
        let places: Vec<FilePosition> = all.routes.iter().map(|route| route.item.at).collect();
        let left = order::remove_duplicates(&mut atoms, &places);
        self.say_hidden(&mut drafts, &atoms, &left);
        // Harmless: `left` has one item for each atom.
        let kept: Vec<Atom> = atoms
            .into_iter()
            .zip(left)
            .filter(|(_, left)| !matches!(left, Left::Nothing(_)))
            .map(|(atom, _)| atom)
            .collect();
        let overlaps = ranks::overlaps(&kept);
        let priorities = ranks::priorities(&kept, &overlaps);
        let ranked = priorities.is_some();
        // Harmless: without priorities all are the same.
        let priorities = priorities.unwrap_or_else(|| vec![0; kept.len()]);
        self.write_all(&mut drafts, &kept, &priorities);
        // Harmless: there is a draft for each route.
        for (route, draft) in all.routes.iter().zip(drafts) {
            match draft {
                Some(draft) => self.row(&draft.what, &route.item, draft.verdict),
                None => self.row(&title(route), &route.item, Verdict::default()),
            }
        }
        if !ranked {
            self.say_pairs(&kept, &overlaps);
        }
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
        for (list, field, kind) in [
            (&all.certificates, "id", "certificate"),
            (&all.ca_certificates, "id", "ca_certificate"),
            (&all.vaults, "prefix", "vault"),
        ] {
            unique(list.iter().map(|entity| &entity.item), field, kind, self.mistakes);
        }
        let plugins = all.plugins.iter().map(|plugin| &plugin.item);
        unique(plugins, "id", "plugin", self.mistakes);
    }

    /// Converts a route, except for its match. Returns `None` for a route of a disabled service.
    fn draft(
        &mut self,
        route: &Entity,
        service: Option<&ServiceEnd>,
        running: &PluginsOn<'_>,
        plugins: &[RouteEffect],
    ) -> Option<Draft> {
        let mut verdict = self.checked(&route.item, fields::ROUTE);
        let (names_captures, has_tls) = (self.names_captures, self.has_tls());
        let criteria = Criteria::read(route, names_captures, has_tls, self.mistakes, &mut verdict);
        if service.is_some_and(|service| !service.enabled) {
            return None;
        }
        let mut draft = Draft {
            name: self.out.fresh("route", &route.name),
            what: title(route),
            at: route.item.at,
            criteria,
            listener: None,
            keys: Map::new(),
            upgrade: None,
            origins: Vec::new(),
            verdict,
        };
        let on = &running.on;
        let closing = on.iter().find(|at| plugins.get(**at).is_some_and(|made| made.closes));
        let guard =
            closing.and_then(|at| self.all.plugins.get(*at)).map(|plugin| plugin.name.clone());
        match guard {
            Some(name) => {
                draft.verdict.refuse(format!("its guard `{name}` is refused, so it answers 503"));
                draft.keys.insert("respond".to_owned(), closed());
            }
            None if draft.criteria.iter().any(|one| one.is_closed) => {
                draft.keys.insert("respond".to_owned(), closed());
            }
            None => {
                let on = self.with_clients(on, running.of_clients, running.route, route.parent);
                self.destination(route, service, &on, plugins, &mut draft);
            }
        }
        self.protocols(route, &mut draft);
        Some(draft)
    }

    /// Adds the policies and the destination of a route.
    fn destination(
        &mut self,
        route: &Entity,
        service: Option<&ServiceEnd>,
        on: &[(usize, PluginClients)],
        plugins: &[RouteEffect],
        draft: &mut Draft,
    ) {
        let mut ordered = on.to_vec();
        let priority = |at: usize| plugins.get(at).map_or(0, |made| made.priority);
        ordered.sort_by_key(|(at, _)| std::cmp::Reverse(priority(*at)));
        // Harmless: each plugin has its effect.
        let effect = |(at, clients): &(usize, PluginClients)| {
            Some(RunningEffect { at: *at, effect: plugins.get(*at)?, clients: clients.clone() })
        };
        // Harmless: none is left out, as above.
        let mut made: Vec<RunningEffect<'_>> = ordered.iter().filter_map(effect).collect();
        // After a plugin that answers, Kong runs only those that edit replies.
        let mut is_answered = false;
        made.retain(|RunningEffect { at, effect, .. }| {
            let plugin = self.all.plugins.get(*at);
            let edits = plugin.is_some_and(|one| one.name.starts_with("response-transformer"));
            let runs = edits || !is_answered;
            is_answered |= effect.respond.is_some() && !effect.is_triggered;
            runs
        });
        self.policies_of(&made, route.parent, draft);
        let made: Vec<(usize, &RouteEffect)> =
            made.iter().map(|one| (one.at, one.effect)).collect();
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
                let strips = self.forwarding(route, service, draft);
                self.tell_service(strips, route, draft);
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

    fn policies_of(
        &mut self,
        made: &[RunningEffect<'_>],
        service: Option<usize>,
        draft: &mut Draft,
    ) {
        let service = self.service_key(service);
        // Of `openid-connect`, which has no credentials in the file.
        let holder = if made.iter().any(has_token) { "subject" } else { "client" };
        let identified = made.iter().any(|RunningEffect { effect, .. }| {
            effect.credential.is_some()
                || effect.set.as_deref().is_some_and(|set| self.is_credential(set))
        });
        let several: Vec<_> =
            made.iter().filter_map(|made| made.effect.credential.as_ref()).collect();
        let anonymous = several.iter().any(|one| one.anonymous);
        let mut policies: Vec<Json> = Vec::new();
        let mut is_first = true;
        for RunningEffect { at, effect: one, clients } in made {
            let before = policies.len();
            let is_limited = clients.limit(Json::Null) != Json::Null;
            match &one.set {
                // A set as a whole cannot be for some clients.
                Some(set) if is_limited && identified => {
                    let limited = self.policies_in(set).iter().cloned();
                    policies.extend(limited.map(|policy| clients.limit(policy)));
                }
                Some(set) => policies.push(json!({ "use": set })),
                None => {}
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
            // If no plugin identifies clients, no client has a name, and a plugin for named clients never runs.
            if identified || !clients.are_named() {
                let own = one.policies.iter().map(|policy| {
                    let holder = (!identified).then_some(holder);
                    counting(policy, holder, service.as_deref())
                });
                policies.extend(own.map(|p| if identified { clients.limit(p) } else { p }));
            }
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

    /// Returns the key that counts the requests of a service: its name, or its position in the file if it has none.
    fn service_key(&self, service: Option<usize>) -> Option<String> {
        let at = service?;
        let service = self.all.services.get(at)?;
        Some(match service.name.as_str() {
            "" => format!("service {at}"),
            name => name.to_owned(),
        })
    }

    fn is_credential(&self, set: &str) -> bool {
        self.policies_in(set).iter().any(|policy| {
            ["api_key", "basic", "hmac", "jwt"].iter().any(|kind| policy.get(kind).is_some())
        })
    }

    /// The policies of a set, or none if there is no such set.
    fn policies_in(&self, set: &str) -> &[Json] {
        // Harmless: a set is a list.
        self.out.policy_sets.get(set).and_then(Json::as_array).map_or(&[][..], Vec::as_slice)
    }

    /// The path and the Host that the service sees. True if a part of the path is cut off.
    fn forwarding(&mut self, route: &Entity, service: &ServiceEnd, draft: &mut Draft) -> bool {
        let protocols = draft.criteria.first().map_or(&[][..], |one| &one.protocols);
        let grpc = !protocols.is_empty() && protocols.iter().all(|one| one.starts_with("grpc"));
        let strips = route.item.is_true("strip_path", !grpc);
        if route.item.text("path_handling") == Some("v1") && !service.base.is_empty() {
            draft.verdict.nearly("a slash stands between the path of the service and the rest, as with `path_handling: v0`");
        }
        let paths: Vec<&PathCondition> = draft.criteria.iter().flat_map(|one| &one.paths).collect();
        if strips && paths.iter().any(|path| matches!(path, PathCondition::Exact(_))) {
            draft
                .verdict
                .nearly("`strip_path` cuts nothing from a path that is compared as a whole");
        }
        let is_root = paths.iter().all(|path| match path {
            PathCondition::Any => true,
            PathCondition::Prefix(prefix) => prefix == "/",
            PathCondition::Exact(_) | PathCondition::Regex(_) => false,
        });
        let rewrite = match (strips && !is_root, service.base.is_empty(), paths.as_slice()) {
            (false, true, _) => None,
            // `/` becomes `/base` of a service with the path `/base`, and `/base/` of one with `/base/`.
            (false, false, _) if is_root && service.has_last_slash => {
                Some(format!("{}/{{**}}", service.base))
            }
            (false, false, _) => Some(format!("{}{{path}}", service.base)),
            (true, true, [PathCondition::Prefix(prefix)]) => {
                draft.keys.insert("strip_prefix".to_owned(), json!(prefix));
                None
            }
            (true, true, [PathCondition::Exact(_)]) => None,
            (true, false, [PathCondition::Exact(_)]) => Some(format!("{}{{path}}", service.base)),
            (true, ..) => Some(format!("{}/{{**}}", service.base)),
        };
        if let Some(rewrite) = rewrite {
            draft.keys.insert("rewrite".to_owned(), json!(rewrite));
        }
        if !route.item.is_true("preserve_host", false) {
            draft.keys.insert("host".to_owned(), json!(service.host));
        }
        let is_cut = |path: &&PathCondition| !matches!(path, PathCondition::Exact(_));
        strips && !is_root && paths.iter().any(is_cut)
    }

    /// Adds the headers in which Kong describes the way of a request. Edits of them by plugins have no effect.
    fn tell_service(&mut self, strips: bool, route: &Entity, draft: &mut Draft) {
        let is_root =
            |path: &PathCondition| matches!(path, PathCondition::Prefix(text) if text == "/");
        if strips && draft.criteria.iter().flat_map(|one| &one.paths).any(is_root) {
            draft.verdict.nearly("`X-Forwarded-Prefix` is `/` where Kong leaves it out");
        }
        let name = if strips { "kong-forwarded-stripped" } else { "kong-forwarded" };
        if !self.out.policy_sets.contains_key(name) {
            let mut default = Map::new();
            default.insert("x-forwarded-host".to_owned(), json!("{hostname}"));
            default.insert("x-forwarded-port".to_owned(), json!("{port}"));
            default.insert("x-forwarded-path".to_owned(), json!("{path}"));
            if strips {
                default.insert("x-forwarded-prefix".to_owned(), json!("{prefix}"));
            }
            // Kong sends on neither of these.
            let remove = ["proxy", "proxy-authorization"];
            let edits =
                json!({ "remove": remove, "set": { "x-real-ip": "{client}" }, "default": default });
            let policies = json!([{ "headers": { "request": edits } }]);
            self.out.policy_sets.insert(name.to_owned(), policies);
        }
        let policies = draft.keys.entry("policies").or_insert_with(|| json!([]));
        let Some(policies) = policies.as_array_mut() else { return };
        // Below a cache, the client's address would keep replies out of it.
        let cache = policies.iter().position(|policy| self.is_cache(policy));
        let at = cache.unwrap_or(policies.len()).min(draft.origins.len());
        policies.insert(at, json!({ "use": name }));
        let place = self.mistakes.position(route.item.at);
        let origin = PolicyOrigin { what: draft.what.clone(), place, guards: false };
        draft.origins.insert(at, origin);
    }

    fn is_cache(&self, policy: &Json) -> bool {
        let caches = |policy: &Json| policy.get("cache").is_some();
        let set = policy.get("use").and_then(Json::as_str);
        caches(policy) || set.is_some_and(|set| self.policies_in(set).iter().any(caches))
    }

    /// The listeners of a route, by its protocols.
    fn protocols(&mut self, route: &Entity, draft: &mut Draft) {
        let Some(first) = draft.criteria.first() else { return };
        let protocols = first.protocols.clone();
        let mut listener = None;
        let plain = protocols.iter().any(|protocol| protocol == "http" || protocol == "grpc");
        let secure = protocols.iter().any(|protocol| protocol == "https" || protocol == "grpcs");
        match (plain, secure) {
            (true, false) if self.has_tls() => listener = Some(PUBLIC),
            (false, true) => {
                if self.has_tls() {
                    listener = Some(SECURE);
                    if self.is_self_signed() {
                        draft.verdict.say("the gateway makes the certificate, as Kong does");
                    }
                } else {
                    draft.verdict.refuse("there is no certificate, so nothing listens for HTTPS");
                }
                let status = route.item.whole("https_redirect_status_code", 426);
                let mut upgrade = Map::new();
                match status {
                    426 => {
                        let body = json!({ "message": "Please use HTTPS protocol" }).to_string();
                        let kind = "application/json; charset=utf-8";
                        let headers =
                            json!({ "content-type": kind, "upgrade": "TLS/1.2, HTTP/1.1" });
                        let respond = json!({ "status": 426, "body": body, "headers": headers });
                        upgrade.insert("respond".to_owned(), respond);
                    }
                    status => {
                        let keys = json!({ "status": status, "to": "https://{hostname}", "keep_path": true, "keep_query": true });
                        upgrade.insert("policies".to_owned(), json!([{ "redirect": keys }]));
                    }
                }
                draft.upgrade = Some(upgrade);
            }
            (true, _) | (false, false) => {}
        }
        draft.listener = listener;
        draft.criteria.iter_mut().for_each(|one| one.listener = one.listener.or(listener));
    }

    /// Writes all routes with the remaining conditions. `priorities` are those of the atoms, in the order of their routes.
    fn write_all(&mut self, drafts: &mut [Option<Draft>], atoms: &[Atom], priorities: &[i32]) {
        let has_tls = self.has_tls();
        let mut of_route: Vec<Vec<(&Atom, i32)>> = vec![Vec::new(); drafts.len()];
        // Harmless: there is a priority for each atom.
        for (atom, priority) in atoms.iter().zip(priorities) {
            if let Some(list) = of_route.get_mut(atom.route) {
                list.push((atom, *priority));
            }
        }
        // Harmless: there is a list for each route.
        for (draft, atoms) in drafts.iter().zip(of_route) {
            let Some(draft) = draft else { continue };
            let first = atoms.first().map_or(0, |(_, priority)| *priority);
            let is_whole = |criteria: &Criteria| {
                criteria.has_same_names()
                    && atoms.len() == criteria.atoms(0, 0, has_tls).len()
                    && atoms.iter().all(|(atom, p)| *p == first && atom.methods == criteria.methods)
            };
            let matches: Vec<Json> = match draft.criteria.as_slice() {
                [one] if is_whole(one) => {
                    let whole = one.whole(has_tls).into_iter();
                    whole.map(|found| with_priority(found, first)).collect()
                }
                several => {
                    // Harmless: each atom is of one of the alternatives.
                    let found = atoms.iter().filter_map(|(atom, p)| {
                        let criteria = several.get(atom.alternative)?;
                        Some(with_priority(criteria.one(atom), *p))
                    });
                    found.collect()
                }
            };
            for found in matches {
                self.write(draft, &found);
            }
        }
    }

    /// Adds notes to routes whose requests go, entirely or partly, to an equal route in Kong.
    fn say_hidden(&mut self, drafts: &mut [Option<Draft>], atoms: &[Atom], left: &[Left]) {
        let all = self.all;
        // Harmless: `left` has one item for each atom.
        for (atom, left) in atoms.iter().zip(left) {
            let (by, what) = match left {
                Left::Nothing(by) => (by, "all requests of one of its conditions"),
                Left::Part(by) => (by, "some of its methods"),
                Left::All => continue,
            };
            let (Some(other), Some(Some(draft))) =
                (all.routes.get(*by), drafts.get_mut(atom.route))
            else {
                continue;
            };
            let note =
                format!("`{}` has the same conditions and takes {what}, as in Kong", other.label());
            if !draft.verdict.notes.contains(&note) {
                draft.verdict.nearly(note);
            }
        }
    }

    fn write(&mut self, draft: &Draft, found: &Json) {
        let mut keys = Map::new();
        if let Some(upgrade) = &draft.upgrade {
            let name = self.out.fresh("route", &format!("{}-plain", draft.name));
            let mut plain = found.clone();
            if let Some(plain) = plain.as_object_mut() {
                plain.insert("listener".to_owned(), json!(PUBLIC));
                plain.shift_remove("sni");
            }
            let mut keys = Map::new();
            keys.insert("match".to_owned(), plain);
            keys.extend(upgrade.clone());
            self.out.routes.insert(name, Json::Object(keys));
            if draft.listener.is_none() {
                return;
            }
        }
        keys.insert("match".to_owned(), found.clone());
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

    /// Adds a row for each pair of routes that have a different winner here than in Kong.
    fn say_pairs(&mut self, atoms: &[Atom], overlaps: &Overlaps) {
        let all = self.all;
        let (pairs, more) = order::pairs(atoms, overlaps);
        if let (false, Some(first)) = (overlaps.is_complete, all.routes.first()) {
            let mut verdict = Verdict::default();
            verdict.nearly("too many routes overlap for a comparison of their order with Kong's");
            self.row("routes", &first.item, verdict);
        }
        for pair in &pairs {
            let (Some(winner), Some(loser)) =
                (all.routes.get(pair.winner), all.routes.get(pair.loser))
            else {
                continue;
            };
            let (a, b) = (winner.label(), loser.label());
            let mut verdict = Verdict::default();
            verdict.nearly(format!("{} goes to {a} in Kong, and to {b} in Tidegate", pair.example));
            self.row(&format!("routes {a}, {b}"), &winner.item, verdict);
        }
        if let (true, Some(first)) = (more > 0, all.routes.first()) {
            let mut verdict = Verdict::default();
            verdict.nearly(format!("{more} more pairs of routes have another winner in Tidegate"));
            self.row("routes", &first.item, verdict);
        }
    }
}

/// Adds a priority to a match, unless it is 0. Matches of higher priorities are tried first.
fn with_priority(mut found: Json, priority: i32) -> Json {
    if let Some(found) = found.as_object_mut().filter(|_| priority != 0) {
        found.insert("priority".to_owned(), json!(priority));
    }
    found
}

/// True if a plugin identifies clients by tokens.
fn has_token(one: &RunningEffect<'_>) -> bool {
    one.effect.policies.iter().any(|policy| policy.get("jwt").is_some())
}

fn title(route: &Entity) -> String {
    format!("route {}", route.label())
}

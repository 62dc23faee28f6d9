//! Converts plugins, and determines where they apply.

mod auth;
mod canary;
mod limits;
mod logs;
mod replies;
mod soap;
mod transform;
mod validator;

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value as Json, json};

use super::consumers::Clients;
use super::converter::Converter;
use super::entities::{Entity, PluginInstance, Scope};
use super::fields::{self, Verdict};
use super::plugin_fields::{self, Support};
pub(super) use limits::counting;
use limits::is_by_service;

/// What a plugin adds to its routes.
#[derive(Debug, Clone, Default)]
pub(super) struct RouteEffect {
    pub(super) priority: i32,
    /// The policies in the order in which they run.
    pub(super) policies: Vec<Json>,
    /// A kind of credential. Several of a route may become one policy `authenticate`.
    pub(super) credential: Option<OneCredential>,
    /// Keys of the route.
    pub(super) route: Map<String, Json>,
    /// The answer of the route, in the place of a service.
    pub(super) respond: Option<Json>,
    /// True if only some requests get that answer.
    pub(super) is_triggered: bool,
    /// True if the policies always answer, so that the route needs no destination.
    pub(super) answers: bool,
    /// True if the plugin is a refused guard, so that its routes must not serve.
    pub(super) closes: bool,
    /// The name of the policy set with its policies, if several routes have it.
    pub(super) set: Option<String>,
}

/// A policy that can be an alternative in `authenticate`.
#[derive(Debug, Clone)]
pub(super) struct OneCredential {
    pub(super) kind: &'static str,
    pub(super) keys: Json,
    pub(super) anonymous: bool,
}

/// The plugins that may apply to a route, by where they apply.
#[derive(Debug, Default)]
pub(super) struct Scopes {
    everywhere: Vec<usize>,
    services: HashMap<usize, Vec<usize>>,
    routes: HashMap<usize, Vec<usize>>,
    /// The plugins of one consumer or group.
    clients: Vec<usize>,
}

impl Scopes {
    fn of(plugins: &[PluginInstance]) -> Scopes {
        let mut scopes = Scopes::default();
        for (at, plugin) in plugins.iter().enumerate() {
            match plugin.scope {
                Scope { consumer: Some(_), .. } | Scope { group: Some(_), .. } => {
                    scopes.clients.push(at);
                }
                Scope { route: Some(route), .. } => {
                    scopes.routes.entry(route).or_default().push(at)
                }
                Scope { service: Some(service), .. } => {
                    scopes.services.entry(service).or_default().push(at);
                }
                Scope { .. } => scopes.everywhere.push(at),
            }
        }
        scopes
    }

    /// The plugins of one consumer or group.
    pub(super) fn of_clients(&self) -> &[usize] {
        &self.clients
    }

    /// The plugins that run on a route. If several have the same name, the one with the narrowest scope runs.
    pub(super) fn on(
        &self,
        plugins: &[PluginInstance],
        route: usize,
        service: Option<usize>,
    ) -> Vec<usize> {
        let own = self.routes.get(&route).map_or(&[][..], Vec::as_slice).iter();
        // A plugin of both a route and a service runs only if the route belongs to the service.
        let fits = |at: &&usize| match plugins.get(**at).map(|plugin| plugin.scope) {
            Some(Scope { service: Some(wanted), .. }) => service == Some(wanted),
            Some(_) | None => true,
        };
        let has_service =
            |at: &&usize| plugins.get(**at).is_some_and(|plugin| plugin.scope.service.is_some());
        let mut own: Vec<&usize> = own.filter(fits).collect();
        own.sort_by_key(|at| !has_service(at));
        let of_service = service.and_then(|service| self.services.get(&service));
        let of_service = of_service.map_or(&[][..], Vec::as_slice);
        let mut names = HashSet::new();
        let all = own.into_iter().chain(of_service).chain(&self.everywhere);
        let enabled =
            all.filter(|at| plugins.get(**at).is_some_and(|p| p.item.is_true("enabled", true)));
        enabled
            .filter(|at| plugins.get(**at).is_some_and(|p| names.insert(p.name.as_str())))
            .copied()
            .collect()
    }
}

impl Converter<'_> {
    /// Consumers with a plugin that guards them and has no counterpart.
    pub(super) fn blocked(&self) -> HashSet<usize> {
        let all = self.all;
        let guards = |plugin: &&PluginInstance| {
            let guards = plugin_fields::row(&plugin.name).is_none_or(|row| row.guards);
            plugin.item.is_true("enabled", true) && guards && !self.is_conditional(plugin)
        };
        let guards: Vec<Scope> =
            all.plugins.iter().filter(guards).map(|plugin| plugin.scope).collect();
        let mut blocked: HashSet<usize> = guards.iter().flat_map(|scope| scope.consumer).collect();
        // Harmless: a guard that is not for a group blocks no members of groups.
        for group in guards.iter().filter_map(|scope| self.members.get(&scope.group?)) {
            let members = all.consumers.iter().enumerate();
            let members = members.filter(|(_, consumer)| group.contains(&consumer.name));
            blocked.extend(members.map(|(at, _)| at));
        }
        blocked
    }

    /// Converts all plugins.
    pub(super) fn plugins(&mut self, people: &Clients) -> (Scopes, Vec<RouteEffect>) {
        let all = self.all;
        let scopes = Scopes::of(&all.plugins);
        let mut uses: HashMap<usize, Vec<&Entity>> = HashMap::new();
        for (at, route) in all.routes.iter().enumerate() {
            for plugin in scopes.on(&all.plugins, at, route.parent) {
                uses.entry(plugin).or_default().push(route);
            }
        }
        let mut made: Vec<RouteEffect> = Vec::new();
        for (at, plugin) in all.plugins.iter().enumerate() {
            let routes = uses.get(&at).map_or(&[][..], Vec::as_slice);
            let mut one = self.plugin(plugin, routes, people);
            let is_shared = routes.len() > 1;
            let stands_alone =
                one.credential.as_ref().is_none_or(|credential| !credential.anonymous);
            let is_same = !one.policies.iter().any(is_by_service);
            if is_shared
                && stands_alone
                && is_same
                && !(one.policies.is_empty() && one.credential.is_none())
            {
                let name = self.out.fresh("set", &plugin.name);
                let credential = one.credential.take().map(|one| json!({ (one.kind): one.keys }));
                let policies: Vec<Json> =
                    credential.into_iter().chain(std::mem::take(&mut one.policies)).collect();
                self.out.policy_sets.insert(name.clone(), Json::Array(policies));
                let what = (self.plugin_title(plugin), plugin.item.at);
                self.origins.insert(("policy_sets".to_owned(), name.clone()), what);
                one.set = Some(name);
            }
            made.push(one);
        }
        (scopes, made)
    }

    pub(super) fn plugin_title(&self, plugin: &PluginInstance) -> String {
        let name = |list: &[Entity], at: Option<usize>, kind: &str| {
            let entity = at.and_then(|at| list.get(at));
            entity.map(|entity| format!(" of {kind} {}", entity.label())).unwrap_or_default()
        };
        let Scope { service, route, consumer, group } = plugin.scope;
        let of = [
            name(&self.all.routes, route, "route"),
            name(&self.all.services, service, "service"),
            name(&self.all.consumers, consumer, "consumer"),
            name(&self.all.groups, group, "consumer group"),
        ];
        format!("plugin {}{}", plugin.name, of.concat())
    }

    fn plugin(
        &mut self,
        plugin: &PluginInstance,
        routes: &[&Entity],
        people: &Clients,
    ) -> RouteEffect {
        let mut verdict = self.checked(&plugin.item, fields::PLUGIN);
        protocols_of(plugin, &mut verdict);
        let row = plugin_fields::row(&plugin.name);
        let mut made =
            RouteEffect { priority: row.map_or(0, |row| row.priority), ..RouteEffect::default() };
        match row.map(|row| row.support) {
            None => verdict.refuse("Tidegate does not have this plugin"),
            Some(Support::Nothing(why)) => verdict.refuse(why),
            Some(Support::Fields(table)) => {
                if !plugin.config.is_map() {
                    self.mistakes.add(plugin.config.at, "`config` must be a map");
                }
                fields::check_config(&plugin.config, table, self.mistakes, &mut verdict);
                let of_client = plugin.scope.consumer.is_some() || plugin.scope.group.is_some();
                if of_client && !self.is_conditional(plugin) && !verdict.is_refused() {
                    verdict.refuse("Tidegate does not have this plugin for one consumer or group");
                }
                // A disabled plugin must not add a log or traces either.
                if !verdict.is_refused() && plugin.item.is_true("enabled", true) {
                    self.convert(plugin, routes, people, &mut made, &mut verdict);
                }
                if of_client && !made.route.is_empty() {
                    verdict
                        .refuse("a part of it is the route's, which is the same for all clients");
                }
            }
        }
        if verdict.is_refused() {
            made = RouteEffect {
                priority: made.priority,
                closes: row.is_none_or(|row| row.guards),
                ..RouteEffect::default()
            };
        }
        if !plugin.item.is_true("enabled", true) {
            verdict = Verdict::default();
        }
        self.row(&self.plugin_title(plugin), &plugin.item, verdict);
        made
    }

    fn convert(
        &mut self,
        plugin: &PluginInstance,
        routes: &[&Entity],
        people: &Clients,
        made: &mut RouteEffect,
        verdict: &mut Verdict,
    ) {
        let config = &plugin.config;
        match plugin.name.as_str() {
            "jwt" => self.jwt(plugin, people, made, verdict),
            "key-auth" => self.key_auth(plugin, people, made, verdict),
            "basic-auth" => self.basic_auth(plugin, people, made, verdict),
            "hmac-auth" => self.hmac_auth(plugin, people, made, verdict),
            "openid-connect" => self.openid(plugin, made, verdict),
            "canary" => self.canary(plugin, made, verdict),
            "mocking" => self.mocking(config, made, verdict),
            "bot-detection" => auth::bots(config, made, verdict),
            "acl" => self.acl(config, made, verdict),
            "ip-restriction" => self.ip_restriction(config, made),
            "request-size-limiting" => limits::size(config, made, verdict),
            "rate-limiting" => self.rate_limiting(plugin, made, verdict),
            "response-ratelimiting" => self.response_ratelimiting(plugin, made, verdict),
            "rate-limiting-advanced" => self.rate_limiting_advanced(plugin, made, verdict),
            "request-transformer" | "request-transformer-advanced" => {
                transform::request(config, made, verdict);
            }
            "response-transformer" | "response-transformer-advanced" => {
                transform::response(config, made, verdict);
            }
            "correlation-id" => replies::correlation(config, made, verdict),
            "cors" => replies::cors(config, routes, made, verdict),
            "redirect" => self.redirect(config, made, verdict),
            "proxy-cache" => replies::cache(config, made, verdict),
            "request-termination" => self.termination(config, made),
            "grpc-web" => replies::grpc_web(config, made),
            "file-log" | "http-log" | "tcp-log" | "udp-log" => self.access_log(plugin, verdict),
            "opentelemetry" => self.traces(plugin, verdict),
            "prometheus" => self.metrics(verdict),
            "request-validator" => self.request_validator(config, made, verdict),
            "oas-validation" => self.oas_validation(config, made, verdict),
            "soap-xml-request-handling" => self.soap(config, soap::Side::Request, made, verdict),
            "soap-xml-response-handling" => self.soap(config, soap::Side::Response, made, verdict),
            _ => verdict.refuse("Tidegate does not have this plugin"),
        }
    }
}

/// Adds a note if the plugin is for streams of bytes alone. Each protocol over HTTP stands for all of them: Kong compares only whether
/// requests or streams are meant.
fn protocols_of(plugin: &PluginInstance, verdict: &mut Verdict) {
    let named = plugin.item.texts("protocols");
    let is_http = |name: &&str| ["http", "https", "grpc", "grpcs", "ws", "wss"].contains(name);
    if !named.is_empty() && !named.iter().any(is_http) {
        verdict.nearly("`protocols`: in Kong the plugin runs for no request");
    }
}

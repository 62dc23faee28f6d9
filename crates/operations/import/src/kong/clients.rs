//! The clients for which plugins run. A plugin for one consumer or consumer group takes its clients from the plugins with the same name
//! and a lower precedence.

use std::collections::{BTreeSet, HashMap};

use serde_json::{Map, Value as Json, json};

use super::converter::Converter;
use super::entities::{PluginInstance, Scope};
use super::fields::{self, Verdict};
use super::plugin_fields::{self, Support};
use super::tree::{Item, Mistakes};

/// Plugins that become nothing but policies, so that they can be restricted to some clients.
const CONDITIONAL: [&str; 9] = [
    "acl",
    "ip-restriction",
    "oas-validation",
    "rate-limiting",
    "rate-limiting-advanced",
    "request-transformer",
    "request-transformer-advanced",
    "response-transformer",
    "response-transformer-advanced",
];

/// The clients for which a plugin runs on a route.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct PluginClients {
    /// The clients for which it runs, or `None` for all clients.
    these: Option<BTreeSet<String>>,
    except: BTreeSet<String>,
}

impl PluginClients {
    /// True if it is for some clients by their names.
    pub(super) fn are_named(&self) -> bool {
        self.these.is_some()
    }

    /// The policy for these clients only.
    pub(super) fn limit(&self, policy: Json) -> Json {
        if self.these.is_none() && self.except.is_empty() {
            return policy;
        }
        let mut keys = Map::new();
        if let Some(these) = &self.these {
            keys.insert("subjects".to_owned(), json!(these));
        }
        if !self.except.is_empty() {
            keys.insert("except".to_owned(), json!({ "subjects": self.except }));
        }
        keys.insert("policy".to_owned(), policy);
        json!({ "for": keys })
    }
}

/// The position of a scope in the order in which Kong looks for the instance of a plugin to run. It runs the first that fits.
fn precedence(scope: Scope) -> usize {
    let Scope { consumer, group, route, service } = scope;
    let has = (consumer.is_some(), group.is_some(), route.is_some(), service.is_some());
    let order = [
        (true, false, true, true),
        (false, true, true, true),
        (true, false, true, false),
        (true, false, false, true),
        (false, true, true, false),
        (false, true, false, true),
        (false, false, true, true),
        (true, false, false, false),
        (false, true, false, false),
        (false, false, true, false),
        (false, false, false, true),
    ];
    order.iter().position(|one| *one == has).unwrap_or(order.len())
}

impl Converter<'_> {
    /// True if a plugin of a consumer or a group has a counterpart, as far as its fields tell.
    pub(super) fn is_conditional(&self, plugin: &PluginInstance) -> bool {
        let row = plugin_fields::row(&plugin.name);
        let Some(Support::Fields(table)) = row.map(|row| row.support) else { return false };
        let (mut verdict, mut mistakes) = (Verdict::default(), Mistakes::default());
        fields::check_config(&plugin.config, table, &mut mistakes, &mut verdict);
        CONDITIONAL.contains(&plugin.name.as_str()) && !verdict.is_refused()
    }

    /// The names of the members of each consumer group.
    pub(super) fn members(&mut self) -> HashMap<usize, BTreeSet<String>> {
        let all = self.all;
        let mut members: HashMap<usize, BTreeSet<String>> = HashMap::new();
        let named = |item: &Item| {
            let name =
                ["username", "name", "custom_id", "id"].iter().find_map(|key| item.text(key));
            item.scalar().or(name).map(str::to_owned)
        };
        for consumer in &all.consumers {
            for group in consumer.item.list("groups") {
                let name = named(group);
                let is_it = |entity: &super::entities::Entity| {
                    name.is_some()
                        && (Some(entity.name.as_str()) == name.as_deref()
                            || entity.item.text("id") == name.as_deref())
                };
                match all.groups.iter().position(is_it) {
                    Some(at) => drop(members.entry(at).or_default().insert(consumer.name.clone())),
                    None => self.mistakes.add(group.at, "there is no such consumer group"),
                }
            }
        }
        for (at, group) in all.groups.iter().enumerate() {
            for consumer in group.item.list("consumers") {
                let name = named(consumer);
                let is_it = |entity: &&super::entities::Entity| {
                    let item = &entity.item;
                    let known =
                        [Some(entity.name.as_str()), item.text("id"), item.text("custom_id")];
                    name.is_some() && known.contains(&name.as_deref())
                };
                match all.consumers.iter().find(is_it) {
                    Some(found) => drop(members.entry(at).or_default().insert(found.name.clone())),
                    None => self.mistakes.add(consumer.at, "there is no such consumer"),
                }
            }
        }
        members
    }

    /// The clients of a scope, or `None` for all clients.
    fn clients_of(&self, scope: Scope) -> Option<BTreeSet<String>> {
        let of_group = scope.group.map(|group| {
            // Harmless: a group without members has none.
            self.members.get(&group).cloned().unwrap_or_default()
        });
        let consumer = scope.consumer.and_then(|consumer| self.all.consumers.get(consumer));
        consumer.map(|consumer| BTreeSet::from([consumer.name.clone()])).or(of_group)
    }

    /// The plugins that run on a route, with the clients of each. `on` are those for all clients, `theirs` those of one consumer or
    /// group.
    pub(super) fn with_clients(
        &self,
        on: &[usize],
        theirs: &[usize],
        route: usize,
        service: Option<usize>,
    ) -> Vec<(usize, PluginClients)> {
        let all = self.all;
        let of_client = |plugin: &PluginInstance| {
            let Scope { consumer, group, route: wanted, service: of } = plugin.scope;
            (consumer.is_some() || group.is_some())
                && plugin.item.is_true("enabled", true)
                && wanted.is_none_or(|wanted| wanted == route)
                && of.is_none_or(|of| service == Some(of))
        };
        let known = |at: &usize| Some((*at, all.plugins.get(*at)?));
        // Harmless: each index is that of a plugin.
        let theirs = theirs.iter().filter_map(known).filter(|(_, plugin)| of_client(plugin));
        // Harmless: each index is that of a plugin, as above.
        let general = on.iter().filter_map(known);
        let mut running: Vec<(usize, &PluginInstance)> = general.chain(theirs).collect();
        running.sort_by_key(|(_, plugin)| precedence(plugin.scope));
        let mut taken: HashMap<&str, (BTreeSet<String>, bool)> = HashMap::new();
        let mut found = Vec::new();
        for (at, plugin) in running {
            let (except, all_taken) = taken.entry(&plugin.name).or_default();
            if *all_taken {
                continue;
            }
            let these = self.clients_of(plugin.scope);
            if these.as_ref().is_some_and(BTreeSet::is_empty) {
                continue;
            }
            found.push((at, PluginClients { these: these.clone(), except: except.clone() }));
            match these {
                Some(these) => except.extend(these),
                None => *all_taken = true,
            }
        }
        found
    }
}

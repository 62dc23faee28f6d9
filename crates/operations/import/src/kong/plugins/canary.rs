//! `canary` and `mocking`: requests that the service of the route does not get.

use std::time::Duration;

use serde_json::{Map, Value as Json, json};

use super::super::converter::Converter;
use super::super::entities::PluginInstance;
use super::super::fields::Verdict;
use super::super::tree::Item;
use super::RouteEffect;

/// The last second that has a year of four digits.
const YEAR_9999: f64 = 253_402_300_799.0;

impl Converter<'_> {
    pub(super) fn canary(
        &mut self,
        plugin: &PluginInstance,
        made: &mut RouteEffect,
        verdict: &mut Verdict,
    ) {
        let config = &plugin.config;
        let chooses = ["start", "canary_by_header_name", "groups"];
        let chooses =
            chooses.iter().any(|key| config.get(key).is_some_and(|item| !item.is_empty()));
        if config.number("percentage") == Some(0.0) && !chooses {
            // No request goes to the other version.
            return;
        }
        let Some(upstream) = self.other_version(plugin, verdict) else { return };
        let mut keys = Map::new();
        keys.insert("upstream".to_owned(), json!(upstream));
        let percentage = config.number("percentage").unwrap_or(0.0);
        if !(0.0..=100.0).contains(&percentage) {
            self.mistakes.add(config.place_of("percentage"), "`percentage` must be 0 to 100");
            return;
        }
        match config.number("start") {
            None => drop(keys.insert("percent".to_owned(), json!(percentage))),
            // With `start` Kong ignores `percentage`, and raises the share until all requests go to the other version.
            Some(start) => {
                let start = kit::calendar::rfc3339(Duration::from_secs_f64(start.min(YEAR_9999)));
                let over = format!("{}s", config.number("duration").unwrap_or(3_600.0).max(1.0));
                keys.insert("percent".to_owned(), json!(100));
                keys.insert("ramp".to_owned(), json!({ "start": start, "over": over }));
            }
        }
        let groups = config.texts("groups");
        match config.text("hash").unwrap_or("consumer") {
            "none" => {}
            "ip" => drop(keys.insert("by".to_owned(), json!("client"))),
            rule @ ("allow" | "deny") => {
                keys.insert("groups".to_owned(), json!({ rule: groups }));
            }
            "header" => match config.text("hash_header") {
                Some(name) => drop(keys.insert("by".to_owned(), json!(format!("header:{name}")))),
                None => self.mistakes.add(config.at, "`hash: header` needs `hash_header`"),
            },
            _ => drop(keys.insert("by".to_owned(), json!("subject"))),
        }
        verdict.nearly("which clients are chosen differs from Kong, and stays as long");
        if let Some(name) = config.text("canary_by_header_name") {
            keys.insert("header".to_owned(), json!(name));
        }
        made.policies.push(json!({ "canary": keys }));
    }

    /// The upstream of the other version: that of the service, with another target.
    fn other_version(&mut self, plugin: &PluginInstance, verdict: &mut Verdict) -> Option<String> {
        let config = &plugin.config;
        let all = self.all;
        let parent = plugin.scope.route.and_then(|route| all.routes.get(route)?.parent);
        let service = plugin.scope.service.or(parent);
        let end = service.and_then(|service| self.ends.get(service)).cloned();
        let Some(own) = end.and_then(|end| end.upstream) else {
            verdict.refuse("Tidegate has no canary of all services");
            return None;
        };
        let host = config.text("upstream_host");
        if let Some(host) = host.filter(|host| all.upstreams.iter().any(|pool| pool.name == **host))
        {
            self.named_pools.push(host.to_owned());
            return Some(host.to_owned());
        }
        let mut keys = self.out.upstreams.get(&own).and_then(Json::as_object).cloned()?;
        let first = keys.get("targets").and_then(|targets| targets.get(0)).and_then(Json::as_str);
        let (scheme, authority) = first.and_then(|url| url.split_once("://"))?;
        let (known_host, known_port) = authority.rsplit_once(':').unwrap_or((authority, "80"));
        let port = config.text("upstream_port").unwrap_or(known_port);
        let target = format!("{scheme}://{}:{port}", host.unwrap_or(known_host));
        if host.is_none() && config.get("upstream_port").is_none() {
            self.mistakes.add(config.at, "a canary needs `upstream_host` or `upstream_port`");
            return None;
        }
        keys.insert("targets".to_owned(), json!([target]));
        let name = self.out.fresh("upstream", &format!("{own}-canary"));
        self.out.upstreams.insert(name.clone(), Json::Object(keys));
        let what = (self.plugin_title(plugin), plugin.item.at);
        self.origins.insert(("upstreams".to_owned(), name.clone()), what);
        Some(name)
    }

    pub(super) fn mocking(&mut self, config: &Item, made: &mut RouteEffect, verdict: &mut Verdict) {
        let Some(text) = config.text("api_specification") else {
            self.mistakes.add(config.at, "a mocking without `api_specification`");
            return;
        };
        let file = self.document(text);
        let mut keys = Map::new();
        keys.insert("document".to_owned(), json!(file));
        if config.is_true("random_examples", false) {
            keys.insert("examples".to_owned(), json!("random"));
        }
        let statuses = config.texts("included_status_codes");
        // Harmless: a value that is not a status never occurs.
        let statuses: Vec<u64> = statuses.iter().filter_map(|status| status.parse().ok()).collect();
        if !statuses.is_empty() {
            keys.insert("statuses".to_owned(), json!(statuses));
        }
        if let Some(base) = config.text("custom_base_path") {
            keys.insert("base_path".to_owned(), json!(base));
        }
        verdict.nearly("a status without an example is not chosen, and a method that is not in the document is 405");
        let shown = json!({ "set": { "x-kong-mocking-plugin": "true" } });
        made.policies.push(json!({ "headers": { "response": shown } }));
        made.policies.push(json!({ "mock": keys }));
        made.answers = true;
    }
}

//! State shared by all conversions, and their order.

use std::collections::{BTreeSet, HashMap};

use super::Options;
use super::entities::Entities;
use super::fields::{self, Field, Verdict};
use super::output::Output;
use super::recheck::PolicyOrigin;
use super::tree::{FilePosition, Item, Mistakes};
use crate::table::{Outcome, Table};

/// The conversion of one set of files.
pub(super) struct Converter<'a> {
    pub(super) all: &'a Entities,
    pub(super) mistakes: &'a mut Mistakes,
    pub(super) table: Table,
    pub(super) out: Output,
    /// The entity from which an entry was made, by the section and the entry's name.
    pub(super) origins: HashMap<(String, String), (String, FilePosition)>,
    /// The plugin from which each policy of a route was made.
    pub(super) policies: HashMap<String, Vec<PolicyOrigin>>,
    /// Hosts in plugins, some of which may be Kong upstreams.
    pub(super) named_pools: Vec<String>,
    /// The names of the members of consumer groups.
    pub(super) members: HashMap<usize, BTreeSet<String>>,
    /// True if an upstream or a plugin uses the groups matched in paths.
    pub(super) names_captures: bool,
    /// The result for each service.
    pub(super) ends: Vec<ServiceEnd>,
    /// The address for metrics.
    pub(super) listen_metrics: String,
}

/// The properties of a service that its routes need.
#[derive(Debug, Clone, Default)]
pub(super) struct ServiceEnd {
    /// The name of its upstream here, or `None` if no requests can be sent to it.
    pub(super) upstream: Option<String>,
    /// The path of the service, without a slash at its end.
    pub(super) base: String,
    /// True if the path of the service has a slash at its end, and more before it.
    pub(super) has_last_slash: bool,
    /// The Host that is sent if the route does not preserve the client's.
    pub(super) host: String,
    pub(super) enabled: bool,
}

impl<'a> Converter<'a> {
    pub(super) fn new(all: &'a Entities, mistakes: &'a mut Mistakes) -> Converter<'a> {
        Converter {
            all,
            mistakes,
            table: Table::default(),
            out: Output::default(),
            origins: HashMap::new(),
            policies: HashMap::new(),
            named_pools: Vec::new(),
            ends: Vec::new(),
            listen_metrics: String::new(),
            members: HashMap::new(),
            names_captures: names_captures(all),
        }
    }

    pub(super) fn all(&mut self, options: &Options) {
        self.others();
        self.listeners(&options.listen, &options.listen_tls);
        self.listen_metrics.clone_from(&options.listen_metrics);
        let pools = self.pools();
        self.ends = self.services(&pools);
        self.members = self.members();
        let blocked = self.blocked();
        let people = self.people(&blocked);
        let (scopes, plugins) = self.plugins(&people);
        self.add_named_pools(&pools);
        let services = std::mem::take(&mut self.ends);
        self.routes(&services, &scopes, &plugins);
    }

    /// Entities that have no counterpart.
    fn others(&mut self) {
        let all = self.all;
        for (kind, item) in &all.others {
            let mut verdict = Verdict::default();
            verdict.refuse(match kind.as_str() {
                "keys" | "key_sets" => "Tidegate does not use `keys` and `key_sets`",
                "partials" => "Tidegate does not read partials",
                "filter_chains" => "Tidegate does not run WebAssembly filters",
                "rbac_roles" | "rbac_endpoint_permissions" => {
                    "Tidegate has no roles of Kong's operators"
                }
                "licenses" => "Tidegate needs no licence of Kong",
                _ => "Tidegate has no entities of this kind",
            });
            let name = ["name", "id"].iter().find_map(|key| item.text(key));
            let what = name.map_or_else(|| kind.clone(), |name| format!("{kind} {name}"));
            self.row(&what, item, verdict);
        }
        for vault in &all.vaults {
            let mut verdict = self.checked(&vault.item, fields::VAULT);
            if vault.item.text("name") != Some("env") {
                verdict.refuse("Tidegate reads values from the environment and from files only");
            }
            self.row(&format!("vault {}", vault.name), &vault.item, verdict);
        }
    }

    /// Checks the fields of an entity against their table.
    pub(super) fn checked(&mut self, item: &Item, table: &[Field]) -> Verdict {
        let mut verdict = Verdict::default();
        fields::check(item, table, self.mistakes, &mut verdict);
        verdict
    }

    /// Adds the row of an entity.
    pub(super) fn row(&mut self, what: &str, item: &Item, verdict: Verdict) {
        let place = self.mistakes.position(item.at);
        let outcome = verdict.outcome.unwrap_or(Outcome::Converted);
        self.table.add(outcome, what, place, &verdict.notes.join("; "));
    }
}

/// True if something uses the groups matched in paths, by name.
fn names_captures(all: &Entities) -> bool {
    let hashes = |item: &Item| {
        ["hash_on", "hash_fallback"].iter().any(|key| item.text(key) == Some("uri_capture"))
    };
    all.upstreams.iter().any(|upstream| hashes(&upstream.item))
        || all.plugins.iter().any(|plugin| {
            let config = &plugin.config;
            let of_path = |item: &Item| item.text("in") == Some("path");
            config.mentions("uri_captures") || config.list("parameter_schema").iter().any(of_path)
        })
}

//! Files of Kong's and decK's declarative configuration, formats 1.1 to 3.0, turned into a configuration.
//!
//! Owns the counterpart of each entity, credential and plugin, by one table of their fields. Each has a row: converted, approximated with
//! the difference, or refused with the reason. The routes of a refused guard answer 503. Values in the files are literal. The import
//! downloads nothing. What Kong or decK would not load is a mistake with its place.

mod alternatives;
mod certificates;
mod clients;
mod consumers;
mod converter;
mod criteria;
mod entities;
mod expression;
mod fields;
mod limit_fields;
mod order;
mod output;
mod overlap;
mod plugin_fields;
mod plugins;
mod ranks;
mod recheck;
mod routes;
mod telemetry_fields;
mod tree;
mod upstreams;

use std::collections::HashMap;

use converter::Converter;
use recheck::PolicyOrigin;
use serde_json::Value as Json;
use tree::{Mistakes, Variables};

use crate::table::{ArtifactPosition, Table};

/// The options of an import.
#[derive(Debug, Clone)]
pub struct Options {
    /// Only entities with all of these tags are converted.
    pub select_tags: Vec<String>,
    /// Whether `$NAME` and `${NAME}` are variables of the environment, as for `envsubst`.
    pub shell_variables: bool,
    /// The address for plain HTTP.
    pub listen: String,
    /// The address for HTTPS, if there is a certificate.
    pub listen_tls: String,
    /// The address for metrics, if the files have `prometheus`.
    pub listen_metrics: String,
}

/// A file, with its name for rows and mistakes.
#[derive(Debug, Clone)]
pub struct Source {
    pub name: String,
    pub text: String,
}

/// The result of an import.
#[derive(Debug)]
pub struct KongImport {
    /// A whole configuration, as YAML.
    pub configuration: String,
    /// Files to which it refers, by their relative paths.
    pub files: Vec<(String, Vec<u8>)>,
    /// The outcome of each part.
    pub table: Table,
    /// Values for the variables of the environment that it names, with which it can be checked.
    pub stand_ins: HashMap<String, String>,
    whole: Json,
    /// The entity from which each entry of a section was made.
    origins: HashMap<(String, String), (String, ArtifactPosition)>,
    policies: HashMap<String, Vec<PolicyOrigin>>,
}

/// Reads the files as one configuration. `environment` has the values of variables. The error has all mistakes with their places.
pub fn import(
    sources: &[Source],
    options: &Options,
    environment: HashMap<String, String>,
) -> Result<KongImport, Vec<String>> {
    let mut mistakes = Mistakes::default();
    let mut variables = Variables {
        known: environment,
        stand_ins: HashMap::new(),
        of_shell: options.shell_variables,
    };
    let mut files = Vec::new();
    for source in sources {
        // `read` reports a file that it cannot read.
        files.extend(mistakes.read(&source.name, &source.text, &mut variables));
    }
    let all = entities::merge(&files, &options.select_tags, &mut mistakes);
    let mut converter = Converter::new(&all, &mut mistakes);
    converter.all(options);
    let Converter { table, out, origins, policies, .. } = converter;
    if !mistakes.is_empty() {
        return Err(mistakes.lines());
    }
    let origins = origins.into_iter().map(|(key, (what, at))| (key, (what, mistakes.position(at))));
    let mut made = KongImport {
        configuration: String::new(),
        whole: out.configuration(),
        files: out.files,
        table,
        stand_ins: variables.stand_ins,
        origins: origins.collect(),
        policies,
    };
    made.write();
    Ok(made)
}

impl KongImport {
    fn write(&mut self) {
        self.configuration = crate::yaml(&self.whole);
    }
}

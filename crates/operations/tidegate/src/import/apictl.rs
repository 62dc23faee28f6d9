//! `tidegate import apictl`.

use std::collections::HashMap;
use std::process::ExitCode;

use ::import::apictl::{ApiProject, Environment, Project};
use ::import::{ArtifactPosition, Outcome, Row, Table};
use anyhow::{Context as _, anyhow};
use catalog::offline::{OfflineApi, of_project};
use serde_json::{Map, Value as Json, json};

use super::{Imported, finish, refuse_unusable};
use crate::catalog_arguments::ImportApictl;

/// The maximum size of a file of parameters.
const PARAMS_BYTES_MAX: u64 = 1 << 20;

/// The issuer of tokens, which a project does not name.
const ISSUER: &str = "main";

/// Files that are not read, by the beginning of their paths, each with the reason or with what to do instead.
const FILES: [(&str, &str); 8] = [
    ("Docs/", "documents belong to a portal, not to a gateway"),
    ("Image/", "an image belongs to a portal, not to a gateway"),
    ("api_meta.yaml", "it is for apictl"),
    ("Policies/", "mediation policies are not supported"),
    ("Endpoint-certificates/", "write `tls: { ca }` into the upstream"),
    ("Client-certificates/", "write `mutual_tls` into the API's policies"),
    ("Sequences/", "`tidegate import synapse` reads sequences"),
    ("Definitions/schema.graphql", "GraphQL is not supported"),
];

pub(super) fn import(options: &ImportApictl) -> anyhow::Result<ExitCode> {
    let project = Project::read(&options.path).map_err(|why| anyhow!(why))?;
    let params = options.params.as_ref().map(|file| {
        let shown = file.display().to_string();
        let text = config::read_text(file, PARAMS_BYTES_MAX);
        text.map(|text| (shown.clone(), text))
            .map_err(|why| anyhow!("cannot read `{shown}`: {why}"))
    });
    let params = params.transpose()?;
    let variables = std::env::vars_os();
    // Harmless: a name or a value that is not text cannot occur in a file.
    let variables = variables
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let environment = Environment {
        name: options.environment.as_deref(),
        params: params.as_ref().map(|(name, text)| (name.as_str(), text.as_bytes())),
        variables: variables.collect(),
    };
    let shown = options.path.display().to_string();
    let mistakes = |all: Vec<String>| anyhow!(all.join("\n"));
    let api = project.api(&environment).map_err(mistakes).context(shown.clone())?;
    let offline = of_project(&api, ISSUER).map_err(mistakes).context(shown)?;
    let imported = Imported {
        configuration: ::import::yaml(&configuration(&offline)),
        files: offline.files.clone(),
        stand_ins: HashMap::new(),
    };
    let checked = refuse_unusable(imported, |_| None)?;
    finish(checked, &table(&api, &offline), options.into.as_deref())
}

/// A whole configuration.
fn configuration(offline: &OfflineApi) -> Json {
    let upstreams = offline.configuration.get("upstreams").and_then(Json::as_object);
    // Harmless: an upstream without targets has no address.
    let targets =
        upstreams.into_iter().flatten().filter_map(|(_, one)| one.get("targets")?.as_array());
    // Harmless: each target has a URL.
    let targets: Vec<&str> = targets.flatten().filter_map(Json::as_str).collect();
    let mut all = Map::new();
    let address = ::import::listen_beside(targets);
    all.insert("listen".to_owned(), json!({ "public": { "address": address } }));
    if !is_refused(offline) {
        let issuer = json!({
            "issuer": "https://idp.example",
            "jwks": "https://idp.example/jwks.json",
            "application": "azp",
        });
        all.insert("issuers".to_owned(), json!({ ISSUER: issuer }));
    }
    if offline.configuration.get("hubs").is_some() {
        all.insert("store".to_owned(), json!({ "path": "var/tidegate" }));
    }
    // Harmless: the configuration of an API is an object.
    all.extend(offline.configuration.as_object().cloned().into_iter().flatten());
    Json::Object(all)
}

/// True if the API answers with a fixed reply.
fn is_refused(offline: &OfflineApi) -> bool {
    let routes = offline.configuration.get("routes").and_then(Json::as_object);
    // Harmless: without routes there is no such reply.
    routes.into_iter().flatten().any(|(_, route)| route.get("respond").is_some())
}

fn table(api: &ApiProject, offline: &OfflineApi) -> Table {
    let mut table = Table::default();
    let mut add = |outcome: Outcome, what: String, place: ArtifactPosition, note: &str| {
        table.rows.push(Row { outcome, what, place, note: note.to_owned() });
    };
    let kind = offline.kind();
    let name = &offline.name;
    let guarded = offline.unsupported.iter().any(|one| one.guards);
    let (outcome, note) = match (guarded, is_refused(offline)) {
        (true, _) => {
            (Outcome::Refused, "it answers 503, since a policy that protects it was refused")
        }
        (false, true) => (Outcome::Converted, "an API in this state does not serve requests"),
        (false, false) => (Outcome::Converted, ""),
    };
    add(outcome, format!("{kind} API {name}"), api.place(&["name"]), note);
    let operations = offline.dto.get("operations").and_then(Json::as_array);
    // Harmless: the check of a definition adds operations if there are none.
    for (at, operation) in operations.into_iter().flatten().enumerate() {
        let text = |key: &str| operation.get(key).and_then(Json::as_str).unwrap_or("");
        let what = format!("{} {}", text("verb"), text("target"));
        add(outcome, what, api.place(&["operations", &at.to_string()]), note);
    }
    if !is_refused(offline) {
        let note = "the project does not name the issuer of its tokens: replace `https://idp.example` in `issuers`; `applications` lists the subscribers";
        add(Outcome::Approximated, "issuers".to_owned(), api.place(&["securityScheme"]), note);
    }
    for one in &offline.unsupported {
        let keys: Vec<&str> = one.at.iter().map(String::as_str).collect();
        add(Outcome::Refused, one.at.join("."), api.place(&keys), one.why);
    }
    for file in &api.unread {
        let why = FILES.iter().find(|(begin, _)| file.starts_with(begin));
        let why = why.map_or("it is not supported here", |(_, why)| why);
        let place = ArtifactPosition { file: file.clone(), line: 1, column: 1 };
        add(Outcome::Refused, "file".to_owned(), place, why);
    }
    table
}

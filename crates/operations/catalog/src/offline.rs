//! The configuration for an API of a project, for a gateway without a catalog.

use import::apictl::ApiProject;
use serde_json::{Value, json};

use crate::api_kind::kind;
use crate::definition::{Site, check_all};
use crate::objects::{ApiState, config_name, text};
use crate::unsupported::{self, Unsupported};
use crate::{bundle, imports};

/// The configuration of an API.
#[derive(Debug)]
pub struct OfflineApi {
    /// Its name and version.
    pub name: String,
    /// The definition with all defaults.
    pub dto: Value,
    /// Routes, upstreams, APIs and hubs.
    pub configuration: Value,
    /// Files that the configuration refers to.
    pub files: Vec<(String, Vec<u8>)>,
    pub unsupported: Vec<Unsupported>,
}

/// Makes the configuration of a project's API, which accepts tokens of this issuer, or returns all errors. A retired API answers each
/// request with 404. An API with an unsupported part that restricts access answers with 503.
pub fn of_project(project: &ApiProject, issuer: &str) -> Result<OfflineApi, Vec<String>> {
    let (site, mut dto) = (Site::offline(vec![issuer]), project.dto.clone());
    let mut wrong = imports::prepare(&mut dto, project.document.as_ref());
    wrong.extend(check_all(&mut dto, &site));
    let word = text(&dto, "lifeCycleStatus").to_ascii_uppercase();
    let state = match word.as_str() {
        "" => Some(ApiState::Created),
        word => ApiState::read(word),
    };
    let Some(state) = state.filter(|_| wrong.is_empty()) else {
        if state.is_none() {
            wrong.push(format!("lifeCycleStatus {word:?} is not supported"));
        }
        return Err(wrong);
    };
    let mut unsupported = unsupported::list(&dto);
    let schemes = crate::objects::texts(dto.get("securityScheme"));
    if schemes.iter().any(|scheme| scheme == "api_key") {
        unsupported.push(Unsupported {
            at: vec!["securityScheme".to_owned()],
            why: "API keys need a catalog, and this gateway has none",
            guards: schemes.iter().all(|scheme| scheme != "oauth2"),
        });
    }
    let document = project.document.as_ref();
    let mut files = bundle::files(&dto, document, state, &site);
    let (_, configuration) = files.remove(0);
    let mut configuration = serde_json::from_slice(&configuration).unwrap_or(Value::Null);
    if state == ApiState::Retired || unsupported.iter().any(|one| one.guards) {
        let status = if state == ApiState::Retired { 404 } else { 503 };
        configuration = refused(&dto, status);
        files.clear();
    }
    Ok(OfflineApi { name: config_name(&dto), dto, configuration, files, unsupported })
}

/// An API that always answers with this status.
fn refused(dto: &Value, status: u16) -> Value {
    let route = json!({
        "match": { "path": format!("{}/**", crate::objects::context(dto)) },
        "respond": { "status": status },
    });
    json!({ "routes": { config_name(dto): route } })
}

impl OfflineApi {
    /// The type of the API: HTTP, SOAP, SOAPTOREST, SSE, WS or WEBSUB.
    pub fn kind(&self) -> &str {
        kind(&self.dto)
    }
}

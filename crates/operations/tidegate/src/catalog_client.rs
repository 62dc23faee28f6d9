//! `tidegate catalog`: APIs, applications, subscriptions and tokens of a running catalog.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::ask::{self, AdminRequest, Answer, Gateway, NO_ACCESS};
use crate::catalog_arguments::{CatalogAccess, CatalogCommand};
use crate::log;

/// The longest wait for an answer. Checking a password takes a while.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// The number of items on one page. The catalog allows no more.
const PAGE: usize = 1000;

/// The maximum number of pages of one list.
const PAGES_MAX: usize = 10_000;

const USER: &str = "TIDEGATE_CATALOG_USER";
const PASSWORD: &str = "TIDEGATE_CATALOG_PASSWORD";

/// The catalog, with the credentials of one user.
struct Catalog {
    gateway: Gateway,
    json: bool,
}

/// Why a command failed.
enum CommandFailure {
    /// There was no answer from the catalog.
    Away(anyhow::Error),
    /// The catalog refused, or an object does not exist.
    Refused { why: String, forbidden: bool },
}

type Done<T> = Result<T, CommandFailure>;

pub(crate) fn catalog(access: &CatalogAccess, what: &CatalogCommand) -> anyhow::Result<ExitCode> {
    let authorization = authorization(access)?;
    let gateway = Gateway::as_user(&access.catalog, authorization, access.ca.clone(), ANSWER_MAX)?;
    let catalog = Catalog { gateway, json: access.json };
    let done = match what {
        CatalogCommand::Apis { query, all } => catalog.apis(query.as_deref(), *all),
        CatalogCommand::Applications { query } => catalog.applications(query.as_deref()),
        CatalogCommand::Subscribe { application, api, plan } => {
            catalog.subscribe(application, api, plan.as_deref())
        }
        CatalogCommand::Token { application, sandbox, scopes, generate } => {
            let kind = if *sandbox { "SANDBOX" } else { "PRODUCTION" };
            catalog.token(application, kind, scopes, *generate)
        }
    };
    match done {
        Ok(text) => {
            log::write_out(text.trim_end())?;
            Ok(ExitCode::SUCCESS)
        }
        Err(CommandFailure::Away(why)) => Ok(ask::report_no_access(&why)),
        Err(CommandFailure::Refused { why, forbidden }) => {
            log::say_error(&why);
            Ok(if forbidden { ExitCode::from(NO_ACCESS) } else { ExitCode::FAILURE })
        }
    }
}

/// Returns the value of `Authorization`, or `None` if neither a user nor a token is given.
fn authorization(access: &CatalogAccess) -> anyhow::Result<Option<String>> {
    if let Some(token) = &access.token {
        return Ok(Some(format!("Bearer {token}")));
    }
    // Harmless: the variables are optional.
    let variable = |name: &str| std::env::var(name).ok();
    let Some(user) = access.user.clone().or_else(|| variable(USER)) else { return Ok(None) };
    let (name, written) = match user.split_once(':') {
        Some((name, password)) => (name, Some(password.to_owned())),
        None => (user.as_str(), None),
    };
    let password = access.password.clone().or(written).or_else(|| variable(PASSWORD));
    let Some(password) = password else {
        bail!("the user {name} needs a password: write --password, or set {PASSWORD}");
    };
    Ok(Some(format!("Basic {}", STANDARD.encode(format!("{name}:{password}")))))
}

impl Catalog {
    fn apis(&self, query: Option<&str>, all: bool) -> Done<String> {
        let apis = self.all_apis(query, all)?;
        let columns = ["NAME", "VERSION", "CONTEXT", "TYPE", "STATE", "PLANS"];
        let row = |api: &Value| {
            let cell = |key: &str| text(api, key);
            vec![
                cell("name"),
                cell("version"),
                cell("context"),
                cell("type"),
                cell("lifeCycleStatus"),
                plans(api).join(", "),
            ]
        };
        self.shown(&apis, &columns, row)
    }

    fn all_apis(&self, query: Option<&str>, all: bool) -> Done<Vec<Value>> {
        let portal = if all { "publisher/v4" } else { "devportal/v3" };
        self.list(&format!("/api/am/{portal}/apis"), query)
    }

    fn applications(&self, query: Option<&str>) -> Done<String> {
        let all = self.list("/api/am/devportal/v3/applications", query)?;
        let columns = ["NAME", "ID", "PLAN", "OWNER", "SUBSCRIPTIONS"];
        let row = |application: &Value| {
            let cell = |key: &str| text(application, key);
            let count = application.get("subscriptionCount").and_then(Value::as_u64);
            vec![
                cell("name"),
                cell("applicationId"),
                cell("throttlingPolicy"),
                cell("owner"),
                count.map_or_else(String::new, |count| count.to_string()),
            ]
        };
        self.shown(&all, &columns, row)
    }

    fn subscribe(&self, application: &str, api: &str, plan: Option<&str>) -> Done<String> {
        let application = self.application(application)?;
        let api = self.api(api)?;
        let offered = plans(&api);
        let plan = match (plan, offered.as_slice()) {
            (Some(plan), _) => plan,
            (None, [only]) => only,
            (None, _) => {
                let offered = offered.join(", ");
                return Err(refused(format!("name a plan: the API offers {offered}")));
            }
        };
        let wish = json!({
            "apiId": text(&api, "id"),
            "applicationId": text(&application, "applicationId"),
            "throttlingPolicy": plan,
        });
        let made = self.post("/api/am/devportal/v3/subscriptions", &wish)?;
        let columns = ["SUBSCRIPTION", "APPLICATION", "API", "PLAN", "STATE"];
        let name = format!("{}:{}", text(&api, "name"), text(&api, "version"));
        let row = |made: &Value| {
            vec![
                text(made, "subscriptionId"),
                text(&application, "name"),
                name.clone(),
                text(made, "throttlingPolicy"),
                text(made, "status"),
            ]
        };
        if self.json { pretty(&made) } else { Ok(table(&columns, vec![row(&made)])) }
    }

    /// Returns only the token, for use by a shell. New keys are printed to standard error.
    fn token(
        &self,
        application: &str,
        kind: &str,
        scopes: &[String],
        generate: bool,
    ) -> Done<String> {
        let application = self.application(application)?;
        let at = format!(
            "/api/am/devportal/v3/applications/{}",
            part(&text(&application, "applicationId"))
        );
        let known = self.get(&format!("{at}/keys/{kind}"))?;
        let made = match known.status {
            404 if generate => Some(self.post(
                &format!("{at}/generate-keys"),
                &json!({ "keyType": kind, "grantTypesToBeSupported": ["client_credentials"] }),
            )?),
            404 => {
                let name = text(&application, "name");
                return Err(refused(format!(
                    "the application {name} has no keys of the type {kind}; --generate makes them"
                )));
            }
            _ => read(&known).map(|_| None)?,
        };
        let wish = json!({ "scopes": scopes });
        let mut token = self.post(&format!("{at}/keys/{kind}/generate-token"), &wish)?;
        if let (Some(made), Some(members)) = (&made, token.as_object_mut()) {
            for key in ["consumerKey", "consumerSecret"] {
                members.insert(key.to_owned(), json!(text(made, key)));
            }
        }
        if self.json {
            return pretty(&token);
        }
        if let Some(made) = made {
            let columns = ["CONSUMER KEY", "CONSUMER SECRET"];
            let row = vec![text(&made, "consumerKey"), text(&made, "consumerSecret")];
            log::say_error(table(&columns, vec![row]).trim_end());
        }
        Ok(text(&token, "accessToken"))
    }

    /// The application with this id or name.
    fn application(&self, wanted: &str) -> Done<Value> {
        let all = self.list("/api/am/devportal/v3/applications", None)?;
        let is_it =
            |one: &Value| text(one, "applicationId") == wanted || text(one, "name") == wanted;
        one_of(all.into_iter().filter(is_it).collect(), "application", wanted, |one| {
            format!("{} of {}", text(one, "applicationId"), text(one, "owner"))
        })
    }

    /// The published API with this id, name, or name and version.
    fn api(&self, wanted: &str) -> Done<Value> {
        let all = self.all_apis(None, false)?;
        let is_it = |one: &Value| {
            let (name, version) = (text(one, "name"), text(one, "version"));
            [text(one, "id"), format!("{name}:{version}"), name].iter().any(|known| known == wanted)
        };
        one_of(all.into_iter().filter(is_it).collect(), "API", wanted, |one| {
            format!("{}:{}", text(one, "name"), text(one, "version"))
        })
    }

    /// All items of a list, page by page.
    fn list(&self, path: &str, query: Option<&str>) -> Done<Vec<Value>> {
        let query = query.map(|query| format!("&query={}", part(query))).unwrap_or_default();
        let mut all = Vec::new();
        for _ in 0..PAGES_MAX {
            let target = format!("{path}?limit={PAGE}&offset={}{query}", all.len());
            let mut page = read(&self.get(&target)?)?;
            let items = match page.get_mut("list").map(Value::take) {
                Some(Value::Array(items)) => items,
                _ => return Err(refused("the answer is not a list of the catalog".to_owned())),
            };
            let is_last = items.len() < PAGE;
            all.extend(items);
            if is_last {
                return Ok(all);
            }
        }
        Err(refused(format!("the list has more than {} items", PAGE * PAGES_MAX)))
    }

    fn get(&self, path: &str) -> Done<Answer> {
        let request = format!("GET {path}");
        let request = AdminRequest { request: &request, ..AdminRequest::default() };
        self.gateway.ask(&request).map_err(CommandFailure::Away)
    }

    fn post(&self, path: &str, body: &Value) -> Done<Value> {
        let (request, body) = (format!("POST {path}"), body.to_string());
        let headers = [("Content-Type", "application/json")];
        let request = AdminRequest { request: &request, headers: &headers, body: body.as_bytes() };
        read(&self.gateway.ask(&request).map_err(CommandFailure::Away)?)
    }

    /// The items as JSON or as a table.
    fn shown(
        &self,
        items: &[Value],
        columns: &[&str],
        row: impl Fn(&Value) -> Vec<String>,
    ) -> Done<String> {
        if self.json {
            pretty(&json!(items))
        } else {
            Ok(table(columns, items.iter().map(row).collect()))
        }
    }
}

/// The content of a successful answer.
fn read(answer: &Answer) -> Done<Value> {
    let told = answer.json().map_err(CommandFailure::Away)?;
    if (200..300).contains(&answer.status) {
        return Ok(told);
    }
    let why = format!("{} {}", answer.status, text(&told, "description"));
    Err(CommandFailure::Refused { why, forbidden: answer.is_forbidden() })
}

fn refused(why: String) -> CommandFailure {
    CommandFailure::Refused { why, forbidden: false }
}

/// The only match, or an error.
fn one_of(
    mut found: Vec<Value>,
    kind: &str,
    wanted: &str,
    said: impl Fn(&Value) -> String,
) -> Done<Value> {
    match (found.pop(), found.is_empty()) {
        (Some(one), true) => Ok(one),
        (Some(one), false) => {
            let all: Vec<String> = found.iter().chain([&one]).map(said).collect();
            let all = all.join(", ");
            Err(refused(format!("several {kind}s match {wanted:?}: {all}")))
        }
        (None, _) => Err(refused(format!("there is no {kind} {wanted:?}"))),
    }
}

/// The plans of an API.
fn plans(api: &Value) -> Vec<String> {
    let listed =
        ["throttlingPolicies", "policies"].iter().find_map(|key| api.get(*key)?.as_array());
    // Harmless: an API without a list offers no plan, and a plan is a text.
    listed.into_iter().flatten().filter_map(|plan| plan.as_str().map(str::to_owned)).collect()
}

/// The text of a member. Empty if it is absent.
fn text(of: &Value, key: &str) -> String {
    // Harmless: it is only shown, or compared with what the user wrote.
    of.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn pretty(value: &Value) -> Done<String> {
    serde_json::to_string_pretty(value).map_err(|error| CommandFailure::Away(error.into()))
}

/// Formats columns with the width of their widest cell. Terminal control characters are replaced.
fn table(columns: &[&str], rows: Vec<Vec<String>>) -> String {
    let shown = |cell: &str| -> String {
        cell.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
    };
    let head = columns.iter().map(|column| (*column).to_owned()).collect();
    let rows: Vec<Vec<String>> = std::iter::once(head)
        .chain(rows)
        .map(|row: Vec<String>| row.iter().map(|cell| shown(cell)).collect())
        .collect();
    let width = |at: usize| {
        rows.iter()
            // Harmless: a row has a cell for each column.
            .filter_map(|row| row.get(at))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let line = |row: &Vec<String>| {
        // Harmless: a row has a cell for each column.
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Escapes a name for a path or a query.
fn part(name: &str) -> String {
    kit::percent::encoded(name.as_bytes(), b"")
}

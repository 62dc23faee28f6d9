//! The publisher's interface: APIs, their revisions, deployment and lifecycle, and their subscriptions.

use axum::http::Method;
use serde_json::{Value, json};

use crate::Catalog;
use crate::definition::{self, Site};
use crate::http::{
    Answer, CatalogRequest, Refusal, check_match, created, done, list, list_of, ok, tagged,
};
use crate::objects::{Api, ApiState, Application, Revision, Subscription, SubscriptionState};
use crate::publishing::{
    CREATE, PUBLISH, REVISIONS_MAX, VIEW, api, create, deployment, too_many_revisions, whole,
};
use crate::{endpoints, ids, imports, plans};

const SUBSCRIPTIONS: [&str; 4] =
    ["apim:subscription_view", "apim:subscription_manage", "apim:subscription_block", "apim:admin"];

pub(crate) async fn answer(catalog: &Catalog, asked: &CatalogRequest, path: &[&str]) -> Answer {
    let method = &asked.method;
    match (method, path) {
        (&Method::GET, ["apis"]) => {
            catalog.visitor(asked, &VIEW).await?;
            // Harmless: without a query, all APIs are found.
            list(asked, found(catalog, asked.parameter("query").unwrap_or_default()))
        }
        (&Method::POST, ["apis"]) => {
            // The body is read only after authentication.
            catalog.visitor(asked, &CREATE).await?;
            create(catalog, asked, asked.json()?, None).await
        }
        (&Method::POST, ["apis", "import-openapi"]) => imports::openapi(catalog, asked).await,
        (&Method::POST, ["apis", "import-asyncapi"]) => imports::asyncapi(catalog, asked).await,
        (&Method::POST, ["apis", "import-wsdl"]) => imports::wsdl(catalog, asked).await,
        (&Method::POST, ["apis", "import"]) => imports::project(catalog, asked).await,
        (&Method::POST, ["apis", "change-lifecycle"]) => change_lifecycle(catalog, asked).await,
        (
            _,
            [
                "apis",
                "import-openapi"
                | "import-wsdl"
                | "import-asyncapi"
                | "import"
                | "import-graphql-schema"
                | "validate-openapi"
                | "validate-asyncapi"
                | "validate-wsdl",
                ..,
            ],
        ) => Err(Refusal::unsupported()),
        (_, ["apis", id]) => one(catalog, asked, id).await,
        (_, ["apis", id, what @ ("swagger" | "asyncapi" | "wsdl")]) => {
            imports::of_api(catalog, asked, id, what).await
        }
        (&Method::GET, ["apis", id, "lifecycle-state"]) => {
            catalog.visitor(asked, &VIEW).await?;
            ok(&lifecycle(&api(catalog, id)?.object))
        }
        (_, ["apis", id, "revisions", rest @ ..]) => revisions(catalog, asked, id, rest).await,
        (&Method::POST, ["apis", id, "deploy-revision"]) => deploy(catalog, asked, id, true).await,
        (&Method::POST, ["apis", id, "undeploy-revision"]) => {
            deploy(catalog, asked, id, false).await
        }
        (&Method::GET, ["apis", id, "deployments"]) => {
            catalog.visitor(asked, &VIEW).await?;
            let read = api(catalog, id)?;
            let deployed = read.object.deployed().map(|one| one.deployments.clone());
            // Harmless: an API that is not deployed has no deployments.
            list(asked, deployed.unwrap_or_default())
        }
        (_, ["subscriptions", rest @ ..]) => subscriptions(catalog, asked, rest).await,
        (&Method::GET, ["throttling-policies", level, rest @ ..]) => {
            catalog.visitor(asked, &VIEW).await?;
            plans::listed(catalog, asked, level, rest)
        }
        _ => Err(Refusal::unsupported()),
    }
}

/// The APIs that a search finds. Each word of the search is a part of the name, or `KEY:PART` with one of the keys in `matches`.
fn found(catalog: &Catalog, query: &str) -> Vec<Value> {
    let mut all = catalog.objects.all::<Api>();
    all.retain(|read| matches(&read.object, query));
    all.sort_by(|one, other| one.object.name().cmp(other.object.name()));
    all.iter().map(|read| summary(&read.object)).collect()
}

pub(crate) fn matches(api: &Api, query: &str) -> bool {
    query.split_whitespace().all(|word| {
        let (key, wanted) = word.split_once(':').unwrap_or(("name", word));
        // A `$` at the end asks for an exact match.
        let (wanted, whole) = match wanted.strip_suffix('$') {
            Some(wanted) => (wanted, true),
            None => (wanted, false),
        };
        let wanted = wanted.trim_matches('"').to_lowercase();
        let value = match key {
            "name" => api.name().to_owned(),
            "version" => api.version().to_owned(),
            "context" => api.context(),
            "status" | "lcState" => api.state.as_str().to_owned(),
            "type" => api.kind().to_owned(),
            "provider" => api.owner.clone(),
            _ => return false,
        };
        let value = value.to_lowercase();
        if whole { value == wanted } else { value.contains(&wanted) }
    })
}

fn summary(api: &Api) -> Value {
    json!({
        "id": api.id,
        "name": api.name(),
        "description": api.text("description"),
        "context": api.text("context"),
        "version": api.version(),
        "provider": api.owner,
        "type": api.kind(),
        "lifeCycleStatus": api.state.as_str(),
        "policies": api.plans(),
        "hasThumbnail": false,
        "createdTime": api.created.to_string(),
        "updatedTime": api.updated.to_string(),
    })
}

async fn one(catalog: &Catalog, asked: &CatalogRequest, id: &str) -> Answer {
    match asked.method {
        Method::GET => {
            catalog.visitor(asked, &VIEW).await?;
            let read = api(catalog, id)?;
            tagged(ok(&whole(&read.object)), read.version)
        }
        Method::PUT => {
            catalog.visitor(asked, &CREATE).await?;
            let read = api(catalog, id)?;
            check_match(asked, read.version)?;
            let mut dto = asked.json()?;
            endpoints::keep_secrets(&mut dto, &read.object.dto);
            let errors = definition::check(&mut dto, &Site::of(&*catalog.settings()?));
            if !errors.is_empty() {
                return Err(Refusal::invalid(errors));
            }
            let stays = |key: &str| {
                dto.get(key).is_none_or(|value| Some(value) == read.object.dto.get(key))
            };
            if !["name", "version", "context"].into_iter().all(stays) {
                return Err(Refusal::bad("name, version and context of an API cannot be changed"));
            }
            let updated = Api { dto, updated: crate::now(), ..Api::clone(&read.object) };
            let body = whole(&updated);
            catalog.objects.change(&read, updated).await?;
            ok(&body)
        }
        Method::DELETE => {
            catalog.visitor(asked, &CREATE).await?;
            let read = api(catalog, id)?;
            if !catalog.objects.subscribers_of(id).is_empty() {
                return Err(Refusal::conflict(
                    "Cannot remove the API as active subscriptions exist",
                ));
            }
            catalog.remove_api(&read).await?;
            done()
        }
        _ => Err(Refusal::unsupported()),
    }
}

fn revision_dto(api: &Api, revision: &Revision) -> Value {
    json!({
        "displayName": format!("Revision {}", revision.number),
        "id": revision.id,
        "description": revision.description,
        "createdTime": revision.created,
        "apiInfo": { "id": api.id, "name": api.name(), "version": api.version() },
        "deploymentInfo": revision.deployments,
    })
}

async fn revisions(catalog: &Catalog, asked: &CatalogRequest, id: &str, rest: &[&str]) -> Answer {
    match (&asked.method, rest) {
        (&Method::GET, []) => {
            catalog.visitor(asked, &VIEW).await?;
            let read = api(catalog, id)?;
            let wanted = asked.parameter("query");
            let shown = |revision: &&Revision| match wanted {
                Some("deployed:true") => !revision.deployments.is_empty(),
                Some("deployed:false") => revision.deployments.is_empty(),
                Some(_) | None => true,
            };
            let all = read.object.revisions.iter().filter(shown);
            list(asked, all.map(|revision| revision_dto(&read.object, revision)).collect())
        }
        (&Method::POST, []) => {
            catalog.visitor(asked, &[CREATE.as_slice(), PUBLISH.as_slice()].concat()).await?;
            let read = api(catalog, id)?;
            if read.object.revisions.len() >= REVISIONS_MAX {
                return Err(too_many_revisions());
            }
            let text = if asked.body.is_empty() { json!({}) } else { asked.json()? };
            let description = crate::objects::text(&text, "description");
            catalog.check_bundle(&read.object).await?;
            let mut changed = Api::clone(&read.object);
            changed.revision_last += 1;
            let revision = Revision {
                id: ids::uuid(),
                number: changed.revision_last,
                description: description.to_owned(),
                created: crate::now(),
                dto: changed.dto.clone(),
                document: changed.document.clone(),
                deployments: Vec::new(),
                deployed: 0,
            };
            let body = revision_dto(&changed, &revision);
            changed.revisions.push(revision);
            catalog.objects.change(&read, changed).await?;
            created(&body)
        }
        (&Method::DELETE, [revision]) => {
            catalog.visitor(asked, &CREATE).await?;
            let read = api(catalog, id)?;
            let known = read.object.revisions.iter().find(|known| known.id == *revision);
            let known = known.ok_or_else(|| Refusal::missing("revision"))?;
            if !known.deployments.is_empty() {
                return Err(Refusal::bad("A deployed revision cannot be removed"));
            }
            let mut changed = Api::clone(&read.object);
            changed.revisions.retain(|known| known.id != *revision);
            let left =
                changed.revisions.iter().map(|known| revision_dto(&changed, known)).collect();
            catalog.objects.change(&read, changed).await?;
            list(asked, left)
        }
        _ => Err(Refusal::unsupported()),
    }
}

/// Puts a revision into service, or takes it out.
async fn deploy(catalog: &Catalog, asked: &CatalogRequest, id: &str, on: bool) -> Answer {
    catalog.visitor(asked, &[CREATE.as_slice(), PUBLISH.as_slice()].concat()).await?;
    let wanted = asked.required("revisionId")?;
    let deployments = if asked.body.is_empty() { json!([]) } else { asked.described()? };
    let deployments = crate::objects::items(Some(&deployments)).to_vec();
    let read = api(catalog, id)?;
    let mut changed = Api::clone(&read.object);
    if !changed.revisions.iter().any(|revision| revision.id == wanted) {
        return Err(Refusal::missing("revision"));
    }
    let now = crate::now();
    for revision in &mut changed.revisions {
        let is_it = revision.id == wanted;
        if is_it && on {
            let default =
                json!({ "name": "Default", "vhost": "localhost", "displayOnDevportal": true });
            let given = if deployments.is_empty() { vec![default] } else { deployments.clone() };
            revision.deployments =
                given.into_iter().map(|one| deployment(one, wanted, now)).collect();
            revision.deployed = now;
        } else if is_it || on {
            // Only one revision is in service at a time.
            revision.deployments.clear();
        }
    }
    let deployed = changed.revisions.iter().find(|revision| revision.id == wanted);
    let deployed = json!(deployed.map(|revision| revision.deployments.clone()));
    catalog.change_deployed(&read, changed).await?;
    created(&deployed)
}

fn lifecycle(api: &Api) -> Value {
    let transitions = api.state.actions().iter().map(
        |(action, target)| json!({ "event": action, "targetState": capitalized(target.as_str()) }),
    );
    json!({
        "state": capitalized(api.state.as_str()),
        "checkItems": [],
        "availableTransitions": transitions.collect::<Vec<_>>(),
    })
}

/// The word with its first letter unchanged and all others in lower case.
fn capitalized(word: &str) -> String {
    let (first, rest) = word.split_at_checked(1).unwrap_or((word, ""));
    format!("{first}{}", rest.to_lowercase())
}

async fn change_lifecycle(catalog: &Catalog, asked: &CatalogRequest) -> Answer {
    catalog.visitor(asked, &PUBLISH).await?;
    let (action, id) = (asked.required("action")?, asked.required("apiId")?);
    let read = api(catalog, id)?;
    let target = read.object.state.actions().iter().find(|(known, _)| *known == action);
    let (_, target) = target.ok_or_else(|| {
        Refusal::bad(format!(
            "Action '{action}' is not allowed in the state {}",
            read.object.state.as_str()
        ))
    })?;
    let mut changed = Api { state: *target, updated: crate::now(), ..Api::clone(&read.object) };
    if *target == ApiState::Retired {
        changed.revisions.iter_mut().for_each(|revision| revision.deployments.clear());
    }
    let body = json!({ "workflowStatus": "APPROVED", "jsonPayload": null, "lifecycleState": lifecycle(&changed) });
    if changed.deployed().is_some() || read.object.deployed().is_some() {
        catalog.change_deployed(&read, changed).await?;
    } else {
        catalog.objects.change(&read, changed).await?;
    }
    ok(&body)
}

fn subscription_dto(catalog: &Catalog, subscription: &Subscription) -> Value {
    let application = catalog.objects.get::<Application>(&subscription.application);
    let info = application.map(|read| {
        json!({ "applicationId": read.object.id, "name": read.object.name, "subscriber": read.object.owner })
    });
    json!({
        "subscriptionId": subscription.id,
        "applicationInfo": info,
        "policy": subscription.plan,
        "subscriptionStatus": subscription.state.as_str(),
    })
}

async fn subscriptions(catalog: &Catalog, asked: &CatalogRequest, rest: &[&str]) -> Answer {
    catalog.visitor(asked, &SUBSCRIPTIONS).await?;
    match (&asked.method, rest) {
        (&Method::GET, []) => {
            let wanted = asked.parameter("apiId");
            let mut all: Vec<(u64, String)> = Vec::new();
            catalog.objects.each::<Subscription>(|one, _| {
                if wanted.is_none_or(|id| one.api == id) {
                    all.push((one.created, one.id.clone()));
                }
            });
            all.sort();
            list_of(asked, &all, |(_, id)| {
                let read = catalog.objects.get::<Subscription>(id)?;
                Some(subscription_dto(catalog, &read.object))
            })
        }
        (&Method::POST, [action @ ("block-subscription" | "unblock-subscription")]) => {
            let id = asked.required("subscriptionId")?;
            let state = match (*action, asked.parameter("blockState").unwrap_or("BLOCKED")) {
                ("unblock-subscription", _) => SubscriptionState::Unblocked,
                (_, "BLOCKED") => SubscriptionState::Blocked,
                (_, "PROD_ONLY_BLOCKED") => SubscriptionState::ProdOnlyBlocked,
                _ => return Err(Refusal::bad("blockState must be BLOCKED or PROD_ONLY_BLOCKED")),
            };
            let read = catalog.objects.get::<Subscription>(id);
            let read = read.ok_or_else(|| Refusal::missing("subscription"))?;
            let changed = Subscription { state, ..Subscription::clone(&read.object) };
            let body = subscription_dto(catalog, &changed);
            catalog.change_subscription(&read, changed).await?;
            ok(&body)
        }
        _ => Err(Refusal::unsupported()),
    }
}

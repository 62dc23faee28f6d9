//! The developers' interface: published APIs, applications with their keys, subscriptions, and API keys.

use std::collections::HashSet;

use axum::http::{Method, StatusCode};
use jose::Object;
use serde_json::{Value, json};

use crate::Catalog;
use crate::http::{
    Answer, CatalogRequest, Refusal, check_match, created, done, list, list_of, ok, tagged,
};
use crate::oauth::Grant;
use crate::object_store::{Batch, Read, WriteError};
use crate::objects::{
    Api, ApiState, Application, ApplicationKey, KeyKind, RemovedKey, Subscription,
    SubscriptionState,
};
use crate::portal::Visitor;
use crate::{ids, imports, plans, publisher, secrets};

const APPLICATIONS: [&str; 3] = ["apim:subscribe", "apim:app_manage", "apim:admin"];
const SUBSCRIBE: [&str; 3] = ["apim:subscribe", "apim:sub_manage", "apim:admin"];
const KEYS: [&str; 4] = ["apim:subscribe", "apim:app_manage", "apim:api_key", "apim:admin"];

/// The grant types of keys whose request names none.
const GRANTS: [&str; 3] = ["client_credentials", "password", "refresh_token"];

/// The longest lifetime of a key or token in a request: ten years.
const SECONDS_MAX: i64 = 10 * 365 * 86_400;

pub(crate) async fn answer(catalog: &Catalog, asked: &CatalogRequest, path: &[&str]) -> Answer {
    match (&asked.method, path) {
        (&Method::GET, ["apis"]) => {
            // Published APIs need no credential, as in WSO2 API Manager.
            // Harmless: without a query, all APIs are found.
            let query = asked.parameter("query").unwrap_or_default();
            let mut all = catalog.objects.all::<Api>();
            all.retain(|read| is_visible(&read.object) && publisher::matches(&read.object, query));
            all.sort_by(|one, other| one.object.name().cmp(other.object.name()));
            list(asked, all.iter().map(|read| api_dto(catalog, &read.object)).collect())
        }
        (&Method::GET, ["apis", id]) => ok(&api_dto(catalog, &visible(catalog, id)?.object)),
        (
            &Method::GET,
            ["apis", id, what @ ("swagger" | "asyncapi" | "async-api-specification" | "wsdl")],
        ) => imports::shown(&visible(catalog, id)?.object, what),
        (_, ["applications", rest @ ..]) => applications(catalog, asked, rest).await,
        (_, ["subscriptions", rest @ ..]) => subscriptions(catalog, asked, rest).await,
        (&Method::GET, ["throttling-policies", level, rest @ ..]) => {
            plans::listed(catalog, asked, level, rest)
        }
        (&Method::GET, ["key-managers"]) => list(
            asked,
            vec![json!({
                "id": "resident", "name": "Resident Key Manager", "type": "default", "enabled": true,
                "availableGrantTypes": GRANTS, "tokenEndpoint": "/oauth2/token", "revokeEndpoint": "/oauth2/revoke",
            })],
        ),
        _ => Err(Refusal::unsupported()),
    }
}

fn is_visible(api: &Api) -> bool {
    matches!(api.state, ApiState::Published | ApiState::Deprecated | ApiState::Blocked)
}

fn visible(catalog: &Catalog, id: &str) -> Result<Read<Api>, Refusal> {
    let read = catalog.objects.get::<Api>(id).filter(|read| is_visible(&read.object));
    read.ok_or_else(|| Refusal::missing("API"))
}

fn api_dto(catalog: &Catalog, api: &Api) -> Value {
    let tiers = api.plans().into_iter().map(|name| json!({ "tierName": name, "tierPlan": "FREE" }));
    // Harmless: a catalog that is being removed has no listener to show.
    let listener = catalog.settings().ok().and_then(|settings| settings.gateway.clone());
    json!({
        "id": api.id,
        "name": api.name(),
        "description": api.text("description"),
        "context": api.context(),
        "version": api.version(),
        "provider": api.owner,
        "type": api.kind(),
        "lifeCycleStatus": api.state.as_str(),
        "operations": api.dto.get("operations"),
        "tiers": tiers.collect::<Vec<_>>(),
        "throttlingPolicies": api.plans(),
        "isSubscriptionAvailable": api.state == ApiState::Published,
        "gatewayListener": listener,
    })
}

fn application_dto(catalog: &Catalog, application: &Application) -> Value {
    json!({
        "applicationId": application.id,
        "name": application.name,
        "throttlingPolicy": application.plan,
        "description": application.description,
        "tokenType": "JWT",
        "status": "APPROVED",
        "groups": [],
        "subscriptionCount": catalog.objects.count_subscriptions_of(&application.id),
        "attributes": application.attributes,
        "owner": application.owner,
        "createdTime": application.created.to_string(),
        "updatedTime": application.updated.to_string(),
    })
}

/// An application that the visitor owns.
fn owned(catalog: &Catalog, visitor: &Visitor, id: &str) -> Result<Read<Application>, Refusal> {
    let read = catalog.objects.get::<Application>(id).filter(|read| !read.object.removed);
    let read = read.filter(|read| visitor.owns(&read.object.owner));
    read.ok_or_else(|| Refusal::missing("application"))
}

/// Name, plan, description and attributes of an application in a client's request.
fn wish(
    catalog: &Catalog,
    asked: &CatalogRequest,
) -> Result<(String, String, String, Value), Refusal> {
    let dto = asked.json()?;
    let text = |key: &str| crate::objects::text(&dto, key);
    let name = text("name");
    let is_name = !name.trim().is_empty()
        && name.chars().count() <= 70
        && !name.chars().any(char::is_control);
    if !is_name {
        return Err(Refusal::bad("name must have 1 to 70 characters"));
    }
    let plan =
        if text("throttlingPolicy").is_empty() { "Unlimited" } else { text("throttlingPolicy") };
    if !catalog.settings()?.plans.contains_key(plan) {
        return Err(Refusal::bad(format!("the throttling policy {plan:?} does not exist")));
    }
    let description = text("description");
    if description.chars().count() > 512 {
        return Err(Refusal::bad("description must have at most 512 characters"));
    }
    let attributes = dto.get("attributes").filter(|one| one.is_object()).cloned();
    Ok((
        name.to_owned(),
        plan.to_owned(),
        description.to_owned(),
        attributes.unwrap_or_else(|| json!({})),
    ))
}

fn taken(error: WriteError) -> Refusal {
    Refusal::unwritten(error, "An application with this name exists already")
}

async fn applications(catalog: &Catalog, asked: &CatalogRequest, rest: &[&str]) -> Answer {
    let scopes = if rest.len() > 1 { &KEYS[..] } else { &APPLICATIONS[..] };
    let visitor = catalog.visitor(asked, scopes).await?;
    match (&asked.method, rest) {
        (&Method::GET, []) => {
            // Harmless: without a query, all applications are found.
            let query = asked.parameter("query").unwrap_or_default().to_lowercase();
            let mut all: Vec<(String, String)> = Vec::new();
            catalog.objects.each::<Application>(|one, _| {
                let is_found = one.name.to_lowercase().contains(&query);
                if !one.removed && visitor.owns(&one.owner) && is_found {
                    all.push((one.name.clone(), one.id.clone()));
                }
            });
            all.sort();
            list_of(asked, &all, |(_, id)| {
                let read = catalog.objects.get::<Application>(id)?;
                Some(application_dto(catalog, &read.object))
            })
        }
        (&Method::POST, []) => create(catalog, asked, visitor.name).await,
        (&Method::GET, [id]) => {
            let read = owned(catalog, &visitor, id)?;
            tagged(ok(&application_dto(catalog, &read.object)), read.version)
        }
        (&Method::PUT, [id]) => {
            let read = owned(catalog, &visitor, id)?;
            check_match(asked, read.version)?;
            let (name, plan, description, attributes) = wish(catalog, asked)?;
            let changed = Application {
                name,
                plan,
                description,
                attributes,
                updated: crate::now(),
                ..Application::clone(&read.object)
            };
            let body = application_dto(catalog, &changed);
            catalog.objects.change(&read, changed).await.map_err(taken)?;
            catalog.sync(id)?;
            ok(&body)
        }
        (&Method::DELETE, [id]) => remove(catalog, &owned(catalog, &visitor, id)?).await,
        (_, [id, "keys" | "oauth-keys", rest @ ..]) => {
            keys(catalog, asked, owned(catalog, &visitor, id)?, rest).await
        }
        (&Method::POST, [id, "generate-keys"]) => {
            generate(catalog, asked, owned(catalog, &visitor, id)?).await
        }
        (&Method::POST, [id, "api-keys", kind, action]) => {
            api_key(catalog, asked, &owned(catalog, &visitor, id)?, kind, action).await
        }
        _ => Err(Refusal::unsupported()),
    }
}

/// Creates an application of this owner, without keys.
async fn create(catalog: &Catalog, asked: &CatalogRequest, owner: String) -> Answer {
    let (name, plan, description, attributes) = wish(catalog, asked)?;
    let now = crate::now();
    let id = ids::uuid();
    let application = Application {
        id: id.clone(),
        name,
        owner,
        plan,
        description,
        attributes,
        keys: Vec::new(),
        created: now,
        updated: now,
        removed: false,
    };
    let body = application_dto(catalog, &application);
    catalog.objects.add(application).await.map_err(taken)?;
    catalog.sync(&id)?;
    created(&body)
}

/// Removes an application. Its tokens are refused at once. Its subscriptions are removed in further changes, since the size of one change
/// of the store is limited.
async fn remove(catalog: &Catalog, read: &Read<Application>) -> Answer {
    let application = &read.object;
    let settings = catalog.settings()?;
    // Harmless: keys without a lifetime have the catalog's, which is considered below.
    let longest = application.keys.iter().filter_map(|key| key.lifetime).max().unwrap_or_default();
    let until = kit::clock::wall().as_secs() + longest.max(settings.lifetime_max().as_secs());
    let mut batch = Batch::default();
    let keys = application.keys.iter().map(|key| key.consumer_key.clone());
    for key in keys.chain([application.id.clone()]) {
        batch.add(RemovedKey { id: key, until });
    }
    batch.change(read, Application { removed: true, ..Application::clone(application) });
    catalog.objects.commit(batch).await?;
    catalog.sync(&application.id)?;
    catalog.finish_removal(&application.id).await?;
    done()
}

fn key_dto(key: &ApplicationKey, secret: Option<&str>, token: Value) -> Value {
    let mut dto = json!({
        "keyMappingId": key.id,
        "keyManager": "Resident Key Manager",
        "consumerKey": key.consumer_key,
        "supportedGrantTypes": key.grants,
        "callbackUrl": key.callback,
        "keyState": "APPROVED",
        "keyType": key.kind.as_str(),
        "mode": "CREATED",
        "groupId": null,
        "token": token,
        "additionalProperties": {},
    });
    // Only the answer to the creation of a secret shows it.
    if let Some(secret) = secret {
        crate::objects::set(&mut dto, "consumerSecret", json!(secret));
    }
    dto
}

/// A validity period from a request, in seconds. None if it is absent or -1.
fn seconds(value: Option<&Value>) -> Result<Option<u64>, Refusal> {
    let number = match value {
        None | Some(Value::Null) => return Ok(None),
        // Harmless: a text that is not a number is refused below.
        Some(Value::String(text)) => text.parse::<i64>().ok(),
        Some(value) => crate::objects::integer(value),
    };
    match number {
        Some(-1) => Ok(None),
        // Harmless: the number is positive.
        Some(number) if (1..=SECONDS_MAX).contains(&number) => Ok(u64::try_from(number).ok()),
        Some(_) | None => {
            Err(Refusal::bad("a validity period must be a positive number of seconds, or -1"))
        }
    }
}

async fn generate(catalog: &Catalog, asked: &CatalogRequest, read: Read<Application>) -> Answer {
    let dto = asked.json()?;
    let text = |key: &str| crate::objects::text(&dto, key);
    let kind = KeyKind::read(text("keyType"))
        .ok_or_else(|| Refusal::bad("keyType must be PRODUCTION or SANDBOX"))?;
    if read.object.keys.iter().any(|key| key.kind == kind) {
        return Err(Refusal::conflict("Keys of this type exist already"));
    }
    let asked_grants = crate::objects::texts(dto.get("grantTypesToBeSupported"));
    let grants =
        if asked_grants.is_empty() { GRANTS.map(str::to_owned).to_vec() } else { asked_grants };
    let secret = secrets::secret()?;
    let key = ApplicationKey {
        id: ids::uuid(),
        kind,
        consumer_key: ids::uuid().replace('-', ""),
        secret_hash: secrets::hash(&secret).await?,
        grants,
        callback: text("callbackUrl").to_owned(),
        scopes: crate::objects::texts(dto.get("scopes")),
        lifetime: seconds(dto.get("validityTime"))?,
    };
    put_key(catalog, &read, key.clone()).await?;
    catalog.sync(&read.object.id)?;
    let token = test_token(catalog, &key, &[]).await?;
    ok(&key_dto(&key, Some(&secret), token))
}

/// A token to try an API with.
async fn test_token(
    catalog: &Catalog,
    key: &ApplicationKey,
    scopes: &[String],
) -> Result<Value, Refusal> {
    let settings = catalog.settings()?;
    let lifetime = key.lifetime.unwrap_or(settings.lifetime.as_secs().max(1));
    let scope = if scopes.is_empty() { "default".to_owned() } else { scopes.join(" ") };
    let grant = Grant {
        client: key.consumer_key.clone(),
        subject: key.consumer_key.clone(),
        of_user: false,
        scope: scope.clone(),
        kind: Some(key.kind),
        lifetime,
    };
    let token = catalog.issue(&grant).await?;
    let scopes: Vec<&str> = scope.split(' ').collect();
    Ok(json!({ "accessToken": token.text, "tokenScopes": scopes, "validityTime": lifetime }))
}

async fn keys(
    catalog: &Catalog,
    asked: &CatalogRequest,
    read: Read<Application>,
    rest: &[&str],
) -> Answer {
    let keys = &read.object.keys;
    let find = |word: &str| {
        let kind = KeyKind::read(word);
        let found = keys.iter().find(|key| key.id == word || Some(key.kind) == kind);
        found.cloned().ok_or_else(|| Refusal::missing("keys"))
    };
    match (&asked.method, rest) {
        (&Method::GET, []) => {
            list(asked, keys.iter().map(|key| key_dto(key, None, Value::Null)).collect())
        }
        (&Method::GET, [word]) => ok(&key_dto(&find(word)?, None, Value::Null)),
        (&Method::PUT, [word]) => {
            let (mut key, dto) = (find(word)?, asked.json()?);
            let grants = crate::objects::texts(dto.get("supportedGrantTypes"));
            if !grants.is_empty() {
                key.grants = grants;
            }
            if let Some(callback) = dto.get("callbackUrl").and_then(Value::as_str) {
                key.callback = callback.to_owned();
            }
            let body = key_dto(&key, None, Value::Null);
            put_key(catalog, &read, key).await?;
            ok(&body)
        }
        (&Method::POST, [word, "regenerate-secret"]) => {
            let (mut key, secret) = (find(word)?, secrets::secret()?);
            key.secret_hash = secrets::hash(&secret).await?;
            let body = json!({ "consumerKey": key.consumer_key, "consumerSecret": secret });
            put_key(catalog, &read, key).await?;
            ok(&body)
        }
        (&Method::POST, [word, "generate-token"]) => {
            let (key, dto) = (find(word)?, asked.json()?);
            let defined = catalog.scopes_of(&read.object.id);
            let mut scopes = crate::objects::texts(dto.get("scopes"));
            let may = |scope: &String| key.scopes.is_empty() || key.scopes.contains(scope);
            scopes.retain(|scope| defined.contains(scope) && may(scope));
            let lifetime = seconds(dto.get("validityPeriod"))?.or(key.lifetime);
            ok(&test_token(catalog, &ApplicationKey { lifetime, ..key }, &scopes).await?)
        }
        _ => Err(Refusal::unsupported()),
    }
}

/// Adds a key, or replaces the one with its id.
async fn put_key(
    catalog: &Catalog,
    read: &Read<Application>,
    key: ApplicationKey,
) -> Result<(), Refusal> {
    let mut changed = Application::clone(&read.object);
    changed.keys.retain(|known| known.id != key.id);
    changed.keys.push(key);
    catalog.objects.change(read, changed).await?;
    Ok(())
}

/// Creates or revokes an API key. API keys are signed tokens, so the catalog stores only revoked ones.
async fn api_key(
    catalog: &Catalog,
    asked: &CatalogRequest,
    read: &Read<Application>,
    kind: &str,
    action: &str,
) -> Answer {
    let kind = KeyKind::read(kind)
        .ok_or_else(|| Refusal::bad("the key type must be PRODUCTION or SANDBOX"))?;
    let dto = asked.json()?;
    match action {
        "generate" => {
            let lifetime = seconds(dto.get("validityPeriod"))?;
            // Harmless: without properties there are no restrictions.
            let more = dto.get("additionalProperties").cloned().unwrap_or_default();
            let text = |key: &str| crate::objects::text(&more, key).to_owned();
            let settings = catalog.settings()?;
            let now = kit::clock::wall().as_secs();
            let mut claims = Object::default();
            let mut say = |name: &str, value: Value| drop(claims.insert(name.to_owned(), value));
            say("iss", json!(format!("{}{}", settings.issuer, plan::API_KEYS)));
            say("sub", json!(read.object.owner));
            say("azp", json!(read.object.id));
            say("keytype", json!(kind.as_str()));
            say("iat", json!(now));
            // Harmless: the constant is positive.
            let lifetime_max = u64::try_from(SECONDS_MAX).unwrap_or_default();
            let until = now.saturating_add(lifetime.unwrap_or(lifetime_max));
            say("exp", json!(until));
            say("jti", json!(ids::uuid()));
            for name in ["permittedIP", "permittedReferer"] {
                if !text(name).is_empty() {
                    say(name, json!(text(name)));
                }
            }
            let key = catalog.keyring.sign(&claims, until, &catalog.objects, &settings).await?;
            let validity = lifetime.map_or(json!(-1), |lifetime| json!(lifetime));
            ok(&json!({ "apikey": key, "validityTime": validity }))
        }
        "revoke" => {
            let text = crate::objects::text(&dto, "apikey");
            let token = catalog.read_token(text).filter(|(_, _, owner)| *owner == read.object.id);
            let (id, until, _) =
                token.ok_or_else(|| Refusal::bad("That is not an API key of the application"))?;
            catalog.revoke_token(&id, until).await?;
            done()
        }
        _ => Err(Refusal::unsupported()),
    }
}

fn subscription_dto(catalog: &Catalog, subscription: &Subscription) -> Value {
    let api = catalog.objects.get::<Api>(&subscription.api);
    let application = catalog.objects.get::<Application>(&subscription.application);
    json!({
        "subscriptionId": subscription.id,
        "applicationId": subscription.application,
        "apiId": subscription.api,
        "apiInfo": api.map(|read| api_dto(catalog, &read.object)),
        "applicationInfo": application.map(|read| application_dto(catalog, &read.object)),
        "throttlingPolicy": subscription.plan,
        "requestedThrottlingPolicy": subscription.plan,
        "status": subscription.state.as_str(),
        "redirectionParams": "",
    })
}

/// The ids of the applications that the visitor owns.
fn mine(catalog: &Catalog, visitor: &Visitor) -> HashSet<String> {
    let mut mine = HashSet::new();
    catalog.objects.each::<Application>(|one, _| {
        if !one.removed && visitor.owns(&one.owner) {
            mine.insert(one.id.clone());
        }
    });
    mine
}

async fn subscriptions(catalog: &Catalog, asked: &CatalogRequest, rest: &[&str]) -> Answer {
    let visitor = catalog.visitor(asked, &SUBSCRIBE).await?;
    let find = |id: &str| {
        let read = catalog
            .objects
            .get::<Subscription>(id)
            .ok_or_else(|| Refusal::missing("subscription"))?;
        // Harmless: a subscription of another owner's application is reported as missing too.
        owned(catalog, &visitor, &read.object.application)
            .map_err(|_| Refusal::missing("subscription"))?;
        Ok::<_, Refusal>(read)
    };
    match (&asked.method, rest) {
        (&Method::GET, []) => {
            let (api, application) = (asked.parameter("apiId"), asked.parameter("applicationId"));
            let is_of = |one: &Subscription| api.is_none_or(|id| one.api == id);
            let mut all: Vec<(u64, String)> = Vec::new();
            match application {
                // Subscriptions of another owner's application are not shown.
                Some(id) if owned(catalog, &visitor, id).is_err() => {}
                Some(id) => {
                    let found = catalog.objects.subscriptions_of(id).into_iter().filter(is_of);
                    all.extend(found.map(|one| (one.created, one.id)));
                }
                None => {
                    let mine = mine(catalog, &visitor);
                    catalog.objects.each::<Subscription>(|one, _| {
                        if is_of(one) && mine.contains(&one.application) {
                            all.push((one.created, one.id.clone()));
                        }
                    });
                }
            }
            all.sort();
            list_of(asked, &all, |(_, id)| {
                let read = catalog.objects.get::<Subscription>(id)?;
                Some(subscription_dto(catalog, &read.object))
            })
        }
        (&Method::POST, []) => subscribe(catalog, &visitor, &asked.json()?).await,
        (&Method::GET, [id]) => {
            let read = find(id)?;
            tagged(ok(&subscription_dto(catalog, &read.object)), read.version)
        }
        (&Method::PUT, [id]) => {
            let (read, dto) = (find(id)?, asked.json()?);
            let plan = crate::objects::text(&dto, "throttlingPolicy");
            check_plan(&visible(catalog, &read.object.api)?.object, plan)?;
            let changed =
                Subscription { plan: plan.to_owned(), ..Subscription::clone(&read.object) };
            let body = subscription_dto(catalog, &changed);
            catalog.change_subscription(&read, changed).await?;
            ok(&body)
        }
        (&Method::DELETE, [id]) => {
            let read = find(id)?;
            catalog.objects.remove(&read).await?;
            catalog.sync(&read.object.application)?;
            done()
        }
        _ => Err(Refusal::unsupported()),
    }
}

fn check_plan(api: &Api, plan: &str) -> Result<(), Refusal> {
    if api.plans().iter().any(|known| known == plan) {
        Ok(())
    } else {
        Err(Refusal::bad(format!("The API does not offer the throttling policy {plan:?}")))
    }
}

async fn subscribe(catalog: &Catalog, visitor: &Visitor, dto: &Value) -> Answer {
    let text = |key: &str| crate::objects::text(dto, key);
    let api = visible(catalog, text("apiId"))?;
    if api.object.state != ApiState::Published {
        let why = "An API that is deprecated or blocked accepts no new subscriptions";
        return Err(Refusal::new(StatusCode::FORBIDDEN, why));
    }
    let application = owned(catalog, visitor, text("applicationId"))?;
    check_plan(&api.object, text("throttlingPolicy"))?;
    let subscription = Subscription {
        id: ids::uuid(),
        api: api.object.id.clone(),
        application: application.object.id.clone(),
        plan: text("throttlingPolicy").to_owned(),
        state: SubscriptionState::Unblocked,
        created: crate::now(),
    };
    let body = subscription_dto(catalog, &subscription);
    let taken =
        |error| Refusal::unwritten(error, "The application has subscribed to the API already");
    catalog.objects.add(subscription.clone()).await.map_err(taken)?;
    catalog.sync(&subscription.application)?;
    created(&body)
}

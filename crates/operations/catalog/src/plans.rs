//! Plans: the predefined ones, and those of administrators in the format of WSO2 API Manager.

use std::sync::Arc;

use axum::http::Method;
use config::LimitPlan;
use serde_json::{Map, Value, json};

use crate::Catalog;
use crate::http::{Answer, CatalogRequest, Refusal, created, done, list, ok};
use crate::ids;
use crate::object_store::{Read, WriteError};
use crate::objects::{Api, Application, Plan, PlanLevel, Subscription};

const ADMIN: [&str; 3] = ["apim:admin", "apim:tier_manage", "apim:admin_tier_manage"];
const ADMIN_VIEW: [&str; 4] =
    ["apim:admin", "apim:tier_manage", "apim:tier_view", "apim:admin_tier_view"];

/// The predefined plans of applications, of subscriptions, and of APIs and resources.
const READY: [(PlanLevel, &[&str]); 3] = [
    (PlanLevel::Application, &["10PerMin", "20PerMin", "50PerMin", "Unlimited"]),
    (
        PlanLevel::Subscription,
        &["Bronze", "Gold", "Silver", "Unlimited", "DefaultSubscriptionless"],
    ),
    (PlanLevel::Advanced, &["10KPerMin", "20KPerMin", "50KPerMin", "Unlimited"]),
];

const STREAMING: [&str; 9] = [
    "AsyncUnlimited",
    "AsyncGold",
    "AsyncSilver",
    "AsyncBronze",
    "AsyncDefaultSubscriptionless",
    "AsyncWHGold",
    "AsyncWHSilver",
    "AsyncWHBronze",
    "AsyncWHUnlimited",
];

fn level(word: &str) -> Result<PlanLevel, Refusal> {
    match word {
        "application" => Ok(PlanLevel::Application),
        "subscription" => Ok(PlanLevel::Subscription),
        "advanced" | "api" => Ok(PlanLevel::Advanced),
        _ => Err(Refusal::missing("level of policies")),
    }
}

/// `throttling-policies/{level}` of publisher and devportal.
pub(crate) fn listed(
    catalog: &Catalog,
    asked: &CatalogRequest,
    word: &str,
    rest: &[&str],
) -> Answer {
    if let ("streaming", ["subscription"]) = (word, rest) {
        let of = |name: &&str| json!({ "policyName": name, "displayName": name, "policyType": "EventCount" });
        return list(asked, STREAMING.iter().map(of).collect());
    }
    let level = level(word)?;
    let all = names(catalog, level);
    let shown = |name: &String| shown(catalog, name, word);
    match rest {
        [] => list(asked, all.iter().map(shown).collect()),
        [name] => match all.iter().find(|known| known == name) {
            Some(name) => ok(&shown(name)),
            None => Err(Refusal::missing("throttling policy")),
        },
        _ => Err(Refusal::unsupported()),
    }
}

fn names(catalog: &Catalog, level: PlanLevel) -> Vec<String> {
    let ready = READY.iter().filter(|(known, _)| *known == level);
    let ready = ready.flat_map(|(_, names)| names.iter()).map(|name| (*name).to_owned());
    let made = catalog.objects.all::<Plan>().into_iter().filter(|read| read.object.level == level);
    let mut all: Vec<String> = ready.chain(made.map(|read| read.object.name.clone())).collect();
    all.sort();
    all.dedup();
    all
}

fn shown(catalog: &Catalog, name: &str, word: &str) -> Value {
    let settings = catalog.settings();
    // Harmless: a catalog that is being removed has no limits to show.
    let limits = settings.ok().and_then(|settings| {
        let plan = settings.plans.get(name)?;
        plan.limits().requests.first().copied()
    });
    let count = limits.and_then(|window| window.messages);
    json!({
        "name": name,
        "displayName": name,
        "description": "",
        "policyLevel": word,
        "tierPlan": "FREE",
        "attributes": {},
        "requestCount": count.map_or(json!(i64::MAX), |count| json!(count)),
        "unitTime": limits.map_or(0, |window| window.per.as_millis()),
        "timeUnit": "ms",
        "stopOnQuotaReach": true,
        "throttlingPolicyPermissions": null,
    })
}

/// `/throttling/policies/...` of the administrators' interface.
pub(crate) async fn answer(catalog: &Catalog, asked: &CatalogRequest, path: &[&str]) -> Answer {
    let (word, rest) = match path {
        [
            "throttling",
            "policies",
            word @ ("application" | "subscription" | "advanced"),
            rest @ ..,
        ] => (*word, rest),
        // WSO2 API Manager also has policies of other levels, which do not exist here.
        ["throttling", "policies", word, ..] if *word != "custom" => {
            return Err(Refusal::missing("level of policies"));
        }
        _ => return Err(Refusal::unsupported()),
    };
    let level = level(word)?;
    match (&asked.method, rest) {
        (&Method::GET, []) => {
            catalog.visitor(asked, &ADMIN_VIEW).await?;
            let made = of_level(catalog, level);
            let ready = names(catalog, level).into_iter();
            let ready = ready.filter(|name| made.iter().all(|read| read.object.name != *name));
            let ready = ready.map(|name| json!({ "policyId": name, "policyName": name, "displayName": name, "isDeployed": true, "defaultLimit": null }));
            let all: Vec<Value> =
                made.iter().map(|read| whole(&read.object)).chain(ready).collect();
            list(asked, all)
        }
        (&Method::POST, []) => {
            catalog.visitor(asked, &ADMIN).await?;
            let dto = asked.json()?;
            let plan = Plan { id: ids::uuid(), level, name: checked(&dto)?, dto };
            let body = whole(&plan);
            let mut plans = catalog.plans();
            plans.push(Arc::new(plan.clone()));
            change(catalog, &plans, catalog.objects.add(plan)).await?;
            created(&body)
        }
        (method, [id]) => one(catalog, asked, method, level, id).await,
        _ => Err(Refusal::unsupported()),
    }
}

fn of_level(catalog: &Catalog, level: PlanLevel) -> Vec<Read<Plan>> {
    let mut all = catalog.objects.all::<Plan>();
    all.retain(|read| read.object.level == level);
    all.sort_by(|one, other| one.object.name.cmp(&other.object.name));
    all
}

async fn one(
    catalog: &Catalog,
    asked: &CatalogRequest,
    method: &Method,
    level: PlanLevel,
    id: &str,
) -> Answer {
    catalog.visitor(asked, if method == Method::GET { &ADMIN_VIEW } else { &ADMIN }).await?;
    let read = catalog.objects.get::<Plan>(id).filter(|read| read.object.level == level);
    let read = read.ok_or_else(|| Refusal::missing("throttling policy"))?;
    match *method {
        Method::GET => ok(&whole(&read.object)),
        Method::PUT => {
            let dto = asked.json()?;
            if checked(&dto)? != read.object.name {
                return Err(Refusal::bad("policyName cannot be changed"));
            }
            let changed = Plan { dto, ..Plan::clone(&read.object) };
            let body = whole(&changed);
            let mut plans = others(catalog, id);
            plans.push(Arc::new(changed.clone()));
            change(catalog, &plans, catalog.objects.change(&read, changed)).await?;
            ok(&body)
        }
        Method::DELETE => {
            if is_used(catalog, &read.object.name) {
                return Err(Refusal::conflict("The policy is in use"));
            }
            change(catalog, &others(catalog, id), catalog.objects.remove(&read)).await?;
            done()
        }
        _ => Err(Refusal::unsupported()),
    }
}

/// Tries the configuration with `plans`, the plans after a change. If it compiles, stores the change and puts the plans into service.
async fn change(
    catalog: &Catalog,
    plans: &[Arc<Plan>],
    write: impl Future<Output = Result<(), WriteError>> + Send,
) -> Result<(), Refusal> {
    let _alone = catalog.deploying.lock().await;
    let tried = catalog.control.try_bundle(crate::PLANS.to_owned(), bundle(plans)).await;
    tried.map_err(crate::refusal)?;
    write.await?;
    catalog.deploy_known_plans().await
}

/// The bundle with plans.
pub(crate) fn bundle(plans: &[Arc<Plan>]) -> control::BundleFiles {
    // Harmless: a plan was checked before it was stored.
    let limits = plans.iter().filter_map(|plan| Some((plan.name.clone(), limits(&plan.dto).ok()?)));
    let plans: Map<String, Value> = limits.collect();
    vec![("tidegate.yaml".to_owned(), json!({ "plans": plans }).to_string().into_bytes())]
}

/// All plans except the one with this id.
fn others(catalog: &Catalog, id: &str) -> Vec<Arc<Plan>> {
    let mut plans = catalog.plans();
    plans.retain(|plan| plan.id != id);
    plans
}

fn is_used(catalog: &Catalog, name: &str) -> bool {
    let of_operations = |api: &Api| {
        let operations = crate::objects::items(api.dto.get("operations"));
        operations.iter().any(|one| crate::objects::text(one, "throttlingPolicy") == name)
    };
    let mut is_named = false;
    catalog.objects.each::<Subscription>(|one, _| is_named |= one.plan == name);
    catalog.objects.each::<Application>(|one, _| is_named |= one.plan == name);
    is_named
        || catalog.objects.all::<Api>().iter().any(|read| {
            let api = &read.object;
            api.plans().iter().any(|plan| plan == name)
                || api.text("apiThrottlingPolicy") == name
                || of_operations(api)
        })
}

fn whole(plan: &Plan) -> Value {
    let mut dto = plan.dto.clone();
    if let Some(members) = dto.as_object_mut() {
        members.insert("policyId".to_owned(), json!(plan.id));
        members.insert("isDeployed".to_owned(), json!(true));
    }
    dto
}

/// The name of a plan, if the name and the limits are valid.
fn checked(dto: &Value) -> Result<String, Refusal> {
    let name = crate::objects::text(dto, "policyName");
    let good = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || name.len() > 60 || !name.chars().all(good) {
        return Err(Refusal::bad(
            "policyName must have 1 to 60 letters, digits, dashes, dots and underscores",
        ));
    }
    if READY.iter().any(|(_, names)| names.contains(&name)) || STREAMING.contains(&name) {
        return Err(Refusal::conflict("A policy with this name exists already"));
    }
    if !crate::objects::items(dto.get("conditionalGroups")).is_empty() {
        return Err(Refusal::new(
            axum::http::StatusCode::NOT_IMPLEMENTED,
            "conditionalGroups are not supported",
        ));
    }
    let plan = limits(dto).map_err(Refusal::bad)?;
    let mut report = config::Report::default();
    let read = config::decode::<LimitPlan>(&plan, config::At::NOWHERE, &mut report);
    if read.is_none() || report.has_errors() {
        let why: Vec<String> = report.errors().map(|wrong| wrong.what.clone()).collect();
        return Err(Refusal::invalid(why));
    }
    Ok(name.to_owned())
}

/// Converts limits of WSO2 API Manager to a plan of the configuration.
pub(crate) fn limits(dto: &Value) -> Result<Value, String> {
    let default = dto.get("defaultLimit").ok_or("defaultLimit is missing")?;
    let kind = crate::objects::text(default, "type");
    let (member, count) = match kind {
        "REQUESTCOUNTLIMIT" => ("requestCount", "requestCount"),
        "BANDWIDTHLIMIT" => ("bandwidth", "dataAmount"),
        "EVENTCOUNTLIMIT" => ("eventCount", "eventCount"),
        _ => {
            return Err(
                "defaultLimit.type must be REQUESTCOUNTLIMIT, BANDWIDTHLIMIT or EVENTCOUNTLIMIT"
                    .to_owned(),
            );
        }
    };
    let limit = default.get(member).ok_or_else(|| format!("defaultLimit.{member} is missing"))?;
    let number = |value: Option<&Value>, what: &str| {
        let number = value.and_then(crate::objects::integer);
        // Harmless: a number that is not positive is refused.
        let number = number.and_then(|number| u64::try_from(number).ok());
        number
            .filter(|number| *number > 0)
            .ok_or_else(|| format!("{what} must be a positive number"))
    };
    let amount = number(limit.get(count), count)?;
    let unit_time = number(limit.get("unitTime"), "unitTime")?;
    let unit = crate::objects::text(limit, "timeUnit");
    let seconds = unit_time.checked_mul(seconds_of(unit)?).ok_or("unitTime is too long")?;
    let mut plan = Map::new();
    plan.insert("per".to_owned(), json!(format!("{seconds}s")));
    match kind {
        "REQUESTCOUNTLIMIT" => drop(plan.insert("requests".to_owned(), json!(amount))),
        "EVENTCOUNTLIMIT" => drop(plan.insert("events".to_owned(), json!(amount))),
        _ => {
            let unit = limit.get("dataUnit").and_then(Value::as_str).unwrap_or("KB");
            let bytes = match unit.to_ascii_uppercase().as_str() {
                "KB" => 1 << 10,
                "MB" => 1 << 20,
                "GB" => 1 << 30,
                _ => return Err("dataUnit must be KB, MB or GB".to_owned()),
            };
            let bytes: u64 = amount.checked_mul(bytes).ok_or("dataAmount is too large")?;
            plan.insert("bytes".to_owned(), json!(format!("{bytes}B")));
        }
    }
    if let Some(subscribers) = optional(dto, "subscriberCount")? {
        plan.insert("subscriptions".to_owned(), json!(subscribers));
    }
    if let Some(burst) = optional(dto, "rateLimitCount")? {
        let unit = dto.get("rateLimitTimeUnit").and_then(Value::as_str).unwrap_or("sec");
        let per = format!("{}s", seconds_of(unit)?);
        plan.insert("burst_rate".to_owned(), json!({ "requests": burst, "per": per }));
    }
    if dto.get("stopOnQuotaReach").and_then(Value::as_bool) == Some(false) {
        plan.insert("stop_on_quota".to_owned(), json!(false));
    }
    Ok(Value::Object(plan))
}

/// A positive number. None if it is absent, 0 or -1, as in WSO2 API Manager.
fn optional(dto: &Value, key: &str) -> Result<Option<u64>, String> {
    match dto.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match crate::objects::integer(value) {
            Some(-1 | 0) => Ok(None),
            // Harmless: the number is positive.
            Some(number) if number > 0 => Ok(u64::try_from(number).ok()),
            Some(_) | None => Err(format!("{key} must be a positive number, or -1 for none")),
        },
    }
}

fn seconds_of(unit: &str) -> Result<u64, String> {
    match unit {
        "sec" | "second" | "seconds" | "s" => Ok(1),
        "min" | "minute" | "minutes" => Ok(60),
        "hour" | "hours" => Ok(3600),
        "day" | "days" => Ok(86_400),
        "week" | "weeks" => Ok(7 * 86_400),
        "month" | "months" => Ok(30 * 86_400),
        "year" | "years" => Ok(365 * 86_400),
        _ => Err("timeUnit must be sec, min, hour, day, week, month or year".to_owned()),
    }
}

//! The weights and drains that operators set for targets. They apply until the settings of the upstream change.
//!
//! If there is a store, they are stored with a fingerprint of their upstream's settings, and restored after a restart.

use std::collections::BTreeMap;
use std::sync::Arc;

use plan::upstreams::Upstream;
use plan::{Plan, set_targets};
use serde_json::{Value, json};

use crate::hubs::HubFailure;
use crate::{Control, view};

impl Control {
    /// Sets the weight of a target, or drains it. Returns the upstream after the change.
    pub async fn set_target(
        &self,
        upstream: &str,
        id: &str,
        weight: Option<u16>,
        drain: Option<bool>,
    ) -> Result<Value, HubFailure> {
        let plan = self.plan();
        let found = plan.upstreams.iter().find(|one| one.settings().name == upstream);
        let found = found.ok_or(HubFailure::Unknown("There is no such upstream."))?;
        let set = found.targets();
        let member = set.members().iter().find(|member| member.target.id() == id);
        let member = member.ok_or(HubFailure::Unknown("The upstream has no such target."))?;
        member.target.set(weight, drain);
        tracing::info!(
            upstream,
            url = &**member.target.url(),
            weight,
            drain,
            "an operator has changed a target"
        );
        self.keep_targets(&plan).await?;
        Ok(view::upstream(found))
    }

    /// Writes the operators' changes to the store, if there is one.
    async fn keep_targets(&self, plan: &Plan) -> Result<(), HubFailure> {
        let Some(store) = &plan.store else { return Ok(()) };
        // Harmless: an upstream without such changes needs no row.
        let set: BTreeMap<&str, Value> =
            plan.upstreams.iter().filter_map(|upstream| set_of(upstream)).collect();
        let value = if set.is_empty() { None } else { Some(json!(set).to_string().into_bytes()) };
        let kept = set_targets::write(store, value).await;
        kept.map_err(|error| {
            let why = "the change is in effect, but could not be stored, so a restart loses it";
            HubFailure::Unavailable(format!("{why}: {error}"))
        })
    }

    /// Restores the operators' changes after a restart. They are dropped for upstreams with changed settings.
    pub async fn restore_targets(&self) {
        let plan = self.plan();
        let Some(store) = &plan.store else { return };
        let kept = match set_targets::read(store).await {
            Ok(Some(kept)) => kept,
            Ok(None) => return,
            Err(error) => {
                return tracing::warn!(%error, "the stored changes of targets cannot be read");
            }
        };
        // Harmless: an unreadable row is overwritten by the next change.
        let Ok(set) = serde_json::from_slice::<Value>(&kept) else { return };
        for upstream in &plan.upstreams {
            let Some(kept) = set.get(&upstream.settings().name) else { continue };
            if kept.get("settings").and_then(Value::as_u64) != Some(fingerprint(upstream)) {
                continue;
            }
            for member in upstream.targets().members() {
                let Some(kept) = kept.get(member.target.id()) else { continue };
                let weight = kept.get("weight").and_then(Value::as_u64);
                // Harmless: the gateway never writes such a large weight.
                let weight = weight.and_then(|weight| u16::try_from(weight).ok());
                member.target.set(weight, kept.get("drain").and_then(Value::as_bool));
            }
        }
    }
}

/// The operators' changes of an upstream's targets, if any.
fn set_of(upstream: &Arc<Upstream>) -> Option<(&str, Value)> {
    let mut told = serde_json::Map::new();
    for member in upstream.targets().members() {
        let target = &member.target;
        if target.weight_set().is_some() || target.is_drained() {
            let set = json!({ "weight": target.weight_set(), "drain": target.is_drained() });
            told.insert(target.id(), set);
        }
    }
    if told.is_empty() {
        return None;
    }
    told.insert("settings".to_owned(), fingerprint(upstream).into());
    Some((&upstream.settings().name, told.into()))
}

/// The fingerprint of an upstream's settings. It is the same after a restart of the same program.
fn fingerprint(upstream: &Upstream) -> u64 {
    kit::hash::fixed(&format!("{:?}", upstream.settings()))
}

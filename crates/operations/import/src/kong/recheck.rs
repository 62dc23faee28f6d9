//! Removes parts that the gateway would refuse, so that the result always passes `check`.
//!
//! A policy that is not a guard is taken out of its route. A route whose guard or destination is refused answers 503. A route whose
//! match is refused is taken out.

use serde_json::{Map, Value as Json, json};

use super::KongImport;
use super::output::closed;
use crate::table::{ArtifactPosition, Mistake};

/// The plugin from which a policy was made.
#[derive(Debug, Clone)]
pub(super) struct PolicyOrigin {
    pub(super) what: String,
    pub(super) place: ArtifactPosition,
    pub(super) guards: bool,
}

impl KongImport {
    /// Removes the parts with these mistakes, and refuses them in the table. False if a mistake belongs to no part.
    pub fn refuse(&mut self, mistakes: &[Mistake]) -> bool {
        let mut done = Vec::new();
        let text = crate::yaml(&self.whole);
        let path = |mistake: &Mistake| config::path_at(&text, mistake.line, mistake.column);
        let mut found: Vec<(Vec<String>, &Mistake)> =
            mistakes.iter().map(|mistake| (path(mistake), mistake)).collect();
        // From last to first, so that the indices of the others stay valid.
        found.sort_by_key(|(_, mistake)| std::cmp::Reverse((mistake.line, mistake.column)));
        for (path, mistake) in found {
            let why = format!("the gateway would refuse it: {}", mistake.what);
            let [section, name, rest @ ..] = path.as_slice() else { return false };
            let key = (section.clone(), name.clone());
            if done.contains(&key) {
                continue;
            }
            match section.as_str() {
                "routes" => {
                    if !self.refuse_in_route(name, rest, &why) {
                        done.push(key);
                    }
                }
                "upstreams" | "policy_sets" | "issuers" | "stores" => {
                    self.refuse_entry(section, name, &why);
                    done.push(key);
                }
                _ => return false,
            }
        }
        self.write();
        true
    }

    /// True if other parts of the route may be refused too.
    fn refuse_in_route(&mut self, name: &str, rest: &[String], why: &str) -> bool {
        let policy = match rest {
            // Harmless: the key of an item in a list is always a number.
            [list, at, ..] if list == "policies" => at.parse::<usize>().ok(),
            _ => None,
        };
        let origin = policy.and_then(|at| self.policies.get(name)?.get(at).cloned());
        if let (Some(at), Some(origin)) = (policy, &origin) {
            self.table.refuse(&origin.what, &origin.place, why);
            if !origin.guards {
                self.remove_policy(name, at);
                return true;
            }
        }
        let is_match = rest.first().is_some_and(|key| key == "match");
        let Some(routes) = section(&mut self.whole, "routes") else { return false };
        if is_match {
            drop(routes.shift_remove(name))
        } else {
            close(routes, name)
        }
        if let Some((what, place)) = self.origins.get(&("routes".to_owned(), name.to_owned())) {
            self.table.refuse(what, place, why);
        }
        false
    }

    fn remove_policy(&mut self, name: &str, at: usize) {
        let policies = section(&mut self.whole, "routes")
            .and_then(|routes| routes.get_mut(name)?.get_mut("policies")?.as_array_mut());
        if let Some(policies) = policies.filter(|policies| at < policies.len()) {
            policies.remove(at);
        }
        if let Some(origins) = self.policies.get_mut(name).filter(|origins| at < origins.len()) {
            origins.remove(at);
        }
    }

    /// Takes an entry out, and closes the routes that name it.
    fn refuse_entry(&mut self, kind: &str, name: &str, why: &str) {
        let cause = match self.origins.get(&(kind.to_owned(), name.to_owned())) {
            Some((what, place)) => {
                self.table.refuse(what, place, why);
                format!("{what} is refused, so it answers 503")
            }
            None => format!("what it needs is refused, so it answers 503: {why}"),
        };
        if let Some(entries) = section(&mut self.whole, kind) {
            entries.shift_remove(name);
        }
        let names_it = |route: &Json| match kind {
            "upstreams" => route.get("upstream").and_then(Json::as_str) == Some(name),
            _ => route.get("policies").is_some_and(|policies| mentions(policies, name)),
        };
        let Some(routes) = section(&mut self.whole, "routes") else { return };
        let named: Vec<String> = routes
            .iter()
            .filter(|(_, route)| names_it(route))
            .map(|(name, _)| name.clone())
            .collect();
        for route in named {
            close(routes, &route);
            if let Some((what, place)) = self.origins.get(&("routes".to_owned(), route)) {
                self.table.refuse(what, place, &cause);
            }
        }
    }
}

/// True if the value contains this name as a whole text.
fn mentions(value: &Json, name: &str) -> bool {
    match value {
        Json::String(text) => text == name,
        Json::Array(items) => items.iter().any(|item| mentions(item, name)),
        Json::Object(members) => members.values().any(|member| mentions(member, name)),
        Json::Null | Json::Bool(_) | Json::Number(_) => false,
    }
}

fn section<'j>(whole: &'j mut Json, name: &str) -> Option<&'j mut Map<String, Json>> {
    whole.get_mut(name)?.as_object_mut()
}

/// Lets a route answer 503.
fn close(routes: &mut Map<String, Json>, name: &str) {
    if let Some(route) = routes.get_mut(name) {
        *route = json!({ "match": route.get("match"), "respond": closed() });
    }
}

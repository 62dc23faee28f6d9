//! Maps mediation policies of WSO2 API Manager, by their original names, to policies of a route.

use serde_json::{Value, json};

use crate::objects::{items, text};

/// The flows to which a definition may attach policies.
const FLOWS: [&str; 3] = ["request", "response", "fault"];

/// An unsupported mediation policy in a definition.
pub(crate) struct UnsupportedPolicy {
    /// The keys that lead to it, starting at the policies.
    pub(crate) at: Vec<String>,
    pub(crate) why: &'static str,
}

/// The policies of a route in order: requests pass them from first to last, and replies from last to first. `of_api` are those
/// of the API, which are outermost.
pub(crate) fn policies(of_api: Option<&Value>, of_operation: Option<&Value>) -> Vec<Value> {
    let flow = |written: Option<&Value>, flow: &str| -> Vec<Value> {
        let uses = items(written.and_then(|written| written.get(flow)));
        // Harmless: the check of a definition refuses unknown policies.
        uses.iter().filter_map(|one| policy(one, flow).ok()).collect()
    };
    let mut all = flow(of_api, "request");
    all.extend(flow(of_operation, "request"));
    let mut replies = flow(of_operation, "response");
    replies.extend(flow(of_api, "response"));
    all.extend(replies.into_iter().rev());
    all
}

/// The unsupported policies of an API or an operation.
pub(crate) fn refused(written: Option<&Value>) -> Vec<UnsupportedPolicy> {
    let mut all = Vec::new();
    // Harmless: an absent list has no policies.
    let flows = written.and_then(Value::as_object).into_iter().flatten();
    for (flow, uses) in flows {
        for (number, one) in items(Some(uses)).iter().enumerate() {
            if let Err((key, why)) = policy(one, flow) {
                let mut at = vec![flow.clone(), number.to_string()];
                at.extend(key.split('.').map(str::to_owned));
                all.push(UnsupportedPolicy { at, why });
            }
        }
    }
    all
}

/// The gateway's policy for a policy of WSO2 API Manager. The error is the key that is not supported, and the reason.
fn policy(one: &Value, flow: &str) -> Result<Value, (&'static str, &'static str)> {
    if !FLOWS.contains(&flow) || flow == "fault" {
        return Err(("policyName", "only the flows `request` and `response` are supported"));
    }
    let headers = |edit: Value| json!({ "headers": { flow: edit } });
    let name = |key: &'static str, place: &'static str| {
        let name = one.get("parameters").map_or("", |parameters| text(parameters, key));
        let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
        if name.is_empty() || !name.chars().all(is_token) {
            return Err((place, "the name of a header is missing or invalid"));
        }
        Ok(name.to_ascii_lowercase())
    };
    let value = |key: &'static str, place: &'static str| {
        let value = one.get("parameters").and_then(|parameters| parameters.get(key)?.as_str());
        let value = value.ok_or((place, "a value is missing"))?;
        if value.contains(['{', '}']) || value.chars().any(char::is_control) {
            return Err((place, "expressions, braces and control characters are not supported"));
        }
        Ok(value.to_owned())
    };
    match text(one, "policyName") {
        // The policy of WSO2 API Manager also replaces an existing header.
        "addHeader" | "setHeader" | "ccAddHeader" | "ccSetHeader" => {
            let name = name("headerName", "parameters.headerName")?;
            Ok(headers(json!({ "set": { name: value("headerValue", "parameters.headerValue")? } })))
        }
        "removeHeader" | "ccRemoveHeader" => {
            Ok(headers(json!({ "remove": [name("headerName", "parameters.headerName")?] })))
        }
        "renameHeader" => {
            let old = name("currentHeaderName", "parameters.currentHeaderName")?;
            let new = name("updatedHeaderName", "parameters.updatedHeaderName")?;
            Ok(headers(json!({ "rename": { old: new } })))
        }
        "addQueryParam" if flow == "request" => {
            let name = value("paramKey", "parameters.paramKey")?;
            let value = value("paramValue", "parameters.paramValue")?;
            Ok(json!({ "transform": { "query": { "add": { name: value } } } }))
        }
        "ccAddQueryParam" if flow == "request" => {
            let name = value("queryParamName", "parameters.queryParamName")?;
            let value = value("queryParamValue", "parameters.queryParamValue")?;
            Ok(json!({ "transform": { "query": { "add": { name: value } } } }))
        }
        "removeQueryParam" if flow == "request" => {
            let name = value("paramKey", "parameters.paramKey")?;
            Ok(json!({ "transform": { "query": { "remove": [name] } } }))
        }
        _ => Err((
            "policyName",
            "only the mediation policies that add, remove and rename headers and query parameters are supported",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(name: &str, value: &str) -> Value {
        json!({ "policyName": "addHeader", "policyVersion": "v1", "parameters": { "headerName": name, "headerValue": value } })
    }

    #[test]
    fn requests_pass_the_policies_of_the_api_first_and_replies_pass_them_last() {
        let of_api = json!({ "request": [header("a", "1")], "response": [header("b", "1")] });
        let own = json!({ "request": [header("a", "2")], "response": [header("b", "2"), header("b", "3")] });
        let made = policies(Some(&of_api), Some(&own));
        let set = |flow: &str, name: &str, value: &str| json!({ "headers": { flow: { "set": { name: value } } } });
        assert_eq!(
            made,
            [
                set("request", "a", "1"),
                set("request", "a", "2"),
                set("response", "b", "1"),
                set("response", "b", "3"),
                set("response", "b", "2"),
            ]
        );
    }

    #[test]
    fn unsupported_policies_are_refused_with_their_place() {
        let places = |written: Value| -> Vec<String> {
            refused(Some(&written)).iter().map(|one| one.at.join(".")).collect()
        };
        assert!(
            places(json!({ "request": [header("x-a", "b")], "response": null, "fault": [] }))
                .is_empty()
        );
        for (written, place) in [
            (json!({ "request": [{ "policyName": "jsonToXML" }] }), "request.0.policyName"),
            (json!({ "fault": [header("a", "b")] }), "fault.0.policyName"),
            (
                json!({ "request": [header("a", "b"), header("a b", "c")] }),
                "request.1.parameters.headerName",
            ),
            (json!({ "request": [header("a", "{b}")] }), "request.0.parameters.headerValue"),
            (json!({ "request": [header("a", "b\r\nc: d")] }), "request.0.parameters.headerValue"),
            (
                json!({ "request": [{ "policyName": "addHeader" }] }),
                "request.0.parameters.headerName",
            ),
            (
                json!({ "response": [{ "policyName": "addQueryParam", "parameters": { "paramKey": "a", "paramValue": "b" } }] }),
                "response.0.policyName",
            ),
        ] {
            assert_eq!(places(written.clone()), [place], "{written}");
        }
    }
}

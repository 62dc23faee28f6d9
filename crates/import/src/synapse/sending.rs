//! The steps of one call: the form in which the message is sent, its method and its path.

use serde_json::{Map, Value as Json, json};

use super::converter::Converter;
use super::element::Element;
use super::endpoints::Target;
use super::expressions::escaped;
use super::mediators::properties;
use super::pending::{KeptProperty, Postfix};

/// The form in which an endpoint gets messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Soap11,
    Soap12,
    Pox,
}

impl Format {
    pub(super) fn of(kind: &Element<'_>) -> Option<Format> {
        match kind.attribute("format")?.to_ascii_lowercase().as_str() {
            "soap11" => Some(Format::Soap11),
            "soap12" => Some(Format::Soap12),
            "pox" => Some(Format::Pox),
            // Harmless: `rest` sends the message as it is, and the table refuses all others.
            _ => None,
        }
    }
}

impl Converter<'_> {
    /// Appends the steps that call a target, with the settings of properties for the call.
    pub(super) fn call(
        &mut self,
        target: &Target,
        more: Map<String, Json>,
        steps: &mut Vec<Json>,
    ) -> Result<(), String> {
        self.write_message(target.format, steps);
        let pending = std::mem::take(&mut self.flow.pending);
        if more.contains_key("into") {
            // The message stays, and with it what was set for its reply.
            self.flow.pending.status.clone_from(&pending.status);
        }
        let mut keys = Map::new();
        match &target.url {
            Some(url) => keys.insert("url".to_owned(), json!(url)),
            None => keys.insert("upstream".to_owned(), json!(target.upstream)),
        };
        let soap = target.format.is_some_and(|format| format != Format::Pox);
        let method = soap.then(|| "POST".to_owned()).or(target.method.clone());
        let method = method.or_else(|| {
            let variable =
                self.keeps(KeptProperty::Method).then(|| self.kept_variable(KeptProperty::Method));
            variable.map(|variable| format!("{{{{ ${variable} }}}}")).or(pending.method)
        });
        keys.extend(method.map(|method| ("method".to_owned(), json!(method))));
        if let Some(path) = self.path_of(target, pending.postfix)? {
            keys.insert("path".to_owned(), json!(path));
        }
        keys.extend(target.query.as_ref().map(|query| ("query".to_owned(), json!(query))));
        if pending.fault_on_fault {
            keys.insert("fault_on".to_owned(), json!(["5xx"]));
        }
        keys.extend(more);
        steps.push(match keys.len() {
            1 if target.url.is_none() => json!({ "call": target.upstream }),
            _ => json!({ "call": keys }),
        });
        Ok(())
    }

    /// Writes the message in the form that properties and the endpoint say.
    pub(super) fn write_message(&mut self, format: Option<Format>, steps: &mut Vec<Json>) {
        let to = |to: &str| json!({ "convert": { "to": to } });
        let message_type = self.flow.pending.message_type.take();
        let content_type = self.flow.pending.content_type.take();
        match format {
            Some(Format::Soap11) => steps.push(to("soap11")),
            Some(Format::Soap12) => {
                steps.push(to("soap12"));
                let content_type = "application/soap+xml; charset=utf-8; action=\"{{ translate($headers.SOAPAction, '\"', '') }}\"";
                let named = json!({ "header": { "set": { "content-type": content_type } } });
                steps.push(json!({ "filter": { "when": "$headers.SOAPAction", "then": [named] } }));
            }
            Some(Format::Pox) => {
                steps.push(json!({ "convert": { "to": "xml", "root": "jsonObject" } }));
                steps.push(to("pox"));
            }
            None if self.keeps(KeptProperty::MessageType) => {
                let variable = self.kept_variable(KeptProperty::MessageType);
                let kinds = [
                    "application/json",
                    "application/xml",
                    "text/xml",
                    "application/soap+xml",
                    "text/plain",
                ];
                let cases = kinds
                    .map(|kind| json!({ "equals": kind, "steps": properties::conversion(kind) }));
                steps.push(json!({ "switch": { "on": format!("${variable}"), "cases": cases } }));
            }
            None => steps.extend(message_type.iter().flat_map(|kind| properties::conversion(kind))),
        }
        if let Some(content_type) = content_type.filter(|_| format.is_none()) {
            steps.push(json!({ "header": { "set": { "content-type": content_type } } }));
        }
    }

    /// The path of a call; none for the one that the route forwards.
    fn path_of(
        &mut self,
        target: &Target,
        postfix: Option<Postfix>,
    ) -> Result<Option<String>, String> {
        if target.is_own {
            return Ok(None);
        }
        let or_root = |path: String| Some(if path.is_empty() { "/".to_owned() } else { path });
        let base = target.path.trim_end_matches('/');
        if target.is_exact {
            return Ok(or_root(target.path.clone()));
        }
        let postfix = if self.keeps(KeptProperty::Postfix) {
            let variable = self.kept_variable(KeptProperty::Postfix);
            self.flow.strips = true;
            Some(Postfix::Computed(format!("${variable}")))
        } else {
            postfix
        };
        match postfix {
            Some(Postfix::Text(text)) => return Ok(or_root(format!("{base}{}", escaped(&text)))),
            // A value in a path is one segment; the postfix may be several.
            Some(Postfix::Computed(value)) => {
                if base.contains("{{") || base.contains('\'') {
                    return Err(
                        "a computed path behind a computed address has no counterpart".to_owned()
                    );
                }
                return Ok(Some(format!("{{{{ concat('{base}', {value}) }}}}")));
            }
            None => {}
        }
        let Some(resource) = self.flow.resource.clone() else {
            let may_be_below = !self.flow.is_whole && !self.flow.expanding.is_empty();
            if may_be_below && !self.artifacts.apis.is_empty() {
                self.note("below an API the path of its resource is not put behind the address");
            }
            return Ok(or_root(target.path.clone()));
        };
        match self.flow.base.as_deref() {
            None => {
                self.flow.base = Some(base.to_owned());
                Ok(None)
            }
            Some(known) if known == base => Ok(None),
            Some(_) if !resource.open => Ok(or_root(format!("{base}{}", resource.path))),
            Some(_) => Err("the rest of the path cannot be put behind a second address".to_owned()),
        }
    }
}

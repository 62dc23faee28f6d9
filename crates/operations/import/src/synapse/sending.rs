//! The steps of one call: the form in which the message is sent, its method and its path.

use serde_json::{Map, Value as Json, json};

use super::converter::Converter;
use super::endpoints::{Format, Target};
use super::mediators::properties;
use super::pending::{KeptProperty, Postfix, Sender};
use super::soap_action;
use super::value::{escaped, quoted};

impl Converter<'_> {
    /// Appends the steps that call a target, with the settings of properties for the call.
    pub(super) fn call(
        &mut self,
        target: &Target,
        more: Map<String, Json>,
        steps: &mut Vec<Json>,
    ) -> Result<(), String> {
        let path = self.path_of(target)?;
        let was_set = self.artifacts.sets_action;
        self.write_message(target.format, |kind| request_form(kind, was_set), steps);
        let pending = std::mem::take(&mut self.flow.pending);
        if more.contains_key("into") {
            // The message stays, and with it the settings for its reply.
            self.flow.pending.status.clone_from(&pending.status);
            self.flow.pending.sender = pending.sender;
            self.flow.pending.has_action = pending.has_action;
        } else {
            self.flow.pending.sender = Sender::Service;
        }
        if pending.sender != Sender::Client {
            self.note(
                "the headers of the reply before it are not sent on; those of the request are",
            );
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
        // A forwarded reply has no method.
        let method = method.or_else(|| {
            let is_reply = pending.sender == Sender::Service && !more.contains_key("method");
            is_reply.then(|| "POST".to_owned())
        });
        keys.extend(method.map(|method| ("method".to_owned(), json!(method))));
        keys.extend(path.map(|path| ("path".to_owned(), json!(path))));
        keys.extend(target.query.as_ref().map(|query| ("query".to_owned(), json!(query))));
        if pending.fault_on_fault {
            keys.insert("fault_on".to_owned(), json!(["5xx"]));
        }
        keys.extend(more);
        // A forwarded reply has no action.
        if pending.sender == Sender::Service && !pending.has_action && !keys.contains_key("headers")
        {
            keys.insert("headers".to_owned(), json!({ "remove": ["SOAPAction"] }));
            if target.format.is_none() && target.method.is_none() {
                steps.push(soap_action::removed());
            }
        }
        steps.push(match keys.len() {
            1 if target.url.is_none() => json!({ "call": target.upstream }),
            _ => json!({ "call": keys }),
        });
        Ok(())
    }

    /// Writes the message in the format set by properties and the endpoint. `form` has the steps for a media type.
    pub(super) fn write_message(
        &mut self,
        format: Option<Format>,
        form: impl Fn(&str) -> Vec<Json>,
        steps: &mut Vec<Json>,
    ) {
        let to = |to: &str| json!({ "convert": { "to": to } });
        let message_type = self.flow.pending.message_type.take();
        let content_type = self.flow.pending.content_type.take();
        match format {
            Some(Format::Soap11) => steps.extend(form("text/xml")),
            Some(Format::Soap12) => steps.extend(form("application/soap+xml")),
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
                let cases = kinds.map(|kind| json!({ "equals": kind, "steps": form(kind) }));
                steps.push(json!({ "switch": { "on": format!("${variable}"), "cases": cases } }));
            }
            None => steps.extend(message_type.iter().flat_map(|kind| form(kind))),
        }
        if let Some(content_type) = content_type.filter(|_| format.is_none()) {
            steps.push(json!({ "header": { "set": { "content-type": content_type } } }));
        }
    }

    /// The path of a call, or `None` if the call has the path that the route forwards.
    fn path_of(&mut self, target: &Target) -> Result<Option<String>, String> {
        if target.is_own {
            return Ok(None);
        }
        if target.is_exact {
            return Ok(or_root(target.path.clone()));
        }
        let is_soap = self.is_posted_soap();
        let pending = &self.flow.pending;
        let sender = pending.sender;
        let postfix = match pending.postfix.clone() {
            _ if self.keeps(KeptProperty::Postfix) => {
                let variable = self.kept_variable(KeptProperty::Postfix);
                Some(format!("${variable}"))
            }
            Some(Postfix::Text(text)) if is_soap.is_none() => {
                let base = target.path.trim_end_matches('/');
                return Ok(or_root(format!("{base}{}", escaped(&text))));
            }
            Some(Postfix::Text(text)) => {
                Some(quoted(&text).ok_or("the path behind an address has both kinds of quotes")?)
            }
            Some(Postfix::Computed(value)) => Some(value),
            None if sender == Sender::Either => {
                // The next round has a variable for it.
                self.wanted.insert((self.owner.clone(), KeptProperty::Postfix));
                None
            }
            None if sender == Sender::Client && self.flow.may_post && target.query.is_some() => {
                self.note("the path of a request that is not SOAP is put behind the query of the address there");
                None
            }
            None if sender == Sender::Client && self.flow.may_post => self.rest_of_path(),
            None if sender == Sender::Client => return self.forwarded(target),
            None => None,
        };
        match postfix {
            None => Ok(or_root(target.path.clone())),
            Some(postfix) => with_postfix(&target.path, postfix, is_soap).map(Some),
        }
    }

    /// The XPath of a request's path after the known prefix, or `None` if the prefix is unknown or the message is not a request.
    pub(super) fn rest_of_path(&self) -> Option<String> {
        let front = self.flow.front.as_deref();
        let front = front.filter(|_| self.flow.pending.sender == Sender::Client)?;
        Some(match front {
            "" => "$request.path".to_owned(),
            front => format!("substring-after($request.path, '{front}')"),
        })
    }

    /// The XPath condition under which the message is posted SOAP, whose path is not appended to an address. `None` if it never is.
    fn is_posted_soap(&mut self) -> Option<String> {
        let pending = self.flow.pending.clone();
        if pending.sender != Sender::Client || !self.flow.may_post {
            return None;
        }
        let is_soap = |value: &str| {
            format!("contains({value}, 'text/xml') or contains({value}, 'application/soap+xml')")
        };
        let mut all = vec![format!("({})", is_soap("$request.headers.content-type"))];
        match pending.method.as_deref() {
            _ if self.keeps(KeptProperty::Method) => {
                let variable = self.kept_variable(KeptProperty::Method);
                all.push(format!(
                    "(${variable} = 'POST' or ${variable} = '' and $method = 'POST')"
                ));
            }
            Some("POST") => {}
            Some(template) if template.starts_with("{{") => {
                let variable = self.kept_variable(KeptProperty::Method);
                all.push(format!("${variable} = 'POST'"));
            }
            Some(_) => return None,
            None => all.push("$method = 'POST'".to_owned()),
        }
        if self.keeps(KeptProperty::MessageType) {
            let variable = format!("${}", self.kept_variable(KeptProperty::MessageType));
            all.push(format!("({variable} = '' or {})", is_soap(&variable)));
        } else if let Some(kind) = pending.message_type
            && !matches!(&*kind, "text/xml" | "application/soap+xml")
        {
            return None;
        }
        Some(all.join(" and "))
    }

    /// The path of a call for a resource without `POST`. `None` if the route forwards it, after the path of the first address.
    fn forwarded(&mut self, target: &Target) -> Result<Option<String>, String> {
        let base = target.path.trim_end_matches('/');
        let Some(resource) = self.flow.resource.clone() else {
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

/// The steps that write a request in the format of a media type. SOAP keeps its action.
fn request_form(kind: &str, action_was_set: bool) -> Vec<Json> {
    let mut steps = properties::conversion(kind);
    match kind {
        "text/xml" => steps.insert(0, soap_action::into_header()),
        "application/soap+xml" => steps.push(soap_action::into_type(action_was_set)),
        // Harmless: no other format has an action.
        _ => {}
    }
    steps
}

/// The path of a call; `/` for an empty one.
fn or_root(path: String) -> Option<String> {
    Some(if path.is_empty() { "/".to_owned() } else { path })
}

/// A path followed by a computed text, unless the message is SOAP. The text is part of a URL, possibly with several segments and a
/// query, so the whole path is one value.
fn with_postfix(path: &str, postfix: String, is_soap: Option<String>) -> Result<String, String> {
    let base = path.trim_end_matches('/');
    if base.contains("{{") || base.contains('\'') {
        return Err("a computed path behind a computed address has no counterpart".to_owned());
    }
    let cut = |text: &str, when: &str| format!("substring({text}, 1 + 9999999 * ({when}))");
    let postfix = match is_soap {
        Some(is_soap) => cut(&postfix, &is_soap),
        None => postfix,
    };
    let slash = match (base, path.ends_with('/')) {
        ("", _) => Some(cut("'/'", &format!("starts-with({postfix}, '/')"))),
        (_, true) => Some(cut("'/'", &format!("{postfix} != ''"))),
        (_, false) => None,
    };
    Ok(match (base, slash) {
        ("", Some(slash)) => format!("{{{{ concat({slash}, {postfix}) }}}}"),
        (base, Some(slash)) => format!("{{{{ concat('{base}', {slash}, {postfix}) }}}}"),
        (base, None) => format!("{{{{ concat('{base}', {postfix}) }}}}"),
    })
}

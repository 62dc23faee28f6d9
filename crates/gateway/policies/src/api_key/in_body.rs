//! Reads a key from the body of a request: a field of a form, or a member of a JSON object.

use std::borrow::Cow;

use fault::{Fault, Kind};
use kit::percent;
use message::{GatheredBody, RequestHead};
use policy::{Decision, Exchange, Flow, OnBuffered, OnHead as _, Onward};
use serde_json::{Map, Value};

use super::{Keys, missing, one, refused};
use crate::body_lines;
use crate::json_edits::{EditRefusal, JsonEdits, Pointer};
use crate::query::is_named;

/// Looks for a key in the head first, and then in the body.
pub(super) struct KeysInBody {
    pub(super) keys: Keys,
    /// The names of the form fields or JSON members that may contain a key.
    pub(super) names: Vec<String>,
    /// The maximum size of a body that is read.
    pub(super) bytes_max: usize,
}

/// The kinds of body that may contain a key.
#[derive(Clone, Copy)]
enum BodyForm {
    Form,
    Json,
}

impl BodyForm {
    fn of(head: &RequestHead) -> Option<BodyForm> {
        let coded = head.headers.get("content-encoding").is_some();
        let kind = message::media_type(head.headers.get("content-type")?);
        if coded {
            None
        } else if kind.eq_ignore_ascii_case(b"application/x-www-form-urlencoded") {
            Some(BodyForm::Form)
        } else {
            message::is_json(kind).then_some(BodyForm::Json)
        }
    }
}

impl OnBuffered<RequestHead> for KeysInBody {
    fn wants(&self, ex: &mut Exchange, head: &mut RequestHead) -> Result<bool, Fault> {
        if self.keys.find(head)?.is_some() {
            // The head has a key, so the body is not read.
            return self.keys.on_head(ex, head).map(|_| false);
        }
        if BodyForm::of(head).is_some() { Ok(true) } else { Err(missing()) }
    }

    fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    fn on_buffered<'a>(
        &'a self,
        ex: &'a mut Exchange,
        head: &'a mut RequestHead,
        body: &'a mut GatheredBody,
    ) -> Decision<'a> {
        Decision::Ready(self.checked(ex, head, body))
    }
}

impl KeysInBody {
    fn checked(&self, ex: &mut Exchange, head: &mut RequestHead, body: &mut GatheredBody) -> Flow {
        let form = BodyForm::of(head).ok_or_else(missing)?;
        let found = match form {
            BodyForm::Form => self.in_form(&body.bytes),
            BodyForm::Json => self.in_json(&body.bytes)?,
        };
        let key = one(found.into_iter())?.ok_or_else(missing)?;
        let holder = self.keys.holder(&key)?;
        // JSON is edited even if the upstream gets the key, so that a member that occurs twice is always refused.
        let edited = match form {
            BodyForm::Form => None,
            BodyForm::Json => Some(self.json_without(body)?),
        };
        ex.identity = Some(holder);
        if !self.keys.forward {
            body.bytes = edited.unwrap_or_else(|| self.form_without(&body.bytes)).into();
            body_lines::edited(&mut head.headers);
        }
        Ok(Onward::Next)
    }

    fn in_form<'b>(&'b self, form: &'b [u8]) -> Vec<Cow<'b, [u8]>> {
        let is_it = |name: &[u8]| self.names.iter().any(|wanted| wanted.as_bytes() == name);
        let pairs = percent::pairs(form).filter(|(name, _)| is_it(name));
        pairs.map(|(_, value)| percent::decoded(value, true)).collect()
    }

    fn in_json(&self, text: &[u8]) -> Result<Vec<Cow<'static, [u8]>>, Fault> {
        let read = serde_json::from_slice::<Map<String, Value>>(text);
        let members = read.map_err(|_| unreadable())?;
        // Harmless: a member that is not a string cannot be a key.
        let values = self.names.iter().filter_map(|name| members.get(name)?.as_str());
        Ok(values.map(|value| Cow::Owned(value.as_bytes().to_vec())).collect())
    }

    fn form_without(&self, form: &[u8]) -> Vec<u8> {
        let is_kept = |pair: &&[u8]| !self.names.iter().any(|name| is_named(pair, name));
        let kept: Vec<&[u8]> = form.split(|byte| *byte == b'&').filter(is_kept).collect();
        kept.join(&b'&')
    }

    fn json_without(&self, body: &mut GatheredBody) -> Result<Vec<u8>, Fault> {
        let mut edits = JsonEdits::default();
        for name in &self.names {
            let pointer = Pointer::of_member(name);
            edits.remove(&pointer).map_err(|_| unreadable())?;
        }
        // A body in which an edited member occurs twice is refused, since the upstream could read either value.
        edits.without_values(body).map_err(|why| match why {
            EditRefusal::Twice { .. } => malformed("the body has the key twice"),
            EditRefusal::NotUtf8 | EditRefusal::Malformed { .. } | EditRefusal::NoPlace { .. } => {
                unreadable()
            }
        })
    }
}

fn malformed(why: &str) -> Fault {
    refused(Kind::Unauthenticated, 900_901, &format!("api_key: {why}"))
}

fn unreadable() -> Fault {
    malformed("the body is not a valid JSON object")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credentials::Holder;
    use message::Protocol;
    use policy::{Caller, Scheme};

    fn step(forward: bool) -> KeysInBody {
        let keys = Keys::new(Vec::new(), Vec::new(), forward, vec![Holder::alice("k1")]);
        let keys = keys.unwrap_or_else(|_| panic!("the keys are valid"));
        KeysInBody { keys, names: vec!["key".to_owned()], bytes_max: 1000 }
    }

    #[test]
    fn a_key_that_occurs_twice_is_refused_whether_it_is_forwarded_or_not() {
        for (body, forward, made) in [
            (r#"{"key":"k1","a":1}"#, false, Ok(r#"{"a":1}"#)),
            (r#"{"key":"k1","a":1}"#, true, Ok(r#"{"key":"k1","a":1}"#)),
            (r#"{"key":"k2","key":"k1"}"#, false, Err("api_key: the body has the key twice")),
            (r#"{"key":"k2","key":"k1"}"#, true, Err("api_key: the body has the key twice")),
            (r#"{"key":"k1""#, false, Err("api_key: the body is not a valid JSON object")),
            (r#"{"key":"k3"}"#, false, Err("api_key: unknown key")),
        ] {
            let peer = ([192, 0, 2, 1], 1).into();
            let caller = Caller::new(peer, peer, Scheme::Http, 0);
            let mut ex = Exchange::new(caller.into(), Default::default());
            let mut head = RequestHead::new(Protocol::Http11, b"POST", b"/");
            head.headers.add_known("Content-Type", b"application/json");
            let mut gathered = GatheredBody::new(body.into(), Vec::new());
            let checked = step(forward).checked(&mut ex, &mut head, &mut gathered);
            let checked =
                checked.map(|_| &*gathered.bytes).map_err(|fault| fault.cause.to_string());
            let made = made.map(str::as_bytes).map_err(str::to_owned);
            assert_eq!(checked, made, "{body} {forward}");
            assert_eq!(ex.identity.is_some(), made.is_ok(), "{body} {forward}");
        }
    }
}

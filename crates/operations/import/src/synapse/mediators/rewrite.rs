//! `rewrite`: the URL that the next `send` without an endpoint goes to.
//!
//! Rules are applied during the import, as far as the URL is known: an address from an earlier header, or the request's own URL,
//! of which only the path and the query are unknown. Rules with conditions give several URLs. When the flow runs, a variable gets one of
//! them.

mod conditions;

use serde_json::Value as Json;

use super::super::converter::{Converter, Next};
use super::super::element::Element;
use super::super::pending::KeptProperty;
use super::super::rewritten::Rewritten;
use super::super::value::Value;

pub(super) fn rewrite<'a>(
    c: &mut Converter<'a>,
    item: &Element<'a>,
    steps: &mut Vec<Json>,
) -> Result<Next, String> {
    if item.attribute("inProperty").is_some() || item.attribute("outProperty").is_some() {
        return Err(
            "a URL in a property has no counterpart; write it in `path` and `query` of the call"
                .to_owned(),
        );
    }
    let rules = item.all("rewriterule");
    if c.keeps(KeptProperty::To) || c.flow.pending.has_computed_to {
        return Err("a rule for an address that is computed has no counterpart".to_owned());
    }
    let mut url = match (&c.flow.pending.rewritten, &c.flow.pending.to) {
        (Some(url), _) => url.clone(),
        (None, Some(url)) => Rewritten::of(url)?,
        (None, None) => Rewritten::default(),
    };
    if rules.iter().any(|rule| rule.child("condition").is_some()) {
        let (before, made) = conditions::chosen(c, &rules, url)?;
        steps.extend(before);
        match made {
            Chosen::Url(url) => c.flow.pending.rewritten = Some(url),
            Chosen::Variable(choice) => {
                steps.extend(choice);
                c.flow.pending.has_computed_to = true;
                c.flow.pending.rewritten = None;
            }
        }
        return Ok(Next::Continue);
    }
    for action in rules.iter().flat_map(|rule| rule.all("action")) {
        apply(c, &action, &mut url)?;
    }
    c.flow.pending.rewritten = Some(url);
    Ok(Next::Continue)
}

/// The result of rules with conditions.
enum Chosen {
    /// The URL, if all conditions are known.
    Url(Rewritten),
    /// The steps that put the URL into the variable of `To`.
    Variable(Vec<Json>),
}

/// Applies one action to one part of the URL.
fn apply<'a>(
    c: &mut Converter<'a>,
    action: &Element<'a>,
    url: &mut Rewritten,
) -> Result<(), String> {
    let fragment = action.attribute("fragment").unwrap_or("full");
    let kind = action.attribute("type").unwrap_or("set");
    let is_text = matches!(fragment, "path" | "query");
    let value = match c.value(action, "value", "xpath")? {
        _ if kind == "remove" => None,
        Some(value) if is_text => Some(c.text_placeholder(&value)),
        Some(Value::Literal(text)) => Some(text),
        Some(_) => return Err(format!("the part `{fragment}` of a URL cannot be computed")),
        None => return Err("an action without a value".to_owned()),
    };
    let part = match fragment {
        "protocol" => &mut url.scheme,
        "host" => &mut url.host,
        "port" => &mut url.port,
        "path" => &mut url.path,
        "query" => &mut url.query,
        // A fragment is never sent.
        "ref" => return Ok(()),
        "full" => {
            let value = value.filter(|_| kind == "set");
            *url = Rewritten::of(&value.ok_or("a whole URL can only be set")?)?;
            return Ok(());
        }
        other => return Err(format!("the part `{other}` of a URL has no counterpart")),
    };
    let known = |part: &Option<String>| {
        let own = || format!("the `{fragment}` of the request is not known here; `set` it");
        part.clone().filter(|text| kind != "replace" || !text.contains("{{")).ok_or_else(own)
    };
    *part = match (kind, value) {
        ("set", value) => value.filter(|text| fragment != "port" || text != "-1"),
        ("append", Some(value)) => Some(known(part)? + &value),
        ("prepend", Some(value)) => Some(value + &known(part)?),
        ("replace", Some(value)) => {
            let regex = action.attribute("regex").ok_or("`replace` needs a regular expression")?;
            let regex = regex::Regex::new(regex)
                .map_err(|_| format!("the regular expression `{regex}` has no counterpart"))?;
            Some(regex.replace_all(&known(part)?, &*value).into_owned())
        }
        // Without a path it is `/`, and without a query there is none.
        ("remove", _) if is_text => Some(String::new()),
        ("remove", _) => None,
        (other, _) => return Err(format!("the action `{other}` has no counterpart")),
    };
    Ok(())
}

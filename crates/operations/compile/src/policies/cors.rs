//! Compiles `cors`.

use config::{At, Cors, CorsPreflights, OriginMatch, Report, Spanned};
use policies::cors::{
    self, AllowedHeaders, CorsSettings, Origin, OriginRegex, Origins, PassedPreflights,
};

use super::{Access, Facts, PolicyKind, PolicyPlace};
use crate::names;
use crate::policy::RouteScope;

/// The default methods, which browsers usually send.
const METHODS: &[&str] = &["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"];

impl PolicyKind for Cors {
    fn build(
        &self,
        _written: PolicyPlace,
        place: &mut RouteScope<'_, '_>,
        report: &mut Report,
    ) -> plan::Policy {
        let own = place.of.matches.value.methods.0.iter().map(|method| method.value.as_str());
        cors::policy(settings(self, own, report), place.slots)
    }

    fn facts(&self, _parameters: &[String]) -> Facts<'_> {
        Facts {
            access: Access::AnswersPreflights,
            attracts_preflights: self.preflights == CorsPreflights::Answer,
            ..Facts::NONE
        }
    }
}

/// Complains about faults of the keys that do not depend on the route.
pub(crate) fn check(keys: &Cors, report: &mut Report) {
    let _ = settings(keys, [].into_iter(), report);
}

/// Compiles the settings. `own` are the methods of the route.
fn settings<'m>(
    keys: &Cors,
    own: impl ExactSizeIterator<Item = &'m str> + Clone,
    report: &mut Report,
) -> CorsSettings {
    let methods: Vec<String> =
        keys.methods.0.iter().filter_map(|method| names::method(method, report)).collect();
    let names = |list: &[Spanned<String>], report: &mut Report| -> Vec<String> {
        list.iter().filter_map(|name| names::header(&name.value, name.at, report)).collect()
    };
    let asked = match keys.headers.0.as_slice() {
        [] => true,
        [one] => one.value == "*",
        _ => false,
    };
    let expose = names(&keys.expose.0, report);
    let headers = if asked {
        AllowedHeaders::Asked
    } else {
        AllowedHeaders::Listed(names(&keys.headers.0, report).join(", "))
    };
    let names_options = own.clone().any(|method| method == "OPTIONS");
    let passes = match keys.preflights {
        CorsPreflights::Answer if names_options => PassedPreflights::OfOtherOrigins,
        CorsPreflights::Answer | CorsPreflights::AsOptions => PassedPreflights::None,
        CorsPreflights::Forward => PassedPreflights::All,
    };
    let allow: Vec<&str> = match own.len() {
        0 => METHODS.iter().copied().chain(["OPTIONS"]).collect(),
        _ => own.filter(|method| *method != "OPTIONS").chain(["OPTIONS"]).collect(),
    };
    CorsSettings {
        origins: origins(keys, report),
        methods: methods_text(&methods),
        headers,
        expose: (!expose.is_empty()).then(|| expose.join(", ")),
        credentials: keys.credentials.value,
        max_age: Some(keys.max_age.as_secs()).filter(|seconds| *seconds > 0),
        allow: allow.join(", "),
        passes,
        // Harmless: the key allows no other numbers.
        preflight_status: u16::try_from(keys.preflight_status.get()).unwrap_or(204),
    }
}

fn methods_text(methods: &[String]) -> String {
    match methods {
        [] => METHODS.join(", "),
        listed => listed.join(", "),
    }
}

fn origins(keys: &Cors, report: &mut Report) -> Origins {
    let written = &keys.origins.value.0;
    if written.is_empty() && keys.origins.intact {
        let help =
            "list origins, such as `https://app.example.com`, write `*` for all, or remove `cors`";
        report.error(keys.origins.at, "no origin is listed, so no page may read a reply", help);
    }
    let is_any = |origin: &OriginMatch| matches!(origin, OriginMatch::Text(text) if text == "*");
    if let Some(any) = written.iter().find(|origin| is_any(&origin.value)) {
        let what = "with `credentials`, any website could act on behalf of its visitors";
        let help = "list the origins, or remove `credentials`";
        match (keys.credentials.value, keys.any_with_credentials) {
            (true, false) => report.error(any.at, what, help),
            (true, true) => report.warn(any.at, what, help),
            (false, _) => {}
        }
        if written.len() > 1 {
            report.warn(any.at, "`*` includes all other origins", "keep `*` alone");
        }
        return Origins::Any;
    }
    let read = |one: &Spanned<OriginMatch>| match &one.value {
        OriginMatch::Text(text) => origin(text, one.at, report),
        OriginMatch::Regex(text) => regex(text, one.at, report),
    };
    // Harmless: an origin that cannot be used has a complaint.
    Origins::Listed(written.iter().filter_map(read).collect())
}

/// Compiles an origin: `null`, or `SCHEME://HOST[:PORT]` with at most one `*`.
fn origin(origin: &str, at: At, report: &mut Report) -> Option<Origin> {
    let mut complain = |what: String, help: &str| {
        report.error(at, what, help);
        None
    };
    let help = "write `https://app.example.com`, `https://*.example.com`, or `http://localhost:*`";
    if origin == "null" {
        return Some(Origin::Exact(origin.to_owned()));
    }
    let shown = origin.escape_debug();
    let Some((scheme, rest)) = origin.split_once("://") else {
        return complain(format!("`{shown}` is not an origin"), help);
    };
    // A browser leaves out the port that the scheme implies.
    let implied = match scheme {
        "https" => ":443",
        "http" => ":80",
        _ => "",
    };
    let rest = rest.strip_suffix(implied).unwrap_or(rest);
    let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-._:[]*".contains(c);
    let scheme_is_good =
        !scheme.is_empty() && scheme.chars().all(|c| c.is_ascii_lowercase() || c == '-');
    if !scheme_is_good || rest.is_empty() || !rest.chars().all(good) {
        let what = format!("`{shown}` is not an origin such as `https://app.example.com`");
        let help = "write a scheme, a host in lower case, and the port if it is not the default, without a path";
        return complain(what, help);
    }
    let Some((before, after)) = rest.split_once('*') else {
        return Some(Origin::Exact(format!("{scheme}://{rest}")));
    };
    let whole_labels = before.is_empty() && after.starts_with('.');
    let port = before.ends_with(':') && after.is_empty();
    if after.contains('*') || !(whole_labels || port) {
        let what = format!(
            "in `{shown}`, `*` is allowed only as the first label of the host or as the port"
        );
        return complain(what, help);
    }
    let before = format!("{scheme}://{before}");
    Some(Origin::Pattern { before, after: after.to_owned() })
}

fn regex(text: &str, at: At, report: &mut Report) -> Option<Origin> {
    match OriginRegex::parse(text) {
        Ok(regex) => Some(Origin::Regex(regex)),
        Err(why) => {
            let what = format!("this regular expression cannot be used: {why}");
            report.error(at, what, "write one such as `https://[a-z]+\\.example\\.com`");
            None
        }
    }
}

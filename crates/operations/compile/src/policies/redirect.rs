//! Compiles `redirect`.

use ::policies::redirect::{self, RedirectSettings};
use config::{Redirect, Report};

use super::{Facts, PolicyKind, PolicyPlace, or_nothing};
use crate::policy::RouteScope;
use crate::{names, templates};

/// The statuses that are redirects (RFC 9110, 15.4). The other 3xx statuses are not.
const STATUSES: &[u16] = &[301, 302, 303, 307, 308];

impl PolicyKind for Redirect {
    fn build(
        &self,
        _written: PolicyPlace,
        place: &mut RouteScope<'_, '_>,
        report: &mut Report,
    ) -> plan::Policy {
        or_nothing(build(self, place, report))
    }

    fn facts(&self, parameters: &[String]) -> Facts<'_> {
        Facts {
            answers: true,
            asks_identity: templates::asks_identity(&self.to.value, parameters),
            replies_differ: templates::depends_on_client(&self.to.value, parameters),
            ..Facts::NONE
        }
    }
}

/// Removes the placeholders of the request's own host. A path parameter of the same name counts first, and is the client's choice.
fn without_own_host(host: &str, parameters: &[String]) -> String {
    let own = ["host", "hostname"].into_iter();
    let own = own.filter(|own| !parameters.iter().any(|parameter| parameter == own));
    own.fold(host.to_owned(), |text, own| text.replace(&format!("{{{own}}}"), ""))
}

fn build(keys: &Redirect, place: &RouteScope<'_, '_>, report: &mut Report) -> Option<plan::Policy> {
    let Redirect { status, to, keep_path, keep_query } = keys;
    // Harmless: an invalid redirect status gets a complaint below.
    let known = u16::try_from(status.value.get()).ok().filter(|known| STATUSES.contains(known));
    if known.is_none() {
        let what = format!("{} is not a redirect status", status.value.get());
        report.error(status.at, what, "write 301, 302, 303, 307 or 308");
    }
    let host = ["https://", "http://"].into_iter().find_map(|scheme| {
        let (front, rest) = to.value.split_at_checked(scheme.len())?;
        front.eq_ignore_ascii_case(scheme).then_some(rest)
    });
    let host = host.map(|rest| rest.split(['/', '?', '#']).next().unwrap_or_default());
    let is_path = to.value.strip_prefix('/').is_some_and(|rest| !rest.starts_with(['/', '\\']));
    let parameters = templates::parameters(&place.of.matches.value);
    let mismatch = match host {
        None if !is_path => Some("is neither a URL nor a path"),
        Some("") => Some("has no host"),
        Some(host) if without_own_host(host, &parameters).contains(['{', '\\', '@']) => {
            Some("would let the client choose the host")
        }
        Some(_) | None if *keep_path && to.value.contains(['?', '#']) => {
            Some("has a query or fragment, so `keep_path` cannot be used")
        }
        Some(_) | None if *keep_query && to.value.contains('#') => {
            Some("has a fragment, so `keep_query` cannot be used")
        }
        Some(_) | None => None,
    };
    if let Some(mismatch) = mismatch {
        let what = format!("`{}` {mismatch}", to.value.escape_debug());
        report.error(to.at, what, "write `https://www.example.com/new`, or a path such as `/new`");
    }
    names::header_value(to, report)?;
    let to = templates::read(to, &parameters, report)?;
    Some(redirect::policy(RedirectSettings {
        status: known?,
        to: to.for_links(),
        same_host: is_path,
        keep_path: *keep_path,
        keep_query: *keep_query,
    }))
}

//! Compiles `headers`.

use ::policies::headers::{self, Edits};
use config::{Headers, HeadersEdit, Map, Report, Spanned};

use super::{Facts, PolicyKind, PolicyPlace, WrittenLines};
use crate::policy::RouteScope;
use crate::upstream_settings::ranges;
use crate::{names, templates};

impl PolicyKind for Headers {
    fn build(
        &self,
        _written: PolicyPlace,
        place: &mut RouteScope<'_, '_>,
        report: &mut Report,
    ) -> plan::Policy {
        let parameters = templates::parameters(&place.of.matches.value);
        let request = edits(&self.request, &parameters, report);
        refuse_host(&self.request, report);
        let response = edits(&self.response, &parameters, report);
        let values = written(&self.response).map(|(_, value)| value);
        templates::refuse_head(values, &parameters, report);
        if !self.request.if_status.value.is_empty() {
            let what = "`if_status` applies only to responses";
            report.error(self.request.if_status.at, what, "write `if_status` below `response`");
        }
        headers::policy(request, response, ranges(&self.response.if_status.value))
    }

    fn facts(&self, parameters: &[String]) -> Facts<'_> {
        Facts {
            asks_identity: asks_identity(&self.request, parameters),
            replies_differ: replies_differ(self, parameters),
            writes: WrittenLines::These(client_dependent_lines(&self.request, parameters)),
            removes: removed(&self.request),
            ..Facts::NONE
        }
    }
}

/// Returns the header lines that the policy writes.
fn written(keys: &HeadersEdit) -> impl Iterator<Item = (&Spanned<String>, &Spanned<String>)> {
    [&keys.replace, &keys.set, &keys.default, &keys.add].into_iter().flat_map(Map::iter)
}

/// Returns true if the policy writes the client identity into requests.
pub(crate) fn asks_identity(keys: &HeadersEdit, parameters: &[String]) -> bool {
    written(keys).any(|(_, text)| templates::asks_identity(&text.value, parameters))
}

/// Returns true if the policy passes the client identity to the upstream or writes it into replies.
pub(crate) fn replies_differ(
    Headers { request, response }: &Headers,
    parameters: &[String],
) -> bool {
    asks_identity(request, parameters)
        || written(response).any(|(_, text)| templates::depends_on_client(&text.value, parameters))
}

/// Returns the header lines whose values depend on the client.
pub(crate) fn client_dependent_lines<'k>(
    keys: &'k HeadersEdit,
    parameters: &[String],
) -> Vec<&'k str> {
    written(keys)
        .filter(|(_, text)| templates::depends_on_client(&text.value, parameters))
        .map(|(name, _)| name.value.as_str())
        .collect()
}

/// Returns the header lines that the policy removes or renames.
pub(crate) fn removed(HeadersEdit { remove, rename, .. }: &HeadersEdit) -> Vec<&str> {
    let renamed = rename.iter().flat_map(|(old, new)| [&*old.value, &*new.value]);
    remove.iter().map(|name| &*name.value).chain(renamed).collect()
}

fn edits(keys: &HeadersEdit, parameters: &[String], report: &mut Report) -> Edits {
    let rename = names::renames(&keys.rename, report, names::changeable_header);
    let remove = keys.remove.iter();
    let remove = remove.filter_map(|name| names::changeable_header(&name.value, name.at, report));
    Edits {
        rename,
        remove: remove.collect(),
        replace: templates::lines(&keys.replace, parameters, report),
        set: templates::lines(&keys.set, parameters, report),
        default: templates::lines(&keys.default, parameters, report),
        add: templates::lines(&keys.add, parameters, report),
    }
}

/// Complains about edits of `host`: a request has exactly one, and the route determines its value.
fn refuse_host(keys: &HeadersEdit, report: &mut Report) {
    let named = written(keys).chain(keys.rename.iter());
    let renamed = keys.rename.iter().map(|(_, new)| new);
    let names = named.map(|(name, _)| name).chain(renamed).chain(&keys.remove);
    for name in names.filter(|name| name.value.eq_ignore_ascii_case("host")) {
        let help = "write the route's `host` key: `host: target`, or a name";
        report.error(name.at, "a policy cannot change the Host", help);
    }
}

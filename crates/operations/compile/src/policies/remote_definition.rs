//! Compiles the `fetch` of a policy to a remote definition: one that is fetched, or renewed from time to time.
//!
//! Owns the connections to the servers of documents. A definition is compiled by its own compiler.

use std::collections::HashMap;
use std::sync::Arc;

use ::policies::remote_definition::{DefinitionCompiler, DocumentRequest, RenewableDefinition};
use config::{At, Decode as _, DefinitionAt, DefinitionFetch, Report, Spanned, WebUrl};
use mediation::remote_definition::{LastGood, RefreshTimes, RemoteDefinition};
use plan::upstreams::Timeouts;

use crate::policy::RouteScope;
use crate::upstream_settings;

/// The idle timeout of connections to a server of documents. Requests to it are rare.
const IDLE: std::time::Duration = std::time::Duration::from_secs(30);

/// The parts of a remote definition.
pub(crate) struct DefinitionParts<'d, M> {
    /// The first document, for logs and metrics.
    pub(crate) location: &'d str,
    /// A key that covers everything the definition is made of, as far as it is known.
    pub(crate) key: String,
    /// URLs that are known to be needed.
    pub(crate) remote: &'d [String],
    pub(crate) compiler: Arc<dyn DefinitionCompiler<M>>,
    /// The definition that serves at once, or `None` if something must be fetched first.
    pub(crate) first: Option<Arc<M>>,
    /// Whether requests get a fault while the definition is faulty, instead of a complaint at start.
    pub(crate) answers_with_faults: bool,
}

impl<M: Send + Sync + 'static> DefinitionParts<'_, M> {
    /// Builds the remote definition, or takes it over from the previous plan.
    pub(crate) fn build(
        self,
        fetch: &DefinitionFetch,
        at: At,
        place: &mut RouteScope<'_, '_>,
        report: &mut Report,
    ) -> Option<Arc<RemoteDefinition<M>>> {
        let mut fetches = HashMap::new();
        let mut known = Vec::new();
        for location in self.remote {
            let url = match WebUrl::parse(location) {
                Ok(url) => url,
                Err(why) if self.answers_with_faults => {
                    report.warn(at, why, "correct it; until then every message is refused");
                    continue;
                }
                Err(why) => {
                    report.error(at, why, "correct the import, or map it in `imports`");
                    return None;
                }
            };
            let timeout = Timeouts {
                connect: fetch.timeout.0,
                response: fetch.timeout.0,
                write: None,
                total: None,
                idle: IDLE,
            };
            let settings = upstream_settings::to_url(&url.target, timeout, &fetch.tls, report)?;
            known.push(format!("{settings:?}"));
            fetches.insert(url.target.to_string(), place.builder.own_fetch(settings));
        }
        let pace =
            RefreshTimes { timeout: fetch.timeout.0, ttl: fetch.ttl.0, eager: fetch.background };
        let metrics = place.builder.telemetry.definition(self.location);
        // A changed refresh interval does not invalidate a fetched definition, and it may be the only copy while its server is unavailable.
        let key = format!("last of {} {}", self.key, fetch.tls.encode());
        let last = place.builder.reuse_or_build(&key, || Arc::new(LastGood::default()));
        if let Some(first) = self.first {
            last.put(first);
        }
        let key = format!("definition of {} {known:?} {}", self.key, fetch.encode());
        let kept = place.builder.reuse_or_build(&key, || {
            let name = self.location;
            Arc::new(RenewableDefinition::new(name, self.compiler, fetches, pace, metrics, last))
        });
        place.builder.work(kept.renewal.clone());
        Some(kept.definition.clone())
    }
}

/// Parses URLs into requests for documents.
pub(crate) fn wanted(locations: Vec<String>) -> Result<Vec<DocumentRequest>, String> {
    let wanted = |location: String| {
        let url = WebUrl::parse(&location)?;
        Ok(DocumentRequest { location, origin: url.target.to_string(), path: url.path })
    };
    locations.into_iter().map(wanted).collect()
}

/// Returns true if a definition can be read. Complains, and returns false, if it is at a URL and `fetch` is missing.
pub(crate) fn may_be_fetched(
    at: &Spanned<DefinitionAt>,
    fetch: Option<&DefinitionFetch>,
    report: &mut Report,
) -> bool {
    match (&at.value, fetch) {
        (DefinitionAt::File(_), _) | (DefinitionAt::Url(_), Some(_)) => true,
        (DefinitionAt::Url(url), None) => {
            let what = format!("`{url}` is a URL, but `fetch` is not set");
            report.error(at.at, what, "add `fetch: { ttl: 1h }` to the policy, or name a file");
            false
        }
    }
}

//! Definitions that are fetched, or renewed from time to time: from a policy's `fetch` to a remote definition.
//!
//! Owns the connections to the documents' servers. A definition is made by its compiler.

use std::collections::HashMap;
use std::sync::Arc;

use ::policies::remote_definition::{self as supplies, DefinitionCompiler, DocumentRequest};
use config::{At, Decode as _, DefinitionAt, DefinitionFetch, Report, Spanned, WebUrl};
use mediation::remote_definition::{LastGood, RefreshTimes, RemoteDefinition};
use plan::upstreams::Timeouts;

use crate::policy::RouteScope;
use crate::upstreams;

/// The idle timeout of connections to a server of schemas. It is asked seldom.
const IDLE: std::time::Duration = std::time::Duration::from_secs(30);

/// The parts of a remote definition.
pub(crate) struct DefinitionParts<'d, M> {
    /// The document it begins with, for log and metrics.
    pub(crate) location: &'d str,
    /// Says everything it is made of, as far as it is known.
    pub(crate) key: String,
    /// URLs that are known to be fetched.
    pub(crate) remote: &'d [String],
    pub(crate) recipe: Arc<dyn DefinitionCompiler<M>>,
    /// The definition that serves at once, if nothing has to be fetched for it.
    pub(crate) first: Option<Arc<M>>,
    /// A faulty definition is answered with faults.
    pub(crate) faulty: bool,
}

impl<M: Send + Sync + 'static> DefinitionParts<'_, M> {
    /// The supply; taken over from the plan before where that has it.
    pub(crate) fn by(
        self,
        fetch: &DefinitionFetch,
        at: At,
        place: &mut RouteScope<'_, '_>,
        report: &mut Report,
    ) -> Option<Arc<RemoteDefinition<M>>> {
        let mut outlets = HashMap::new();
        let mut known = Vec::new();
        for location in self.remote {
            let url = match WebUrl::parse(location) {
                Ok(url) => url,
                Err(why) if self.faulty => {
                    report.warn(at, why, "correct it: until then every message is refused");
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
            let settings = upstreams::to_url(&url.target, timeout, &fetch.tls, report)?;
            known.push(format!("{settings:?}"));
            outlets.insert(url.target.to_string(), place.builder.own_outlet(settings));
        }
        let pace =
            RefreshTimes { timeout: fetch.timeout.0, ttl: fetch.ttl.0, eager: fetch.background };
        let metrics = place.builder.telemetry.definition(self.location);
        // A fetched definition is as good at another pace, and may be the only one while its server is away.
        let key = format!("last of {} {}", self.key, fetch.tls.encode());
        let last = place.builder.kept_or(&key, || Arc::new(LastGood::default()));
        if let Some(first) = self.first {
            last.put(first);
        }
        let key = format!("supply of {} {known:?} {}", self.key, fetch.encode());
        let kept = place.builder.kept_or(&key, || {
            let name = self.location;
            Arc::new(supplies::RenewableDefinition::new(
                name,
                self.recipe,
                outlets,
                pace,
                metrics,
                last,
            ))
        });
        place.builder.work(kept.renewal.clone());
        Some(kept.supply.clone())
    }
}

/// URLs as a supply asks for them.
pub(crate) fn wanted(locations: Vec<String>) -> Result<Vec<DocumentRequest>, String> {
    let wanted = |location: String| {
        let url = WebUrl::parse(&location)?;
        Ok(DocumentRequest { location, origin: url.target.to_string(), path: url.path })
    };
    locations.into_iter().map(wanted).collect()
}

/// Complains of a definition at a URL if nothing fetches it.
pub(crate) fn may_be_fetched(
    at: &Spanned<DefinitionAt>,
    fetch: Option<&DefinitionFetch>,
    report: &mut Report,
) -> bool {
    match (&at.value, fetch) {
        (DefinitionAt::File(_), _) | (DefinitionAt::Url(_), Some(_)) => true,
        (DefinitionAt::Url(url), None) => {
            let what = format!("`{url}` is a URL, and nothing is fetched");
            report.error(at.at, what, "add `fetch: { ttl: 1h }` to the policy, or name a file");
            false
        }
    }
}

//! Fetches and compiles, in the background, definitions that refer to documents by URL or must be renewed from time to time.
//!
//! Owns the fetching of documents. A [`DefinitionCompiler`] finds the documents of a definition and compiles it. A [`RemoteDefinition`]
//! determines when that happens, and what serves in the meantime.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use fault::Kind;
use kit::{LocalBoxFuture, clock};
use mediation::Rejection;
use mediation::remote_definition::{LastGood, RefreshTimes, RemoteDefinition};
use message::{Body, Protocol, Request, RequestHead};
use policy::{Background, Call, Caller, Fetch, Totals};
use telemetry::DefinitionMetrics;

/// The maximum number of documents that one definition may refer to by URL, directly or indirectly. Large standards have some hundreds.
const FETCHED_MAX: usize = 500;

/// The maximum size of one document, the same as for a file.
const DOCUMENT_BYTES_MAX: usize = 16 << 20;

/// The maximum total size of all documents: four of the largest, or a whole standard.
const ALL_BYTES_MAX: usize = 64 << 20;

/// The length of a round of background work. Work that nothing owns any more ends after its current round.
const ROUND: Duration = Duration::from_millis(500);

/// The text for clients, which reveals neither the place of the documents nor system errors.
const UNFETCHED: &str = "A document that the definition names cannot be fetched";

/// Returns the rejection for a document that cannot be fetched. The text has the wording of libxml2, with the location as written in the
/// definition, for clients that compare faults literally. The system's error is only logged, since it would reveal which hosts and ports
/// exist.
fn unfetched(location: &str, why: &str) -> Rejection {
    let text = format!("Failed to locate a schema at location '{location}'");
    Rejection::hiding(text, UNFETCHED, format!("the import '{location}' cannot be fetched: {why}"))
}

/// A document to be fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentRequest {
    /// The URL, which is the key of the document.
    pub location: String,
    /// Scheme, host and port. There must be a connection to this origin.
    pub origin: String,
    /// The rest of the URL.
    pub path: String,
}

/// Fetched documents, by location.
pub type FetchedDocuments = HashMap<String, Vec<u8>>;

/// Compiles a definition `M` from fetched documents.
pub trait DefinitionCompiler<M>: Send + Sync {
    /// Returns the documents that are referred to but missing. The compiler may add documents that it has itself.
    fn wanted(&self, fetched: &mut FetchedDocuments) -> Result<Vec<DocumentRequest>, String>;

    /// Compiles the definition, once no document is missing.
    fn compile(&self, fetched: &FetchedDocuments) -> Result<M, Rejection>;
}

/// A definition `M`, and the work that renews it.
pub struct RenewableDefinition<M> {
    pub definition: Arc<RemoteDefinition<M>>,
    pub renewal: Arc<Renewal<M>>,
}

/// The background work that renews a definition `M`.
pub struct Renewal<M> {
    /// The definition. It owns this work, so that the work exists for as long as the definition is in use.
    definition: OnceLock<Weak<RemoteDefinition<M>>>,
    compiler: Arc<dyn DefinitionCompiler<M>>,
    /// Connections, by origin.
    fetches: HashMap<String, Arc<dyn Fetch>>,
    metrics: Arc<DefinitionMetrics>,
}

impl<M: Send + Sync + 'static> RenewableDefinition<M> {
    /// Creates a renewable definition. `last` serves immediately.
    pub fn new(
        name: &str,
        compiler: Arc<dyn DefinitionCompiler<M>>,
        fetches: HashMap<String, Arc<dyn Fetch>>,
        pace: RefreshTimes,
        metrics: Arc<DefinitionMetrics>,
        last: Arc<LastGood<M>>,
    ) -> RenewableDefinition<M> {
        let fetched = !fetches.is_empty();
        let renewal = Arc::new(Renewal { definition: OnceLock::new(), compiler, fetches, metrics });
        let definition =
            Arc::new(RemoteDefinition::new(name, pace, last, fetched, renewal.clone()));
        // Harmless: the cell was empty.
        let _ = renewal.definition.set(Arc::downgrade(&definition));
        RenewableDefinition { definition, renewal }
    }
}

impl<M: Send + Sync + 'static> Renewal<M> {
    async fn renew(&self, definition: &RemoteDefinition<M>, caller: &Rc<Caller>) {
        definition.begin();
        let made = match self.fetch(definition, caller).await {
            Ok(fetched) => {
                let compiler = self.compiler.clone();
                // Compiled on another thread, since this one does the upkeep of all upstreams. Each definition has one compilation at a
                // time.
                let compiled = kit::task::run_blocking(move || compiler.compile(&fetched)).await;
                let compiled =
                    compiled.unwrap_or_else(|| Err(Rejection::server("it cannot be compiled")));
                self.metrics.compiled(compiled.is_ok());
                compiled
            }
            Err(failed) => Err(failed),
        };
        match made {
            Ok(compiled) => definition.serve(compiled),
            Err(failed) => definition.fail(failed),
        }
    }

    async fn fetch(
        &self,
        definition: &RemoteDefinition<M>,
        caller: &Rc<Caller>,
    ) -> Result<FetchedDocuments, Rejection> {
        let mut fetched = FetchedDocuments::new();
        let mut bytes = 0_usize;
        loop {
            let wanted = self.compiler.wanted(&mut fetched);
            // The text only quotes the location; no server has been contacted.
            let wanted = wanted.map_err(|why| Rejection::hiding(why.as_str(), UNFETCHED, &*why))?;
            if wanted.is_empty() {
                return Ok(fetched);
            }
            for wanted in wanted {
                if fetched.len() >= FETCHED_MAX {
                    let text =
                        format!("the definition refers to over {FETCHED_MAX} documents by URL");
                    return Err(Rejection::server(text));
                }
                let document = self.get(definition.timeout(), caller, &wanted).await;
                self.metrics.fetched(document.is_ok());
                let document = document.map_err(|why| unfetched(&wanted.location, &why))?;
                bytes = bytes.saturating_add(document.len());
                if bytes > ALL_BYTES_MAX {
                    let text =
                        format!("the documents referred to by URL have over {ALL_BYTES_MAX} bytes");
                    return Err(Rejection::server(text));
                }
                fetched.insert(wanted.location, document);
            }
        }
    }

    async fn get(
        &self,
        timeout: Duration,
        caller: &Rc<Caller>,
        wanted: &DocumentRequest,
    ) -> Result<Vec<u8>, Box<str>> {
        let fetch = self.fetches.get(&wanted.origin).ok_or(
            "it is on a host that only a fetched document names; give a file for it in `imports`",
        )?;
        let mut head = RequestHead::new(Protocol::Http11, b"GET", wanted.path.as_bytes());
        head.headers.add_known("Accept", b"application/xml, text/xml, */*;q=0.1");
        let request = Request { head, body: Body::Empty };
        let totals = Totals::default();
        let deadline = clock::now().checked_add(timeout);
        let call = Call::detached(caller, deadline, &totals);
        let reply = fetch.fetch(call, request).await.map_err(|fault| fault.cause)?;
        if reply.head.status != 200 {
            return Err(format!("it answered {}", reply.head.status).into());
        }
        let body = reply.body.gather(DOCUMENT_BYTES_MAX, Kind::ReplyTooLarge).await;
        Ok(body.map_err(|fault| fault.cause)?.to_vec())
    }
}

impl<M: Send + Sync + 'static> Background for Renewal<M> {
    fn round<'a>(&'a self, caller: &'a Rc<Caller>) -> LocalBoxFuture<'a, Duration> {
        Box::pin(async move {
            let Some(definition) = self.definition.get().and_then(Weak::upgrade) else {
                return ROUND;
            };
            let left = definition.left();
            if !left.is_zero() {
                return left.min(ROUND);
            }
            // A demand is noticed within a round. Work that nothing owns any more ends between two rounds.
            if definition.is_wanted(ROUND).await {
                self.renew(&definition, caller).await;
            }
            Duration::ZERO
        })
    }
}

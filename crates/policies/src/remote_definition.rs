//! Definitions that name others by URL, or that are to be made anew from time to time: fetched and compiled beside the requests.
//!
//! Owns how their documents come. What is read of a definition and how it is compiled is a [`DefinitionCompiler`]'s business; when it is, and
//! what serves meanwhile, a [`RemoteDefinition`]'s.

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

/// Documents that one definition may name by URL, directly or by others; large standards come in some hundreds.
const FETCHED_MAX: usize = 500;

/// One document: as large as a file may be.
const DOCUMENT_BYTES_MAX: usize = 16 << 20;

/// All of them: four of the largest, or a standard whole.
const ALL_BYTES_MAX: usize = 64 << 20;

/// The time in which one round of work looks for something to do. Work that nobody holds any more ends with its round.
const ROUND: Duration = Duration::from_millis(500);

/// The text for clients instead of the place of the documents and the system's words about it.
const UNFETCHED: &str = "A document that the definition names cannot be fetched";

/// libxml2 names the location, which is the definition's own word and all that whoever compares faults to the letter gets to
/// read of it. Nobody but the log gets what the system said: it tells apart ports that are closed from hosts that are not there.
fn unfetched(location: &str, why: &str) -> Rejection {
    let text = format!("Failed to locate a schema at location '{location}'");
    Rejection::hiding(text, UNFETCHED, format!("the import '{location}' cannot be fetched: {why}"))
}

/// A document to be fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentRequest {
    /// The URL, by which it will be asked for.
    pub location: String,
    /// Scheme, host and port: one of those there is a way to.
    pub origin: String,
    /// The rest of it.
    pub path: String,
}

/// Documents that were fetched, by location.
pub type FetchedDocuments = HashMap<String, Vec<u8>>;

/// The recipe by which a definition `M` is made of the fetched documents.
pub trait DefinitionCompiler<M>: Send + Sync {
    /// The documents that are named and not there. The recipe may add those that it has itself.
    fn wanted(&self, fetched: &mut FetchedDocuments) -> Result<Vec<DocumentRequest>, String>;

    /// The definition, once nothing is wanted.
    fn compile(&self, fetched: &FetchedDocuments) -> Result<M, Rejection>;
}

/// A definition `M` that changes, and what makes it anew.
pub struct RenewableDefinition<M> {
    pub supply: Arc<RemoteDefinition<M>>,
    pub renewal: Arc<Renewal<M>>,
}

/// Makes a definition `M` whenever its supply is to have a new one.
pub struct Renewal<M> {
    /// Which holds this, so that there is somebody to make it for as long as anybody waits.
    supply: OnceLock<Weak<RemoteDefinition<M>>>,
    recipe: Arc<dyn DefinitionCompiler<M>>,
    /// Ways out, by origin.
    outlets: HashMap<String, Arc<dyn Fetch>>,
    metrics: Arc<DefinitionMetrics>,
}

impl<M: Send + Sync + 'static> RenewableDefinition<M> {
    /// `last` is what serves at once.
    pub fn new(
        name: &str,
        recipe: Arc<dyn DefinitionCompiler<M>>,
        outlets: HashMap<String, Arc<dyn Fetch>>,
        pace: RefreshTimes,
        metrics: Arc<DefinitionMetrics>,
        last: Arc<LastGood<M>>,
    ) -> RenewableDefinition<M> {
        let fetched = !outlets.is_empty();
        let renewal = Arc::new(Renewal { supply: OnceLock::new(), recipe, outlets, metrics });
        let supply = Arc::new(RemoteDefinition::new(name, pace, last, fetched, renewal.clone()));
        // Harmless: nothing was set before.
        let _first = renewal.supply.set(Arc::downgrade(&supply));
        RenewableDefinition { supply, renewal }
    }
}

impl<M: Send + Sync + 'static> Renewal<M> {
    async fn renew(&self, supply: &RemoteDefinition<M>, caller: &Rc<Caller>) {
        supply.begin();
        let made = match self.fetch(supply, caller).await {
            Ok(fetched) => {
                let recipe = self.recipe.clone();
                // Beside this thread, which keeps up all upstreams; one at a time for each definition.
                let compiled = kit::task::beside(move || recipe.compile(&fetched)).await;
                let compiled =
                    compiled.unwrap_or_else(|| Err(Rejection::server("it cannot be compiled")));
                self.metrics.compiled(compiled.is_ok());
                compiled
            }
            Err(failed) => Err(failed),
        };
        match made {
            Ok(compiled) => supply.serve(compiled),
            Err(failed) => supply.fail(failed),
        }
    }

    async fn fetch(
        &self,
        supply: &RemoteDefinition<M>,
        caller: &Rc<Caller>,
    ) -> Result<FetchedDocuments, Rejection> {
        let mut fetched = FetchedDocuments::new();
        let mut bytes = 0_usize;
        loop {
            let wanted = self.recipe.wanted(&mut fetched);
            // It quotes the location, and nobody has been asked.
            let wanted = wanted.map_err(|why| Rejection::hiding(why.as_str(), UNFETCHED, &*why))?;
            if wanted.is_empty() {
                return Ok(fetched);
            }
            for wanted in wanted {
                if fetched.len() >= FETCHED_MAX {
                    let text = format!("over {FETCHED_MAX} documents are named by URL");
                    return Err(Rejection::server(text));
                }
                let document = self.get(supply.timeout(), caller, &wanted).await;
                self.metrics.fetched(document.is_ok());
                let document = document.map_err(|why| unfetched(&wanted.location, &why))?;
                bytes = bytes.saturating_add(document.len());
                if bytes > ALL_BYTES_MAX {
                    let text = format!("what is named by URL has over {ALL_BYTES_MAX} bytes");
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
        let outlet = self.outlets.get(&wanted.origin).ok_or(
            "it is on a host that only a fetched document names; give a file for it in `imports`",
        )?;
        let mut head = RequestHead::new(Protocol::Http11, b"GET", wanted.path.as_bytes());
        head.headers.add_known("Accept", b"application/xml, text/xml, */*;q=0.1");
        let request = Request { head, body: Body::Empty };
        let totals = Totals::default();
        let deadline = clock::now().checked_add(timeout);
        let call = Call::apart(caller, deadline, &totals);
        let reply = outlet.fetch(call, request).await.map_err(|fault| fault.cause)?;
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
            let Some(supply) = self.supply.get().and_then(Weak::upgrade) else { return ROUND };
            let left = supply.left();
            if !left.is_zero() {
                return left.min(ROUND);
            }
            // Whoever asks is told within a round; the pause is for work that nobody holds any more to end.
            if supply.is_wanted(ROUND).await {
                self.renew(&supply, caller).await;
            }
            Duration::ZERO
        })
    }
}

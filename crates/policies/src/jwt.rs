//! `jwt`: who asks is shown by a token that an issuer signed.
//!
//! A token that this worker has believed before costs one look-up; a new one costs reading and one signature; only a key
//! nobody has seen yet, and a token that its issuer has to be asked about, make a request wait.

pub mod backend;
mod claims;
pub(crate) mod introspect;
mod issuer;
mod permitted;
mod published;
mod refusal;
mod token;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use fault::{Fault, Kind};
use jose::{Members, Token};
use kit::clock::{self, Instant};
use message::RequestHead;
use policy::{Decision, Exchange, Flow, Identity, OnCall, Onward, Policy, RevokedTokens, Step};

use crate::credential_check::CredentialCheck;
use crate::verdict_cache::{VerdictCache, next_number};

pub use crate::listed_api::Subscription;
pub use claims::ClaimRequirement;
pub use introspect::Introspection;
pub use issuer::{Issuer, IssuerClient, Keys, OwnIssuerKeys};
pub use published::{KEYS_BYTES_MAX, KnownKeys, Location, PublishedKeys};

use claims::CheckedToken;
use permitted::Permitted;
use refusal::Refusal;
use token::TokenSearch;

/// The demands on tokens on a route.
#[derive(Debug, Clone, Default)]
pub struct JwtSettings {
    /// One of these has to be named by `aud`; any may where there are none.
    pub audiences: Vec<String>,
    /// One of these has to be allowed.
    pub scopes_any: Vec<String>,
    /// Each of these has to be allowed.
    pub scopes_all: Vec<String>,
    /// By path in the claims.
    pub claims: Vec<(String, ClaimRequirement)>,
    /// In lower case.
    pub header: String,
    pub query: Option<String>,
    pub cookie: Option<String>,
    /// The longest time until the end of a token.
    pub lifetime_max: Option<Duration>,
    pub forward: bool,
    pub optional: bool,
    /// Headers for the upstream, each with the path of its claim.
    pub claims_to_headers: Vec<(String, String)>,
    /// The token is noted for interceptors, whether or not the upstream sees it.
    pub noted: bool,
    /// The claim with the groups, by path.
    pub groups: Option<String>,
    pub subscription: Option<Subscription>,
    /// A policy below refuses tokens that lack a scope, once it has refused what comes before.
    pub scopes_late: bool,
    pub realm: String,
}

/// Looks at tokens. One for all routes that ask for the same, kept over reloads, so that what was believed stays believed.
pub struct Verifier {
    number: u64,
    settings: JwtSettings,
    issuers: Vec<Arc<Issuer>>,
    revoked: Arc<RevokedTokens>,
}

/// A token that is believed.
struct VerifiedToken {
    pass: Pass,
    /// Seconds since the Unix epoch from which on it is not.
    until: Option<u64>,
    /// When its issuer, who was asked about it, is asked again.
    asked_again: Option<Instant>,
    /// `jti`
    id: Option<Box<str>>,
    /// Whose it is, by index, and which of its key sets it was verified with.
    issuer: usize,
    generation: u64,
    claims_bytes: usize,
    /// The change of the list of revoked tokens that it was compared with.
    changes: Cell<u64>,
}

/// The effect of a believed token on a request.
#[derive(Clone)]
struct Pass {
    identity: Arc<Identity>,
    /// For the upstream, on routes that tell it of claims.
    lines: Option<Rc<Lines>>,
    /// The scope that it lacks, where that is refused later.
    lacks: Option<Rc<Refusal>>,
    /// Where it may be used.
    permitted: Option<Rc<Permitted>>,
}

type Lines = [(String, String)];

impl VerifiedToken {
    /// The memory it accounts for beside the token's text.
    fn bytes(&self) -> usize {
        let lines = self.pass.lines.iter().flat_map(|lines| lines.iter());
        let lines: usize = lines.map(|(n, v)| n.len() + v.len() + 64).sum();
        // What every token has: this, the identity and the place in the memory.
        self.claims_bytes + lines + 384
    }
}

/// Why a token was refused, for as long as asking again would give the same.
struct RefusedToken {
    refusal: Refusal,
    /// Seconds since the Unix epoch.
    until: u64,
    generations: u64,
    changes: u64,
}

/// Believed tokens a worker remembers: all of them where a token takes no more than 2 KiB with its claims, which is what most do.
const BELIEVED_MAX: usize = 32 * 1024;
const BELIEVED_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Refused ones. They are cheap to refuse again, so few are worth the memory.
const REFUSED_MAX: usize = 1024;
const REFUSED_BYTES_MAX: usize = 2 * 1024 * 1024;
/// The time for which a refusal is remembered: long enough that a client that repeats itself is cheap, short enough that nobody
/// notices when it is no longer right.
const REFUSED_FOR: Duration = Duration::from_secs(2);

thread_local! {
    static BELIEVED: RefCell<VerdictCache<VerifiedToken>> =
        RefCell::new(VerdictCache::new(BELIEVED_MAX, BELIEVED_BYTES_MAX));
    static REFUSED: RefCell<VerdictCache<RefusedToken>> =
        RefCell::new(VerdictCache::new(REFUSED_MAX, REFUSED_BYTES_MAX));
}

/// The policy of a verifier.
pub fn policy(verifier: Arc<Verifier>) -> Policy {
    Policy { name: "jwt", request: Some(Step::Call(Box::new(OnToken(verifier)))), response: None }
}

struct OnToken(Arc<Verifier>);

/// The check of a verifier, for one that chooses among several kinds of credential.
pub fn credential(verifier: Arc<Verifier>) -> Box<dyn CredentialCheck> {
    Box::new(OnToken(verifier))
}

impl CredentialCheck for OnToken {
    fn is_there(&self, _ex: &Exchange, head: &RequestHead) -> bool {
        !matches!(token::find(&self.0.settings, head), TokenSearch::Nothing)
    }

    fn strip(&self, head: &mut RequestHead) {
        if !self.0.settings.forward {
            token::remove_all(&self.0.settings, head);
        }
        self.0.forget_lines(head);
    }

    fn challenge(&self) -> Option<String> {
        Some(format!("Bearer realm=\"{}\"", self.0.settings.realm))
    }

    fn check<'a>(&'a self, ex: &'a mut Exchange, head: &'a mut RequestHead) -> Decision<'a> {
        self.on_call(ex, head)
    }
}

impl OnCall<RequestHead> for OnToken {
    fn on_call<'a>(&'a self, ex: &'a mut Exchange, head: &'a mut RequestHead) -> Decision<'a> {
        match self.0.at_once(ex, head) {
            Some(flow) => Decision::Ready(flow),
            None => Decision::Waits(Box::pin(self.0.asking(ex, head))),
        }
    }
}

/// The outcome of looking at a token without waiting.
enum Verdict {
    Known(Result<Pass, Refusal>),
    /// Somebody has to be asked.
    Ask,
}

impl Verifier {
    pub fn new(
        settings: JwtSettings,
        issuers: Vec<Arc<Issuer>>,
        revoked: Arc<RevokedTokens>,
    ) -> Verifier {
        Verifier { number: next_number(), settings, issuers, revoked }
    }

    /// Decides without waiting; nothing where somebody has to be asked.
    fn at_once(&self, ex: &mut Exchange, head: &mut RequestHead) -> Option<Flow> {
        let (place, text) = match token::find(&self.settings, head) {
            TokenSearch::Nothing => return Some(self.without(head)),
            TokenSearch::Several => return Some(self.refuse(&Refusal::Several)),
            TokenSearch::At(place, text) => (place, text),
        };
        let now = clock::wall().as_secs();
        let known = self.remembered(&text, now);
        let verdict = known.map_or_else(|| self.look(&text, now), Verdict::Known);
        match verdict {
            Verdict::Known(Ok(pass)) => Some(self.pass(ex, head, place, pass)),
            Verdict::Known(Err(refusal)) => Some(self.refuse(&refusal)),
            Verdict::Ask => None,
        }
    }

    /// The same, with waiting.
    async fn asking(&self, ex: &mut Exchange, head: &mut RequestHead) -> Flow {
        let TokenSearch::At(place, text) = token::find(&self.settings, head) else {
            return self.refuse(&Refusal::Several);
        };
        let text = text.into_owned();
        let judged = self.judge_asking(ex, &text).await;
        let now = clock::wall().as_secs();
        match self.remember(&text, judged, now) {
            Ok(pass) => self.pass(ex, head, place, pass),
            Err(refusal) => self.refuse(&refusal),
        }
    }

    /// The verdict on the token that this worker remembers, if it still holds.
    fn remembered(&self, text: &[u8], now: u64) -> Option<Result<Pass, Refusal>> {
        let known = BELIEVED.with_borrow_mut(|memory| {
            let verified = memory.get(self.number, text)?;
            if verified.asked_again.is_some_and(|at| at <= clock::now()) {
                memory.remove(self.number, text);
                return None;
            }
            let refusal = self.still(verified, now);
            // Where the issuer has other keys now, the signature counts anew.
            let holds = self.generation(verified.issuer) == verified.generation;
            let pass = holds.then(|| verified.pass.clone());
            if refusal.is_some() {
                memory.remove(self.number, text);
            }
            Some(match refusal {
                Some(refusal) => Some(Err(refusal)),
                None => pass.map(Ok),
            })
        });
        if let Some(known) = known {
            return known;
        }
        REFUSED.with_borrow_mut(|memory| {
            let refused = memory.get(self.number, text)?;
            let holds = refused.until > now
                && refused.generations == self.generations()
                && refused.changes == self.revoked.changes();
            holds.then(|| Err(refused.refusal.clone()))
        })
    }

    /// Why a token that was believed is not any more.
    fn still(&self, verified: &VerifiedToken, now: u64) -> Option<Refusal> {
        if verified.until.is_some_and(|until| until <= now) {
            return Some(Refusal::Expired);
        }
        let changes = self.revoked.changes();
        if verified.changes.get() != changes {
            let revoked = verified.id.as_ref().is_some_and(|id| self.revoked.contains(id, now));
            if revoked {
                return Some(Refusal::Revoked);
            }
            verified.changes.set(changes);
        }
        None
    }

    /// Reads and verifies with the keys that are there.
    fn look(&self, text: &[u8], now: u64) -> Verdict {
        let token = match Token::parse(text) {
            Ok(token) => token,
            Err(_) if self.opaque(text) => return Verdict::Ask,
            Err(error) => return Verdict::Known(self.remember(text, Err(error.into()), now)),
        };
        let judged = self.verify(&token, None, now);
        match judged {
            Err(Refusal::KeyUnknown | Refusal::NoKeys) if self.may_learn(&token) => Verdict::Ask,
            judged => Verdict::Known(self.remember(text, judged, now)),
        }
    }

    /// Verifies and checks, with other keys than those that are there where they are given.
    fn verify(
        &self,
        token: &Token<'_>,
        with: Option<(usize, &published::KeySnapshot)>,
        now: u64,
    ) -> Result<VerifiedToken, Refusal> {
        let claims = token.claims().ok_or(Refusal::Claims("the payload is not a JSON object"))?;
        let index = self.issuer_of(&claims)?;
        let issuer = self.issuers.get(index).ok_or(Refusal::IssuerUnknown)?;
        if !issuer.takes(token, &claims) {
            return Err(Refusal::Kind);
        }
        if !issuer.takes_algorithm(token.algorithm) {
            return Err(Refusal::KeyUnknown);
        }
        let generation = match with {
            Some((_, known)) => known.verify(token)?,
            None => issuer.keys.verify(token)?,
        };
        let checked = claims::check(&claims, &token.payload, issuer, &self.settings, now)?;
        self.verified(checked, index, generation, now)
    }

    fn verified(
        &self,
        checked: CheckedToken,
        issuer: usize,
        generation: u64,
        now: u64,
    ) -> Result<VerifiedToken, Refusal> {
        let changes = self.revoked.changes();
        if checked.id.as_ref().is_some_and(|id| self.revoked.contains(id, now)) {
            return Err(Refusal::Revoked);
        }
        let lines = (!checked.lines.is_empty()).then(|| Rc::from(checked.lines));
        let identity = Identity { expires: checked.until, ..checked.identity };
        Ok(VerifiedToken {
            pass: Pass {
                identity: Arc::new(identity),
                lines,
                lacks: checked.lacks.map(Rc::new),
                permitted: checked.permitted.map(Rc::new),
            },
            until: checked.until,
            asked_again: None,
            id: checked.id,
            issuer,
            generation,
            claims_bytes: checked.bytes,
            changes: Cell::new(changes),
        })
    }

    /// Whose a token says it is. A name that is not one of the issuers' is refused, whoever signed it.
    fn issuer_of(&self, claims: &Members<'_>) -> Result<usize, Refusal> {
        let named = claims.get("iss").and_then(serde_json::Value::as_str);
        let named = named.ok_or(Refusal::IssuerUnknown)?;
        let found = self.issuers.iter().position(|issuer| issuer.issuer.as_deref() == Some(named));
        found.ok_or(Refusal::IssuerUnknown)
    }

    /// True if asking may help: for newer keys, or about the token itself.
    fn may_learn(&self, token: &Token<'_>) -> bool {
        // Harmless: the verifier of the token says why it has no issuer.
        let index = token.claims().and_then(|claims| self.issuer_of(&claims).ok());
        let issuer = index.and_then(|index| self.issuers.get(index));
        issuer.is_some_and(|issuer| issuer.keys.published().is_some())
    }

    /// True if the text may be a token that only its issuer can read.
    fn opaque(&self, text: &[u8]) -> bool {
        let asked = self.issuers.iter().any(|issuer| issuer.introspection.is_some());
        asked && introspect::is_token(text)
    }

    async fn judge_asking(&self, ex: &Exchange, text: &[u8]) -> Result<VerifiedToken, Refusal> {
        let Ok(token) = Token::parse(text) else {
            return self.introspected(ex, text).await;
        };
        let claims = token.claims().ok_or(Refusal::Claims("the payload is not a JSON object"))?;
        let index = self.issuer_of(&claims)?;
        let issuer = self.issuers.get(index).ok_or(Refusal::IssuerUnknown)?;
        let published = issuer.keys.published().ok_or(Refusal::KeyUnknown)?;
        let known = published.newer().await?;
        self.verify(&token, Some((index, &known)), clock::wall().as_secs())
    }

    /// Asks the issuers that can be asked, one after the other. A token is refused where all of them say so: it may be
    /// that of one that could not be asked.
    async fn introspected(&self, ex: &Exchange, text: &[u8]) -> Result<VerifiedToken, Refusal> {
        let mut last = Refusal::Inactive;
        for (index, issuer) in self.issuers.iter().enumerate() {
            let Some(introspection) = &issuer.introspection else { continue };
            let (claims, asked_again) = match introspection.ask(ex, text).await {
                Ok(answer) => answer,
                Err(refusal) => {
                    if last == Refusal::Inactive {
                        last = refusal;
                    }
                    continue;
                }
            };
            let now = clock::wall().as_secs();
            let checked = claims::check_introspected(claims, issuer, &self.settings, now)?;
            let verified = self.verified(checked, index, self.generation(index), now)?;
            return Ok(VerifiedToken { asked_again, ..verified });
        }
        Err(last)
    }

    fn remember(
        &self,
        text: &[u8],
        judged: Result<VerifiedToken, Refusal>,
        now: u64,
    ) -> Result<Pass, Refusal> {
        match judged {
            Ok(verified) => {
                let (pass, bytes) = (verified.pass.clone(), verified.bytes());
                BELIEVED.with_borrow_mut(|memory| memory.put(self.number, text, verified, bytes));
                Ok(pass)
            }
            Err(refusal) => {
                if refusal.lasts() {
                    let refused = RefusedToken {
                        refusal: refusal.clone(),
                        until: now.saturating_add(REFUSED_FOR.as_secs()),
                        generations: self.generations(),
                        changes: self.revoked.changes(),
                    };
                    REFUSED.with_borrow_mut(|memory| memory.put(self.number, text, refused, 64));
                }
                Err(refusal)
            }
        }
    }

    fn generation(&self, issuer: usize) -> u64 {
        self.issuers.get(issuer).map_or(0, |issuer| issuer.keys.generation())
    }

    /// A number that changes with the keys of any issuer.
    fn generations(&self) -> u64 {
        self.issuers.iter().map(|issuer| issuer.keys.generation()).fold(0, u64::wrapping_add)
    }

    /// A request without a token.
    fn without(&self, head: &mut RequestHead) -> Flow {
        if self.settings.optional {
            self.forget_lines(head);
            Ok(Onward::Next)
        } else {
            self.refuse(&Refusal::Missing)
        }
    }

    fn pass(
        &self,
        ex: &mut Exchange,
        head: &mut RequestHead,
        place: token::TokenLocation,
        pass: Pass,
    ) -> Flow {
        if self.settings.noted
            && let TokenSearch::At(_, text) = token::find(&self.settings, head)
        {
            ex.notes().token = Some(text.into_owned().into());
        }
        if !self.settings.forward {
            place.remove(&self.settings, head);
        }
        self.forget_lines(head);
        for (name, value) in pass.lines.iter().flat_map(|lines| lines.iter()) {
            head.headers.add_known(name, value.as_bytes());
        }
        if let Some(permitted) = &pass.permitted
            && !permitted.allows(ex.client, head)
        {
            let cause = "jwt: the key is not permitted for this address or referrer";
            return Err(Fault::new(Kind::Forbidden, cause).with_code(900_901).with_status(403));
        }
        if let Some(refusal) = &pass.lacks {
            ex.notes().scope_fault = Some(Box::new(refusal.fault(&self.settings)));
        }
        ex.identity = Some(pass.identity);
        Ok(Onward::Next)
    }

    /// Removes lines that tell of claims: those that a client sent are not believed.
    fn forget_lines(&self, head: &mut RequestHead) {
        self.settings.claims_to_headers.iter().for_each(|(name, _)| head.headers.remove(name));
    }

    fn refuse(&self, refusal: &Refusal) -> Flow {
        Err(refusal.fault(&self.settings))
    }
}

impl std::fmt::Debug for Verifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Verifier").field("settings", &self.settings).finish_non_exhaustive()
    }
}

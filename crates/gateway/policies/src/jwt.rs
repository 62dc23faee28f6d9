//! `jwt`: authenticates clients by a token that an issuer has signed.
//!
//! A token that this worker has already verified costs one look-up. A new token costs parsing and one signature check. A request waits only
//! for a key that is not known yet, or for a token that its issuer must introspect.

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

pub use crate::listed_api::ApiReference;
pub use claims::ClaimRequirement;
pub use introspect::Introspection;
pub use issuer::{Issuer, IssuerClient, Keys, OwnIssuerKeys};
pub use published::{KEYS_BYTES_MAX, KnownKeys, Location, PublishedKeys};

use claims::CheckedToken;
use permitted::Permitted;
use refusal::Refusal;
use token::TokenSearch;

/// The requirements on tokens on a route.
#[derive(Debug, Clone, Default)]
pub struct JwtSettings {
    /// `aud` must contain one of these. If empty, any audience is accepted.
    pub audiences: Vec<String>,
    /// The token must have one of these scopes.
    pub scopes_any: Vec<String>,
    /// The token must have all of these scopes.
    pub scopes_all: Vec<String>,
    /// Requirements on claims, by path.
    pub claims: Vec<(String, ClaimRequirement)>,
    /// The header with the token, in lower case.
    pub header: String,
    pub query: Option<String>,
    pub cookie: Option<String>,
    /// The longest time until the expiry of a token.
    pub lifetime_max: Option<Duration>,
    pub forward: bool,
    pub optional: bool,
    /// Headers for the upstream, each with the path of a claim.
    pub claims_to_headers: Vec<(String, String)>,
    /// Whether the token is kept for interceptors, even if the upstream does not get it.
    pub keeps_token: bool,
    /// The path of the claim with the groups.
    pub groups: Option<String>,
    pub subscription: Option<ApiReference>,
    /// Whether tokens without a required scope are refused by a policy below, after its own checks.
    pub defers_scopes: bool,
    pub realm: String,
}

/// Verifies tokens. Routes with equal settings share a verifier. It survives reloads, so that verified tokens stay in its cache.
pub struct Verifier {
    number: u64,
    settings: JwtSettings,
    issuers: Vec<Arc<Issuer>>,
    revoked: Arc<RevokedTokens>,
}

/// A verified token.
struct VerifiedToken {
    pass: Pass,
    /// When the token expires, in seconds since the Unix epoch.
    until: Option<u64>,
    /// When an introspected token must be introspected again.
    ask_again_at: Option<Instant>,
    /// The id of the token (`jti`).
    id: Option<Box<str>>,
    /// The index of the issuer.
    issuer: usize,
    /// The generation of the issuer's keys with which the token was verified.
    generation: u64,
    claims_bytes: usize,
    /// The version of the list of revoked tokens that this token was last checked against.
    changes: Cell<u64>,
}

/// The effect of a verified token on a request.
#[derive(Clone)]
struct Pass {
    identity: Arc<Identity>,
    /// Header lines with claims for the upstream, on routes that forward claims.
    lines: Option<Rc<Lines>>,
    /// The refusal for a missing scope, if it is raised later.
    lacks: Option<Rc<Refusal>>,
    /// The addresses and referrers that may use the token, if limited.
    permitted: Option<Rc<Permitted>>,
}

type Lines = [(String, String)];

impl VerifiedToken {
    /// Returns the memory of the entry in bytes, without the text of the token.
    fn bytes(&self) -> usize {
        let lines = self.pass.lines.iter().flat_map(|lines| lines.iter());
        let lines: usize = lines.map(|(n, v)| n.len() + v.len() + 64).sum();
        // The fixed part: this struct, the identity, and the entry in the cache.
        self.claims_bytes + lines + 384
    }
}

/// A cached refusal.
struct RefusedToken {
    refusal: Refusal,
    /// When the entry expires, in seconds since the Unix epoch.
    until: u64,
    generations: u64,
    changes: u64,
}

/// The maximum number of verified tokens in a worker's cache.
const VERIFIED_MAX: usize = 32 * 1024;
/// The maximum size of that cache in bytes: 2 KiB for each token with its claims. Most need less.
const VERIFIED_BYTES_MAX: usize = 64 * 1024 * 1024;
/// The maximum number of cached refusals. It is low, since refusing a token again is cheap.
const REFUSED_MAX: usize = 1024;
/// The maximum size of the cached refusals in bytes.
const REFUSED_BYTES_MAX: usize = 2 * 1024 * 1024;
/// How long a refusal is cached: long enough to make repeated requests cheap, and short enough that an outdated refusal does not matter.
const REFUSED_FOR: Duration = Duration::from_secs(2);

thread_local! {
    static VERIFIED: RefCell<VerdictCache<VerifiedToken>> =
        RefCell::new(VerdictCache::new(VERIFIED_MAX, VERIFIED_BYTES_MAX));
    static REFUSED: RefCell<VerdictCache<RefusedToken>> =
        RefCell::new(VerdictCache::new(REFUSED_MAX, REFUSED_BYTES_MAX));
}

/// Returns the policy for a verifier.
pub fn policy(verifier: Arc<Verifier>) -> Policy {
    Policy { name: "jwt", request: Some(Step::Call(Box::new(OnToken(verifier)))), response: None }
}

struct OnToken(Arc<Verifier>);

/// Returns the check for a verifier, for `authenticate`, which chooses among several kinds of credential.
pub fn credential(verifier: Arc<Verifier>) -> Box<dyn CredentialCheck> {
    Box::new(OnToken(verifier))
}

impl CredentialCheck for OnToken {
    fn is_present(&self, _ex: &Exchange, head: &RequestHead) -> bool {
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

/// The result of checking a token without waiting.
enum Verdict {
    Known(Result<Pass, Refusal>),
    /// The issuer must be asked.
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

    /// Decides without waiting. Returns `None` if the issuer must be asked.
    fn at_once(&self, ex: &mut Exchange, head: &mut RequestHead) -> Option<Flow> {
        let (place, text) = match token::find(&self.settings, head) {
            TokenSearch::Nothing => return Some(self.without(head)),
            TokenSearch::Several => return Some(self.refuse(&Refusal::Several)),
            TokenSearch::At(place, text) => (place, text),
        };
        let now = clock::wall().as_secs();
        let known = self.remembered(&text, now);
        let verdict = known.map_or_else(|| self.verify_with_known_keys(&text, now), Verdict::Known);
        match verdict {
            Verdict::Known(Ok(pass)) => Some(self.pass(ex, head, place, pass)),
            Verdict::Known(Err(refusal)) => Some(self.refuse(&refusal)),
            Verdict::Ask => None,
        }
    }

    /// Decides, and waits for the issuer if necessary.
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

    /// Returns this worker's cached verdict on the token, if it is still valid.
    fn remembered(&self, text: &[u8], now: u64) -> Option<Result<Pass, Refusal>> {
        let known = VERIFIED.with_borrow_mut(|memory| {
            let verified = memory.get(self.number, text)?;
            if verified.ask_again_at.is_some_and(|at| at <= clock::now()) {
                memory.remove(self.number, text);
                return None;
            }
            let refusal = self.still(verified, now);
            // If the issuer's keys have changed, the signature must be checked again.
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

    /// Returns the reason why a cached token is no longer valid, if there is one.
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

    /// Parses and verifies a token with the known keys.
    fn verify_with_known_keys(&self, text: &[u8], now: u64) -> Verdict {
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

    /// Verifies the signature and checks the claims. The keys in `with`, if any, are used in place of the known keys.
    fn verify(
        &self,
        token: &Token<'_>,
        with: Option<(usize, &published::KeySnapshot)>,
        now: u64,
    ) -> Result<VerifiedToken, Refusal> {
        let claims = token.claims().ok_or(Refusal::Claims("the payload is not a JSON object"))?;
        let index = self.issuer_of(token, &claims)?;
        let issuer = self.issuers.get(index).ok_or(Refusal::IssuerUnknown)?;
        if !issuer.takes(token, &claims) {
            return Err(Refusal::Kind);
        }
        if !issuer.takes_algorithm(token.algorithm) {
            return Err(Refusal::Algorithm);
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
            ask_again_at: None,
            id: checked.id,
            issuer,
            generation,
            claims_bytes: checked.bytes,
            changes: Cell::new(changes),
        })
    }

    /// Returns the index of the issuer that the token names. An unknown issuer is refused, whatever the signature.
    fn issuer_of(&self, token: &Token<'_>, claims: &Members<'_>) -> Result<usize, Refusal> {
        let found = self.issuers.iter().position(|issuer| issuer.is_named(token, claims));
        found.ok_or(Refusal::IssuerUnknown)
    }

    /// Returns true if asking the issuer may help: for newer keys, or to introspect the token.
    fn may_learn(&self, token: &Token<'_>) -> bool {
        // Harmless: verification reports why the token has no issuer.
        let index = token.claims().and_then(|claims| self.issuer_of(token, &claims).ok());
        let issuer = index.and_then(|index| self.issuers.get(index));
        issuer.is_some_and(|issuer| issuer.keys.published().is_some())
    }

    /// Returns true if the text may be an opaque token, which only its issuer can interpret.
    fn opaque(&self, text: &[u8]) -> bool {
        let asked = self.issuers.iter().any(|issuer| issuer.introspection.is_some());
        asked && introspect::is_token(text)
    }

    async fn judge_asking(&self, ex: &Exchange, text: &[u8]) -> Result<VerifiedToken, Refusal> {
        let Ok(token) = Token::parse(text) else {
            return self.introspected(ex, text).await;
        };
        let claims = token.claims().ok_or(Refusal::Claims("the payload is not a JSON object"))?;
        let index = self.issuer_of(&token, &claims)?;
        let issuer = self.issuers.get(index).ok_or(Refusal::IssuerUnknown)?;
        let published = issuer.keys.published().ok_or(Refusal::KeyUnknown)?;
        let known = published.newer().await?;
        self.verify(&token, Some((index, &known)), clock::wall().as_secs())
    }

    /// Introspects the token at each issuer in turn. The token is refused as invalid only if all of them refuse it, since it may belong to
    /// one that is unavailable.
    async fn introspected(&self, ex: &Exchange, text: &[u8]) -> Result<VerifiedToken, Refusal> {
        let mut last = Refusal::Inactive;
        for (index, issuer) in self.issuers.iter().enumerate() {
            let Some(introspection) = &issuer.introspection else { continue };
            let (claims, ask_again_at) = match introspection.ask(ex, text).await {
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
            return Ok(VerifiedToken { ask_again_at, ..verified });
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
                VERIFIED.with_borrow_mut(|memory| memory.put(self.number, text, verified, bytes));
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

    /// Returns a number that changes with the keys of any issuer.
    fn generations(&self) -> u64 {
        self.issuers.iter().map(|issuer| issuer.keys.generation()).fold(0, u64::wrapping_add)
    }

    /// Decides about a request without a token.
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
        if self.settings.keeps_token
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

    /// Removes header lines for claims, so that a client cannot forge them.
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

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use kit::LocalBoxFuture;
    use message::{Reply, Request};
    use policy::{Call, Fetch};

    struct Unreachable;

    impl Fetch for Unreachable {
        fn fetch<'a>(
            &'a self,
            _call: Call<'a>,
            _request: Request,
        ) -> LocalBoxFuture<'a, Result<Reply, Fault>> {
            Box::pin(async { Err(Fault::new(Kind::Internal, "unreachable")) })
        }
    }

    /// An issuer whose keys are published, but not known yet.
    fn issuer(algorithms: Vec<jose::Algorithm>) -> Issuer {
        let location = Location::Keys("/keys".to_owned());
        let (refresh, timeout) = (Duration::from_secs(60), Duration::from_secs(1));
        let (metrics, known) = (Arc::default(), Arc::default());
        let fetch = Arc::new(Unreachable);
        let published =
            PublishedKeys::new("main", fetch, location, refresh, timeout, metrics, known);
        Issuer { keys: Keys::Published(Arc::new(published)), algorithms, ..claims::tests::issuer() }
    }

    #[test]
    fn a_token_with_an_excluded_algorithm_does_not_wait_for_keys() {
        let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
        let token =
            [part(r#"{"alg":"RS256","kid":"a"}"#), part(r#"{"iss":"i"}"#), part("x")].join(".");
        let now = clock::wall().as_secs();
        for (algorithms, refusal) in [
            (vec![jose::Algorithm::Es256], Some(Refusal::Algorithm)),
            (vec![jose::Algorithm::Rs256], None),
            (vec![], None),
        ] {
            let issuers = vec![Arc::new(issuer(algorithms))];
            let verifier = Verifier::new(JwtSettings::default(), issuers, Arc::default());
            let refused = match verifier.verify_with_known_keys(token.as_bytes(), now) {
                Verdict::Known(judged) => judged.err(),
                Verdict::Ask => None,
            };
            assert_eq!(refused, refusal);
            // The refusal is kept, so that the next such token costs only a look-up.
            let kept = verifier.remembered(token.as_bytes(), now).and_then(Result::err);
            assert_eq!(kept, refusal);
        }
    }
}

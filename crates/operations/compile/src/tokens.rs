//! The state that policies with tokens share: issuers, revoked tokens, and the keys that sign the gateway's own tokens.

use std::collections::HashMap;
use std::sync::Arc;

use config::{Report, Spanned};
use jose::Signer;
use plan::{Plan, RevokedTokens};
use policies::jwt::Issuer;
use policies::jwt::backend::OwnKeys;

use crate::names;

/// The state that policies with tokens share.
#[derive(Default)]
pub(crate) struct Tokens {
    /// The issuers by name. The value is `None` after a complaint.
    pub(crate) issuers: HashMap<String, Option<Arc<Issuer>>>,
    pub(crate) revoked: Arc<RevokedTokens>,
    /// The keys that sign the gateway's own tokens. Their public parts are published as a JWK set.
    pub(crate) signers: Vec<Arc<Signer>>,
    pub(crate) own_keys: Arc<OwnKeys>,
}

impl Tokens {
    pub(crate) fn new(previous: Option<&Plan>) -> Tokens {
        match previous {
            Some(plan) => Tokens { revoked: plan.revoked.clone(), ..Tokens::default() },
            None => Tokens::default(),
        }
    }

    /// Returns the issuer of this name, or complains if there is none.
    pub(crate) fn issuer(
        &self,
        name: &Spanned<String>,
        report: &mut Report,
    ) -> Option<Arc<Issuer>> {
        if let Some(known) = self.issuers.get(&name.value) {
            return known.clone();
        }
        let meant = report.suggest(&name.value, self.issuers.keys().map(String::as_str));
        let help = "name one of the `issuers`";
        report.error(name.at, names::unknown("issuer", &name.value, meant), help);
        None
    }

    /// Returns the JWK set with the gateway's own keys. Must be called after all policies are built, because they add the keys.
    pub(crate) fn publish(&self) -> Arc<str> {
        let document = policies::jwt::backend::document(self.signers.iter());
        self.own_keys.get_or_init(|| document).clone()
    }
}

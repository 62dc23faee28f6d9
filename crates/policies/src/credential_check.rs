//! One kind of credential, as one that chooses among several sees it.

use message::RequestHead;
use policy::{Decision, Exchange};

/// Finds and checks one kind of credential.
pub trait CredentialCheck: Send + Sync {
    /// True if the request has a credential of this kind, good or not.
    fn is_there(&self, ex: &Exchange, head: &RequestHead) -> bool;

    /// Removes what the upstream must not see where another kind decides: the credential, and lines that tell of it.
    fn strip(&self, head: &mut RequestHead);

    /// The value of `WWW-Authenticate`, for kinds that have one.
    fn challenge(&self) -> Option<String>;

    /// Checks the credential that is there.
    fn check<'a>(&'a self, ex: &'a mut Exchange, head: &'a mut RequestHead) -> Decision<'a>;
}

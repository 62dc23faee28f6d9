//! The interface of one kind of credential, for `authenticate`, which chooses among several.

use message::RequestHead;
use policy::{Decision, Exchange};

/// Finds and checks one kind of credential.
pub trait CredentialCheck: Send + Sync {
    /// Returns true if the request has a credential of this kind, valid or not.
    fn is_present(&self, ex: &Exchange, head: &RequestHead) -> bool;

    /// Called if another kind decides. Removes what the upstream must not see: the credential, and header lines derived from it.
    fn strip(&self, head: &mut RequestHead);

    /// Returns the value of `WWW-Authenticate`, for kinds that have one.
    fn challenge(&self) -> Option<String>;

    /// Checks the credential of the request.
    fn check<'a>(&'a self, ex: &'a mut Exchange, head: &'a mut RequestHead) -> Decision<'a>;
}

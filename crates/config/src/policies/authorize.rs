//! `authorize`: a rule in CEL and the groups of the client say who may do what.

use crate::decode::keys;
use crate::values::Spanned;

keys! {
    /// Refuses requests for which a rule does not hold, or whose client is in none of the groups that it takes; 403. Both hold
    /// where both are written.
    pub struct Authorize {
        /// A CEL expression over `request` (`method`, `path`, `host`, `headers`, `query`), `claims`, `subject`, `tier`, `groups`,
        /// `attributes` and `client` (`ip`), such as `request.method == 'GET' || 'admin' in claims.roles`. What cannot be worked out
        /// does not hold.
        rule: Option<Spanned<String>>,
        /// The groups of clients that may pass, and those that may not.
        groups: Option<Spanned<GroupRules>>,
    }
}

keys! {
    /// Groups that may pass, and those that may not.
    pub struct GroupRules {
        /// The client has to be in one of these; in any or none if absent.
        allow: Option<Spanned<Vec<String>>>,
        /// A client in one of these is refused, whatever `allow` says.
        deny: Vec<String> = Vec::new(),
    }
}

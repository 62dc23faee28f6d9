//! `authorize`: allows or refuses requests by a CEL rule and the groups of the client.

use crate::decode::keys;
use crate::values::Spanned;

keys! {
    /// Refuses requests for which a rule does not hold, or whose client is not in the required groups, with 403. If both are written, both
    /// must hold.
    pub struct Authorize {
        /// A CEL expression over `request` (`method`, `path`, `host`, `headers`, `query`), `claims`, `subject`, `tier`, `groups`,
        /// `attributes` and `client` (`ip`), such as `request.method == 'GET' || 'admin' in claims.roles`. A rule that cannot be evaluated
        /// does not hold.
        rule: Option<Spanned<String>>,
        /// The groups of clients that may pass, and those that may not.
        groups: Option<Spanned<GroupRules>>,
    }
}

keys! {
    /// Groups that may pass, and those that may not.
    pub struct GroupRules {
        /// The client must be in one of these groups. If absent, groups are not required.
        allow: Option<Spanned<Vec<String>>>,
        /// A client in one of these groups is refused, even if `allow` lists it.
        deny: Vec<String> = Vec::new(),
    }
}

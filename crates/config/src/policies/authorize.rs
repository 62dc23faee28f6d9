//! `authorize`: a rule in CEL says who may do what.

use crate::decode::keys;
use crate::values::Spanned;

keys! {
    /// Refuses requests for which a rule does not hold; 403.
    pub struct Authorize {
        /// A CEL expression over `request` (`method`, `path`, `host`, `headers`, `query`), `claims`, `subject`, `tier` and `client`
        /// (`ip`), such as `request.method == 'GET' || 'admin' in claims.roles`. What cannot be worked out does not hold.
        rule: Spanned<String>,
    }
}

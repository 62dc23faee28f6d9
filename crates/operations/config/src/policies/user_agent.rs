//! `user_agent`: allows or refuses programs by their `User-Agent`.

use crate::decode::keys;
use crate::values::Spanned;

keys! {
    /// Refuses requests by their `User-Agent`, with 403. A request without one passes. Any client can write what it likes there: this turns
    /// away programs that say who they are, and nobody else.
    pub struct UserAgent {
        /// Regular expressions; a text in which one of them is found passes, whatever else it says.
        allow: Vec<Spanned<String>> = Vec::new(),
        /// Regular expressions; a text in which one of them is found is refused.
        deny: Vec<Spanned<String>> = Vec::new(),
        /// Whether robots may pass: programs that call themselves a bot, crawler, spider, scraper or archiver, and well-known others.
        // An operator who adds the policy without other keys wants to refuse robots.
        robots: bool = false,
    }
}

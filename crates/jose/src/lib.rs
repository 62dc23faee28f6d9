//! Signed tokens (JWS, RFC 7515) and the keys that verify them (JWK, RFC 7517), read to the letter.
//!
//! Owns which signatures are believed: a key says which algorithms it is for, and a token's own word counts only where the
//! key agrees. It fetches nothing, keeps no time, and knows no claim but by its name; encrypted tokens (JWE) are
//! recognised and refused.
//!
//! Text enters by [`Token::parse`] and [`KeySet`]; [`KeySet::verify`] says whether the one was signed by a key of the
//! other. [`Signer`] is the other side, for tokens of our own.
#![forbid(unsafe_code)]

mod algorithm;
mod der;
mod json;
mod key;
mod pem;
mod roca;
mod set;
mod sign;
mod token;

pub use algorithm::Algorithm;
pub use json::{Members, Object, object};
pub use key::{Key, KeyError};
pub use set::{KEYS_MAX, KeySet, Left};
pub use sign::{SignError, Signer};
pub use token::{Error, TOKEN_BYTES_MAX, Token, kind};

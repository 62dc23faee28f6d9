//! Signed tokens (JWS, RFC 7515) and the keys that verify them (JWK, RFC 7517), read strictly.
//!
//! Owns the decision which signatures are accepted: a key determines its algorithms, and a token's `alg` counts only if the key agrees.
//! It fetches nothing, keeps no time, and does not interpret claims; encrypted tokens (JWE) are recognised and refused.
//!
//! Text enters by [`Token::parse`] and [`KeySet`]; [`KeySet::verify`] checks that a key of the set signed the token. [`Signer`]
//! signs tokens of our own.
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
pub use set::{KEYS_MAX, KeySet, SkippedKey, TRIED_MAX};
pub use sign::{SignError, Signer};
pub use token::{Error, TOKEN_BYTES_MAX, Token, kind};

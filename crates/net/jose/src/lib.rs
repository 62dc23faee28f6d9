//! Signed tokens (JWS, RFC 7515) and the keys that verify them (JWK, RFC 7517), parsed strictly.
//!
//! Owns the decision which signatures are accepted: a key determines its algorithms, and the `alg` of a token counts only if the key allows
//! it. It fetches nothing, reads no clock, and does not interpret claims. Encrypted tokens (JWE) are recognised and refused.
//!
//! Text enters through [`Token::parse`] and [`KeySet`]. [`KeySet::verify`] checks that a key of the set signed the token. [`Signer`] signs
//! the gateway's own tokens.
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
pub use set::{KEYS_MAX, KeySet, SkippedKeys, TRIED_MAX};
pub use sign::{SignError, Signer};
pub use token::{Error, TOKEN_BYTES_MAX, Token, kind};

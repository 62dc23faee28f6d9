//! Key sets (RFC 7517, 5), and the choice of a token's key.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::json::{self, Object};
use crate::key::{Key, KeyError};
use crate::token::{Error, Token};
use crate::{Algorithm, pem};

/// Maximum number of keys in a set. Real issuers have two to ten.
pub const KEYS_MAX: usize = 128;

/// Maximum number of keys tried for one token. Each attempt may take a quarter of a millisecond.
pub const TRIED_MAX: usize = 8;

/// Keys that verify an issuer's tokens.
#[derive(Debug, Default)]
pub struct KeySet {
    keys: Vec<Key>,
}

/// The keys that were left out of a set: their names, if they have one, and the reasons.
pub type SkippedKeys = Vec<(Option<String>, KeyError)>;

impl KeySet {
    /// Parses a JWK set or a single JWK. Leaves out keys that are not for verifying, and keys that could be confused with one another.
    /// Returns `None` if the text is not a key set, or has more than [`KEYS_MAX`] keys.
    pub fn from_json(text: &[u8]) -> Option<(KeySet, SkippedKeys)> {
        let (mut keys, mut left) = read(text)?;
        // A key with the name of a malformed key is left out as well: a token with that name may mean the malformed one.
        let shares_name = |key: &Key| {
            let same = |(id, error): &(Option<String>, KeyError)| {
                *error == KeyError::Malformed && id.is_some() && id.as_deref() == key.id.as_deref()
            };
            left.iter().any(same)
        };
        keys.retain(|key| !shares_name(key));
        let keys = without_doubled(without_exposed(keys, &mut left), &mut left);
        Some((KeySet { keys }, left))
    }

    /// Like [`KeySet::from_json`], for the keys of an issuer, all of which are trusted. Keys with the same name are kept, and all of them
    /// are tried: during a rotation, an issuer may publish the old and the new key under one name, and tokens of both must be accepted.
    pub fn of_issuer(text: &[u8]) -> Option<(KeySet, SkippedKeys)> {
        let (keys, mut left) = read(text)?;
        Some((KeySet { keys: without_exposed(keys, &mut left) }, left))
    }

    /// Creates a set from a shared secret, given as text or as `base64:TEXT`.
    pub fn of_secret(text: &str) -> Result<KeySet, KeyError> {
        Ok(KeySet { keys: vec![Key::of_secret(&secret_bytes(text)?)?] })
    }

    /// Like [`KeySet::of_secret`], for a secret that may be shorter than RFC 7518, 3.2 requires.
    pub fn of_short_secret(text: &str) -> Result<KeySet, KeyError> {
        Ok(KeySet { keys: vec![Key::of_short_secret(&secret_bytes(text)?)?] })
    }

    /// Parses all public keys and certificates in a PEM text.
    pub fn from_pem(text: &str) -> Result<KeySet, KeyError> {
        let blocks = pem::blocks(text).ok_or(KeyError::Malformed)?;
        let public = blocks.iter().map(|block| pem::public(block).ok_or(KeyError::Unsupported));
        let keys: Vec<Key> =
            public.map(|public| Key::from_public(&public?)).collect::<Result<_, _>>()?;
        if keys.is_empty() { Err(KeyError::Malformed) } else { Ok(KeySet { keys }) }
    }

    /// Adds the keys of another set.
    pub fn extend(&mut self, other: KeySet) {
        self.keys.extend(other.keys);
    }

    /// Drops shared secrets, because a public key set exposes them.
    pub fn without_secrets(mut self) -> KeySet {
        self.keys.retain(|key| !key.is_secret());
        self
    }

    pub fn len(&self) -> usize {
        self.keys.len()
    }

    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Returns true if some key may verify a token with this key name and algorithm.
    pub fn knows(&self, id: Option<&str>, algorithm: Algorithm) -> bool {
        self.candidates(id, algorithm).next().is_some()
    }

    /// Returns true if a key has this name.
    pub fn names(&self, id: Option<&str>) -> bool {
        id.is_some() && self.keys.iter().any(|key| key.id.as_deref() == id)
    }

    /// Checks that one of the keys signed the token.
    pub fn verify(&self, token: &Token<'_>) -> Result<(), Error> {
        let mut tried = false;
        for (at, key) in self.candidates(token.key_id.as_deref(), token.algorithm).enumerate() {
            if at >= TRIED_MAX {
                return Err(Error::Ambiguous);
            }
            tried = true;
            if key.verify(token.algorithm, token.signed, &token.signature) {
                return Ok(());
            }
        }
        Err(if tried { Error::Signature } else { Error::KeyUnknown })
    }

    /// Returns a name that two keys for the same algorithm share, or `None` if there is none.
    pub fn duplicate_id(&self) -> Option<&str> {
        let doubled = self.keys.iter().find(|key| is_doubled(key, &self.keys));
        doubled.and_then(|key| key.id.as_deref())
    }

    /// Returns an algorithm for which the set has more than [`TRIED_MAX`] keys, and the number of these keys. Tokens without a key name
    /// cannot be verified reliably then.
    pub fn untried(&self) -> Option<(Algorithm, usize)> {
        let all = self.keys.iter().flat_map(Key::algorithms);
        let counted = all.map(|algorithm| (algorithm, self.candidates(None, algorithm).count()));
        counted.max_by_key(|(_, count)| *count).filter(|(_, count)| *count > TRIED_MAX)
    }

    /// Returns the keys with this algorithm and this name. A token without a key name matches keys of every name, and a key without a name
    /// (as in PEM files) matches every token.
    fn candidates(&self, id: Option<&str>, algorithm: Algorithm) -> impl Iterator<Item = &Key> {
        self.keys.iter().filter(move |key| {
            let named = match (id, key.id.as_deref()) {
                (Some(id), Some(key)) => id == key,
                (None, _) | (_, None) => true,
            };
            named && key.algorithms().any(|known| known == algorithm)
        })
    }
}

fn secret_bytes(text: &str) -> Result<Vec<u8>, KeyError> {
    match text.strip_prefix("base64:") {
        Some(text) => STANDARD.decode(text.trim()).map_err(|_| KeyError::Malformed),
        None => Ok(text.as_bytes().to_vec()),
    }
}

/// Parses a JWK set or a single JWK. Returns the keys that are for verifying, and those that are left out.
fn read(text: &[u8]) -> Option<(Vec<Key>, SkippedKeys)> {
    let document = json::object(text)?;
    let mut left = SkippedKeys::new();
    let jwks: Vec<Option<&Object>> = match document.get("keys") {
        Some(Value::Array(keys)) => keys.iter().map(Value::as_object).collect(),
        Some(_) => return None,
        None if document.contains_key("kty") => vec![Some(&document)],
        None => return None,
    };
    if jwks.len() > KEYS_MAX {
        return None;
    }
    let mut keys = Vec::new();
    for jwk in jwks {
        let Some(jwk) = jwk else {
            left.push((None, KeyError::Malformed));
            continue;
        };
        match Key::from_jwk(jwk) {
            Ok(key) => keys.push(key),
            Err(error) => {
                let id = jwk.get("kid").and_then(Value::as_str).map(str::to_owned);
                left.push((id, error));
            }
        }
    }
    Some((keys, left))
}

/// Leaves out shared secrets that are published together with public keys, because they are no longer secret.
fn without_exposed(keys: Vec<Key>, left: &mut SkippedKeys) -> Vec<Key> {
    let are_mixed = keys.iter().any(Key::is_secret) && !keys.iter().all(Key::is_secret);
    let (exposed, kept): (Vec<Key>, Vec<Key>) =
        keys.into_iter().partition(|key| are_mixed && key.is_secret());
    left.extend(exposed.into_iter().map(|key| (key.id.map(String::from), KeyError::Exposed)));
    kept
}

/// Leaves out keys that share a name and an algorithm. Their issuer confused keys, so a verifier could do so too.
fn without_doubled(keys: Vec<Key>, left: &mut SkippedKeys) -> Vec<Key> {
    let doubled: Vec<bool> = keys.iter().map(|key| is_doubled(key, &keys)).collect();
    let mut kept = Vec::new();
    // Harmless: there is one flag for each key.
    for (key, doubled) in keys.into_iter().zip(doubled) {
        if doubled {
            left.push((key.id.map(String::from), KeyError::DuplicateId))
        } else {
            kept.push(key)
        }
    }
    kept
}

/// Returns true if another key has the same name and shares an algorithm.
fn is_doubled(key: &Key, keys: &[Key]) -> bool {
    let alike = |other: &&Key| {
        key.id.is_some()
            && key.id == other.id
            && key.algorithms().any(|one| other.algorithms().any(|two| one == two))
    };
    keys.iter().filter(alike).count() > 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sign::Signer;

    #[test]
    fn a_set_with_more_keys_than_are_tried_is_reported() {
        let pairs: Vec<rcgen::KeyPair> = (0..=TRIED_MAX)
            .map(|_| rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap())
            .collect();
        let pem = |pairs: &[rcgen::KeyPair]| {
            let all: String = pairs.iter().map(rcgen::KeyPair::public_key_pem).collect();
            KeySet::from_pem(&all).unwrap()
        };
        let (few, many) = (pem(&pairs[1..]), pem(&pairs));
        assert_eq!(few.untried(), None);
        assert_eq!(many.untried(), Some((Algorithm::Es256, TRIED_MAX + 1)));
        let claims = serde_json::Map::new();
        for (at, few_say, many_say) in [
            (0, Err(Error::Signature), Ok(())),
            (TRIED_MAX - 1, Ok(()), Ok(())),
            (TRIED_MAX, Ok(()), Err(Error::Ambiguous)),
        ] {
            let signer = Signer::from_pem(&pairs[at].serialize_pem()).unwrap();
            let text = signer.sign(&claims).unwrap();
            let token = Token::parse(text.as_bytes()).unwrap();
            assert_eq!((few.verify(&token), many.verify(&token)), (few_say, many_say), "{at}");
        }
    }
}

//! The identity of the one that asks, made from a credential.

use policy::{Claims, Identity, IdentityScheme};

use crate::credentials::sha256;

/// An identity with its digest.
pub(crate) fn identity(
    subject: &str,
    scheme: IdentityScheme,
    claims: Option<Claims>,
    tier: Option<Box<str>>,
) -> Identity {
    let named = [scheme.name().as_bytes(), b":", subject.as_bytes()].concat();
    let mut digest = [0; 16];
    digest.iter_mut().zip(sha256(&named)).for_each(|(half, byte)| *half = byte);
    let claims = claims.map(Box::new);
    Identity { subject: subject.into(), digest, scheme, claims, tier, expires: None }
}

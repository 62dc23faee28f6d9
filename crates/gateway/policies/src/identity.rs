//! Builds the client identity from a credential.

use policy::{Claims, Identity, IdentityScheme};

use crate::application_keys::application_name;
use crate::credentials::{Holder, sha256};

/// Returns the identity of the owner of a secret.
pub(crate) fn holder(holder: Holder, scheme: IdentityScheme) -> Identity {
    let Holder { subject, tier, application, groups, attributes, .. } = holder;
    let texts = |(name, text): (String, String)| (name.into(), text.into());
    Identity {
        groups: groups.into_iter().map(Into::into).collect(),
        attributes: attributes.into_iter().map(texts).collect(),
        application: application.as_deref().map(application_name),
        ..identity(&subject, scheme, None, tier.map(Into::into))
    }
}

/// Returns an identity with its digest.
pub(crate) fn identity(
    subject: &str,
    scheme: IdentityScheme,
    claims: Option<Claims>,
    tier: Option<Box<str>>,
) -> Identity {
    let named = [scheme.name().as_bytes(), b":", subject.as_bytes()].concat();
    let mut digest = [0; 16];
    // Harmless: half of the hash is enough to avoid collisions.
    digest.iter_mut().zip(sha256(&named)).for_each(|(half, byte)| *half = byte);
    let claims = claims.map(Box::new);
    Identity {
        subject: subject.into(),
        digest,
        scheme,
        claims,
        tier,
        groups: Box::default(),
        attributes: Box::default(),
        application: None,
        expires: None,
    }
}

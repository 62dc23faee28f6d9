//! The algorithms of RFC 7518 and RFC 8037 that are believed here. There is no `none`.

/// How a token is signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Algorithm {
    Hs256,
    Hs384,
    Hs512,
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Ps384,
    Ps512,
    Es256,
    Es384,
    Es512,
    EdDsa,
}

impl Algorithm {
    pub const ALL: &[Algorithm] = &[
        Algorithm::Hs256,
        Algorithm::Hs384,
        Algorithm::Hs512,
        Algorithm::Rs256,
        Algorithm::Rs384,
        Algorithm::Rs512,
        Algorithm::Ps256,
        Algorithm::Ps384,
        Algorithm::Ps512,
        Algorithm::Es256,
        Algorithm::Es384,
        Algorithm::Es512,
        Algorithm::EdDsa,
    ];

    /// As the `alg` of a token or a key says it.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Hs256 => "HS256",
            Algorithm::Hs384 => "HS384",
            Algorithm::Hs512 => "HS512",
            Algorithm::Rs256 => "RS256",
            Algorithm::Rs384 => "RS384",
            Algorithm::Rs512 => "RS512",
            Algorithm::Ps256 => "PS256",
            Algorithm::Ps384 => "PS384",
            Algorithm::Ps512 => "PS512",
            Algorithm::Es256 => "ES256",
            Algorithm::Es384 => "ES384",
            Algorithm::Es512 => "ES512",
            Algorithm::EdDsa => "EdDSA",
        }
    }

    /// The algorithm of that name, in exactly these letters. `Ed25519` is what RFC 9864 calls the EdDSA that is spoken
    /// here; `ES521` is how keys on P-521 are often misspelt, and their curve allows only one reading.
    pub fn named(name: &str) -> Option<Algorithm> {
        match name {
            "Ed25519" => Some(Algorithm::EdDsa),
            "ES521" => Some(Algorithm::Es512),
            _ => Algorithm::ALL.iter().copied().find(|algorithm| algorithm.name() == name),
        }
    }
}

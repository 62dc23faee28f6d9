//! The accepted algorithms of RFC 7518 and RFC 8037. `none` is not among them.

/// A signature algorithm.
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

    /// Returns the name, as in the `alg` of a token or a key.
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

    /// Returns the algorithm with exactly this name. `Ed25519` is RFC 9864's name for the EdDSA variant supported here. `ES521` is a common
    /// misspelling on P-521 keys, and their curve allows only one meaning.
    pub fn named(name: &str) -> Option<Algorithm> {
        match name {
            "Ed25519" => Some(Algorithm::EdDsa),
            "ES521" => Some(Algorithm::Es512),
            _ => Algorithm::ALL.iter().copied().find(|algorithm| algorithm.name() == name),
        }
    }
}

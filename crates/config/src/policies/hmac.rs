//! `hmac`: who asks is shown by a signature of parts of the request.

use std::time::Duration;

use crate::decode::{keys, words};
use crate::values::{Credentials, Size, Spanned, Timeout};

keys! {
    /// Requires a signature: `Authorization: hmac username="alice", algorithm="hmac-sha256", headers="date request-line",
    /// signature="BASE64"`, and a recent `Date` or `X-Date`.
    pub struct Hmac {
        /// The secrets by name: `{ file: users.yaml }`, or `{ NAME: SECRET }`. A hash of a secret can check no signature.
        users: Spanned<Credentials>,
        /// The algorithms that are allowed.
        // SHA-1 is for clients that know nothing else.
        algorithms: Spanned<Vec<HmacAlgorithm>> = Spanned::unwritten(vec![
            HmacAlgorithm::Sha256,
            HmacAlgorithm::Sha384,
            HmacAlgorithm::Sha512,
        ]),
        /// How far the date of a request may be from the gateway's time.
        // What clients of Kong and AWS are used to.
        clock_skew: Timeout = Timeout(Duration::from_secs(300)),
        /// What has to be signed: names of headers, `request-line` or `@request-target`. Anyone on the
        /// way can change what is not signed.
        // A date that is not signed could be a new one, and the rest of the request another.
        headers: Vec<Spanned<String>> = ["date", "request-line"].map(|name| Spanned::unwritten(name.to_owned())).to_vec(),
        /// Whether a body has to be the one that `Digest: SHA-256=BASE64` says. Sign `digest` too.
        body: bool = false,
        /// The largest body that is compared with its digest; 413 above.
        // It is held in memory for that.
        body_bytes_max: Size = Size(1024 * 1024),
        /// The realm in `WWW-Authenticate`.
        realm: Spanned<String> = Spanned::unwritten("tidegate".to_owned()),
        /// Whether the upstream sees the signature.
        // It speaks of a request that the gateway has changed.
        forward: bool = false,
    }
}

words! {
    /// A way to sign.
    pub enum HmacAlgorithm {
        /// HMAC with SHA-1.
        Sha1 = "hmac-sha1",
        /// HMAC with SHA-224.
        Sha224 = "hmac-sha224",
        /// HMAC with SHA-256.
        Sha256 = "hmac-sha256",
        /// HMAC with SHA-384.
        Sha384 = "hmac-sha384",
        /// HMAC with SHA-512.
        Sha512 = "hmac-sha512",
    }
}

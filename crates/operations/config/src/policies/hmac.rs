//! `hmac`: authenticates clients by a signature over parts of the request.

use std::time::Duration;

use crate::decode::{keys, words};
use crate::values::{Credentials, Size, Spanned, Timeout};

keys! {
    /// Requires a signature: `Authorization: hmac username="alice", algorithm="hmac-sha256", headers="date request-line",
    /// signature="BASE64"`, and a recent `Date` or `X-Date`.
    pub struct Hmac {
        /// The secrets by name: `{ file: users.yaml }`, or `{ NAME: SECRET }`. Hashes are not possible, since a signature check needs the
        /// secret itself.
        users: Spanned<Credentials>,
        /// The algorithms that are allowed.
        // SHA-1 is for clients that support nothing else.
        algorithms: Spanned<Vec<HmacAlgorithm>> = Spanned::unwritten(vec![
            HmacAlgorithm::Sha256,
            HmacAlgorithm::Sha384,
            HmacAlgorithm::Sha512,
        ]),
        /// The maximum difference between the date of a request and the gateway's clock.
        // The value that clients of Kong and AWS expect.
        clock_skew: Timeout = Timeout(Duration::from_secs(300)),
        /// The parts that must be signed: names of headers, `request-line` or `@request-target`. Parts that are not signed can be changed
        /// on the way.
        // An unsigned date or request line could be replaced in a captured request.
        headers: Vec<Spanned<String>> = ["date", "request-line"].map(|name| Spanned::unwritten(name.to_owned())).to_vec(),
        /// Whether the body must match `Digest: SHA-256=BASE64`. `digest` should then be signed, too.
        body: bool = false,
        /// The largest body that is compared with its digest; 413 above.
        // The body is held in memory for the comparison.
        body_bytes_max: Size = Size(1024 * 1024),
        /// The realm in `WWW-Authenticate`.
        realm: Spanned<String> = Spanned::unwritten("tidegate".to_owned()),
        /// Whether the upstream sees the signature.
        // The signature covers a request that the gateway may have changed.
        forward: bool = false,
    }
}

words! {
    /// A signature algorithm.
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

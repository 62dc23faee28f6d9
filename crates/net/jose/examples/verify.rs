//! The cost of a token that was never seen before: parsing it, its claims, and its signature. Each is the least of many rounds,
//! which other work on the machine disturbs least. The first line is the library alone: no design of ours can be cheaper.
//!
//! usage: verify [ROUNDS] (500); under callgrind, `verify 1 WHAT` runs one of them a thousand times.
#![allow(clippy::print_stdout, reason = "a command line program talks by printing")]
#![allow(clippy::expect_used, reason = "it is for measurements: what does not work ends it")]

use std::hint::black_box;

use aws_lc_rs::signature::{ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jose::{KeySet, Signer, Token};
use serde_json::json;

/// Calls in one round.
const CALLS: u32 = 100;

fn main() {
    let mut words = std::env::args().skip(1);
    let rounds = words.next().map_or(500, |text| text.parse().expect("rounds are a number"));
    let only = words.next();
    let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_RSA_SHA256).expect("a key is made");
    let signer = Signer::from_pem(&pair.serialize_pem()).expect("the key signs");
    let claims = json!({
        "iss": "https://bench.test", "sub": "user-12345", "aud": "api", "iat": 1_800_000_000, "exp": 1_900_000_000,
        "jti": "0123456789abcdef0123456789abcdef", "scope": "orders:read orders:write",
    });
    let token = signer.sign(claims.as_object().expect("claims")).expect("a token");
    let set = json!({ "keys": [signer.jwk()] }).to_string();
    let (keys, _) = KeySet::from_json(set.as_bytes()).expect("a key set");
    let der = rcgen::PublicKeyData::subject_public_key_info(&pair);
    let parsed = ParsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, &der).expect("a key");
    let unparsed = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, &der);
    let (signed, signature) = token.rsplit_once('.').expect("three parts");
    let signature = URL_SAFE_NO_PAD.decode(signature).expect("a signature");
    let read = || Token::parse(token.as_bytes()).expect("a token");
    let known = read();
    let cases: [(&str, &dyn Fn()); 6] = [
        ("library, key parsed once", &|| {
            parsed.verify_sig(black_box(signed.as_bytes()), &signature).expect("it verifies");
        }),
        ("library, key parsed each time", &|| {
            unparsed.verify(black_box(signed.as_bytes()), &signature).expect("it verifies");
        }),
        ("SHA-256 of the signed part", &|| {
            let of = black_box(signed.as_bytes());
            black_box(aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, of));
        }),
        ("read", &|| {
            black_box(read());
        }),
        ("claims", &|| {
            black_box(known.claims().expect("claims"));
        }),
        ("all", &|| {
            let token = read();
            keys.verify(&token).expect("it verifies");
            black_box(token.claims());
        }),
    ];
    println!("a token of {} bytes", token.len());
    for (name, case) in cases {
        if only.as_ref().is_some_and(|only| !name.contains(only.as_str())) {
            continue;
        }
        let times = if only.is_some() { 10 } else { rounds };
        let least = (0..times).map(|_| round(case)).min().unwrap_or_default();
        println!("{name:32} {:6.2} us", f64::from(least) / f64::from(CALLS) / 1000.0);
    }
}

/// The nanoseconds of one round.
#[allow(clippy::disallowed_methods, reason = "the clock of the gateway is not here")]
fn round(case: &dyn Fn()) -> u32 {
    let before = std::time::Instant::now();
    (0..CALLS).for_each(|_| case());
    u32::try_from(before.elapsed().as_nanos()).unwrap_or(u32::MAX)
}

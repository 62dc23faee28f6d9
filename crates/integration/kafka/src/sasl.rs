//! Authentication at a broker: SASL PLAIN (RFC 4616) and SCRAM (RFC 5802, RFC 7677).

use std::num::NonZeroU32;
use std::time::Duration;

use aws_lc_rs::{digest, hmac, pbkdf2, rand};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use kafka_protocol::messages::{SaslAuthenticateRequest, SaslHandshakeRequest};
use kafka_protocol::protocol::StrBytes;

use crate::connection::Connection;
use crate::protocol::{Failure, check};
use crate::{Mechanism, Sasl};

/// The timeout of each answer. The timeout for opening the connection is shorter and covers the authentication as well.
const WAIT: Duration = Duration::from_secs(10);

/// The maximum number of hashing rounds that a broker may request. Kafka's own default is 4,096.
const ROUNDS_MAX: u32 = 100_000;

/// The algorithms of a SCRAM mechanism.
struct Scram {
    digest: &'static digest::Algorithm,
    hmac: hmac::Algorithm,
    stretch: pbkdf2::Algorithm,
}

/// Authenticates the gateway to the broker. With SCRAM, also verifies that the broker knows the password.
pub(crate) async fn authenticate(connection: &Connection, sasl: &Sasl) -> Result<(), Failure> {
    let mechanism = match sasl.mechanism {
        Mechanism::Plain => "PLAIN",
        Mechanism::ScramSha256 => "SCRAM-SHA-256",
        Mechanism::ScramSha512 => "SCRAM-SHA-512",
    };
    let asked =
        SaslHandshakeRequest::default().with_mechanism(StrBytes::from_static_str(mechanism));
    let known = connection.ask(&asked, WAIT).await?;
    check(known.error_code)?;
    match sasl.mechanism {
        Mechanism::Plain => {
            let said = format!("\0{}\0{}", sasl.user, sasl.password);
            say(connection, said).await.map(drop)
        }
        Mechanism::ScramSha256 => {
            let scram = Scram {
                digest: &digest::SHA256,
                hmac: hmac::HMAC_SHA256,
                stretch: pbkdf2::PBKDF2_HMAC_SHA256,
            };
            scram.authenticate(connection, sasl).await
        }
        Mechanism::ScramSha512 => {
            let scram = Scram {
                digest: &digest::SHA512,
                hmac: hmac::HMAC_SHA512,
                stretch: pbkdf2::PBKDF2_HMAC_SHA512,
            };
            scram.authenticate(connection, sasl).await
        }
    }
}

async fn say(connection: &Connection, said: String) -> Result<Bytes, Failure> {
    let asked = SaslAuthenticateRequest::default().with_auth_bytes(Bytes::from(said));
    let answer = connection.ask(&asked, WAIT).await?;
    check(answer.error_code)?;
    Ok(answer.auth_bytes)
}

impl Scram {
    async fn authenticate(&self, connection: &Connection, sasl: &Sasl) -> Result<(), Failure> {
        let mut nonce = [0; 18];
        rand::fill(&mut nonce).map_err(|_| refused("no random numbers are available"))?;
        let nonce = STANDARD.encode(nonce);
        let first = format!("n={},r={nonce}", escaped(&sasl.user));
        let challenge = say(connection, format!("n,,{first}")).await?;
        let challenge =
            std::str::from_utf8(&challenge).map_err(|_| refused("the challenge is not UTF-8"))?;
        let (last, signature) = self
            .answer(&sasl.password, &nonce, &first, challenge)
            .ok_or_else(|| refused("the challenge of the broker is invalid"))?;
        let verdict = say(connection, last).await?;
        if let Some(error) = verdict.strip_prefix(b"e=") {
            // Harmless: the text is only logged.
            let error = String::from_utf8_lossy(error).escape_debug().to_string();
            return Err(refused(&format!("the broker says `{error}`")));
        }
        let proof = verdict.strip_prefix(b"v=").map(|proof| STANDARD.decode(proof));
        match proof {
            Some(Ok(proof)) if proof == signature => Ok(()),
            Some(_) | None => Err(refused("the broker does not know the password")),
        }
    }

    /// Returns the final message, and the signature that the broker must return.
    fn answer(
        &self,
        password: &str,
        nonce: &str,
        first: &str,
        challenge: &str,
    ) -> Option<(String, Vec<u8>)> {
        let mut parts = challenge.split(',');
        let theirs = parts.next()?.strip_prefix("r=")?;
        let salt = STANDARD.decode(parts.next()?.strip_prefix("s=")?).ok()?;
        let rounds: NonZeroU32 = parts.next()?.strip_prefix("i=")?.parse().ok()?;
        if !theirs.starts_with(nonce) || rounds.get() > ROUNDS_MAX {
            return None;
        }
        let mut salted = vec![0; self.digest.output_len()];
        pbkdf2::derive(self.stretch, rounds, &salt, password.as_bytes(), &mut salted);
        let sign = |key: &[u8], text: &[u8]| hmac::sign(&hmac::Key::new(self.hmac, key), text);
        let client_key = sign(&salted, b"Client Key");
        let stored = digest::digest(self.digest, client_key.as_ref());
        let without_proof = format!("c=biws,r={theirs}");
        let signed = format!("{first},{challenge},{without_proof}");
        let signature = sign(stored.as_ref(), signed.as_bytes());
        // Harmless: both are outputs of the same hash, so their lengths are equal.
        let proof =
            client_key.as_ref().iter().zip(signature.as_ref()).map(|(key, sign)| key ^ sign);
        let proof = STANDARD.encode(proof.collect::<Vec<u8>>());
        let server_key = sign(&salted, b"Server Key");
        let expected = sign(server_key.as_ref(), signed.as_bytes()).as_ref().to_vec();
        Some((format!("{without_proof},p={proof}"), expected))
    }
}

/// Escapes a name for SCRAM.
fn escaped(user: &str) -> String {
    user.replace('=', "=3D").replace(',', "=2C")
}

fn refused(what: &str) -> Failure {
    Failure::Refused(format!("Kafka, SASL: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7677, 3.
    #[test]
    fn the_example_of_the_rfc_is_answered() {
        let scram = Scram {
            digest: &digest::SHA256,
            hmac: hmac::HMAC_SHA256,
            stretch: pbkdf2::PBKDF2_HMAC_SHA256,
        };
        let nonce = "rOprNGfwEbeRWgbNEkqO";
        let challenge = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
        let first = format!("n=user,r={nonce}");
        let (last, signature) = scram.answer("pencil", nonce, &first, challenge).unwrap();
        assert_eq!(
            last,
            "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
        );
        assert_eq!(STANDARD.encode(signature), "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
        for wrong in [
            "",
            "r=other,s=AAAA,i=1",
            "r=rOprNGfwEbeRWgbNEkqOx,s=*,i=1",
            "r=rOprNGfwEbeRWgbNEkqOx,s=AAAA,i=0",
            "r=rOprNGfwEbeRWgbNEkqOx,s=AAAA,i=99999999",
            "r=rOprNGfwEbeRWgbNEkqOx,s=AAAA",
        ] {
            assert!(scram.answer("pencil", nonce, &first, wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn user_names_are_escaped() {
        assert_eq!(escaped("a,r=b"), "a=2Cr=3Db");
    }
}

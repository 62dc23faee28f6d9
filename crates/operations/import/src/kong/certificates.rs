//! Certificates and the listeners that show them.

use serde_json::{Map, Value as Json, json};

use super::converter::Converter;
use super::entities::Entity;
use super::fields::{self, Verdict};
use super::output::{literal, pem};

/// The name of the listener for plain HTTP.
pub(super) const PUBLIC: &str = "public";
/// The name of the listener for HTTPS.
pub(super) const SECURE: &str = "secure";

/// A listener without TLS.
fn listener(address: &str) -> Json {
    // Kong matches paths with escaped slashes and with `;` as they are, and sends on what clients say of their address.
    let paths = json!({ "escaped_slash": "keep", "parameters": "keep" });
    json!({ "address": address, "pass_untrusted_headers": true, "paths": paths })
}

impl Converter<'_> {
    /// Makes the listeners. `listen` and `listen_tls` are their addresses.
    pub(super) fn listeners(&mut self, listen: &str, listen_tls: &str) {
        self.out.listen.insert(PUBLIC.to_owned(), listener(listen));
        let all = self.all;
        for authority in &all.ca_certificates {
            let verdict = self.checked(&authority.item, fields::CA_CERTIFICATE);
            if authority.item.text("cert").is_none() {
                self.mistakes.add(authority.item.at, "a ca_certificate without `cert`");
            }
            self.row(&format!("ca_certificate {}", authority.name), &authority.item, verdict);
        }
        let mut names: Map<String, Json> = Map::new();
        let mut first: Option<(String, String)> = None;
        for (at, certificate) in all.certificates.iter().enumerate() {
            let mut verdict = self.checked(&certificate.item, fields::CERTIFICATE);
            for key in ["cert", "key"] {
                if certificate.item.text(key).is_none() {
                    self.mistakes
                        .add(certificate.item.at, format!("a certificate without `{key}`"));
                }
            }
            let snis: Vec<&str> = all
                .snis
                .iter()
                .filter(|sni| sni.parent == Some(at))
                .map(|sni| sni.name.as_str())
                .collect();
            if !snis.is_empty()
                && let Some((certificate, key)) = self.certificate_files(at, &mut verdict)
            {
                first.get_or_insert_with(|| (certificate.clone(), key.clone()));
                for name in &snis {
                    let files = json!({ "certificate": certificate, "key": key });
                    names.insert((*name).to_owned(), files);
                }
            }
            self.row(&format!("certificate {}", snis.join(" ")), &certificate.item, verdict);
        }
        for sni in &all.snis {
            let name = sni.item.place_of("name");
            let verdict = if sni.item.is_map() {
                self.checked(&sni.item, fields::SNI)
            } else {
                Verdict::default()
            };
            if sni.name.is_empty() {
                self.mistakes.add(name, "an sni without `name`");
            }
            let twins = all.snis.iter().filter(|other| other.name == sni.name).count();
            if twins > 1 {
                self.mistakes.add(name, format!("the sni `{}` appears twice", sni.name));
            }
            self.row(&format!("sni {}", sni.name), &sni.item, verdict);
        }
        let tls = match first {
            Some((certificate, key)) => {
                Some(json!({ "certificate": certificate, "key": key, "sni": names }))
            }
            // Kong makes a certificate for clients whose server name has none.
            None => (all.snis.is_empty() && all.routes.iter().any(is_secure_alone))
                .then(|| json!({ "self_signed": true })),
        };
        if let Some(tls) = tls {
            let mut secure = listener(listen_tls);
            if let Some(secure) = secure.as_object_mut() {
                secure.insert("tls".to_owned(), tls);
            }
            self.out.listen.insert(SECURE.to_owned(), secure);
        }
    }

    /// The files of a certificate and its key.
    pub(super) fn certificate_files(
        &mut self,
        at: usize,
        verdict: &mut Verdict,
    ) -> Option<(String, String)> {
        let certificate = self.all.certificates.get(at)?;
        let (cert, key) = (certificate.item.text("cert")?, certificate.item.text("key")?);
        if [cert, key].iter().any(|text| text.contains('\u{0}') || text.contains("{vault://")) {
            verdict.refuse(
                "a certificate and its key must be in the file, not in a variable or a vault",
            );
            return None;
        }
        let named = self.all.snis.iter().find(|sni| sni.parent == Some(at));
        let name = named
            .map_or_else(|| "certificate".to_owned(), |sni| literal(&sni.name).replace('*', "any"));
        let cert = self.out.file(&name, "crt", pem(cert));
        let key = self.out.file(&name, "key", pem(key));
        Some((cert, key))
    }

    pub(super) fn has_tls(&self) -> bool {
        self.out.listen.contains_key(SECURE)
    }

    /// True if the listener for HTTPS has a certificate that the gateway makes.
    pub(super) fn is_self_signed(&self) -> bool {
        let tls = self.out.listen.get(SECURE).and_then(|listener| listener.get("tls"));
        tls.is_some_and(|tls| tls.get("self_signed").is_some())
    }
}

/// True for a route that plain HTTP does not reach.
fn is_secure_alone(route: &Entity) -> bool {
    let protocols = route.item.texts("protocols");
    !protocols.is_empty() && protocols.iter().all(|one| ["https", "grpcs", "wss"].contains(one))
}

//! The signing keys: stored, and rotated with an overlap.
//!
//! The newest key signs. An older one is published until the last token that it may have signed has expired. If a token lives longer
//! than usual, such as an API key, its end is recorded with its key before it is signed.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use aws_lc_rs::encoding::AsDer as _;
use aws_lc_rs::rsa::{KeyPair as RsaKeyPair, KeySize};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jose::{KeySet, Object, Signer};
use plan::{CatalogAlgorithm, CatalogSettings};
use serde_json::{Value, json};

use crate::http::Refusal;
use crate::ids;
use crate::object_store::{ObjectStore, Read, WriteError};
use crate::objects::SigningKey;

/// Signers, the newest first.
#[derive(Default)]
pub(crate) struct Keyring(RwLock<Vec<Arc<Signer>>>);

/// The least time for which a key is published after it has signed its last token.
const OVERLAP_MIN: Duration = Duration::from_secs(24 * 3600);

/// How much longer than a long-lived token requires its key is published, so that later tokens rarely need another update.
const NOTED_AHEAD: Duration = Duration::from_secs(30 * 86_400);

/// The number of attempts to update a key while other gateways do so too.
const ATTEMPTS_MAX: usize = 8;

impl Keyring {
    /// Creates, retires and publishes keys when they are due.
    pub(crate) async fn maintain(
        &self,
        objects: &ObjectStore,
        settings: &CatalogSettings,
    ) -> Result<(), WriteError> {
        let now = kit::clock::wall().as_secs();
        let mut keys = newest_first(objects);
        let rotate = settings.rotate.as_secs().max(1);
        let is_due =
            keys.first().is_none_or(|key| key.object.created.saturating_add(rotate) <= now);
        if is_due && let Some(key) = new_key(settings.algorithm, now).await {
            objects.add(key).await?;
            tracing::info!("catalog: a new key signs tokens");
            keys = newest_first(objects);
        }
        let overlap = overlap(settings);
        // A key was used for signing until the next one was created.
        let mut until = u64::MAX;
        for key in &keys {
            if until.saturating_add(overlap).max(key.object.until) <= now {
                objects.remove(key).await?;
            }
            until = key.object.created;
        }
        self.publish(objects, settings);
        Ok(())
    }

    /// Loads the keys from the store, and publishes them if they have changed.
    pub(crate) fn publish(&self, objects: &ObjectStore, settings: &CatalogSettings) {
        let mut signers = Vec::new();
        for key in newest_first(objects) {
            match Signer::from_pem(&key.object.pem) {
                Ok(signer) => signers.push(Arc::new(signer)),
                Err(error) => tracing::error!(%error, "catalog: a key cannot be read"),
            }
        }
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let ids = |signers: &[Arc<Signer>]| -> Vec<String> {
            signers.iter().map(|signer| signer.id().to_owned()).collect()
        };
        if ids(&known) == ids(&signers) {
            return;
        }
        *known = signers;
        let document = document(&known).to_string();
        if let Some((keys, _)) = KeySet::from_json(document.as_bytes()) {
            settings.keys.set(keys);
        }
    }

    /// The public keys.
    pub(crate) fn document(&self) -> Value {
        document(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// A signed token with these claims, which expires at `until`. Its key stays published until then.
    pub(crate) async fn sign(
        &self,
        claims: &Object,
        until: u64,
        objects: &ObjectStore,
        settings: &CatalogSettings,
    ) -> Result<String, Refusal> {
        let signer = self.0.read().unwrap_or_else(PoisonError::into_inner).first().cloned();
        let signer = signer.ok_or_else(|| Refusal::internal("there is no key"))?;
        let now = kit::clock::wall().as_secs();
        if until > now.saturating_add(overlap(settings)) {
            keep_until(signer.id(), until, objects).await?;
        }
        signer.sign_as("at+jwt", claims).map_err(|error| Refusal::internal(&error.to_string()))
    }
}

/// How long a key is published after its last signature, unless one of its tokens lives longer.
fn overlap(settings: &CatalogSettings) -> u64 {
    settings.lifetime_max().max(OVERLAP_MIN).as_secs()
}

/// Keeps this key published until this time, at which one of its tokens expires.
async fn keep_until(key: &str, until: u64, objects: &ObjectStore) -> Result<(), Refusal> {
    for _ in 0..ATTEMPTS_MAX {
        let is_it = |read: &Read<SigningKey>| {
            // Harmless: an unreadable key has not signed anything here.
            Signer::from_pem(&read.object.pem).is_ok_and(|signer| signer.id() == key)
        };
        let Some(read) = newest_first(objects).into_iter().find(is_it) else {
            return Err(Refusal::internal("the signing key was removed"));
        };
        if read.object.until >= until {
            return Ok(());
        }
        let until = until.saturating_add(NOTED_AHEAD.as_secs());
        let changed = SigningKey { until, ..SigningKey::clone(&read.object) };
        match objects.change(&read, changed).await {
            Err(WriteError::Conflict) => {
                drop(objects.refresh::<SigningKey>(&read.object.id).await?)
            }
            done => return Ok(done?),
        }
    }
    Err(Refusal::later("The signing key is being changed"))
}

/// The stored keys.
fn newest_first(objects: &ObjectStore) -> Vec<Read<SigningKey>> {
    let mut keys = objects.all::<SigningKey>();
    keys.sort_by_key(|key| std::cmp::Reverse(key.object.created));
    keys
}

fn document(signers: &[Arc<Signer>]) -> Value {
    json!({ "keys": signers.iter().map(|signer| signer.jwk()).collect::<Vec<_>>() })
}

/// A new key, generated on another thread.
async fn new_key(algorithm: CatalogAlgorithm, now: u64) -> Option<SigningKey> {
    let made = kit::task::run_blocking(move || {
        // Harmless: on a failure the next turn retries, and it is logged.
        let der = match algorithm {
            CatalogAlgorithm::Rs256 => {
                RsaKeyPair::generate(KeySize::Rsa2048).ok()?.as_der().ok()?.as_ref().to_vec()
            }
            CatalogAlgorithm::Es256 => {
                let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).ok()?;
                pair.to_pkcs8v1().ok()?.as_ref().to_vec()
            }
        };
        let text = STANDARD.encode(der);
        let lines: Vec<&str> = (0..text.len())
            .step_by(64)
            // Harmless: the text is ASCII.
            .filter_map(|at| text.get(at..text.len().min(at + 64)))
            .collect();
        Some(format!(
            "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n",
            lines.join("\n")
        ))
    });
    // Harmless: a failure is reported below.
    let pem = made.await.flatten();
    if pem.is_none() {
        tracing::error!("catalog: a key cannot be created");
    }
    Some(SigningKey { id: ids::uuid(), pem: pem?, created: now, until: 0 })
}

//! Consumers of Kong with their credentials as the keys, users and issuers of policies.

use std::collections::{HashMap, HashSet};

use aws_lc_rs::digest;
use serde_json::{Map, Value as Json, json};

use super::converter::Converter;
use super::entities::{Credential, CredentialKind, Entity, unique};
use super::fields::{self, Field, Verdict};
use super::output::pem;
use super::tree::{FilePosition, Item};

/// The clients that policies accept.
#[derive(Debug, Default)]
pub(super) struct Clients {
    /// The keys of `api_key`.
    pub(super) keys: Map<String, Json>,
    /// The users of `basic`.
    pub(super) users: Map<String, Json>,
    /// The signers of `hmac`.
    pub(super) signers: Map<String, Json>,
    /// The credentials of `jwt`, each with its entry in `issuers`.
    pub(super) tokens: Vec<Token>,
    /// Whether at least one consumer has a `custom_id`, and whether all of them have one.
    pub(super) custom_ids: (bool, bool),
    /// Whether a consumer has no `username`.
    pub(super) lacks_username: bool,
}

/// A credential of `jwt`.
#[derive(Debug)]
pub(super) struct Token {
    pub(super) name: String,
    pub(super) subject: String,
    /// The value of `iss`.
    pub(super) key: String,
    pub(super) algorithm: String,
    /// The secret, if the algorithm has one, or else the public key.
    pub(super) secret: Option<String>,
    pub(super) public_key: Option<String>,
    pub(super) holder: Map<String, Json>,
    /// The credential's row.
    pub(super) what: String,
    pub(super) at: FilePosition,
}

impl CredentialKind {
    fn row(self) -> (&'static str, &'static [Field]) {
        match self {
            CredentialKind::Key => ("key-auth credential", fields::KEY_AUTH),
            CredentialKind::Basic => ("basic-auth credential", fields::BASIC_AUTH),
            CredentialKind::Jwt => ("jwt credential", fields::JWT_SECRET),
            CredentialKind::Hmac => ("hmac-auth credential", fields::HMAC_AUTH),
            CredentialKind::Acl => ("acl group", fields::ACL),
            CredentialKind::Other(what) => (what, &[]),
        }
    }
}

impl<'a> Converter<'a> {
    /// Reads all consumers. `blocked` are those that a refused plugin guards: their credentials are left out.
    pub(super) fn people(&mut self, blocked: &HashSet<usize>) -> Clients {
        let all = self.all;
        self.look_for_doubles();
        for group in &all.groups {
            let verdict = self.checked(&group.item, fields::CONSUMER_GROUP);
            self.row(&format!("consumer group {}", group.name), &group.item, verdict);
        }
        for (at, consumer) in all.consumers.iter().enumerate() {
            let mut verdict = self.checked(&consumer.item, fields::CONSUMER);
            if consumer.name.is_empty() {
                self.mistakes
                    .add(consumer.item.at, "a consumer without `username` and `custom_id`");
            }
            if blocked.contains(&at) {
                verdict
                    .refuse("a plugin that guards it is refused, so its credentials are left out");
            }
            self.row(&format!("consumer {}", consumer.name), &consumer.item, verdict);
        }
        let ids = all.consumers.iter().map(|consumer| consumer.item.text("custom_id").is_some());
        let ids: Vec<bool> = ids.collect();
        let mut people = Clients {
            custom_ids: (ids.contains(&true), !ids.contains(&false)),
            lacks_username: all.consumers.iter().any(|one| one.item.text("username").is_none()),
            ..Clients::default()
        };
        let groups = self.groups();
        for credential in &all.credentials {
            let groups = groups.get(&credential.consumer).map_or(&[][..], Vec::as_slice);
            self.credential(credential, groups, blocked, &mut people);
        }
        people
    }

    /// The groups of each consumer.
    fn groups(&self) -> HashMap<usize, Vec<&'a str>> {
        let mut groups: HashMap<usize, Vec<&'a str>> = HashMap::new();
        let all = self.all;
        for acl in all.credentials.iter().filter(|other| other.kind == CredentialKind::Acl) {
            // A group without its name is a mistake, or its row is refused.
            if let Some(group) = acl.item.text("group") {
                groups.entry(acl.consumer).or_default().push(group);
            }
        }
        groups
    }

    fn look_for_doubles(&mut self) {
        let all = self.all;
        for field in ["id", "username", "custom_id"] {
            let consumers = all.consumers.iter().map(|consumer| &consumer.item);
            unique(consumers, field, "consumer", self.mistakes);
        }
        for field in ["id", "name"] {
            let groups = all.groups.iter().map(|group| &group.item);
            unique(groups, field, "consumer group", self.mistakes);
        }
        for (kind, field) in [
            (CredentialKind::Key, "key"),
            (CredentialKind::Basic, "username"),
            (CredentialKind::Jwt, "key"),
            (CredentialKind::Hmac, "username"),
        ] {
            let of_kind = all.credentials.iter().filter(|credential| credential.kind == kind);
            unique(of_kind.map(|credential| &credential.item), field, kind.row().0, self.mistakes);
        }
    }

    fn credential(
        &mut self,
        credential: &Credential,
        groups: &[&str],
        blocked: &HashSet<usize>,
        people: &mut Clients,
    ) {
        let (kind, table) = credential.kind.row();
        let all = self.all;
        let Some(consumer) = all.consumers.get(credential.consumer) else { return };
        let mut verdict = match credential.kind {
            CredentialKind::Other(_) => Verdict::default(),
            CredentialKind::Key
            | CredentialKind::Basic
            | CredentialKind::Jwt
            | CredentialKind::Hmac
            | CredentialKind::Acl => self.checked(&credential.item, table),
        };
        let what = format!("{kind} of {}", consumer.name);
        if blocked.contains(&credential.consumer) && credential.kind != CredentialKind::Acl {
            verdict.refuse("its consumer is refused");
        }
        if !verdict.is_refused() {
            self.take(credential, groups, &mut verdict, people);
        }
        self.row(&what, &credential.item, verdict);
    }

    fn take(
        &mut self,
        credential: &Credential,
        groups: &[&str],
        verdict: &mut Verdict,
        people: &mut Clients,
    ) {
        let item = &credential.item;
        let all = self.all;
        let consumer = all.consumers.get(credential.consumer);
        let subject = consumer.map_or("", |consumer| &consumer.name);
        let holder = holder(consumer, credential, groups);
        match credential.kind {
            CredentialKind::Key => match item.text("key") {
                Some(key) => {
                    let name = free(&people.keys, subject);
                    let entry = entry(&name, subject, "key", key, &holder);
                    people.keys.insert(name, entry);
                }
                None => verdict.refuse("Kong makes up the key, and the file does not say it"),
            },
            CredentialKind::Basic => match (item.text("username"), item.text("password")) {
                (Some(user), Some(password)) => {
                    let id = consumer.and_then(|consumer| consumer.item.text("id"));
                    let (key, secret) = match (credential.is_hashed, id) {
                        (false, _) => ("password", password.to_owned()),
                        (true, Some(id)) => ("sha1", format!("{id}:{password}")),
                        (true, None) => {
                            verdict.refuse("the password is hashed with the id of the consumer, which is not in the file");
                            return;
                        }
                    };
                    let entry = entry(user, subject, key, &secret, &holder);
                    people.users.insert(user.to_owned(), entry);
                }
                _ => self.mistakes.add(item.at, "a credential without `username` or `password`"),
            },
            CredentialKind::Hmac => match (item.text("username"), item.text("secret")) {
                (Some(user), Some(secret)) => {
                    let entry = entry(user, subject, "key", secret, &holder);
                    people.signers.insert(user.to_owned(), entry);
                }
                (Some(_), None) => {
                    verdict.refuse("Kong makes up the secret, and the file does not say it");
                }
                (None, _) => self.mistakes.add(item.at, "a credential without `username`"),
            },
            CredentialKind::Jwt => self.token(item, subject, holder, verdict, people),
            CredentialKind::Acl => {
                if item.text("group").is_none() {
                    self.mistakes.add(item.at, "an acl without `group`");
                }
            }
            CredentialKind::Other(_) => verdict.refuse("Tidegate has no credentials of this kind"),
        }
    }

    fn token(
        &mut self,
        item: &Item,
        subject: &str,
        holder: Map<String, Json>,
        verdict: &mut Verdict,
        people: &mut Clients,
    ) {
        let Some(key) = item.text("key") else {
            verdict.refuse("Kong makes up the key, and the file does not say it");
            return;
        };
        let algorithm = item.text("algorithm").unwrap_or("HS256");
        let has_secret = algorithm.starts_with("HS");
        let (secret, public_key) = if has_secret {
            (item.text("secret").map(str::to_owned), None)
        } else {
            (None, item.text("rsa_public_key").map(str::to_owned))
        };
        match (&secret, &public_key) {
            (None, None) if has_secret => {
                verdict.refuse("Kong makes up the secret, and the file does not say it");
                return;
            }
            (None, None) => {
                self.mistakes.add(item.at, format!("`{algorithm}` needs `rsa_public_key`"));
                return;
            }
            (Some(_), _) | (None, Some(_)) => {}
        }
        if secret.as_ref().is_some_and(String::is_empty) {
            verdict.refuse("a secret must not be empty");
            return;
        }
        let name = self.out.fresh("issuer", &format!("jwt-{subject}"));
        let [key, algorithm, subject] = [key, algorithm, subject].map(str::to_owned);
        let (what, at) = (format!("jwt credential of {subject}"), item.at);
        let token = Token { name, subject, key, algorithm, secret, public_key, holder, what, at };
        people.tokens.push(token);
    }
}

/// The data of a consumer other than its name, and the name of its credential, which Kong sends to services.
fn holder(
    consumer: Option<&Entity>,
    credential: &Credential,
    groups: &[&str],
) -> Map<String, Json> {
    let mut known = Map::new();
    if !groups.is_empty() {
        known.insert("groups".to_owned(), json!(groups));
    }
    let mut attributes = Map::new();
    if let Some(consumer) = consumer {
        let custom_id = consumer.item.text("custom_id").map(|id| ("custom_id", id.to_owned()));
        let id = ("id", consumer_id(consumer));
        let all = custom_id.into_iter().chain([id]);
        attributes.extend(all.map(|(name, value)| (name.to_owned(), json!(value))));
    }
    if let Some(identifier) = identifier(credential) {
        attributes.insert("credential".to_owned(), json!(identifier));
    }
    known.insert("attributes".to_owned(), Json::Object(attributes));
    known
}

/// The value of `X-Credential-Identifier`: the id of a key, and the name that any other credential has.
fn identifier(credential: &Credential) -> Option<String> {
    let text = |name: &str| credential.item.text(name).map(str::to_owned);
    match credential.kind {
        CredentialKind::Key => Some(id_of(&credential.item, "keyauth_credentials", &text("key")?)),
        CredentialKind::Basic | CredentialKind::Hmac => text("username"),
        CredentialKind::Jwt => text("key"),
        CredentialKind::Acl | CredentialKind::Other(_) => None,
    }
}

/// The id of a consumer.
pub(super) fn consumer_id(consumer: &Entity) -> String {
    id_of(&consumer.item, "consumers", &consumer.name)
}

/// The id of an entity. If the file has none, it is made as Kong makes those of declarative files: a UUID of version 5 (RFC 9562, 5.5) from
/// the kind and the name.
fn id_of(item: &Item, kind: &str, name: &str) -> String {
    const ENTITIES: [u8; 16] = 0xfd02_801f_0957_4a15_a55a_c8d9_606f_30b5_u128.to_be_bytes();
    let made = || {
        let mut id = String::with_capacity(36);
        for (at, byte) in uuid_5(uuid_5(ENTITIES, kind), name).iter().enumerate() {
            id.push_str(if matches!(at, 4 | 6 | 8 | 10) { "-" } else { "" });
            kit::hex::push(&mut id, &[*byte]);
        }
        id
    };
    item.text("id").map_or_else(made, str::to_owned)
}

fn uuid_5(namespace: [u8; 16], name: &str) -> [u8; 16] {
    let text = [&namespace, name.as_bytes()].concat();
    let hash = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, &text);
    let mut id = [0; 16];
    // Harmless: the hash has 20 bytes, of which the first 16 are the id.
    id.iter_mut().zip(hash.as_ref()).for_each(|(byte, hashed)| *byte = *hashed);
    id[6] = id[6] & 0x0f | 0x50;
    id[8] = id[8] & 0x3f | 0x80;
    id
}

/// The wanted name, with a number appended if it is in use.
fn free(entries: &Map<String, Json>, wanted: &str) -> String {
    let numbered = (2..).map(|number| format!("{wanted}-{number}"));
    let mut names = std::iter::once(wanted.to_owned()).chain(numbered);
    // Harmless: there are more numbers than entries.
    names.find(|name| !entries.contains_key(name)).unwrap_or_default()
}

/// An entry of a map of secrets.
fn entry(name: &str, subject: &str, key: &str, secret: &str, holder: &Map<String, Json>) -> Json {
    let mut entry = Map::new();
    entry.insert(key.to_owned(), json!(secret));
    if name != subject {
        entry.insert("subject".to_owned(), json!(subject));
    }
    entry.extend(holder.clone());
    if entry.len() == 1 && key != "sha1" { json!(secret) } else { Json::Object(entry) }
}

impl Token {
    /// True if the secret is or may be shorter than RFC 7518, 3.2 requires. Kong accepts short secrets. The value of a variable is not
    /// known, so it may be short.
    fn is_short(&self, secret: &str, base64: bool) -> bool {
        let least = match self.algorithm.as_str() {
            "HS384" => 48,
            "HS512" => 64,
            _ => 32,
        };
        let bytes = if base64 { secret.trim_end_matches('=').len() * 3 / 4 } else { secret.len() };
        bytes < least || secret.contains('\u{0}')
    }

    /// The entry of `issuers`, with the file of its public key.
    pub(super) fn issuer(
        &self,
        converter: &mut Converter<'_>,
        verified: &[&str],
        claim: &str,
        base64: bool,
    ) -> Json {
        let mut issuer = Map::new();
        issuer.insert("issuer".to_owned(), json!(self.key));
        if claim != "iss" {
            issuer.insert("issuer_claim".to_owned(), json!(claim));
        }
        if let Some(secret) = &self.secret {
            let prefix = if base64 { "base64:" } else { "" };
            issuer.insert("secret".to_owned(), json!(format!("{prefix}{secret}")));
            if self.is_short(secret, base64) {
                issuer.insert("secret_short".to_owned(), json!(true));
            }
        }
        if let Some(key) = &self.public_key {
            let file = converter.out.file(&self.name, "pem", pem(key));
            issuer.insert("keys".to_owned(), json!([file]));
        }
        issuer.insert("algorithms".to_owned(), json!([self.algorithm]));
        issuer.insert("types".to_owned(), json!([]));
        issuer.insert("leeway".to_owned(), json!("0s"));
        issuer.insert("expiry_required".to_owned(), json!(verified.contains(&"exp")));
        if verified.contains(&"nbf") {
            issuer.insert("beginning_required".to_owned(), json!(true));
        }
        let ignored: Vec<&str> =
            ["exp", "nbf"].into_iter().filter(|claim| !verified.contains(claim)).collect();
        if !ignored.is_empty() {
            issuer.insert("times_ignored".to_owned(), json!(ignored));
        }
        issuer.insert("subject".to_owned(), json!(self.subject));
        issuer.extend(self.holder.clone());
        Json::Object(issuer)
    }
}

//! The token endpoint: tokens for applications, for users with a password, and by refresh tokens. Also revocation, discovery, and the
//! registration of clients.

use std::net::IpAddr;

use axum::http::{StatusCode, header};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jose::{Object, Token};
use plan::WrittenKey;
use policies::credentials::HashedSecret;
use serde_json::{Value, json};

use crate::Catalog;
use crate::http::{Answer, CatalogRequest, Refusal, done, ok, value_of};
use crate::object_store::{Batch, CHANGES_MAX, Read, WriteError};
use crate::objects::{Application, ApplicationKey, Client, Family, KeyKind, Revoked};
use crate::{digest, ids, secrets};

/// The client that requests a token.
pub(crate) enum Asker {
    /// A client of the catalog's REST interface.
    Portal(Read<Client>),
    /// An application, by one of its keys.
    Application(Read<Application>, ApplicationKey),
    /// A configured application, by its consumer key.
    Written(String, WrittenKey),
}

/// The content of a token.
pub(crate) struct Grant {
    pub(crate) client: String,
    pub(crate) subject: String,
    /// True if the token is for a user with a password. Otherwise it is for the client itself, even if `subject` is the client's owner.
    pub(crate) of_user: bool,
    pub(crate) scope: String,
    pub(crate) kind: Option<KeyKind>,
    /// The lifetime in seconds.
    pub(crate) lifetime: u64,
}

/// An issued token.
pub(crate) struct Issued {
    pub(crate) text: String,
    pub(crate) id: String,
    pub(crate) until: u64,
}

impl Asker {
    fn client_id(&self) -> &str {
        match self {
            Asker::Portal(client) => &client.object.id,
            Asker::Application(_, key) => &key.consumer_key,
            Asker::Written(key, _) => key,
        }
    }

    fn may_use(&self, grant: &str) -> bool {
        let named = |grants: &[String]| grants.iter().any(|known| known == grant);
        match self {
            Asker::Portal(client) => named(&client.object.grants),
            Asker::Application(_, key) => named(&key.grants),
            Asker::Written(..) => true,
        }
    }
}

/// The refusal of invalid client credentials.
fn invalid_client() -> Refusal {
    Refusal::oauth(StatusCode::UNAUTHORIZED, "invalid_client", "Client authentication failed")
        .with(header::WWW_AUTHENTICATE, "Basic realm=\"tidegate\"")
}

fn invalid_request(why: String) -> Refusal {
    Refusal::oauth(StatusCode::BAD_REQUEST, "invalid_request", &why)
}

fn invalid_grant(why: &str) -> Refusal {
    Refusal::oauth(StatusCode::BAD_REQUEST, "invalid_grant", why)
}

fn slow_down(wait: std::time::Duration) -> Refusal {
    let seconds = wait.as_secs().max(1).to_string();
    Refusal::oauth(StatusCode::TOO_MANY_REQUESTS, "slow_down", "Too many wrong secrets")
        .with(header::RETRY_AFTER, seconds)
}

/// The known parameters of forms. Others are ignored.
const PARAMETERS: [&str; 8] = [
    "grant_type",
    "client_id",
    "client_secret",
    "username",
    "password",
    "refresh_token",
    "scope",
    "token",
];

/// The parameters of a form. Repeated ones are refused (RFC 6749, 3.2), since an intermediary might have used the other value.
fn form_once(asked: &CatalogRequest) -> Result<Vec<(String, String)>, Refusal> {
    let form = asked.form();
    let is_twice = |name: &&&str| form.iter().filter(|(known, _)| known == **name).count() > 1;
    match PARAMETERS.iter().find(is_twice) {
        Some(name) => Err(invalid_request(format!("{name} is given more than once"))),
        None => Ok(form),
    }
}

/// The client and its secret, from `Basic` or the form. If both are present, they must be equal (RFC 6749, 2.3).
fn credential<'f>(
    asked: &CatalogRequest,
    field: impl Fn(&str) -> Option<&'f str>,
) -> Result<(String, String), Refusal> {
    let (client, secret) = (field("client_id"), field("client_secret"));
    if let Some((name, own)) = basic(asked) {
        let is_other = client.is_some_and(|client| client != name);
        if is_other || secret.is_some_and(|secret| !secrets::is_same(secret, &own)) {
            let why = "The client is named twice, in different ways";
            return Err(invalid_request(why.to_owned()));
        }
        return Ok((name, own));
    }
    let (Some(client), Some(secret)) = (client, secret) else { return Err(invalid_client()) };
    Ok((client.to_owned(), secret.to_owned()))
}

/// A name and a secret from `Basic`.
pub(crate) fn basic(asked: &CatalogRequest) -> Option<(String, String)> {
    let value = asked.header("authorization")?;
    let (scheme, text) = value.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    // Harmless: a value that is not base64 of a text is not a credential.
    let decoded = String::from_utf8(STANDARD.decode(text.trim()).ok()?).ok()?;
    let (name, secret) = decoded.split_once(':')?;
    Some((name.to_owned(), secret.to_owned()))
}

impl Catalog {
    /// `POST /oauth2/token`
    pub(crate) async fn token(&self, asked: &CatalogRequest) -> Answer {
        let form = form_once(asked)?;
        let field = |name: &str| value_of(&form, name);
        let asker = self.authenticated(asked, field).await?;
        let grant = field("grant_type")
            .ok_or_else(|| invalid_request("grant_type is missing".to_owned()))?;
        if !["client_credentials", "password", "refresh_token"].contains(&grant) {
            let why = "The grant type is not supported";
            return Err(Refusal::oauth(StatusCode::BAD_REQUEST, "unsupported_grant_type", why));
        }
        if !asker.may_use(grant) {
            let why = "The client may not use this grant type";
            return Err(Refusal::oauth(StatusCode::BAD_REQUEST, "unauthorized_client", why));
        }
        // Harmless: the scope is optional.
        let scope = field("scope").unwrap_or_default();
        match grant {
            "client_credentials" => {
                let issued = self.grant(&asker, None, scope)?;
                let token = self.issue(&issued).await?;
                ok(&reply(&token, &issued, None))
            }
            "password" => {
                let (name, password) =
                    // Harmless: no user has an empty name.
                    (field("username").unwrap_or_default(), field("password").unwrap_or_default());
                if !self.is_password(name, password, asked.client).await? {
                    return Err(invalid_grant("The user name or the password is wrong"));
                }
                let issued = self.grant(&asker, Some(name), scope)?;
                self.with_refresh(&asker, &issued).await
            }
            // Harmless: an empty token is refused.
            _ => self.refresh(&asker, field("refresh_token").unwrap_or_default(), scope).await,
        }
    }

    /// Authenticates the client of a request.
    async fn authenticated<'f>(
        &self,
        asked: &CatalogRequest,
        field: impl Fn(&str) -> Option<&'f str>,
    ) -> Result<Asker, Refusal> {
        let (client, secret) = credential(asked, field)?;
        if let Some(wait) = self.guesses.wait(&client, asked.client) {
            return Err(slow_down(wait));
        }
        let Some(asker) = self.asker(&client) else {
            self.guesses.note(&client, asked.client);
            return Err(invalid_client());
        };
        let is_right = match &asker {
            Asker::Portal(client) => self.is_right(&client.object.secret_hash, &secret).await?,
            Asker::Application(_, key) => self.is_right(&key.secret_hash, &secret).await?,
            Asker::Written(_, key) => is_of(&key.secret, &secret).await,
        };
        if is_right {
            return Ok(asker);
        }
        self.guesses.note(&client, asked.client);
        Err(invalid_client())
    }

    async fn is_right(&self, hash: &str, secret: &str) -> Result<bool, Refusal> {
        let busy = |_| Refusal::later("Too many secrets are being checked");
        self.secrets.is_right(hash, secret).await.map_err(busy)
    }

    fn asker(&self, client: &str) -> Option<Asker> {
        if let Some(portal) = self.objects.get::<Client>(client) {
            return Some(Asker::Portal(portal));
        }
        let Some(application) = self.live.owner(client) else {
            // Harmless: the caller refuses an unknown client.
            let written = self.settings().ok()?.written.get(client).cloned()?;
            return Some(Asker::Written(client.to_owned(), written));
        };
        let read = self.objects.get::<Application>(&application)?;
        let key = read.object.keys.iter().find(|key| key.consumer_key == client)?.clone();
        Some(Asker::Application(read, key))
    }

    /// True if a user of the catalog has this password.
    pub(crate) async fn is_password(
        &self,
        name: &str,
        password: &str,
        address: IpAddr,
    ) -> Result<bool, Refusal> {
        let guessed = format!("user {name}");
        if let Some(wait) = self.guesses.wait(&guessed, address) {
            return Err(slow_down(wait));
        }
        let settings = self.settings()?;
        let is_right = match settings.user(name) {
            Some(user) => is_of(&user.password, password).await,
            None => false,
        };
        if !is_right {
            self.guesses.note(&guessed, address);
        }
        Ok(is_right)
    }

    /// The content of a client's token, without scopes that the client must not have.
    fn grant(&self, asker: &Asker, user: Option<&str>, scope: &str) -> Result<Grant, Refusal> {
        let settings = self.settings()?;
        let lifetime = settings.lifetime.as_secs().max(1);
        let wanted = scope.split(' ').filter(|scope| !scope.is_empty());
        match asker {
            Asker::Portal(client) => {
                let subject = user.unwrap_or(&client.object.owner);
                let roles = settings.roles(subject);
                let granted = wanted.filter(|scope| crate::rights::may_have(roles, scope));
                let scope = granted.collect::<Vec<_>>().join(" ");
                Ok(Grant {
                    client: client.object.id.clone(),
                    subject: subject.to_owned(),
                    of_user: user.is_some(),
                    scope: if scope.is_empty() { "default".to_owned() } else { scope },
                    kind: None,
                    lifetime,
                })
            }
            // The catalog knows no scopes of APIs that are in the configuration, so it grants none.
            Asker::Written(key, written) => Ok(Grant {
                client: key.clone(),
                subject: user.unwrap_or(key).to_owned(),
                of_user: user.is_some(),
                scope: "default".to_owned(),
                kind: Some(if written.sandbox { KeyKind::Sandbox } else { KeyKind::Production }),
                lifetime,
            }),
            Asker::Application(application, key) => {
                let defined = self.scopes_of(&application.object.id);
                let may = |scope: &&str| {
                    defined.iter().any(|known| known == scope)
                        && (key.scopes.is_empty() || key.scopes.iter().any(|known| known == scope))
                };
                let scope = wanted.filter(may).collect::<Vec<_>>().join(" ");
                Ok(Grant {
                    client: key.consumer_key.clone(),
                    subject: user.map_or_else(|| key.consumer_key.clone(), str::to_owned),
                    of_user: user.is_some(),
                    scope: if scope.is_empty() { "default".to_owned() } else { scope },
                    kind: Some(key.kind),
                    lifetime: key.lifetime.unwrap_or(lifetime),
                })
            }
        }
    }

    /// Signs a token.
    pub(crate) async fn issue(&self, grant: &Grant) -> Result<Issued, Refusal> {
        let settings = self.settings()?;
        let now = kit::clock::wall().as_secs();
        let (id, until) = (ids::uuid(), now.saturating_add(grant.lifetime));
        let mut claims = Object::default();
        let mut say = |name: &str, value: Value| drop(claims.insert(name.to_owned(), value));
        say("iss", json!(settings.issuer));
        say("sub", json!(grant.subject));
        say("aut", json!(if grant.of_user { "APPLICATION_USER" } else { "APPLICATION" }));
        for name in ["aud", "azp", "client_id"] {
            say(name, json!(grant.client));
        }
        say("scope", json!(grant.scope));
        if let Some(kind) = grant.kind {
            say("keytype", json!(kind.as_str()));
        }
        say("iat", json!(now));
        say("nbf", json!(now));
        say("exp", json!(until));
        say("jti", json!(id));
        let text = self.keyring.sign(&claims, until, &self.objects, &settings).await?;
        Ok(Issued { text, id, until })
    }

    /// A token with a refresh token, which starts a family.
    async fn with_refresh(&self, asker: &Asker, grant: &Grant) -> Answer {
        let token = self.issue(grant).await?;
        if !asker.may_use("refresh_token") {
            return ok(&reply(&token, grant, None));
        }
        let secret = secrets::secret()?;
        let now = kit::clock::wall().as_secs();
        let family = Family {
            id: ids::uuid(),
            client: grant.client.clone(),
            subject: grant.subject.clone(),
            scope: grant.scope.clone(),
            current: digest::sha256(&secret),
            until: now.saturating_add(self.settings()?.refresh_lifetime.as_secs()),
            tokens: vec![(token.id.clone(), token.until)],
            revoked: false,
        };
        let text = format!("{}.{secret}", family.id);
        self.objects.add(family).await?;
        ok(&reply(&token, grant, Some(&text)))
    }

    /// The next token of a family. If a refresh token is used again, the family is revoked.
    async fn refresh(&self, asker: &Asker, text: &str, scope: &str) -> Answer {
        let wrong = || invalid_grant("The refresh token is not valid");
        let (id, secret) = text.split_once('.').ok_or_else(wrong)?;
        let family = self.objects.get::<Family>(id).ok_or_else(wrong)?;
        let now = kit::clock::wall().as_secs();
        if family.object.client != asker.client_id()
            || family.object.revoked
            || family.object.until <= now
        {
            return Err(wrong());
        }
        if !secrets::is_same(&family.object.current, &digest::sha256(secret)) {
            tracing::warn!(
                client = family.object.client,
                "catalog: a refresh token was used again, and its family is revoked"
            );
            self.revoke_family(&family).await?;
            return Err(wrong());
        }
        // A refreshed token gets only scopes of the first token.
        let had: Vec<&str> = family.object.scope.split(' ').collect();
        let wanted: Vec<&str> = scope.split(' ').filter(|scope| had.contains(scope)).collect();
        let scope = if scope.is_empty() { family.object.scope.clone() } else { wanted.join(" ") };
        let user = Some(family.object.subject.as_str());
        let grant = self.grant(asker, user, &scope)?;
        let token = self.issue(&grant).await?;
        let secret = secrets::secret()?;
        let mut next = Family::clone(&family.object);
        next.current = digest::sha256(&secret);
        next.until = now.saturating_add(self.settings()?.refresh_lifetime.as_secs());
        next.tokens.retain(|(_, until)| *until > now);
        next.tokens.push((token.id.clone(), token.until));
        // Another request may have used the token meanwhile.
        self.objects.change(&family, next).await.map_err(|error| match error {
            WriteError::Conflict => wrong(),
            error => error.into(),
        })?;
        ok(&reply(&token, &grant, Some(&format!("{id}.{secret}"))))
    }

    async fn revoke_family(&self, family: &Read<Family>) -> Result<(), Refusal> {
        let revoked = Family { revoked: true, ..Family::clone(&family.object) };
        for tokens in revoked.tokens.chunks(CHANGES_MAX) {
            let mut batch = Batch::default();
            for (id, until) in tokens {
                self.add_revoked(&mut batch, id, *until);
            }
            self.objects.commit(batch).await?;
        }
        self.objects.change(family, revoked).await?;
        self.publish_revoked();
        Ok(())
    }

    fn add_revoked(&self, batch: &mut Batch, id: &str, until: u64) {
        if self.objects.get::<Revoked>(id).is_none() {
            batch.add(Revoked { id: id.to_owned(), until });
        }
    }

    /// `POST /oauth2/revoke`
    pub(crate) async fn revoke(&self, asked: &CatalogRequest) -> Answer {
        let form = form_once(asked)?;
        let field = |name: &str| value_of(&form, name);
        let asker = self.authenticated(asked, field).await?;
        // Harmless: an empty token is not valid.
        let text = field("token").unwrap_or_default();
        if let Some(family) =
            text.split_once('.').and_then(|(id, _)| self.objects.get::<Family>(id))
        {
            if family.object.client == asker.client_id() && !family.object.revoked {
                self.revoke_family(&family).await?;
            }
            return done();
        }
        // RFC 7009, 2.2: an invalid token, or one of another client, needs no revocation.
        if let Some((id, until, client)) = self.read_token(text)
            && client == asker.client_id()
        {
            self.revoke_token(&id, until).await?;
        }
        done()
    }

    /// Revokes a token now, on all gateways.
    pub(crate) async fn revoke_token(&self, id: &str, until: u64) -> Result<(), Refusal> {
        let mut batch = Batch::default();
        self.add_revoked(&mut batch, id, until);
        self.objects.commit(batch).await?;
        self.publish_revoked();
        Ok(())
    }

    /// The id, end and client of a token that this gateway has issued.
    pub(crate) fn read_token(&self, text: &str) -> Option<(String, u64, String)> {
        // Harmless: other tokens are ignored.
        let token = Token::parse(text.as_bytes()).ok()?;
        // Harmless: without settings there are no issued tokens.
        let settings = self.settings().ok()?;
        if !settings.keys.is_ours(&token) {
            return None;
        }
        let claims = token.claims()?;
        let text = |name: &str| claims.get(name).and_then(Value::as_str).map(str::to_owned);
        let until = claims.get("exp").and_then(Value::as_u64)?;
        Some((text("jti")?, until, text("azp")?))
    }

    /// `GET /.well-known/openid-configuration`
    pub(crate) fn discovery(&self, asked: &CatalogRequest) -> Answer {
        let issuer = self.settings()?.issuer.clone();
        let host = asked.header("host").unwrap_or("localhost").to_owned();
        let scheme = if self.settings()?.tls.is_some() { "https" } else { "http" };
        let at = |path: &str| format!("{scheme}://{host}{path}");
        ok(&json!({
            "issuer": issuer,
            "token_endpoint": at("/oauth2/token"),
            "revocation_endpoint": at("/oauth2/revoke"),
            "jwks_uri": at("/oauth2/jwks"),
            "grant_types_supported": ["client_credentials", "password", "refresh_token"],
            "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post"],
            "response_types_supported": [],
        }))
    }

    /// `POST /client-registration/v0.17/register`
    pub(crate) async fn register(&self, asked: &CatalogRequest) -> Answer {
        let user = self.basic_user(asked).await?;
        let wish = asked.json()?;
        let text = |key: &str| crate::objects::text(&wish, key).to_owned();
        let name = text("clientName");
        if name.is_empty() || name.chars().count() > 200 {
            return Err(Refusal::bad("clientName must have 1 to 200 characters"));
        }
        let written = text("grantType");
        let grants = if written.is_empty() {
            "client_credentials password refresh_token"
        } else {
            written.as_str()
        };
        let secret = secrets::secret()?;
        let client = Client {
            id: ids::uuid(),
            secret_hash: secrets::hash(&secret).await?,
            name: name.clone(),
            owner: user,
            grants: grants
                .split([' ', ','])
                .filter(|grant| !grant.is_empty())
                .map(str::to_owned)
                .collect(),
        };
        let body = json!({
            "clientId": client.id,
            "clientSecret": secret,
            "clientName": name,
            "callBackURL": text("callbackUrl"),
            "isSaasApplication": wish.get("saasApp").and_then(Value::as_bool).unwrap_or(false),
            "appOwner": client.owner,
            "jsonString": json!({ "grant_types": client.grants.join(" ") }).to_string(),
            "jsonAppAttribute": "{}",
            "tokenType": null,
        });
        self.objects.add(client).await?;
        ok(&body)
    }

    /// The user of a request with `Basic`.
    pub(crate) async fn basic_user(&self, asked: &CatalogRequest) -> Result<String, Refusal> {
        let refused = || Refusal::unauthorized("The user name or the password is wrong");
        let (name, password) = basic(asked).ok_or_else(refused)?;
        if self.is_password(&name, &password, asked.client).await.map_err(Refusal::plain)? {
            Ok(name)
        } else {
            Err(refused())
        }
    }
}

/// True if a secret matches a configured hash. Slow hashes are checked on another thread.
async fn is_of(hash: &HashedSecret, secret: &str) -> bool {
    if !hash.is_slow() {
        return hash.matches(secret.as_bytes());
    }
    let (hash, secret) = (hash.clone(), secret.to_owned());
    // Harmless: a failed check counts as a wrong secret.
    kit::task::run_blocking(move || hash.matches(secret.as_bytes())).await.unwrap_or_default()
}

/// The answer of the token endpoint.
fn reply(token: &Issued, grant: &Grant, refresh: Option<&str>) -> Value {
    let mut reply = json!({
        "access_token": token.text,
        "scope": grant.scope,
        "token_type": "Bearer",
        "expires_in": grant.lifetime,
    });
    if let Some(refresh) = refresh {
        crate::objects::set(&mut reply, "refresh_token", json!(refresh));
    }
    reply
}

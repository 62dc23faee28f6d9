//! The catalog's settings, and what it shares with the plan that serves.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use policies::credentials::HashedSecret;
use policies::jwt::OwnIssuerKeys;
use policies::subscription::{NamedPlan, Subscribers};

/// The issuer of the catalog's access tokens, by its name in the configuration.
pub const CATALOG_ISSUER: &str = "catalog";

/// The issuer of the catalog's API keys, by its name in the configuration.
pub const API_KEY_ISSUER: &str = "catalog_api_keys";

/// The suffix of `iss` in API keys, after the `iss` of the catalog's access tokens.
pub const API_KEYS: &str = "/api-keys";

/// The settings of the catalog.
pub struct CatalogSettings {
    pub listen: SocketAddr,
    /// The certificate of its socket.
    pub tls: Option<tls::Server>,
    pub users: HashMap<String, CatalogUser>,
    /// `iss` of its tokens.
    pub issuer: String,
    pub lifetime: Duration,
    pub refresh_lifetime: Duration,
    pub rotate: Duration,
    pub algorithm: CatalogAlgorithm,
    /// The listener of its APIs.
    pub gateway: Option<String>,
    /// Hosts that endpoints of its APIs may have; any if absent.
    pub endpoints: Option<Vec<HostRule>>,
    /// Networks of callbacks that are called though they are private.
    pub callbacks: Vec<IpNet>,
    /// The issuers whose tokens lead to applications.
    pub issuers: Vec<String>,
    /// Keys of the configuration's applications that have a secret.
    pub written: HashMap<String, WrittenKey>,
    /// All plans, by name.
    pub plans: HashMap<String, Arc<NamedPlan>>,
    /// The map that the workers read; the same for all plans.
    pub live: Arc<Subscribers>,
    /// The keys that verify its tokens; the same for all plans.
    pub keys: Arc<OwnIssuerKeys>,
}

/// A key of an application of the configuration.
#[derive(Debug, Clone)]
pub struct WrittenKey {
    pub secret: HashedSecret,
    pub sandbox: bool,
}

/// A user of the catalog.
#[derive(Debug, Clone)]
pub struct CatalogUser {
    pub password: HashedSecret,
    pub roles: Vec<CatalogRole>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CatalogRole {
    Admin,
    Publisher,
    Developer,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CatalogAlgorithm {
    Rs256,
    Es256,
}

/// A rule of `catalog.endpoints.allow`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostRule {
    Network(IpNet),
    /// In lower case.
    Host(String),
    /// All below a domain, which begins with a dot.
    Below(String),
}

impl CatalogSettings {
    /// A user by name.
    pub fn user(&self, name: &str) -> Option<&CatalogUser> {
        self.users.get(name)
    }

    /// The roles of a user; none if there is no such user any more.
    pub fn roles(&self, user: &str) -> &[CatalogRole] {
        self.user(user).map_or(&[][..], |user| user.roles.as_slice())
    }

    /// The longest time for which a token is valid.
    pub fn lifetime_max(&self) -> Duration {
        self.lifetime.max(self.refresh_lifetime)
    }
}

impl HostRule {
    /// True if the rule fits a host; `address` is the host's, if it is one.
    pub fn allows(&self, host: &str, address: Option<IpAddr>) -> bool {
        match (self, address) {
            (HostRule::Network(network), Some(address)) => network.contains(&address),
            (HostRule::Host(name), _) => host.eq_ignore_ascii_case(name),
            (HostRule::Below(domain), None) => host.to_ascii_lowercase().ends_with(domain),
            (HostRule::Network(_), None) | (HostRule::Below(_), Some(_)) => false,
        }
    }
}

impl fmt::Debug for CatalogSettings {
    /// Without users and keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CatalogSettings").field("listen", &self.listen).finish_non_exhaustive()
    }
}

//! The catalog's settings, and the state that it shares with the plan in service.

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
    /// TLS of its socket, or `None` for plain HTTP.
    pub tls: Option<tls::Server>,
    pub users: HashMap<String, CatalogUser>,
    /// The `iss` claim of its tokens.
    pub issuer: String,
    pub lifetime: Duration,
    pub refresh_lifetime: Duration,
    pub rotate: Duration,
    pub algorithm: CatalogAlgorithm,
    /// The listener of its APIs.
    pub gateway: Option<String>,
    /// Hosts that endpoints of its APIs may have, or `None` for any host.
    pub endpoints: Option<Vec<HostRule>>,
    /// Networks whose addresses may be called as callbacks although they are private.
    pub callbacks: Vec<IpNet>,
    /// The issuers whose tokens identify applications.
    pub issuers: Vec<String>,
    /// Consumer keys with a secret, of applications in the configuration.
    pub written: HashMap<String, WrittenKey>,
    /// All plans, by name.
    pub plans: HashMap<String, Arc<NamedPlan>>,
    /// The map that the workers read. All plans share it.
    pub live: Arc<Subscribers>,
    /// The keys that verify its tokens. All plans share them.
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
    /// All hosts below a domain. The text begins with a dot.
    Below(String),
}

impl CatalogSettings {
    /// Returns a user by name.
    pub fn user(&self, name: &str) -> Option<&CatalogUser> {
        self.users.get(name)
    }

    /// Returns the roles of a user. The list is empty if the user no longer exists.
    pub fn roles(&self, user: &str) -> &[CatalogRole] {
        self.user(user).map_or(&[][..], |user| user.roles.as_slice())
    }

    /// Returns the longest time for which a token is valid.
    pub fn lifetime_max(&self) -> Duration {
        self.lifetime.max(self.refresh_lifetime)
    }
}

impl HostRule {
    /// Returns true if the rule matches a host. `address` is the host as an address, if it is one.
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
    /// Omits users and keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CatalogSettings").field("listen", &self.listen).finish_non_exhaustive()
    }
}

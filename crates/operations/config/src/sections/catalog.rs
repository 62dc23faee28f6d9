//! `catalog`: manages APIs, applications, subscriptions and tokens over REST.

use std::time::Duration;

use crate::decode::{keys, words};
use crate::sections::StatusTls;
use crate::values::{Address, FilePath, Map, Network, OneOrMore, Secret, Spanned, Timeout};

keys! {
    /// The catalog: APIs, applications, subscriptions and tokens, which are managed over a REST API in the format of WSO2's API Manager. It
    /// needs a `store`.
    pub struct Catalog {
        /// The socket of its REST interface and of its token endpoint.
        listen: Spanned<CatalogListen>,
        /// The users who manage it, by name.
        users: Map<Spanned<CatalogUser>> = Map::default(),
        /// The claim `iss` of its tokens, such as `https://gateway.example`.
        issuer: Spanned<String>,
        /// Its tokens.
        token: CatalogToken,
        /// The listener that serves its APIs; any if absent.
        gateway: Option<Spanned<String>>,
        /// The folder in which the deployed APIs are kept if `bundles` is absent.
        folder: Option<Spanned<FilePath>>,
        /// The services to which its APIs may forward requests.
        endpoints: CatalogEndpoints,
        /// The callbacks to which events of its APIs may be sent.
        callbacks: CatalogCallbacks,
    }
}

keys! {
    /// The socket of the catalog.
    pub struct CatalogListen {
        /// An address and a port, such as `127.0.0.1:9443`.
        address: Spanned<Address>,
        /// Its certificate, which is required on an address that other hosts can reach.
        tls: Option<Spanned<StatusTls>>,
    }
}

keys! {
    /// A user who manages the catalog.
    pub struct CatalogUser {
        /// The password, or its hash as in `basic`.
        password: Option<Secret>,
        /// The SHA-256 of the password, as hex digits.
        password_sha256: Option<Secret>,
        /// The roles of the user.
        roles: OneOrMore<CatalogRole> = OneOrMore(Vec::new()),
    }
}

words! {
    /// A role of a user of the catalog.
    pub enum CatalogRole {
        /// Everything.
        Admin = "admin",
        /// Create and publish APIs.
        Publisher = "publisher",
        /// Create applications and subscriptions.
        Developer = "developer",
    }
}

keys! {
    /// Tokens of the catalog.
    pub struct CatalogToken {
        /// How long an access token is valid.
        // The default of WSO2's API Manager.
        lifetime: Spanned<Timeout> = Spanned::unwritten(Timeout(Duration::from_secs(3600))),
        /// The algorithm that signs them.
        algorithm: CatalogAlgorithm = CatalogAlgorithm::Rs256,
        /// How long a key is used to sign. Then a new key is used, and the old one remains published until its last token has expired.
        rotate: Spanned<Timeout> = Spanned::unwritten(Timeout(Duration::from_secs(90 * 86_400))),
        /// How long a refresh token is valid. Each can be used once.
        refresh_lifetime: Spanned<Timeout> = Spanned::unwritten(Timeout(Duration::from_secs(86_400))),
    }
}

words! {
    /// An algorithm that signs tokens.
    pub enum CatalogAlgorithm {
        /// RSA with 2,048 bits.
        Rs256 = "RS256",
        /// P-256.
        Es256 = "ES256",
    }
}

keys! {
    /// The services to which APIs of the catalog may forward requests.
    pub struct CatalogEndpoints {
        /// Hosts, such as `orders.internal` or `*.internal`, and networks of addresses, such as `10.0.0.0/8`; any if absent.
        allow: Option<Vec<Spanned<String>>>,
    }
}

keys! {
    /// The callbacks to which events of the catalog's APIs may be sent.
    pub struct CatalogCallbacks {
        /// Networks that are allowed although they are private.
        allow: Vec<Network> = Vec::new(),
    }
}

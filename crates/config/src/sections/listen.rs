//! `listen.NAME`: one socket clients connect to.

use std::time::Duration;

use crate::decode::{keys, words};
use crate::values::{Address, Between, FilePath, Map, Network, Size, Spanned, Timeout, TlsVersion};

keys! {
    /// One socket clients connect to.
    pub struct Listener {
        /// An address of this machine and a port, such as `0.0.0.0:8080`; port 0 takes any free one.
        address: Spanned<Address>,
        /// Makes the socket speak TLS; plain without it.
        tls: Option<ListenerTls>,
        /// Whether clients may speak HTTP/2: by ALPN with TLS, with prior knowledge without.
        http2: bool = true,
        /// Whether each connection has to start with a PROXY protocol header, version 1 or 2. A connection without it is then closed.
        // Believing such a header from anybody would let clients choose their address.
        proxy_protocol: bool = false,
        /// The networks whose `X-Forwarded-*` headers are trusted.
        // Nobody is believed unasked.
        trusted_proxies: Vec<Network> = Vec::new(),
        /// How to read spellings of a path that servers read differently. A path that is not refused is sent on as it was matched.
        paths: ListenerPaths,
        /// Limits on what one client may send or keep open.
        limits: ListenerLimits,
        /// How long one client may take.
        timeout: ListenerTimeout,
    }
}

keys! {
    /// How to read spellings of a path that servers read differently.
    pub struct ListenerPaths {
        /// How to treat `%2F` and `%5C`: `refuse` answers 400, `decode` reads them as slashes, `keep` as part of a name. With `keep`,
        /// `/a/b%2Fc` is matched by `/a/**` and not by `/a/b/**`.
        // nginx decodes it before it matches, Envoy and HAProxy do not, and services do either: no reading is safe for all.
        escaped_slash: EscapedSlash = EscapedSlash::Refuse,
        /// How to treat empty segments, as in `/a//b`: `merge` makes one slash of several, `refuse` answers 400, `keep` leaves them.
        // As nginx and Apache do it unasked. Clients write them by joining paths, and mean the merged path.
        empty_segments: EmptySegments = EmptySegments::Merge,
        /// How to treat `;` and what follows it in a segment, as in `/a;x=1/b`: `refuse` answers 400, `strip` cuts it off, `keep` leaves it
        /// as part of the name.
        // Servlet containers cut it off before they match, most others do not; few services want it.
        parameters: PathParameters = PathParameters::Refuse,
    }
}

words! {
    /// The treatment of `%2F` and `%5C` in a path.
    pub enum EscapedSlash {
        /// 400.
        Refuse = "refuse",
        /// Part of a segment's name.
        Keep = "keep",
        /// A slash.
        Decode = "decode",
    }
}

words! {
    /// The treatment of empty segments in a path.
    pub enum EmptySegments {
        /// Several slashes are one.
        Merge = "merge",
        /// 400.
        Refuse = "refuse",
        /// They are segments like all others.
        Keep = "keep",
    }
}

words! {
    /// The treatment of `;` in a path.
    pub enum PathParameters {
        /// 400.
        Refuse = "refuse",
        /// Cut off, with what follows it in its segment.
        Strip = "strip",
        /// Part of the segment's name.
        Keep = "keep",
    }
}

keys! {
    /// TLS towards clients.
    pub struct ListenerTls {
        /// The PEM file with the certificate and its chain, for clients that name no host or an unknown one.
        certificate: FilePathAt,
        /// The PEM file with the certificate's private key.
        key: FilePathAt,
        /// More certificates, by the host the client asks for: `api.example.com` or `*.example.com`.
        sni: Map<Certificate> = Map::default(),
        /// The TLS versions to offer.
        // Older ones are broken; 1.2 is what older clients still need.
        versions: Spanned<Vec<TlsVersion>> =
            Spanned::unwritten(vec![TlsVersion::V1_2, TlsVersion::V1_3]),
        /// A PEM file with certificate authorities; clients must show a certificate from one of them.
        client_ca: Option<FilePathAt>,
        /// Requires a client certificate: `{ ca: FILE }`. With `{ ca: FILE, mode: request }` it is optional.
        client_auth: Option<ClientAuth>,
    }
}

keys! {
    /// Asks clients for a certificate.
    pub struct ClientAuth {
        /// A PEM file with the trusted certificate authorities.
        ca: FilePathAt,
        /// Whether a client without a certificate is refused (`require`) or served (`request`). A certificate that is shown has to be valid
        /// either way.
        mode: ClientAuthMode = ClientAuthMode::Require,
    }
}

words! {
    /// The demand for certificates of clients.
    pub enum ClientAuthMode {
        /// Turned away without one.
        Require = "require",
        /// Served without one, for policies to decide.
        Request = "request",
    }
}

keys! {
    /// A certificate and its key.
    pub struct Certificate {
        /// The PEM file with the certificate and its chain.
        certificate: FilePathAt,
        /// The PEM file with the certificate's private key.
        key: FilePathAt,
    }
}

/// A file that `compile` reads and may have to complain about.
type FilePathAt = Spanned<FilePath>;

keys! {
    /// Limits on what one client may send or keep open.
    pub struct ListenerLimits {
        /// The request line and headers together; 431 above.
        // What HAProxy and Envoy take at most by default (16 to 60 KiB), so no client of theirs breaks.
        head_bytes_max: Spanned<Size> = Spanned::unwritten(Size(64 * 1024)),
        /// The request target alone; 414 above.
        // Browsers and caches stop at 8 to 16 KiB.
        target_bytes_max: Spanned<Size> = Spanned::unwritten(Size(16 * 1024)),
        /// How many headers a request may have; 431 above.
        // Real requests have under 60; Apache and Envoy stop at 100.
        headers_max: Between<1, 10_000> = const { Between::new(128) },
        /// How many connections may be open at once, over all workers. Past it, the connection that is idle longest is closed for a new
        /// one; if none is idle, the new one is closed on arrival.
        // About 0.6 GiB of memory when all are idle.
        connections_max: Spanned<Between<1, 1_000_000>> = Spanned::unwritten(const { Between::new(65_536) }),
        /// How many connections one client may have, over all workers; more are closed on arrival. A client is an IPv4 address or an IPv6
        /// network of 64 bits; with `proxy_protocol`, that of the header.
        // None by default: behind a balancer that names nobody all clients have its address, and many behind one office's.
        connections_per_client: Option<Between<1, 1_000_000>>,
        /// How many requests one HTTP/2 connection may have open at once.
        // RFC 9113 advises no fewer than 100; more only serves floods.
        streams_max: Between<1, 65_535> = const { Between::new(128) },
        /// The least bytes a second of a request body; 408 below. It is enforced once the gateway has waited for the body as long as
        /// `timeout.body`, and until the reply begins. `0B` allows any rate.
        // Kestrel's 240 bytes: a modem sends ten times as much, and a byte now and then holds no upstream's place.
        body_rate_min: Size = Size(240),
    }
}

keys! {
    /// How long one client may take.
    pub struct ListenerTimeout {
        /// From a request's first byte to the end of its headers; 408 after.
        // Ten seconds suffice for a phone in a tunnel and starve a slow-header attack.
        head: Timeout = Timeout(Duration::from_secs(10)),
        /// The longest pause within a request body; 408 after.
        body: Timeout = Timeout(Duration::from_secs(30)),
        /// From a request's head to the end of its body; 408 after.
        // None by default: how large an upload may be is the route's to say, and its client's line gives the time.
        body_total: Option<Timeout>,
        /// How long a connection may wait for its next request; closed silently after.
        // nginx's 75 s: longer than the 60 s of load balancers in front, so that they close first and no
        // request meets a closing connection.
        idle: Timeout = Timeout(Duration::from_secs(75)),
        /// How long a tunnel (a WebSocket, another upgrade) may be silent in both directions; both ends are closed after. Once one end has
        /// finished, `idle` counts.
        // Twice Envoy's five minutes, ten times nginx's one: clients that keep one open on purpose ping within a minute.
        tunnel: Timeout = Timeout(Duration::from_secs(600)),
        /// How long a TLS handshake may take.
        tls: Timeout = Timeout(Duration::from_secs(10)),
    }
}

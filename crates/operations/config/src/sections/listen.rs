//! `listen.NAME`: one socket that clients connect to.

use std::time::Duration;

use crate::decode::{keys, words};
use crate::values::{Address, Between, FilePath, Map, Network, Size, Spanned, Timeout, TlsVersion};

keys! {
    /// One socket that clients connect to.
    pub struct Listener {
        /// An address of this machine and a port, such as `0.0.0.0:8080`. With port 0, a free port is chosen.
        address: Spanned<Address>,
        /// TLS for the socket; plain HTTP if absent.
        tls: Option<Spanned<ListenerTls>>,
        /// Whether clients may use HTTP/2: by ALPN with TLS, or with prior knowledge without TLS.
        http2: bool = true,
        /// Whether each connection must start with a PROXY protocol header, version 1 or 2. A connection without it is then closed.
        // Off by default: a client that can reach the socket directly could claim any address with such a header.
        proxy_protocol: bool = false,
        /// The networks whose `X-Forwarded-*` headers are trusted.
        // No peer is trusted by default.
        trusted_proxies: Vec<Network> = Vec::new(),
        /// Whether headers that only a proxy may send, such as `X-Forwarded-For` and `CF-Connecting-IP`, pass from all other peers, too.
        /// The gateway does not believe them, but upstreams may. `X-Real-IP` and `X-Forwarded-Proto`, `-Host`, `-Port`, `-Path` and
        /// `-Prefix` are removed nevertheless.
        // An upstream that believes them believes every client.
        pass_untrusted_headers: bool = false,
        /// How to treat spellings of a path that servers interpret differently. A path that is not refused is forwarded as it was matched.
        paths: ListenerPaths,
        /// Limits on what one client may send or keep open.
        limits: ListenerLimits,
        /// How long one client may take.
        timeout: ListenerTimeout,
    }
}

keys! {
    /// How to treat spellings of a path that servers interpret differently.
    pub struct ListenerPaths {
        /// How to treat `%2F` and `%5C`: `refuse` answers 400, `decode` treats them as slashes, `keep` as part of a name. With `keep`,
        /// `/a/b%2Fc` is matched by `/a/**` and not by `/a/b/**`.
        // nginx decodes them before matching, Envoy and HAProxy do not, and services differ. No interpretation is safe for all of them.
        escaped_slash: EscapedSlash = EscapedSlash::Refuse,
        /// How to treat empty segments, as in `/a//b`: `merge` merges slashes, `refuse` answers 400, `keep` keeps them.
        // Merging is the default of nginx and Apache. Clients produce empty segments when they join paths, and mean the merged path.
        empty_segments: EmptySegments = EmptySegments::Merge,
        /// How to treat `;` and what follows it in a segment, as in `/a;x=1/b`: `refuse` answers 400, `strip` removes it, `keep` keeps it
        /// as part of the name.
        // Servlet containers remove parameters before matching, most other servers do not. Few services need them.
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
        /// Several slashes are treated as one.
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
        /// Removed, with what follows it in its segment.
        Strip = "strip",
        /// Part of the segment's name.
        Keep = "keep",
    }
}

keys! {
    /// TLS to clients.
    pub struct ListenerTls {
        /// The PEM file with the certificate and its chain, for clients that send no server name or an unknown one. Required, unless
        /// `self_signed` is `true`.
        certificate: Option<FilePathAt>,
        /// The PEM file with the certificate's private key.
        key: Option<FilePathAt>,
        /// Whether the gateway makes this certificate itself, for `localhost` and the loopback addresses. It is another one after each
        /// start, and clients cannot verify it: for development. This is a warning.
        // Clients that get used to unverified certificates do not notice an attack.
        self_signed: Spanned<bool> = Spanned::unwritten(false),
        /// More certificates, by the server name that the client sends: `api.example.com` or `*.example.com`.
        sni: Map<Certificate> = Map::default(),
        /// The TLS versions to offer.
        // Versions before 1.2 are insecure. Some clients do not support 1.3.
        versions: Spanned<Vec<TlsVersion>> =
            Spanned::unwritten(vec![TlsVersion::V1_2, TlsVersion::V1_3]),
        /// A PEM file with certificate authorities. Clients must present a certificate from one of them.
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
        /// Whether a client without a certificate is refused (`require`) or served (`request`). A certificate that is presented must be
        /// valid in either case.
        mode: ClientAuthMode = ClientAuthMode::Require,
    }
}

words! {
    /// Whether clients need a certificate.
    pub enum ClientAuthMode {
        /// Clients without a certificate are refused.
        Require = "require",
        /// Clients without a certificate are served; policies may decide about them.
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

/// A file that `compile` reads, with its place for complaints.
type FilePathAt = Spanned<FilePath>;

keys! {
    /// Limits on what one client may send or keep open.
    pub struct ListenerLimits {
        /// The request line and headers together; 431 above.
        // HAProxy and Envoy accept 16 to 60 KiB by default. With a higher limit, clients that work with them also work here.
        head_bytes_max: Spanned<Size> = Spanned::unwritten(Size(64 * 1024)),
        /// The request target alone; 414 above.
        // Browsers and caches have limits of 8 to 16 KiB.
        target_bytes_max: Spanned<Size> = Spanned::unwritten(Size(16 * 1024)),
        /// How many headers a request may have; 431 above.
        // Real requests have fewer than 60; the limit of Apache and Envoy is 100.
        headers_max: Between<1, 10_000> = const { Between::new(128) },
        /// How many connections may be open at once, over all workers. Beyond that, the connection that has been idle longest is closed for
        /// a new one. If none is idle, the new one is closed on arrival.
        // 65,536 idle connections take about 0.6 GiB of memory.
        connections_max: Spanned<Between<1, 1_000_000>> = Spanned::unwritten(const { Between::new(65_536) }),
        /// How many connections one client may have, over all workers; more are closed on arrival. A client is an IPv4 address or an IPv6
        /// network of 64 bits; with `proxy_protocol`, that of the header.
        // No limit by default: behind a load balancer that does not forward addresses, all clients have its address, and an office may have
        // many clients behind one address.
        connections_per_client: Option<Between<1, 1_000_000>>,
        /// How many requests one HTTP/2 connection may have open at once.
        // RFC 9113 recommends at least 100. A much higher limit only helps clients that flood the gateway.
        streams_max: Between<1, 65_535> = const { Between::new(128) },
        /// The minimum rate of a request body, in bytes per second; 408 below. It is enforced once the gateway has waited for the body as
        /// long as `timeout.body`, and until the reply begins. `0B` allows any rate.
        // The default of Kestrel. A modem is ten times as fast, and a client that sends single bytes cannot occupy an upstream.
        body_rate_min: Size = Size(240),
    }
}

keys! {
    /// How long one client may take.
    pub struct ListenerTimeout {
        /// From a request's first byte to the end of its headers; 408 after.
        // Ten seconds are enough for a phone with a bad connection, and short enough to stop slow-header attacks.
        head: Timeout = Timeout(Duration::from_secs(10)),
        /// The longest pause within a request body; 408 after. Also the longest time in which a client takes nothing of a reply.
        body: Timeout = Timeout(Duration::from_secs(30)),
        /// From a request's head to the end of its body; 408 after.
        // No limit by default: routes limit the size of uploads, and the time depends on the client's connection.
        body_total: Option<Timeout>,
        /// How long a connection may wait for its next request; closed silently after.
        // The default of nginx. It is longer than the usual 60 s of load balancers. They therefore close a connection first, and no request
        // arrives on a connection that the gateway is closing.
        idle: Timeout = Timeout(Duration::from_secs(75)),
        /// How long a tunnel (a WebSocket, another upgrade) may be silent in both directions; both ends are closed after. Once one end has
        /// finished, `idle` counts.
        // Envoy has five minutes, nginx has one. Clients that keep a tunnel open on purpose usually send a ping every minute.
        tunnel: Timeout = Timeout(Duration::from_secs(600)),
        /// How long a TLS handshake may take, and before it the header of the PROXY protocol.
        tls: Timeout = Timeout(Duration::from_secs(10)),
    }
}

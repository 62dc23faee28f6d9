//! Logs in to MySQL: negotiates TLS and authenticates the user.

use std::collections::HashMap;

use kit::dial::Stream;
use mysql_common::auth::plugins::{AuthProc, ChallengeResponsePlugin as _, Context, Response};
use mysql_common::constants::{CapabilityFlags, UTF8MB4_GENERAL_CI};
use mysql_common::io::ParseBuf;
use mysql_common::packets::{
    AuthPlugin, AuthSwitchRequest, HandshakePacket, HandshakeResponse, SslRequest,
};
use mysql_common::proto::MySerialize;

use super::ServerError;
use super::wire::{Wire, WireError};
use crate::TlsMode;
use crate::address::MySqlAddress;

/// A connection whose server has accepted user and password.
pub(super) struct Connected {
    pub(super) wire: Wire,
    /// The connection id, which the server assigns. `KILL QUERY` uses it to cancel a statement.
    pub(super) number: u32,
}

/// The reason why a login failed.
pub(super) enum LoginError {
    Wire(WireError),
    Server(ServerError),
    /// A login is impossible, for example because the server is too old or does not offer TLS. The text gives the reason.
    Unsupported(String),
}

/// The input of the authentication methods.
struct Proof<'a> {
    password: &'a [u8],
    nonce: Vec<u8>,
    /// True if the connection uses TLS or a Unix socket, so that nobody else can read the password.
    is_secret: bool,
}

/// Maximum number of bytes that a server may send before it has accepted the user.
const BYTES_MAX: u64 = 1 << 20;

/// Maximum number of authentication packets that a server may send.
const ROUNDS_MAX: usize = 10;

/// The maximum packet size that is announced to the server. The limits that are enforced are those of each statement.
const PACKET_BYTES_MAX: u32 = 1 << 30;

/// In `caching_sha2_password`: the server has no cached hash of the password and requests the password itself.
const WANTS_PASSWORD: u8 = 4;

/// Logs in over a new stream. Uses TLS if `tls` is given and the server offers it. If the server does not offer it, the TLS mode of the
/// address decides whether the login continues or fails.
pub(super) async fn login(
    stream: Box<dyn Stream>,
    address: &MySqlAddress,
    tls: Option<&tls::Client>,
) -> Result<Connected, LoginError> {
    let mut wire = Wire::new(stream, BYTES_MAX);
    let packet = wire.receive().await?;
    if let Some(error) = ServerError::read(&packet) {
        return Err(LoginError::Server(error));
    }
    let hello = hello(&packet)?;
    let flags = flags(&hello, address)?;
    let mut is_secret = address.socket.is_some();
    if let Some(tls) = tls
        && offers_tls(&hello, address)?
    {
        wire = secured(wire, flags | CapabilityFlags::CLIENT_SSL, address, tls).await?;
        is_secret = true;
    }
    // Harmless: without a password the login uses an empty one, which the server checks.
    let password = address.password.as_deref().unwrap_or_default().as_bytes();
    let proof = Proof { password, nonce: hello.nonce(), is_secret };
    let flags = if is_secret && address.socket.is_none() {
        flags | CapabilityFlags::CLIENT_SSL
    } else {
        flags
    };
    authenticate(&mut wire, &hello, flags, address, proof).await?;
    Ok(Connected { wire, number: hello.connection_id() })
}

fn hello(packet: &[u8]) -> Result<HandshakePacket<'static>, LoginError> {
    let malformed = || WireError::Malformed("a malformed handshake packet");
    // The library converts this length to `i8` and subtracts from it, which overflows for some values above 127.
    let version = packet.iter().skip(1).position(|byte| *byte == 0).ok_or_else(malformed)?;
    let length_of_nonce = packet.get(version + 22).ok_or_else(malformed)?;
    if !length_of_nonce.is_ascii() {
        return Err(malformed().into());
    }
    let hello: HandshakePacket<'_> = ParseBuf(packet).parse(()).map_err(|_| malformed())?;
    Ok(hello.into_owned())
}

/// Returns the capabilities that both sides support. Fails if the server lacks one that the gateway needs.
fn flags(
    hello: &HandshakePacket<'_>,
    address: &MySqlAddress,
) -> Result<CapabilityFlags, LoginError> {
    let needed = CapabilityFlags::CLIENT_PROTOCOL_41
        | CapabilityFlags::CLIENT_SECURE_CONNECTION
        | CapabilityFlags::CLIENT_PLUGIN_AUTH;
    let mut wanted = needed
        | CapabilityFlags::CLIENT_LONG_PASSWORD
        | CapabilityFlags::CLIENT_LONG_FLAG
        | CapabilityFlags::CLIENT_TRANSACTIONS
        | CapabilityFlags::CLIENT_MULTI_RESULTS
        | CapabilityFlags::CLIENT_PS_MULTI_RESULTS
        | CapabilityFlags::CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA
        | CapabilityFlags::CLIENT_CONNECT_ATTRS
        // The count of changed rows then includes rows that already had the new values, as in PostgreSQL.
        | CapabilityFlags::CLIENT_FOUND_ROWS;
    if address.database.is_some() {
        wanted |= CapabilityFlags::CLIENT_CONNECT_WITH_DB;
    }
    let offered = hello.capabilities();
    if offered.contains(needed) {
        Ok(wanted & offered)
    } else {
        let version = hello.server_version_str();
        Err(LoginError::Unsupported(format!(
            "the server version {} is too old",
            version.escape_default()
        )))
    }
}

fn offers_tls(hello: &HandshakePacket<'_>, address: &MySqlAddress) -> Result<bool, LoginError> {
    let offered = hello.capabilities().contains(CapabilityFlags::CLIENT_SSL);
    if !offered && address.tls == TlsMode::Require {
        return Err(LoginError::Unsupported("the server does not offer TLS".to_owned()));
    }
    Ok(offered)
}

async fn secured(
    mut wire: Wire,
    flags: CapabilityFlags,
    address: &MySqlAddress,
    tls: &tls::Client,
) -> Result<Wire, LoginError> {
    let collation = u8::try_from(UTF8MB4_GENERAL_CI).unwrap_or(45);
    wire.send(&bytes(&SslRequest::new(flags, PACKET_BYTES_MAX, collation))).await?;
    let (stream, state) = wire.into_stream()?;
    let stream = tls.connect(&address.host, stream).await.map_err(WireError::Lost)?;
    Ok(state.over(Box::new(stream)))
}

async fn authenticate(
    wire: &mut Wire,
    hello: &HandshakePacket<'_>,
    flags: CapabilityFlags,
    address: &MySqlAddress,
    proof: Proof<'_>,
) -> Result<(), LoginError> {
    let mut proof = proof;
    // The server's default method may not be supported here, or may not be the one of this user. The server then requests another method.
    let plugin = hello.auth_plugin().filter(|plugin| proof.may_use(plugin).is_ok());
    let plugin = plugin.unwrap_or(AuthPlugin::MysqlNativePassword);
    let mut method = proof.method(&plugin)?;
    let first = proof.answer(&mut method, &proof.nonce)?;
    let (user, database) = (address.user.as_bytes(), address.database.as_deref());
    let program = HashMap::from([("program_name".to_owned(), "tidegate".to_owned())]);
    let response = HandshakeResponse::new(
        first,
        (5, 5, 3),
        Some(user),
        database.map(str::as_bytes),
        Some(plugin.into_owned()),
        flags,
        flags.contains(CapabilityFlags::CLIENT_CONNECT_ATTRS).then_some(program),
        PACKET_BYTES_MAX,
    );
    wire.send(&bytes(&response)).await?;
    for _ in 0..ROUNDS_MAX {
        let packet = wire.receive().await?;
        let answer = match (packet.first(), packet.get(1..).unwrap_or_default()) {
            (Some(0x00), _) => return Ok(()),
            (Some(0xFE), []) => return Err(unfit(b"mysql_old_password")),
            (Some(0xFE), _) => {
                let asked: AuthSwitchRequest<'_> =
                    ParseBuf(&packet).parse(()).map_err(|_| unreadable())?;
                method = proof.method(&asked.auth_plugin())?;
                proof.nonce = asked.plugin_data().to_vec();
                // Harmless: if the method has nothing to send, the answer is an empty packet.
                Some(proof.answer(&mut method, &proof.nonce)?.unwrap_or_default())
            }
            (Some(0x01), challenge) => proof.answer(&mut method, challenge)?,
            _ => match ServerError::read(&packet) {
                Some(error) => return Err(LoginError::Server(error)),
                None => return Err(unreadable().into()),
            },
        };
        if let Some(answer) = answer {
            wire.send(&answer).await?;
        }
    }
    Err(LoginError::Unsupported("the server sent too many authentication packets".to_owned()))
}

impl Proof<'_> {
    /// Refuses methods that would reveal the password, and methods that are not supported.
    fn may_use(&self, plugin: &AuthPlugin<'_>) -> Result<(), LoginError> {
        match plugin {
            AuthPlugin::MysqlNativePassword | AuthPlugin::CachingSha2Password => Ok(()),
            AuthPlugin::MysqlClearPassword | AuthPlugin::Sha256Password if self.is_secret => Ok(()),
            AuthPlugin::MysqlClearPassword | AuthPlugin::Sha256Password => Err(revealing()),
            AuthPlugin::MysqlOldPassword
            | AuthPlugin::Ed25519
            | AuthPlugin::Parsec
            | AuthPlugin::Other(_) => Err(unfit(plugin.as_bytes())),
        }
    }

    fn method(&self, plugin: &AuthPlugin<'_>) -> Result<AuthProc, LoginError> {
        self.may_use(plugin)?;
        plugin.init().map_err(|error| LoginError::Unsupported(error.to_string()))
    }

    /// Returns the answer to a challenge, or `None` if there is nothing to send.
    fn answer(
        &self,
        method: &mut AuthProc,
        challenge: &[u8],
    ) -> Result<Option<Vec<u8>>, LoginError> {
        let is_revealing =
            matches!(method, AuthProc::CachingSha2Password(_)) && challenge == [WANTS_PASSWORD];
        if is_revealing && !self.is_secret {
            return Err(revealing());
        }
        match method.run(self, challenge) {
            Ok(Response::Next { packet } | Response::Last { packet }) => Ok(packet),
            Err(error) => Err(LoginError::Unsupported(error.to_string())),
        }
    }
}

impl Context for &Proof<'_> {
    fn pass(&self) -> &[u8] {
        self.password
    }

    fn is_ipc_transport(&self) -> bool {
        false
    }

    fn is_tls_transport(&self) -> bool {
        self.is_secret
    }

    fn scramble(&self) -> &[u8] {
        &self.nonce
    }

    fn server_key_pem(&self) -> Option<&[u8]> {
        None
    }
}

fn unfit(method: &[u8]) -> LoginError {
    let method = method.escape_ascii();
    let why =
        format!("the server requests the authentication method `{method}`, which is not supported");
    LoginError::Unsupported(why)
}

fn revealing() -> LoginError {
    let why = "the server requests the password itself, which is sent only over TLS or a socket";
    LoginError::Unsupported(why.to_owned())
}

fn unreadable() -> WireError {
    WireError::Malformed("a malformed authentication packet")
}

fn bytes(packet: &impl MySerialize) -> Vec<u8> {
    let mut bytes = Vec::new();
    packet.serialize(&mut bytes);
    bytes
}

impl From<WireError> for LoginError {
    fn from(error: WireError) -> LoginError {
        LoginError::Wire(error)
    }
}

//! Statements in MySQL and MariaDB: how to connect to a server, and what to send over a connection.
//!
//! The library `mysql_common` reads and writes the packets of a login and of columns. Sockets, TLS and limits are the gateway's own.

mod arguments;
mod cells;
mod login;
mod wire;

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use kit::clock::{self, Instant};
use kit::dial::{self, Stream};
use mysql_common::constants::{CapabilityFlags, StatusFlags};
use mysql_common::io::ParseBuf;
use mysql_common::packets::{
    Column, CommonOkPacket, OkPacketDeserializer, OldEofPacket, StmtPacket,
};

use crate::address::MySqlAddress;
use crate::connections::{self, StatementPlace, TransactionEnd};
use crate::placeholders::positional;
use crate::sqlite::{one_each, quoted};
use crate::{Answer, Argument, Bounds, Failure, Statement};

use cells::CellError;
use login::LoginError;
use wire::{Wire, WireError};

/// A server, with the settings for connecting to it.
pub(crate) struct Server {
    address: MySqlAddress,
    tls: Option<tls::Client>,
}

/// An open connection, closed when dropped.
pub(crate) struct Session {
    wire: Wire,
    /// The server's number for the connection.
    number: u32,
    prepared: HashMap<Arc<str>, Rc<Prepared>>,
    /// The keys of `prepared`, in the order in which they were prepared.
    order: VecDeque<Arc<str>>,
    /// When the server last answered.
    last_answer: Instant,
}

/// A prepared statement.
struct Prepared {
    number: u32,
    parameters: usize,
    /// The numbers of the arguments, from 1, in the order of the server's parameters.
    order: Vec<usize>,
}

/// An error that the server reports.
#[derive(Debug, PartialEq, Eq)]
struct ServerError {
    code: u16,
    message: String,
}

/// The reason why a statement failed.
enum StatementError {
    /// The server has dropped the prepared statement. It had no effect.
    Forgotten,
    /// The connection can be used for the next statement.
    Failed(Failure),
    /// The connection cannot be used again, because it is lost or an answer was not read to its end.
    Ended(Failure),
    Wire(WireError),
}

/// Timeout of connecting, so that an unresponsive address is detected.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// Timeout of a request to cancel a statement.
const CANCEL_MAX: Duration = Duration::from_secs(5);

/// A connection that has received no answer for this time is checked before the next statement, because a statement may be sent only once.
const SURE_FOR: Duration = Duration::from_secs(1);

/// Maximum number of prepared statements per connection.
const PREPARED_MAX: usize = 100;

/// Maximum number of columns of a result, the same as in MySQL.
const COLUMNS_MAX: u64 = 4096;

/// Maximum size of an answer besides its rows.
const BYTES_BESIDE: u64 = 2 << 20;

/// Maximum ratio of a value's size in the server's format to its size in JSON: a number of eight bytes, against a digit with a name.
const BYTES_FACTOR: u64 = 4;

/// The settings of every connection, so that statements mean the same on each server.
const SETTINGS: &str = "SET autocommit = 1, time_zone = '+00:00', NAMES utf8mb4";

const COM_QUERY: u8 = 0x03;
const COM_PING: u8 = 0x0E;
const COM_STMT_PREPARE: u8 = 0x16;
const COM_STMT_CLOSE: u8 = 0x19;

/// The first bytes of packets.
const OK: u8 = 0x00;
const LOCAL_FILE: u8 = 0xFB;
const END: u8 = 0xFE;
const ERROR: u8 = 0xFF;

impl connections::Server for Server {
    type Session = Session;

    async fn run(
        &self,
        kept: &mut Option<Session>,
        statement: &Statement,
        arguments: &[Argument],
        bounds: Bounds,
        place: StatementPlace,
    ) -> Result<Answer, Failure> {
        let is_alone = place == StatementPlace::Alone;
        let (mut may_reconnect, mut may_prepare_again) = (is_alone, true);
        loop {
            if is_alone && !is_usable(kept).await {
                *kept = None;
                *kept = Some(self.connect().await?);
                may_reconnect = false;
            }
            let Some(session) = kept else {
                return Err(Failure::Unavailable("its connection has ended".to_owned()));
            };
            session.allow(bounds.bytes_max);
            let prepared = match session.prepare(&statement.0).await {
                Ok(prepared) => prepared,
                // A statement that has only been prepared has had no effect.
                Err(StatementError::Wire(WireError::Lost(_))) if may_reconnect => {
                    *kept = None;
                    continue;
                }
                Err(error) => return Err(error.failure(kept, bounds)),
            };
            match session.answer(&prepared, arguments, bounds).await {
                Err(StatementError::Forgotten) if may_prepare_again => {
                    session.forget(&statement.0);
                    may_prepare_again = false;
                }
                Err(error) => return Err(error.failure(kept, bounds)),
                Ok(answer) => return Ok(answer),
            }
        }
    }

    async fn begin(&self, kept: &mut Option<Session>) -> Result<(), Failure> {
        if !is_usable(kept).await {
            *kept = None;
            *kept = Some(self.connect().await?);
        }
        match kept {
            Some(session) => {
                session.allow(0);
                session.transaction_command("START TRANSACTION").await
            }
            None => Err(Failure::Unavailable("there is no connection".to_owned())),
        }
    }

    async fn end(&self, session: &mut Session, end: TransactionEnd) -> Result<(), Failure> {
        session.allow(0);
        session
            .transaction_command(match end {
                TransactionEnd::Commit => "COMMIT",
                TransactionEnd::Rollback => "ROLLBACK",
            })
            .await
    }

    async fn cancel(&self, session: Session) {
        let cancelled = async {
            // Harmless: if the server cannot be reached, there is nothing to cancel.
            if let Ok(mut other) = self.connect().await {
                let text = format!("KILL QUERY {}", session.number);
                // Harmless: if the statement has ended, there is nothing to cancel.
                let _ = other.simple(&text).await;
            }
        };
        // Harmless: the statement that is cancelled has failed already.
        let _ = tokio::time::timeout(CANCEL_MAX, cancelled).await;
    }
}

/// Returns true if there is a connection that can take a statement.
async fn is_usable(kept: &mut Option<Session>) -> bool {
    let Some(session) = kept else { return false };
    if clock::now().duration_since(session.last_answer) < SURE_FOR {
        return session.wire.is_quiet().await;
    }
    session.wire.is_quiet().await && session.ping().await.is_ok()
}

impl Server {
    pub(crate) fn new(address: MySqlAddress, tls: Option<tls::Client>) -> Server {
        // No ALPN name is registered for MySQL's protocol, and servers ignore the name. That of HTTP would be wrong.
        let tls = tls.filter(|_| address.socket.is_none());
        Server { address, tls: tls.map(|tls| tls.with_alpn("mysql")) }
    }

    async fn connect(&self) -> Result<Session, Failure> {
        let shown = match &self.address.socket {
            Some(path) => path.display().to_string(),
            None => format!("{}:{}", self.address.host, self.address.port),
        };
        let away = |why: String| Failure::Unavailable(format!("connecting to {shown}: {why}"));
        match tokio::time::timeout(CONNECT_MAX, self.connected()).await {
            Ok(Ok(session)) => Ok(session),
            Ok(Err(error)) => Err(away(error.to_string())),
            Err(_) => Err(away("it does not answer".to_owned())),
        }
    }

    async fn connected(&self) -> Result<Session, LoginError> {
        let stream = self.dial().await.map_err(WireError::Lost)?;
        let connected = login::login(stream, &self.address, self.tls.as_ref()).await?;
        let mut session = Session {
            wire: connected.wire,
            number: connected.number,
            prepared: HashMap::new(),
            order: VecDeque::new(),
            last_answer: clock::now(),
        };
        session.simple(SETTINGS).await?;
        Ok(session)
    }

    async fn dial(&self) -> io::Result<Box<dyn Stream>> {
        let address = &self.address;
        Ok(match &address.socket {
            Some(path) => Box::new(dial::unix(path).await?),
            None => Box::new(dial::tcp(&address.host, address.port).await?),
        })
    }
}

impl Session {
    /// Allows an answer of this many bytes as JSON.
    fn allow(&mut self, bytes_max: usize) {
        let bytes = u64::try_from(bytes_max).unwrap_or(u64::MAX).saturating_mul(BYTES_FACTOR);
        self.wire.allow(bytes.saturating_add(BYTES_BESIDE));
    }

    async fn ping(&mut self) -> Result<(), LoginError> {
        self.allow(0);
        self.wire.command(&[COM_PING]).await?;
        self.done().await
    }

    /// Runs a statement that has neither arguments nor rows.
    async fn simple(&mut self, text: &str) -> Result<(), LoginError> {
        self.wire.command(&[&[COM_QUERY], text.as_bytes()].concat()).await?;
        self.done().await
    }

    /// Runs a statement that begins or ends a transaction.
    async fn transaction_command(&mut self, text: &str) -> Result<(), Failure> {
        self.simple(text).await.map_err(|e| match e {
            LoginError::Server(error) => Failure::Refused(error.to_string()),
            LoginError::Wire(_) | LoginError::Unsupported(_) => Failure::Unavailable(e.to_string()),
        })
    }

    async fn done(&mut self) -> Result<(), LoginError> {
        let packet = self.wire.receive().await?;
        self.last_answer = clock::now();
        match (packet.first(), ServerError::read(&packet)) {
            (_, Some(error)) => Err(LoginError::Server(error)),
            (Some(&OK), None) => Ok(()),
            (_, None) => Err(WireError::Malformed("rows that were not requested").into()),
        }
    }

    async fn prepare(&mut self, text: &Arc<str>) -> Result<Rc<Prepared>, StatementError> {
        if let Some(known) = self.prepared.get(text) {
            return Ok(known.clone());
        }
        if self.order.len() >= PREPARED_MAX
            && let Some(first) = self.order.front().cloned()
        {
            self.close(&first).await?;
        }
        let refused = |why: String| StatementError::Failed(Failure::Refused(why));
        let (made, order) = positional(text).map_err(|why| refused(why.to_string()))?;
        self.wire.command(&[&[COM_STMT_PREPARE], made.as_bytes()].concat()).await?;
        let packet = self.wire.receive().await?;
        self.last_answer = clock::now();
        if let Some(error) = ServerError::read(&packet) {
            return Err(error.into());
        }
        let malformed = |_| WireError::Malformed("a malformed prepared statement");
        let answer: StmtPacket = ParseBuf(&packet).parse(()).map_err(malformed)?;
        // These descriptions are skipped. Those of the columns are sent again before the rows.
        for count in [answer.num_params(), answer.num_columns()] {
            for _ in 0..count {
                self.wire.receive().await?;
            }
            if count > 0 {
                self.end().await?;
            }
        }
        let (number, parameters) = (answer.statement_id(), usize::from(answer.num_params()));
        let prepared = Rc::new(Prepared { number, parameters, order });
        self.order.push_back(text.clone());
        self.prepared.insert(text.clone(), prepared.clone());
        Ok(prepared)
    }

    /// Drops a prepared statement, here and at the server, which does not answer.
    async fn close(&mut self, text: &Arc<str>) -> Result<(), WireError> {
        let Some(prepared) = self.forget(text) else { return Ok(()) };
        let number = prepared.number.to_le_bytes();
        self.wire.command(&[&[COM_STMT_CLOSE], &number[..]].concat()).await
    }

    fn forget(&mut self, text: &Arc<str>) -> Option<Rc<Prepared>> {
        self.order.retain(|known| known != text);
        self.prepared.remove(text)
    }

    /// Executes a statement and reads all that it returns.
    async fn answer(
        &mut self,
        prepared: &Prepared,
        arguments: &[Argument],
        bounds: Bounds,
    ) -> Result<Answer, StatementError> {
        let refused = |why: String| StatementError::Failed(Failure::Refused(why));
        let ordered = prepared.order.iter().map(|number| arguments.get(number.checked_sub(1)?));
        let ordered = ordered.collect::<Option<Vec<&Argument>>>();
        let Some(ordered) = ordered.filter(|ordered| ordered.len() == prepared.parameters) else {
            let (wants, has) = (prepared.parameters, arguments.len());
            return Err(refused(format!("the statement takes {wants} arguments, but gets {has}")));
        };
        self.wire.command(&arguments::execution(prepared.number, &ordered)).await?;
        let mut rows = None;
        loop {
            let packet = self.wire.receive().await?;
            self.last_answer = clock::now();
            let more = match packet.first() {
                Some(&ERROR) => return Err(ServerError::of(&packet)?.into()),
                Some(&LOCAL_FILE) => {
                    return Err(WireError::Malformed("a request for a file").into());
                }
                Some(&OK) => {
                    let (affected, more) = affected(&packet)?;
                    if !more {
                        return Ok(rows.map_or(affected, Answer::Rows));
                    }
                    more
                }
                // After its rows, a procedure returns another list of rows or the end of the call.
                _ if rows.is_some() => {
                    let why = "it returns several lists of rows".to_owned();
                    return Err(StatementError::Ended(Failure::Refused(why)));
                }
                _ => {
                    let (text, more) = self.rows(&packet, bounds).await?;
                    rows = Some(text);
                    more
                }
            };
            if !more {
                let nothing = Answer::Affected { count: 0, key: None };
                return Ok(rows.map_or(nothing, Answer::Rows));
            }
        }
    }

    /// Reads the columns and rows of a result, as JSON. Also returns whether another result follows.
    async fn rows(
        &mut self,
        packet: &[u8],
        bounds: Bounds,
    ) -> Result<(String, bool), StatementError> {
        let malformed = || WireError::Malformed("malformed columns");
        let count = cells::column_count(packet).filter(|count| *count <= COLUMNS_MAX);
        let count = count.ok_or_else(malformed)?;
        let mut columns = Vec::new();
        for _ in 0..count {
            let packet = self.wire.receive().await?;
            let column: Column = ParseBuf(&packet).parse(()).map_err(|_| malformed())?;
            columns.push(column);
        }
        self.end().await?;
        let names: Vec<String> = columns.iter().map(|column| quoted(&column.name_str())).collect();
        let ended = |failure| StatementError::Ended(failure);
        one_each(&names).map_err(|why| ended(Failure::Refused(why)))?;
        let (mut out, mut count) = ("[".to_owned(), 0);
        loop {
            let packet = self.wire.receive().await?;
            match packet.first() {
                Some(&OK) => {}
                Some(&END) => {
                    out.push(']');
                    return Ok((out, has_more(&packet)?));
                }
                _ => return Err(ServerError::of(&packet)?.into()),
            }
            count += 1;
            out.push_str(if count == 1 { "" } else { "," });
            cells::push_row(&mut out, &columns, &names, &packet)
                .map_err(|error| said_unfit(&error, &names))?;
            bounds.check(count, out.len()).map_err(ended)?;
        }
    }

    /// Receives the end of a list.
    async fn end(&mut self) -> Result<(), StatementError> {
        let packet = self.wire.receive().await?;
        match packet.first() {
            Some(&END) => Ok(()),
            _ => Err(ServerError::of(&packet)?.into()),
        }
    }
}

/// Returns what a statement without rows did, and whether another result follows.
fn affected(packet: &[u8]) -> Result<(Answer, bool), WireError> {
    let read: Result<OkPacketDeserializer<'_, CommonOkPacket>, _> =
        ParseBuf(packet).parse(CapabilityFlags::empty());
    let ok = read.map_err(|_| WireError::Malformed("a malformed answer"))?.into_inner();
    let more = ok.status_flags().contains(StatusFlags::SERVER_MORE_RESULTS_EXISTS);
    let answer = Answer::Affected { count: ok.affected_rows(), key: ok.last_insert_id() };
    Ok((answer, more))
}

/// Returns whether another result follows the rows that this packet ends.
fn has_more(packet: &[u8]) -> Result<bool, WireError> {
    let read: Result<OkPacketDeserializer<'_, OldEofPacket>, _> =
        ParseBuf(packet).parse(CapabilityFlags::empty());
    let end = read.map_err(|_| WireError::Malformed("a malformed end of rows"))?;
    let flags = end.into_inner().status_flags();
    Ok(flags.contains(StatusFlags::SERVER_MORE_RESULTS_EXISTS))
}

fn said_unfit(error: &CellError, names: &[String]) -> StatementError {
    let name = |number: &usize| names.get(*number).map_or("", String::as_str);
    let why = match error {
        CellError::Malformed => return WireError::Malformed("a malformed row").into(),
        CellError::Type(number) => format!(
            "the column {} is of a type that JSON cannot represent: select it as a text",
            name(number)
        ),
        CellError::Text(number) => format!("a value of the column {} is not UTF-8", name(number)),
    };
    StatementError::Ended(Failure::Refused(why))
}

impl ServerError {
    /// Reads an error, unless the packet is something else.
    fn read(packet: &[u8]) -> Option<ServerError> {
        let (&[ERROR, low, high], rest) = packet.split_first_chunk()? else { return None };
        // Errors before the login have no state.
        let message = match rest.split_first_chunk::<6>() {
            Some(([b'#', ..], message)) => message,
            _ => rest,
        };
        // Harmless: the text is only shown.
        let message = String::from_utf8_lossy(message).replace(['\r', '\n'], " ");
        Some(ServerError { code: u16::from_le_bytes([low, high]), message })
    }

    /// Reads an error where nothing else is expected.
    fn of(packet: &[u8]) -> Result<ServerError, WireError> {
        ServerError::read(packet).ok_or(WireError::Malformed("an unexpected packet"))
    }
}

impl fmt::Display for ServerError {
    /// Formats the error. The value of a duplicate is left out, because it is part of a row.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let message = &self.message;
        let duplicate = message.strip_prefix("Duplicate entry '");
        match duplicate.and_then(|rest| rest.rsplit_once("' for key ")) {
            Some((_, key)) => write!(f, "Duplicate entry for key {key} ({})", self.code),
            None => write!(f, "{message} ({})", self.code),
        }
    }
}

impl From<ServerError> for StatementError {
    fn from(error: ServerError) -> StatementError {
        let what = error.to_string();
        match error.code {
            // The prepared statement is unknown, or has to be prepared again.
            1243 | 1615 => StatementError::Forgotten,
            // Interrupted, or longer than the server's own limits (MySQL, MariaDB).
            1317 | 1969 | 3024 => StatementError::Ended(Failure::Late),
            // Disk, memory, connections, access, databases, shutdown, network, limits of users.
            1021
            | 1037
            | 1038
            | 1040..=1045
            | 1049
            | 1053
            | 1080
            | 1129
            | 1130
            | 1152
            | 1154..=1161
            | 1203
            | 1226
            | 1927
            | 3169 => StatementError::Ended(Failure::Unavailable(what)),
            _ => StatementError::Failed(Failure::Refused(what)),
        }
    }
}

impl StatementError {
    /// Returns the failure, and drops the connection if it cannot be used again.
    fn failure(self, kept: &mut Option<Session>, bounds: Bounds) -> Failure {
        match self {
            StatementError::Failed(failure) => failure,
            StatementError::Forgotten => {
                Failure::Refused("the tables change while it runs".to_owned())
            }
            // The statement may still run; the connection that it runs on is needed to cancel it.
            StatementError::Ended(failure @ Failure::TooLarge(_)) => failure,
            StatementError::Wire(WireError::TooMuch) => {
                Failure::TooLarge(format!("the rows have over {} bytes", bounds.bytes_max))
            }
            StatementError::Ended(failure) => {
                *kept = None;
                failure
            }
            StatementError::Wire(error) => {
                *kept = None;
                Failure::Unavailable(error.to_string())
            }
        }
    }
}

impl From<WireError> for StatementError {
    fn from(error: WireError) -> StatementError {
        StatementError::Wire(error)
    }
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WireError::Lost(error) => write!(f, "{error}"),
            WireError::TooMuch => f.write_str("the server sends too many bytes"),
            WireError::Malformed(what) => write!(f, "the server sends {what}"),
        }
    }
}

impl fmt::Display for LoginError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoginError::Wire(error) => write!(f, "{error}"),
            LoginError::Server(error) => write!(f, "{error}"),
            LoginError::Unsupported(why) => f.write_str(why),
        }
    }
}

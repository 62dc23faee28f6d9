//! Statements in PostgreSQL: how to connect to a server, and what to send over a connection.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use kit::dial::{self, Stream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::JoinHandle;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};
use tokio_postgres::error::{DbError, ErrorPosition};
use tokio_postgres::{AsyncMessage, Client, Config, Error, SimpleQueryMessage};

use crate::connections::{self, StatementPlace, TransactionEnd};
use crate::secure::Secure;
use crate::sqlite::{one_each, place, quoted};
use crate::values::{Cell, ConversionFailure};
use crate::{Answer, Argument, Bounds, Failure, Statement};

/// A server, with the settings for connecting to it.
pub struct Server {
    config: Config,
    tls: Option<tls::Client>,
}

/// An open connection, closed when dropped.
pub struct Session {
    pub client: Client,
    driver: JoinHandle<()>,
    /// The number of bytes that may still be received for the running statement.
    bytes_left: Arc<AtomicU64>,
    prepared: HashMap<Arc<str>, tokio_postgres::Statement>,
    /// The keys of `prepared`, in the order in which they were prepared.
    order: VecDeque<Arc<str>>,
}

/// Receives notifications: the process id of the sender on the server, and the payload.
pub type OnNotification = Box<dyn FnMut(i32, &str)>;

/// Maximum number of prepared statements per connection.
const PREPARED_MAX: usize = 100;

/// Timeout of a request to cancel a statement.
const CANCEL_MAX: Duration = Duration::from_secs(5);

/// Timeout of connecting, so that an unresponsive address is detected.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// Maximum size of an answer besides its rows.
const BYTES_BESIDE: u64 = 1 << 20;

/// Maximum ratio of a value's size in the server's format to its size in JSON: a number of eight bytes and its length, against a digit with
/// a name.
const BYTES_FACTOR: u64 = 4;

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
        // There is no second try in a transaction, because a failed statement has ended it.
        let is_alone = place == StatementPlace::Alone;
        let (mut may_reconnect, mut may_prepare_again) = (is_alone, is_alone);
        loop {
            let is_new = kept.as_ref().is_none_or(|session| session.client.is_closed());
            if is_new && !is_alone {
                return Err(lost());
            }
            if is_new {
                *kept = None;
                *kept = Some(self.connect().await?);
                may_reconnect = false;
            }
            let Some(session) = kept else { continue };
            session.allow(bounds.bytes_max);
            let prepared = match session.prepare(&statement.0).await {
                Ok(prepared) => prepared,
                // A statement that has only been prepared has had no effect.
                Err(error) if is_lost(&error) && may_reconnect => {
                    *kept = None;
                    continue;
                }
                Err(error) => return Err(failure(&error, &statement.0)),
            };
            match session.rows(&prepared, arguments, bounds, &statement.0).await {
                Err(StatementError::Forgotten) if may_prepare_again => {
                    session.forget(&statement.0);
                    may_prepare_again = false;
                }
                Err(StatementError::Forgotten) => {
                    session.forget(&statement.0);
                    return Err(Failure::Refused("the tables change while it runs".to_owned()));
                }
                Err(StatementError::Failed(failure)) => return Err(failure),
                Ok(answer) => return Ok(answer),
            }
        }
    }

    async fn begin(&self, kept: &mut Option<Session>) -> Result<(), Failure> {
        if let Some(session) = kept {
            session.allow(0);
            match session.client.batch_execute("begin").await {
                // Nothing has taken effect on the lost connection.
                Err(error) if is_lost(&error) => *kept = None,
                begun => return begun.map_err(|error| failure(&error, "begin")),
            }
        }
        let session = kept.insert(self.connect().await?);
        session.client.batch_execute("begin").await.map_err(|error| failure(&error, "begin"))
    }

    async fn end(&self, session: &mut Session, end: TransactionEnd) -> Result<(), Failure> {
        session.allow(0);
        let text = match end {
            TransactionEnd::Commit => "commit",
            TransactionEnd::Rollback => "rollback",
        };
        session.client.batch_execute(text).await.map_err(|error| failure(&error, text))
    }

    async fn cancel(&self, session: Session) {
        session.cancel(self).await;
    }
}

/// The reason why a prepared statement failed.
enum StatementError {
    /// The server has dropped the prepared statement, or its result columns have changed. It had no effect.
    Forgotten,
    Failed(Failure),
}

impl Server {
    pub fn new(config: Config, tls: Option<tls::Client>) -> Server {
        // The ALPN name of PostgreSQL's protocol; servers refuse any other.
        Server { config, tls: tls.map(|tls| tls.with_alpn("postgresql")) }
    }

    /// Connects to the first host that answers. If the settings ask for `target_session_attrs=read-write`, read-only hosts are
    /// skipped.
    pub async fn connect(&self) -> Result<Session, Failure> {
        self.connect_listening(Box::new(|_, _| {})).await
    }

    /// Like `connect`, and passes each notification to `told`: the process id of the sender on the server, and the payload.
    pub async fn connect_listening(&self, told: OnNotification) -> Result<Session, Failure> {
        let told = Rc::new(RefCell::new(told));
        let away = |why: String| Failure::Unavailable(why);
        let mut why = away("no host is named".to_owned());
        for number in 0..self.config.get_hosts().len() {
            let connected =
                tokio::time::timeout(self.connect_max(), self.connect_to(number, told.clone()))
                    .await;
            match connected {
                Ok(Ok(session)) => return Ok(session),
                Ok(Err(error)) => why = error,
                Err(_) => why = away(format!("{} does not answer", self.host(number))),
            }
        }
        Err(why)
    }

    fn connect_max(&self) -> Duration {
        self.config.get_connect_timeout().copied().unwrap_or(CONNECT_MAX)
    }

    fn host(&self, number: usize) -> String {
        match self.config.get_hosts().get(number) {
            Some(Host::Tcp(name)) => format!("{name}:{}", self.port(number)),
            Some(Host::Unix(path)) => path.display().to_string(),
            None => String::new(),
        }
    }

    fn port(&self, number: usize) -> u16 {
        let ports = self.config.get_ports();
        ports.get(number).or(ports.first()).copied().unwrap_or(5432)
    }

    /// Opens a stream to one of the hosts, and returns it with the settings for that host.
    async fn dial(&self, number: usize) -> io::Result<(Box<dyn Stream>, Config, String)> {
        let mut config = self.config.clone();
        let (stream, name): (Box<dyn Stream>, _) = match config.get_hosts().get(number) {
            Some(Host::Tcp(name)) => {
                (Box::new(dial::tcp(name, self.port(number)).await?), name.clone())
            }
            Some(Host::Unix(folder)) => {
                let path = folder.join(format!(".s.PGSQL.{}", self.port(number)));
                let stream = dial::unix(&path).await?;
                // A Unix socket needs no TLS, because nothing can intercept it.
                config.ssl_mode(SslMode::Disable);
                (Box::new(stream), String::new())
            }
            None => return Err(io::ErrorKind::NotFound.into()),
        };
        Ok((stream, config, name))
    }

    async fn connect_to(
        &self,
        number: usize,
        told: Rc<RefCell<OnNotification>>,
    ) -> Result<Session, Failure> {
        let away = |why: &dyn std::fmt::Display| {
            Failure::Unavailable(format!("connecting to {}: {why}", self.host(number)))
        };
        let (stream, config, host) = self.dial(number).await.map_err(|error| away(&error))?;
        let bytes_left = Arc::new(AtomicU64::new(BYTES_BESIDE));
        let stream = BoundedStream { stream, left: bytes_left.clone() };
        let connected = config.connect_raw(stream, Secure { tls: self.tls.clone(), host }).await;
        let (client, mut connection) = connected.map_err(|error| away(&error_text(&error)))?;
        let driver = kit::spawn(async move {
            let messages = stream::poll_fn(|cx| connection.poll_message(cx));
            let mut messages = pin!(messages);
            while let Some(message) = messages.next().await {
                match message {
                    Ok(AsyncMessage::Notification(news)) => {
                        (told.borrow_mut())(news.process_id(), news.payload());
                    }
                    Ok(_) => {}
                    Err(error) => {
                        tracing::debug!(
                            error = error_text(&error),
                            "a connection to a database has ended"
                        );
                        return;
                    }
                }
            }
        });
        let (prepared, order) = (HashMap::new(), VecDeque::new());
        let session = Session { client, driver, bytes_left, prepared, order };
        if self.config.get_target_session_attrs() == TargetSessionAttrs::ReadWrite {
            let asked = session.client.simple_query("show transaction_read_only").await;
            let answer = asked.map_err(|error| away(&error_text(&error)))?;
            let is_on = |message: &SimpleQueryMessage| matches!(message, SimpleQueryMessage::Row(row) if row.get(0) == Some("on"));
            if answer.iter().any(is_on) {
                return Err(away(&"it is read-only"));
            }
        }
        Ok(session)
    }
}

impl Session {
    /// Allows an answer of this many bytes as JSON.
    pub fn allow(&self, bytes_max: usize) {
        let bytes = u64::try_from(bytes_max).unwrap_or(u64::MAX).saturating_mul(BYTES_FACTOR);
        self.bytes_left.store(bytes.saturating_add(BYTES_BESIDE), Ordering::Relaxed);
    }

    async fn prepare(&mut self, text: &Arc<str>) -> Result<tokio_postgres::Statement, Error> {
        if let Some(known) = self.prepared.get(text) {
            return Ok(known.clone());
        }
        let prepared = self.client.prepare(text).await?;
        if self.order.len() >= PREPARED_MAX
            && let Some(first) = self.order.pop_front()
        {
            self.prepared.remove(&first);
        }
        self.order.push_back(text.clone());
        self.prepared.insert(text.clone(), prepared.clone());
        Ok(prepared)
    }

    fn forget(&mut self, text: &Arc<str>) {
        self.prepared.remove(text);
        self.order.retain(|known| known != text);
    }

    async fn rows(
        &self,
        prepared: &tokio_postgres::Statement,
        arguments: &[Argument],
        bounds: Bounds,
        text: &str,
    ) -> Result<Answer, StatementError> {
        let refused = |why: String| StatementError::Failed(Failure::Refused(why));
        let kinds = prepared.params();
        if kinds.len() != arguments.len() {
            let (wants, has) = (kinds.len(), arguments.len());
            return Err(refused(format!("the statement takes {wants} arguments, but gets {has}")));
        }
        // Harmless: the check above ensures that the numbers are equal.
        let encoded = arguments.iter().zip(kinds).enumerate().map(|(number, (argument, kind))| {
            let why = |why| refused(format!("the argument ${}: {why}", number + 1));
            argument.encoded(kind).map_err(why)
        });
        let encoded = encoded.collect::<Result<Vec<_>, _>>()?;
        let ran = |error: Error| self.execution_error(&error, text, bounds);
        let mut rows = pin!(self.client.query_raw(prepared, &encoded).await.map_err(ran)?);
        let columns = prepared.columns();
        let names = columns.iter().map(|column| quoted(column.name())).collect::<Vec<String>>();
        one_each(&names).map_err(|why| StatementError::Failed(Failure::Refused(why)))?;
        let mut out = "[".to_owned();
        let mut count = 0;
        while let Some(row) = rows.next().await {
            let row = row.map_err(ran)?;
            count += 1;
            out.push_str(if count == 1 { "{" } else { ",{" });
            for (column, name) in names.iter().enumerate() {
                out.push_str(if column == 0 { "" } else { "," });
                out.push_str(name);
                out.push(':');
                let cell: Cell<'_> = row.try_get(column).map_err(ran)?;
                cell.push(&mut out).map_err(|unfit| refused(said_unfit(&unfit, name, &cell)))?;
            }
            out.push('}');
            bounds.check(count, out.len()).map_err(StatementError::Failed)?;
        }
        out.push(']');
        Ok(if columns.is_empty() {
            Answer::Affected { count: rows.rows_affected().unwrap_or(0), key: None }
        } else {
            Answer::Rows(out)
        })
    }

    /// Returns the error of a statement that was executed.
    fn execution_error(&self, error: &Error, text: &str, bounds: Bounds) -> StatementError {
        if error.as_db_error().is_some_and(is_forgotten) {
            return StatementError::Forgotten;
        }
        if self.bytes_left.load(Ordering::Relaxed) == 0 {
            let what = format!("the rows have over {} bytes", bounds.bytes_max);
            return StatementError::Failed(Failure::TooLarge(what));
        }
        StatementError::Failed(failure(error, text))
    }

    /// Cancels the running statement and closes the connection, because a late cancel request would hit the next statement.
    async fn cancel(self, server: &Server) {
        let token = self.client.cancel_token();
        let cancelled = async {
            for number in 0..server.config.get_hosts().len() {
                let Ok((stream, _, host)) = server.dial(number).await else { continue };
                let secure = Secure { tls: server.tls.clone(), host };
                if token.cancel_query_raw(stream, secure).await.is_ok() {
                    return;
                }
            }
        };
        // Harmless: the statement that is cancelled has failed already.
        let _ = tokio::time::timeout(CANCEL_MAX, cancelled).await;
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // A statement may still be running, whose rows are no longer wanted.
        self.driver.abort();
    }
}

fn said_unfit(unfit: &ConversionFailure, name: &str, cell: &Cell<'_>) -> String {
    let kind = cell.kind.name();
    match unfit {
        ConversionFailure::Type => {
            format!(
                "the column {name} is of the type `{kind}`, which JSON cannot represent: write `::text` after it"
            )
        }
        ConversionFailure::Malformed => format!("a value of the column {name} is not a `{kind}`"),
    }
}

/// Returns true if the prepared statement no longer exists or its columns have changed: after a change of tables, or behind a pooler.
fn is_forgotten(error: &DbError) -> bool {
    let changed = error.code().code() == "0A000" && error.message().contains("cached plan");
    changed || error.code().code() == "26000"
}

/// Returns true if the connection is lost.
fn is_lost(error: &Error) -> bool {
    match error.as_db_error() {
        Some(error) => error.code().code().starts_with("57P"),
        None => error.is_closed() || has_io(error),
    }
}

fn has_io(error: &Error) -> bool {
    std::error::Error::source(error).is_some_and(|source| source.is::<io::Error>())
}

/// Formats an error with its cause. The server's details and hints are left out, because they quote rows.
pub fn error_text(error: &Error) -> String {
    if let Some(error) = error.as_db_error() {
        return format!("{}: {} ({})", error.severity(), error.message(), error.code().code());
    }
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

fn lost() -> Failure {
    Failure::Unavailable("its connection has ended".to_owned())
}

fn failure(error: &Error, statement: &str) -> Failure {
    let Some(db) = error.as_db_error() else {
        return Failure::Unavailable(error_text(error));
    };
    let at = match db.position() {
        Some(ErrorPosition::Original(position)) => {
            let before = usize::try_from(*position).unwrap_or(1).saturating_sub(1);
            let offset = statement.char_indices().nth(before).map_or(statement.len(), |(at, _)| at);
            format!(", at {} of the statement", place(statement, offset))
        }
        Some(ErrorPosition::Internal { .. }) | None => String::new(),
    };
    let what = format!("{}{at}", error_text(error));
    match db.code().code() {
        "57014" => Failure::Late,
        // Error classes for connection, authorisation, database, resources, and operator intervention.
        code if ["08", "28", "3D", "53", "57"].iter().any(|class| code.starts_with(class)) => {
            Failure::Unavailable(what)
        }
        _ => Failure::Refused(what),
    }
}

/// A stream that stops after the allowed number of bytes. Needed because the library buffers a whole row before returning it.
struct BoundedStream {
    stream: Box<dyn Stream>,
    left: Arc<AtomicU64>,
}

impl AsyncRead for BoundedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut *self.stream).poll_read(cx, buffer);
        let count = u64::try_from(buffer.filled().len() - before).unwrap_or(u64::MAX);
        let left = self.left.load(Ordering::Relaxed).saturating_sub(count);
        self.left.store(left, Ordering::Relaxed);
        match left {
            0 => Poll::Ready(Err(io::Error::other("an answer of too many bytes"))),
            _ => read,
        }
    }
}

impl AsyncWrite for BoundedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.stream).poll_shutdown(cx)
    }
}

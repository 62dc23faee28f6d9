//! The connections to a server. Each is a task that runs one statement after another.
//!
//! A connection receives jobs from workers. It belongs to the worker that opened it, and is lent to callers that hold a permit of the pool.
//! If a caller stops waiting, the task cancels the statement at the server before it takes the next job.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::{Either, select};
use kit::clock::Instant;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

use crate::{Answer, Argument, Bounds, Failure, Statement};

/// An idle connection is closed after this time, so that the connections of a busy hour are not kept forever.
const IDLE_MAX: Duration = Duration::from_secs(600);

/// The right to use one connection, returned when dropped.
pub(crate) type ConnectionPermit = OwnedSemaphorePermit;

/// A server: how to connect to it, and what to send over a connection.
pub(crate) trait Server: Send + Sync + 'static {
    /// An open connection, closed when dropped.
    type Session;

    /// Runs a statement on the connection.
    fn run(
        &self,
        kept: &mut Option<Self::Session>,
        statement: &Statement,
        arguments: &[Argument],
        bounds: Bounds,
        place: StatementPlace,
    ) -> impl Future<Output = Result<Answer, Failure>>;

    /// Begins a transaction. It reconnects like [`StatementPlace::Alone`].
    fn begin(&self, kept: &mut Option<Self::Session>) -> impl Future<Output = Result<(), Failure>>;

    /// Ends the transaction of the connection.
    fn end(
        &self,
        session: &mut Self::Session,
        end: TransactionEnd,
    ) -> impl Future<Output = Result<(), Failure>>;

    /// Cancels the running statement and closes the connection, because a late cancel request would hit the next statement.
    fn cancel(&self, session: Self::Session) -> impl Future<Output = ()>;
}

/// Where a statement runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StatementPlace {
    /// Outside a transaction. It reconnects if there is no connection, or if the connection was lost before the statement was executed.
    Alone,
    /// In a transaction, which ends with the connection.
    Transaction,
}

/// How a transaction ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TransactionEnd {
    Commit,
    Rollback,
}

/// A command of a transaction for its connection. If the commands stop without an `End`, the transaction is rolled back.
pub(crate) enum Command {
    Run(Query),
    End(TransactionEnd, oneshot::Sender<Result<(), Failure>>),
}

/// A statement, and the channel for its answer.
pub(crate) struct Query {
    pub(crate) statement: Statement,
    pub(crate) arguments: Vec<Argument>,
    pub(crate) bounds: Bounds,
    pub(crate) answer: oneshot::Sender<Result<Answer, Failure>>,
}

/// The commands of a transaction.
pub(crate) struct Commands {
    pub(crate) received: mpsc::Receiver<Command>,
    /// The time at which the transaction is rolled back if it has not ended.
    pub(crate) deadline: Instant,
}

/// The idle connections.
pub(crate) struct Connections<S: Server>(Arc<Inner<S>>);

struct Inner<S> {
    server: Arc<S>,
    idle: Mutex<Vec<Handle<S>>>,
}

type Handle<S> = mpsc::Sender<Job<S>>;

/// Work for a connection, which is lent until the work is done.
struct Job<S> {
    work: Work,
    lent: ConnectionLoan<S>,
}

enum Work {
    Statement(Query),
    Transaction(Commands),
}

/// A job's right to its connection.
struct ConnectionLoan<S> {
    /// The channel to the same connection for the next job. It returns to the pool together with the permit.
    back: Handle<S>,
    pool: Arc<Inner<S>>,
    _place: ConnectionPermit,
}

/// Maximum time that a server may take to end a transaction.
const END_MAX: Duration = Duration::from_secs(5);

impl<S: Server> Connections<S> {
    pub(crate) fn new(server: S) -> Connections<S> {
        Connections(Arc::new(Inner { server: Arc::new(server), idle: Mutex::default() }))
    }

    pub(crate) async fn run(
        &self,
        place: ConnectionPermit,
        statement: &Statement,
        arguments: Vec<Argument>,
        bounds: Bounds,
    ) -> Result<Answer, Failure> {
        let (answer, answered) = oneshot::channel();
        let statement = statement.clone();
        self.lend(place, Work::Statement(Query { statement, arguments, bounds, answer }));
        let lost = || Err(Failure::Unavailable("its connection has ended".to_owned()));
        answered.await.unwrap_or_else(|_| lost())
    }

    /// Gives a transaction a connection until its commands end.
    pub(crate) fn transact(&self, place: ConnectionPermit, commands: Commands) {
        self.lend(place, Work::Transaction(commands));
    }

    fn lend(&self, place: ConnectionPermit, work: Work) {
        let back = self.0.idle();
        let handle = back.clone();
        let job = Job { work, lent: ConnectionLoan { back, pool: self.0.clone(), _place: place } };
        // An idle connection has room for a job, so this fails only if the connection has just ended. Then a new one is opened.
        if let Err(refused) = handle.try_send(job) {
            let mut job = refused.into_inner();
            job.lent.back = self.0.open();
            let handle = job.lent.back.clone();
            // Harmless: a new connection has room. If it has already ended, the caller learns that its connection was lost.
            let _ = handle.try_send(job);
        }
    }
}

impl<S: Server> Inner<S> {
    /// Returns an idle connection, or a new one.
    fn idle(&self) -> Handle<S> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(handle) = idle.pop() {
            if !handle.is_closed() {
                return handle;
            }
        }
        drop(idle);
        self.open()
    }

    fn open(&self) -> Handle<S> {
        let (handle, jobs) = mpsc::channel(1);
        // The task ends when its last handle is dropped.
        kit::spawn(serve(self.server.clone(), jobs));
        handle
    }
}

impl<S> ConnectionLoan<S> {
    fn give_back(self) {
        let mut idle = self.pool.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push(self.back);
    }
}

/// The task of a connection.
async fn serve<S: Server>(server: Arc<S>, mut jobs: mpsc::Receiver<Job<S>>) {
    let mut session = None;
    while let Ok(Some(job)) = tokio::time::timeout(IDLE_MAX, jobs.recv()).await {
        match job.work {
            Work::Statement(query) => alone(&*server, &mut session, query, job.lent).await,
            Work::Transaction(commands) => {
                transact(&*server, &mut session, commands).await;
                job.lent.give_back();
            }
        }
    }
}

/// Runs one statement, and returns the connection to the pool.
async fn alone<S: Server>(
    server: &S,
    session: &mut Option<S::Session>,
    mut query: Query,
    lent: ConnectionLoan<S>,
) {
    let outcome = run(server, session, &mut query, StatementPlace::Alone).await;
    match &outcome {
        Ok(_) | Err(Failure::Refused(_) | Failure::Busy(_)) => lent.give_back(),
        Err(Failure::Late | Failure::TooLarge(_)) => {
            // The caller gets its answer first, because the server may be slow to cancel the statement.
            query.tell(outcome);
            if let Some(session) = session.take() {
                server.cancel(session).await;
            }
            lent.give_back();
            return;
        }
        Err(Failure::Unavailable(_)) => {
            *session = None;
            lent.give_back();
        }
    }
    query.tell(outcome);
}

/// Runs a statement within its bounds, for as long as the caller waits.
async fn run<S: Server>(
    server: &S,
    session: &mut Option<S::Session>,
    query: &mut Query,
    place: StatementPlace,
) -> Result<Answer, Failure> {
    let Query { statement, arguments, bounds, answer } = query;
    let work = server.run(session, statement, arguments, *bounds, place);
    let work = pin!(tokio::time::timeout_at(bounds.deadline, work));
    match select(work, pin!(answer.closed())).await {
        Either::Left((Ok(outcome), _)) => outcome,
        Either::Left((Err(_), _)) | Either::Right(_) => Err(Failure::Late),
    }
}

/// Runs a transaction to its end. It ends with the first statement that fails.
async fn transact<S: Server>(server: &S, session: &mut Option<S::Session>, commands: Commands) {
    let Commands { mut received, deadline } = commands;
    let mut has_begun = false;
    while let Ok(Some(command)) = tokio::time::timeout_at(deadline, received.recv()).await {
        let mut query = match command {
            Command::Run(query) => query,
            Command::End(how, told) => {
                // Harmless: the caller may have stopped waiting.
                let _ = told.send(end(server, session, how).await);
                return;
            }
        };
        let begun = if has_begun {
            Ok(())
        } else {
            let begun = tokio::time::timeout_at(query.bounds.deadline, server.begin(session));
            begun.await.unwrap_or(Err(Failure::Late))
        };
        has_begun = true;
        let outcome = match begun {
            Ok(()) => run(server, session, &mut query, StatementPlace::Transaction).await,
            Err(failure) => Err(failure),
        };
        match &outcome {
            Ok(_) => query.tell(outcome),
            Err(Failure::Refused(_) | Failure::Busy(_)) => {
                // The transaction is rolled back before the caller learns of the failure.
                // Harmless: if it cannot be rolled back, the connection is closed, which does the same.
                let _ = end(server, session, TransactionEnd::Rollback).await;
                query.tell(outcome);
                return;
            }
            Err(Failure::Late | Failure::TooLarge(_)) => {
                query.tell(outcome);
                if let Some(session) = session.take() {
                    server.cancel(session).await;
                }
                return;
            }
            Err(Failure::Unavailable(_)) => {
                *session = None;
                query.tell(outcome);
                return;
            }
        }
    }
    // Harmless: if it cannot be rolled back, the connection is closed, which does the same.
    let _ = end(server, session, TransactionEnd::Rollback).await;
}

/// Ends the transaction. If the server cannot be reached, closes the connection, so that the server rolls back.
async fn end<S: Server>(
    server: &S,
    kept: &mut Option<S::Session>,
    how: TransactionEnd,
) -> Result<(), Failure> {
    // Harmless: without a connection there is no transaction.
    let Some(session) = kept else { return Ok(()) };
    let ended = match tokio::time::timeout(END_MAX, server.end(session, how)).await {
        Ok(ended) => ended,
        Err(_) => Err(Failure::Unavailable("the server does not answer".to_owned())),
    };
    if let Err(Failure::Unavailable(_)) = &ended {
        *kept = None;
    }
    ended.map_err(|failure| match (failure, how) {
        (Failure::Unavailable(why), TransactionEnd::Commit) => {
            Failure::Unavailable(format!("{why}; whether the transaction took effect is not known"))
        }
        (failure, _) => failure,
    })
}

impl Query {
    pub(crate) fn tell(self, outcome: Result<Answer, Failure>) {
        // Harmless: the caller may have stopped waiting.
        let _ = self.answer.send(outcome);
    }
}

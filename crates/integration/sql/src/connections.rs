//! The connections to a server. Each is a task that runs one statement after another.
//!
//! A connection receives jobs from workers. It belongs to the worker that opened it, and is lent to callers that hold a permit of the pool.
//! If a caller stops waiting, its statement does not keep running unnoticed: the task first cancels it at the server.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::{Either, select};
use tokio::sync::{mpsc, oneshot};

use crate::pool::ConnectionPermit;
use crate::{Answer, Argument, Bounds, Failure, Statement};

/// An idle connection is closed after this time, so that those of a busy hour are not kept without end.
const IDLE_MAX: Duration = Duration::from_secs(600);

/// A server: how to connect to it, and what to send over a connection.
pub(crate) trait Server: Send + Sync + 'static {
    /// An open connection, closed when dropped.
    type Session;

    /// Runs a statement on the connection. Connects anew if there is none, or if it was lost before anything was sent.
    fn run(
        &self,
        kept: &mut Option<Self::Session>,
        statement: &Statement,
        arguments: &[Argument],
        bounds: Bounds,
    ) -> impl Future<Output = Result<Answer, Failure>>;

    /// Cancels the running statement and closes the connection, because a late cancel request would hit the next statement.
    fn cancel(&self, session: Self::Session) -> impl Future<Output = ()>;
}

/// The idle connections.
pub(crate) struct Connections<S: Server>(Arc<Inner<S>>);

struct Inner<S> {
    server: Arc<S>,
    idle: Mutex<Vec<Handle<S>>>,
}

type Handle<S> = mpsc::Sender<Job<S>>;

/// One statement to run.
struct Job<S> {
    statement: Statement,
    arguments: Vec<Argument>,
    bounds: Bounds,
    answer: oneshot::Sender<Result<Answer, Failure>>,
    /// The channel to the same connection for the next statement. It returns to the pool together with the permit.
    back: Handle<S>,
    pool: Arc<Inner<S>>,
    place: ConnectionPermit,
}

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
        let (statement, pool) = (statement.clone(), self.0.clone());
        let back = self.0.idle();
        let handle = back.clone();
        let job = Job { statement, arguments, bounds, answer, back, pool, place };
        // An idle connection has room for a job. This fails only if it has just ended; then a new one is opened.
        if let Err(refused) = handle.try_send(job) {
            let mut job = refused.into_inner();
            job.back = self.0.open();
            let handle = job.back.clone();
            // Harmless: a new connection has room. If it has ended already, its error is reported.
            let _taken = handle.try_send(job);
        }
        drop(handle);
        let lost = || Err(Failure::Away("its connection has ended".to_owned()));
        answered.await.unwrap_or_else(|_| lost())
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

/// A job's right to its connection.
struct Lent<S> {
    back: Handle<S>,
    pool: Arc<Inner<S>>,
    _place: ConnectionPermit,
}

impl<S> Job<S> {
    /// Returns the connection to the pool and reports the result.
    fn done(self, outcome: Result<Answer, Failure>) {
        let (lent, answer) = self.split();
        lent.give_back();
        // Harmless: the caller may have stopped waiting.
        let _heard = answer.send(outcome);
    }

    /// Reports the result. The connection is not returned yet.
    fn tell(self, outcome: Result<Answer, Failure>) -> Lent<S> {
        let (lent, answer) = self.split();
        // Harmless: the caller may have stopped waiting.
        let _heard = answer.send(outcome);
        lent
    }

    fn split(self) -> (Lent<S>, oneshot::Sender<Result<Answer, Failure>>) {
        (Lent { back: self.back, pool: self.pool, _place: self.place }, self.answer)
    }
}

impl<S> Lent<S> {
    fn give_back(self) {
        let mut idle = self.pool.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push(self.back);
    }
}

/// The task of a connection.
async fn serve<S: Server>(server: Arc<S>, mut jobs: mpsc::Receiver<Job<S>>) {
    let mut session = None;
    while let Ok(Some(mut job)) = tokio::time::timeout(IDLE_MAX, jobs.recv()).await {
        let Job { statement, arguments, bounds, answer, .. } = &mut job;
        let outcome = {
            let work = server.run(&mut session, statement, arguments, *bounds);
            let work = pin!(tokio::time::timeout_at(bounds.deadline, work));
            match select(work, pin!(answer.closed())).await {
                Either::Left((Ok(outcome), _)) => outcome,
                Either::Left((Err(_), _)) | Either::Right(_) => Err(Failure::Late),
            }
        };
        match &outcome {
            Ok(_) | Err(Failure::Refused(_) | Failure::Busy(_)) => job.done(outcome),
            Err(Failure::Late | Failure::TooMuch(_)) => {
                // The caller gets its answer first, because the server may be slow to cancel the statement.
                let lent = job.tell(outcome);
                if let Some(session) = session.take() {
                    server.cancel(session).await;
                }
                lent.give_back();
            }
            Err(Failure::Away(_)) => {
                session = None;
                job.done(outcome);
            }
        }
    }
}

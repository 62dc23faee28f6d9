//! A database with its connections. All workers together have a bounded number of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kit::clock::Instant;
use tokio::sync::Semaphore;

use crate::connections::{Commands, ConnectionPermit, Connections};
use crate::sqlite::StopOnDrop;
use crate::{
    Address, Answer, Argument, Bounds, Failure, Statement, mysql, postgres, rehearsal, sqlite,
};

/// The settings of a database.
#[derive(Debug, Clone, PartialEq)]
pub struct DatabaseSettings {
    /// The name used in the log and in test cases.
    pub name: String,
    pub address: Address,
    /// The TLS client, or `None` if TLS is not used.
    pub tls: Option<tls::Client>,
    /// Maximum number of connections.
    pub connections: usize,
}

/// A database in which statements are run.
pub struct Database {
    name: String,
    way: Driver,
    places: Arc<Semaphore>,
    waiting: AtomicUsize,
}

enum Driver {
    Postgres(Connections<postgres::Server>),
    MySql(Connections<mysql::Server>),
    Sqlite(sqlite::Pool),
}

/// Maximum number of statements that wait for a connection; more are refused. The message of each waiting statement is in memory.
const WAITING_MAX: usize = 10_000;

impl Database {
    /// Creates a database without connections. Statements open them.
    pub fn new(settings: DatabaseSettings) -> Database {
        let DatabaseSettings { name, address, tls, connections } = settings;
        Database {
            way: match address {
                Address::Postgres { config, .. } => {
                    Driver::Postgres(Connections::new(postgres::Server::new(*config, tls)))
                }
                Address::MySql(address) => {
                    Driver::MySql(Connections::new(mysql::Server::new(*address, tls)))
                }
                Address::Sqlite { path, mode } => Driver::Sqlite(sqlite::Pool::new(path, mode)),
            },
            name,
            places: Arc::new(Semaphore::new(connections)),
            waiting: AtomicUsize::new(0),
        }
    }

    /// Runs a statement. If the future is dropped, the statement is cancelled.
    pub async fn run(
        &self,
        statement: &Statement,
        arguments: Vec<Argument>,
        bounds: Bounds,
    ) -> Result<Answer, Failure> {
        if let Some(answer) = self.rehearsed(statement, &arguments, bounds).await {
            return answer;
        }
        let place = self.place(bounds.deadline).await?;
        match &self.way {
            Driver::Postgres(pool) => pool.run(place, statement, arguments, bounds).await,
            Driver::MySql(pool) => pool.run(place, statement, arguments, bounds).await,
            Driver::Sqlite(pool) => pool.run(place, statement, arguments, bounds).await,
        }
    }

    /// Waits for a connection, and gives it to a transaction until its commands end. Dropping the returned value stops the transaction.
    pub(crate) async fn transact(
        &self,
        commands: Commands,
        deadline: Instant,
    ) -> Result<Option<StopOnDrop>, Failure> {
        let place = self.place(deadline).await?;
        Ok(match &self.way {
            Driver::Postgres(pool) => {
                pool.transact(place, commands);
                None
            }
            Driver::MySql(pool) => {
                pool.transact(place, commands);
                None
            }
            Driver::Sqlite(pool) => Some(pool.transact(place, commands)),
        })
    }

    /// Returns the answer of a test case to a statement, or `None` if the network is not simulated.
    pub(crate) async fn rehearsed(
        &self,
        statement: &Statement,
        arguments: &[Argument],
        bounds: Bounds,
    ) -> Option<Result<Answer, Failure>> {
        let wire = kit::stand_in::dialled(&format!("database {}", self.name))?;
        Some(match wire {
            Ok(wire) => rehearsal::run(wire, statement, arguments, bounds).await,
            Err(error) => Err(Failure::Unavailable(error.to_string())),
        })
    }

    /// Waits for the right to use a connection. The longest-waiting statement gets it first.
    async fn place(&self, deadline: Instant) -> Result<ConnectionPermit, Failure> {
        let places = self.places.clone();
        // Harmless: if no connection is free, the code below waits for one.
        if let Ok(place) = places.clone().try_acquire_owned() {
            return Ok(place);
        }
        let busy = |why: &str| {
            Failure::Busy(format!(
                "all connections of the database {} are in use, {why}",
                self.name
            ))
        };
        let _waiting = Waiter::one_more(&self.waiting)
            .ok_or_else(|| busy(&format!("and {WAITING_MAX} statements wait for one")))?;
        match tokio::time::timeout_at(deadline, places.acquire_owned()).await {
            Ok(Ok(place)) => Ok(place),
            Ok(Err(_)) | Err(_) => Err(busy("and none became free in time")),
        }
    }
}

/// Counts a waiting statement until dropped.
struct Waiter<'a>(&'a AtomicUsize);

impl Waiter<'_> {
    fn one_more(count: &AtomicUsize) -> Option<Waiter<'_>> {
        let before = count.fetch_add(1, Ordering::Relaxed);
        // If there are too many, dropping the waiter decrements the count again.
        let waiting = Waiter(count);
        (before < WAITING_MAX).then_some(waiting)
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

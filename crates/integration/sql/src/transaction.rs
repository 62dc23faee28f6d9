//! A transaction: statements over one connection, which take effect together.
//!
//! The first statement takes the connection. A transaction that is dropped or reaches its deadline is rolled back.

use std::sync::Arc;

use kit::clock::Instant;
use tokio::sync::{Mutex, mpsc, oneshot};

use crate::connections::{Command, Commands, Query, TransactionEnd};
use crate::sqlite::StopOnDrop;
use crate::{Answer, Argument, Bounds, Database, Failure, Statement};

/// A transaction in a database. Statements of concurrent callers run one after another.
pub struct Transaction {
    database: Arc<Database>,
    deadline: Instant,
    progress: Mutex<Progress>,
}

enum Progress {
    /// No statement has run.
    Untouched,
    Open(OpenTransaction),
    /// A statement has failed or was abandoned, or the transaction is over.
    Ended,
}

struct OpenTransaction {
    commands: mpsc::Sender<Command>,
    _stop: Option<StopOnDrop>,
}

impl Transaction {
    /// Creates a transaction. It is rolled back if it has not ended at the deadline.
    pub fn new(database: Arc<Database>, deadline: Instant) -> Transaction {
        Transaction { database, deadline, progress: Mutex::new(Progress::Untouched) }
    }

    /// Returns true if the transaction is in this database.
    pub fn is_in(&self, database: &Arc<Database>) -> bool {
        Arc::ptr_eq(&self.database, database)
    }

    /// Runs a statement. If it fails or the future is dropped, the transaction is rolled back.
    pub async fn run(
        &self,
        statement: &Statement,
        arguments: Vec<Argument>,
        bounds: Bounds,
    ) -> Result<Answer, Failure> {
        let mut progress = self.progress.lock().await;
        // Until the statement has succeeded, the transaction counts as one that has failed.
        let open = match std::mem::replace(&mut *progress, Progress::Ended) {
            Progress::Ended => return Err(ended()),
            Progress::Open(open) => open,
            Progress::Untouched => {
                if let Some(answer) = self.database.rehearsed(statement, &arguments, bounds).await {
                    if answer.is_ok() {
                        *progress = Progress::Untouched;
                    }
                    return answer;
                }
                self.open(bounds.deadline).await?
            }
        };
        let (answer, answered) = oneshot::channel();
        let statement = statement.clone();
        let query = Query { statement, arguments, bounds, answer };
        open.send(Command::Run(query)).await?;
        let answer = answered.await.map_err(|_| gone())?;
        if answer.is_ok() {
            *progress = Progress::Open(open);
        }
        answer
    }

    /// Commits all statements.
    pub async fn commit(&self) -> Result<(), Failure> {
        let mut progress = self.progress.lock().await;
        match std::mem::replace(&mut *progress, Progress::Ended) {
            Progress::Ended => Err(ended()),
            Progress::Untouched => Ok(()),
            Progress::Open(open) => open.end(TransactionEnd::Commit).await,
        }
    }

    /// Rolls back all statements.
    pub async fn roll_back(&self) {
        let mut progress = self.progress.lock().await;
        if let Progress::Open(open) = std::mem::replace(&mut *progress, Progress::Ended) {
            // Harmless: if it cannot be rolled back, the connection is closed, which does the same.
            let _ = open.end(TransactionEnd::Rollback).await;
        }
    }

    async fn open(&self, deadline: Instant) -> Result<OpenTransaction, Failure> {
        let (commands, received) = mpsc::channel(1);
        let received = Commands { received, deadline: self.deadline };
        let _stop = self.database.transact(received, deadline).await?;
        Ok(OpenTransaction { commands, _stop })
    }
}

impl OpenTransaction {
    async fn send(&self, command: Command) -> Result<(), Failure> {
        self.commands.send(command).await.map_err(|_| gone())
    }

    async fn end(&self, how: TransactionEnd) -> Result<(), Failure> {
        let (told, heard) = oneshot::channel();
        self.send(Command::End(how, told)).await?;
        heard.await.map_err(|_| gone())?
    }
}

fn ended() -> Failure {
    Failure::Refused("the transaction has ended".to_owned())
}

fn gone() -> Failure {
    let what = "the transaction has ended: it took too long, or its connection was lost";
    Failure::Unavailable(what.to_owned())
}

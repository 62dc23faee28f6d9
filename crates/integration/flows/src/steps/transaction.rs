//! `transaction`: steps whose statements in one database take effect together, or not at all.

use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;

use fault::Fault;
use kit::clock;
use policy::Decision;
use sql::Database;

use crate::levels::{ActionNeeds, Levels};
use crate::open_transaction::OpenTransaction;
use crate::run_steps::run_steps;
use crate::state::{Run, State};
use crate::step::{Action, Step, StepRun, Steps, StepsEnd};
use crate::steps::sql::fault;
use crate::timeout::{flow_timeout, within};

/// Steps that run in a transaction.
pub struct Transaction {
    pub database: Arc<Database>,
    /// The database's name.
    pub name: Box<str>,
    pub steps: Steps,
}

impl Action for Transaction {
    fn needs(&self, _levels: &Levels<'_>) -> ActionNeeds {
        ActionNeeds { levels: Some(0), ..ActionNeeds::default() }
    }

    fn inner(&self) -> Vec<&Steps> {
        vec![&self.steps]
    }

    fn run<'a>(&'a self, _step: &'a Step, run: &'a Run<'a>, state: &'a mut State) -> StepRun<'a> {
        // Inside a transaction in the same database, the statements belong to the outer transaction.
        if state.transactions.iter().any(|open| open.0.is_in(&self.database)) {
            return Decision::Waits(run_steps(&self.steps, run, state));
        }
        Decision::Waits(Box::pin(transact(self, run, state)))
    }
}

/// Runs the steps, and commits unless one fails.
async fn transact(step: &Transaction, run: &Run<'_>, state: &mut State) -> Result<StepsEnd, Fault> {
    let transaction = sql::Transaction::new(step.database.clone(), state.deadline);
    let open = OpenTransaction(Rc::new(transaction));
    state.transactions.push(open.clone());
    let ended = run_steps(&step.steps, run, state).await;
    state.transactions.pop();
    let began = clock::now();
    let left = state.left_at(began);
    let done = match ended {
        Ok(ended) => match within(left, pin!(open.0.commit())).await {
            Some(committed) => {
                committed.map(|()| ended).map_err(|failure| fault(&step.name, &failure))
            }
            None => Err(flow_timeout()),
        },
        Err(fault) => {
            // Harmless: if the rollback takes too long, the transaction is rolled back when its connection is closed.
            let _ = within(left, pin!(open.0.roll_back())).await;
            Err(fault)
        }
    };
    run.waited.set(clock::now().duration_since(began));
    done
}

//! What all connections of a worker share: its index, and the plan that it serves now.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use pipeline::Recorders;
use plan::Plan;

/// State that all connections of a worker share.
pub(crate) struct Worker {
    pub(crate) index: usize,
    current: RefCell<Rc<Current>>,
}

/// The state that a request holds from its arrival on: the plan until it is answered, and the recorders until its reply ends.
pub(crate) struct Current {
    pub(crate) plan: Arc<Plan>,
    pub(crate) recorders: Rc<Recorders>,
}

impl Worker {
    pub(crate) fn new(index: usize, current: Rc<Current>) -> Rc<Worker> {
        Rc::new(Worker { index, current: RefCell::new(current) })
    }

    /// Returns the first and only worker of a process that serves one plan.
    pub(crate) fn of(plan: Arc<Plan>, recorders: Rc<Recorders>) -> Rc<Worker> {
        Worker::new(0, Rc::new(Current { plan, recorders }))
    }

    /// Serves another plan from now on.
    pub(crate) fn publish(&self, current: Rc<Current>) {
        self.current.replace(current);
    }

    pub(crate) fn current(&self) -> Rc<Current> {
        self.current.borrow().clone()
    }
}

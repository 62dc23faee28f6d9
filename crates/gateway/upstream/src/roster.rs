//! The targets of an upstream on one worker: each with the worker's connections to it and its balancing state.
//!
//! An attempt keeps the roster with which it began. When the upstream's set has changed, the next attempt gets a new roster, in
//! which remaining targets keep their places.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use crate::connect::Connection;
use crate::h2;
use crate::target::Target;
use crate::target_set::TargetSet;
use kit::clock::Instant;

/// The targets at one time, with their places.
pub(crate) struct Roster {
    pub(crate) set: Arc<TargetSet>,
    /// The places, in the order of the set's members.
    pub(crate) places: Vec<Rc<WorkerTarget>>,
}

/// One target on one worker.
pub(crate) struct WorkerTarget {
    pub(crate) target: Arc<Target>,
    /// Idle connections. The most recently used is last.
    pub(crate) idle: RefCell<Vec<Idle>>,
    /// Shared HTTP/2 connections.
    pub(crate) connections: RefCell<h2::TargetConnections>,
    /// The credit for smooth weighted round robin.
    pub(crate) credit: Cell<i64>,
    /// The losses of the target's addresses when they were last checked.
    pub(crate) losses: Cell<u32>,
}

pub(crate) struct Idle {
    pub(crate) connection: Connection,
    pub(crate) since: Instant,
}

impl Roster {
    /// Creates the roster of a set. Targets that had a place in `before` keep it.
    pub(crate) fn new(set: Arc<TargetSet>, before: &[Rc<WorkerTarget>]) -> Roster {
        let before: HashMap<*const Target, &Rc<WorkerTarget>> =
            before.iter().map(|place| (Arc::as_ptr(&place.target), place)).collect();
        let place = |target: &Arc<Target>| match before.get(&Arc::as_ptr(target)) {
            Some(place) => Rc::clone(place),
            None => Rc::new(WorkerTarget::new(target.clone())),
        };
        let places = set.members().iter().map(|member| place(&member.target)).collect();
        Roster { set, places }
    }
}

impl WorkerTarget {
    fn new(target: Arc<Target>) -> WorkerTarget {
        WorkerTarget {
            target,
            idle: RefCell::default(),
            connections: RefCell::default(),
            credit: Cell::new(0),
            losses: Cell::new(0),
        }
    }
}

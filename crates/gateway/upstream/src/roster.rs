//! The targets of an upstream as one worker has them: each with the worker's connections to it and its turn.
//!
//! A call keeps the roster with which it began an attempt. When the upstream's set has changed, the next attempt gets a new roster,
//! in which targets that stay have their old places.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use crate::connect::Connection;
use crate::h2;
use crate::target::Target;
use crate::target_set::TargetSet;
use kit::clock::Instant;

/// The targets at one moment, with their places.
pub(crate) struct Roster {
    pub(crate) set: Arc<TargetSet>,
    /// In the order of the set's members.
    pub(crate) places: Vec<Rc<Place>>,
}

/// One target on one worker.
pub(crate) struct Place {
    pub(crate) target: Arc<Target>,
    /// Connections that wait; the most recently used last.
    pub(crate) idle: RefCell<Vec<Idle>>,
    /// Shared connections, of HTTP/2.
    pub(crate) connections: RefCell<h2::TargetConnections>,
    /// Smooth weighted round robin: what it has earned.
    pub(crate) credit: Cell<i64>,
    /// The addresses that the target had lost when that was last looked at, as a number that changes.
    pub(crate) losses: Cell<u32>,
}

pub(crate) struct Idle {
    pub(crate) connection: Connection,
    pub(crate) since: Instant,
}

impl Roster {
    /// The places of a set, those that there were before included.
    pub(crate) fn new(set: Arc<TargetSet>, before: &[Rc<Place>]) -> Roster {
        let before: HashMap<*const Target, &Rc<Place>> =
            before.iter().map(|place| (Arc::as_ptr(&place.target), place)).collect();
        let place = |target: &Arc<Target>| match before.get(&Arc::as_ptr(target)) {
            Some(place) => Rc::clone(place),
            None => Rc::new(Place::new(target.clone())),
        };
        let places = set.members().iter().map(|member| place(&member.target)).collect();
        Roster { set, places }
    }
}

impl Place {
    fn new(target: Arc<Target>) -> Place {
        Place {
            target,
            idle: RefCell::default(),
            connections: RefCell::default(),
            credit: Cell::new(0),
            losses: Cell::new(0),
        }
    }
}

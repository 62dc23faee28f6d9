//! A client connection, as HTTP/1 and HTTP/2 see it.

use std::rc::Rc;

use policy::Caller;

use crate::connections::Permit;
use crate::worker_state::Worker;

/// The parts of a client connection that both HTTP/1 and HTTP/2 use.
pub(crate) struct Connection {
    pub(crate) worker: Rc<Worker>,
    pub(crate) permit: Permit,
    pub(crate) caller: Rc<Caller>,
}

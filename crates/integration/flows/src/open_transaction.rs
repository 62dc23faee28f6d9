//! A transaction in a database that the running steps are in.

use std::fmt;
use std::rc::Rc;

/// A transaction that the running steps are in. Branches share it.
#[derive(Clone)]
pub(crate) struct OpenTransaction(pub(crate) Rc<sql::Transaction>);

impl fmt::Debug for OpenTransaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OpenTransaction")
    }
}

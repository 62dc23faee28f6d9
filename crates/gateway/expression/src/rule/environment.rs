//! The functions that an expression can call: those of CEL, and those that are inserted into a compiled expression.

use std::sync::{Arc, LazyLock};

use cel::Env;

use super::{meter, operators, wide};

/// Returns the functions of CEL together with the inserted ones. It is created once.
pub(super) fn env() -> &'static Arc<Env> {
    static ENV: LazyLock<Arc<Env>> = LazyLock::new(|| {
        let mut env = Env::stdlib();
        let all_new =
            meter::declare(&mut env) && operators::declare(&mut env) && wide::declare(&mut env);
        debug_assert!(all_new, "the library already has one of these names");
        Arc::new(env)
    });
    &ENV
}

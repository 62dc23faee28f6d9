//! `headers`: changes headers of requests and replies. On each side, it renames, removes, replaces, sets, defaults and adds, in this order.

use crate::decode::keys;
use crate::values::{Map, Spanned, StatusRange};

keys! {
    /// Changes headers of the request and of the reply. In values `{NAME}` stands for a path parameter, `{subject}`, `{tier}`,
    /// `{claims.NAME}`, `{request_id}`, `{client}` or `{port}`, on the request also `{method}`, `{host}`, `{hostname}`, `{path}`,
    /// `{prefix}`, `{query}`, `{headers.NAME}` or `{query.NAME}`, and `{{NAME}}` for `{NAME}` itself.
    pub struct Headers {
        /// Before the upstream sees the request.
        request: HeadersEdit,
        /// Before the client sees the reply.
        response: HeadersEdit,
    }
}

keys! {
    /// Changes to one side's headers: `rename` first, then `remove`, `replace`, `set`, `default` and `add`.
    pub struct HeadersEdit {
        /// Headers to rename, as `OLD: NEW`. They replace headers that have the new name.
        rename: Map<Spanned<String>> = Map::default(),
        /// Headers to replace if they exist.
        replace: Map<Spanned<String>> = Map::default(),
        /// Headers to replace, or to add if they are missing.
        set: Map<Spanned<String>> = Map::default(),
        /// Headers to add if they are missing.
        default: Map<Spanned<String>> = Map::default(),
        /// Headers to add to those of the same name.
        add: Map<Spanned<String>> = Map::default(),
        /// Headers to remove.
        remove: Vec<Spanned<String>> = Vec::new(),
        /// In `response` only: the statuses of replies that are changed, such as `[404, "500-599"]`; all if absent.
        if_status: Spanned<Vec<StatusRange>> = Spanned::unwritten(Vec::new()),
    }
}

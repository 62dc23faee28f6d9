//! `headers`: changes headers on the way in and out. Per side: rename, remove, then replace, set, default and add.

use crate::decode::keys;
use crate::values::{Map, Spanned, StatusRange};

keys! {
    /// Changes headers of the request and of the reply. In values `{NAME}` stands for a path parameter, `{subject}`, `{tier}`,
    /// `{claims.NAME}`, `{request_id}` or `{client}`, on the request also `{method}`, `{host}`, `{path}` or `{query}`, and
    /// `{{NAME}}` for `{NAME}` itself.
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
        /// Headers to rename, the old name before the new one. They take the place of those that have the new name.
        rename: Map<Spanned<String>> = Map::default(),
        /// Headers to replace where they are there.
        replace: Map<Spanned<String>> = Map::default(),
        /// Headers to replace, or add where missing.
        set: Map<Spanned<String>> = Map::default(),
        /// Headers to add where they are missing.
        default: Map<Spanned<String>> = Map::default(),
        /// Headers to add beside those of the same name.
        add: Map<Spanned<String>> = Map::default(),
        /// Headers to remove.
        remove: Vec<Spanned<String>> = Vec::new(),
        /// In `response` only: the statuses of replies that are changed, such as `[404, "500-599"]`; all if absent.
        if_status: Spanned<Vec<StatusRange>> = Spanned::unwritten(Vec::new()),
    }
}

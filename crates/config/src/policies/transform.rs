//! `transform`: changes the query and forms of requests, and JSON on the way in and out.

use crate::decode::keys;
use crate::values::{JsonText, Map, Size, Spanned, StatusRange};

keys! {
    /// Changes the query of the request, and JSON and forms in the bodies of the request and of the reply. Texts may hold the placeholders
    /// of `headers`. `query` and `json` without `request` are the request's.
    pub struct Transform {
        /// Before the upstream sees the request.
        request: RequestEdit,
        /// Before the client sees the reply.
        response: ResponseEdit,
        /// The same as `request: { query }`.
        query: Option<Spanned<QueryEdit>>,
        /// The same as `request: { json }`.
        json: Option<Spanned<JsonEdit>>,
        /// The largest body that is changed; 413 above for a request, 502 for a reply.
        // A body is held in memory twice, as it came and as it goes.
        body_bytes_max: Size = Size(1024 * 1024),
    }
}

keys! {
    /// Changes to the request.
    pub struct RequestEdit {
        /// Its query.
        query: Option<Spanned<QueryEdit>>,
        /// Its body, where its `Content-Type` is JSON.
        json: Option<Spanned<JsonEdit>>,
        /// Its body, where it is a form (`application/x-www-form-urlencoded`); the keys are those of `query`.
        form: Option<Spanned<QueryEdit>>,
    }
}

keys! {
    /// Changes to the reply.
    pub struct ResponseEdit {
        /// Its body, where its `Content-Type` is JSON.
        json: Option<Spanned<JsonEdit>>,
        /// The statuses of replies that are changed, such as `[404, "500-599"]`; all if absent.
        if_status: Vec<StatusRange> = Vec::new(),
    }
}

keys! {
    /// Changes to the query or to a form: `rename` first, then `remove`, `replace`, `set`, `default` and `add`. Names and values are written as they mean, without
    /// percent-encoding.
    pub struct QueryEdit {
        /// Parameters to rename, the old name before the new one. They take the place of those that have the new name.
        rename: Map<Spanned<String>> = Map::default(),
        /// Parameters to remove.
        remove: Vec<Spanned<String>> = Vec::new(),
        /// Parameters to replace where they are there.
        replace: Map<Spanned<String>> = Map::default(),
        /// Parameters to replace, or add where missing.
        set: Map<Spanned<String>> = Map::default(),
        /// Parameters to add where they are missing.
        default: Map<Spanned<String>> = Map::default(),
        /// Parameters to add beside those of the same name.
        add: Map<Spanned<String>> = Map::default(),
    }
}

keys! {
    /// Changes to a JSON document, all at once. A place is a JSON Pointer such as `/user/name`, or names with dots such as
    /// `user.name`; no place may be another one or stand inside it.
    pub struct JsonEdit {
        /// Values to move, the old place before the new one. A place that is not there is left alone.
        rename: Map<Spanned<String>> = Map::default(),
        /// Places whose values are removed.
        remove: Vec<Spanned<String>> = Vec::new(),
        /// Values by their places, of any kind. Objects on the way to them are made where they are missing.
        set: Map<Spanned<JsonText>> = Map::default(),
    }
}

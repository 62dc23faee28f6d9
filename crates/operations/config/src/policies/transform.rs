//! `transform`: changes the method, the query and forms of requests, and JSON of requests and replies.

use crate::decode::keys;
use crate::values::{JsonText, Map, Size, Spanned, StatusRange};

keys! {
    /// Changes the method, the query and forms of the request, and JSON in the bodies of the request and the reply. Texts may contain the
    /// placeholders of `headers`. `query` and `json` without `request` apply to the request.
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
        // A body is held in memory twice, before and after the changes.
        body_bytes_max: Size = Size(1024 * 1024),
    }
}

keys! {
    /// Changes to the request.
    pub struct RequestEdit {
        /// The method that the upstream gets instead of the client's, such as `POST`. Policies below see it, too.
        method: Option<Spanned<String>>,
        /// Changes to its query.
        query: Option<Spanned<QueryEdit>>,
        /// Changes to its body, if its `Content-Type` is JSON.
        json: Option<Spanned<JsonEdit>>,
        /// Changes to its body, if it is a form (`application/x-www-form-urlencoded` or `multipart/form-data`). The keys are those of
        /// `query`.
        form: Option<Spanned<QueryEdit>>,
    }
}

keys! {
    /// Changes to the reply.
    pub struct ResponseEdit {
        /// Changes to its body, if its `Content-Type` is JSON.
        json: Option<Spanned<JsonEdit>>,
        /// The statuses of replies that are changed, such as `[404, "500-599"]`; all if absent.
        if_status: Vec<StatusRange> = Vec::new(),
    }
}

keys! {
    /// Changes to the query or to a form: `rename` first, then `remove`, `replace`, `set`, `default` and `add`. Names and values are
    /// written without percent-encoding.
    pub struct QueryEdit {
        /// Parameters to rename, as `OLD: NEW`. They replace parameters that have the new name.
        rename: Map<Spanned<String>> = Map::default(),
        /// Parameters to remove.
        remove: Vec<Spanned<String>> = Vec::new(),
        /// Parameters to replace if they exist.
        replace: Map<Spanned<String>> = Map::default(),
        /// Parameters to replace, or to add if they are missing.
        set: Map<Spanned<String>> = Map::default(),
        /// Parameters to add if they are missing.
        default: Map<Spanned<String>> = Map::default(),
        /// Parameters to add to those of the same name.
        add: Map<Spanned<String>> = Map::default(),
    }
}

keys! {
    /// Changes to a JSON document, which are applied all at once. A place is a JSON Pointer such as `/user/name`, or names with dots such
    /// as `user.name`. No place may be equal to another or inside it.
    pub struct JsonEdit {
        /// Values to move, as `OLD: NEW`. A place that does not exist is ignored.
        rename: Map<Spanned<String>> = Map::default(),
        /// Places whose values are removed.
        remove: Vec<Spanned<String>> = Vec::new(),
        /// Values of any kind, by their places. Missing objects on the path are created.
        set: Map<Spanned<JsonText>> = Map::default(),
    }
}

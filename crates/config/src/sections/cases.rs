//! `cases.NAME`: what `tidegate test` sends, what it answers for upstreams, and what it expects. The gateway never reads them.

use std::time::Duration;

use crate::decode::keys;
use crate::flows::JsonTemplate;
use crate::values::{Between, FilePath, Map, OneOrMore, Spanned};

keys! {
    /// One case: a request, the calls that it causes, and the reply.
    pub struct Case {
        /// The request.
        request: CaseRequest,
        /// The calls that it causes, in any order. One that is not here and one that is not made fail the case.
        calls: Vec<Spanned<CaseCall>> = Vec::new(),
        /// The reply that is expected. Parts that are not written are not compared.
        reply: CaseReply,
    }
}

keys! {
    /// The request of a case.
    pub struct CaseRequest {
        /// The method.
        method: Spanned<String> = Spanned::unwritten("GET".to_owned()),
        /// The path with its query, such as `/orders?day=1`.
        path: Spanned<String>,
        /// Headers by name. `Host` is `localhost` unless it is here.
        headers: Map<Spanned<String>> = Map::default(),
        /// The body.
        body: Option<Spanned<String>>,
        /// The file with the body, instead of `body`.
        body_file: Option<Spanned<FilePath>>,
    }
}

keys! {
    /// A call of an upstream or a database: what has to come, and what is answered.
    pub struct CaseCall {
        /// The upstream's name; of a URL that a policy calls, scheme, host and port.
        upstream: Option<Spanned<String>>,
        /// The database's name, instead of an upstream's. The request is then `{ "query": ..., "arguments": [...] }`, and the body of
        /// the answer an array of rows, or the number of those that were changed.
        database: Option<Spanned<String>>,
        /// The request that is expected. Parts that are not written are not compared.
        expect: CaseExpect,
        /// The answer.
        reply: CaseAnswer,
    }
}

impl CaseCall {
    /// The peer that is called, by the name it has among upstreams and databases.
    pub fn peer(&self) -> String {
        match (&self.upstream, &self.database) {
            (Some(upstream), _) => upstream.value.clone(),
            (None, Some(database)) => format!("database {}", database.value),
            (None, None) => String::new(),
        }
    }
}

keys! {
    /// The request that is expected at an upstream.
    pub struct CaseExpect {
        /// The method.
        method: Option<Spanned<String>>,
        /// The path. Without a `?` the query is not compared.
        path: Option<Spanned<String>>,
        /// Headers by name, with their exact values.
        headers: Map<Spanned<String>> = Map::default(),
        /// The body, byte for byte.
        body: Option<Spanned<String>>,
        /// The body as XML, by meaning.
        xml: Option<Spanned<String>>,
        /// The body as JSON, by meaning: a value, or a text of JSON.
        json: Option<Spanned<JsonTemplate>>,
    }
}

keys! {
    /// The answer of an upstream.
    pub struct CaseAnswer {
        /// The status.
        status: Between<200, 599> = const { Between::new(200) },
        /// Headers by name.
        headers: Map<Spanned<String>> = Map::default(),
        /// The body.
        body: String = String::new(),
        /// The time that the answer takes.
        // It is waited for, so it is bounded by `compile`.
        delay: Spanned<Duration> = Spanned::unwritten(Duration::ZERO),
    }
}

keys! {
    /// The reply that is expected.
    pub struct CaseReply {
        /// The status.
        status: Option<Between<200, 599>>,
        /// Headers by name, with their exact values.
        headers: Map<Spanned<String>> = Map::default(),
        /// The body, byte for byte.
        body: Option<Spanned<String>>,
        /// The body as XML, by meaning.
        xml: Option<Spanned<String>>,
        /// The body as JSON, by meaning: a value, or a text of JSON.
        json: Option<Spanned<JsonTemplate>>,
        /// A text, or a list of texts, each somewhere in the body.
        contains: OneOrMore<Spanned<String>> = OneOrMore(Vec::new()),
    }
}

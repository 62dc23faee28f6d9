//! `cases.NAME`: the test cases of `tidegate test`: the request that a case sends, its answers in place of upstreams, and the expected
//! result. A gateway in service ignores them.

use std::time::Duration;

use crate::decode::keys;
use crate::flows::JsonTemplate;
use crate::values::{Between, FilePath, Map, OneOrMore, Spanned};

keys! {
    /// One test case: a request, a message of a queue or a run of a schedule, the calls that it causes, and the reply.
    pub struct Case {
        /// The request.
        request: Option<CaseRequest>,
        /// A message of a queue, which the queue's flow processes once, instead of a request.
        message: Option<Spanned<CaseMessage>>,
        /// The name of a schedule whose flow runs once, instead of a request.
        schedule: Option<Spanned<String>>,
        /// The calls that it causes, in any order. The case fails if a call is made that is not listed, or if a listed call is not made.
        calls: Vec<Spanned<CaseCall>> = Vec::new(),
        /// The messages that are put into queues, by name of the queue, in order. If this key is written, the case fails if a message is
        /// put into any queue that is not listed, or if a listed message is not put.
        queues: Option<Map<Vec<CaseExpect>>>,
        /// The expected reply, or for a queue or a schedule the result of its flow. Parts that are not written are not compared.
        reply: CaseReply,
    }
}

keys! {
    /// A message of a queue.
    pub struct CaseMessage {
        /// The queue's name.
        queue: Spanned<String>,
        /// The method.
        method: Spanned<String> = Spanned::unwritten("POST".to_owned()),
        /// The path with its query.
        path: Spanned<String> = Spanned::unwritten("/".to_owned()),
        /// Headers by name.
        headers: Map<Spanned<String>> = Map::default(),
        /// The body.
        body: Option<Spanned<String>>,
        /// The file with the body, instead of `body`.
        body_file: Option<Spanned<FilePath>>,
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
    /// A call to an upstream or a database: the expected request, and the answer.
    pub struct CaseCall {
        /// The upstream's name, or for a URL that a policy calls its scheme, host and port.
        upstream: Option<Spanned<String>>,
        /// The database's name, instead of an upstream's. The request is then `{ "query": ..., "arguments": [...] }`, and the body of the
        /// answer is an array of rows, or the number of changed rows.
        database: Option<Spanned<String>>,
        /// The expected request. Parts that are not written are not compared.
        expect: CaseExpect,
        /// The answer.
        reply: CaseAnswer,
    }
}

impl CaseCall {
    /// Returns the name of the called upstream or database.
    pub fn peer(&self) -> String {
        match (&self.upstream, &self.database) {
            (Some(upstream), _) => upstream.value.clone(),
            (None, Some(database)) => format!("database {}", database.value),
            (None, None) => String::new(),
        }
    }
}

keys! {
    /// The expected request to an upstream, or the expected message in a queue.
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
        /// How long the answer takes.
        // The test really waits for it, so `compile` bounds it.
        delay: Spanned<Duration> = Spanned::unwritten(Duration::ZERO),
    }
}

keys! {
    /// The expected reply.
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
        /// A text, or a list of texts, each of which must be in the body.
        contains: OneOrMore<Spanned<String>> = OneOrMore(Vec::new()),
        /// A text that must be in the fault with which the flow of a queue or a schedule ends, such as its kind. If absent, a fault fails
        /// the case.
        fault: Option<Spanned<String>>,
    }
}

//! `cases.NAME`: what `tidegate test` sends, what it answers for upstreams, and what it expects. The gateway never reads them.

use std::time::Duration;

use crate::decode::keys;
use crate::flows::JsonTemplate;
use crate::values::{Between, FilePath, Map, OneOrMore, Spanned};

keys! {
    /// One case: a request, a message of a queue or a run of a schedule, the calls that it causes, and the reply.
    pub struct Case {
        /// The request.
        request: Option<CaseRequest>,
        /// A message of a queue, which the queue's flow processes once, instead of a request.
        message: Option<Spanned<CaseMessage>>,
        /// The name of a schedule whose flow runs once, instead of a request.
        schedule: Option<Spanned<String>>,
        /// The calls that it causes, in any order. One that is not here and one that is not made fail the case.
        calls: Vec<Spanned<CaseCall>> = Vec::new(),
        /// By the names of queues the messages that are put into them, in their order. If the key is written, a message that is not
        /// here fails the case, in whatever queue, and so does one that is here and is not put.
        queues: Option<Map<Vec<CaseExpect>>>,
        /// The reply that is expected; of a queue or a schedule what its flow ends with. Parts that are not written are not compared.
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
    /// The request that is expected at an upstream, or the message in a queue.
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
        /// A text somewhere in the fault that the flow of a queue or a schedule ends with, such as its kind. Without it a fault fails
        /// the case.
        fault: Option<Spanned<String>>,
    }
}

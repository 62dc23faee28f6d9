//! `mock`: replies with the examples of an OpenAPI document.

use crate::decode::{keys, words};
use crate::values::{Between, FilePath, Spanned};

keys! {
    /// Answers each request with an example of an OpenAPI document, so that a route with it needs no destination. `Accept` chooses
    /// among media types.
    pub struct Mock {
        /// The document: OpenAPI 3 or Swagger 2. Examples of media types and of schemas count.
        document: Spanned<FilePath>,
        /// The prefix of the document's paths.
        base_path: Option<Spanned<String>>,
        /// The statuses for replies, in order of preference. If absent, an operation's lowest 2xx, or else its lowest status.
        statuses: Vec<Between<200, 599>> = Vec::new(),
        /// Which of several examples: the `first`, or one by `random`.
        // Tests need the same reply each time.
        examples: MockChoice = MockChoice::First,
    }
}

words! {
    /// Which of several examples.
    pub enum MockChoice {
        /// The first of the document.
        First = "first",
        /// Any.
        Random = "random",
    }
}

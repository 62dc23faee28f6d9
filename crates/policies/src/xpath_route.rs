//! `xpath_route`: the upstream chosen by what stands in the message.
//!
//! Owns the order of the cases and the budget of looking. Expressions come compiled; an exchange that no case fits goes
//! where the route says.

mod find;

use std::sync::Arc;

use mediation::{Failed, charset, libxml_messages};
use message::{Gathered, RequestHead};
use policy::{Decision, Exchange, OnBuffered, Onward, Policy, Step};
use xpath::{Budget, DocumentSet, ErrorKind, Evaluation, Expr, Limits, NoHost};

use crate::soap;
use find::Search;

/// Nodes looked at for one message, all cases together.
// As many as a message of the largest size may have, and a few times over.
const STEPS_MAX: u64 = 5_000_000;

/// The step in faults.
const STEP: &str = "Request - XPath routing failed";

/// One case: where a message goes whose value is this.
pub struct Case {
    pub expression: Expr,
    pub equals: String,
    /// Index among the route's diversions.
    pub diversion: usize,
    /// The path and query the upstream is to see, where the case says so.
    pub target: Option<Box<[u8]>>,
}

/// What the policy does.
pub struct Settings {
    pub cases: Vec<Case>,
    pub verbose: bool,
    pub bytes_max: usize,
}

/// The policy.
pub fn policy(settings: Settings) -> Policy {
    let search = Search::of(&settings.cases);
    let step: Box<dyn OnBuffered<RequestHead>> = Box::new(Routing { settings, search });
    Policy { name: "xpath_route", request: Some(Step::Buffered(step)), response: None }
}

struct Routing {
    settings: Settings,
    /// Where all cases can be decided without a tree.
    search: Option<Search>,
}

impl Routing {
    fn fitting(&self, message: &[u8]) -> Result<Option<&Case>, Failed> {
        match &self.search {
            Some(search) => {
                let first = search.first(message);
                let malformed = |error| Failed::client(libxml_messages::malformed(&error, message));
                Ok(first.map_err(malformed)?.and_then(|at| self.settings.cases.get(at)))
            }
            None => self.settings.fitting(message),
        }
    }
}

impl Settings {
    /// By a tree.
    fn fitting(&self, message: &[u8]) -> Result<Option<&Case>, Failed> {
        let document = xml::Document::parse(message, &xml::Options::default())
            .map_err(|error| Failed::client(libxml_messages::malformed(&error, message)))?;
        let world = DocumentSet::new(Arc::new(document));
        let mut budget = Budget::new(Limits { steps_max: STEPS_MAX, ..Limits::default() });
        for case in &self.cases {
            let mut host = NoHost;
            let mut evaluation = Evaluation::of(&world, world.root(), &mut host, &mut budget);
            let fits = match case.expression.first(&mut evaluation) {
                Ok(node) => node.is_some_and(|node| world.string_value(node) == case.equals),
                Err(error) if matches!(error.kind, ErrorKind::Type(_)) => {
                    let text = case.expression.text(&mut evaluation);
                    text.map_err(|error| Failed::server(error.to_string()))? == case.equals
                }
                Err(error) => return Err(Failed::server(error.to_string())),
            };
            if fits {
                return Ok(Some(case));
            }
        }
        Ok(None)
    }
}

impl OnBuffered<RequestHead> for Routing {
    fn bytes_max(&self) -> usize {
        self.settings.bytes_max
    }

    fn on_buffered<'a>(
        &'a self,
        ex: &'a mut Exchange,
        head: &'a mut RequestHead,
        body: &'a mut Gathered,
    ) -> Decision<'a> {
        let settled = charset::settled(head.headers.get("content-type"), &body.bytes);
        let flow = match self.fitting(settled.as_deref().unwrap_or(&body.bytes)) {
            Ok(fitting) => {
                if let Some(case) = fitting {
                    let notes = ex.notes();
                    notes.divert = Some(case.diversion);
                    notes.target.clone_from(&case.target);
                }
                Ok(Onward::Next)
            }
            Err(failed) => Err(soap::refused_request(STEP, failed, self.settings.verbose)),
        };
        Decision::Ready(flow)
    }
}

#[cfg(test)]
mod tests {
    use xpath::Plain;

    use super::*;

    fn settings(cases: &[(&str, &str)]) -> Settings {
        let statics = Plain { prefixes: &[("p", "urn:p")], ..Plain::default() };
        let case = |(at, (path, equals)): (usize, &(&str, &str))| Case {
            expression: Expr::compile(path, &statics).unwrap(),
            equals: (*equals).to_owned(),
            diversion: at,
            target: None,
        };
        let cases = cases.iter().enumerate().map(case).collect();
        Settings { cases, verbose: true, bytes_max: 1 << 20 }
    }

    /// What a tree says and what the search says, again and again, since it goes on from what it knows: and for the same markup
    /// with other values.
    #[test]
    fn the_first_node_of_a_plain_path_is_the_one_in_a_tree() {
        let documents = [
            "<a><b><c>1</c><c>2</c></b></a>",
            "<a><b/><b><c>2</c></b><b><c>1</c></b></a>",
            "<a> <b> <c> 1</c><c>1</c> </b> </a>",
            "<a><b><c><d>1</d><!-- 2 --></c></b></a>",
            "<a><b><c>1<d/>2</c></b></a>",
            "<a><b><c><![CDATA[1]]></c></b></a>",
            "<a><b><c>&#x31;<?x 2?></c></b></a>",
            "<a><b><c a='1'/><c a='2'>2</c></b></a>",
            "<a><b><x><c>1</c></x></b><c>1</c></a>",
            "<a><a><b><c>1</c></b></a></a>",
            "<p:a xmlns:p='urn:p'><b xmlns='urn:p'><c>1</c></b><p:b><c>2</c></p:b></p:a>",
            "<!--1--><a><!--1--><b>1<!--1-->2<?p 1?></b></a><!--2-->",
            "<a>1<b>2</b>1</a>",
            "<a>12</a>",
            "<a/>",
        ];
        let paths = [
            "/a/b/c",
            "/a/b/c/text()",
            "/a/b/*",
            "/a",
            "/*/*",
            "/a/b/node()",
            "/a/text()",
            "/comment()",
            "/a/b/comment()",
            "/a/b/processing-instruction('p')",
            "/a/b/c[@a='2']",
            "/p:a/p:b/p:c",
            "/p:a/p:b",
            "/a/a/b/c",
            "/a/b/c/d/e",
        ];
        let mut fitted = 0;
        for path in paths {
            for equals in ["1", "2", "12", "", " 1", "1 "] {
                let settings = settings(&[(path, equals), (path, "2")]);
                let search = Search::of(&settings.cases).expect(path);
                let other = |document: &&str| document.replace('1', "3").replace('2', "1");
                let others: Vec<String> = documents.iter().map(other).collect();
                let pairs = documents.iter().zip(&others);
                for document in pairs.flat_map(|(one, other)| [one, one, other.as_str(), one]) {
                    let tree = settings.fitting(document.as_bytes()).ok().unwrap();
                    let found = search.first(document.as_bytes()).unwrap();
                    assert_eq!(
                        found,
                        tree.map(|case| case.diversion),
                        "{path} {equals} {document}"
                    );
                    fitted += usize::from(found == Some(0));
                }
            }
        }
        assert!(fitted > 100, "{fitted}");
    }

    #[test]
    fn what_needs_a_tree_gets_one() {
        for path in ["//a", "/a/b[2]", "/a/@b", "a", "/a/..", "/a = 1", "count(/a)", "/a | /b", "/"]
        {
            let settings = settings(&[("/a", "1"), (path, "1")]);
            assert!(Search::of(&settings.cases).is_none(), "{path}");
        }
    }

    #[test]
    fn what_is_malformed_behind_the_node_is_malformed() {
        let settings = settings(&[("/a/b", "1")]);
        let search = Search::of(&settings.cases).unwrap();
        for document in ["<a><b>1</b>", "<a><b>1</b></b>", "<a><b>1</b></a><a/>", ""] {
            assert!(search.first(document.as_bytes()).is_err(), "{document}");
        }
    }
}

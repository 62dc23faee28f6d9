//! Selects one of several cases by the content of a message.
//!
//! Owns the order of the cases and the step budget. Expressions arrive compiled. If all of them are plain paths downwards, the message is
//! searched while it is parsed, and no tree is built.

mod find;

use std::sync::Arc;

use message::GatheredBody;
use xml::Document;
use xpath::{Budget, DocumentSet, ErrorKind, Evaluation, Expr, Limits, NoHost};

use crate::{Rejection, charset, libxml_messages, parsed};
use find::Search;

/// Maximum number of nodes visited for one message, in all cases together: a few times the number of nodes of the largest message.
const STEPS_MAX: u64 = 5_000_000;

/// One case. It matches a message if the first node that the expression selects has the string-value `equals`. If the expression selects no
/// nodes but has a value, the case matches if that value is `equals`.
pub struct Case {
    pub expression: Expr,
    pub equals: String,
}

/// Cases in order.
pub struct Cases {
    cases: Vec<Case>,
    /// The search without a tree, or `None` if some case needs a tree.
    search: Option<Search>,
}

impl Cases {
    pub fn new(cases: Vec<Case>) -> Cases {
        Cases { search: Search::of(&cases), cases }
    }

    /// Returns the index of the first case that a message matches.
    pub fn first(
        &self,
        content_type: Option<&[u8]>,
        body: &mut GatheredBody,
    ) -> Result<Option<usize>, Rejection> {
        let Some(search) = self.search.as_ref().filter(|_| xml::shortcuts()) else {
            return self.in_tree(parsed::tree(content_type, body)?);
        };
        let settled = charset::to_utf8_or_refuse(content_type, &body.bytes)?;
        let (bytes, transcript) = body.transcribed();
        let transcript = transcript.filter(|_| settled.is_none());
        let message = settled.as_deref().unwrap_or(bytes);
        let malformed = |error| Rejection::client(libxml_messages::malformed(&error, message));
        search.first(message, transcript).map_err(malformed)
    }

    fn in_tree(&self, document: Arc<Document>) -> Result<Option<usize>, Rejection> {
        let documents = DocumentSet::new(document);
        let mut budget = Budget::new(Limits { steps_max: STEPS_MAX, ..Limits::default() });
        for (at, case) in self.cases.iter().enumerate() {
            let mut host = NoHost;
            let mut evaluation =
                Evaluation::of(&documents, documents.root(), &mut host, &mut budget);
            let fits = match case.expression.first(&mut evaluation) {
                Ok(node) => node.is_some_and(|node| documents.string_value(node) == case.equals),
                Err(error) if matches!(error.kind, ErrorKind::Type(_)) => {
                    let text = case.expression.text(&mut evaluation);
                    text.map_err(|error| failed(&error))? == case.equals
                }
                Err(error) => return Err(failed(&error)),
            };
            if fits {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }
}

/// If a search exceeds its budget, the sender of the message is responsible.
fn failed(error: &xpath::Error) -> Rejection {
    if matches!(error.kind, ErrorKind::Limit { .. }) {
        Rejection::client(error.to_string())
    } else {
        Rejection::server(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use xpath::Plain;

    use super::*;

    fn cases(cases: &[(&str, &str)]) -> Cases {
        let statics = Plain { prefixes: &[("p", "urn:p")], ..Plain::default() };
        let case = |(path, equals): &(&str, &str)| Case {
            expression: Expr::compile(path, &statics).unwrap(),
            equals: (*equals).to_owned(),
        };
        Cases::new(cases.iter().map(case).collect())
    }

    fn by_tree(cases: &Cases, document: &str) -> Option<usize> {
        let document = Document::parse(document.as_bytes(), &xml::Options::default()).unwrap();
        cases.in_tree(Arc::new(document)).ok().unwrap()
    }

    /// The search gives the same result as a tree, also when it is repeated and reuses what it cached, and for the same markup with other
    /// values.
    #[test]
    fn a_search_without_a_tree_finds_the_same_node() {
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
                let cases = cases(&[(path, equals), (path, "2")]);
                let search = cases.search.as_ref().expect(path);
                let other = |document: &&str| document.replace('1', "3").replace('2', "1");
                let others: Vec<String> = documents.iter().map(other).collect();
                let pairs = documents.iter().zip(&others);
                for document in pairs.flat_map(|(one, other)| [one, one, other.as_str(), one]) {
                    let tree = by_tree(&cases, document);
                    let found = search.first(document.as_bytes(), None).unwrap();
                    assert_eq!(found, tree, "{path} {equals} {document}");
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
            assert!(cases(&[("/a", "1"), (path, "1")]).search.is_none(), "{path}");
        }
    }

    #[test]
    fn messages_malformed_after_the_node_are_refused() {
        let cases = cases(&[("/a/b", "1")]);
        assert!(cases.search.is_some());
        for document in ["<a><b>1</b>", "<a><b>1</b></b>", "<a><b>1</b></a><a/>", ""] {
            let mut body = GatheredBody::new(document.into(), Vec::new());
            assert!(cases.first(None, &mut body).is_err(), "{document}");
        }
    }
}

//! Variables, functions and keys of the caller; several documents; evaluations within evaluations.

use std::rc::Rc;
use std::sync::Arc;

use crate::support::{documents, show, show_node};
use xpath::{
    Budget, Call, DocId, DocumentSet, Error, ErrorKind, Evaluation, Expr, Focus, Host, Lookup,
    Name, Node, Options, Pattern, Statics, Value,
};

/// `$one`, `$nodes`, `$tree`; `doc(xml)`, `again(text)`, `where()`; the key `k`.
struct Caller;

const FUNCTIONS: &[&str] = &["doc", "again", "where", "fail"];

impl Statics for Caller {
    fn namespace(&self, prefix: &str) -> Option<&str> {
        (prefix == "f").then_some("urn:f")
    }

    fn variable(&self, name: &Name) -> Option<u32> {
        ["one", "nodes", "tree"]
            .iter()
            .position(|known| **known == *name.local)
            .map(|at| u32::try_from(at).unwrap())
    }

    fn function(&self, name: &Name, arguments: &[Option<&str>]) -> Lookup {
        if arguments.first() == Some(&Some("never")) {
            return Lookup::WrongArguments("never say never".into());
        }
        let found = FUNCTIONS
            .iter()
            .position(|known| name.uri.as_ref() == "urn:f" && **known == *name.local);
        found.map_or(Lookup::Unknown, |at| Lookup::Found(u32::try_from(at).unwrap()))
    }

    fn key(&self, name: &Name) -> Option<u32> {
        (&*name.local == "k").then_some(7)
    }

    fn options(&self) -> Options {
        Options { current: true, ..Options::default() }
    }
}

impl Host for Caller {
    fn variable(&mut self, number: u32, call: &mut Call<'_>) -> Result<Value, ErrorKind> {
        let root = call.documents.root();
        Ok(match number {
            0 => Value::Number(1.0),
            1 => {
                let document = call.documents.of(root);
                let top = document.root_element().unwrap();
                Value::nodes(document.children(top).map(|id| root.with(id)).collect())
            }
            _ => Value::Tree(root),
        })
    }

    fn call(
        &mut self,
        number: u32,
        arguments: &mut Vec<Value>,
        call: &mut Call<'_>,
    ) -> Result<Value, ErrorKind> {
        match FUNCTIONS[usize::try_from(number).unwrap()] {
            "doc" => {
                let text = arguments[0].to_text(call.documents).into_owned();
                let document = xml::Document::parse(text.as_bytes(), &xml::Options::default())
                    .map_err(|error| ErrorKind::Host(error.to_string().into()))?;
                let doc = call.documents.add(Arc::new(document))?;
                Ok(Value::node(Node::new(doc, xml::Document::ROOT)))
            }
            "again" => {
                let text = arguments[0].to_text(call.documents).into_owned();
                let expr = Expr::compile(&text, &Caller).map_err(|error| error.kind)?;
                let mut evaluation = Evaluation {
                    documents: call.documents,
                    focus: call.focus,
                    host: self,
                    budget: call.budget,
                };
                expr.value(&mut evaluation).map_err(|error| error.kind)
            }
            "where" => {
                let Focus { node, position, size, current } = call.focus;
                let text = format!(
                    "{} {position}/{size} {}",
                    show_node(call.documents, node),
                    show_node(call.documents, current)
                );
                Ok(Value::text(text))
            }
            _ => Err(ErrorKind::Host("it was meant to fail".into())),
        }
    }

    fn key(
        &mut self,
        number: u32,
        value: &str,
        doc: DocId,
        call: &mut Call<'_>,
    ) -> Result<Rc<[Node]>, ErrorKind> {
        assert_eq!(number, 7);
        let document = call.documents.document(doc);
        let all = document.descendants(xml::Document::ROOT);
        Ok(all
            .filter(|&id| document.attribute(id, "", "k") == Some(value))
            .map(|id| Node::new(doc, id))
            .collect())
    }
}

fn evaluate(documents: &DocumentSet, text: &str) -> Result<String, Error> {
    let expr = Expr::compile(text, &Caller)?;
    let mut budget = Budget::default();
    let value =
        expr.value(&mut Evaluation::of(documents, documents.root(), &mut Caller, &mut budget))?;
    Ok(show(documents, &value))
}

#[test]
fn the_callers_variables_and_functions() {
    let documents = documents("<r><a id='1' k='x'/><b id='2'/><a id='3'/></r>");
    for (text, expected) in [
        ("$one + 1", "2"),
        ("$nodes", "a#1 b#2 a#3"),
        ("$nodes[2]", "b#2"),
        ("$nodes[$one]", "a#1"),
        ("$nodes[self::a][2]/@id", "@id=3"),
        ("$nodes/..", "r"),
        ("$nodes/following-sibling::*", "b#2 a#3"),
        ("$nodes/preceding-sibling::*", "a#1 b#2"),
        ("$nodes/preceding-sibling::*[1]", "a#1 b#2"),
        ("$nodes | /r", "r a#1 b#2 a#3"),
        ("/r/a[$one]", "a#1"),
        ("//a[$one]", "a#1"),
        ("//a[position() = $one]", "a#1"),
        ("$tree", "tree /"),
        ("$tree/r/b", "b#2"),
        ("$tree = ''", "true"),
        ("count($tree)", "1"),
        ("string($tree)", "\"\""),
        ("boolean($tree)", "true"),
        ("current()/r/b", "b#2"),
        ("/r/a[current()/r/b]", "a#1 a#3"),
        ("f:where()", "\"/ 1/1 /\""),
        ("/r/*[f:where() = 'b#2 2/3 /']", "b#2"),
        ("f:doc('<d><e/></d>')/d/e", "e"),
        ("f:doc('<d><e/></d>')//e | /r", "r e"),
        ("f:doc('<d><e/></d>')//e | f:doc('<d><g/></d>')//g | /r/b", "b#2 e g"),
        ("(f:doc('<d><e/></d>') | /)/*/following::*", ""),
        ("(f:doc('<d><e/><g/></d>')//e | /r/b)/following::*", "a#3 g"),
        ("(f:doc('<d><e/><g/></d>')//g | /r/b)/preceding::*", "a#1 e"),
        ("/r/b[count(f:doc('<d><e/></d>')/d) = 1]", "b#2"),
        ("f:again('count(//a)')", "2"),
        ("/r/*[f:again('position() = 2')]", "b#2"),
    ] {
        assert_eq!(
            evaluate(&documents, text).unwrap_or_else(|error| error.to_string()),
            expected,
            "{text}"
        );
    }
}

#[test]
fn the_callers_errors_have_a_place() {
    let documents = documents("<r><a/></r>");
    for (text, offset, message) in [
        ("1 + f:fail()", 4, "it was meant to fail"),
        ("/r/a[f:fail()]", 5, "it was meant to fail"),
        ("f:fail('never')", 0, "never say never"),
        ("f:none()", 0, "there is no function `f:none()`"),
        ("$one/a", 0, "expected a node-set"),
        ("count($one)", 6, "expected a node-set"),
        ("f:again('f:again(1 div')", 0, "expected an expression, found the end"),
    ] {
        let error = evaluate(&documents, text).unwrap_err();
        assert_eq!((error.offset, error.kind.to_string().as_str()), (offset, message), "{text}");
    }
}

#[test]
fn evaluations_within_evaluations_are_bounded() {
    let documents = documents("<r/>");
    // Each level quotes what is inside it once more; two kinds of quotes reach two levels, so the host adds the rest.
    struct Endless;
    impl Host for Endless {
        fn variable(&mut self, _number: u32, call: &mut Call<'_>) -> Result<Value, ErrorKind> {
            let expr = Expr::compile("$one", &Caller).map_err(|error| error.kind)?;
            let mut evaluation = Evaluation {
                documents: call.documents,
                focus: call.focus,
                host: self,
                budget: call.budget,
            };
            expr.value(&mut evaluation).map_err(|error| error.kind)
        }
        fn call(
            &mut self,
            _: u32,
            _: &mut Vec<Value>,
            _: &mut Call<'_>,
        ) -> Result<Value, ErrorKind> {
            Err(ErrorKind::Host("none".into()))
        }
        fn key(
            &mut self,
            _: u32,
            _: &str,
            _: DocId,
            _: &mut Call<'_>,
        ) -> Result<Rc<[Node]>, ErrorKind> {
            Err(ErrorKind::Host("none".into()))
        }
    }
    let expr = Expr::compile("$one", &Caller).unwrap();
    let mut budget = Budget::default();
    let error = expr
        .value(&mut Evaluation::of(&documents, documents.root(), &mut Endless, &mut budget))
        .unwrap_err();
    assert!(matches!(error.kind, ErrorKind::Limit { name: "depth_max", .. }), "{error}");
}

#[test]
fn keys_start_patterns() {
    let documents = documents(
        "<r><a id='1' k='x'><b id='2'/></a><c id='3' k='y'><d id='4'><b id='5'/></d></c></r>",
    );
    for (text, expected) in [
        ("key('k', 'x')", "a#1"),
        ("key('k', 'x')/b", "b#2"),
        ("key('k', 'y')/b", ""),
        ("key('k', 'y')//b", "b#5"),
        ("key('k', 'y')/d/b", "b#5"),
        ("key('k', 'x')|d", "a#1 d#4"),
    ] {
        let pattern = Pattern::compile(text, &Caller).unwrap();
        let mut found = Vec::new();
        for id in documents.document(DocId(0)).descendants(xml::Document::ROOT) {
            let node = Node::new(DocId(0), id);
            let mut budget = Budget::default();
            if pattern
                .matches(&mut Evaluation::of(&documents, node, &mut Caller, &mut budget))
                .unwrap()
            {
                found.push(show_node(&documents, node));
            }
        }
        assert_eq!(found.join(" "), expected, "{text}");
    }
    assert!(Pattern::compile("key('other', 'x')", &Caller).is_err());
}

#[test]
fn documents_are_added_and_cut_back() {
    let mut documents = documents("<r/>");
    let parse = |text: &str| {
        Arc::new(xml::Document::parse(text.as_bytes(), &xml::Options::default()).unwrap())
    };
    for number in 1..100 {
        assert_eq!(documents.add(parse(&format!("<n{number}/>"))).unwrap(), DocId(number));
    }
    for number in 1..100 {
        let document = documents.document(DocId(number));
        assert_eq!(document.name(document.root_element().unwrap()).local, format!("n{number}"));
    }
    documents.truncate(10);
    assert_eq!(documents.len(), 10);
    assert_eq!(documents.add(parse("<new/>")).unwrap(), DocId(10));
    let document = documents.document(DocId(10));
    assert_eq!(document.name(document.root_element().unwrap()).local, "new");
}

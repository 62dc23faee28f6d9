//! `headers`: removes, sets and adds header lines, in that order, on the request and on the reply.

use fault::{Fault, Kind};
use message::{Headers, ReplyHead, RequestHead};
use policy::{Exchange, Flow, OnHead, Onward, Policy, Step};

/// What to do to one side's header lines. Names and values are checked by whoever compiles them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Edits {
    pub remove: Vec<String>,
    /// Becomes the only line of its name.
    pub set: Vec<(String, String)>,
    /// Comes on top of lines of the same name.
    pub add: Vec<(String, String)>,
}

/// The policy for these edits. A side without edits has no step.
pub fn policy(request: Edits, response: Edits) -> Policy {
    Policy {
        name: "headers",
        request: (!request.is_empty())
            .then(|| Step::Head(Box::new(request) as Box<dyn OnHead<RequestHead>>)),
        response: (!response.is_empty())
            .then(|| Step::Head(Box::new(response) as Box<dyn OnHead<ReplyHead>>)),
    }
}

impl Edits {
    fn is_empty(&self) -> bool {
        self.remove.is_empty() && self.set.is_empty() && self.add.is_empty()
    }

    fn apply(&self, headers: &mut Headers) -> Flow {
        self.remove.iter().for_each(|name| headers.remove(name));
        let set = self.set.iter().try_for_each(|(name, value)| headers.set(name, value.as_bytes()));
        let added =
            set.and_then(|()| self.add.iter().try_for_each(|(n, v)| headers.add(n, v.as_bytes())));
        match added {
            Ok(()) => Ok(Onward::Next),
            Err(_) => Err(Fault::new(Kind::Internal, "headers: a line that cannot be written")),
        }
    }
}

impl OnHead<RequestHead> for Edits {
    fn on_head(&self, _ex: &mut Exchange, head: &mut RequestHead) -> Flow {
        self.apply(&mut head.headers)
    }
}

impl OnHead<ReplyHead> for Edits {
    fn on_head(&self, _ex: &mut Exchange, head: &mut ReplyHead) -> Flow {
        self.apply(&mut head.headers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(headers: &Headers) -> String {
        let mut out = Vec::new();
        headers.write_to(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn removes_then_sets_then_adds() {
        let pairs = |list: &[(&str, &str)]| {
            list.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect()
        };
        let edits = Edits {
            remove: vec!["x-gone".to_owned(), "x-both".to_owned()],
            set: pairs(&[("x-set", "new"), ("x-both", "set")]),
            add: pairs(&[("x-set", "too"), ("x-both", "added")]),
        };
        let mut head = ReplyHead::new(200);
        for (name, value) in [("X-Gone", "1"), ("X-Set", "old"), ("X-Both", "old"), ("X-Kept", "k")]
        {
            head.headers.add(name, value.as_bytes()).unwrap();
        }
        assert!(matches!(edits.apply(&mut head.headers), Ok(Onward::Next)));
        assert_eq!(
            lines(&head.headers),
            "X-Kept: k\r\nx-set: new\r\nx-both: set\r\nx-set: too\r\nx-both: added\r\n"
        );
    }

    #[test]
    fn a_side_without_edits_costs_nothing() {
        let policy =
            policy(Edits::default(), Edits { remove: vec!["a".to_owned()], ..Edits::default() });
        assert!(policy.request.is_none() && policy.response.is_some());
    }
}

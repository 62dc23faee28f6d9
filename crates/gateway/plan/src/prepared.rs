//! A destination that gets requests in the same form as an upstream of the route.

use fault::Fault;
use message::{Request, RequestHead};
use policy::{Answer, Answerer, Exchange, Explanation};
use serde_json::{Value, json};
use upstream::{HostSent, forward};

use crate::PathSent;

/// An answerer that gets requests prepared as for an upstream: without hop-by-hop headers, with forwarding headers, and with the path and
/// the Host that the route forwards.
pub struct PreparedAnswerer<A> {
    pub path: PathSent,
    pub host: HostSent,
    pub to: A,
}

impl<A> PreparedAnswerer<A> {
    fn prepare(&self, ex: &Exchange, head: &mut RequestHead) -> Result<(), Fault> {
        if forward::request(ex, head)?.is_some() {
            // The answerer does not support protocol upgrades.
            head.headers.remove("connection");
            head.headers.remove("upgrade");
        }
        match ex.notes.as_ref().and_then(|notes| notes.target.as_deref()) {
            Some(target) => head.set_target(&[target]),
            None => self.path.set(ex, head)?,
        }
        match &self.host {
            HostSent::Unchanged => {}
            HostSent::Target => head.headers.remove("host"),
            HostSent::Named(name) => {
                head.headers.remove("host");
                head.headers.add_known("Host", name.as_bytes());
            }
        }
        Ok(())
    }
}

impl<A: Answerer> Answerer for PreparedAnswerer<A> {
    fn answer<'a>(&'a self, ex: &'a mut Exchange, request: &'a mut Request) -> Answer<'a> {
        match self.prepare(ex, &mut request.head) {
            Ok(()) => self.to.answer(ex, request),
            Err(fault) => Answer::Ready(Err(fault)),
        }
    }

    fn explained(&self, parameters: &[&str]) -> Explanation {
        let mut explained = self.to.explained(parameters);
        explained.how.push(self.path.explained(parameters));
        explained
    }

    fn view(&self) -> Value {
        let mut view = self.to.view();
        if let Some(view) = view.as_object_mut() {
            view.insert("path".to_owned(), json!(self.path.view()));
        }
        view
    }
}

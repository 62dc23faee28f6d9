//! The destination of a route: one type for everything that can answer its requests.

use fault::Fault;
use message::{Reply, Request};
use policy::{Answer, Answerer, Exchange, Explanation};
use serde_json::Value;

use crate::Forward;

/// The destination of a route. Code outside this file does not see its kind.
pub struct Destination {
    kind: Kind,
}

enum Kind {
    /// A separate variant, since most requests are forwarded: awaiting this one needs no allocation.
    Forward(Box<Forward>),
    Other(Box<dyn Answerer>),
}

impl Destination {
    /// Creates a destination that forwards to an upstream.
    pub fn forward(forward: Forward) -> Destination {
        Destination { kind: Kind::Forward(Box::new(forward)) }
    }

    /// Creates a destination of any other kind.
    pub fn answerer(answerer: impl Answerer + 'static) -> Destination {
        Destination { kind: Kind::Other(Box::new(answerer)) }
    }

    /// Answers a request that has passed the route's policies. Afterwards the content of the request is unspecified.
    pub async fn answer(&self, ex: &mut Exchange, request: &mut Request) -> Result<Reply, Fault> {
        match &self.kind {
            Kind::Forward(forward) => forward.answer(ex, request).await,
            Kind::Other(answerer) => match answerer.answer(ex, request) {
                Answer::Ready(answered) => answered,
                Answer::Wait(answering) => answering.await,
            },
        }
    }

    /// Returns the name of the upstream that requests are sent to, for the access log and splits, or `None` if the gateway answers them
    /// itself.
    pub fn upstream(&self) -> Option<&str> {
        match &self.kind {
            Kind::Forward(forward) => Some(&forward.upstream.settings().name),
            Kind::Other(_) => None,
        }
    }

    pub(crate) fn explained(&self, parameters: &[&str]) -> Explanation {
        match &self.kind {
            Kind::Forward(forward) => forward.explained(parameters),
            Kind::Other(answerer) => answerer.explained(parameters),
        }
    }

    pub(crate) fn view(&self) -> Value {
        match &self.kind {
            Kind::Forward(forward) => forward.view(),
            Kind::Other(answerer) => answerer.view(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use message::{Body, Protocol, RequestHead};
    use policy::{Caller, Scheme};
    use serde_json::json;

    use super::*;
    use crate::{Route, Share, Split};

    /// Answers with a status. An even status comes after a wait.
    struct Status(u16);

    impl Answerer for Status {
        fn answer<'a>(&'a self, _: &'a mut Exchange, _: &'a mut Request) -> Answer<'a> {
            let answered = Ok(Reply::new(self.0, Body::Empty));
            match self.0 % 2 {
                0 => Answer::Wait(Box::pin(async { answered })),
                _ => Answer::Ready(answered),
            }
        }

        fn explained(&self, parameters: &[&str]) -> Explanation {
            let how = parameters.iter().map(|name| format!("with {name}")).collect();
            Explanation { what: format!("status {}", self.0), how }
        }

        fn view(&self) -> Value {
            json!({ "status": self.0 })
        }
    }

    fn route(split: Option<Split>) -> Route {
        Route {
            destination: Destination::answerer(Status(200)),
            diversions: [Status(201), Status(202)].map(Destination::answerer).into(),
            split,
            ..Route::placeholder()
        }
    }

    fn status(destination: &Destination) -> u16 {
        let peer = "192.0.2.1:1".parse().unwrap();
        let caller = Caller::new(peer, peer, Scheme::Http, 0);
        let mut ex = Exchange::new(caller.into(), Default::default());
        let head = RequestHead::new(Protocol::Http11, b"GET", b"/");
        let mut request = Request { head, body: Body::Empty };
        let mut answer = pin!(destination.answer(&mut ex, &mut request));
        match answer.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(reply)) => reply.head.status,
            Poll::Ready(Err(fault)) => panic!("{fault}"),
            Poll::Pending => panic!("the answer is not ready"),
        }
    }

    #[test]
    fn an_exchange_is_diverted_to_any_destination() {
        let route = route(None);
        for (divert, expected) in [(None, 200), (Some(0), 201), (Some(1), 202), (Some(2), 200)] {
            assert_eq!(status(route.destination(divert)), expected, "{divert:?}");
        }
    }

    #[test]
    fn a_destination_describes_itself() {
        let plain = route(None);
        assert_eq!(plain.explained(&["id"]), "status 200, with id");
        assert_eq!(plain.view(), json!({ "status": 200 }));
        assert_eq!(plain.destination.upstream(), None);
        let shares = [(0, 3), (1, 1)].map(|(diversion, weight)| Share { diversion, weight });
        let split = route(Split::new(shares.into()));
        assert_eq!(split.explained(&[]), "3 of 4 to status 201, 1 of 4 to status 202");
    }
}

//! `for`: applies a policy to some clients only.
//!
//! Owns the choice of clients, by subject and groups of the identity that a policy above has found. The steps of the inner policy keep
//! their shape.

use std::sync::Arc;

use fault::Fault;
use policy::{
    BodyTransform, Decision, Exchange, Flow, OnBuffered, OnCall, OnHead, OnPieces, OnStreamed,
    Onward, Policy, Step,
};

/// Clients by their subjects and groups.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Clients {
    pub subjects: Vec<String>,
    pub groups: Vec<String>,
}

/// The clients that a policy applies to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientsWanted {
    /// The selected clients. If empty, all clients, including those without an identity.
    pub these: Clients,
    pub except: Clients,
}

/// Returns the policy restricted to these clients.
pub fn policy(wanted: ClientsWanted, inner: Policy) -> Policy {
    let wanted = Arc::new(wanted);
    Policy {
        name: inner.name,
        request: inner.request.map(|step| limited(&wanted, step)),
        response: inner.response.map(|step| limited(&wanted, step)),
    }
}

fn limited<H: 'static>(wanted: &Arc<ClientsWanted>, step: Step<H>) -> Step<H> {
    let wanted = wanted.clone();
    match step {
        Step::Head(inner) => Step::Head(Box::new(ForClients { wanted, inner })),
        Step::Call(inner) => Step::Call(Box::new(ForClients { wanted, inner })),
        Step::Streamed(inner) => Step::Streamed(Box::new(ForClients { wanted, inner })),
        Step::Buffered(inner) => Step::Buffered(Box::new(ForClients { wanted, inner })),
    }
}

/// A step that runs only for the wanted clients.
struct ForClients<S: ?Sized> {
    wanted: Arc<ClientsWanted>,
    inner: Box<S>,
}

impl Clients {
    fn is_empty(&self) -> bool {
        self.subjects.is_empty() && self.groups.is_empty()
    }

    fn includes(&self, ex: &Exchange) -> bool {
        let Some(identity) = &ex.identity else { return false };
        let in_group =
            || self.groups.iter().any(|g| identity.groups.iter().any(|own| **own == **g));
        self.subjects.iter().any(|subject| **subject == *identity.subject) || in_group()
    }
}

impl ClientsWanted {
    fn includes(&self, ex: &Exchange) -> bool {
        (self.these.is_empty() || self.these.includes(ex)) && !self.except.includes(ex)
    }
}

impl<H> OnHead<H> for ForClients<dyn OnHead<H>> {
    fn on_head(&self, ex: &mut Exchange, head: &mut H) -> Flow {
        if self.wanted.includes(ex) { self.inner.on_head(ex, head) } else { Ok(Onward::Next) }
    }
}

impl<H> OnCall<H> for ForClients<dyn OnCall<H>> {
    fn on_call<'a>(&'a self, ex: &'a mut Exchange, head: &'a mut H) -> Decision<'a> {
        if self.wanted.includes(ex) {
            self.inner.on_call(ex, head)
        } else {
            Decision::Ready(Ok(Onward::Next))
        }
    }
}

impl<H> OnStreamed<H> for ForClients<dyn OnStreamed<H>> {
    fn on_streamed(
        &self,
        ex: &mut Exchange,
        head: &mut H,
    ) -> Result<Option<Box<dyn BodyTransform>>, Fault> {
        if self.wanted.includes(ex) { self.inner.on_streamed(ex, head) } else { Ok(None) }
    }
}

impl<H> OnBuffered<H> for ForClients<dyn OnBuffered<H>> {
    fn wants(&self, ex: &mut Exchange, head: &mut H) -> Result<bool, Fault> {
        if self.wanted.includes(ex) { self.inner.wants(ex, head) } else { Ok(false) }
    }

    fn on_passing(
        &self,
        ex: &mut Exchange,
        head: &mut H,
    ) -> Result<Option<Box<dyn BodyTransform>>, Fault> {
        if self.wanted.includes(ex) { self.inner.on_passing(ex, head) } else { Ok(None) }
    }

    fn bytes_max(&self) -> usize {
        self.inner.bytes_max()
    }

    fn on_pieces(&self, ex: &mut Exchange, head: &H) -> Option<Box<dyn OnPieces<H>>> {
        self.inner.on_pieces(ex, head)
    }

    fn on_buffered<'a>(
        &'a self,
        ex: &'a mut Exchange,
        head: &'a mut H,
        body: &'a mut message::GatheredBody,
    ) -> Decision<'a> {
        self.inner.on_buffered(ex, head, body)
    }
}

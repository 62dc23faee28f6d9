//! Passes interim replies from an upstream to the client.

use std::rc::Rc;

use message::ReplyHead;

/// The connection to a client, which interim replies from an upstream are passed to.
pub trait InterimReplies {
    /// Passes on the head of an interim reply (1xx, RFC 9110, 15.2) before the reply of `stream`; an HTTP/1 connection has only
    /// one stream. If there is no room for it, it is dropped, since a final reply always follows.
    fn pass(&self, stream: u32, head: &ReplyHead);
}

/// The sender of one exchange's interim replies to the client. HTTP/1.0 does not support them.
#[derive(Clone)]
pub struct Interim {
    to: Rc<dyn InterimReplies>,
    stream: u32,
}

impl Interim {
    pub fn new(to: Rc<dyn InterimReplies>, stream: u32) -> Interim {
        Interim { to, stream }
    }

    /// Passes on an interim reply with only its `Link` lines. Response policies, which decide about all other headers, see only
    /// the final reply.
    pub fn pass(&self, head: &ReplyHead) {
        let mut passed = ReplyHead::new(head.status);
        for link in head.headers.get_all("link") {
            passed.headers.add_known("Link", link);
        }
        self.to.pass(self.stream, &passed);
    }
}

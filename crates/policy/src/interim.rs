//! Interim replies on their way from an upstream to the client.

use std::rc::Rc;

use message::ReplyHead;

/// The client's side of a connection, as whoever reads an upstream's interim replies sees it.
pub trait InterimReplies {
    /// Passes on the head of an interim reply (1xx, RFC 9110, 15.2) before the reply of `stream`, which an HTTP/1 connection has one
    /// of. It is dropped where there is no room for it: a final reply follows always.
    fn pass(&self, stream: u32, head: &ReplyHead);
}

/// Where the interim replies of one exchange go. HTTP/1.0 knows none.
#[derive(Clone)]
pub struct Interim {
    to: Rc<dyn InterimReplies>,
    stream: u32,
}

impl Interim {
    pub fn new(to: Rc<dyn InterimReplies>, stream: u32) -> Interim {
        Interim { to, stream }
    }

    /// Passes on an interim reply with its `Link` lines, and those alone: policies of the response, which decide what else may leave,
    /// see the final reply only.
    pub fn pass(&self, head: &ReplyHead) {
        let mut passed = ReplyHead::new(head.status);
        for link in head.headers.get_all("link") {
            passed.headers.add_known("Link", link);
        }
        self.to.pass(self.stream, &passed);
    }
}

//! The messages of a reply as JSON.

use fault::{Fault, Kind};
use protobuf::{Binding, Transcoder, TranslationError};

pub(super) fn translated(
    transcoder: &Transcoder,
    binding: &Binding,
    message: &[u8],
) -> Result<String, Fault> {
    transcoder.reply(binding, message).map_err(refused)
}

/// Returns the fault for a message that cannot be translated.
#[cold]
fn refused(why: TranslationError) -> Fault {
    match why {
        TranslationError::Wrong(what) => {
            Fault::new(Kind::ReplyInvalid, format!("grpc_json: the reply's message: {what}"))
        }
        TranslationError::TooLarge => {
            Fault::new(Kind::ReplyTooLarge, "the reply's message is too large as JSON")
        }
        TranslationError::NoRoom => message::no_room(),
    }
}

//! Runs one transformation, by either engine.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::LazyLock;
use std::task::Poll;

use bytes::Bytes;
use kit::{SharedAlarm, clock};
use memchr::memmem::Finder;
use saxon::Message;
use telemetry::parses::{self, Format};
use xml::Transcript;
use xslt::{Budgets, Encoding, Parameter, Run, Stylesheet};

use super::{NativeSource, Transformation, feed, label};
use crate::{Rejection, libxml_messages};

/// The step budget of a transformation by our own engine, which blocks its worker. It allows at most a tenth of a second; typical messages
/// take some thousand steps.
const STEPS_MAX: u64 = 5_000_000;

/// Maximum size of the result, including text in result trees, as a multiple of the largest body.
const GROWTH_MAX: usize = 4;

/// The result of a transformation.
pub struct TransformResult {
    pub bytes: Bytes,
    /// The encoding of the result.
    pub charset: &'static str,
    /// The transcript of the bytes, if it was requested and could be made.
    pub transcript: Option<Transcript>,
}

impl TransformResult {
    /// Returns the content type of the result, or `None` if that of the source message is still correct.
    pub fn label(&self, content_type: Option<&[u8]>) -> Option<String> {
        label::label(content_type, &self.bytes, self.charset)
    }
}

/// The reason why a transformation failed or was not started.
pub enum TransformRejection {
    /// The message is malformed, or the stylesheet failed on it or is not available.
    Failed(Rejection),
    /// The deadline passed.
    Late(Rejection),
    /// The engine failed; the cause goes only to the log.
    Broken(String),
    /// The engine had no capacity, and the transformation was not started.
    Busy,
}

impl From<Rejection> for TransformRejection {
    fn from(failed: Rejection) -> TransformRejection {
        TransformRejection::Failed(failed)
    }
}

impl Transformation {
    /// Runs our own engine.
    pub(super) fn natively(
        &self,
        stylesheet: &Stylesheet,
        source: NativeSource<'_>,
        parameters: &[Parameter],
    ) -> Result<TransformResult, TransformRejection> {
        let run = Run {
            parameters,
            budgets: Budgets {
                steps_max: STEPS_MAX,
                output_bytes_max: u64::try_from(self.output_bytes_max()).unwrap_or(u64::MAX),
                ..Budgets::default()
            },
            now: Some(i64::try_from(clock::wall().as_secs()).unwrap_or(i64::MAX)),
            seed: fastrand::u64(..),
            style: self.style,
            strip_empty_namespaces: self.strip_empty_namespaces,
            transcribe: self.transcribe,
            ..Run::default()
        };
        let needs_tree = stylesheet.needs_tree(&run);
        let NativeSource { bytes: message, tree, transcript } = source;
        let output = match tree.filter(|_| needs_tree) {
            Some(tree) => stylesheet
                .transform(tree, &run)
                .map(|output| (output, None))
                .map_err(xslt::TransformError::Run),
            None => {
                if needs_tree {
                    parses::count(Format::Xml);
                }
                let options = xml::Options::default();
                stylesheet.transform_transcribed(message, transcript, &options, &run)
            }
        };
        let (output, transcript) = output.map_err(|failed| match failed {
            xslt::TransformError::Source(error) => {
                Rejection::client(libxml_messages::malformed(&error, message))
            }
            xslt::TransformError::Run(error) => Rejection::server(client_text(&error.kind)),
        })?;
        let charset = match output.encoding {
            Encoding::Utf8 => "utf-8",
            Encoding::Utf16 => "utf-16",
            Encoding::Latin1 => "iso-8859-1",
            Encoding::Ascii => "us-ascii",
            Encoding::Other(known) => known.name(),
        };
        let made = self.made(output.bytes, charset);
        // The removal of ` xmlns=""` also changes text that contains these bytes. The transcript then does not match any more.
        let transcript = transcript.filter(|notes| notes.is_of(&made.bytes));
        Ok(TransformResult { transcript, ..made })
    }

    /// Runs Saxon, within the deadline.
    pub(super) async fn by_saxon(
        &self,
        alarm: SharedAlarm,
        stylesheet: &saxon::Stylesheet,
        message: &Bytes,
        json: bool,
    ) -> Result<TransformResult, TransformRejection> {
        let told =
            if !json {
                Message::Xml(feed::feed(message, &self.known.0).map_err(|error| {
                    Rejection::client(libxml_messages::malformed(&error, message))
                })?)
            } else if std::str::from_utf8(message).is_err() {
                // Saxon would replace bytes that are not UTF-8.
                return Err(Rejection::client("Invalid JSON input: it is not in UTF-8").into());
            } else {
                Message::Json(message.clone())
            };
        alarm.borrow_mut().set(clock::now(), self.timeout);
        let mut run = pin!(stylesheet.transform(told, self.output_bytes_max(), self.timeout));
        let ended = poll_fn(|cx| match run.as_mut().poll(cx) {
            Poll::Ready(ended) => Poll::Ready(ended),
            Poll::Pending => alarm.borrow_mut().poll(cx).map(|()| Err(saxon::RunError::Late)),
        })
        .await;
        alarm.borrow_mut().clear();
        match ended {
            Ok(bytes) => Ok(self.made(bytes, "utf-8")),
            Err(failed) => Err(self.refused(failed)),
        }
    }

    fn output_bytes_max(&self) -> usize {
        self.bytes_max.saturating_mul(GROWTH_MAX)
    }

    fn made(&self, bytes: Vec<u8>, charset: &'static str) -> TransformResult {
        let bytes = if self.strip_empty_namespaces {
            without_empty_namespaces(bytes).into()
        } else {
            bytes.into()
        };
        TransformResult { bytes, charset, transcript: None }
    }

    fn refused(&self, failed: saxon::RunError) -> TransformRejection {
        let server = |text: String| TransformRejection::from(Rejection::server(text));
        match failed {
            saxon::RunError::Refused(text) => server(text),
            saxon::RunError::BadInput(text) => Rejection::client(text).into(),
            saxon::RunError::TooLarge => {
                server(format!("The result is over {} bytes", self.output_bytes_max()))
            }
            saxon::RunError::Memory => {
                server("The stylesheet needs more memory than there is".to_owned())
            }
            saxon::RunError::Stack => server("The stylesheet calls itself too deeply".to_owned()),
            saxon::RunError::Late => {
                let text = format!("The stylesheet took longer than {:?}", self.timeout);
                TransformRejection::Late(Rejection::server(text))
            }
            saxon::RunError::Busy => TransformRejection::Busy,
            saxon::RunError::Broken(cause) => TransformRejection::Broken(cause),
        }
    }
}

/// Removes every ` xmlns=""`, so that elements that a stylesheet wrote without a namespace inherit the default namespace of their parent.
fn without_empty_namespaces(bytes: Vec<u8>) -> Vec<u8> {
    static EMPTY: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b" xmlns=\"\""));
    let mut found = EMPTY.find_iter(&bytes).peekable();
    if found.peek().is_none() {
        return bytes;
    }
    let mut clean = Vec::with_capacity(bytes.len());
    let mut from = 0;
    for at in found {
        clean.extend_from_slice(bytes.get(from..at).unwrap_or_default());
        from = at + EMPTY.needle().len();
    }
    clean.extend_from_slice(bytes.get(from..).unwrap_or_default());
    clean
}

/// Returns the text about an error for the client. It omits the URL that a stylesheet requested, which goes to the log.
fn client_text(kind: &xslt::ErrorKind) -> String {
    let xslt::ErrorKind::Resolve { href, cause } = kind else { return kind.to_string() };
    // The URL may contain credentials, because the message may determine it.
    let (address, query) =
        href.split_once('?').map_or((&**href, ""), |(address, _)| (address, "?*"));
    tracing::info!(
        href = format!("{address}{query}"),
        "a stylesheet asked for another document: {cause}"
    );
    format!("cannot load a document that the stylesheet asks for: {cause}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_namespaces_go_and_others_stay() {
        let text = br#"<a xmlns="u"><b xmlns="">1</b><c xmlns="v" xmlns:d=""/></a>"#;
        let clean = without_empty_namespaces(text.to_vec());
        assert_eq!(clean, br#"<a xmlns="u"><b>1</b><c xmlns="v" xmlns:d=""/></a>"#);
    }
}

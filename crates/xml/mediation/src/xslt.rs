//! Transformation of messages by stylesheets.
//!
//! Owns the budgets and the deadline of a run, the removal of empty namespaces, and the content type of the result. Stylesheets arrive
//! compiled for our own engine or for Saxon; everything else is the same for both.

mod feed;
mod label;
mod run;

use std::sync::Arc;
use std::time::Duration;

use arc_swap::Guard;
use bytes::Bytes;
use kit::SharedAlarm;
use message::GatheredBody;
use tokio::time::timeout;
use xml::{Document, Pool, Transcript};
use xslt::{Parameter, Style, Stylesheet};

use crate::remote_definition::RemoteDefinition;
use crate::{Rejection, Work, charset};

pub use run::{TransformRejection, TransformResult};

/// A compiled stylesheet.
pub enum CompiledStylesheet {
    /// Compiled for our own engine, which supports XSLT 1.0.
    Native(Box<Stylesheet>),
    /// Compiled for Saxon, including its parameters.
    Saxon(saxon::Stylesheet),
}

/// The stylesheet of a transformation.
pub enum StylesheetSource {
    /// Compiled with the configuration, or the error with which every message is refused.
    Fixed(Result<Arc<CompiledStylesheet>, Rejection>),
    /// Fetched and compiled in the background.
    Remote(Arc<RemoteDefinition<CompiledStylesheet>>),
}

/// A transformation.
pub struct Transformation {
    pub sheet: StylesheetSource,
    /// Parameters for our own engine.
    pub parameters: Vec<Parameter>,
    /// How our own engine writes XML.
    pub style: Style,
    /// Whether every ` xmlns=""` is removed from the result.
    pub strip_empty_namespaces: bool,
    /// Whether a later step reads a transcript of the result.
    pub transcribe: bool,
    /// Maximum size of a message. The result may be a few times as large.
    pub bytes_max: usize,
    /// Timeout of Saxon, including the wait for a free thread.
    pub timeout: Duration,
    /// For Saxon: what is kept of earlier messages to parse similar ones faster. Empty at first.
    pub known: FeedCaches,
}

/// The markup of earlier messages, so that similar ones are not parsed from scratch (see [`xml::TemplateCache`]).
#[derive(Default)]
pub struct FeedCaches(Pool<feed::FeedCache>);

/// A message to transform.
struct Message {
    bytes: Bytes,
    json: bool,
    /// The tree of these bytes, if an earlier step built one.
    tree: Option<Arc<Document>>,
}

/// A message for our own engine, with what earlier steps parsed.
struct NativeSource<'m> {
    bytes: &'m [u8],
    tree: Option<&'m Arc<Document>>,
    transcript: Option<&'m mut Transcript>,
}

impl Message {
    fn for_native(&self) -> NativeSource<'_> {
        NativeSource { bytes: &self.bytes, tree: self.tree.as_ref(), transcript: None }
    }
}

impl Transformation {
    /// Runs the engine that the stylesheet is compiled for. The caller has to wait for Saxon, and for a stylesheet that is still being
    /// fetched. `alarm` is for Saxon's deadline.
    pub fn run<'a>(
        &'a self,
        content_type: Option<&[u8]>,
        body: &mut GatheredBody,
        alarm: SharedAlarm,
    ) -> Work<'a, Result<TransformResult, TransformRejection>> {
        let settled = match charset::to_utf8_or_refuse(content_type, &body.bytes) {
            Ok(settled) => settled,
            Err(why) => return Work::Done(Err(why.into())),
        };
        if let StylesheetSource::Fixed(Ok(sheet)) = &self.sheet
            && let CompiledStylesheet::Native(stylesheet) = &**sheet
        {
            let tree = body.tree().filter(|_| settled.is_none()).cloned();
            let (bytes, transcript) = body.transcribed();
            let message = NativeSource {
                bytes: settled.as_deref().unwrap_or(bytes),
                tree: tree.as_ref(),
                transcript: transcript.filter(|_| settled.is_none()),
            };
            return Work::Done(self.natively(stylesheet, message, &self.parameters));
        }
        let json = label::is_json(content_type, &body.bytes);
        let message = match settled {
            Some(settled) => Message { bytes: settled.into(), json, tree: None },
            None => Message { bytes: body.bytes.clone(), json, tree: body.tree().cloned() },
        };
        match &self.sheet {
            StylesheetSource::Fixed(Ok(sheet)) => self.by(sheet, alarm, message),
            StylesheetSource::Fixed(Err(why)) => Work::Done(Err(why.clone().into())),
            StylesheetSource::Remote(definition) => {
                if let (true, Ok(serving)) = (definition.is_ready(), definition.current())
                    && let Some(CompiledStylesheet::Native(stylesheet)) = serving.as_deref()
                {
                    return Work::Done(self.natively(
                        stylesheet,
                        message.for_native(),
                        &self.parameters,
                    ));
                }
                Work::Waits(Box::pin(async move {
                    if !definition.is_ready() {
                        // Harmless: if the definition is still missing, the request is refused below.
                        let _ = timeout(definition.patience(), definition.settled()).await;
                    }
                    self.by_remote_definition(definition, alarm, message).await
                }))
            }
        }
    }

    /// Runs our own engine with these parameters in place of the configured ones. Returns `None` for any stylesheet that was not compiled
    /// with the configuration for our own engine. Saxon's parameters are part of the compiled stylesheet.
    pub fn run_with(
        &self,
        content_type: Option<&[u8]>,
        body: &GatheredBody,
        parameters: &[Parameter],
    ) -> Option<Result<TransformResult, TransformRejection>> {
        let StylesheetSource::Fixed(Ok(sheet)) = &self.sheet else { return None };
        let CompiledStylesheet::Native(stylesheet) = &**sheet else { return None };
        let settled = match charset::to_utf8_or_refuse(content_type, &body.bytes) {
            Ok(settled) => settled,
            Err(why) => return Some(Err(why.into())),
        };
        let message = NativeSource {
            bytes: settled.as_deref().unwrap_or(&body.bytes),
            tree: body.tree().filter(|_| settled.is_none()),
            transcript: None,
        };
        Some(self.natively(stylesheet, message, parameters))
    }

    async fn by_remote_definition(
        &self,
        definition: &RemoteDefinition<CompiledStylesheet>,
        alarm: SharedAlarm,
        message: Message,
    ) -> Result<TransformResult, TransformRejection> {
        let serving = definition.current()?;
        // A newer stylesheet may come into use while Saxon runs.
        let serving = Guard::into_inner(serving);
        match &serving {
            Some(sheet) => match self.by(sheet, alarm, message) {
                Work::Done(made) => made,
                Work::Waits(made) => made.await,
            },
            None => Err(Rejection::server("there is no stylesheet").into()),
        }
    }

    fn by<'a>(
        &'a self,
        sheet: &'a CompiledStylesheet,
        alarm: SharedAlarm,
        message: Message,
    ) -> Work<'a, Result<TransformResult, TransformRejection>> {
        match sheet {
            CompiledStylesheet::Saxon(stylesheet) => Work::Waits(Box::pin(async move {
                self.by_saxon(alarm, stylesheet, &message.bytes, message.json).await
            })),
            CompiledStylesheet::Native(stylesheet) => {
                Work::Done(self.natively(stylesheet, message.for_native(), &self.parameters))
            }
        }
    }
}

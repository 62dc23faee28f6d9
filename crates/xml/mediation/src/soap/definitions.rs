//! The definitions that messages are validated against: compiled with the configuration, or fetched in the background.
//!
//! Owns the choice of the definition in use, and the wait of a message for the first one. The checks are in `check`.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::Guard;
use message::Headers;
use tokio::time::timeout;
use xsd::Schema;

use super::action::{self, Quotes};
use super::{ActionRules, Actions, Schemas, Version};
use crate::Rejection;
use crate::remote_definition::RemoteDefinition;

/// Compiled definitions for the messages of a route.
pub struct Definitions {
    /// The envelope checks for SOAP 1.1, which also apply to XML without an envelope, and for SOAP 1.2.
    pub envelopes: [Envelope; 2],
    /// The definition of the content of the Body.
    pub api: Api,
    /// How the action of requests is checked, or `None` if it is not.
    pub action: Option<ActionRules>,
    /// Indices of the route's operations, by the name of the first element of the Body. Empty if operations are not counted.
    pub operations: HashMap<Box<str>, u32>,
    /// Whether to accept messages that Kong's SOAP/XML plugin accepts although other servers may read them differently: with content after
    /// the first element of the Body or after the Body, or with labels that contradict the message.
    pub lenient: bool,
}

/// How the envelope is validated.
pub enum Envelope {
    /// The envelope is not validated.
    Off,
    /// There is no schema for this version, so its messages are refused.
    Missing,
    /// The built-in schema. It declares only SOAP's own elements, and accepts any content of the Header and the Body.
    BuiltIn(Arc<Schema>),
    /// The operator's schema.
    Own(Arc<Schema>),
    /// The operator's schema, fetched and compiled in the background.
    Remote(Arc<RemoteDefinition<CompiledDefinition>>),
    /// A schema that does not compile, with the reason.
    Broken(Rejection),
}

/// The definition that the body is validated against.
pub enum Api {
    /// The Body is not validated.
    None,
    /// Compiled with the configuration. If it does not compile, every message is refused.
    Fixed(Result<Arc<CompiledDefinition>, Rejection>),
    /// Fetched and compiled in the background.
    Remote(Arc<RemoteDefinition<CompiledDefinition>>),
}

/// A compiled schema or description.
pub struct CompiledDefinition {
    /// The schemas for the content of the Body.
    pub schemas: Schemas,
    /// For a description: the actions that requests have to name.
    pub actions: Option<Actions>,
}

/// The definition in use for one message. It is kept alive while the message is validated.
pub(super) enum Current<'a> {
    Nothing,
    Fixed(&'a Arc<CompiledDefinition>),
    Remote(Guard<Option<Arc<CompiledDefinition>>>),
}

impl Current<'_> {
    pub(super) fn compiled(&self) -> Option<&Arc<CompiledDefinition>> {
        match self {
            Current::Nothing => None,
            Current::Fixed(compiled) => Some(compiled),
            Current::Remote(serving) => serving.as_ref(),
        }
    }
}

impl Api {
    /// Returns the definition currently in use.
    pub(super) fn current(&self) -> Result<Current<'_>, Rejection> {
        match self {
            Api::None => Ok(Current::Nothing),
            Api::Fixed(Ok(compiled)) => Ok(Current::Fixed(compiled)),
            Api::Fixed(Err(failed)) => Err(failed.clone()),
            Api::Remote(definition) => definition.current().map(Current::Remote),
        }
    }
}

impl Definitions {
    /// Returns the definitions that have not been fetched yet.
    pub fn awaited(&self) -> impl Iterator<Item = &Arc<RemoteDefinition<CompiledDefinition>>> {
        let envelopes = self.envelopes.iter().filter_map(|envelope| match envelope {
            Envelope::Remote(definition) => Some(definition),
            Envelope::Off
            | Envelope::Missing
            | Envelope::BuiltIn(_)
            | Envelope::Own(_)
            | Envelope::Broken(_) => None,
        });
        let api = match &self.api {
            Api::None | Api::Fixed(_) => None,
            Api::Remote(definition) => Some(definition),
        };
        envelopes.chain(api).filter(|definition| !definition.is_ready())
    }

    /// Waits until each definition is there or has failed. The message is then checked or refused accordingly.
    pub async fn settle(&self) {
        let awaited: Vec<_> = self.awaited().collect();
        for definition in &awaited {
            definition.ask();
        }
        let patience =
            awaited.iter().map(|definition| definition.patience()).max().unwrap_or(Duration::ZERO);
        let all = async {
            for definition in awaited {
                definition.settled().await;
            }
        };
        // Harmless: the caller sees which definition is still missing.
        let _ = timeout(patience, all).await;
    }

    /// Returns the index of the operation that an element calls.
    pub(super) fn operation(&self, element: &str) -> Option<u32> {
        self.operations.get(element).copied()
    }

    /// Checks the action of a request.
    pub(super) fn check_action(
        &self,
        api: Option<&Arc<CompiledDefinition>>,
        version: Option<Version>,
        operation: &str,
        headers: Option<&Headers>,
        message: &[u8],
    ) -> Result<(), Rejection> {
        let (Some(asked), Some(version), Some(headers)) = (self.action, version, headers) else {
            return Ok(());
        };
        let actions = api.and_then(|compiled| compiled.actions.as_ref());
        let quotes = if self.lenient { Quotes::Either } else { Quotes::Double };
        action::check(actions, asked, version, operation, headers, message, quotes)
            .map_err(Rejection::client)
    }
}

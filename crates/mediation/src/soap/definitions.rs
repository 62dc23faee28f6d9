//! The definitions that messages are validated against: compiled with the configuration, or supplied beside the requests.
//!
//! Owns the choice of the one that serves, and a message's wait for the first. The checks are in `check`.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::Guard;
use message::Headers;
use tokio::time::timeout;

use super::action::{self, Quotes};
use super::{ActionRules, Actions, Envelope, Schemas, Version};
use crate::Rejection;
use crate::remote_definition::RemoteDefinition;

/// Compiled definitions for the messages of a route.
pub struct Definitions {
    /// For SOAP 1.1, which is for XML without an envelope too, and for SOAP 1.2.
    pub envelopes: [Envelope; 2],
    /// The definition of the content of the body.
    pub api: Api,
    /// The check of the action that requests name; none if it is not checked.
    pub action: Option<ActionRules>,
    /// Indices among the route's operations, by the name of the body's first element. Empty: nobody counts them.
    pub operations: HashMap<Box<str>, u32>,
    /// Messages pass that the reference system lets through although others may read them in another way: what stands behind
    /// the first element of the body or the body itself, and labels that contradict a request.
    pub lenient: bool,
}

/// The definition that the body is validated against.
pub enum Api {
    /// Nothing.
    None,
    /// Compiled with the configuration. If it does not compile, each message is refused.
    Fixed(Result<Arc<CompiledDefinition>, Rejection>),
    /// Fetched and compiled beside the requests.
    Supplied(Arc<RemoteDefinition<CompiledDefinition>>),
}

/// A schema or a description, ready to validate with.
pub struct CompiledDefinition {
    /// The schemas of the content of the body.
    pub schemas: Schemas,
    /// Of a description: the actions that requests have to name.
    pub actions: Option<Actions>,
}

/// The definition in use for one message, kept while the message is validated.
pub(super) enum Current<'a> {
    Nothing,
    Fixed(&'a Arc<CompiledDefinition>),
    Supplied(Guard<Option<Arc<CompiledDefinition>>>),
}

impl Current<'_> {
    pub(super) fn compiled(&self) -> Option<&Arc<CompiledDefinition>> {
        match self {
            Current::Nothing => None,
            Current::Fixed(compiled) => Some(compiled),
            Current::Supplied(serving) => serving.as_ref(),
        }
    }
}

impl Api {
    /// The definition that serves now.
    pub(super) fn current(&self) -> Result<Current<'_>, Rejection> {
        match self {
            Api::None => Ok(Current::Nothing),
            Api::Fixed(Ok(compiled)) => Ok(Current::Fixed(compiled)),
            Api::Fixed(Err(failed)) => Err(failed.clone()),
            Api::Supplied(supply) => supply.current().map(Current::Supplied),
        }
    }
}

impl Definitions {
    /// The definitions of which none serves yet.
    pub fn awaited(&self) -> impl Iterator<Item = &Arc<RemoteDefinition<CompiledDefinition>>> {
        let envelopes = self.envelopes.iter().filter_map(|envelope| match envelope {
            Envelope::Supplied(supply) => Some(supply),
            Envelope::Off
            | Envelope::Missing
            | Envelope::BuiltIn(_)
            | Envelope::Own(_)
            | Envelope::Broken(_) => None,
        });
        let api = match &self.api {
            Api::None | Api::Fixed(_) => None,
            Api::Supplied(supply) => Some(supply),
        };
        envelopes.chain(api).filter(|supply| !supply.is_ready())
    }

    /// Waits until all of them are there, or have failed. The message is told the result.
    pub async fn settle(&self) {
        let awaited: Vec<_> = self.awaited().collect();
        for supply in &awaited {
            supply.ask();
        }
        let patience =
            awaited.iter().map(|supply| supply.patience()).max().unwrap_or(Duration::ZERO);
        let all = async {
            for supply in awaited {
                supply.settled().await;
            }
        };
        // Harmless: the caller sees what is still missing.
        let _late = timeout(patience, all).await;
    }

    /// The index among the route's operations of the one that an element calls.
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

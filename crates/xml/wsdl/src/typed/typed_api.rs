//! A typed API: its operations, its tables, and its cache of replies. Threads can share it.

use std::sync::Arc;

use xml::Pool;
use xsd::Schema;

use super::model::{Element, Message, Root, Type};
use super::reply_cache::ReplyCache;
use crate::SoapVersion;

/// The operations of a description, with everything needed to translate their messages.
#[derive(Debug)]
pub struct Api {
    pub(crate) schema: Arc<Schema>,
    pub(crate) operations: Vec<Operation>,
    pub(crate) elements: Vec<Element>,
    pub(crate) types: Vec<Type>,
    /// Example elements for wildcards, for samples.
    pub(crate) examples: Vec<Root>,
    /// Operations that cannot be offered, with the reason.
    pub(crate) left_out: Vec<(String, String)>,
    /// The address of the service in the description.
    pub(crate) address: Option<Box<str>>,
    /// The address of the service's first port with the other version of SOAP.
    pub(crate) other_address: Option<Box<str>>,
    pub(crate) version: SoapVersion,
    pub(crate) title: Box<str>,
    /// Templates of earlier replies.
    pub(super) replies: Pool<ReplyCache>,
}

/// One operation.
#[derive(Debug)]
pub struct Operation {
    pub(crate) name: Box<str>,
    pub(crate) action: Option<Box<str>>,
    pub(crate) input: Message,
    /// `None` for a one-way operation.
    pub(crate) output: Option<Message>,
    /// The elements that the detail of a fault may contain.
    pub(crate) faults: Vec<usize>,
}

impl Api {
    /// Returns the operations that are offered.
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// Iterates over operations that cannot be offered, with the reason.
    pub fn left_out(&self) -> impl Iterator<Item = (&str, &str)> {
        self.left_out.iter().map(|(name, why)| (name.as_str(), why.as_str()))
    }

    /// Returns the address of the service in the description.
    pub fn address(&self) -> Option<&str> {
        self.address.as_deref()
    }

    /// Returns the address for a SOAP version: that of the service's first port that speaks it, or of the port itself.
    pub fn address_of(&self, version: SoapVersion) -> Option<&str> {
        let other = self.other_address.as_deref().filter(|_| version != self.version);
        other.or(self.address())
    }

    /// Returns the SOAP version of the port.
    pub fn version(&self) -> SoapVersion {
        self.version
    }

    /// Returns the name of the service.
    pub fn title(&self) -> &str {
        &self.title
    }
}

impl Operation {
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the SOAP action of requests.
    pub fn action(&self) -> Option<&str> {
        self.action.as_deref()
    }

    /// Returns whether the operation has no reply.
    pub fn is_one_way(&self) -> bool {
        self.output.is_none()
    }
}

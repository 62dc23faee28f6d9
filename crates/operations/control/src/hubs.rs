//! The hubs and queues of the plan in service, for the admin API.

use plan::hubs::{ActionError, Hub, Page};
use plan::queues::{self, Queue};
use serde_json::{Value, json};
use std::sync::Arc;

use crate::Control;

/// Why an operation of the admin API has failed.
pub enum HubFailure {
    /// The object does not exist. The text is a sentence for the operator.
    Unknown(&'static str),
    /// The operation is not possible in the current state. The text is a sentence for the operator.
    Conflict(&'static str),
    /// The operation may succeed later. The text is the reason.
    Unavailable(String),
}

impl From<ActionError> for HubFailure {
    fn from(not_done: ActionError) -> HubFailure {
        match not_done {
            ActionError::Unknown(what) => HubFailure::Unknown(what),
            ActionError::Conflict(why) => HubFailure::Conflict(why),
            ActionError::Store(error) => HubFailure::Unavailable(error.to_string()),
            ActionError::Busy => HubFailure::Unavailable("too many changes are waiting".to_owned()),
        }
    }
}

impl From<queues::ActionError> for HubFailure {
    fn from(not_done: queues::ActionError) -> HubFailure {
        match not_done {
            queues::ActionError::Unknown => HubFailure::Unknown("There is no such dead message."),
            queues::ActionError::Conflict(why) => HubFailure::Conflict(why),
            queues::ActionError::Store(error) => HubFailure::Unavailable(error.to_string()),
        }
    }
}

impl Control {
    /// The state of all queues.
    pub async fn queues(&self) -> Result<Value, HubFailure> {
        let plan = self.plan();
        let mut queues = Vec::new();
        for queue in &plan.queues {
            queues.push(queue.view().await?);
        }
        Ok(self.shown("queues", queues))
    }

    /// The state of one queue.
    pub async fn queue(&self, name: &str) -> Result<Value, HubFailure> {
        Ok(self.queue_of(name)?.view().await?)
    }

    /// A page of a queue's dead messages.
    pub async fn dead_messages(
        &self,
        name: &str,
        after: Option<&str>,
    ) -> Result<Value, HubFailure> {
        Ok(self.queue_of(name)?.dead(after).await?)
    }

    /// A page of a queue's unprocessed messages.
    pub async fn queued_messages(
        &self,
        name: &str,
        after: Option<&str>,
    ) -> Result<Value, HubFailure> {
        Ok(self.queue_of(name)?.messages(after).await?)
    }

    /// A dead message of a queue, with its failures.
    pub async fn dead_message(&self, name: &str, id: &str) -> Result<Value, HubFailure> {
        Ok(self.queue_of(name)?.dead_message(id).await?)
    }

    /// Puts all dead messages of a queue back into it.
    pub async fn retry_messages(&self, name: &str) -> Result<Value, HubFailure> {
        Ok(self.queue_of(name)?.retry_all_dead().await?)
    }

    /// Removes all dead messages of a queue.
    pub async fn remove_messages(&self, name: &str) -> Result<Value, HubFailure> {
        Ok(self.queue_of(name)?.remove_all_dead().await?)
    }

    /// Pauses a queue.
    pub async fn pause_queue(&self, name: &str) -> Result<(), HubFailure> {
        Ok(self.queue_of(name)?.pause().await?)
    }

    /// Resumes a queue.
    pub async fn resume_queue(&self, name: &str) -> Result<(), HubFailure> {
        Ok(self.queue_of(name)?.resume().await?)
    }

    /// Puts a dead message back into its queue.
    pub async fn retry_message(&self, name: &str, id: &str) -> Result<(), HubFailure> {
        Ok(self.queue_of(name)?.retry_dead(id).await?)
    }

    /// Removes a dead message.
    pub async fn remove_message(&self, name: &str, id: &str) -> Result<(), HubFailure> {
        Ok(self.queue_of(name)?.remove_dead(id).await?)
    }

    fn queue_of(&self, name: &str) -> Result<Arc<Queue>, HubFailure> {
        let plan = self.plan();
        let queue = plan.queues.iter().find(|queue| queue.name() == name).cloned();
        queue.ok_or(HubFailure::Unknown("There is no such queue."))
    }

    /// The state of all hubs.
    pub async fn hubs(&self) -> Result<Value, HubFailure> {
        let plan = self.plan();
        let mut hubs = Vec::new();
        for hub in &plan.hubs {
            hubs.push(hub.view().await?);
        }
        Ok(self.shown("hubs", hubs))
    }

    /// An object with this list as the member `name`. If several gateways may share the store, it also lists them with their partitions.
    fn shown(&self, name: &str, list: Vec<Value>) -> Value {
        let mut shown = serde_json::Map::from_iter([(name.to_owned(), Value::Array(list))]);
        let store = self.plan().store.clone();
        if let Some(store) = store.filter(|store| !store.nodes().is_single()) {
            let nodes = store.nodes().views().into_iter().map(|node| {
                json!({ "name": node.name, "partitions": node.partitions, "this": node.is_this })
            });
            shown.insert("nodes".to_owned(), nodes.collect());
        }
        Value::Object(shown)
    }

    /// True while the database of the store does not answer.
    pub fn is_store_unavailable(&self) -> bool {
        self.plan().store.as_ref().is_some_and(|store| store.away().is_some())
    }

    /// The state of one hub.
    pub async fn hub(&self, name: &str) -> Result<Value, HubFailure> {
        Ok(self.hub_of(name)?.view().await?)
    }

    /// A page of a hub's subscriptions.
    pub async fn subscriptions(
        &self,
        name: &str,
        after: Option<&str>,
    ) -> Result<Value, HubFailure> {
        Ok(self.hub_of(name)?.subscriptions(Page { after }).await?)
    }

    /// Removes a subscription.
    pub async fn remove_subscription(&self, name: &str, id: &str) -> Result<(), HubFailure> {
        Ok(self.hub_of(name)?.remove_subscription(id).await?)
    }

    /// A page of a hub's dead events.
    pub async fn dead(&self, name: &str, after: Option<&str>) -> Result<Value, HubFailure> {
        Ok(self.hub_of(name)?.dead(Page { after }).await?)
    }

    /// A dead event, with the content that was sent and the reason for the failure.
    pub async fn dead_event(&self, name: &str, id: &str) -> Result<Value, HubFailure> {
        Ok(self.hub_of(name)?.dead_view(id).await?)
    }

    /// Sends all dead events again.
    pub async fn retry_all_dead(&self, name: &str) -> Result<Value, HubFailure> {
        Ok(self.hub_of(name)?.retry_all_dead().await?)
    }

    /// Removes all dead events.
    pub async fn remove_all_dead(&self, name: &str) -> Result<Value, HubFailure> {
        Ok(self.hub_of(name)?.remove_all_dead().await?)
    }

    /// Pauses the deliveries of a hub.
    pub async fn pause_hub(&self, name: &str) -> Result<(), HubFailure> {
        Ok(self.hub_of(name)?.pause().await?)
    }

    /// Resumes the deliveries of a hub.
    pub async fn resume_hub(&self, name: &str) -> Result<(), HubFailure> {
        Ok(self.hub_of(name)?.resume().await?)
    }

    /// Sends a dead event again.
    pub async fn retry_dead(&self, name: &str, id: &str) -> Result<(), HubFailure> {
        Ok(self.hub_of(name)?.retry_dead(id).await?)
    }

    /// Removes a dead event.
    pub async fn remove_dead(&self, name: &str, id: &str) -> Result<(), HubFailure> {
        Ok(self.hub_of(name)?.remove_dead(id).await?)
    }

    fn hub_of(&self, name: &str) -> Result<Arc<Hub>, HubFailure> {
        let plan = self.plan();
        let hub = plan.hubs.iter().find(|hub| hub.name() == name).cloned();
        hub.ok_or(HubFailure::Unknown("There is no such hub."))
    }
}

//! `subscription`: requires a subscription of the client's application to the API.

use crate::decode::keys;
use crate::values::Spanned;

keys! {
    /// Requires that the client's application has subscribed to an API, and enforces its plans. A policy above must authenticate the
    /// client. `apis.NAME.subscription` adds it to the routes of an API.
    pub struct SubscriptionCheck {
        /// The name by which `applications` subscribe; the route's name if absent.
        api: Option<Spanned<String>>,
        /// Whether a request without a subscription is refused.
        required: bool = true,
        /// The plans that subscriptions may have; any if absent. `DefaultSubscriptionless` among them is the plan of requests without a
        /// subscription, if none is required.
        plans: Vec<Spanned<String>> = Vec::new(),
        /// The plan of all requests to the API together, of all applications.
        api_plan: Option<Spanned<String>>,
        /// The plan of all requests to this route together, if the API has none.
        resource_plan: Option<Spanned<String>>,
        /// The context of the API, for tokens that list their subscriptions in the claim `subscribedAPIs`; any if absent.
        context: Option<String>,
        /// The version of the API, for such tokens; any if absent.
        version: Option<String>,
    }
}

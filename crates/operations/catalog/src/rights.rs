//! The scopes of the catalog's REST interface for each role.

use plan::CatalogRole;

/// Prefixes of the scopes of publishers.
const PUBLISHER: [&str; 7] = [
    "api_",
    "subscription_",
    "shared_scope_",
    "tier_view",
    "document_",
    "mediation_policy_",
    "common_operation_policy_",
];

/// The scopes of developers.
const DEVELOPER: [&str; 6] =
    ["subscribe", "app_manage", "sub_manage", "api_key", "app_import_export", "store_settings"];

/// True if one of the roles has the scope.
pub(crate) fn may_have(roles: &[CatalogRole], scope: &str) -> bool {
    let Some(name) = scope.strip_prefix("apim:") else {
        // Scopes of OpenID Connect do not grant rights.
        return scope == "openid";
    };
    roles.iter().any(|role| match role {
        CatalogRole::Admin => true,
        CatalogRole::Publisher => PUBLISHER.iter().any(|known| name.starts_with(known)),
        CatalogRole::Developer => DEVELOPER.contains(&name),
    })
}

/// True if one of the roles has one of these scopes. A user who sends a password instead of a token has all scopes of the roles.
pub(crate) fn grants(roles: &[CatalogRole], wanted: &[&str]) -> bool {
    wanted.iter().any(|scope| may_have(roles, scope))
}

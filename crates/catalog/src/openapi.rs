//! The OpenAPI document of the catalog's interface, made from one table of its operations.

use serde_json::{Map, Value, json};

/// A method and path, what it does, its success, and the scopes of which one is needed.
struct Row(&'static str, &'static str, &'static str, u16, &'static str);

const ROWS: &[Row] = &[
    Row("post", "/client-registration/v0.17/register", "Register a client of the catalog", 200, ""),
    Row("post", "/oauth2/token", "Get a token", 200, ""),
    Row("post", "/oauth2/revoke", "Revoke a token", 200, ""),
    Row("get", "/oauth2/jwks", "Get the keys that verify tokens", 200, ""),
    Row("get", "/.well-known/openid-configuration", "Discover the token endpoint", 200, ""),
    Row("get", "/openapi.json", "Get this document", 200, ""),
    Row("get", "/api/am/publisher/v4/apis", "Find APIs", 200, "apim:api_view"),
    Row("post", "/api/am/publisher/v4/apis", "Create an API", 201, "apim:api_create"),
    Row(
        "post",
        "/api/am/publisher/v4/apis/import-openapi",
        "Create an API of a document",
        201,
        "apim:api_create",
    ),
    Row(
        "post",
        "/api/am/publisher/v4/apis/import-asyncapi",
        "Create an API of an AsyncAPI document",
        201,
        "apim:api_create",
    ),
    Row(
        "post",
        "/api/am/publisher/v4/apis/import-wsdl",
        "Create an API of a WSDL",
        201,
        "apim:api_create",
    ),
    Row(
        "post",
        "/api/am/publisher/v4/apis/import",
        "Create or change the API of a project of apictl",
        200,
        "apim:api_create",
    ),
    Row(
        "post",
        "/api/am/publisher/v4/apis/change-lifecycle",
        "Change the state of an API",
        200,
        "apim:api_publish",
    ),
    Row("get", "/api/am/publisher/v4/apis/{apiId}", "Get an API", 200, "apim:api_view"),
    Row("put", "/api/am/publisher/v4/apis/{apiId}", "Change an API", 200, "apim:api_create"),
    Row("delete", "/api/am/publisher/v4/apis/{apiId}", "Delete an API", 200, "apim:api_create"),
    Row(
        "get",
        "/api/am/publisher/v4/apis/{apiId}/swagger",
        "Get the OpenAPI document of an API",
        200,
        "apim:api_view",
    ),
    Row(
        "put",
        "/api/am/publisher/v4/apis/{apiId}/swagger",
        "Replace the OpenAPI document of an API",
        200,
        "apim:api_create",
    ),
    Row(
        "get",
        "/api/am/publisher/v4/apis/{apiId}/asyncapi",
        "Get the AsyncAPI document of an API",
        200,
        "apim:api_view",
    ),
    Row(
        "put",
        "/api/am/publisher/v4/apis/{apiId}/asyncapi",
        "Replace the AsyncAPI document of an API",
        200,
        "apim:api_create",
    ),
    Row(
        "get",
        "/api/am/publisher/v4/apis/{apiId}/wsdl",
        "Get the WSDL of an API",
        200,
        "apim:api_view",
    ),
    Row(
        "put",
        "/api/am/publisher/v4/apis/{apiId}/wsdl",
        "Replace the WSDL of an API",
        200,
        "apim:api_create",
    ),
    Row(
        "get",
        "/api/am/publisher/v4/apis/{apiId}/lifecycle-state",
        "Get the state of an API",
        200,
        "apim:api_view",
    ),
    Row(
        "get",
        "/api/am/publisher/v4/apis/{apiId}/deployments",
        "Find the deployments of an API",
        200,
        "apim:api_view",
    ),
    Row(
        "get",
        "/api/am/publisher/v4/apis/{apiId}/revisions",
        "Find the revisions of an API",
        200,
        "apim:api_view",
    ),
    Row(
        "post",
        "/api/am/publisher/v4/apis/{apiId}/revisions",
        "Create a revision",
        201,
        "apim:api_create",
    ),
    Row(
        "delete",
        "/api/am/publisher/v4/apis/{apiId}/revisions/{revisionId}",
        "Delete a revision",
        200,
        "apim:api_create",
    ),
    Row(
        "post",
        "/api/am/publisher/v4/apis/{apiId}/deploy-revision",
        "Deploy a revision",
        201,
        "apim:api_publish",
    ),
    Row(
        "post",
        "/api/am/publisher/v4/apis/{apiId}/undeploy-revision",
        "Take a revision out of service",
        201,
        "apim:api_publish",
    ),
    Row(
        "get",
        "/api/am/publisher/v4/subscriptions",
        "Find subscriptions",
        200,
        "apim:subscription_view",
    ),
    Row(
        "post",
        "/api/am/publisher/v4/subscriptions/block-subscription",
        "Block a subscription",
        200,
        "apim:subscription_block",
    ),
    Row(
        "post",
        "/api/am/publisher/v4/subscriptions/unblock-subscription",
        "Unblock a subscription",
        200,
        "apim:subscription_block",
    ),
    Row(
        "get",
        "/api/am/publisher/v4/throttling-policies/{level}",
        "Find plans",
        200,
        "apim:api_view",
    ),
    Row("get", "/api/am/devportal/v3/apis", "Find published APIs", 200, ""),
    Row("get", "/api/am/devportal/v3/apis/{apiId}", "Get a published API", 200, ""),
    Row(
        "get",
        "/api/am/devportal/v3/apis/{apiId}/swagger",
        "Get the OpenAPI document of a published API",
        200,
        "",
    ),
    Row(
        "get",
        "/api/am/devportal/v3/apis/{apiId}/async-api-specification",
        "Get the AsyncAPI document of a published API",
        200,
        "",
    ),
    Row(
        "get",
        "/api/am/devportal/v3/apis/{apiId}/wsdl",
        "Get the WSDL of a published API",
        200,
        "",
    ),
    Row("get", "/api/am/devportal/v3/applications", "Find applications", 200, "apim:app_manage"),
    Row(
        "post",
        "/api/am/devportal/v3/applications",
        "Create an application",
        201,
        "apim:app_manage",
    ),
    Row(
        "get",
        "/api/am/devportal/v3/applications/{applicationId}",
        "Get an application",
        200,
        "apim:app_manage",
    ),
    Row(
        "put",
        "/api/am/devportal/v3/applications/{applicationId}",
        "Change an application",
        200,
        "apim:app_manage",
    ),
    Row(
        "delete",
        "/api/am/devportal/v3/applications/{applicationId}",
        "Delete an application with its tokens",
        200,
        "apim:app_manage",
    ),
    Row(
        "post",
        "/api/am/devportal/v3/applications/{applicationId}/generate-keys",
        "Make the keys of an application",
        200,
        "apim:app_manage",
    ),
    Row(
        "get",
        "/api/am/devportal/v3/applications/{applicationId}/keys",
        "Find the keys of an application",
        200,
        "apim:app_manage",
    ),
    Row(
        "get",
        "/api/am/devportal/v3/applications/{applicationId}/keys/{keyType}",
        "Get keys of an application",
        200,
        "apim:app_manage",
    ),
    Row(
        "put",
        "/api/am/devportal/v3/applications/{applicationId}/keys/{keyType}",
        "Change keys of an application",
        200,
        "apim:app_manage",
    ),
    Row(
        "post",
        "/api/am/devportal/v3/applications/{applicationId}/keys/{keyType}/regenerate-secret",
        "Make a new secret",
        200,
        "apim:app_manage",
    ),
    Row(
        "post",
        "/api/am/devportal/v3/applications/{applicationId}/keys/{keyType}/generate-token",
        "Get a token to try an API",
        200,
        "apim:app_manage",
    ),
    Row(
        "get",
        "/api/am/devportal/v3/applications/{applicationId}/oauth-keys",
        "Find the keys of an application",
        200,
        "apim:app_manage",
    ),
    Row(
        "get",
        "/api/am/devportal/v3/applications/{applicationId}/oauth-keys/{keyMappingId}",
        "Get keys of an application",
        200,
        "apim:app_manage",
    ),
    Row(
        "put",
        "/api/am/devportal/v3/applications/{applicationId}/oauth-keys/{keyMappingId}",
        "Change keys of an application",
        200,
        "apim:app_manage",
    ),
    Row(
        "post",
        "/api/am/devportal/v3/applications/{applicationId}/oauth-keys/{keyMappingId}/regenerate-secret",
        "Make a new secret",
        200,
        "apim:app_manage",
    ),
    Row(
        "post",
        "/api/am/devportal/v3/applications/{applicationId}/oauth-keys/{keyMappingId}/generate-token",
        "Get a token to try an API",
        200,
        "apim:app_manage",
    ),
    Row(
        "post",
        "/api/am/devportal/v3/applications/{applicationId}/api-keys/{keyType}/generate",
        "Make an API key",
        200,
        "apim:api_key",
    ),
    Row(
        "post",
        "/api/am/devportal/v3/applications/{applicationId}/api-keys/{keyType}/revoke",
        "Revoke an API key",
        200,
        "apim:api_key",
    ),
    Row("get", "/api/am/devportal/v3/subscriptions", "Find subscriptions", 200, "apim:subscribe"),
    Row("post", "/api/am/devportal/v3/subscriptions", "Subscribe", 201, "apim:subscribe"),
    Row(
        "get",
        "/api/am/devportal/v3/subscriptions/{subscriptionId}",
        "Get a subscription",
        200,
        "apim:subscribe",
    ),
    Row(
        "put",
        "/api/am/devportal/v3/subscriptions/{subscriptionId}",
        "Change the plan of a subscription",
        200,
        "apim:subscribe",
    ),
    Row(
        "delete",
        "/api/am/devportal/v3/subscriptions/{subscriptionId}",
        "Unsubscribe",
        200,
        "apim:subscribe",
    ),
    Row("get", "/api/am/devportal/v3/throttling-policies/{level}", "Find plans", 200, ""),
    Row("get", "/api/am/devportal/v3/key-managers", "Find issuers of tokens", 200, ""),
    Row("get", "/api/am/admin/v4/throttling/policies/{level}", "Find plans", 200, "apim:tier_view"),
    Row(
        "post",
        "/api/am/admin/v4/throttling/policies/{level}",
        "Create a plan",
        201,
        "apim:tier_manage",
    ),
    Row(
        "get",
        "/api/am/admin/v4/throttling/policies/{level}/{policyId}",
        "Get a plan",
        200,
        "apim:tier_view",
    ),
    Row(
        "put",
        "/api/am/admin/v4/throttling/policies/{level}/{policyId}",
        "Change a plan",
        200,
        "apim:tier_manage",
    ),
    Row(
        "delete",
        "/api/am/admin/v4/throttling/policies/{level}/{policyId}",
        "Delete a plan",
        200,
        "apim:tier_manage",
    ),
];

/// The document.
pub(crate) fn document() -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for row in ROWS {
        let path = paths.entry(row.1).or_insert_with(|| json!({}));
        if let Some(path) = path.as_object_mut() {
            path.insert(row.0.to_owned(), operation(row));
        }
    }
    json!({
        "openapi": "3.1.0",
        "info": { "title": "Catalog", "version": env!("CARGO_PKG_VERSION") },
        "paths": paths,
        "components": {
            "securitySchemes": {
                "token": { "type": "http", "scheme": "bearer" },
                "password": { "type": "http", "scheme": "basic" },
            },
            "schemas": {
                "Error": {
                    "type": "object",
                    "required": ["code", "message", "description"],
                    "properties": {
                        "code": { "type": "integer" },
                        "message": { "type": "string" },
                        "description": { "type": "string" },
                        "moreInfo": { "type": "string" },
                        "error": { "type": "array", "items": { "type": "object" } },
                    },
                },
            },
        },
    })
}

fn operation(Row(_, path, summary, success, scope): &Row) -> Value {
    // Harmless: a parameter ends with a brace.
    let names = path.split('{').skip(1).filter_map(|rest| rest.split('}').next());
    let parameter = |name: &str| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } });
    let parameters: Vec<Value> = names.map(parameter).collect();
    let error = json!({ "description": "Refused", "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Error" } } } });
    let mut operation = json!({
        "summary": summary,
        "responses": { success.to_string(): { "description": "Done" }, "default": error },
    });
    if let Some(members) = operation.as_object_mut() {
        if !parameters.is_empty() {
            members.insert("parameters".to_owned(), json!(parameters));
        }
        if !scope.is_empty() {
            members.insert("security".to_owned(), json!([{ "token": [] }, { "password": [] }]));
            members.insert("x-scope".to_owned(), json!(scope));
        }
    }
    operation
}

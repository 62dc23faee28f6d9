//! Endpoints of the catalog's APIs: failover, the gateway's credentials, and the effects of operation policies.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::catalog::{
    CATALOG, Client, application, call, definition, log_in, publish, start, subscribe, token,
};
use crate::catalog_imports::form;
use crate::harness::{ClosedPort, Gateway, Message, Origin};

/// An application with a subscription to an API, and what its requests get.
struct Caller {
    token: String,
}

impl Caller {
    #[track_caller]
    fn of(client: &Client<'_>, name: &str, apis: &[&str], kind: &str) -> Caller {
        let (id, key, secret) = application(client, name, "Unlimited");
        apis.iter().for_each(|api| drop(subscribe(client, api, &id, "Gold")));
        let (key, secret) = if kind == "SANDBOX" {
            let at = format!("/api/am/devportal/v3/applications/{id}/generate-keys");
            let wish =
                json!({ "keyType": kind, "grantTypesToBeSupported": ["client_credentials"] });
            let made = client.done("POST", &at, &wish, 200);
            (
                made["consumerKey"].as_str().unwrap().to_owned(),
                made["consumerSecret"].as_str().unwrap().to_owned(),
            )
        } else {
            (key, secret)
        };
        let told = token(client.gateway, &key, &secret, "grant_type=client_credentials");
        Caller { token: told["access_token"].as_str().unwrap().to_owned() }
    }

    fn get(&self, gateway: &Gateway, target: &str) -> Message {
        call(gateway, target, &self.token)
    }
}

fn endpoint(url: &str) -> Value {
    json!({ "url": url })
}

#[test]
fn the_next_endpoint_takes_over_and_each_environment_has_its_own_credentials() {
    let (second, sandbox) = (Origin::saying("second"), Origin::saying("sandbox"));
    let gone = ClosedPort::any();
    let gateway = start();
    let client = log_in(&gateway, "admin", "admin");
    let mut ids = Vec::new();
    // The gateway does not interpret passwords.
    for (name, kind) in [("rest", "HTTP"), ("soap", "SOAP")] {
        let mut wish = definition(name, &second);
        wish["type"] = json!(kind);
        wish["operations"] = json!([{ "target": "/*", "verb": "GET" }]);
        wish["endpointConfig"] = json!({
            "endpoint_type": "failover",
            "production_endpoints": endpoint(&format!("http://{}/v", gone.address)),
            "production_failovers": [endpoint(&format!("{}/v", second.url()))],
            "sandbox_endpoints": endpoint(&format!("{}/v", sandbox.url())),
            "endpoint_security": {
                "production": { "enabled": true, "type": "BASIC", "username": "ann", "password": "a${HOME}$${b" },
                "sandbox": { "enabled": true, "type": "basic", "username": "bob", "password": "secret" },
            },
        });
        ids.push(publish(&client, &wish));
    }
    let apis: Vec<&str> = ids.iter().map(String::as_str).collect();
    let production = Caller::of(&client, "production", &apis, "PRODUCTION");
    let tests = Caller::of(&client, "tests", &apis, "SANDBOX");
    for (number, name) in ["rest", "soap"].into_iter().enumerate() {
        let target = format!("/{name}/1.0.0/a");
        for _ in 0..3 {
            let reply = production.get(&gateway, &target);
            assert_eq!((reply.status(), reply.text().as_str()), (200, "second"), "{name}");
        }
        let seen = second.requests();
        let seen = seen.last().unwrap();
        assert_eq!(
            (seen.target(), seen.get("authorization")),
            ("/v/a", Some("Basic YW5uOmEke0hPTUV9JCR7Yg=="))
        );
        assert_eq!(tests.get(&gateway, &target).text(), "sandbox", "{name}");
        let seen = &sandbox.requests()[number];
        assert_eq!(seen.get("authorization"), Some("Basic Ym9iOnNlY3JldA=="));
    }
}

#[test]
fn the_gateway_gets_tokens_for_an_endpoint() {
    let count = AtomicUsize::new(0);
    let issuer = Origin::start(move |peer| {
        while peer.request().is_some() {
            let number = count.fetch_add(1, Ordering::SeqCst);
            let body = format!(
                r#"{{"access_token":"t{number}","token_type":"bearer","expires_in":3600}}"#
            );
            peer.send(format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            ));
        }
    });
    let origin = Origin::saying("ok");
    let gateway = start();
    let client = log_in(&gateway, "admin", "admin");
    let mut wish = definition("rest", &origin);
    wish["endpointConfig"]["endpoint_security"] = json!({
        "production": {
            "enabled": true, "type": "OAUTH", "grantType": "CLIENT_CREDENTIALS", "tokenUrl": format!("{}/token", issuer.url()),
            "clientId": "gateway", "clientSecret": "hidden", "customParameters": "{\"audience\":\"stock\"}",
        },
    });
    let api = publish(&client, &wish);
    let caller = Caller::of(&client, "app", &[&api], "PRODUCTION");
    assert_eq!(caller.get(&gateway, "/rest/1.0.0/a").status(), 200);
    assert_eq!(origin.request().get("authorization"), Some("Bearer t0"));
    let asked = issuer.request();
    assert_eq!(asked.target(), "/token");
    assert!(asked.text().contains("audience=stock"), "{}", asked.text());
}

#[test]
fn secrets_of_endpoints_are_never_shown_and_stay_where_a_change_leaves_them_empty() {
    let origin = Origin::saying("ok");
    let gateway = start();
    let client = log_in(&gateway, "admin", "admin");
    let mut wish = definition("rest", &origin);
    wish["endpointConfig"]["endpoint_security"] = json!({
        "production": { "enabled": true, "type": "BASIC", "username": "ann", "password": "hunter2" },
    });
    let api = publish(&client, &wish);
    let at = format!("/api/am/publisher/v4/apis/{api}");
    for target in [
        at.clone(),
        format!("{at}/swagger"),
        format!("{at}/revisions"),
        "/api/am/publisher/v4/apis".to_owned(),
        format!("/api/am/devportal/v3/apis/{api}"),
        format!("/api/am/devportal/v3/apis/{api}/swagger"),
    ] {
        let shown = client.ask("GET", &target, &Value::Null);
        assert_eq!(shown.status(), 200, "{target}");
        for hidden in ["hunter2", "YW5uOmh1bnRlcjI", "securityConfig"] {
            assert!(!shown.text().contains(hidden), "{target}: {}", shown.text());
        }
    }
    // As in the pages of WSO2 API Manager: the object is sent back with a change.
    let mut shown = client.done("GET", &at, &Value::Null, 200);
    assert_eq!(shown["endpointConfig"]["endpoint_security"]["production"]["username"], "ann");
    shown["description"] = json!("another");
    let changed = client.ask("PUT", &at, &shown);
    assert!(changed.status() == 200 && !changed.text().contains("hunter2"), "{}", changed.text());
    let revision = client.done("POST", &format!("{at}/revisions"), &json!({}), 201);
    let revision = revision["id"].as_str().unwrap();
    client.done("POST", &format!("{at}/deploy-revision?revisionId={revision}"), &json!([]), 201);
    let caller = Caller::of(&client, "app", &[&api], "PRODUCTION");
    assert_eq!(caller.get(&gateway, "/rest/1.0.0/a").status(), 200);
    assert_eq!(origin.request().get("authorization"), Some("Basic YW5uOmh1bnRlcjI="));
}

#[test]
fn policies_of_operations_change_requests_and_replies_in_their_order() {
    let origin =
        Origin::answering("HTTP/1.1 200 OK\r\nX-Powered-By: secret\r\nContent-Length: 2\r\n\r\nok");
    let gateway = start();
    let client = log_in(&gateway, "admin", "admin");
    let policy = |name: &str, parameters: Value| json!({ "policyName": name, "policyVersion": "v1", "policyType": "common", "parameters": parameters });
    let add = |name: &str, value: &str| {
        policy("addHeader", json!({ "headerName": name, "headerValue": value }))
    };
    let mut rest = definition("rest", &origin);
    rest["apiPolicies"] = json!({ "request": [add("X-Who", "api")], "response": [add("X-Last", "api")], "fault": [] });
    rest["operations"][0]["operationPolicies"] = json!({
        "request": [
            add("X-Who", "first"), add("X-Who", "second"),
            policy("removeHeader", json!({ "headerName": "X-Inner" })),
            policy("renameHeader", json!({ "currentHeaderName": "X-Old", "updatedHeaderName": "X-New" })),
            policy("addQueryParam", json!({ "paramKey": "page size", "paramValue": "5&6" })),
            policy("removeQueryParam", json!({ "paramKey": "debug" })),
        ],
        "response": [policy("removeHeader", json!({ "headerName": "X-Powered-By" })), add("X-Last", "first"), add("X-Last", "second")],
        "fault": [],
    });
    let mut soap = definition("soap", &origin);
    soap["type"] = json!("SOAP");
    soap["operations"] = json!([{ "target": "/*", "verb": "GET" }]);
    soap["operations"][0]["operationPolicies"] = json!({ "request": [add("X-Who", "soap")] });
    let ids = [publish(&client, &rest), publish(&client, &soap)];
    let caller = Caller::of(&client, "app", &[&ids[0], &ids[1]], "PRODUCTION");
    let ask = |method: &str, target: &str| {
        gateway.wire().ask(format!(
            "{method} {target} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {}\r\nX-Inner: 1\r\nX-Old: 7\r\nContent-Length: 0\r\n\r\n",
            caller.token
        ))
    };
    let reply = ask("GET", "/rest/1.0.0/a?debug=1&b=2");
    assert_eq!(
        (reply.status(), reply.get("x-powered-by"), reply.all("x-last")),
        (200, None, vec!["api"])
    );
    let seen = origin.requests();
    let seen = seen.last().unwrap();
    assert_eq!(
        (seen.all("x-who"), seen.get("x-inner"), seen.get("x-old"), seen.get("x-new")),
        (vec!["second"], None, None, Some("7"))
    );
    assert!(
        seen.target().starts_with("/back/a?b=2&page") && seen.target().ends_with("=5%266"),
        "{}",
        seen.target()
    );
    // Another operation has those of the API alone.
    let reply = ask("POST", "/rest/1.0.0/a?debug=1");
    assert_eq!((reply.get("x-powered-by"), reply.all("x-last")), (Some("secret"), vec!["api"]));
    let seen = origin.requests();
    let seen = seen.last().unwrap();
    assert_eq!((seen.all("x-who"), seen.target()), (vec!["api"], "/back/a?debug=1"));
    ask("GET", "/soap/1.0.0/");
    assert_eq!(origin.requests().last().unwrap().all("x-who"), ["soap"]);
}

#[test]
fn what_endpoints_and_policies_cannot_be_is_refused_with_its_place() {
    let origin = Origin::saying("ok");
    let gateway = start();
    let client = log_in(&gateway, "admin", "admin");
    let security = |security: Value| json!({ "production": security });
    for (place, value, told) in [
        (
            "/endpointConfig/endpoint_security",
            security(json!({ "enabled": true, "type": "DIGEST" })),
            "endpointConfig.endpoint_security.production.type",
        ),
        (
            "/endpointConfig/endpoint_security",
            security(json!({ "enabled": true, "type": "BASIC", "username": "a" })),
            "endpointConfig.endpoint_security.production.password",
        ),
        (
            "/endpointConfig/endpoint_security",
            security(
                json!({ "enabled": true, "type": "OAUTH", "grantType": "PASSWORD", "tokenUrl": "http://a.test/t", "clientId": "a", "clientSecret": "b" }),
            ),
            "endpointConfig.endpoint_security.production.grantType",
        ),
        (
            "/endpointConfig/endpoint_security",
            security(
                json!({ "enabled": true, "type": "OAUTH", "tokenUrl": "file:///etc/passwd", "clientId": "a", "clientSecret": "b" }),
            ),
            "file:///etc/passwd",
        ),
        (
            "/endpointConfig/production_failovers",
            json!([{ "url": "http://a.test" }]),
            "endpointConfig.production_failovers",
        ),
        (
            "/operations/0/operationPolicies",
            json!({ "request": [{ "policyName": "jsonToXML" }] }),
            "operations.0.operationPolicies.request.0.policyName",
        ),
        (
            "/operations/1/operationPolicies",
            json!({ "fault": [{ "policyName": "jsonFault" }] }),
            "operations.1.operationPolicies.fault.0.policyName",
        ),
        (
            "/apiPolicies",
            json!({ "request": [{ "policyName": "addHeader", "parameters": { "headerName": "a b", "headerValue": "c" } }] }),
            "apiPolicies.request.0.parameters.headerName",
        ),
    ] {
        let mut wish = definition("echo", &origin);
        wish["apiPolicies"] = json!({});
        for number in 0..2 {
            wish["operations"][number]["operationPolicies"] = json!({});
        }
        wish["endpointConfig"]["endpoint_security"] = json!({});
        wish["endpointConfig"]["production_failovers"] = json!([]);
        *wish.pointer_mut(place).unwrap() = value;
        let reply = client.ask("POST", "/api/am/publisher/v4/apis", &wish);
        assert!(
            reply.status() == 400 && reply.text().contains(told),
            "{told}: {} {}",
            reply.status(),
            reply.text()
        );
    }
}

/// A document cannot override the definition, which is checked.
#[test]
fn extensions_of_an_imported_document_lead_nowhere() {
    let (origin, elsewhere) = (Origin::saying("ok"), Origin::saying("elsewhere"));
    let gateway = Gateway::start(
        CATALOG
            .replace("PAT", &"0".repeat(64))
            .replace("gateway: public", "gateway: public\n  endpoints: { allow: [\"127.0.0.1\"] }"),
    );
    let client = log_in(&gateway, "admin", "admin");
    let theirs = elsewhere.url().replace("127.0.0.1", "localhost");
    let document = json!({
        "openapi": "3.0.1",
        "info": { "title": "Pets", "version": "1" },
        "x-tidegate-production-endpoints": { "urls": [theirs] },
        "x-tidegate-disable-security": true,
        "x-tidegate-request-interceptor": { "serviceURL": theirs },
        "x-tidegate-policies": [{ "redirect": { "to": theirs } }],
        "paths": { "/pets": {
            "x-tidegate-disable-security": true,
            "get": {
                "x-tidegate-production-endpoints": { "urls": [theirs] },
                "x-tidegate-disable-security": true,
                "x-auth-type": "None",
                "x-scopes": ["other"],
                "x-tidegate-policies": [{ "redirect": { "to": theirs } }],
                "servers": [{ "url": theirs }],
                "responses": { "200": { "description": "ok" } },
            },
        } },
    });
    let more = json!({
        "context": "/pets", "policies": ["Gold"], "endpointConfig": { "production_endpoints": { "url": origin.url() } },
        "operations": [],
    });
    let parts = [
        ("file", document.to_string().into_bytes()),
        ("additionalProperties", more.to_string().into_bytes()),
    ];
    let parts: Vec<(&str, &[u8])> = parts.iter().map(|(name, body)| (*name, &body[..])).collect();
    let made = form(&client, "POST", "/api/am/publisher/v4/apis/import-openapi", &parts);
    assert_eq!(made.status(), 201, "{}", made.text());
    let mut wish = crate::catalog::read(&made);
    let id = wish["id"].as_str().unwrap().to_owned();
    // Only parts that operations have in WSO2 API Manager are taken from the document. The publisher then changes them back.
    wish["operations"] = json!([{ "target": "/pets", "verb": "GET", "authType": "Application & Application User", "scopes": [] }]);
    client.done("PUT", &format!("/api/am/publisher/v4/apis/{id}"), &wish, 200);
    crate::catalog_imports::serve(&client, &id);
    assert_eq!(gateway.wire().get("/pets/1/pets").status(), 401);
    let caller = Caller::of(&client, "app", &[&id], "PRODUCTION");
    let reply = caller.get(&gateway, "/pets/1/pets");
    assert_eq!((reply.status(), reply.text().as_str()), (200, "ok"), "{reply:?}");
    assert!(elsewhere.requests().is_empty());
}

//! Imports into the catalog: AsyncAPI documents, WSDL, projects of apictl; and `tidegate import apictl`.

use std::io::{Cursor, Write as _};

use serde_json::{Value, json};
use zip::write::SimpleFileOptions;

use crate::catalog::{
    Client, application, call, definition, is_refused, log_in, read, send, start, subscribe, token,
};
use crate::harness::{Backend, Gateway, Message, Origin, Run, tidegate, tidegate_with};

/// A form of parts: name, name of the file or none, and content.
pub(crate) fn form(
    client: &Client<'_>,
    method: &str,
    target: &str,
    parts: &[(&str, &[u8])],
) -> Message {
    let mut body = Vec::new();
    for (name, content) in parts {
        let head = format!(
            "--b0undary\r\nContent-Disposition: form-data; name=\"{name}\"; filename=\"{name}\"\r\n\r\n"
        );
        body.extend(head.as_bytes());
        body.extend(*content);
        body.extend(b"\r\n");
    }
    body.extend(b"--b0undary--\r\n");
    let head = format!(
        "{method} {target} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {}\r\n\
         Content-Type: multipart/form-data; boundary=b0undary\r\nContent-Length: {}\r\n\r\n",
        client.authorization,
        body.len()
    );
    let mut wire = crate::harness::Wire::connect(crate::catalog::address(client.gateway));
    wire.ask([head.into_bytes(), body].concat())
}

/// An archive with these files.
pub(crate) fn archive(files: &[(&str, &str)]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, text) in files {
        zip.start_file(*name, SimpleFileOptions::default()).unwrap();
        zip.write_all(text.as_bytes()).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// Deploys and publishes an API.
#[track_caller]
pub(crate) fn serve(client: &Client<'_>, id: &str) {
    let at = format!("/api/am/publisher/v4/apis/{id}");
    let revision = client.done("POST", &format!("{at}/revisions"), &json!({}), 201);
    let revision = revision["id"].as_str().unwrap();
    client.done("POST", &format!("{at}/deploy-revision?revisionId={revision}"), &json!([]), 201);
    let target = format!("/api/am/publisher/v4/apis/change-lifecycle?action=Publish&apiId={id}");
    client.done("POST", &target, &Value::Null, 200);
}

/// A token of a new application that has subscribed to an API.
#[track_caller]
pub(crate) fn subscribed(client: &Client<'_>, api: &str, plan: &str, more: &str) -> String {
    let (id, key, secret) = application(client, &format!("app {plan} {api}"), "Unlimited");
    subscribe(client, api, &id, plan);
    let body = format!("grant_type=client_credentials{more}");
    token(client.gateway, &key, &secret, &body)["access_token"].as_str().unwrap().to_owned()
}

const WSDL: &str = include_str!("../examples/soap/calculator/calculator.wsdl");

const CALL: &str = "<soap:Envelope xmlns:soap=\"http://schemas.xmlsoap.org/soap/envelope/\"><soap:Body/></soap:Envelope>";

fn post(gateway: &Gateway, target: &str, token: &str, body: &str) -> Message {
    gateway.wire().ask(format!(
        "POST {target} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\nContent-Type: text/xml\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    ))
}

#[test]
fn a_wsdl_becomes_an_api_of_json() {
    let service = Backend::start("calculator", &[]);
    let gateway = start();
    let client = log_in(&gateway, "admin", "admin");
    let more = json!({
        "name": "Sums", "version": "1.0", "context": "/sums", "policies": ["Gold"],
        "endpointConfig": { "production_endpoints": { "url": format!("http://{}/", service.authority()) } },
    })
    .to_string();
    let parts = [
        ("file", WSDL.as_bytes()),
        ("implementationType", &b"SOAPTOREST"[..]),
        ("additionalProperties", more.as_bytes()),
    ];
    let made = form(&client, "POST", "/api/am/publisher/v4/apis/import-wsdl", &parts);
    assert_eq!(made.status(), 201, "{}", made.text());
    let made = read(&made);
    assert_eq!(
        (made["type"].as_str(), made["operations"][0]["verb"].as_str()),
        (Some("SOAPTOREST"), Some("POST"))
    );
    let id = made["id"].as_str().unwrap();
    serve(&client, id);
    let token = subscribed(&client, id, "Gold", "");
    let ask = |target: &str, token: &str, body: &str| {
        gateway.wire().ask(format!(
            "POST {target} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        ))
    };
    let reply = ask("/sums/1.0/Add", &token, r#"{"intA":5,"intB":7}"#);
    assert_eq!((reply.status(), reply.text().as_str()), (200, r#"{"AddResult":12}"#));
    is_refused(&ask("/sums/1.0/Add", "a.b.c", "{}"), 401, "900901");
    assert_eq!(ask("/sums/1.0/None", &token, "{}").status(), 404);
    let shown =
        client.done("GET", &format!("/api/am/publisher/v4/apis/{id}/swagger"), &Value::Null, 200);
    assert!(shown["paths"]["/Add"]["post"].is_object() && shown.get("files").is_none(), "{shown}");
    let alone = json!({ "name": "None", "version": "1", "context": "/none", "type": "SOAPTOREST" });
    let refused = client.ask("POST", "/api/am/publisher/v4/apis", &alone);
    assert!(refused.status() == 400 && refused.text().contains("WSDL"), "{}", refused.text());
}

#[test]
fn a_wsdl_becomes_a_soap_api_that_is_called_within_its_plan() {
    let origin = Origin::saying("<ok/>");
    let gateway = start();
    let client = log_in(&gateway, "admin", "admin");
    let plan = json!({
        "policyName": "Two", "displayName": "Two",
        "defaultLimit": { "type": "REQUESTCOUNTLIMIT", "requestCount": { "timeUnit": "hour", "unitTime": 1, "requestCount": 2 } },
    });
    client.done("POST", "/api/am/admin/v4/throttling/policies/subscription", &plan, 201);
    let more = json!({
        "name": "Calculator", "context": "/calc", "version": "1.0", "policies": ["Two"],
        "endpointConfig": { "endpoint_type": "address", "production_endpoints": { "url": format!("{}/ws", origin.url()) } },
    })
    .to_string();
    let target = "/api/am/publisher/v4/apis/import-wsdl";
    let parts = [
        ("file", WSDL.as_bytes()),
        ("additionalProperties", more.as_bytes()),
        ("implementationType", b"SOAP"),
    ];
    let reply = form(&client, "POST", target, &parts);
    assert_eq!(reply.status(), 201, "{}", reply.text());
    let made = read(&reply);
    assert_eq!(
        (made["type"].as_str(), made["operations"][0]["verb"].as_str()),
        (Some("SOAP"), Some("POST"))
    );
    let id = made["id"].as_str().unwrap();
    serve(&client, id);
    let shown = client.ask("GET", &format!("/api/am/publisher/v4/apis/{id}/wsdl"), &Value::Null);
    assert_eq!((shown.status(), shown.text()), (200, WSDL.to_owned()));
    let token = subscribed(&client, id, "Two", "");
    for _ in 0..2 {
        let reply = post(&gateway, "/calc/1.0", &token, CALL);
        assert_eq!((reply.status(), reply.text().as_str()), (200, "<ok/>"));
    }
    let seen = origin.requests().remove(0);
    assert_eq!((seen.method(), seen.target(), seen.length()), ("POST", "/ws", Some(CALL.len())));
    is_refused(&post(&gateway, "/calc/1.0", &token, CALL), 429, "900804");
    is_refused(&post(&gateway, "/calc/1.0", "a.b.c", CALL), 401, "900901");
    assert_eq!(call(&gateway, "/calc/1.0", &token).status(), 405, "the API has POST alone");

    let parts = [("file", WSDL.as_bytes()), ("implementationType", &b"ELSE"[..])];
    assert_eq!(form(&client, "POST", target, &parts).status(), 400);
    let broken = WSDL.replace("</wsdl:definitions>", "");
    let parts = [("file", broken.as_bytes()), ("additionalProperties", more.as_bytes())];
    assert_eq!(form(&client, "POST", target, &parts).status(), 400);
    let files = archive(&[("a/service.wsdl", WSDL), ("a/readme.txt", "x")]);
    let other = more.replace("/calc", "/other").replace("\"Calculator\"", "\"Zipped\"");
    let parts = [("file", files.as_slice()), ("additionalProperties", other.as_bytes())];
    let reply = form(&client, "POST", target, &parts);
    assert_eq!(reply.status(), 201, "{}", reply.text());
}

#[test]
fn a_document_is_replaced_and_its_operations_with_it() {
    let origin = Origin::saying("ok");
    let gateway = start();
    let client = log_in(&gateway, "admin", "admin");
    let made = client.done("POST", "/api/am/publisher/v4/apis", &definition("echo", &origin), 201);
    let id = made["id"].as_str().unwrap();
    let at = format!("/api/am/publisher/v4/apis/{id}/swagger");
    let document = "openapi: 3.0.1\ninfo: { title: x, version: '1' }\npaths:\n  /cats/{id}: { get: { x-scopes: [cats], parameters: [{ name: id, in: path, required: true, schema: { type: string } }], responses: { '200': { description: ok } } } }\n";
    let reply = form(&client, "PUT", &at, &[("apiDefinition", document.as_bytes())]);
    assert_eq!(reply.status(), 200, "{}", reply.text());
    let now = client.done("GET", &format!("/api/am/publisher/v4/apis/{id}"), &Value::Null, 200);
    assert_eq!(
        (now["operations"][0]["target"].as_str(), &now["operations"][0]["scopes"]),
        (Some("/cats/{id}"), &json!(["cats"]))
    );
    for wrong in [
        "openapi: [",
        "a: b",
        "openapi: 3.0.1\npaths: { /x: { get: { x-scopes: [a], responses: 7 } } }\n",
    ] {
        let reply = form(&client, "PUT", &at, &[("apiDefinition", wrong.as_bytes())]);
        assert_eq!(reply.status(), 400, "{wrong}: {}", reply.text());
    }
    serve(&client, id);
    let token = subscribed(&client, id, "Gold", "");
    is_refused(&call(&gateway, "/echo/1.0.0/cats/7", &token), 403, "900910");
    let token = subscribed(&client, id, "Bronze", "&scope=cats");
    assert_eq!(call(&gateway, "/echo/1.0.0/cats/7", &token).status(), 200);
    assert_eq!(call(&gateway, "/echo/1.0.0/dogs", &token).status(), 404);
    // A form without parts is what clients of WSO2 API Manager may send, too.
    let lines = format!(
        "Authorization: {}\r\nContent-Type: application/x-www-form-urlencoded\r\n",
        client.authorization
    );
    let body = format!(
        "apiDefinition={}",
        document.replace('%', "%25").replace('&', "%26").replace('+', "%2B")
    );
    assert_eq!(send(&gateway, "PUT", &at, &lines, &body).status(), 200);
}

fn project(origin: &Origin, state: &str, more: &str) -> Vec<(String, String)> {
    let api = format!(
        "type: api\nversion: v4.7.0\ndata:\n  name: Pets\n  context: /pets\n  version: 1.0.0\n  type: HTTP\n  provider: admin\n  \
         lifeCycleStatus: {state}\n  policies:\n  - Gold\n  securityScheme:\n  - oauth2\n  visibility: PUBLIC\n  isDefaultVersion: false\n  \
         endpointConfig:\n    endpoint_type: http\n    production_endpoints:\n      url: {}/v1\n  operations:\n  - target: /pets\n    \
         verb: GET\n    authType: Application & Application User\n    throttlingPolicy: Unlimited\n    scopes: []\n    \
         operationPolicies:\n      request: []\n      response: []\n      fault: []\n{more}",
        origin.url()
    );
    let swagger = "openapi: 3.0.1\ninfo: { title: Pets, version: 1.0.0 }\npaths: { /pets: { get: { responses: { '200': { description: ok } } } } }\n";
    let environments = "type: deployment_environments\nversion: v4.7.0\ndata:\n- displayOnDevportal: true\n  deploymentEnvironment: Default\n";
    [
        ("Pets-1.0.0/api.yaml", api.as_str()),
        ("Pets-1.0.0/api_meta.yaml", "name: Pets\nversion: 1.0.0\n"),
        ("Pets-1.0.0/Definitions/swagger.yaml", swagger),
        ("Pets-1.0.0/deployment_environments.yaml", environments),
        ("Pets-1.0.0/Docs/readme.md", "hello"),
    ]
    .map(|(name, text)| (name.to_owned(), text.to_owned()))
    .to_vec()
}

fn zipped(files: &[(String, String)]) -> Vec<u8> {
    let files: Vec<(&str, &str)> = files.iter().map(|(n, t)| (n.as_str(), t.as_str())).collect();
    archive(&files)
}

#[test]
fn a_project_of_apictl_is_imported_deployed_and_changed() {
    let origin = Origin::saying("ok");
    let gateway = start();
    let client = log_in(&gateway, "admin", "admin");
    let at = "/api/am/publisher/v4/apis/import?preserveProvider=true";
    let reply = form(&client, "POST", at, &[("file", &zipped(&project(&origin, "PUBLISHED", "")))]);
    assert_eq!(reply.status(), 200, "{}", reply.text());
    let found = client.done("GET", "/api/am/publisher/v4/apis?query=name:Pets$", &Value::Null, 200);
    let id = found["list"][0]["id"].as_str().unwrap();
    assert_eq!(found["list"][0]["lifeCycleStatus"], "PUBLISHED");
    let token = subscribed(&client, id, "Gold", "");
    assert_eq!(call(&gateway, "/pets/1.0.0/pets", &token).status(), 200);
    assert_eq!(origin.request().target(), "/v1/pets");
    let again = form(&client, "POST", at, &[("file", &zipped(&project(&origin, "PUBLISHED", "")))]);
    assert_eq!(again.status(), 409, "{}", again.text());
    let changed: Vec<(String, String)> = project(&origin, "BLOCKED", "")
        .into_iter()
        .map(|(name, text)| (name, text.replace("/v1", "/v2")))
        .collect();
    let over = format!("{at}&overwrite=true");
    let reply = form(&client, "POST", &over, &[("file", &zipped(&changed))]);
    assert_eq!(reply.status(), 200, "{}", reply.text());
    is_refused(&call(&gateway, "/pets/1.0.0/pets", &token), 503, "700700");
    for _ in 0..6 {
        let over = format!("{over}&rotateRevision=true");
        let reply =
            form(&client, "POST", &over, &[("file", &zipped(&project(&origin, "PUBLISHED", "")))]);
        assert_eq!(reply.status(), 200, "{}", reply.text());
    }
    assert_eq!(call(&gateway, "/pets/1.0.0/pets", &token).status(), 200, "the subscription stays");
    let revisions =
        client.done("GET", &format!("/api/am/publisher/v4/apis/{id}/revisions"), &Value::Null, 200);
    assert_eq!(revisions["count"], 5);
}

#[test]
fn a_project_that_cannot_be_served_makes_nothing() {
    let origin = Origin::saying("ok");
    let gateway = start();
    let client = log_in(&gateway, "admin", "admin");
    let at = "/api/am/publisher/v4/apis/import";
    let refuse = |archive: Vec<u8>, what: &str| {
        let reply = form(&client, "POST", at, &[("file", &archive)]);
        assert_eq!(reply.status(), 400, "{what}: {}", reply.text());
        assert!(reply.text().contains(what), "{what}: {}", reply.text());
    };
    refuse(b"no archive".to_vec(), "archive");
    refuse(archive(&[("x.txt", "x")]), "api.yaml");
    refuse(archive(&[("../api.yaml", "data: {}")]), "has an absolute path");
    refuse(zipped(&project(&origin, "NONSENSE", "")), "NONSENSE");
    refuse(zipped(&project(&origin, "PUBLISHED", "  maxTps:\n    production: 7\n")), "maxTps");
    let mutual: Vec<(String, String)> = project(&origin, "PUBLISHED", "")
        .into_iter()
        .map(|(name, text)| (name, text.replace("- oauth2", "- mutualssl")))
        .collect();
    refuse(zipped(&mutual), "securityScheme");
    // All mistakes at once.
    let ten = "type: api\ndata:\n  name: <b>\n  context: ..\n  version: 1/2\n  type: NONE\n  policies: [Glod]\n  endpointConfig: { production_endpoints: { url: 'ftp://x' } }\n  operations:\n  - { target: x, verb: FETCH }\n  - { target: x, verb: FETCH, throttlingPolicy: Slow }\n  visibility: PRIVATE\n";
    let reply = form(&client, "POST", at, &[("file", &archive(&[("api.yaml", ten)]))]);
    let errors = read(&reply)["error"].as_array().map_or(0, Vec::len);
    assert!(reply.status() == 400 && errors >= 10, "{errors}: {}", reply.text());
    assert_eq!(client.done("GET", "/api/am/publisher/v4/apis", &Value::Null, 200)["count"], 0);
    let developer = log_in(&gateway, "dev", "dev-password");
    let reply =
        form(&developer, "POST", at, &[("file", &zipped(&project(&origin, "PUBLISHED", "")))]);
    assert_eq!(reply.status(), 401);
}

fn write(files: &[(String, String)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    folder
}

fn import(folder: &tempfile::TempDir, more: &[&str], variables: &[(&str, &str)]) -> Run {
    let path = folder.path().join("Pets-1.0.0");
    let mut arguments = vec!["import", "apictl", path.to_str().unwrap()];
    arguments.extend(more);
    tidegate_with(&arguments, variables)
}

#[test]
fn the_command_makes_a_configuration_that_passes_check_and_tells_of_each_part() {
    let origin = Origin::saying("ok");
    let mut files = project(&origin, "PUBLISHED", "  responseCachingEnabled: true\n");
    let params = "environments:\n- name: prod\n  configs:\n    endpoints:\n      production:\n        url: http://${BACKEND}:8080/live\n";
    files.push(("Pets-1.0.0/api_params.yaml".to_owned(), params.to_owned()));
    let folder = write(&files);
    let into = folder.path().join("out");
    let run = import(
        &folder,
        &["--into", into.to_str().unwrap(), "--environment", "prod"],
        &[("BACKEND", "backend.test")],
    );
    assert_eq!(run.code, Some(3), "{run:?}");
    for row in [
        "converted     api.yaml:4:3",
        "approximated  api.yaml:12:3",
        "refused       api.yaml:",
        "refused       Docs/readme.md:1:1",
        "GET /pets",
        "responseCachingEnabled",
    ] {
        assert!(run.stderr.contains(row), "{row}: {}", run.stderr);
    }
    let made = into.join("tidegate.yaml");
    let text = std::fs::read_to_string(&made).unwrap();
    let document = std::fs::read_to_string(into.join("definition.json")).unwrap();
    assert!(document.contains("http://backend.test:8080/live"), "{document}");
    assert!(text.contains("subscription: required"), "{text}");
    let run = tidegate(&["check", made.to_str().unwrap()]);
    assert_eq!(run.code, Some(0), "{run:?}");
    let run = import(&folder, &["--environment", "prod"], &[]);
    assert!(run.code == Some(1) && run.stderr.contains("BACKEND"), "{run:?}");
    assert_eq!(import(&folder, &["--environment", "none"], &[]).code, Some(1));
    assert_eq!(import(&folder, &["--params", "x"], &[]).code, Some(2));
}

#[test]
fn an_api_whose_guard_is_refused_serves_nobody() {
    let origin = Origin::saying("ok");
    let files: Vec<(String, String)> = project(&origin, "PUBLISHED", "")
        .into_iter()
        .map(|(name, text)| (name, text.replace("- oauth2", "- mutualssl_mandatory")))
        .collect();
    let folder = write(&files);
    let run = import(&folder, &[], &[]);
    assert_eq!(run.code, Some(3), "{run:?}");
    assert!(run.stdout.contains("status: 503") && !run.stdout.contains("upstreams"), "{run:?}");
    assert!(run.stderr.contains("securityScheme"), "{run:?}");
    let wrong =
        write(&[("Pets-1.0.0/api.yaml".to_owned(), "data: { name: '<b>', type: X }\n".to_owned())]);
    let run = import(&wrong, &[], &[]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(1), ""), "{run:?}");
    assert!(run.stderr.contains("name must have") && run.stderr.contains("context"), "{run:?}");
}

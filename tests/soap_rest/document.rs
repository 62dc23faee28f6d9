//! The OpenAPI document that is served.

use serde_json::{Value, json};

use super::{CALCULATOR, TYPES, ask, mirror, offering, offering_at};

fn document(target: &str, wsdl: &str, keys: &str) -> Value {
    let gateway = offering_at(&mirror().url(), wsdl, keys, "");
    let reply = ask(&gateway, "GET", target, "", "");
    assert_eq!((reply.status(), reply.get("content-type")), (200, Some("application/json")));
    serde_json::from_str(&reply.text()).expect("JSON")
}

#[test]
fn it_names_the_operations_with_their_schemas() {
    let document = document(
        "/api/openapi.json",
        CALCULATOR,
        "operations: { Add: { path: /sum, method: PUT } }",
    );
    assert_eq!(document["openapi"], "3.1.0");
    assert_eq!(document["servers"], json!([{ "url": "/api" }]));
    let paths: Vec<&String> = document["paths"].as_object().unwrap().keys().collect();
    assert_eq!(paths, ["/sum", "/Subtract", "/Multiply", "/Divide"]);
    let add = &document["paths"]["/sum"]["put"];
    assert_eq!(add["operationId"], "Add");
    let input = json!({ "$ref": "#/components/schemas/Add" });
    assert_eq!(add["requestBody"]["content"]["application/json"]["schema"], input);
    let schema = &document["components"]["schemas"]["Add"];
    assert_eq!(schema["required"], json!(["intA", "intB"]));
    assert_eq!(schema["properties"]["intA"]["type"], "integer");
    assert_eq!(schema["properties"]["intA"]["maximum"], 2_147_483_647);
    assert_eq!(schema["additionalProperties"], false);
}

#[test]
fn its_schemas_take_what_the_gateway_takes() {
    let document = document("/api/openapi.json", TYPES, "");
    let schema = json!({
        "$ref": "#/components/schemas/Order",
        "components": document["components"],
    });
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    for (good, _) in super::values::VALUES {
        let value: Value = serde_json::from_str(good).unwrap();
        let errors: Vec<String> = validator.iter_errors(&value).map(|e| e.to_string()).collect();
        assert!(errors.is_empty(), "{good}: {errors:?}");
    }
    for bad in [
        "{}",
        r#"{"number":"1"}"#,
        r#"{"number":1,"other":1}"#,
        r#"{"number":1,"item":{"name":"a"}}"#,
        r#"{"number":1,"card":"4","iban":"D"}"#,
        r#"{"number":1,"price":{"value":9}}"#,
        r#"{"number":1,"shape":{"radius":3}}"#,
        r#"{"number":1,"state":"ajar"}"#,
        r#"{"number":1,"anything":5}"#,
        r#"{"number":1,"$items":[{"who":"up"}]}"#,
    ] {
        let value: Value = serde_json::from_str(bad).unwrap();
        assert!(!validator.is_valid(&value), "{bad}");
    }
}

#[test]
fn it_has_a_place_of_its_own_or_none() {
    let elsewhere = document("/api/v1/document", CALCULATOR, "openapi: /v1/document");
    assert_eq!(elsewhere["info"]["title"], "Calculator");
    let gateway = offering(&mirror(), "openapi: off");
    assert_eq!(ask(&gateway, "GET", "/api/openapi.json", "", "").status(), 404);
    let gateway = offering(&mirror(), "");
    let head = ask(&gateway, "HEAD", "/api/openapi.json", "", "");
    assert_eq!((head.status(), head.get("content-type")), (200, Some("application/json")));
}

#[test]
fn it_says_what_is_fixed_and_whether_a_body_is_needed() {
    let open = |wsdl: &str| {
        wsdl.replacen("name=\"intA\"", "minOccurs=\"0\" fixed=\"7\" name=\"intA\"", 1).replacen(
            "name=\"intB\"",
            "minOccurs=\"0\" name=\"intB\"",
            1,
        )
    };
    let document = document("/api/openapi.json", &open(CALCULATOR), "");
    let needs = |path: &str| document["paths"][path]["post"]["requestBody"]["required"].clone();
    assert_eq!((needs("/Add"), needs("/Divide")), (json!(false), json!(true)));
    assert_eq!(document["components"]["schemas"]["Add"]["properties"]["intA"]["const"], 7);
}

//! `tidegate catalog`: a catalog on the command line.

use serde_json::{Value, json};

use crate::catalog::{CATALOG, address, application, call, definition, log_in, publish, start};
use crate::harness::{Authority, ClosedPort, Gateway, Origin, Run, tidegate, tidegate_with};

fn catalog(gateway: &Gateway, more: &[&str]) -> Run {
    let url = format!("http://{}", address(gateway));
    let mut arguments = vec!["catalog", "--catalog", &url];
    arguments.extend(more);
    tidegate(&arguments)
}

#[track_caller]
fn said(run: &Run) -> Value {
    assert_eq!(run.code, Some(0), "{run:?}");
    serde_json::from_str(&run.stdout).unwrap_or_else(|e| panic!("{e}: {run:?}"))
}

#[track_caller]
fn table(run: &Run) -> Vec<Vec<String>> {
    assert_eq!(run.code, Some(0), "{run:?}");
    let cells = |line: &str| -> Vec<String> {
        line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect()
    };
    run.stdout.lines().map(cells).collect()
}

#[test]
fn apis_and_applications_are_listed_subscribed_and_get_tokens() {
    let origin = Origin::saying("ok");
    let gateway = start();
    let client = log_in(&gateway, "admin", "admin");
    let pets = publish(&client, &definition("pets", &origin));
    let mut hidden = definition("hidden", &origin);
    hidden["version"] = json!("2.0");
    client.done("POST", "/api/am/publisher/v4/apis", &hidden, 201);
    let (mobile, ..) = application(&client, "mobile", "50PerMin");

    // Published APIs are visible without a user.
    let shown = table(&catalog(&gateway, &["apis"]));
    assert_eq!(shown[0], ["NAME", "VERSION", "CONTEXT", "TYPE", "STATE", "PLANS"]);
    assert_eq!(
        shown[1..],
        [["pets", "1.0.0", "/pets/1.0.0", "HTTP", "PUBLISHED", "Unlimited, Bronze, Gold"]]
    );
    let listed = said(&catalog(&gateway, &["apis", "--json", "name:pet"]));
    assert_eq!((listed.as_array().unwrap().len(), listed[0]["id"].as_str()), (1, Some(&*pets)));
    assert_eq!(said(&catalog(&gateway, &["apis", "cats", "--json"])), json!([]));
    let user = ["--user", "admin:admin"];
    let all = table(&catalog(&gateway, &[&user[..], &["apis", "--all"]].concat()));
    let row = ["hidden", "2.0", "/hidden", "HTTP", "CREATED", "Unlimited, Bronze, Gold"];
    assert_eq!(all[1], row, "{all:?}");

    let run = catalog(&gateway, &["applications", "--user", "admin:admin"]);
    let shown = table(&run);
    assert_eq!(shown[0], ["NAME", "ID", "PLAN", "OWNER", "SUBSCRIPTIONS"]);
    assert_eq!(shown[1], ["mobile", &mobile, "50PerMin", "admin", "0"]);

    let run = catalog(&gateway, &[&user[..], &["subscribe", "mobile", "pets"]].concat());
    assert_eq!(run.code, Some(1), "{run:?}");
    assert!(run.stderr.contains("Unlimited, Bronze, Gold"), "{run:?}");
    let made = table(&catalog(
        &gateway,
        &[&user[..], &["subscribe", "mobile", "pets:1.0.0", "Gold"]].concat(),
    ));
    assert_eq!(made[1][1..], ["mobile", "pets:1.0.0", "Gold", "UNBLOCKED"], "{made:?}");
    let run = catalog(&gateway, &[&user[..], &["token", "mobile"]].concat());
    assert_eq!(run.code, Some(0), "{run:?}");
    let reply = call(&gateway, "/pets/1.0.0/x", run.stdout.trim());
    assert_eq!((reply.status(), reply.text().as_str()), (200, "ok"), "{reply:?}");
    let told = said(&catalog(&gateway, &[&user[..], &["token", &mobile, "--json"]].concat()));
    assert_eq!(told["validityTime"], 3600, "{told}");
}

#[test]
fn keys_are_made_on_request_and_shown_once() {
    let origin = Origin::saying("ok");
    let gateway = start();
    let client = log_in(&gateway, "admin", "admin");
    publish(&client, &definition("pets", &origin));
    client.done("POST", "/api/am/devportal/v3/applications", &json!({ "name": "new one" }), 201);
    let user = ["--user", "admin:admin"];
    let ask = |more: &[&str]| catalog(&gateway, &[&user[..], &["token", "new one"], more].concat());
    let run = ask(&[]);
    assert_eq!(run.code, Some(1), "{run:?}");
    assert!(run.stderr.contains("--generate"), "{run:?}");
    let told = said(&ask(&["--generate", "--json"]));
    assert!(told["consumerKey"].is_string() && told["consumerSecret"].is_string(), "{told}");
    let told = said(&ask(&["--generate", "--json"]));
    assert!(told.get("consumerSecret").is_none(), "{told}");
    let run = ask(&["--generate", "--sandbox"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(run.stderr.contains("CONSUMER SECRET"), "{run:?}");
    assert_eq!(run.stdout.trim().split('.').count(), 3, "the token alone: {run:?}");
}

#[test]
fn what_is_refused_and_what_cannot_be_asked_have_codes_of_their_own() {
    let gateway = start();
    let run = catalog(&gateway, &["applications", "--user", "admin:wrong"]);
    assert_eq!(run.code, Some(2), "{run:?}");
    assert!(run.stderr.contains("401"), "{run:?}");
    assert_eq!(catalog(&gateway, &["applications"]).code, Some(2));
    assert_eq!(catalog(&gateway, &["applications", "--user", "admin"]).code, Some(1));
    let url = format!("http://{}", address(&gateway));
    let variables = [("TIDEGATE_CATALOG_USER", "admin"), ("TIDEGATE_CATALOG_PASSWORD", "admin")];
    let run = tidegate_with(&["catalog", "--catalog", &url, "applications"], &variables);
    assert_eq!(run.code, Some(0), "{run:?}");
    // An operator's token is not for the catalog.
    let run =
        tidegate_with(&["catalog", "--catalog", &url, "apis"], &[("TIDEGATE_TOKEN", "secret")]);
    assert_eq!(run.code, Some(0), "{run:?}");
    let user = ["--user", "admin:admin"];
    for what in [&["subscribe", "nobody", "nothing", "Gold"][..], &["token", "nobody"]] {
        let run = catalog(&gateway, &[&user[..], what].concat());
        assert_eq!(run.code, Some(1), "{run:?}");
        assert!(run.stderr.contains("nobody"), "{run:?}");
    }
    let closed = ClosedPort::any();
    let url = format!("http://{}", closed.address);
    assert_eq!(tidegate(&["catalog", "--catalog", &url, "apis"]).code, Some(2));
    assert_eq!(tidegate(&["catalog", "nonsense"]).code, Some(2));
}

#[test]
fn a_catalog_with_a_certificate_is_asked_over_tls() {
    let authority = Authority::new();
    let identity = authority.issue("127.0.0.1");
    let yaml = CATALOG.replace("PAT", &"0".repeat(64)).replace(
        "listen: { address: \"127.0.0.1:0\" }\n  users",
        "listen: { address: \"127.0.0.1:0\", tls: { certificate: cert.pem, key: key.pem } }\n  users",
    );
    let files = [
        ("cert.pem", &*identity.certificate),
        ("key.pem", &*identity.key),
        ("ca.pem", &*authority.pem()),
    ];
    let gateway = Gateway::start_beside(yaml, &files);
    let url = format!("https://{}", address(&gateway));
    let ca = gateway.path("ca.pem");
    let run =
        tidegate(&["catalog", "--catalog", &url, "--ca", ca.to_str().unwrap(), "apis", "--json"]);
    assert_eq!(said(&run), json!([]));
    assert_eq!(
        tidegate(&["catalog", "--catalog", &url, "apis"]).code,
        Some(2),
        "an unknown authority"
    );
}

//! `tidegate diff`: shows the effects of a change beforehand, and nothing for a change without effects.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::harness::{Gateway, Message, Origin, Run, Wire, tidegate};
use crate::reload::put;

const OLD: &str = r#"
listen: { public: { address: "127.0.0.1:0" } }
upstreams:
  orders: { targets: ["http://127.0.0.1:1"] }
issuers:
  main: { issuer: "https://idp.example", keys: [main.json] }
  other: { issuer: "https://other.example", keys: [other.json, main.json] }
routes:
  a:
    match: { path: "/a/**" }
    policies:
      - cors: { origins: ["*"] }
      - jwt: { issuers: [main] }
      - rate_limit: { requests: 100, per: 1m, by: subject }
    upstream: orders
  gone: { match: { path: /gone }, respond: { status: 204 } }
"#;

const NEW: &str = r#"
listen: { public: { address: "127.0.0.1:0" } }
upstreams:
  orders: { targets: ["http://127.0.0.1:1"], timeout: { response: 5s } }
issuers:
  main: { issuer: "https://idp.example", keys: [main.json] }
  other: { issuer: "https://other.example", keys: [other.json, main.json] }
routes:
  fresh: { match: { path: /fresh }, respond: { status: 204 } }
  a:
    match: { path: "/a/**" }
    policies:
      - cors: { origins: ["*"] }
      - ip_filter: { deny: ["10.0.0.0/8"] }
      - jwt: { issuers: [main, other] }
    upstream: orders
"#;

/// Two folders, each with a configuration and a key set.
struct Two(tempfile::TempDir);

impl Two {
    fn new(old: &str, new: &str) -> Two {
        let folder = tempfile::tempdir().unwrap();
        let keys = tidegate(&["token", "--jwks"]).stdout;
        for (name, text) in [("old", old), ("new", new)] {
            let below = folder.path().join(name);
            fs::create_dir(&below).unwrap();
            fs::write(below.join("tidegate.yaml"), text).unwrap();
            fs::write(below.join("main.json"), &keys).unwrap();
            fs::write(below.join("other.json"), &keys).unwrap();
        }
        Two(folder)
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    fn diff(&self) -> Run {
        tidegate(&["diff", &self.path("old/tidegate.yaml"), &self.path("new/tidegate.yaml")])
    }

    /// The lines of a difference. For whole sections only the path is kept.
    #[track_caller]
    fn lines(&self) -> Vec<String> {
        let said = self.diff();
        assert_eq!((said.code, said.stderr.as_str()), (Some(1), ""), "{said:?}");
        said.stdout.lines().map(|line| line.split(": {").next().unwrap().to_owned()).collect()
    }
}

#[test]
fn what_is_added_removed_and_changed_is_told_by_its_path() {
    let two = Two::new(OLD, NEW);
    assert_eq!(
        two.lines(),
        [
            "~ upstreams.orders.timeout.response: 1m -> 5s",
            "+ routes.a.policies[1]",
            "~ routes.a.policies[2].jwt.issuers: [main] -> [main, other]",
            "- routes.a.policies[2]",
            "- routes.gone",
            "+ routes.fresh",
            "2 added, 2 removed, 2 changed",
        ]
    );
    let said = two.diff().stdout;
    assert!(
        said.contains("+ routes.a.policies[1]: { ip_filter: { allow: [], deny: [\"10.0.0.0/8\"]"),
        "{said}"
    );
    assert!(said.contains("- routes.a.policies[2]: { rate_limit: { requests: 100, per: 1m,"));
}

#[test]
fn what_means_the_same_is_no_difference() {
    // In another order, with an explicit default, in another style, with a comment, and in another folder.
    let same = r#"
# the same
routes:
  gone: { respond: { status: 204 }, match: { path: "/gone" } }
  a:
    match:
      path: /a/**
    upstream: orders
    policies:
      - cors: { origins: "*" }
      - jwt: { issuers: ["main"] }
      - rate_limit: { by: subject, requests: 100, per: 60s }
issuers:
  other: { issuer: "https://other.example", keys: [other.json, main.json] }
  main: { issuer: "https://idp.example", keys: ["main.json"] }
upstreams: { orders: { balance: round_robin, targets: ["http://127.0.0.1:1"] } }
listen: { public: { address: "127.0.0.1:0" } }
"#;
    let two = Two::new(OLD, same);
    let said = two.diff();
    assert_eq!((said.code, said.stdout.as_str(), said.stderr.as_str()), (Some(0), "", ""));
    let folders = tidegate(&["diff", &two.path("old"), &two.path("new/tidegate.yaml")]);
    assert_eq!((folders.code, folders.stdout.as_str()), (Some(0), ""), "{folders:?}");

    // A file of the same name with other content is a difference.
    fs::write(two.path("new/main.json"), tidegate(&["token", "--jwks"]).stdout).unwrap();
    assert_eq!(
        two.lines(),
        [
            "~ issuers.main.keys: main.json, its content",
            "~ issuers.other.keys[1]: main.json, its content",
            "2 changed",
        ]
    );
}

const SECRETS: &str = r#"
listen: { public: { address: "127.0.0.1:0" } }
admin: { address: "127.0.0.1:0" }
stores: { shared: { redis: "redis://127.0.0.1:1", password: hunter1 } }
issuers:
  main: { issuer: "https://idp.example", introspection: { url: "https://idp.example/x", client_id: a, client_secret: hunter1 } }
routes:
  a:
    match: { path: /a }
    policies:
      - api_key: { header: x-mine, keys: { ann: hunter1, bob: { key: same, tier: Gold } } }
      - headers: { request: { set: { authorization: "Bearer hunter1", x-plain: hunter1 } } }
    respond: { body: hunter1 }
  b:
    match: { path: /b }
    policies: [{ basic: { users: { ann: hunter1 } } }]
    respond: { headers: { x-key: hunter1 } }
"#;

#[test]
fn secrets_are_told_to_change_and_are_never_shown() {
    let two = Two::new(SECRETS, &SECRETS.replace("hunter1", "hunter2").replace("Gold", "Silver"));
    let said = two.diff();
    let hidden = "(not shown) -> (not shown)";
    assert_eq!(
        said.stdout.lines().collect::<Vec<_>>(),
        [
            format!("~ issuers.main.introspection.client_secret: {hidden}").as_str(),
            &format!("~ routes.a.policies[0].api_key.keys.ann: {hidden}"),
            &format!("~ routes.a.policies[0].api_key.keys.bob: {hidden}"),
            &format!("~ routes.a.policies[1].headers.request.set.authorization: {hidden}"),
            "~ routes.a.policies[1].headers.request.set.x-plain: hunter1 -> hunter2",
            "~ routes.a.respond.body: hunter1 -> hunter2",
            &format!("~ routes.b.policies[0].basic.users.ann: {hidden}"),
            &format!("~ routes.b.respond.headers.x-key: {hidden}"),
            &format!("~ stores.shared.password: {hidden}"),
            "9 changed",
        ],
        "{said:?}"
    );
    // Neither are those of a section that comes as a whole.
    let (start, _) = SECRETS.split_once("  b:\n").unwrap();
    let two = Two::new(start, SECRETS);
    let said = two.diff();
    assert_eq!(said.code, Some(1));
    assert!(said.stdout.contains("+ routes.b: {") && !said.stdout.contains("hunter"), "{said:?}");
}

#[test]
fn what_cannot_be_compared_ends_with_2() {
    let two = Two::new(OLD, &NEW.replace("upstream: orders", "upstream: order"));
    let (old, new) = (two.path("old/tidegate.yaml"), two.path("new/tidegate.yaml"));
    let missing = two.path("missing.yaml");
    let cases: [(&[&str], &str); 6] = [
        (&[&old, &new], "there is no upstream `order`; did you mean `orders`?"),
        (&[&missing, &old], "there is no such file"),
        (&[&old, &missing], "there is no such file"),
        (&[&old], "--admin"),
        (&["--admin", "http://127.0.0.1:1", &old], "http://127.0.0.1:1"),
        (&["--admin", "ftp://127.0.0.1:1", &old], "http://"),
    ];
    for (arguments, part) in cases {
        let said = tidegate(&[&["diff"], arguments].concat());
        assert_eq!((said.code, said.stdout.as_str()), (Some(2), ""), "{arguments:?}: {said:?}");
        assert!(said.stderr.contains(part), "{arguments:?}: {said:?}");
    }
}

/// The changes that a file would make to a running gateway.
#[track_caller]
fn against(gateway: &Gateway, text: &str) -> Run {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("new.yaml");
    fs::write(&file, text).unwrap();
    diff_of(gateway, &file)
}

fn diff_of(gateway: &Gateway, file: &Path) -> Run {
    let url = format!("http://{}/", gateway.admin());
    tidegate(&["diff", "--admin", &url, file.to_str().unwrap()])
}

#[test]
fn a_running_gateway_says_what_a_file_would_change() {
    let gateway = Gateway::start(SECRETS);
    let said = against(&gateway, SECRETS);
    assert_eq!((said.code, said.stdout.as_str(), said.stderr.as_str()), (Some(0), "", ""));

    // Secrets that the admin API hides are hidden here too: header values and fixed replies.
    let changed = SECRETS.replace("hunter1", "hunter2").replace("path: /b", "path: /c");
    let said = against(&gateway, &changed);
    assert_eq!((said.code, said.stderr.as_str()), (Some(1), ""));
    assert!(!said.stdout.contains("hunter"), "{}", said.stdout);
    for line in
        ["~ routes.a.respond.body: (not shown) -> (not shown)", "~ routes.b.match.path: /b -> /c"]
    {
        assert!(said.stdout.lines().any(|told| told == line), "{line} in {}", said.stdout);
    }

    let said = against(&gateway, &SECRETS.replace("respond: { body", "respnd: { body"));
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.stderr.contains("did you mean `respond`?"), "{said:?}");
    let plan: Value = serde_json::from_slice(&gateway.admin_get("/plan").body).unwrap();
    assert_eq!(plan["generation"], 1, "asking changes nothing");
}

#[track_caller]
fn generation(reply: &Message) -> (u64, bool) {
    assert_eq!(reply.status(), 200, "{reply:?}");
    let said: Value = serde_json::from_slice(&reply.body).unwrap();
    (said["generation"].as_u64().unwrap(), said["changed"].as_bool().unwrap())
}

#[test]
fn syncing_the_same_file_twice_changes_nothing() {
    let origin = Origin::echo();
    let text = |route: &str| {
        format!(
            "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nadmin: {{ address: \"127.0.0.1:0\" }}\nworkers: 1\n\
             upstreams: {{ echo: {{ targets: [\"{}\"] }} }}\nroutes: {{ {route}: {{ match: {{ path: \"/**\" }}, upstream: echo }} }}\n",
            origin.url()
        )
    };
    let gateway = Gateway::start(text("a"));
    let mut wire = gateway.wire();
    let served = |wire: &mut Wire| assert_eq!(wire.get("/").status(), 200);
    served(&mut wire);

    let next = text("b");
    let said = against(&gateway, &next);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert_eq!(generation(&put(&gateway, &next)), (2, true));
    assert_eq!(against(&gateway, &next).code, Some(0));
    assert_eq!(diff_of(&gateway, &gateway.path("tidegate.yaml")).code, Some(0));
    assert_eq!(generation(&put(&gateway, &next)), (2, false));
    // Equivalent notation: no difference is shown, and rebuilt parts take over all state.
    let words = format!("# the same\n{next}");
    assert_eq!(against(&gateway, &words).code, Some(0));
    assert_eq!(generation(&put(&gateway, &words)), (3, true));
    assert_eq!(against(&gateway, &words).code, Some(0));
    served(&mut wire);
    served(&mut gateway.wire());
    assert_eq!(origin.requests().len(), 3);
    assert_eq!(origin.accepted(), 1, "the pool is the same through all of it");
}

//! Safe changes: what served before, conditions, archives, masks, and the commands for them.

use std::fs;
use std::io::{Cursor, Read as _, Write as _};
use std::path::Path;

use serde_json::Value;
use zip::write::SimpleFileOptions;
use zip::{ZipArchive, ZipWriter};

use crate::harness::{
    Authority, Gateway, Message, Origin, Run, Wire, tidegate, tidegate_with, until,
};

const YAML: &str = "\
# the gateway; token: commented-secret
listen: { public: { address: \"127.0.0.1:0\" } }
admin: { address: \"127.0.0.1:0\", users: { ann: { token: ann-secret, role: write }, rob: { token: rob-secret } } }
workers: 1
routes:
  hello: { match: { path: /hello }, respond: { body: one } }
  keyed: { match: { path: /keyed }, policies: [ { api_key: { header: x-key, keys: { bob: bob-secret } } } ], respond: { body: keyed } }
";

const ANN: &str = "Authorization: Bearer ann-secret\r\n";
const ROB: &str = "Authorization: Bearer rob-secret\r\n";

fn ask(gateway: &Gateway, request: &str, headers: &str, body: impl AsRef<[u8]>) -> Message {
    let (admin, body) = (gateway.admin(), body.as_ref());
    let head = format!(
        "{request} HTTP/1.1\r\nHost: {admin}\r\n{headers}Content-Length: {}\r\n\r\n",
        body.len()
    );
    Wire::connect(admin).ask([head.as_bytes(), body].concat())
}

#[track_caller]
fn json(reply: &Message) -> Value {
    serde_json::from_slice(&reply.body).unwrap_or_else(|e| panic!("{e}: {reply:?}"))
}

fn tag(reply: &Message) -> String {
    reply.get("etag").unwrap_or_else(|| panic!("{reply:?}")).to_owned()
}

fn zip(files: &[(&str, &str)]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, text) in files {
        zip.start_file(*name, SimpleFileOptions::default()).unwrap();
        zip.write_all(text.as_bytes()).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

fn unzip(bytes: &[u8]) -> Vec<(String, String)> {
    let mut zip = ZipArchive::new(Cursor::new(bytes)).unwrap();
    let count = zip.len();
    let file = |at| {
        let mut entry = zip.by_index(at).unwrap();
        let (name, mut text) = (entry.name().to_owned(), String::new());
        entry.read_to_string(&mut text).unwrap();
        (name, text)
    };
    let mut files: Vec<_> = (0..count).map(file).collect();
    files.sort();
    files
}

#[test]
fn a_change_is_for_the_configuration_it_was_made_from() {
    let gateway = Gateway::start(YAML);
    let first = tag(&ask(&gateway, "GET /config", ROB, ""));
    let hash = json(&ask(&gateway, "GET /plan", ROB, ""))["configuration"]["hash"].clone();
    assert_eq!(first, format!("\"{}\"", hash.as_str().unwrap()));
    let put = |condition: &str, body: &str| {
        let headers = format!("{ANN}{condition}");
        ask(&gateway, "PUT /config", &headers, YAML.replace("one", body))
    };
    let matching = format!("If-Match: \"other\", {first}\r\n");
    let done = put(&matching, "two");
    assert_eq!(done.status(), 200, "{done:?}");
    let second = tag(&done);
    assert_ne!(first, second);
    for (condition, status) in [
        (format!("If-Match: {first}\r\n"), 412),
        (format!("If-Match: W/{second}\r\n"), 412),
        ("If-Match: \"\"\r\n".to_owned(), 412),
        ("If-Match: nonsense\r\n".to_owned(), 400),
        (format!("If-Match: {second}\r\n"), 200),
        ("If-Match: *\r\n".to_owned(), 200),
        (String::new(), 200),
    ] {
        let reply = put(&condition, "three");
        assert_eq!(reply.status(), status, "{condition}: {reply:?}");
        let body = if status == 200 { "three" } else { "two" };
        assert_eq!(gateway.wire().get("/hello").text(), body, "{condition}");
    }
}

#[test]
fn what_served_is_kept_compared_and_brought_back() {
    let gateway = Gateway::start(YAML);
    let first = tag(&ask(&gateway, "GET /config", ROB, ""));
    gateway.rewrite(
        YAML.replace("one", "two").replace("workers: 1", "workers: 1\nshutdown: { drain: 7s }"),
    );
    until("two serves", || gateway.wire().get("/hello").text() == "two");
    assert_eq!(ask(&gateway, "PUT /config", ANN, YAML.replace("one", "three")).status(), 200);
    let history = || json(&ask(&gateway, "GET /config/history", ROB, ""));
    let told = history();
    let told: Vec<_> = told
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| {
            (
                entry["generation"].as_u64().unwrap(),
                entry["by"].as_str().unwrap(),
                entry["changes"].as_u64().unwrap(),
            )
        })
        .collect();
    assert_eq!(told, [(3, "ann", 2), (2, "file", 2), (1, "start", 0)]);
    assert_eq!(format!("\"{}\"", history()[2]["hash"].as_str().unwrap()), first);
    assert!(history()[0]["time"].as_str().unwrap().ends_with('Z'));

    let past = ask(&gateway, "GET /config/history/1", ROB, "");
    assert!(past.text().contains("body: one") && !past.text().contains("-secret"), "{past:?}");
    assert_eq!(ask(&gateway, "GET /config/history/1?secrets=true", ROB, "").status(), 403);
    assert_eq!(ask(&gateway, "GET /config/history/1?secrets=true", ANN, "").text(), YAML);
    let diff = |path: &str| json(&ask(&gateway, &format!("GET /config/history/{path}"), ROB, ""));
    assert_eq!(diff("1/diff")["differences"].as_array().unwrap().len(), 1);
    assert_eq!(diff("1/diff?to=2")["differences"][0]["new"], "7s");
    assert_eq!(diff("3/diff")["equal"], true);
    for path in ["9", "9/diff", "1/diff?to=9", "x"] {
        assert_eq!(
            ask(&gateway, &format!("GET /config/history/{path}"), ROB, "").status(),
            404,
            "{path}"
        );
    }

    let back = |headers: &str, generation: u64| {
        ask(&gateway, &format!("POST /config/history/{generation}/rollback"), headers, "")
    };
    assert_eq!(back(ROB, 1).status(), 403);
    assert_eq!(back(&format!("{ANN}If-Match: {first}\r\n"), 1).status(), 412);
    assert_eq!(back(ANN, 9).status(), 404);
    let done = back(ANN, 1);
    assert_eq!((done.status(), json(&done)["generation"].as_u64()), (200, Some(4)), "{done:?}");
    assert_eq!(tag(&done), first);
    assert_eq!(fs::read_to_string(gateway.path("tidegate.yaml")).unwrap(), YAML);
    assert_eq!(gateway.wire().get("/hello").text(), "one");
    assert_eq!(history()[0]["by"], "ann");

    gateway.wait_for_log("\"changes\":1,");
    let log = gateway.log();
    assert_eq!(log.matches("\"path\":\"/config/history/1/rollback\"").count(), 3, "{log}");
    assert!(log.contains("\"changes\":1,"), "{log}");
}

#[test]
fn the_history_outlives_the_gateway() {
    let folder = tempfile::tempdir().unwrap();
    let yaml = YAML.replace("127.0.0.1:0\", users", "127.0.0.1:0\", history: 2, users");
    fs::write(folder.path().join("tidegate.yaml"), yaml.replace("one", "two")).unwrap();
    let path = folder.path().to_owned();
    let gateway = Gateway::start_in(&path, "tidegate.yaml");
    drop(gateway);
    let gateway = Gateway::start_in(&path, "tidegate.yaml");
    let generations = |gateway: &Gateway| {
        let told = json(&ask(gateway, "GET /config/history", ROB, ""));
        told.as_array()
            .unwrap()
            .iter()
            .map(|one| one["generation"].as_u64().unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(generations(&gateway), [1]);
    assert_eq!(ask(&gateway, "PUT /config", ANN, yaml.replace("one", "three")).status(), 200);
    drop(gateway);
    fs::write(folder.path().join("tidegate.yaml"), yaml.replace("one", "four")).unwrap();
    let gateway = Gateway::start_in(&path, "tidegate.yaml");
    assert_eq!(generations(&gateway), [3, 2]);
    assert_eq!(json(&ask(&gateway, "GET /plan", ROB, ""))["generation"], 3);
    assert_eq!(ask(&gateway, "POST /config/history/2/rollback", ANN, "").status(), 200);
    assert_eq!(gateway.wire().get("/hello").text(), "three");
    assert_eq!(generations(&gateway), [4, 3]);
}

#[test]
fn a_configuration_whose_files_are_gone_is_not_brought_back() {
    let yaml = YAML.replace("body: one", "body: \"${file:body.txt}\"");
    let gateway = Gateway::start_beside(&yaml, &[("body.txt", "one")]);
    assert_eq!(ask(&gateway, "PUT /config", ANN, YAML.replace("one", "two")).status(), 200);
    fs::remove_file(gateway.path("body.txt")).unwrap();
    let reply = ask(&gateway, "POST /config/history/1/rollback", ANN, "");
    assert_eq!(reply.status(), 422, "{reply:?}");
    assert!(reply.text().contains("body.txt"), "{reply:?}");
    assert_eq!(gateway.wire().get("/hello").text(), "two");
}

#[test]
fn secrets_are_masked_and_masks_mean_what_serves() {
    let gateway = Gateway::start(YAML);
    let shown = ask(&gateway, "GET /config", ANN, "").text();
    assert!(!shown.contains("-secret") && shown.contains("bob: \"***\""), "{shown}");
    assert_eq!(ask(&gateway, "GET /config?secrets=true", ANN, "").text(), YAML);
    for (request, status) in
        [("POST /config/check", 200), ("POST /config/diff", 200), ("PUT /config", 200)]
    {
        let reply = ask(&gateway, request, ANN, shown.replace("one", "two"));
        assert_eq!(reply.status(), status, "{request}: {reply:?}");
    }
    let text = fs::read_to_string(gateway.path("tidegate.yaml")).unwrap();
    assert_eq!(text, YAML.replace("one", "two").replace("commented-secret", "***"));
    let keyed = |key: &str| {
        gateway
            .wire()
            .ask(format!("GET /keyed HTTP/1.1\r\nHost: a\r\nx-key: {key}\r\n\r\n"))
            .status()
    };
    assert_eq!((keyed("bob-secret"), keyed("***")), (200, 401));
    // A mask at a path without a value in service is refused.
    for request in ["POST /config/check", "POST /config/diff", "PUT /config"] {
        let reply = ask(&gateway, request, ANN, shown.replace("bob:", "eve:"));
        assert_eq!(reply.status(), 422, "{request}: {reply:?}");
        let complaint = &json(&reply)["complaints"][0];
        assert_eq!(complaint["line"], 7, "{complaint}");
    }
    let everywhere = ["/plan", "/routes", "/config/history", "/config/history/1", "/metrics", "/"];
    for path in everywhere {
        let told = ask(&gateway, &format!("GET {path}"), ANN, "").text();
        assert!(!told.contains("-secret"), "{path}: {told}");
    }
}

const OTHER: &str = "routes: { more: { match: { path: /more }, flow: more } }\nflows: { more: [ { payload: { xml: \"<a/>\" } }, { xslt: { stylesheet: x/a.xsl } }, { respond: {} } ] }\n";
const STYLESHEET: &str = "<xsl:stylesheet version=\"1.0\" xmlns:xsl=\"http://www.w3.org/1999/XSL/Transform\"><xsl:template match=\"/\"><old/></xsl:template></xsl:stylesheet>";
const AS_ZIP: &str = "Content-Type: application/zip\r\n";

#[test]
fn a_folder_goes_as_an_archive() {
    let gateway = Gateway::start_folder(&[("a.yaml", YAML), ("notes.txt", "kept")]);
    let put = |files: &[(&str, &str)]| {
        ask(&gateway, "PUT /config", &format!("{ANN}{AS_ZIP}"), zip(files))
    };
    let both = [("a.yaml", YAML), ("b.yaml", OTHER), ("x/a.xsl", STYLESHEET)];
    for request in ["POST /config/check", "POST /config/diff"] {
        let reply = ask(&gateway, request, &format!("{ROB}{AS_ZIP}"), zip(&both));
        assert_eq!(reply.status(), 200, "{request}: {reply:?}");
        assert!(!gateway.path("b.yaml").exists());
    }
    let done = put(&both);
    assert_eq!(done.status(), 200, "{done:?}");
    assert_eq!(gateway.wire().get("/more").text().matches("<old/>").count(), 1);
    let got = ask(&gateway, "GET /config", &format!("{ANN}Accept: application/zip\r\n"), "");
    assert_eq!(got.get("content-type"), Some("application/zip"));
    let files = unzip(&got.body);
    let names: Vec<_> = files.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["a.yaml", "b.yaml", "x/a.xsl"]);
    assert!(!files[0].1.contains("-secret"));
    // The same content again is not a change.
    assert_eq!(
        json(&ask(&gateway, "PUT /config", &format!("{ANN}{AS_ZIP}"), &got.body))["changed"],
        true
    );
    assert_eq!(
        json(&ask(&gateway, "PUT /config", &format!("{ANN}{AS_ZIP}"), &got.body))["changed"],
        false
    );
    // A change of a referenced file, and a refused change that has no effect.
    assert_eq!(
        put(&[both[0], both[1], ("x/a.xsl", &STYLESHEET.replace("old", "new"))]).status(),
        200
    );
    assert_eq!(gateway.wire().get("/more").text().matches("<new/>").count(), 1);
    let refused = put(&[("a.yaml", YAML), ("b.yaml", "routes: 7\n")]);
    assert_eq!(refused.status(), 422, "{refused:?}");
    assert_eq!(json(&refused)["complaints"][0]["file"], "b.yaml", "{refused:?}");
    assert_eq!(fs::read_to_string(gateway.path("b.yaml")).unwrap(), OTHER);
    assert!(gateway.path("x/a.xsl").exists());
    // A file missing in the archive is removed, but a file that is never in archives stays.
    assert_eq!(put(&[both[0]]).status(), 200);
    assert!(!gateway.path("b.yaml").exists() && !gateway.path("x/a.xsl").exists());
    assert_eq!(fs::read_to_string(gateway.path("notes.txt")).unwrap(), "kept");
    assert_eq!(gateway.wire().get("/more").status(), 404);
    // A rollback brings back the texts and the stylesheet that they name.
    assert_eq!(ask(&gateway, "POST /config/history/2/rollback", ANN, "").status(), 200);
    assert_eq!(gateway.wire().get("/more").text().matches("<old/>").count(), 1);
    assert_eq!(fs::read_to_string(gateway.path("x/a.xsl")).unwrap(), STYLESHEET);
    // A folder does not take a text.
    assert_eq!(ask(&gateway, "PUT /config", ANN, YAML).status(), 409);
}

#[test]
fn a_rollback_of_a_folder_names_the_files_that_are_gone() {
    let with_key = YAML.replace("body: one", "body: \"${file:secrets/key.pem}\"");
    let key = "-----BEGIN PRIVATE KEY-----\none\n";
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("secrets")).unwrap();
    fs::write(folder.path().join("secrets/key.pem"), key).unwrap();
    fs::write(folder.path().join("a.yaml"), &with_key).unwrap();
    let gateway = Gateway::start_in(folder.path(), "");
    let history = folder.path().join("history");
    // It is written under another name first.
    let kept = || {
        let files = fs::read_dir(&history).into_iter().flatten();
        let mut paths = files.map(|file| file.unwrap().path());
        paths.find(|path| path.extension().is_some_and(|extension| extension == "json"))
    };
    until("the configuration is kept", || kept().is_some());
    let kept = fs::read_to_string(kept().unwrap()).unwrap();
    assert!(!kept.contains("PRIVATE"), "a key is not kept");
    let put = |yaml: &str| {
        ask(&gateway, "PUT /config", &format!("{ANN}{AS_ZIP}"), zip(&[("a.yaml", yaml)])).status()
    };
    assert_eq!(put(&YAML.replace("one", "two")), 200);
    fs::remove_file(folder.path().join("secrets/key.pem")).unwrap();
    let reply = ask(&gateway, "POST /config/history/1/rollback", ANN, "");
    assert_eq!(reply.status(), 422, "{reply:?}");
    assert!(reply.text().contains("secrets/key.pem"), "{reply:?}");
    assert_eq!(gateway.wire().get("/hello").text(), "two");
    fs::write(folder.path().join("secrets/key.pem"), key).unwrap();
    assert_eq!(ask(&gateway, "POST /config/history/1/rollback", ANN, "").status(), 200);
    assert!(gateway.wire().get("/hello").text().contains("PRIVATE KEY"));
}

#[test]
fn bad_archives_are_refused() {
    let gateway = Gateway::start(YAML);
    let many: Vec<(String, String)> =
        (0..2_001).map(|at| (format!("{at}.yaml"), String::new())).collect();
    let many: Vec<(&str, &str)> =
        many.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let large = " ".repeat(17 << 20);
    for (archive, status) in [
        (b"nonsense".to_vec(), 422),
        (zip(&[]), 422),
        (zip(&[("../a.yaml", YAML)]), 422),
        (zip(&[("/a.yaml", YAML)]), 422),
        (zip(&[("a.yaml", YAML), ("b.yaml", "")]), 422),
        (zip(&[("a.yaml", &large)]), 413),
        (zip(&many), 413),
        (zip(&[("any.yaml", &YAML.replace("one", "two"))]), 200),
    ] {
        for request in ["POST /config/check", "POST /config/diff", "PUT /config"] {
            let reply = ask(&gateway, request, &format!("{ANN}{AS_ZIP}"), &archive);
            assert_eq!(reply.status(), status, "{request}: {reply:?}");
        }
    }
    assert_eq!(gateway.wire().get("/hello").text(), "two");
    let got = ask(&gateway, "GET /config", &format!("{ANN}Accept: application/zip\r\n"), "");
    assert_eq!(unzip(&got.body)[0].0, "tidegate.yaml");
}

/// A command against a gateway.
fn run(gateway: &Gateway, command: &str, more: &[&str], path: &Path, token: &str) -> Run {
    let url = format!("http://{}", gateway.admin());
    let mut arguments = vec![command, "--admin", &url];
    arguments.extend(more);
    let path = path.to_str().unwrap();
    arguments.push(path);
    tidegate_with(&arguments, &[("TIDEGATE_TOKEN", token)])
}

#[test]
fn files_are_dumped_compared_and_synced() {
    let gateway = Gateway::start(YAML);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("local.yaml");
    let ann = |command: &str, more: &[&str]| run(&gateway, command, more, &file, "ann-secret");
    assert_eq!(ann("dump", &[]).code, Some(0));
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains("body: one") && !text.contains("-secret"), "{text}");
    let nothing = ann("sync", &[]);
    assert_eq!((nothing.code, &*nothing.stdout), (Some(0), ""), "{nothing:?}");
    fs::write(&file, text.replace("one", "two")).unwrap();
    for (command, more) in [("diff", &[][..]), ("sync", &["--dry-run"][..])] {
        let told = ann(command, more);
        assert_eq!(told.code, Some(1), "{told:?}");
        assert!(told.stdout.contains("routes.hello.respond.body"), "{told:?}");
        assert_eq!(gateway.wire().get("/hello").text(), "one");
    }
    let done = ann("sync", &[]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.stdout.contains("routes.hello.respond.body"), "{done:?}");
    assert_eq!(gateway.wire().get("/hello").text(), "two");
    assert_eq!(ann("sync", &[]).code, Some(0));
    // The role `read` may compare, and not change.
    fs::write(&file, text.replace("one", "three")).unwrap();
    assert_eq!(run(&gateway, "diff", &[], &file, "rob-secret").code, Some(1));
    assert_eq!(run(&gateway, "sync", &[], &file, "rob-secret").code, Some(2));
    assert_eq!(run(&gateway, "sync", &[], &file, "wrong").code, Some(2));
    assert_eq!(run(&gateway, "dump", &["--secrets"], &file, "rob-secret").code, Some(2));
    // A configuration that does not compile is refused, with the name of the local file.
    fs::write(&file, text.replace("respond", "resond")).unwrap();
    let refused = ann("sync", &[]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("local.yaml:6:"), "{refused:?}");
    let url = "http://127.0.0.1:1";
    let nobody = tidegate(&["sync", "--admin", url, file.to_str().unwrap()]);
    assert_eq!(nobody.code, Some(2), "{nobody:?}");
}

/// Passes requests on to a gateway, and lets the connection of a change end: before it, within it, or before its answer.
fn breaking(gateway: &Gateway, at: &'static str) -> Origin {
    let admin = gateway.admin();
    let host = admin.to_string();
    Origin::start(move |peer| {
        while let Some(request) = peer.request() {
            let mut bytes = format!("{}\r\n", request.start).into_bytes();
            for (name, value) in &request.headers {
                let value = if name.eq_ignore_ascii_case("host") { &host } else { value };
                bytes.extend(format!("{name}: {value}\r\n").bytes());
            }
            bytes.extend(b"\r\n");
            bytes.extend(&request.body);
            let is_change = request.method() == "PUT";
            let mut wire = Wire::connect(admin);
            match (is_change, at) {
                (true, "before") => return,
                (true, "within") => {
                    wire.send(&bytes[..bytes.len() - 20]);
                    return;
                }
                (true, "answer") => {
                    wire.ask(&bytes);
                    return;
                }
                (_, _) => {}
            }
            let reply = wire.ask(&bytes);
            let mut answer = format!("{}\r\n", reply.start);
            for (name, value) in &reply.headers {
                if !name.eq_ignore_ascii_case("transfer-encoding")
                    && !name.eq_ignore_ascii_case("content-length")
                {
                    answer.push_str(&format!("{name}: {value}\r\n"));
                }
            }
            answer.push_str(&format!("Content-Length: {}\r\n\r\n", reply.body.len()));
            peer.send([answer.as_bytes(), &reply.body].concat());
        }
    })
}

#[test]
fn a_sync_that_is_interrupted_happened_or_did_not_and_can_be_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("local.yaml");
    for (at, body) in [("before", "one"), ("within", "one"), ("answer", "two")] {
        let gateway = Gateway::start(YAML);
        fs::write(&file, YAML.replace("one", "two")).unwrap();
        let relay = breaking(&gateway, at);
        let url = format!("http://{}", relay.address());
        let sync = |url: &str| {
            let arguments = ["sync", "--admin", url, file.to_str().unwrap()];
            tidegate_with(&arguments, &[("TIDEGATE_TOKEN", "ann-secret")])
        };
        let broken = sync(&url);
        assert_eq!(broken.code, Some(2), "{at}: {broken:?}");
        assert_eq!(gateway.wire().get("/hello").text(), body, "{at}");
        assert!(fs::read_to_string(gateway.path("tidegate.yaml")).unwrap().contains(body), "{at}");
        let again = sync(&format!("http://{}", gateway.admin()));
        assert_eq!(again.code, Some(0), "{at}: {again:?}");
        assert_eq!(again.stdout.is_empty(), at == "answer", "{at}: {again:?}");
        assert_eq!(gateway.wire().get("/hello").text(), "two", "{at}");
    }
}

#[test]
fn of_several_operators_who_change_the_same_one_wins() {
    let gateway = Gateway::start(YAML);
    for round in 0..5 {
        let tag = tag(&ask(&gateway, "GET /config", ROB, ""));
        let put = |operator: usize| {
            let headers = format!("{ANN}If-Match: {tag}\r\n");
            let body = format!("round-{round}-{operator}");
            (ask(&gateway, "PUT /config", &headers, YAML.replace("one", &body)).status(), body)
        };
        let answers: Vec<(u16, String)> = std::thread::scope(|all| {
            let operators: Vec<_> = (0..4).map(|number| all.spawn(move || put(number))).collect();
            operators.into_iter().map(|operator| operator.join().unwrap()).collect()
        });
        let won: Vec<&String> =
            answers.iter().filter(|(status, _)| *status == 200).map(|(_, body)| body).collect();
        assert_eq!(won.len(), 1, "{answers:?}");
        assert!(answers.iter().all(|(status, _)| [200, 412].contains(status)), "{answers:?}");
        assert_eq!(gateway.wire().get("/hello").text(), *won[0]);
    }
}

#[test]
fn a_folder_is_synced_and_its_complaints_name_its_files() {
    let gateway = Gateway::start_folder(&[("a.yaml", YAML)]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gateway");
    let ann = |command: &str, more: &[&str]| run(&gateway, command, more, &path, "ann-secret");
    assert_eq!(ann("dump", &[]).code, Some(0));
    assert!(path.join("a.yaml").is_file());
    fs::create_dir(path.join("x")).unwrap();
    fs::write(path.join("x/a.xsl"), STYLESHEET).unwrap();
    fs::write(path.join("b.yaml"), OTHER).unwrap();
    assert_eq!(ann("sync", &["--dry-run"]).code, Some(1));
    let done = ann("sync", &[]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(gateway.wire().get("/more").status(), 200);
    fs::write(path.join("b.yaml"), "routes: 7\n").unwrap();
    let refused = ann("sync", &[]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    let place = format!("{}:1:", path.join("b.yaml").display());
    assert!(refused.stderr.contains(&place), "{refused:?}");
}

#[test]
fn commands_speak_tls_and_show_certificates() {
    let ours = Authority::new();
    let server = ours.issue("127.0.0.1");
    let operator = ours.issue("ops.test");
    let yaml = YAML.replace(
        "users: {",
        "tls: { certificate: a.pem, key: a.key, client_ca: ca.pem }, users: { ops: { subject: CN=ops.test, role: write },",
    );
    let ca = ours.pem();
    let gateway = Gateway::start_beside(
        yaml,
        &[("a.pem", &server.certificate), ("a.key", &server.key), ("ca.pem", &ca)],
    );
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        fs::write(folder.path().join(name), text).unwrap();
        folder.path().join(name).to_str().unwrap().to_owned()
    };
    let ca = write("ca.pem", &ca);
    let (certificate, key) =
        (write("ops.pem", &operator.certificate), write("ops.key", &operator.key));
    let url = format!("https://{}", gateway.admin());
    let ctl = |more: &[&str]| {
        let mut arguments = vec!["ctl", "--admin", &url];
        arguments.extend(more);
        tidegate(&arguments)
    };
    let shown = ctl(&["--ca", &ca, "--certificate", &certificate, "--key", &key, "history"]);
    assert_eq!(shown.code, Some(0), "{shown:?}");
    assert!(shown.stdout.contains("\"by\": \"start\""), "{shown:?}");
    assert_eq!(ctl(&["--ca", &ca, "history"]).code, Some(2));
    assert_eq!(ctl(&["--ca", &ca, "--token", "rob-secret", "rollback", "1"]).code, Some(2));
    assert_eq!(ctl(&["--ca", &ca, "--token", "ann-secret", "rollback", "7"]).code, Some(1));
    assert_eq!(ctl(&["history"]).code, Some(2));
    assert_eq!(tidegate(&["ready", "--admin", &url, "--ca", &ca]).code, Some(0));
}

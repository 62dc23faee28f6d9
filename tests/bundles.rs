//! Bundles: archives that are deployed, replaced, rolled back and taken out as a whole, by the admin API.

use std::fs;
use std::io::{Cursor, Write as _};

use serde_json::{Value, json};
use zip::write::SimpleFileOptions;

use crate::harness::{Gateway, Message, Origin, Wire, tidegate, until};

const OWN: &str = "\
listen: { public: { address: \"127.0.0.1:0\" } }
admin: { address: \"127.0.0.1:0\" }
workers: 2
routes: { own: { match: { path: /own }, respond: { body: own } } }
bundles: { folder: bundles }
";

const STYLESHEET: &str = "<xsl:stylesheet version=\"1.0\" xmlns:xsl=\"http://www.w3.org/1999/XSL/Transform\">\
    <xsl:template match=\"/\"><made><xsl:value-of select=\"/in\"/></made></xsl:template></xsl:stylesheet>";

fn archive(files: &[(&str, &str)]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, text) in files {
        zip.start_file(*name, SimpleFileOptions::default()).unwrap();
        zip.write_all(text.as_bytes()).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

#[track_caller]
fn send(gateway: &Gateway, request: &str, body: &[u8]) -> Message {
    let admin = gateway.admin();
    let head =
        format!("{request} HTTP/1.1\r\nHost: {admin}\r\nContent-Length: {}\r\n\r\n", body.len());
    Wire::connect(admin).ask([head.as_bytes(), body].concat())
}

#[track_caller]
fn put(gateway: &Gateway, name: &str, files: &[(&str, &str)]) -> Message {
    send(gateway, &format!("PUT /bundles/{name}"), &archive(files))
}

fn json_of(reply: &Message) -> Value {
    serde_json::from_slice(&reply.body).unwrap_or_else(|error| panic!("{error}: {reply:?}"))
}

#[track_caller]
fn post(gateway: &Gateway, path: &str, body: &str) -> String {
    let length = body.len();
    gateway
        .wire()
        .ask(format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Type: application/xml\r\nContent-Length: {length}\r\n\r\n{body}"))
        .text()
}

/// A bundle with an endpoint, a proxy, an API, a stylesheet and a schema, as one archive.
fn shop(origin: &Origin, said: &str) -> Vec<(String, String)> {
    let routes = format!(
        "upstreams: {{ shop: {{ targets: [\"{}\"] }} }}
routes:
  shop: {{ match: {{ path: \"/shop/**\" }}, upstream: shop }}
  made: {{ match: {{ path: /made }}, flow: made }}
flows:
  made:
    - validate: {{ schema: schemas/in.xsd }}
    - xslt: {{ stylesheet: made.xsl }}
    - respond: {{ headers: {{ x-said: \"{said}\" }} }}
",
        origin.url()
    );
    let schema = "<xs:schema xmlns:xs=\"http://www.w3.org/2001/XMLSchema\"><xs:element name=\"in\" type=\"xs:string\"/></xs:schema>";
    [("shop.yaml", &*routes), ("made.xsl", STYLESHEET), ("schemas/in.xsd", schema)]
        .map(|(name, text)| (name.to_owned(), text.to_owned()))
        .into()
}

fn borrowed(files: &[(String, String)]) -> Vec<(&str, &str)> {
    files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect()
}

#[test]
fn a_bundle_comes_changes_and_goes_as_one() {
    let origin = Origin::saying("shop");
    let gateway = Gateway::start(OWN);
    assert_eq!(json_of(&gateway.admin_get("/bundles")), json!({ "bundles": [] }));
    assert_eq!(gateway.wire().get("/shop/1").status(), 404);
    let files = shop(&origin, "one");
    let reply = put(&gateway, "shop", &borrowed(&files));
    assert_eq!(reply.status(), 200, "{}", reply.text());
    let told = json_of(&reply);
    assert_eq!(
        (&told["generation"], &told["changed"], &told["notes"]),
        (&json!(2), &json!(true), &json!([]))
    );
    assert_eq!(gateway.wire().get("/shop/1").text(), "shop");
    assert!(post(&gateway, "/made", "<in>a</in>").contains("<made>a</made>"));
    assert!(post(&gateway, "/made", "<out/>").contains("request_invalid"));
    let listed = json_of(&gateway.admin_get("/bundles"));
    assert_eq!(listed["bundles"][0]["name"], "shop");
    assert_eq!(listed["bundles"][0]["files"], json!(["made.xsl", "schemas/in.xsd", "shop.yaml"]));
    // The next version, as an archive of its folder, under traffic on an open connection.
    let mut wire = gateway.wire();
    assert_eq!(wire.get("/own").text(), "own");
    let files = shop(&origin, "two");
    let inside: Vec<(String, String)> = files
        .iter()
        .map(|(name, text)| (format!("shop-2/{name}"), text.replace("made>", "new>")))
        .collect();
    let reply = put(&gateway, "shop", &borrowed(&inside));
    assert_eq!(reply.status(), 200, "{}", reply.text());
    assert_eq!(wire.get("/own").text(), "own");
    assert!(post(&gateway, "/made", "<in>a</in>").contains("<new>a</new>"));
    // The text of the gateway's own file is not that of the bundle, and can be sent again.
    assert_eq!(gateway.admin_get("/config").text(), OWN);
    assert_eq!(json_of(&send(&gateway, "PUT /config", OWN.as_bytes()))["changed"], false);
    let own = OWN.replace("body: own", "body: other");
    assert_eq!(send(&gateway, "PUT /config", own.as_bytes()).status(), 200);
    assert_eq!(gateway.wire().get("/own").text(), "other");
    assert_eq!(gateway.wire().get("/shop/1").text(), "shop");
    let gone = send(&gateway, "DELETE /bundles/shop", b"");
    assert_eq!(gone.status(), 200, "{}", gone.text());
    assert_eq!(gateway.wire().get("/shop/1").status(), 404);
    assert_eq!(send(&gateway, "DELETE /bundles/shop", b"").status(), 404);
    assert_eq!(fs::read_dir(gateway.path("bundles")).unwrap().count(), 0);
}

/// A `.tar.gz` is as good as a ZIP archive.
#[test]
fn a_bundle_comes_as_a_tar_archive_too() {
    let origin = Origin::saying("shop");
    let gateway = Gateway::start(OWN);
    let coder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let mut tar = tar::Builder::new(coder);
    for (name, text) in shop(&origin, "one") {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len().try_into().unwrap());
        header.set_mode(0o644);
        tar.append_data(&mut header, format!("./{name}"), text.as_bytes()).unwrap();
    }
    let bytes = tar.into_inner().unwrap().finish().unwrap();
    let reply = send(&gateway, "PUT /bundles/shop", &bytes);
    assert_eq!(reply.status(), 200, "{}", reply.text());
    assert_eq!(gateway.wire().get("/shop/1").text(), "shop");
    assert!(post(&gateway, "/made", "<in>a</in>").contains("<made>a</made>"));
    let cut = send(&gateway, "PUT /bundles/shop", &bytes[..bytes.len() / 2]);
    assert_eq!(cut.status(), 422, "{}", cut.text());
    assert_eq!(gateway.wire().get("/shop/1").text(), "shop");
}

/// A bad bundle is refused with all its complaints, and what served before serves on.
#[test]
fn a_bad_bundle_leaves_the_last_good_state() {
    let origin = Origin::saying("shop");
    let gateway = Gateway::start(OWN);
    let good = shop(&origin, "one");
    assert_eq!(put(&gateway, "shop", &borrowed(&good)).status(), 200);
    let bad = [
        (
            "a.yaml",
            "routes:\n  a: { match: { path: /a }, upstrem: shop }\n  b: { match: { path: /b }, flow: none }\nworkers: 3\n",
        ),
        ("b.yaml", "flows: { f: [{ xslt: { stylesheet: gone.xsl } }] }\n"),
    ];
    for name in ["shop", "second"] {
        let reply = put(&gateway, name, &bad);
        assert_eq!(reply.status(), 422, "{}", reply.text());
        let complaints = json_of(&reply)["complaints"].clone();
        for (file, line, words) in [
            ("a.yaml", 2, "upstrem"),
            ("a.yaml", 3, "none"),
            ("a.yaml", 4, "is not allowed in a bundle"),
            ("b.yaml", 1, "gone.xsl"),
        ] {
            let is_said = complaints.as_array().unwrap().iter().any(|complaint| {
                let place = complaint["file"].as_str().unwrap_or_default();
                place.ends_with(&format!("bundles/{name}/{file}"))
                    && complaint["line"] == line
                    && complaint["column"].as_u64() > Some(0)
                    && complaint["message"].as_str().unwrap().contains(words)
            });
            assert!(is_said, "{file}:{line} {words}: {complaints:#}");
        }
        assert_eq!(gateway.wire().get("/shop/1").text(), "shop");
        assert!(post(&gateway, "/made", "<in>a</in>").contains("<made>a</made>"));
    }
    // One that takes another's name, one whose address is taken, and one that others need.
    let twice = put(
        &gateway,
        "second",
        &[("a.yaml", "routes: { own: { match: { path: /x }, respond: {} } }\n")],
    );
    assert!(twice.status() == 422 && twice.text().contains("is in two files"), "{}", twice.text());
    let taken = format!("listen: {{ more: {{ address: \"{}\" }} }}\n", gateway.admin());
    let taken = put(&gateway, "second", &[("a.yaml", &taken)]);
    assert_eq!(taken.status(), 409, "{}", taken.text());
    let needs = "routes: { n: { match: { path: /n }, upstream: shop } }\n";
    assert_eq!(put(&gateway, "second", &[("a.yaml", needs)]).status(), 200);
    let kept = send(&gateway, "DELETE /bundles/shop", b"");
    assert_eq!(kept.status(), 422, "{}", kept.text());
    assert_eq!(gateway.wire().get("/shop/1").text(), "shop");
    let names: Vec<String> = fs::read_dir(gateway.path("bundles"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(names.len(), 2, "{names:?}");
    // The configuration on disk is the one in service.
    let check = tidegate(&["check", &gateway.path("tidegate.yaml").display().to_string()]);
    assert_eq!(check.code, Some(0), "{}{}", check.stdout, check.stderr);
}

#[test]
fn unfit_archives_and_names_are_refused() {
    let gateway = Gateway::start(OWN);
    for (name, files) in [
        ("a", &[("../../evil.yaml", "")][..]),
        ("a", &[("/tmp/evil.yaml", "")]),
        ("a", &[(".hidden.yaml", "")]),
        ("a", &[]),
        (".a", &[("a.yaml", "")]),
        ("a%2Fb", &[("a.yaml", "")]),
        ("a%20b", &[("a.yaml", "")]),
    ] {
        let reply = put(&gateway, name, files);
        assert_eq!(reply.status(), 422, "{name} {files:?}: {}", reply.text());
    }
    let text = send(&gateway, "PUT /bundles/a", b"routes: {}");
    assert!(
        text.status() == 422 && text.text().contains("neither a ZIP archive"),
        "{}",
        text.text()
    );
    let bomb = archive(&[("a.yaml", &" ".repeat(17 << 20))]);
    let bomb = send(&gateway, "PUT /bundles/a", &bomb);
    assert!(bomb.status() == 422 && bomb.text().contains("too large"), "{}", bomb.text());
    let head = format!(
        "PUT /bundles/a HTTP/1.1\r\nHost: {}\r\nContent-Length: 40000000\r\n\r\n",
        gateway.admin()
    );
    let mut wire = Wire::connect(gateway.admin());
    wire.send(head);
    assert_eq!(wire.read_reply().status(), 413);
    assert!(!gateway.path("evil.yaml").exists());
    let none = Gateway::start(OWN.replace("bundles: { folder: bundles }\n", ""));
    let reply = put(&none, "a", &[("a.yaml", "")]);
    assert!(
        reply.status() == 409 && reply.text().contains("bundles: { folder"),
        "{}",
        reply.text()
    );
    assert_eq!(json_of(&none.admin_get("/bundles")), json!({ "bundles": [] }));
}

/// Bundles outlive a restart, one that is put into the folder by hand counts, and a change that was cut off is undone.
#[test]
fn bundles_outlive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let route = |name: &str, said: &str| {
        format!(
            "routes: {{ {name}: {{ match: {{ path: /{name} }}, respond: {{ body: {said} }} }} }}\n"
        )
    };
    write("bundles/a/a.yaml", &route("a", "good"));
    // A crash has left the bad one in its place, one that was never complete, and a new one that was not there before.
    write("bundles/.b.before/b.yaml", &route("b", "before"));
    write("bundles/b/b.yaml", "routes: 7\n");
    write("bundles/.c.new/c.yaml", "routes: 8\n");
    fs::create_dir(folder.path().join("bundles/.d.before")).unwrap();
    write("bundles/d/d.yaml", "routes: 9\n");
    let bundles = folder.path().join("bundles");
    let own = OWN.replace("folder: bundles", &format!("folder: \"{}\"", bundles.display()));
    let gateway = Gateway::start(own);
    assert_eq!(gateway.wire().get("/a").text(), "good");
    assert_eq!(gateway.wire().get("/b").text(), "before");
    assert_eq!(fs::read_dir(&bundles).unwrap().count(), 2);
    write("elsewhere/e.yaml", &route("e", "moved"));
    fs::rename(folder.path().join("elsewhere"), bundles.join("e")).unwrap();
    until("the new one serves", || gateway.wire().get("/e").text() == "moved");
    write("bundles/e/e.yaml", &route("e", "changed"));
    until("the change serves", || gateway.wire().get("/e").text() == "changed");
    fs::remove_dir_all(bundles.join("e")).unwrap();
    until("it is gone", || gateway.wire().get("/e").status() == 404);
}

/// A Composite Application archive is imported on its way.
#[test]
fn an_archive_of_synapse_is_deployed_as_what_it_becomes() {
    let origin = Origin::saying("stock");
    let gateway = Gateway::start(OWN);
    let proxy = format!(
        "<proxy xmlns=\"http://ws.apache.org/ns/synapse\" name=\"Stock\"><target><endpoint><address uri=\"{}/stock\"/></endpoint><outSequence><send/></outSequence></target></proxy>",
        origin.url()
    );
    let files = [
        (
            "artifacts.xml",
            "<artifacts><artifact name=\"Car\" version=\"1.0.0\" type=\"carbon/application\"><dependency artifact=\"Stock\" version=\"1.0.0\" include=\"true\"/></artifact></artifacts>",
        ),
        (
            "Stock_1.0.0/artifact.xml",
            "<artifact name=\"Stock\" version=\"1.0.0\" type=\"synapse/proxy-service\"><file>Stock-1.0.0.xml</file></artifact>",
        ),
        ("Stock_1.0.0/Stock-1.0.0.xml", &*proxy),
    ];
    let reply = put(&gateway, "car", &files);
    assert_eq!(reply.status(), 200, "{}", reply.text());
    assert!(json_of(&reply)["notes"].is_array());
    assert_eq!(post(&gateway, "/services/Stock", "<a/>"), "stock");
    let broken = [("artifacts.xml", "<artifacts/>"), ("p.xml", "<proxy")];
    let reply = put(&gateway, "car", &broken);
    assert_eq!(reply.status(), 422, "{}", reply.text());
    assert_eq!(post(&gateway, "/services/Stock", "<a/>"), "stock");
    assert_eq!(send(&gateway, "DELETE /bundles/car", b"").status(), 200);
}

//! Requests of stylesheets that are denied.

use super::*;

const SECRET: &str = "the-secret-of-this-machine";

#[test]
fn nothing_outside_the_stylesheet_and_the_message_is_read() {
    let origin = Origin::echo();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secret.xml");
    std::fs::write(&file, format!("<s>{SECRET}</s>")).unwrap();
    let url = format!("file://{}", file.display());
    let listening = Origin::saying(SECRET);
    let web = listening.url();
    let refused: Vec<(&str, String)> = vec![
        ("doc", value(&format!("doc('{url}')"))),
        ("document", value(&format!("document('{url}')"))),
        ("http", value(&format!("doc('{web}/a.xml')"))),
        ("text", value(&format!("unparsed-text('{url}')"))),
        ("lines", value(&format!("unparsed-text-lines('{web}/a')"))),
        ("collection", value(&format!("collection('file://{}')", folder.path().display()))),
        ("uris", value(&format!("uri-collection('file://{}')", folder.path().display()))),
        ("json", value(&format!("json-doc('{url}')"))),
        (
            "entity",
            value(&format!(
                "parse-xml('&lt;!DOCTYPE a [&lt;!ENTITY e SYSTEM &quot;{url}&quot;>]>&lt;a>&amp;e;&lt;/a>')"
            )),
        ),
        (
            "subset",
            value(&format!(
                "parse-xml('&lt;!DOCTYPE a SYSTEM &quot;{web}/a.dtd&quot;>&lt;a/>')/name(*), error()"
            )),
        ),
        (
            "sheet",
            value(&format!(
                "transform(map {{ 'stylesheet-location': '{url}', 'source-node': . }})?output"
            )),
        ),
        (
            "evaluate",
            sheet("<xsl:template match=\"/\"><xsl:evaluate xpath=\"'1'\"/></xsl:template>"),
        ),
        (
            "source",
            sheet(&format!(
                "<xsl:template match=\"/\"><xsl:source-document href=\"{url}\"><xsl:copy-of select=\".\"/></xsl:source-document></xsl:template>"
            )),
        ),
    ];
    // These find nothing, and report that.
    let empty: Vec<(&str, String)> = vec![
        ("there", value(&format!("doc-available('{url}') or unparsed-text-available('{url}')"))),
        (
            "variable",
            value("environment-variable('PATH'), count(available-environment-variables())"),
        ),
        ("property", value("concat(system-property('java.version'), system-property('user.dir'))")),
        ("itself", value("static-base-uri(), base-uri(/), document-uri(/)")),
    ];
    let sheets: Vec<(&str, &str)> =
        refused.iter().chain(&empty).map(|(name, text)| (*name, text.as_str())).collect();
    let gateway = transforming(&origin, "", &sheets);
    for (name, _) in &refused {
        let reply = transform(&gateway, name, "<a/>");
        assert_eq!(reply.status(), 500, "{name}: {}", reply.text());
        assert!(!reply.text().contains(SECRET), "{name}: {}", reply.text());
        assert!(reply.text().contains("soap:Server"), "{name}: {}", reply.text());
    }
    for (name, said) in [
        ("there", "false"),
        ("variable", " 0"),
        ("property", ""),
        ("itself", "sheet:/-/-/-/-/-/-/-/-/itself.xsl "),
    ] {
        assert_eq!(transform(&gateway, name, "<a/>").text(), said, "{name}");
    }
    assert_eq!((listening.requests().len(), origin.requests().len()), (0, empty.len()));
}

#[test]
fn a_stylesheet_reads_itself_and_its_own_modules() {
    let origin = Origin::echo();
    let main = sheet(
        "<xsl:import href=\"./part.xsl\"/><xsl:output method=\"text\"/><t:table xmlns:t=\"t\"><t:row>7</t:row></t:table><xsl:template match=\"/\"><xsl:value-of select=\"document('')//*:row\"/><xsl:call-template name=\"part\"/></xsl:template>",
    );
    let part = sheet(
        "<xsl:include href=\"other.xsl\"/><xsl:template name=\"part\"><xsl:call-template name=\"other\"/></xsl:template>",
    );
    let other = sheet("<xsl:template name=\"other\">, other</xsl:template>");
    let yaml = format!(
        "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nupstreams: {{ origin: {{ targets: [\"{}\"] }} }}\nroutes: {{ main: {{ match: {{ path: /main }}, upstream: origin, policies: [{{ xslt: {{ on: request, stylesheet: main.xsl, verbose: true }} }}] }} }}\n",
        origin.url()
    );
    let files: &[(&str, &str)] = &[("main.xsl", &main), ("part.xsl", &part), ("other.xsl", &other)];
    let gateway = Gateway::start_beside(yaml, files);
    assert_eq!(transform(&gateway, "main", "<a/>").text(), "7, other");
}

#[test]
fn functions_of_java_and_other_results_are_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tidegate.yaml");
    let yaml = "listen: { public: { address: \"127.0.0.1:0\" } }\nupstreams: { o: { targets: [\"http://127.0.0.1:1\"] } }\nroutes: { all: { match: { path: /** }, upstream: o, policies: [{ xslt: { on: request, stylesheet: java.xsl } }] } }\n";
    std::fs::write(&path, yaml).unwrap();
    let java = |prefix: &str, call: &str| {
        value(call).replace("xmlns:xs=", &format!("xmlns:r=\"{prefix}\" xmlns:xs="))
    };
    for (text, said) in [
        (java("java:java.lang.Runtime", "r:exec(r:getRuntime(), 'true')"), "Cannot find a"),
        (java("java.lang.System", "r:getProperty('user.dir')"), "Cannot find a"),
        (java("java:java.io.FileReader", "r:new('/etc/passwd')"), "Cannot find a"),
        (
            sheet(
                "<xsl:template match=\"/\"><xsl:result-document href=\"out.xml\"><a/></xsl:result-document></xsl:template>",
            ),
            "xsl:result-document",
        ),
    ] {
        std::fs::write(folder.path().join("java.xsl"), text).unwrap();
        let run = crate::harness::tidegate(&["check".as_ref(), path.as_os_str()]);
        let told = format!("{}{}", run.stdout, run.stderr);
        assert_eq!(run.code, Some(1), "{said}: {told}");
        assert!(told.contains("java.xsl:2:") && told.contains(said), "{said}: {told}");
    }
}

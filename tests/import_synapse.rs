//! `tidegate import synapse`: the configuration, its files, the table, and the exit code.

use crate::harness::{Gateway, Origin, Run, tidegate};

const PROXY: &str = r#"<definitions xmlns="http://ws.apache.org/ns/synapse">
  <localEntry key="gold.xsl"><xsl:stylesheet xmlns:xsl="http://www.w3.org/1999/XSL/Transform" version="1.0"/></localEntry>
  <proxy name="Quotes"><target>
    <inSequence><xslt key="gold.xsl"/><send><endpoint><address uri="http://quotes.test:8080/service"/></endpoint></send></inSequence>
    <outSequence>MEDIATOR<send/></outSequence>
  </target></proxy>
</definitions>"#;

/// Imports the proxy with a mediator on the way back.
fn imported(mediator: &str, more: &[&str]) -> (Run, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("quotes.xml");
    std::fs::write(&file, PROXY.replace("MEDIATOR", mediator)).unwrap();
    let into = folder.path().join("made");
    let mut arguments = vec!["import", "synapse", file.to_str().unwrap()];
    arguments.extend(more);
    if more.contains(&"--into") {
        arguments.push(into.to_str().unwrap());
    }
    (tidegate(&arguments), folder)
}

#[test]
fn the_configuration_is_printed_and_the_table_told() {
    let (run, _) = imported("<log level=\"full\"/>", &[]);
    assert_eq!(run.code, Some(3), "{}", run.stderr);
    assert!(run.stdout.contains("address: \"127.0.0.1:8081\""), "{}", run.stdout);
    assert!(run.stdout.contains("stylesheet: gold.xsl"), "{}", run.stdout);
    assert!(run.stdout.contains("# approximated: log full, quotes.xml:5:18: "), "{}", run.stdout);
    for line in [
        "note: the configuration names the file gold.xsl, which --into FOLDER writes beside it",
        "converted     quotes.xml:4:17  xslt gold.xsl",
        "approximated  quotes.xml:5:18  log full",
        "5 converted, 1 approximated, 0 refused",
    ] {
        assert!(run.stderr.contains(line), "{line}: {}", run.stderr);
    }
}

#[test]
fn what_is_refused_or_approximated_has_an_exit_code_of_its_own() {
    let (run, _) = imported("<class name=\"com.example.Audit\"/>", &[]);
    assert_eq!(run.code, Some(3), "{}", run.stderr);
    let comment = "# refused: class com.example.Audit, quotes.xml:5:18: code in Java is not run";
    assert!(run.stdout.contains(comment), "{}", run.stdout);
    assert!(run.stderr.contains("refused       quotes.xml:5:18"), "{}", run.stderr);
}

#[test]
fn files_are_written_into_a_folder_and_nothing_is_overwritten() {
    let (run, folder) = imported("", &["--into"]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), ""), "{}", run.stderr);
    let made = folder.path().join("made");
    let read = |name: &str| std::fs::read_to_string(made.join(name)).unwrap();
    assert!(read("tidegate.yaml").contains("stylesheet: gold.xsl"));
    assert!(read("gold.xsl").starts_with("<xsl:stylesheet"));

    std::fs::write(made.join("gold.xsl"), "mine").unwrap();
    let file = folder.path().join("quotes.xml");
    let again =
        tidegate(&["import", "synapse", file.to_str().unwrap(), "--into", made.to_str().unwrap()]);
    assert_eq!(again.code, Some(1), "{}", again.stderr);
    assert!(again.stderr.contains("already exists"), "{}", again.stderr);
    assert_eq!(read("gold.xsl"), "mine");
}

/// The output serves: the program takes its own configuration, with prefixes that only texts of the stylesheet use.
#[test]
fn what_is_written_is_a_good_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("all.xml");
    let text = PROXY
        .replace(r#"version="1.0"/>"#, r#"xmlns:m="urn:m" version="1.0"><xsl:template match="/"><xsl:value-of select="//m:a"/></xsl:template></xsl:stylesheet>"#)
        .replace(
            "MEDIATOR",
            r#"<filter xmlns:m="urn:m" source="//m:a" regex="x"><then><property name="p" expression="//m:a"/></then><else><drop/></else></filter>
            <clone><target><sequence><call><endpoint><address uri="http://a.test/x"/></endpoint></call></sequence></target></clone>
            <payloadFactory media-type="xml"><format><a>$1</a></format><args><arg evaluator="xml" expression="$ctx:p"/></args></payloadFactory>
            <enrich><source type="inline"><n xmlns=""/></source><target type="body"/></enrich><log level="full"/>"#,
        );
    std::fs::write(&file, text).unwrap();
    let into = folder.path().join("made");
    let run =
        tidegate(&["import", "synapse", file.to_str().unwrap(), "--into", into.to_str().unwrap()]);
    assert_eq!(run.code, Some(3), "{}", run.stderr);
    let checked = tidegate(&["check", into.join("tidegate.yaml").to_str().unwrap()]);
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
}

#[test]
fn what_is_no_artifact_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.xml");
    for (text, what) in [
        ("<a/>", "there is no artifact of Synapse in"),
        ("<!DOCTYPE a><a/>", "a.xml:1:1: a DOCTYPE is not allowed here"),
    ] {
        std::fs::write(&file, text).unwrap();
        let run = tidegate(&["import", "synapse", file.to_str().unwrap()]);
        assert_eq!((run.code, run.stdout.as_str()), (Some(1), ""), "{}", run.stderr);
        assert!(run.stderr.contains(what), "{what}: {}", run.stderr);
    }
    let run = tidegate(&["import", "synapse", "not-there.car"]);
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.contains("not-there.car"), "{}", run.stderr);
}

/// Micro Integrator writes the name of a property as the text of `target`, and transforms the element that `source` finds.
#[test]
fn targets_and_sources_are_converted() {
    let call = r#"<call><endpoint><address uri="http://a.test/x"/></endpoint><target type="property">kept</target></call>
    <log level="custom"><property name="k" expression="$ctx:kept"/></log>"#;
    let (run, _) = imported(call, &[]);
    assert_eq!(run.code, Some(3), "{}", run.stderr);
    assert!(
        run.stderr.contains("the headers of the reply before it are not sent on"),
        "{}",
        run.stderr
    );
    assert!(run.stdout.contains("kept: \"$kept_reply.body\""), "{}", run.stdout);
    let (run, _) = imported(r#"<xslt key="gold.xsl" source="$body//part"/>"#, &[]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(run.stdout.contains("of: \"$infoset_body//part\""), "{}", run.stdout);
}

/// With `clone="false"`, Synapse moves nodes. The reason of a fault is the text of the selected nodes.
#[test]
fn nodes_move_and_reasons_are_texts() {
    let enrich = r#"<enrich><source type="custom" xpath="//a"/><target type="custom" action="child" xpath="//b"/></enrich>"#;
    let (run, _) = imported(&enrich.replace("//a\"", "//a\" clone=\"false\""), &[]);
    let moved = "- set:\n        moved: \"$infoset//a\"\n    - enrich:\n        target: \"$infoset//a\"\n        action: remove\n    - enrich:\n        source: \"$moved\"\n";
    assert!(run.stdout.contains(moved), "{}", run.stdout);
    let (run, _) = imported(enrich, &[]);
    assert!(!run.stdout.contains("moved"), "{}", run.stdout);
    let fault = r#"<makefault version="soap11" response="true"><reason expression="//a"/></makefault><property name="x" value="1"/>"#;
    let (run, _) = imported(fault, &[]);
    assert!(
        run.stdout.contains("<faultstring>{{ texts($infoset//a) }}</faultstring>"),
        "{}",
        run.stdout
    );
}

/// JSON that is written in an `enrich` is JSON in the message, and not its text.
#[test]
fn inline_json_is_put_into_the_message_as_json() {
    let artifact = r#"<proxy xmlns="http://ws.apache.org/ns/synapse" name="P"><target><inSequence>
        <enrich><source type="inline" clone="true">{"approved": 1.50}</source><target action="child" xpath="json-eval($)"/></enrich>
        <enrich><source type="inline" clone="true">[7]</source><target xpath="json-eval($.list)"/></enrich>
        <respond/>
      </inSequence></target></proxy>"#;
    let cases = r#"  merged:
    request: { method: POST, path: /services/P, headers: { content-type: application/json }, body: '{"a":1,"list":[]}' }
    reply: { status: 200, json: { a: 1, list: [7], approved: 1.5 } }
"#;
    tested(artifact, 3, cases);
}

/// A property that one resource sets is the parameter of the path in another until it is set there, too.
#[test]
fn a_parameter_that_another_resource_sets_is_what_came() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("api.xml");
    let called = r#"<call><endpoint><http method="get" uri-template="http://h.test/things/{uri.var.id}"/></endpoint></call><respond/>"#;
    let text = format!(
        r#"<api xmlns="http://ws.apache.org/ns/synapse" name="A" context="/a">
          <resource methods="GET" uri-template="/sets"><inSequence><property name="uri.var.id" value="7"/>{called}</inSequence></resource>
          <resource methods="GET" uri-template="/of/{{id}}?more={{max}}"><inSequence>{called}</inSequence></resource>
          <resource methods="GET" uri-template="/joins/{{id}}"><inSequence><property name="uri.var.id" expression="fn:concat('x', get-property('uri.var.id'))"/>{called}</inSequence></resource>
        </api>"#
    );
    std::fs::write(&file, text).unwrap();
    let into = folder.path().join("made");
    let run =
        tidegate(&["import", "synapse", file.to_str().unwrap(), "--into", into.to_str().unwrap()]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let made = into.join("tidegate.yaml");
    let yaml = std::fs::read_to_string(&made).unwrap();
    let upstream = yaml.split_once("upstreams:\n  ").unwrap().1.split_once(':').unwrap().0;
    let cases: String = [("/a/sets", "7"), ("/a/of/5", "5"), ("/a/joins/5", "x5")]
        .iter()
        .map(|(path, id)| format!("  \"{path}\": {{ request: {{ path: {path} }}, calls: [{{ upstream: {upstream}, expect: {{ path: /things/{id} }}, reply: {{ body: ok }} }}], reply: {{ status: 200, body: ok }} }}\n"))
        .collect();
    std::fs::write(&made, format!("{yaml}cases:\n{cases}")).unwrap();
    let tested = tidegate(&["test", made.to_str().unwrap()]);
    assert_eq!(tested.code, Some(0), "{}{}\n{yaml}", tested.stdout, tested.stderr);
}

/// A store that no processor takes from keeps its messages, and the configuration is a good one.
#[test]
fn a_store_without_a_processor_is_a_queue_that_keeps_its_messages() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("store.xml");
    let text = r#"<definitions xmlns="http://ws.apache.org/ns/synapse">
      <messageStore class="org.apache.synapse.message.store.impl.memory.InMemoryStore" name="MS"/>
      <proxy name="Z"><target><inSequence><store messageStore="MS"/></inSequence></target></proxy>
    </definitions>"#;
    std::fs::write(&file, text).unwrap();
    let into = folder.path().join("made");
    let run =
        tidegate(&["import", "synapse", file.to_str().unwrap(), "--into", into.to_str().unwrap()]);
    assert_eq!(run.code, Some(3), "{}", run.stderr);
    assert!(run.stderr.contains("no processor takes its messages"), "{}", run.stderr);
    let checked = tidegate(&["check", into.join("tidegate.yaml").to_str().unwrap()]);
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
}

#[test]
fn a_processor_without_an_endpoint_sends_to_the_one_that_messages_name() {
    let artifacts = |more: &str| {
        format!(
            r#"<definitions xmlns="http://ws.apache.org/ns/synapse">
              <endpoint name="E"><address uri="http://e.test/s"/></endpoint>
              <messageStore class="org.apache.synapse.message.store.InMemoryMessageStore" name="MS"/>
              <messageProcessor class="org.apache.synapse.message.processors.forward.ScheduledMessageForwardingProcessor" name="MP" messageStore="MS"/>
              <proxy name="Z"><target><inSequence><property name="target.endpoint" value="E"/>{more}<store messageStore="MS"/></inSequence></target></proxy>
            </definitions>"#
        )
    };
    let other = r#"<property name="target.endpoint" value="F"/>"#;
    for (more, told) in [
        ("", "messages that name no `target.endpoint` go to `E` too"),
        (other, "it names no endpoint"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("all.xml");
        std::fs::write(&file, artifacts(more)).unwrap();
        let run = tidegate(&["import", "synapse", file.to_str().unwrap()]);
        assert_eq!(run.code, Some(3), "{}", run.stderr);
        assert!(run.stderr.contains(told), "{}", run.stderr);
        assert_eq!(run.stdout.contains("path: /s"), more.is_empty(), "{}", run.stdout);
    }
}

/// As in Synapse, each status but 200 to 299 is a failed attempt, unless `non.retry.status.codes` names it.
#[test]
fn a_processor_tries_again_what_synapse_tries_again() {
    let artifact = r#"<definitions xmlns="http://ws.apache.org/ns/synapse">
      <endpoint name="E"><address uri="http://e.test/s"/></endpoint>
      <messageStore name="MS"/><messageStore name="F"/>
      <messageProcessor name="MP" class="org.apache.synapse.message.processor.impl.forwarder.ScheduledMessageForwardingProcessor" messageStore="MS" targetEndpoint="E">
        <parameter name="max.delivery.attempts">3</parameter><parameter name="is.active">false</parameter>
        <parameter name="non.retry.status.codes">404,503</parameter><parameter name="message.processor.failMessagesStore">F</parameter>
        <parameter name="message.processor.fault.sequence">failed</parameter>
      </messageProcessor>
      <sequence name="failed"><log level="custom"/><store messageStore="F"/><drop/></sequence>
      <proxy name="Z"><target><inSequence><property name="OUT_ONLY" value="true"/><store messageStore="MS"/></inSequence></target></proxy>
    </definitions>"#;
    let case = |status: u16, end: &str| {
        format!(
            "  \"{status}\":\n    message: {{ queue: MS, body: '<a/>', headers: {{ content-type: application/xml }} }}\n    calls: [{{ upstream: E, reply: {{ status: {status} }} }}]\n{end}"
        )
    };
    let fails = "    queues: { F: [{ method: POST }] }\n    reply: { fault: flow_fault }\n";
    let cases: String = [
        case(200, "    queues: {}\n"),
        case(404, "    queues: {}\n"),
        case(503, "    queues: {}\n"),
        case(400, fails),
        case(302, fails),
        case(500, fails),
    ]
    .concat();
    tested(artifact, 3, &cases);
}

/// The reply to what a sequence of replies sends goes to the sequence that this names, and so on.
#[test]
fn replies_go_to_the_sequence_that_each_send_names() {
    let artifact = r#"<definitions xmlns="http://ws.apache.org/ns/synapse">
      <endpoint name="A"><address uri="http://a.test/a"/></endpoint>
      <endpoint name="B"><address uri="http://b.test/b"/></endpoint>
      <proxy name="P"><target>
        <inSequence><send receive="first"><endpoint key="A"/></send></inSequence><outSequence><drop/></outSequence>
      </target></proxy>
      <sequence name="first"><property name="first" expression="//id"/><send receive="last"><endpoint key="B"/></send></sequence>
      <sequence name="last"><filter xpath="//id = 2"><then><send receive="end"><endpoint key="A"/></send></then><else><payloadFactory><format><all xmlns=""><a>$1</a></all></format><args><arg expression="get-property('first')"/></args></payloadFactory><send/></else></filter></sequence>
      <sequence name="end"><payloadFactory><format><ended xmlns=""/></format><args/></payloadFactory><send/></sequence>
    </definitions>"#;
    let call = |upstream: &str, id: u8| {
        format!(
            "      - {{ upstream: {upstream}, reply: {{ headers: {{ content-type: application/xml }}, body: '<id>{id}</id>' }} }}\n"
        )
    };
    let case = |name: &str, calls: String, reply: &str| {
        format!(
            "  {name}:\n    request: {{ method: POST, path: /services/P, headers: {{ content-type: application/xml }}, body: '<id>0</id>' }}\n    calls:\n{calls}    reply: {{ status: 200, xml: '{reply}' }}\n"
        )
    };
    let cases = [
        case("ends", call("A", 1) + &call("B", 1), "<all><a>1</a></all>"),
        case("goes on", call("A", 1) + &call("B", 2) + &call("A", 3), "<ended/>"),
    ];
    tested(artifact, 3, &cases.concat());
    let circle = artifact.replace("receive=\"end\"", "receive=\"first\"");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("all.xml");
    std::fs::write(&file, circle).unwrap();
    let run = tidegate(&["import", "synapse", file.to_str().unwrap()]);
    let told = "the sequence `first` gets replies to what it sends itself";
    assert!(run.stderr.contains(told), "{}", run.stderr);
}

/// The service of a callout gets an envelope of the message's version of SOAP, or plain XML.
#[test]
fn a_callout_has_the_form_of_the_message() {
    let artifact = r#"<definitions xmlns="http://ws.apache.org/ns/synapse">
      <proxy name="P"><target><inSequence>
        <callout serviceURL="http://c.test/c" action="urn:get"><source xpath="//id"/><target xpath="//order"/></callout>
        <send><endpoint name="E"><address uri="http://e.test/e"/></endpoint></send>
      </inSequence></target></proxy>
    </definitions>"#;
    let soap = |version: &str, body: &str| {
        format!("<e:Envelope xmlns:e=\"{version}\"><e:Body>{body}</e:Body></e:Envelope>")
    };
    let soap11 = |body: &str| soap("http://schemas.xmlsoap.org/soap/envelope/", body);
    let soap12 = |body: &str| soap("http://www.w3.org/2003/05/soap-envelope", body);
    let plain = |body: &str| body.to_owned();
    type Around<'a> = &'a dyn Fn(&str) -> String;
    let forms: [(&str, &str, Around<'_>); 3] = [
        ("text/xml", "text/xml; charset=utf-8", &soap11),
        (
            "application/soap+xml",
            "'application/soap+xml; charset=utf-8; action=\"urn:get\"'",
            &soap12,
        ),
        ("application/xml", "application/xml; charset=utf-8", &plain),
    ];
    for (kind, sent, around) in forms {
        let cases = format!(
            "  form:\n    request: {{ method: POST, path: /services/P, headers: {{ content-type: {kind} }}, body: '{}' }}\n    calls:\n      - {{ upstream: c.test, expect: {{ headers: {{ content-type: {sent} }}, xml: '{}' }}, reply: {{ headers: {{ content-type: {kind} }}, body: '{}' }} }}\n      - {{ upstream: E, expect: {{ xml: '{}' }}, reply: {{ body: ok }} }}\n    reply: {{ status: 200 }}\n",
            around("<order><id>7</id></order>"),
            around("<id>7</id>"),
            around("<id>8</id>"),
            around("<id>8</id>"),
        );
        tested(artifact, 0, &cases);
    }
}

/// The action of SOAP 1.2 is in the content type. It stays what it is when an endpoint gets the other version.
#[test]
fn an_action_is_where_the_version_of_soap_has_it() {
    let send = |format: &str| {
        format!(
            r#"<send><endpoint name="E"><address uri="http://e.test/e" format="{format}"/></endpoint></send>"#
        )
    };
    let plain = r#"<send><endpoint name="E"><address uri="http://e.test/e"/></endpoint></send>"#;
    let set = r#"<header name="Action" value="urn:new"/>"#;
    let removed = r#"<header name="Action" action="remove"/>"#;
    let read = r#"<filter source="get-property('Action')" regex="urn:x"><then><header name="X-Case" scope="transport" value="x"/></then></filter>"#;
    let of_11 = ("text/xml; charset=utf-8", "SOAPAction: '\"urn:x\"'");
    let of_12 = ("application/soap+xml; charset=utf-8; action=\"urn:x\"", "X-None: none");
    let type_12 = |action: &str| {
        format!("content-type: 'application/soap+xml; charset=utf-8; action=\"{action}\"'")
    };
    let bare = "content-type: 'application/soap+xml; charset=utf-8'".to_owned();
    let header = |action: &str| format!("SOAPAction: '\"{action}\"'");
    let case = "X-Case: x".to_owned();
    for (mediators, (kind, line), expected) in [
        (format!("{set}{plain}"), of_11, header("urn:new")),
        (format!("{set}{plain}"), of_12, type_12("urn:new")),
        (format!("{removed}{plain}"), of_12, bare),
        (format!("{read}{plain}"), of_11, case.clone()),
        (format!("{read}{plain}"), of_12, case),
        (send("soap11"), of_12, header("urn:x")),
        (send("soap12"), of_11, type_12("urn:x")),
        (format!("{set}{}", send("soap11")), of_12, header("urn:new")),
        (format!("{set}{}", send("soap12")), of_11, type_12("urn:new")),
        (format!("{set}{}", send("soap12")), of_11, header("urn:x")),
        (format!("{set}{}", send("soap12")), of_12, type_12("urn:new")),
    ] {
        let artifact = format!(
            r#"<proxy xmlns="http://ws.apache.org/ns/synapse" name="P"><target><inSequence>{mediators}</inSequence></target></proxy>"#
        );
        let version = if kind.starts_with("text/xml") {
            "http://schemas.xmlsoap.org/soap/envelope/"
        } else {
            "http://www.w3.org/2003/05/soap-envelope"
        };
        let body = format!("<e:Envelope xmlns:e=\"{version}\"><e:Body><id/></e:Body></e:Envelope>");
        let cases = format!(
            "  action:\n    request: {{ method: POST, path: /services/P, headers: {{ content-type: '{kind}', {line} }}, body: '{body}' }}\n    calls:\n      - {{ upstream: E, expect: {{ headers: {{ {expected} }} }}, reply: {{ body: ok }} }}\n    reply: {{ status: 200 }}\n"
        );
        tested(&artifact, 0, &cases);
    }
}

/// In Synapse a sequence has no time limit, so a flow gets the sum of its calls' limits.
#[test]
fn flows_have_the_time_of_long_calls() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("long.xml");
    let endpoint = |name: &str, millis: u32| {
        format!(
            r#"<endpoint name="{name}"><address uri="http://{name}.test/x"><timeout><duration>{millis}</duration><responseAction>fault</responseAction></timeout></address></endpoint>"#
        )
    };
    let proxy = |name: &str, called: &str| {
        format!(
            r#"<proxy name="{name}"><target><inSequence>{called}<respond/></inSequence></target></proxy>"#
        )
    };
    let (long, short) =
        (r#"<call><endpoint key="Long"/></call>"#, r#"<call><endpoint key="Short"/></call>"#);
    let text = [
        r#"<definitions xmlns="http://ws.apache.org/ns/synapse">"#,
        &endpoint("Long", 120_000),
        &endpoint("Short", 30_000),
        r#"<sequence name="both"><call><endpoint key="Long"/></call><call><endpoint key="Short"/></call></sequence>"#,
        &proxy("A", long),
        &proxy("B", &format!("{short}{short}{short}")),
        &proxy("C", r#"<sequence key="both"/>"#),
        "</definitions>",
    ]
    .concat();
    std::fs::write(&file, text).unwrap();
    let run = tidegate(&["import", "synapse", file.to_str().unwrap()]);
    assert_eq!(run.code, Some(3), "{}", run.stderr);
    let timeouts: Vec<&str> =
        run.stdout.lines().filter(|line| line.starts_with("    timeout: \"")).collect();
    assert_eq!(timeouts, ["    timeout: \"130s\"", "    timeout: \"160s\""], "{}", run.stdout);
}

/// Imports an artifact, and runs cases with the result.
fn tested(artifact: &str, code: i32, cases: &str) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("all.xml");
    std::fs::write(&file, artifact).unwrap();
    let into = folder.path().join("made");
    let run =
        tidegate(&["import", "synapse", file.to_str().unwrap(), "--into", into.to_str().unwrap()]);
    assert_eq!(run.code, Some(code), "{}", run.stderr);
    let made = into.join("tidegate.yaml");
    let yaml = std::fs::read_to_string(&made).unwrap();
    std::fs::write(&made, format!("{yaml}cases:\n{cases}")).unwrap();
    let tested = tidegate(&["test", made.to_str().unwrap()]);
    assert_eq!(tested.code, Some(0), "{}{}\n{yaml}", tested.stdout, tested.stderr);
}

/// Each message of an iterate that preserves the payload is the whole one with one of the parts.
#[test]
fn an_iterate_keeps_what_is_around_its_parts() {
    let soap = |body: &str| {
        format!(
            r#"<e:Envelope xmlns:e="http://schemas.xmlsoap.org/soap/envelope/"><e:Header><h/></e:Header><e:Body>{body}</e:Body></e:Envelope>"#
        )
    };
    let buy = |orders: &str| format!(r#"<m:buy xmlns:m="urn:m" a="1"><kept/>{orders}</m:buy>"#);
    let plain = |body: &str| body.to_owned();
    type Around<'a> = &'a dyn Fn(&str) -> String;
    let forms: [(&str, &str, Around<'_>); 3] = [
        ("//m:buy/order", "//m:buy", &soap),
        ("$body/m:buy/order", "$body/m:buy", &soap),
        ("//m:buy/order", "//m:buy", &plain),
    ];
    for (expression, attach, around) in forms {
        let artifact = format!(
            r#"<definitions xmlns="http://ws.apache.org/ns/synapse" xmlns:m="urn:m">
              <endpoint name="E"><address uri="http://e.test/s"/></endpoint>
              <proxy name="P"><target>
                <inSequence><iterate expression="{expression}" preservePayload="true" attachPath="{attach}"><target><sequence><send><endpoint key="E"/></send></sequence></target></iterate></inSequence>
                <outSequence>
                  <property name="IN"><m:all/></property>
                  <aggregate><completeCondition><messageCount min="-1" max="-1"/></completeCondition><onComplete expression="//m:buy/order" enclosingElementProperty="IN"><send/></onComplete></aggregate>
                </outSequence>
              </target></proxy>
            </definitions>"#
        );
        let call = |number: &str| {
            let one = around(&buy(&format!("<order>{number}</order>")));
            let reply = around(&buy(&format!("<order>{number}{number}</order>")));
            format!(
                "      - {{ upstream: E, expect: {{ path: /s, xml: '{one}' }}, reply: {{ headers: {{ content-type: text/xml }}, body: '{reply}' }} }}\n"
            )
        };
        let sent = around(&buy("<order>1</order><order>2</order>"));
        let all = around(r#"<m:all xmlns:m="urn:m"><order>11</order><order>22</order></m:all>"#);
        let cases = format!(
            "  parts:\n    request: {{ method: POST, path: /services/P, headers: {{ content-type: text/xml }}, body: '{sent}' }}\n    calls:\n{}{}    reply: {{ status: 200, xml: '{all}' }}\n",
            call("1"),
            call("2"),
        );
        tested(&artifact, 0, &cases);
    }
}

/// Variables of a refused mediator are set to empty values, so that the output can be checked. A database that only it uses is left
/// out.
#[test]
fn what_a_refused_mediator_sets_is_empty() {
    let pool = "<connection><pool><driver>org.postgresql.Driver</driver><url>jdbc:postgresql://db.test/x</url><user>u</user><password>p</password></pool></connection>";
    let artifact = format!(
        r#"<proxy xmlns="http://ws.apache.org/ns/synapse" name="P"><target><inSequence>
          <dblookup>{pool}<statement><sql>select a, b from t</sql><result name="first" column="1"/></statement></dblookup>
          <property name="coded" expression="base64Encode('x')"/>
          <payloadFactory media-type="text"><format>[$1$2]</format><args><arg expression="$ctx:first"/><arg expression="get-property('coded')"/></args></payloadFactory>
          <respond/>
        </inSequence></target></proxy>"#
    );
    let cases =
        "  empty:\n    request: { path: /services/P }\n    reply: { status: 200, body: \"[]\" }\n";
    tested(&artifact, 3, cases);
}

/// Synapse sends to an address unchanged if the request has no path after the resource's.
#[test]
fn an_address_has_a_slash_behind_it_only_for_a_rest() {
    let artifact = r#"<api xmlns="http://ws.apache.org/ns/synapse" name="direct" context="/directApi"><resource methods="POST"><inSequence>
        <call><endpoint name="real"><address uri="http://e.test/service/EchoService"/></endpoint></call><respond/>
      </inSequence></resource></api>"#;
    let cases: String = [
        ("/directApi", "/service/EchoService"),
        ("/directApi?a=b", "/service/EchoService?a=b"),
        ("/directApi/", "/service/EchoService/"),
        ("/directApi/a/b", "/service/EchoService/a/b"),
    ]
    .iter()
    .map(|(path, sent)| format!("  \"{path}\": {{ request: {{ method: POST, path: \"{path}\" }}, calls: [{{ upstream: real, expect: {{ path: \"{sent}\" }}, reply: {{ body: ok }} }}], reply: {{ body: ok }} }}\n"))
    .collect();
    tested(artifact, 0, &cases);
}

/// A variable that only another sequence sets is nothing that `check` takes: the part is refused, with its place, and the rest passes.
#[test]
fn what_check_would_refuse_is_refused_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("all.xml");
    let text = r#"<definitions xmlns="http://ws.apache.org/ns/synapse">
  <sequence name="other"><property name="only" value="1"/></sequence>
  <proxy name="P"><target>
    <inSequence>
      <property name="kept" expression="$ctx:only"/>
      <payloadFactory media-type="text"><format>$1</format><args><arg expression="$ctx:kept"/></args></payloadFactory>
      <send><endpoint><address uri="$SYSTEM:NOBODY_SETS_THIS"/></endpoint></send>
    </inSequence>
    <outSequence><send/></outSequence>
  </target></proxy>
  <proxy name="Q"><target><inSequence><respond/></inSequence></target></proxy>
</definitions>"#;
    std::fs::write(&file, text).unwrap();
    let into = folder.path().join("made");
    let run =
        tidegate(&["import", "synapse", file.to_str().unwrap(), "--into", into.to_str().unwrap()]);
    assert_eq!(run.code, Some(3), "{}", run.stderr);
    let row = "refused       all.xml:5:7";
    assert!(run.stderr.contains(row), "{row}: {}", run.stderr);
    assert!(run.stderr.contains("the gateway would refuse it: "), "{}", run.stderr);
    let written = std::fs::read_to_string(into.join("tidegate.yaml")).unwrap();
    assert!(written.contains("# refused: property kept, all.xml:5:7: "), "{written}");
    assert!(written.contains("/services/Q/**"), "{written}");
    let arguments = ["check", into.join("tidegate.yaml").to_str().unwrap()].map(str::to_owned);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let variable = [("NOBODY_SETS_THIS", "http://a.test:80")];
    let checked = crate::harness::tidegate_with(&arguments, &variable);
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
}

/// There is no output if a mistake belongs to no part. A stylesheet that does not compile is refused with its mediator.
#[test]
fn a_stylesheet_that_the_gateway_does_not_take_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("all.xml");
    let text =
        PROXY.replace(r#"version="1.0"/>"#, r#"version="1.0"><xsl:nonsense/></xsl:stylesheet>"#);
    std::fs::write(&file, text.replace("MEDIATOR", "")).unwrap();
    let run = tidegate(&["import", "synapse", file.to_str().unwrap()]);
    assert_eq!(run.code, Some(3), "{}", run.stderr);
    assert!(run.stdout.contains("# refused: xslt gold.xsl, all.xml:4:17: "), "{}", run.stdout);
    assert!(!run.stderr.contains("/tmp/"), "no folder of ours: {}", run.stderr);
    assert!(run.stderr.contains("refused       all.xml:4:17  xslt gold.xsl"), "{}", run.stderr);
}

/// Unread files are reported: a folder with an unread file would give a configuration without its routes.
#[test]
fn links_in_a_folder_are_refused_and_told() {
    let folder = tempfile::tempdir().unwrap();
    let project = folder.path().join("project");
    std::fs::create_dir_all(project.join("api")).unwrap();
    std::fs::write(project.join("quotes.xml"), PROXY.replace("MEDIATOR", "")).unwrap();
    std::fs::write(folder.path().join("other.xml"), PROXY.replace("Quotes", "Other")).unwrap();
    let link = |to: &str, name: &str| std::os::unix::fs::symlink(to, project.join(name)).unwrap();
    link("../../other.xml", "api/other.xml");
    link("..", "loop");
    let run = tidegate(&["import", "synapse", project.to_str().unwrap()]);
    assert_eq!(run.code, Some(3), "{}", run.stderr);
    for name in ["api/other.xml", "loop"] {
        let row = run.stderr.lines().find(|line| line.contains(name)).unwrap_or_default();
        assert!(row.starts_with("refused"), "{name}: {}", run.stderr);
    }
}

/// A part that is not in the table is refused with its place, since its effect would be lost.
#[test]
fn what_the_table_does_not_name_is_refused() {
    for (mediator, why) in [
        (
            r#"<log level="custom" colour="red"/>"#,
            "the importer does not know `@colour`, and its effect would be lost",
        ),
        (
            r#"<filter xpath="//a"><then/><otherwise/></filter><nobody/>"#,
            "`nobody` has no counterpart",
        ),
        (
            r#"<property name="SOMETHING" value="1" scope="axis2"/>"#,
            "the property `SOMETHING` of axis2: ",
        ),
        (r#"<property name="a" value="1" scope="registry"/>"#, "the property `a` of registry: "),
        (
            r#"<clone sequential="perhaps"><target endpoint="E" to="x"/></clone>"#,
            "an address of one target has no counterpart",
        ),
        (
            r#"<property name="n" expression="get-property('SYSTEM_TIME')"/>"#,
            "it is read at run time",
        ),
        (
            r#"<call><endpoint><address uri="http://a.test/x"><enableSec inboundPolicy="p"/></address></endpoint></call>"#,
            "WS-Security of replies is not verified",
        ),
        (
            r#"<call><endpoint><address uri="http://a.test/x" format="get"/></endpoint></call>"#,
            "as the query of GET",
        ),
    ] {
        let (run, _) = imported(mediator, &[]);
        assert_eq!(run.code, Some(3), "{mediator}: {}", run.stderr);
        assert!(run.stderr.contains(why), "{mediator}: {why}\n{}", run.stderr);
        assert!(run.stderr.contains("refused       quotes.xml:5:"), "{mediator}: {}", run.stderr);
    }
}

/// A proxy that checks security there would be open here, so that it is not served at all.
#[test]
fn a_proxy_whose_guard_is_refused_is_not_served() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secure.xml");
    let text = PROXY.replace("MEDIATOR", "").replace("</target>\n", "</target><enableSec/>\n");
    let text = text.replace("</target></proxy>", "</target><enableSec/></proxy>");
    std::fs::write(&file, text).unwrap();
    let run = tidegate(&["import", "synapse", file.to_str().unwrap()]);
    assert_eq!(run.code, Some(3), "{}", run.stderr);
    assert!(run.stderr.contains("refused       secure.xml:3:3"), "{}", run.stderr);
    assert!(!run.stdout.contains("/services/Quotes"), "{}", run.stdout);
}

/// A property takes effect where it runs: in a branch of a fault sequence, and in a sequence that is called.
#[test]
fn properties_take_effect_where_they_run() {
    let artifact = r#"<definitions xmlns="http://ws.apache.org/ns/synapse">
      <sequence name="says"><filter source="$trp:X-Tier" regex="gold"><then><property name="HTTP_SC" value="402" scope="axis2"/></then></filter></sequence>
      <proxy name="P"><target>
        <inSequence><sequence key="says"/><call><endpoint name="e"><address uri="http://e.test/x"/></endpoint></call><respond/></inSequence>
        <faultSequence><switch source="get-property('ERROR_CODE')"><case regex="101503"><property name="HTTP_SC" value="503" scope="axis2"/></case></switch><respond/></faultSequence>
      </target></proxy>
      <proxy name="Q"><target><inSequence><sequence key="says"/><respond/></inSequence></target></proxy>
    </definitions>"#;
    let cases = r#"  plain: { request: { path: /services/Q }, reply: { status: 200 } }
  gold: { request: { path: /services/Q, headers: { x-tier: gold } }, reply: { status: 402 } }
  called: { request: { path: /services/P, headers: { x-tier: gold } }, calls: [{ upstream: e, reply: { body: ok } }], reply: { status: 200, body: ok } }
"#;
    tested(artifact, 3, cases);
}

/// Expressions see plain XML and JSON within a Body, and endpoints get the format that they require.
#[test]
fn plain_xml_and_json_are_seen_in_a_body() {
    let artifact = r#"<proxy xmlns="http://ws.apache.org/ns/synapse" name="P"><target><inSequence>
        <filter xpath="$body/order/id = 7"><then><header name="X-Case" scope="transport" value="seven"/></then></filter>
        <filter xpath="$body/jsonObject/id = 8"><then><header name="X-Case" scope="transport" value="eight"/></then></filter>
        <call><endpoint name="e"><address uri="http://e.test/x" format="soap11"/></endpoint></call><respond/>
      </inSequence></target></proxy>"#;
    let envelope = |inside: &str| {
        format!(
            "<s:Envelope xmlns:s=\"http://schemas.xmlsoap.org/soap/envelope/\"><s:Body>{inside}</s:Body></s:Envelope>"
        )
    };
    let case = |name: &str, kind: &str, body: &str, inside: &str, seen: &str| {
        let envelope = envelope(inside);
        format!(
            "  {name}:\n    request: {{ method: PUT, path: /services/P/x, headers: {{ content-type: {kind} }}, body: '{body}' }}\n    calls: [{{ upstream: e, expect: {{ method: POST, path: /x, headers: {{ x-case: {seen} }}, xml: '{envelope}' }}, reply: {{ body: ok }} }}]\n    reply: {{ status: 200, body: ok }}\n"
        )
    };
    let cases = case(
        "xml",
        "application/xml",
        "<order><id>7</id></order>",
        "<order><id>7</id></order>",
        "seven",
    ) + &case(
        "json",
        "application/json",
        r#"{"id":8}"#,
        "<jsonObject><id>8</id></jsonObject>",
        "eight",
    );
    tested(artifact, 0, &cases);
}

/// Programs run unchanged, with the members of `mc` that they use.
#[test]
fn scripts_see_and_set_the_message_and_its_properties() {
    let folder = tempfile::tempdir().unwrap();
    let (file, into) = (folder.path().join("all.xml"), folder.path().join("made"));
    let text = r#"<definitions xmlns="http://ws.apache.org/ns/synapse">
  <proxy name="Json"><target><inSequence>
    <script language="js"><![CDATA[
      var o = mc.getPayloadJSON(), message = 'mine';
      if (mc.getProperty('n') !== null) throw new Error('it is set');
      mc.setProperty("n", o.a + 1);
      mc.setProperty('X-Kind', typeof o.a + mc.getProperty('n'), 'transport');
      mc.setProperty('HTTP_SC', 207, 'axis2');
      mc.setPayloadJSON({ b: o.a, text: `${o.a}{{` });
    ]]></script>
    <header name="X-N" scope="transport" expression="get-property('n')"/>
    <respond/>
  </inSequence></target></proxy>
  <proxy name="Xml"><target><inSequence>
    <property name="who" expression="//id"/>
    <script language="js"><![CDATA[mc.setPayloadXML('<r by="' + mc.getProperty('who') + '">' + mc.getPayloadXML().toXMLString() + '</r>');]]></script>
    <respond/>
  </inSequence></target></proxy>
  <localEntry key="code">function stop(mc) { return mc.getProperty('stops') !== 'yes'; }</localEntry>
  <proxy name="Ends"><target><inSequence>
    <property name="stops" expression="get-property('transport', 'X-Stops')"/>
    <script language="js" key="code" function="stop"/>
    <header name="X-Went" scope="transport" value="on"/>
    <respond/>
  </inSequence></target></proxy>
</definitions>"#;
    std::fs::write(&file, text).unwrap();
    let run =
        tidegate(&["import", "synapse", file.to_str().unwrap(), "--into", into.to_str().unwrap()]);
    assert_eq!(run.code, Some(3), "{}", run.stderr);
    assert!(!run.stderr.contains("\nrefused"), "{}", run.stderr);
    let configuration = into.join("tidegate.yaml");
    let made = std::fs::read_to_string(&configuration).unwrap();
    let (before, after) = made.split_once("address: \"").unwrap();
    let (_, after) = after.split_once('"').unwrap();
    let made = format!("{before}address: \"127.0.0.1:0\"{after}\nworkers: 1\n");
    std::fs::write(&configuration, made).unwrap();
    let gateway = Gateway::start_in(&into, "tidegate.yaml");
    let post = |name: &str, kind: &str, line: &str, body: &str| {
        let length = body.len();
        gateway.wire().ask(format!(
            "POST /services/{name} HTTP/1.1\r\nHost: a\r\nContent-Type: {kind}\r\n{line}Content-Length: {length}\r\n\r\n{body}"
        ))
    };
    let reply = post("Json", "application/json", "", r#"{"a":1}"#);
    assert_eq!((reply.status(), reply.text().as_str()), (207, r#"{"b":1,"text":"1{{"}"#));
    assert_eq!((reply.get("x-n"), reply.get("x-kind")), (Some("2"), Some("number2")));
    let soap = |inner: &str| {
        format!(
            "<s:Envelope xmlns:s=\"http://schemas.xmlsoap.org/soap/envelope/\"><s:Body>{inner}</s:Body></s:Envelope>"
        )
    };
    let reply = post("Xml", "text/xml", "", &soap("<o><id>7</id></o>"));
    assert!(reply.text().contains("<s:Body><r by=\"7\"><o"), "{reply:?}");
    let reply = post("Xml", "application/xml", "", "<o><id>7</id></o>");
    assert_eq!(reply.text(), "<r by=\"7\"><o><id>7</id></o></r>", "{reply:?}");
    let reply = post("Ends", "text/plain", "X-Stops: yes\r\n", "a");
    assert_eq!((reply.status(), reply.get("x-went")), (202, None), "{reply:?}");
    let reply = post("Ends", "text/plain", "", "a");
    assert_eq!((reply.status(), reply.get("x-went")), (200, Some("on")), "{reply:?}");
}

/// A gateway with what the import makes of artifacts. Nothing may be refused.
fn served(artifacts: &str) -> Gateway {
    let folder = tempfile::tempdir().unwrap();
    let (file, into) = (folder.path().join("all.xml"), folder.path().join("made"));
    std::fs::write(&file, artifacts).unwrap();
    let run =
        tidegate(&["import", "synapse", file.to_str().unwrap(), "--into", into.to_str().unwrap()]);
    assert!(run.stderr.contains(" 0 refused"), "{}", run.stderr);
    let made = std::fs::read_to_string(into.join("tidegate.yaml")).unwrap();
    let (before, after) = made.split_once("address: \"").unwrap();
    let (_, after) = after.split_once('"').unwrap();
    Gateway::start(format!("{before}address: \"127.0.0.1:0\"{after}\nworkers: 1\n"))
}

/// The mapping is one as the tool writes it: names that are assigned without being declared, and loops over indices.
#[test]
fn a_data_mapper_maps_json() {
    let gateway = served(
        r#"<definitions xmlns="http://ws.apache.org/ns/synapse">
  <localEntry key="Map.dmc"><![CDATA[map_S_order_S_bill = function(){
var outputbill={};
var count_i_lines = 0;
outputbill = {};
outputbill.rows = [];
for(i_lines in inputorder.lines){
outputbill.rows[count_i_lines] = {};
outputbill.rows[count_i_lines].name = inputorder.lines[i_lines].item.toUpperCase();
count_i_lines++;
}
return outputbill;
};]]></localEntry>
  <localEntry key="in.json">{ "title": "order", "type": "object" }</localEntry>
  <localEntry key="out.json">{ "title": "bill", "type": "object" }</localEntry>
  <proxy name="M"><target><inSequence>
    <datamapper config="Map.dmc" inputSchema="in.json" outputSchema="out.json" inputType="JSON" outputType="JSON"/>
    <respond/>
  </inSequence></target></proxy>
</definitions>"#,
    );
    let post = |kind: &str, body: &str| {
        let length = body.len();
        gateway.wire().ask(format!(
            "POST /services/M HTTP/1.1\r\nHost: a\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n{body}"
        ))
    };
    let reply = post("application/json", r#"{"lines":[{"item":"a"},{"item":"b"}]}"#);
    assert_eq!(reply.text(), r#"{"rows":[{"name":"A"},{"name":"B"}]}"#, "{reply:?}");
    assert_eq!(post("application/xml", "<lines/>").status(), 500);
}

/// XML in and out: lists, attributes, texts beside them, types, namespaces and hyphens, as the engine reads and writes them.
#[test]
fn a_data_mapper_maps_xml() {
    const INPUT: &str = r#"{ "title": "m:order", "type": "object", "properties": {
  "m:line": { "type": "array", "items": [{ "type": "object", "value": { "type": "string" }, "attributes": { "id": { "type": "integer" } } }] },
  "unit-price": { "type": "number" }, "paid": { "type": "boolean" }, "tag": { "type": "array", "items": [{ "type": "string" }] }
  }, "namespaces": [{ "prefix": "m", "url": "urn:m" }] }"#;
    const OUTPUT: &str = r#"{ "title": "bill", "type": "object", "namespaces": [{ "prefix": "b", "url": "urn:b" }] }"#;
    const PROGRAM: &str = "map_S_order_S_bill = function(){
var outputbill={};
var count_i_lines = 0;
outputbill.attr_paid = inputm_order.paid;
outputbill.b_total = inputm_order.unit_EnC0DeCHaRHyPh3n_price * 2;
outputbill.none = inputm_order.none;
outputbill.row = [];
for(i_line in inputm_order.m_line){
outputbill.row[count_i_lines] = {};
outputbill.row[count_i_lines].attr_b_id = inputm_order.m_line[i_line].attr_id + 1;
outputbill.row[count_i_lines]._ELEMVAL = inputm_order.m_line[i_line]._ELEMVAL;
count_i_lines++;
}
outputbill.tag = inputm_order.tag;
return outputbill;
};";
    let proxies: String = [("X", "XML"), ("J", "JSON")]
        .map(|(name, kind)| format!(
            r#"<proxy name="{name}"><target><inSequence><datamapper config="Map.dmc" inputSchema="in.json" outputSchema="out.json" inputType="XML" outputType="{kind}"/><respond/></inSequence></target></proxy>"#
        ))
        .concat();
    let gateway = served(&format!(
        r#"<definitions xmlns="http://ws.apache.org/ns/synapse">
  <localEntry key="Map.dmc"><![CDATA[{PROGRAM}]]></localEntry>
  <localEntry key="in.json"><![CDATA[{INPUT}]]></localEntry>
  <localEntry key="out.json"><![CDATA[{OUTPUT}]]></localEntry>
  {proxies}
</definitions>"#
    ));
    let post = |name: &str, kind: &str, body: &str| {
        let length = body.len();
        gateway.wire().ask(format!(
            "POST /services/{name} HTTP/1.1\r\nHost: a\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n{body}"
        ))
    };
    let order = r#"<o:order xmlns:o="urn:m"><o:line id="7">a &lt;b<![CDATA[&c]]></o:line><o:line id="-1"/><unit-price>0.75</unit-price><paid>TRUE</paid><tag>x</tag><tag>y</tag></o:order>"#;
    let bill = r#"<bill xmlns:b="urn:b" paid="true"><b:total>1.5</b:total><row b:id="8">a &lt;b&amp;c</row><row b:id="0"/><tag>x</tag><tag>y</tag></bill>"#;
    let envelope = format!(
        "<s:Envelope xmlns:s=\"http://schemas.xmlsoap.org/soap/envelope/\"><s:Body>{order}</s:Body></s:Envelope>"
    );
    for (kind, body) in [("application/xml", order), ("text/xml", &*envelope)] {
        let reply = post("X", kind, body);
        assert_eq!(reply.status(), 200, "{reply:?}");
        let plain = reply.text().replace("<?xml version=\"1.0\" encoding=\"UTF-8\"?>", "");
        assert_eq!(plain.trim(), bill, "{kind}");
        assert!(reply.get("content-type").unwrap().starts_with("application/xml"), "{reply:?}");
        let reply = post("J", kind, body);
        let json: serde_json::Value = serde_json::from_str(&reply.text()).unwrap();
        let expected = serde_json::json!({
            "attr_paid": true, "b_total": 1.5, "tag": ["x", "y"],
            "row": [{ "attr_b_id": 8, "_ELEMVAL": "a <b&c" }, { "attr_b_id": 0, "_ELEMVAL": "" }],
        });
        assert_eq!(json, expected, "{kind}");
    }
    for wrong in [
        "<order/>".to_owned(),
        order.replace("<tag>x</tag>", "<other/>"),
        order.replace("0.75", "much"),
        order.replace("id=\"7\"", "id=\"seven\""),
        order.replace("<tag>x", "<tag a=\"1\">x"),
    ] {
        assert_eq!(post("X", "application/xml", &wrong).status(), 500, "{wrong}");
    }
    assert_eq!(post("X", "application/json", "{}").status(), 500);
}

/// Rules with conditions: what is known of a URL is decided at once, and what the message says when it comes.
#[test]
fn rules_with_conditions_choose_the_url() {
    let origin = Origin::start(|peer| {
        while let Some(request) = peer.request() {
            let target = request.target().to_owned();
            if !peer.try_send(format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{target}",
                target.len()
            )) {
                return;
            }
        }
    });
    let url = origin.url().trim_end_matches('/').to_owned();
    let text = format!(
        r#"<definitions xmlns="http://ws.apache.org/ns/synapse"><proxy name="P"><target><inSequence>
<header name="To" value="{url}/first?x=1"/>
<rewrite><rewriterule><condition><and><equal type="url" source="protocol" value="http"/><not><equal type="url" source="path" value="/other"/></not></and></condition><action fragment="path" value="/second"/></rewriterule>
<rewriterule><condition><equal source="Tier" value="gold"/></condition><action fragment="path" type="append" value="/gold"/></rewriterule>
<rewriterule><condition><or><match type="soap" source="//id" regex="7.*"/><match type="param" source="n" regex="[6-9]"/></or></condition><action fragment="query" value="y=2"/></rewriterule></rewrite>
<send/></inSequence><outSequence><send/></outSequence></target></proxy></definitions>"#
    );
    let gateway = served(&text);
    for (query, tier, id, expected) in [
        ("", "", "1", "/second?x=1"),
        ("", "Tier: gold\r\n", "1", "/second/gold?x=1"),
        ("", "Tier: silver\r\n", "77", "/second?y=2"),
        ("?n=6", "Tier: gold\r\n", "1", "/second/gold?y=2"),
        ("?n=5", "", "1", "/second?x=1"),
    ] {
        let body = format!("<order><id>{id}</id></order>");
        let reply = gateway.wire().ask(format!(
            "POST /services/P{query} HTTP/1.1\r\nHost: a\r\nContent-Type: application/xml\r\n{tier}Content-Length: {}\r\n\r\n{body}",
            body.len()
        ));
        assert_eq!(reply.text(), expected, "{query} {tier} {id}");
    }
}

/// A loop over plain XML and JSON changes them, although its expression sees them in an envelope.
#[test]
fn a_loop_changes_messages_without_an_envelope() {
    let gateway = served(
        r#"<definitions xmlns="http://ws.apache.org/ns/synapse"><proxy name="P"><target><inSequence>
<foreach expression="//item"><sequence><payloadFactory media-type="xml"><format><item xmlns="">$1!</item></format><args><arg expression="//item"/></args></payloadFactory></sequence></foreach>
<respond/></inSequence></target></proxy></definitions>"#,
    );
    let soap = |inner: &str| {
        format!(
            "<s:Envelope xmlns:s=\"http://schemas.xmlsoap.org/soap/envelope/\"><s:Body>{inner}</s:Body></s:Envelope>"
        )
    };
    for (kind, body, expected) in [
        (
            "application/xml",
            "<o><item>x</item><b/><item>y</item></o>".to_owned(),
            "<o><item>x!</item><b/><item>y!</item></o>".to_owned(),
        ),
        ("text/xml", soap("<o><item>x</item></o>"), soap("<o><item>x!</item></o>")),
        (
            "application/json",
            r#"{"o":{"item":["x","y"]}}"#.to_owned(),
            r#"{"o":{"item":["x!","y!"]}}"#.to_owned(),
        ),
        ("application/xml", "<o><b/></o>".to_owned(), "<o><b/></o>".to_owned()),
    ] {
        let reply = gateway.wire().ask(format!(
            "POST /services/P HTTP/1.1\r\nHost: a\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ));
        assert_eq!(reply.text(), expected, "{body}");
    }
}

/// The load test of Micro Integrator that puts a whole message of JSON into an envelope.
#[test]
fn json_as_a_whole_becomes_the_content_of_an_envelope() {
    let gateway = served(
        r#"<definitions xmlns="http://ws.apache.org/ns/synapse"><proxy name="JsonToSOAPProxy"><target><inSequence>
<payloadFactory media-type="xml"><format><soapenv:Envelope xmlns:soapenv="http://www.w3.org/2003/05/soap-envelope"><soapenv:Header/><soapenv:Body>$1</soapenv:Body></soapenv:Envelope></format><args><arg evaluator="json" expression="$"/></args></payloadFactory>
<respond/></inSequence></target></proxy></definitions>"#,
    );
    for (json, inside) in [
        (
            r#"{"payload":"a&b","l":[{"a":1},{"a":2}]}"#,
            "<payload>a&amp;b</payload><l><a>1</a></l><l><a>2</a></l>",
        ),
        (r#"[1,{"b":null}]"#, "<jsonElement>1</jsonElement><jsonElement><b"),
    ] {
        let reply = gateway.wire().ask(format!(
            "POST /services/JsonToSOAPProxy HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{json}",
            json.len()
        ));
        let text = reply.text();
        assert!(text.contains(&format!("Body>{inside}")), "{inside}: {text}");
    }
}

/// Names that Synapse gives values to: the message, the server, and the rounds of a loop.
#[test]
fn names_of_the_message_and_of_loops_have_values() {
    let gateway = served(
        r#"<definitions xmlns="http://ws.apache.org/ns/synapse"><proxy name="P"><target><inSequence>
<foreach id="f" expression="//item"><sequence><payloadFactory media-type="xml"><format><n xmlns="">$1</n></format><args><arg expression="get-property('f_FOREACH_COUNTER')"/></args></payloadFactory></sequence></foreach>
<payloadFactory media-type="xml"><format><a xmlns=""><count>$1</count><first>$2</first><now>$3</now><id>$4</id><ip>$5</ip></a></format><args><arg expression="get-property('f_FOREACH_COUNTER')"/><arg expression="$ctx:f_FOREACH_ORIGINAL_MESSAGE//item[1]"/><arg expression="//n[3]"/><arg expression="get-property('MessageID')"/><arg expression="get-property('SERVER_IP')"/></args></payloadFactory>
<respond/></inSequence></target></proxy></definitions>"#,
    );
    let body = "<order><item>x</item><item>y</item><item>z</item></order>";
    let reply = gateway.wire().ask(format!(
        "POST /services/P HTTP/1.1\r\nHost: a\r\nContent-Type: application/xml\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ));
    let text = reply.text();
    for part in ["<count>3</count>", ">x</", "<now>2</now>", "<id>urn:uuid:", "<ip>127.0.0.1</ip>"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
}

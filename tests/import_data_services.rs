//! Data services, imported by `tidegate import synapse`: REST resources and SOAP operations over real databases.

use crate::harness::{Gateway, MariaDb, Message, Postgres, tidegate};

const SHOP: &str = r#"<data name="Shop" serviceNamespace="urn:shop" transports="http https" enableBatchRequests="true" enableBoxcarring="true">
  <config id="db" enableOData="false">
    <property name="driverClassName">DRIVER</property>
    <property name="url">JDBC</property>
    <property name="username">tester</property>
    <property name="password">geheim</property>
  </config>
  <query id="byNumber" useConfig="db">
    <sql>select EmployeeNumber, FirstName, Email, Large from Employees where EmployeeNumber = :number</sql>
    <param name="number" sqlType="INTEGER" paramType="SCALAR"><validateLongRange minimum="1" maximum="99"/></param>
    <result element="Entries" rowName="Entry">
      <attribute name="id" column="EmployeeNumber" xsdType="integer"/>
      <element name="Name" column="FirstName" xsdType="string"/>
      <element name="Contact"><element name="Email" column="email" xsdType="string"/></element>
      <element name="Large" column="Large" xsdType="long"/>
    </result>
  </query>
  <query id="offices" useConfig="db">
    <sql>select office, city from Offices order by office</sql>
    <result element="Offices" rowName="Office">
      <element name="City" column="city"/>
      <call-query href="inOffice"><with-param name="office" column="office"/></call-query>
    </result>
  </query>
  <query id="inOffice" useConfig="db">
    <sql>select FirstName from Employees where Office = ? order by FirstName</sql>
    <param name="office" sqlType="STRING" ordinal="1"/>
    <result element="Employees" rowName="Employee"><element name="Name" column="FirstName"/></result>
  </query>
  <query id="add" useConfig="db">
    <sql>insert into Employees (FirstName, EmployeeNumber, Office) values (?, ?, ?)</sql>
    <param name="number" sqlType="INTEGER" ordinal="2"/>
    <param name="name" sqlType="STRING" ordinal="1"><validateLength minimum="2" maximum="20"/><validatePattern pattern="[^0-9]+"/></param>
    <param name="office" sqlType="STRING" ordinal="3" defaultValue="a"/>
  </query>
  <query id="ticket" useConfig="db" returnGeneratedKeys="true">
    <sql>insert into Tickets (holder) values (:holder)</sql>
    <param name="holder" sqlType="STRING"/>
    <result element="Keys" rowName="Key" useColumnNumbers="true"><element name="Id" column="1" xsdType="integer"/></result>
  </query>
  <query id="move" useConfig="db" returnUpdatedRowCount="true">
    <sql>update Employees set Office = :to where Office = :from</sql>
    <param name="to" sqlType="STRING"/><param name="from" sqlType="STRING"/>
    <result element="Moved" rowName="" useColumnNumbers="true"><element name="Value" column="1" xsdType="integer"/></result>
  </query>
  <resource method="POST" path="ticket"><call-query href="ticket"><with-param name="holder" query-param="holder"/></call-query></resource>
  <resource method="PUT" path="office/{from}"><call-query href="move"><with-param name="from" query-param="from"/><with-param name="to" query-param="to"/></call-query></resource>
  <resource method="GET" path="employee/{number}"><call-query href="byNumber"><with-param name="number" query-param="number"/></call-query></resource>
  <resource method="POST" path="employee"><call-query href="add"><with-param name="number" query-param="number"/><with-param name="name" query-param="name"/></call-query></resource>
  <resource method="GET" path="offices"><call-query href="offices"/></resource>
  <operation name="getEmployee"><call-query href="byNumber"><with-param name="number" query-param="n"/></call-query></operation>
  <operation name="addEmployee" returnRequestStatus="true"><call-query href="add"><with-param name="number" query-param="number"/><with-param name="name" query-param="name"/><with-param name="office" query-param="office"/></call-query></operation>
</data>"#;

const TABLES: &str = r#"create table Employees (EmployeeNumber int primary key, FirstName varchar(50), Email varchar(50), Large bigint, Office varchar(5));
    create table Offices (office varchar(5), city varchar(50));
    create table Tickets (ticket KEY, holder varchar(20));
    insert into Employees values (3, 'Edgar <&> "E', null, 9007199254740993, 'a'), (4, 'Ann', 'ann@test', null, 'b'), (5, 'Bob', 'b@test', 1, 'b');
    insert into Offices values ('a', 'Bern'), ('b', 'Rome'), ('c', 'Oslo')"#;

const SERVICE: &str = "/services/Shop";

/// A gateway with the imported service.
fn start(driver: &str, jdbc: &str, url: &str) -> Gateway {
    start_with(SHOP, driver, jdbc, url)
}

fn start_with(data: &str, driver: &str, jdbc: &str, url: &str) -> Gateway {
    let folder = tempfile::tempdir().unwrap();
    let (file, into) = (folder.path().join("shop.dbs"), folder.path().join("made"));
    std::fs::write(&file, data.replace("DRIVER", driver).replace("JDBC", jdbc)).unwrap();
    let arguments = ["import", "synapse", file.to_str().unwrap(), "--into", into.to_str().unwrap()];
    let run = tidegate(&arguments);
    assert_eq!(run.code, Some(3), "{}", run.stderr);
    assert!(run.stderr.contains(" 0 refused"), "{}", run.stderr);
    let made = std::fs::read_to_string(into.join("tidegate.yaml")).unwrap();
    assert!(!made.contains("geheim"), "{made}");
    let lines = made.lines().map(|line| match line.trim_start().split_once(": ") {
        Some(("address", _)) => "    address: \"127.0.0.1:0\"".to_owned(),
        Some(("url", _)) => format!("    url: \"{url}\""),
        Some(_) | None => line.to_owned(),
    });
    Gateway::start(lines.collect::<Vec<_>>().join("\n"))
}

fn post(gateway: &Gateway, path: &str, kind: &str, body: &str) -> Message {
    let length = body.len();
    gateway.wire().ask(format!(
        "POST {path} HTTP/1.1\r\nHost: a\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n{body}"
    ))
}

/// Resources that ask.
fn answers(gateway: &Gateway) {
    let get = |path: &str| gateway.wire().get(path);
    let edgar = r#"<Entries xmlns="urn:shop"><Entry id="3"><Name>Edgar &lt;&amp;&gt; &quot;E</Name><Contact><Email xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:nil="true"/></Contact><Large>9007199254740993</Large></Entry></Entries>"#;
    for path in ["/services/Shop/employee/3", "/services/Shop.HTTPEndpoint/employee/3"] {
        let reply = get(path);
        assert_eq!(reply.status(), 200, "{}", reply.text());
        assert_eq!(reply.get("content-type"), Some("application/xml"));
        assert_eq!(reply.text(), edgar);
    }
    assert_eq!(get("/services/Shop/employee/77").text(), r#"<Entries xmlns="urn:shop"></Entries>"#);
    for bad in ["0", "100", "3x", "3%20or%201=1", "-"] {
        let refused = get(&format!("{SERVICE}/employee/{bad}"));
        assert_eq!(refused.status(), 400, "{bad}: {}", refused.text());
    }
    let offices = get("/services/Shop/offices").text();
    for part in [
        "<City>Bern</City><Employees",
        "<Name>Ann</Name></Employee><Employee><Name>Bob</Name>",
        "<City>Oslo</City><Employees",
    ] {
        assert!(offices.contains(part), "{part}: {offices}");
    }
    let json = gateway.wire().ask(
        "GET /services/Shop/employee/4 HTTP/1.1\r\nHost: a\r\nAccept: application/json\r\n\r\n",
    );
    assert_eq!(json.get("content-type"), Some("application/json"));
    assert!(json.text().contains(r#""Name":"Ann""#), "{}", json.text());
}

/// Resources that change something.
fn takes(gateway: &Gateway) {
    let xml = "application/xml";
    for (kind, body, status) in [
        (xml, "<_postemployee><number>10</number><name>Eve</name></_postemployee>", 202),
        ("application/json", r#"{"_postemployee":{"number":11,"name":"Joe"}}"#, 202),
        (xml, "<_postemployee><number>12</number><name>E</name></_postemployee>", 400),
        (xml, "<_postemployee><number>12</number><name>E2E</name></_postemployee>", 400),
        (xml, "<_postemployee><number>12</number></_postemployee>", 400),
        (xml, "<_postemployee><number>x</number><name>Eve</name></_postemployee>", 400),
    ] {
        let reply = post(gateway, "/services/Shop/employee", kind, body);
        assert_eq!(reply.status(), status, "{body}: {}", reply.text());
    }
    let offices = gateway.wire().get("/services/Shop/offices").text();
    assert!(
        offices.contains("<Name>Eve</Name>") && offices.contains("<Name>Joe</Name>"),
        "{offices}"
    );
}

/// Operations, in both versions of SOAP.
fn operates(gateway: &Gateway) {
    for (namespace, kind) in [
        ("http://schemas.xmlsoap.org/soap/envelope/", "text/xml"),
        ("http://www.w3.org/2003/05/soap-envelope", "application/soap+xml"),
    ] {
        let soap = |inner: &str| {
            let envelope = format!(
                "<s:Envelope xmlns:s=\"{namespace}\"><s:Body>{inner}</s:Body></s:Envelope>"
            );
            post(gateway, SERVICE, kind, &envelope)
        };
        let found = soap("<d:getEmployee xmlns:d=\"urn:shop\"><d:n>4</d:n></d:getEmployee>");
        let text = found.text();
        assert_eq!(found.status(), 200, "{text}");
        assert!(text.contains(namespace) && text.contains("<Name>Ann</Name>"), "{text}");
        assert!(found.get("content-type").is_some_and(|it| it.contains(kind)), "{found:?}");
        let number = kind.len();
        let added = soap(&format!(
            "<addEmployee xmlns=\"urn:shop\"><number>{number}</number><name>Sue</name><office>b</office></addEmployee>"
        ));
        let text = added.text();
        assert!(added.status() == 200 && text.contains("SUCCESSFUL"), "{text}");
        assert!(text.contains(namespace), "{text}");
        let unknown = soap("<nix xmlns=\"urn:shop\"/>");
        assert!(unknown.status() >= 400, "{}", unknown.text());
    }
}

/// Keys that a statement generates, and the number of rows that it changes.
fn tells(gateway: &Gateway) {
    let xml = "application/xml";
    for number in 1..=2 {
        let reply = post(
            gateway,
            "/services/Shop/ticket",
            xml,
            "<_postticket><holder>Ann</holder></_postticket>",
        );
        let expected = format!(r#"<Keys xmlns="urn:shop"><Key><Id>{number}</Id></Key></Keys>"#);
        assert_eq!(reply.text(), expected);
    }
    let body = "<_putoffice_from><to>d</to></_putoffice_from>";
    let reply = gateway.wire().ask(format!(
        "PUT /services/Shop/office/b HTTP/1.1\r\nHost: a\r\nContent-Type: {xml}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ));
    let text = reply.text();
    let count = text.strip_prefix(r#"<Moved xmlns="urn:shop"><Value>"#);
    let count = count.and_then(|rest| rest.strip_suffix("</Value></Moved>"));
    assert!(
        count.is_some_and(|count| count.parse::<u32>().is_ok_and(|count| count >= 2)),
        "{text}"
    );
}

/// Requests that are taken together: each batch and each box takes effect as a whole.
fn takes_together(gateway: &Gateway) {
    let (xml, json) = ("application/xml", "application/json");
    let one = |name: &str, number: u32| {
        format!("<_postemployee><number>{number}</number><name>{name}</name></_postemployee>")
    };
    let batch =
        |inner: String| format!("<_postemployee_batch_req>{inner}</_postemployee_batch_req>");
    let known = |number: u32| {
        gateway.wire().get(&format!("{SERVICE}/employee/{number}")).text().contains("<Name>")
    };
    for path in ["employee_batch_req", "_postemployee_batch_req"] {
        let from = if path.starts_with('_') { 43 } else { 40 };
        let path = format!("{SERVICE}/{path}");
        // The last is there already, so that nothing takes effect.
        let bad = batch(one("Ada", from) + &one("Bea", from + 1) + &one("Edgar", 3));
        assert_eq!(post(gateway, &path, xml, &bad).status(), 500);
        let refused = batch(one("Ada", from) + &one("B", from + 1));
        assert_eq!(post(gateway, &path, xml, &refused).status(), 400);
        assert!(!known(from) && !known(from + 1));
        let good = batch(one("Ada", from) + &one("Bea", from + 1));
        let reply = post(gateway, &path, xml, &good);
        assert_eq!(reply.status(), 202, "{}", reply.text());
        assert!(known(from) && known(from + 1));
    }
    let list = r#"{"_postemployee_batch_req":{"_postemployee":[{"number":26,"name":"Cleo"},{"number":27,"name":"Dora"}]}}"#;
    let reply = post(gateway, "/services/Shop/employee_batch_req", json, list);
    assert_eq!(reply.status(), 202, "{}", reply.text());
    assert!(known(26) && known(27));
    let soap = |inner: &str| {
        let envelope = format!(
            "<s:Envelope xmlns:s=\"http://schemas.xmlsoap.org/soap/envelope/\"><s:Body>{inner}</s:Body></s:Envelope>"
        );
        post(gateway, SERVICE, "text/xml", &envelope)
    };
    let add = |number: u32| {
        format!(
            "<addEmployee><number>{number}</number><name>Flo</name><office>b</office></addEmployee>"
        )
    };
    let reply = soap(&format!(
        "<d:addEmployee_batch_req xmlns:d=\"urn:shop\">{}{}</d:addEmployee_batch_req>",
        add(30),
        add(31)
    ));
    assert!(reply.text().contains("SUCCESSFUL"), "{}", reply.text());
    assert!(known(30) && known(31));
    let boxed = |inner: &str| format!("<b:request_box xmlns:b=\"urn:box\">{inner}</b:request_box>");
    let get = "<getEmployee><n>32</n></getEmployee>";
    // A box answers with the result of its last request, if that has one.
    let reply = soap(&boxed(&(add(32) + get)));
    let text = reply.text();
    let wrapped =
        "DATA_SERVICE_REQUEST_BOX_RESPONSE xmlns:d=\"http://ws.wso2.org/dataservice\"><Entries";
    assert!(text.contains(wrapped) && text.contains("<Name>Flo</Name>"), "{text}");
    let reply = soap(&boxed(&(add(33) + get + &add(34))));
    assert!(reply.status() == 200 && !reply.text().contains("Entries"), "{}", reply.text());
    assert!(known(33) && known(34));
    for bad in
        [add(35) + &add(3), add(35) + "<nix/>", add(35) + "<getEmployee><n>x</n></getEmployee>"]
    {
        assert!(soap(&boxed(&bad)).status() >= 400);
        assert!(!known(35), "{bad}");
    }
    let text = r#"{"request_box":{"_postemployee":{"number":36,"name":"Gil"},"_getemployee_number":{"number":36}}}"#;
    let reply = post(gateway, "/services/Shop/request_box", json, text);
    assert!(reply.text().contains("<Name>Gil</Name>"), "{}", reply.text());
}

#[test]
fn a_service_over_mysql_serves() {
    let server = MariaDb::start();
    let tables = TABLES.replace("KEY", "int auto_increment primary key");
    server.sql(&format!("use shop; {tables}"));
    let url = server.url();
    let place = url.rsplit_once('@').map_or("", |(_, place)| place);
    let jdbc = format!("jdbc:mysql://{place}?useSSL=false");
    let gateway = start("com.mysql.jdbc.Driver", &jdbc, &url);
    answers(&gateway);
    takes(&gateway);
    operates(&gateway);
    takes_together(&gateway);
    tells(&gateway);
}

#[test]
fn a_service_over_postgresql_serves() {
    let server = Postgres::start();
    server.sql(&TABLES.replace("KEY", "serial primary key"));
    let gateway =
        start("org.postgresql.Driver", "jdbc:postgresql://db.test:5432/shop", &server.url());
    answers(&gateway);
    takes(&gateway);
    operates(&gateway);
    takes_together(&gateway);
    tells(&gateway);
}

/// The values of an array are one argument, whatever is in them.
#[test]
fn arrays_are_arguments_of_postgresql() {
    let server = Postgres::start();
    server.sql(&TABLES.replace("KEY", "serial primary key"));
    let (front, _) = SHOP.split_once("<query").unwrap();
    let queries = r#"<query id="some" useConfig="db">
    <sql>select FirstName from Employees where EmployeeNumber in (:numbers) and FirstName not in (:names) order by FirstName</sql>
    <param name="numbers" sqlType="INTEGER" paramType="ARRAY"/>
    <param name="names" sqlType="STRING" paramType="ARRAY"><validateLength minimum="1" maximum="20"/></param>
    <result element="Some" rowName="One"><element name="Name" column="FirstName"/></result>
  </query>
  <operation name="some"><call-query href="some"><with-param name="numbers" query-param="number"/><with-param name="names" query-param="not"/></call-query></operation>
  <resource method="POST" path="some"><call-query href="some"><with-param name="numbers" query-param="number"/><with-param name="names" query-param="not"/></call-query></resource>
</data>"#;
    let jdbc = "jdbc:postgresql://db.test:5432/shop";
    let data = format!("{front}{queries}");
    let gateway = start_with(&data, "org.postgresql.Driver", jdbc, &server.url());
    let soap = |inner: &str| {
        let envelope = format!(
            "<s:Envelope xmlns:s=\"http://schemas.xmlsoap.org/soap/envelope/\"><s:Body><some xmlns=\"urn:shop\">{inner}</some></s:Body></s:Envelope>"
        );
        post(&gateway, SERVICE, "text/xml", &envelope)
    };
    let numbers = "<number>3</number><number>4</number><number>5</number>";
    let found = soap(&format!("{numbers}<not>Ann</not>")).text();
    assert!(found.contains("<Name>Bob</Name></One><One><Name>Edgar"), "{found}");
    let found = soap(&format!("{numbers}<not>Edgar &lt;&amp;&gt; \"E</not><not>Bob</not>")).text();
    assert!(found.contains("<Name>Ann</Name>") && !found.contains("Edgar"), "{found}");
    let path = format!("{SERVICE}/some");
    let json = r#"{"_postsome":{"number":[4,5],"not":"{x,\"y"}}"#;
    let found = post(&gateway, &path, "application/json", json).text();
    assert!(found.contains("Ann") && found.contains("Bob"), "{found}");
    for bad in [
        format!("{numbers}<number>4 or 1=1</number><not>a</not>"),
        numbers.to_owned(),
        format!("{numbers}<not>a</not><not/>"),
    ] {
        let bad = format!("<_postsome>{bad}</_postsome>");
        assert_eq!(post(&gateway, &path, "application/xml", &bad).status(), 400, "{bad}");
    }
}

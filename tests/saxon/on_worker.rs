//! A transformation known to be short runs on the worker that has the message. One that turns out long is stopped there, and run
//! again by the machine's own threads.

use std::thread;

use super::*;
use crate::harness::{Wire, until};

const ON_WORKERS: &str = "tidegate_saxon_on_workers_total";
const STOPPED: &str = "tidegate_saxon_stopped_total";

/// Counts to the square of the number that a message has: as long as one likes.
const COUNT: &str =
    "count(for $i in 1 to xs:integer(/a), $j in 1 to xs:integer(/a) return $j[. mod 7 = 3])";

/// A recursive template whose depth the message sets, without tail calls.
const DEEP: &str = "<xsl:output method=\"text\"/>\
    <xsl:template name=\"deep\"><xsl:param name=\"n\" as=\"xs:integer\"/><xsl:variable name=\"below\" as=\"xs:integer\">\
    <xsl:choose><xsl:when test=\"$n = 0\"><xsl:sequence select=\"0\"/></xsl:when><xsl:otherwise><xsl:call-template name=\"deep\">\
    <xsl:with-param name=\"n\" select=\"$n - 1\"/></xsl:call-template></xsl:otherwise></xsl:choose></xsl:variable>\
    <xsl:sequence select=\"$below + 1\"/></xsl:template>\
    <xsl:template match=\"/\"><xsl:call-template name=\"deep\"><xsl:with-param name=\"n\" select=\"xs:integer(/a)\"/></xsl:call-template></xsl:template>";

const SAXON: &str = "saxon: { timeout: 3s, threads: 2 }";

fn on_workers(gateway: &Gateway) -> f64 {
    metric(gateway, ON_WORKERS).unwrap()
}

fn ask(wire: &mut Wire, name: &str, body: &str) -> Message {
    let length = body.len();
    wire.ask(format!(
        "POST /{name} HTTP/1.1\r\nHost: a.test\r\nContent-Type: text/xml\r\nContent-Length: {length}\r\n\r\n{body}"
    ))
}

/// Asks for small numbers until a worker transforms them itself, and will not leave it for a run or two that others held up.
#[track_caller]
fn warm(gateway: &Gateway, name: &str, said: &str) {
    let mut wire = gateway.wire();
    let before = on_workers(gateway);
    until("a worker runs it", || {
        for _ in 0..200 {
            let reply = ask(&mut wire, name, "<a>3</a>");
            assert_eq!((reply.status(), &*reply.text()), (200, said));
        }
        on_workers(gateway) > before + 500.0
    });
}

/// Asks until a worker has run one itself: a transformation that others held up may be the machine's for a while.
#[track_caller]
fn until_on_worker(gateway: &Gateway, mut ask: impl FnMut()) {
    let before = on_workers(gateway);
    until("a worker ran it", || {
        ask();
        on_workers(gateway) > before
    });
}

#[test]
fn a_fast_stylesheet_comes_to_be_run_by_the_worker() {
    let origin = Origin::echo();
    let checked = sheet(
        "<xsl:output method=\"text\"/><xsl:template match=\"/\"><xsl:if test=\"/a = 'bad'\"><xsl:message terminate=\"yes\">not this</xsl:message></xsl:if><xsl:value-of select=\"string-length(/a)\"/></xsl:template>",
    );
    let gateway = transforming(&origin, SAXON, &[("checked", &checked)]);
    assert_eq!(transform(&gateway, "checked", "<a>3</a>").text(), "1");
    assert_eq!(on_workers(&gateway), 0.0, "the first runs are not a worker's");
    warm(&gateway, "checked", "1");
    // A failure is a failure there as well, and no reason to do otherwise with the next.
    until_on_worker(&gateway, || {
        let refused = transform(&gateway, "checked", "<a>bad</a>");
        assert_eq!(refused.status(), 500);
        assert!(refused.text().contains("not this"), "{}", refused.text());
    });
    until_on_worker(&gateway, || {
        assert_eq!(transform(&gateway, "checked", "<a>four</a>").text(), "4");
    });
    // Large ones are not a worker's, however fast.
    let (large, before) = ("x".repeat(20 << 10), on_workers(&gateway));
    assert_eq!(transform(&gateway, "checked", &format!("<a>{large}</a>")).text(), "20480");
    assert_eq!(on_workers(&gateway), before);
    assert_eq!(metric(&gateway, STOPPED), Some(0.0));
}

#[test]
fn what_is_slow_all_of_a_sudden_is_stopped_on_the_worker_and_run_elsewhere() {
    let origin = Origin::echo();
    let (count, good) = (value(COUNT), value("string(/a)"));
    // Enough time is left for the second run, even on a busy machine.
    let saxon = "saxon: { timeout: 9s, threads: 2 }";
    let gateway = transforming(&origin, saxon, &[("count", &count), ("good", &good)]);
    warm(&gateway, "good", "3");
    warm(&gateway, "count", "3");
    thread::scope(|scope| {
        let endless = scope.spawn(|| transform(&gateway, "count", "<a>2000000000</a>"));
        until("it was stopped on the worker", || metric(&gateway, STOPPED) >= Some(1.0));
        // The worker continues meanwhile, with this message and with others.
        let (mut wire, before) = (gateway.wire(), on_workers(&gateway));
        until("others are run there as before", || {
            for number in 0..100 {
                let text = ask(&mut wire, "good", &format!("<a>{number}</a>")).text();
                assert_eq!(text, number.to_string());
            }
            on_workers(&gateway) > before
        });
        let reply = endless.join().unwrap();
        assert_eq!(reply.status(), 500);
        assert!(reply.text().contains("took longer than 9s"), "{}", reply.text());
    });
    // Twice: once on the worker, and once at its deadline. It is not run on workers for a while, and still gives the right result.
    until("both were stopped", || metric(&gateway, STOPPED) >= Some(2.0));
    let before = on_workers(&gateway);
    let mut wire = gateway.wire();
    for _ in 0..1000 {
        assert_eq!(ask(&mut wire, "count", "<a>10</a>").text(), "20");
    }
    assert_eq!(on_workers(&gateway), before);
    until("both threads are there", || metric(&gateway, "tidegate_saxon_threads") == Some(2.0));
}

#[test]
fn what_is_stopped_on_the_worker_still_gets_its_answer() {
    let origin = Origin::echo();
    let gateway = transforming(&origin, "saxon: { timeout: 20s }", &[("count", &value(COUNT))]);
    let mut numbers = (1..).map(|step| 2_000 * step);
    // The duration depends on the machine.
    until("one takes too long for a worker", || {
        let number = numbers.next().unwrap();
        warm(&gateway, "count", "3");
        let reply = transform(&gateway, "count", &format!("<a>{number}</a>"));
        // Each time those that leave 3 when divided by 7.
        let right = number * ((number + 4) / 7);
        assert_eq!((reply.status(), reply.text()), (200, right.to_string()));
        metric(&gateway, STOPPED) >= Some(1.0)
    });
}

#[test]
fn deep_recursion_on_a_worker_ends_like_any_other() {
    let origin = Origin::echo();
    // One for each, since a worker runs none again that went too deep.
    let depths = [1_000, 5_000, 20_000, 1_000_000_000];
    let names = depths.map(|depth| format!("deep-{depth}"));
    let texts = depths.map(|depth| format!("{}<!-- {depth} -->", sheet(DEEP)));
    let good = value("string(/a)");
    let mut sheets = vec![("good", &*good)];
    sheets.extend(std::iter::zip(&names, &texts).map(|(name, text)| (&**name, &**text)));
    let gateway = transforming(&origin, SAXON, &sheets);
    warm(&gateway, "good", "3");
    for (depth, name) in std::iter::zip(depths, &names) {
        warm(&gateway, name, "4");
        let reply = transform(&gateway, name, &format!("<a>{depth}</a>"));
        let said = reply.text();
        match reply.status() {
            200 => assert_eq!(said, (depth + 1).to_string()),
            // Such a depth takes too long on a slow machine.
            _ => assert!(
                said.contains("calls itself too deeply") || said.contains("took longer than 3s"),
                "{depth}: {said}"
            ),
        }
        until_on_worker(&gateway, || {
            assert_eq!(transform(&gateway, "good", "<a>on</a>").text(), "on", "after {depth}");
        });
    }
    // The last is too deep for any stack: the worker gave it up, and leaves its stylesheet to others.
    let before = on_workers(&gateway);
    assert_eq!(transform(&gateway, &names[3], "<a>3</a>").text(), "4");
    assert_eq!(on_workers(&gateway), before);
}

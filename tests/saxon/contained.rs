//! Stylesheets that never end, exhaust memory or get too many requests: only their messages fail, and the JVM continues.

use std::thread;
use std::time::Instant;

use super::*;
use crate::harness::{PATIENCE, until};

const GOOD: &str = "<xsl:output method=\"text\"/><xsl:template match=\"/\"><xsl:value-of select=\"/a\"/></xsl:template>";

#[test]
fn a_stylesheet_that_runs_away_ends_in_a_fault_of_its_own() {
    let origin = Origin::echo();
    let function = |body: &str| {
        sheet(&format!(
            "<xsl:output method=\"text\"/><xsl:function name=\"f:f\" as=\"item()*\"><xsl:param name=\"n\"/>{body}</xsl:function><xsl:template match=\"/\"><xsl:value-of select=\"f:f(1)\"/></xsl:template>"
        ))
        .replace("http://www.w3.org/2005/xpath-functions", "urn:f")
    };
    // Tail calls need no stack, so only the deadline ends it.
    let endless = function("<xsl:sequence select=\"f:f($n + 1)\"/>");
    let counting = value("count((1 to 2147483647 - count(/a))[. mod 7 = 3])");
    let deep = function("<xsl:sequence select=\"1 + f:f($n + 1)\"/>");
    let memory = value(
        "let $all := (1 to 100000000) ! string(.) return count($all) + count(distinct-values($all))",
    );
    let good = sheet(GOOD);
    let gateway = transforming(
        &origin,
        "saxon: { timeout: 1s, threads: 2, heap_bytes_max: 128MiB }",
        &[
            ("endless", &endless),
            ("counting", &counting),
            ("deep", &deep),
            ("memory", &memory),
            ("good", &good),
        ],
    );
    for (name, said) in [
        ("endless", &["took longer than 1s"][..]),
        ("counting", &["took longer than 1s"]),
        ("deep", &["calls itself too deeply", "took longer than 1s"]),
        ("memory", &["needs more memory than there is", "took longer than 1s"]),
    ] {
        let began = Instant::now();
        let reply = transform(&gateway, name, "<a/>");
        assert_eq!(reply.status(), 500, "{name}");
        assert!(said.iter().any(|said| reply.text().contains(said)), "{name}: {}", reply.text());
        assert!(began.elapsed() < PATIENCE, "{name}: {:?}", began.elapsed());
        // On a busy machine a second may be too short for the next message, too.
        until("others are transformed", || transform(&gateway, "good", "<a>on</a>").text() == "on");
    }
    // The threads they held are free again.
    until("both that never end were stopped", || {
        metric(&gateway, "tidegate_saxon_stopped_total").is_some_and(|stopped| stopped >= 2.0)
            && metric(&gateway, "tidegate_saxon_threads") == Some(2.0)
    });
    until("they are at work again", || transform(&gateway, "good", "<a>on</a>").text() == "on");
    let label = "tidegate_faults_total{route=\"endless\",reason=\"engine_timeout\"}";
    until("the fault is counted", || metric(&gateway, label) == Some(1.0));
}

#[test]
fn a_result_without_end_is_cut_at_its_bound() {
    let origin = Origin::echo();
    let output = sheet(
        "<xsl:output method=\"text\"/><xsl:template match=\"/\"><xsl:for-each select=\"1 to 2147483647\">0123456789</xsl:for-each></xsl:template>",
    );
    let sheets = [("output", &*output), ("good", &*sheet(GOOD))];
    let gateway = transforming(&origin, "saxon: { timeout: 30s }", &sheets);
    let reply = transform(&gateway, "output", "<a/>");
    assert_eq!(reply.status(), 500);
    assert!(reply.text().contains("The result is over 4194304 bytes"), "{}", reply.text());
    assert_eq!(transform(&gateway, "good", "<a>on</a>").text(), "on");
}

/// Saxon would log the stack of each template that a result has passed, many times the size of the message, and `trace()` the
/// content of the message.
#[test]
fn what_goes_wrong_writes_nothing_beside_the_log() {
    let origin = Origin::echo();
    let nested = |content: &str| {
        sheet(&format!(
            "<xsl:template match=\"node()\"><xsl:copy>{content}<xsl:apply-templates/></xsl:copy></xsl:template>"
        ))
    };
    let large = nested("<xsl:value-of select=\"string-join((1 to 20000) ! '0123456789')\"/>");
    let traced = nested("<xsl:value-of select=\"trace(string(/), 'secret')\"/>");
    let wrong = nested("<xsl:value-of select=\"if (a) then '' else error()\"/>");
    let gateway = transforming(
        &origin,
        "saxon: { timeout: 30s }",
        &[("large", &large), ("traced", &traced), ("wrong", &wrong)],
    );
    let message = format!("{}kept{}", "<a>".repeat(100), "</a>".repeat(100));
    let before = (gateway.log().len(), gateway.output().len());
    for (name, status, said) in [
        ("large", 500, "The result is over 4194304 bytes"),
        ("wrong", 500, "Error signalled by application call on error()"),
        ("traced", 200, "kept"),
    ] {
        let reply = transform(&gateway, name, &message);
        assert_eq!(reply.status(), status, "{name}: {}", reply.text());
        assert!(reply.text().contains(said), "{name}: {}", reply.text());
    }
    let (log, output) = (gateway.log(), gateway.output());
    let written = log.len() + output.len() - before.0 - before.1;
    assert!(written < 16 << 10, "{written} bytes: {}", log.get(..4096).unwrap_or(&log));
    assert!(!log.contains("kept") && !output.contains("kept"), "{log}{output}");
}

#[test]
fn what_would_wait_too_long_is_turned_away() {
    let origin = Origin::echo();
    let slow = value("count((1 to 2147483647 - count(/a))[. mod 7 = 3])");
    let good = sheet(GOOD);
    let gateway = transforming(
        &origin,
        "saxon: { timeout: 2s, threads: 1, pending: 1 }",
        &[("slow", &slow), ("good", &good)],
    );
    thread::scope(|scope| {
        let slow = || scope.spawn(|| transform(&gateway, "slow", "<a/>").status());
        let mut reply = None;
        // One is at work and one waits; until they are, a message may still find room, and wait for its own deadline.
        until("there is no room", || {
            (0..3).for_each(|_| drop(slow()));
            let now = transform(&gateway, "good", "<a/>");
            (now.status() == 503).then(|| reply = Some(now)).is_some()
        });
        let reply = reply.unwrap();
        assert_eq!(reply.get("retry-after"), Some("1"));
        assert!(
            reply.text().contains("Too many messages wait to be processed"),
            "{}",
            reply.text()
        );
    });
    until("there is room again", || transform(&gateway, "good", "<a>1</a>").text() == "1");
    let refused = metric(&gateway, "tidegate_saxon_transforms_total{result=\"refused\"}");
    assert!(refused.is_some_and(|refused| refused >= 1.0), "{refused:?}");
}

#[test]
fn many_at_once_get_each_its_own_answer() {
    let origin = Origin::echo();
    let gateway = transforming(&origin, "", &[("good", &sheet(GOOD))]);
    let (connections, messages) = (8, 50);
    thread::scope(|scope| {
        for connection in 0..connections {
            let gateway = &gateway;
            scope.spawn(move || {
                for message in 0..messages {
                    let own = format!("{connection}-{message}{}", "x".repeat(message * 100));
                    let reply = transform(gateway, "good", &format!("<a>{own}</a>"));
                    assert_eq!((reply.status(), reply.text()), (200, own));
                }
            });
        }
    });
    let done = metric(&gateway, "tidegate_saxon_transforms_total{result=\"success\"}");
    assert_eq!(done, Some(f64::from(connections) * messages as f64));
    let busy = metric(&gateway, "tidegate_saxon_busy_seconds_total");
    assert!(busy.is_some_and(|seconds| seconds > 0.0), "{busy:?}");
    let (used, max) = ("tidegate_saxon_heap_used_bytes", "tidegate_saxon_heap_max_bytes");
    until("the heap was read", || metric(&gateway, used).is_some_and(|used| used > 0.0));
    assert!(metric(&gateway, max) <= Some(256.0 * 1024.0 * 1024.0));
}

#[test]
fn a_client_that_goes_leaves_nothing_behind() {
    let origin = Origin::echo();
    let slow = value("count((1 to 2147483647 - count(/a))[. mod 7 = 3])");
    let gateway = transforming(
        &origin,
        "saxon: { timeout: 1s, threads: 1 }",
        &[("slow", &slow), ("good", &sheet(GOOD))],
    );
    let mut wire = gateway.wire();
    wire.send("POST /slow HTTP/1.1\r\nHost: a.test\r\nContent-Type: text/xml\r\nContent-Length: 4\r\n\r\n<a/>");
    wire.reset();
    until("the thread is free again", || transform(&gateway, "good", "<a>1</a>").text() == "1");
}

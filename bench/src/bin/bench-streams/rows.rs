//! The 22 rows of the reference's table for WebSockets: messages a second, their size, connections.
//!
//! Failed connections are those attempted less those made, and the error is (sent - received) / sent, as its harness counts. It uses
//! smaller messages where there are errors without failed connections, and so does this.

use std::fmt::Write as _;
use std::io;

use bench::peers::Kind;

use crate::apart::Apart;
use crate::peers::Ground;
use crate::say;
use crate::scenario::Wire;
use crate::seconds::{self, Second};

/// Messages a second on each connection, bytes of each, connections.
const ROWS: [(u32, usize, usize); 22] = [
    (1, 500, 100),
    (1, 500, 200),
    (1, 500, 300),
    (1, 500, 400),
    (1, 500, 600),
    (1, 500, 800),
    (1, 500, 1000),
    (5, 500, 100),
    (5, 500, 200),
    (5, 500, 300),
    (5, 500, 400),
    (5, 500, 600),
    (5, 500, 800),
    (5, 500, 1000),
    (10, 500, 100),
    (10, 500, 200),
    (10, 500, 300),
    (10, 250, 300),
    (10, 125, 300),
    (10, 60, 300),
    (10, 60, 400),
    (10, 60, 600),
];

/// Sizes to which messages are reduced.
const SIZES: [usize; 4] = [500, 250, 125, 60];

/// What came of a row, at the size that it had in the end.
pub(crate) struct Row {
    rate: u32,
    bytes: usize,
    attempted: usize,
    failed: usize,
    seconds: Vec<Second>,
}

impl Row {
    fn errors(&self) -> u64 {
        self.seconds
            .iter()
            .map(|Second { count, .. }| count.sent.saturating_sub(count.came) + count.wrong)
            .sum()
    }

    pub(crate) fn is_met(&self) -> bool {
        self.failed == 0 && self.errors() == 0
    }
}

/// Runs all rows through Tidegate, each for so many seconds.
pub(crate) fn measure(ground: &Ground, seconds: u64) -> io::Result<Vec<Row>> {
    say!("\nrows: the 22 rows of the reference, WebSockets with the policy `websocket`");
    ROWS.into_iter()
        .map(|(rate, bytes, count)| measure_row(ground, rate, bytes, count, seconds))
        .collect()
}

fn measure_row(
    ground: &Ground,
    rate: u32,
    bytes: usize,
    count: usize,
    seconds: u64,
) -> io::Result<Row> {
    let smaller = SIZES.into_iter().filter(|size| *size < bytes);
    let mut last = None;
    for size in std::iter::once(bytes).chain(smaller) {
        let mut rig = Apart::start(&format!("row:{count}:{size}"), ground.cores.load)?;
        let peer = ground.start(Kind::Tidegate, rig.port(), Wire::Http1)?;
        let failed = rig.open(peer.port)?;
        // The rate is that of each client's messages; each is answered.
        let both_ways = 2.0 * f64::from(rate) * count as f64;
        let seconds = seconds::run(&mut rig, &peer, both_ways, seconds)?;
        let row = Row { rate, bytes: size, attempted: count, failed, seconds };
        say!("  {rate}/s, {size} B, {count} connections: {failed} failed, {} errors", row.errors());
        let is_last = row.errors() == 0 || row.failed > 0;
        last = Some(row);
        if is_last {
            break;
        }
    }
    last.ok_or_else(|| io::Error::other("a row without a size"))
}

pub(crate) fn markdown(rows: &[Row]) -> String {
    let mut text = String::from(
        "### The 22 rows of the reference, WebSockets with the policy `websocket`\n\n\
         | messages/s | bytes | attempted | failed | sent | received | error | CPU of a core, each second | MiB, each second | target |\n\
         | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- | --- | --- |\n",
    );
    for row in rows {
        let Row { rate, bytes, attempted, failed, seconds } = row;
        let sent: u64 = seconds.iter().map(|second| second.count.sent).sum();
        let came: u64 = seconds.iter().map(|second| second.count.came).sum();
        let error = row.errors() as f64 * 100.0 / sent.max(1) as f64;
        // Writing to a String does not fail.
        let _ok = writeln!(
            text,
            "| {rate} | {bytes} | {attempted} | {failed} | {sent} | {came} | {error:.2} % | {} | 0 and 0 {} |",
            seconds::usage(seconds),
            if row.is_met() { "met" } else { "missed" },
        );
    }
    text
}

//! The table and the graphs of README are those of docs/results. `UPDATE_EXPECT=1` writes the table anew.

#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::panic)]

use std::fs;

use bench::peers::PeerKind;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
const HEAD: &str = "| Load test of a reference document | Tidegate | Other gateways, same run | \
    Figure of the document, on its own machines |\n|---|---:|---:|---:|\n";

/// A row of README, and where its figures stand.
struct ReadmeRow {
    what: &'static str,
    page: &'static str,
    table: &'static str,
    /// The first cells of the row in the table.
    cells: &'static [&'static str],
    column: &'static str,
    /// How README names a peer instead of by its title. An empty name leaves it out.
    names: &'static [(&'static str, &'static str)],
}

const ROWS: [ReadmeRow; 6] = [
    ReadmeRow {
        what: "A token is verified; 1 KiB, 100 users",
        page: "000",
        table: "Document 000: without and with an interceptor",
        cells: &["Choreo Connect without interceptors"],
        column: "Throughput (Requests/sec)",
        names: &[],
    },
    ReadmeRow {
        what: "The same, and an interceptor is called for each request",
        page: "000",
        table: "Document 000: without and with an interceptor",
        cells: &["Choreo Connect with request interceptor"],
        column: "Throughput (Requests/sec)",
        names: &[("envoy", "Envoy (Lua)")],
    },
    ReadmeRow {
        what: "SOAP is validated against a WSDL; 20 users",
        page: "001",
        table: "Document 001: SOAP and XML",
        cells: &["calculator", "1"],
        column: "Requests per second",
        // Nobody would run a gateway that compiles for each message.
        names: &[("nginx", "nginx with libxml2"), ("nginx-compiles", "")],
    },
    ReadmeRow {
        what: "SOAP requests and replies are validated and transformed; 20 users",
        page: "001",
        table: "Document 001: SOAP and XML",
        cells: &["calculator", "5"],
        column: "Requests per second",
        names: &[("nginx", "nginx with libxml2 and libxslt"), ("nginx-compiles", "")],
    },
    ReadmeRow {
        what: "A flow transforms the message by XSLT; 1 kB, 100 users",
        page: "004",
        table: "Document 004: message flows",
        cells: &["XSLT Proxy", "2G", "100", "1000"],
        column: "Throughput (Requests/sec)",
        names: &[],
    },
    ReadmeRow {
        what: "600 WebSockets with 10 messages per second each",
        page: "003",
        table: "Document 003: WebSocket",
        cells: &["10", "60 bytes", "600"],
        column: "Error Rate",
        names: &[],
    },
];

#[test]
fn the_table_of_readme_is_that_of_the_results() {
    let file = format!("{ROOT}/README.md");
    let readme = fs::read_to_string(&file).unwrap();
    let (before, rest) = readme.split_once(HEAD).unwrap();
    let (rows, after) = rest.split_once("\n\n").unwrap();
    let table: String = ROWS.iter().map(ReadmeRow::line).collect();
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(&file, format!("{before}{HEAD}{table}\n{after}")).unwrap();
    } else {
        assert_eq!(format!("{rows}\n"), table, "UPDATE_EXPECT=1 writes the table");
    }
}

#[test]
fn the_graphs_of_readme_stand_on_the_pages_of_the_results() {
    let readme = fs::read_to_string(format!("{ROOT}/README.md")).unwrap();
    let pages: String = ["000", "001", "002", "003", "004"].map(page).concat();
    let links = readme.split("](docs/results/").skip(1).filter_map(|rest| rest.split(')').next());
    let graphs: Vec<&str> = links.filter(|name| name.ends_with(".png")).collect();
    assert_eq!(graphs.len(), 3);
    for graph in graphs {
        assert!(pages.contains(&format!("]({graph})")), "{graph}");
        assert!(fs::metadata(format!("{ROOT}/docs/results/{graph}")).is_ok(), "{graph}");
    }
}

#[test]
fn figures_are_rounded_as_readers_read_them() {
    assert_eq!(figure("61300.65"), "61,301");
    assert_eq!(figure("1457.4"), "1,457");
    assert_eq!(figure("50416 rps"), "50,416");
    assert_eq!(figure("154.16"), "154");
    assert_eq!((figure("0%"), figure("85.14%")), ("no error".to_owned(), "85 % errors".to_owned()));
}

fn page(number: &str) -> String {
    fs::read_to_string(format!("{ROOT}/docs/results/{number}.md")).unwrap()
}

fn cells(line: &str) -> Vec<&str> {
    line.trim_start_matches("| ").trim_end_matches(" |").split(" | ").map(str::trim).collect()
}

impl ReadmeRow {
    /// Returns the line of README's table.
    fn line(&self) -> String {
        let page = page(self.page);
        let (_, after) = page.split_once(&format!("## {}\n", self.table)).unwrap();
        let mut lines = after.lines().skip_while(|line| !line.starts_with('|'));
        let columns = cells(lines.next().unwrap());
        let mut rows = lines.take_while(|line| line.starts_with('|')).map(cells);
        let cells = rows.find(|row| row.starts_with(self.cells)).unwrap();
        let row = PageRow { columns, cells };
        let mut others: Vec<(f64, String)> = Vec::new();
        for peer in PeerKind::ALL {
            let name = self.names.iter().find(|(name, _)| *name == peer.name());
            let name = name.map_or(peer.title(), |(_, name)| name);
            let measured = row.measured(&format!("{}: ", peer.name()), self.column);
            if let Some((value, told)) = measured.filter(|_| !name.is_empty()) {
                others.push((value, format!("{name} {told}")));
            }
        }
        others.sort_by(|one, other| other.0.total_cmp(&one.0));
        let others: Vec<String> = others.into_iter().map(|(_, told)| told).collect();
        let (_, ours) = row.measured("", self.column).unwrap();
        let theirs = figure(row.cell(&format!("Document: {}", self.column)).unwrap());
        format!("| {} | {ours} | {} | {theirs} |\n", self.what, others.join(", "))
    }
}

/// A row of a table on a page.
struct PageRow<'p> {
    columns: Vec<&'p str>,
    cells: Vec<&'p str>,
}

impl PageRow<'_> {
    fn cell(&self, column: &str) -> Option<&str> {
        let place = self.columns.iter().position(|name| *name == column)?;
        self.cells.get(place).copied()
    }

    /// Returns a gateway's figure, also as README shows it, with its mark. A dash, `not run` and `N/A` are not figures.
    fn measured(&self, gateway: &str, column: &str) -> Option<(f64, String)> {
        let cell = self.cell(&format!("{gateway}{column}"))?;
        if !cell.starts_with(|first: char| first.is_ascii_digit()) {
            return None;
        }
        let mark = self.cell(&format!("{gateway}Marks")).unwrap();
        let mark = if mark.is_empty() { String::new() } else { format!(" (`{mark}`)") };
        Some((value(cell), figure(cell) + &mark))
    }
}

fn value(cell: &str) -> f64 {
    let number = cell.trim_end_matches('%').split(' ').next().unwrap();
    number.parse().unwrap()
}

/// Formats `61300.65` as 61,301, and an error rate of 0 as no error.
fn figure(cell: &str) -> String {
    let rounded = format!("{:.0}", value(cell).round());
    if cell.ends_with('%') {
        return if value(cell) == 0.0 {
            "no error".to_owned()
        } else {
            format!("{rounded} % errors")
        };
    }
    let mut text = String::new();
    for (place, digit) in rounded.chars().enumerate() {
        if place > 0 && (rounded.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

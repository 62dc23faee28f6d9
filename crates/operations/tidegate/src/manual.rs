//! Generated texts: manual pages, shell completions, and the tables of the guide.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Command, CommandFactory as _};
use clap_complete::Shell;
use telemetry::names::Metric;

use crate::arguments::{Arguments, Manual};
use crate::log;

const PROGRAM: &str = "tidegate";

pub(crate) fn completions(shell: Shell) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), PROGRAM, &mut script);
    log::write_out(String::from_utf8(script)?.trim_end())?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn manual(what: &Manual) -> anyhow::Result<ExitCode> {
    match what {
        Manual::Pages { folder } => {
            let mut command = Arguments::command().disable_help_subcommand(true);
            command.build();
            pages(&command, folder)?;
        }
        Manual::Keys => log::write_out(config::reference().trim_end())?,
        Manual::Faults => log::write_out(faults().trim_end())?,
        Manual::Metrics => log::write_out(metrics().trim_end())?,
        Manual::Synapse => log::write_out(::import::synapse::rows().trim_end())?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes the page of a command and those of its subcommands: `tidegate-import-wsdl.1`.
fn pages(command: &Command, folder: &Path) -> anyhow::Result<()> {
    let name = command.get_display_name().unwrap_or(command.get_name());
    let file = folder.join(format!("{name}.1"));
    let page = page(command, name)?;
    std::fs::write(&file, page).with_context(|| format!("{} cannot be written", file.display()))?;
    let shown = command.get_subcommands().filter(|below| !below.is_hide_set());
    shown.into_iter().try_for_each(|below| pages(below, folder))
}

/// A page of section 1. Examples keep their lines, which would be joined if they were filled as paragraphs.
fn page(command: &Command, name: &str) -> anyhow::Result<String> {
    let examples = command.get_after_help().map(ToString::to_string);
    let manual =
        clap_mangen::Man::new(command.clone()).title(name.to_uppercase()).manual("Tidegate");
    let mut page = Vec::new();
    manual.render_title(&mut page)?;
    manual.render_name_section(&mut page)?;
    manual.render_synopsis_section(&mut page)?;
    manual.render_description_section(&mut page)?;
    if command.get_arguments().any(|argument| !argument.is_hide_set()) {
        manual.render_options_section(&mut page)?;
    }
    if command.get_subcommands().any(|below| !below.is_hide_set()) {
        manual.render_subcommands_section(&mut page)?;
    }
    let mut page = String::from_utf8(page)?;
    if let Some(examples) = examples {
        page.push_str(".SH NOTES\n.nf\n");
        for line in examples.lines() {
            // The formatter would interpret a line that begins with a dot or a quote.
            page.push_str("\\&");
            page.push_str(&line.replace('\\', "\\e").replace('-', "\\-"));
            page.push('\n');
        }
        page.push_str(".fi\n");
    }
    Ok(page)
}

/// Every metric as a table of the guide, in the order of a scrape.
fn metrics() -> String {
    let head = "| name | type | labels | what it is |\n| --- | --- | --- | --- |\n";
    Metric::ALL.iter().fold(head.to_owned(), |mut table, metric| {
        let (kind, name) = metric.shown();
        let labels: Vec<_> =
            metric.labels().iter().map(|label| format!("`{}`", label.name())).collect();
        let (labels, help) = (labels.join(", "), metric.help());
        let _ = writeln!(table, "| `{name}` | {kind} | {labels} | {help} |");
        table
    })
}

/// Every kind of fault as a table of the guide, by its status.
fn faults() -> String {
    let mut kinds = fault::Kind::ALL.to_vec();
    kinds.sort_by_key(|kind| kind.status());
    let head = "| fault | status | gRPC | whose | what it means | what the client reads |\n\
                | --- | --- | --- | --- | --- | --- |\n";
    kinds.into_iter().fold(head.to_owned(), |mut table, kind| {
        let side = match kind.side() {
            fault::Side::Client => "client",
            fault::Side::Gateway => "gateway",
            fault::Side::Upstream => "upstream",
        };
        let (label, status, title) = (kind.label(), kind.status(), kind.title());
        let grpc = kind.grpc() as u8;
        let meaning = kind.meaning().trim();
        let _ = writeln!(table, "| `{label}` | {status} | {grpc} | {side} | {meaning} | {title} |");
        table
    })
}

//! The backend behind every measured gateway: `bench-echo [--port N] [--reply BYTES | --reply-file XML]`.
//!
//! Prints its address on the first line, then serves until it is killed.

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;

use backends::fast_echo::{self, Answers};
use clap::Parser;

/// The cheapest HTTP/1.1 echo, for benches
#[derive(Parser)]
struct Arguments {
    /// Port on 127.0.0.1; 0 takes a free one
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Size of the reply to a request without a body
    #[arg(long, default_value = "350B", value_parser = backends::amount::parse_bytes)]
    reply: usize,
    /// Answers every request with the XML in this file
    #[arg(long)]
    reply_file: Option<PathBuf>,
}

fn main() -> io::Result<()> {
    let arguments = Arguments::parse();
    let address = SocketAddr::from(([127, 0, 0, 1], arguments.port));
    let answers = match arguments.reply_file {
        Some(file) => Answers::Xml(std::fs::read(file)?),
        None => Answers::Echo(arguments.reply),
    };
    fast_echo::serve(address, &answers, |address| {
        let mut output = io::stdout();
        // Nobody reads the port if the output is closed.
        drop(writeln!(output, "{address}").and_then(|()| output.flush()));
    })
}

//! `tidegate bench`: load tests, which are a separate program in the same folder.

use std::env;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, anyhow};

/// Replaces this process with `tidegate-bench`, so that it gets the signals and sets the exit code.
pub(crate) fn bench(arguments: &[OsString]) -> anyhow::Result<ExitCode> {
    let here = env::current_exe().context("the folder of this program is unknown")?;
    let program = here.with_file_name("tidegate-bench");
    let error = Command::new(&program).args(arguments).exec();
    if error.kind() == ErrorKind::NotFound {
        return Err(anyhow!(
            "{} does not exist. Load tests are a separate program: put it next to this one, or build it with \
             `cargo build --release -p bench --bin tidegate-bench`",
            program.display()
        ));
    }
    Err(anyhow!("{}: {error}", program.display()))
}

//! The program: hands its command line to [`cli::run`].

use std::process::ExitCode;

use lspool::cli;

fn main() -> ExitCode {
    cli::run(&std::env::args_os().collect::<Vec<_>>())
}

//! The floor: copies bytes both ways and reads nothing. Two blocking threads, 64 KiB at a time.

use std::{
    io::{self, Read, Write},
    process::{Command, Stdio},
    thread,
};

use crate::wire::raw;

pub(crate) fn run(command: &[String]) -> io::Result<()> {
    let (program, args) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut server = Command::new(program).args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let (stdin, stdout) = (server.stdin.take(), server.stdout.take());
    let (mut stdin, mut stdout) = (stdin.expect("it is piped"), stdout.expect("it is piped"));
    let (mut ours, mut theirs) = (raw(io::stdin())?, raw(io::stdout())?);
    thread::spawn(move || copy(&mut ours, &mut stdin));
    copy(&mut stdout, &mut theirs)?;
    server.wait()?;
    Ok(())
}

/// The library's own copy would leave it to the kernel, which no program can that looks at what it copies.
fn copy(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(()),
            n => to.write_all(&buffer[..n])?,
        }
    }
}

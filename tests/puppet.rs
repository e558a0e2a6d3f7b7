//! A language server on strings: what it says and does is decided by a test, through the socket that `LSPOOL_PUPPET`
//! names.
//!
//! It says who it is, as a line of JSON, then passes its stdin on as it is; the end of stdin is the end of what it
//! passes. It does not end with its stdin: it ends when the test says so, or is gone.
//!
//! The test sends orders: a letter, a length (4 bytes, the highest first) and so many bytes. `o`: write them to stdout;
//! `e`: to stderr; `c`: close stdout; `x`: exit, with the first byte as the code.

use std::{
    fs::File,
    io::{self, Read as _, Write as _},
    net::Shutdown,
    os::{fd::AsFd as _, unix::net::UnixStream},
    process::ExitCode,
};

use serde_json::json;

fn main() -> io::Result<ExitCode> {
    let socket = std::env::var_os("LSPOOL_PUPPET").ok_or(io::ErrorKind::NotFound)?;
    let mut strings = UnixStream::connect(socket)?;
    let args: Vec<String> = std::env::args().skip(1).collect();
    writeln!(strings, "{}", json!({"pid": std::process::id(), "args": args}))?;
    let heard = strings.try_clone()?;
    std::thread::spawn(move || listen(&heard));
    obey(strings)
}

fn listen(mut heard: &UnixStream) -> io::Result<()> {
    // Not the buffered one of the standard library: what was not asked for must stay in the pipe. Not `io::copy`
    // either: it splices, and a splice that waits for its socket locks the pipe, even against a writer that does not
    // want to wait.
    let mut stdin = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match stdin.read(&mut buffer)? {
            0 => return heard.shutdown(Shutdown::Write),
            n => heard.write_all(&buffer[..n])?,
        }
    }
}

fn obey(mut strings: UnixStream) -> io::Result<ExitCode> {
    let mut stdout = Some(File::from(io::stdout().as_fd().try_clone_to_owned()?));
    let mut order = [0; 5];
    loop {
        if strings.read_exact(&mut order).is_err() {
            return Ok(ExitCode::SUCCESS);
        }
        let [what, length @ ..] = order;
        let mut bytes = vec![0; u32::from_be_bytes(length) as usize];
        strings.read_exact(&mut bytes)?;
        match what {
            // Whoever listened may be gone; the test will see.
            b'o' => stdout.as_mut().map_or(Ok(()), |it| it.write_all(&bytes)).unwrap_or_default(),
            b'e' => io::stderr().write_all(&bytes).unwrap_or_default(),
            b'c' => {
                rustix::stdio::dup2_stdout(File::open("/dev/null")?)?;
                stdout = None;
            }
            _ => return Ok(ExitCode::from(bytes.first().copied().unwrap_or_default())),
        }
    }
}

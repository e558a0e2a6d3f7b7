//! A language server on strings: what it says and does is decided by a test, through the address in `LSPOOL_PUPPET`.
//!
//! It makes two connections. The first says `life`, and its end is the end of the process. The second says who it is, as
//! a line of JSON, then passes its stdin on as it is; the end of stdin is the end of what it
//! passes. It does not end with its stdin: it ends when the test says so, or is gone.
//!
//! The test sends orders: a letter, a length (4 bytes, the highest first) and so many bytes. `o`: write them to stdout;
//! `e`: to stderr; `c`: close stdout; `x`: exit, with the first byte as the code; `k`: abort.

use std::{
    io::{self, Read as _, Write as _},
    net::{Shutdown, TcpStream},
    process::ExitCode,
};

use serde_json::json;

fn main() -> io::Result<ExitCode> {
    let address = std::env::var("LSPOOL_PUPPET").map_err(io::Error::other)?;
    let mut life = TcpStream::connect(&address)?;
    writeln!(life, "life")?;
    let mut strings = TcpStream::connect(&address)?;
    strings.set_nodelay(true)?;
    let args: Vec<String> = std::env::args().skip(1).collect();
    let life_port = life.local_addr()?.port();
    writeln!(strings, "{}", json!({"pid": std::process::id(), "args": args, "life": life_port}))?;
    let heard = strings.try_clone()?;
    std::thread::spawn(move || listen(&heard));
    obey(strings)
}

fn listen(mut heard: &TcpStream) -> io::Result<()> {
    // Not the buffered one of the standard library: what was not asked for must stay in the pipe. Not `io::copy`
    // either: it splices, and a splice that waits for its socket locks the pipe, even against a writer that does not
    // want to wait.
    let mut stdin = streams::stdin()?;
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match stdin.read(&mut buffer)? {
            0 => return heard.shutdown(Shutdown::Write),
            n => heard.write_all(&buffer[..n])?,
        }
    }
}

fn obey(mut strings: TcpStream) -> io::Result<ExitCode> {
    let mut stdout = Some(streams::stdout()?);
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
                streams::close_stdout()?;
                stdout = None;
            }
            b'k' => std::process::abort(),
            _ => return Ok(ExitCode::from(bytes.first().copied().unwrap_or_default())),
        }
    }
}

#[cfg(unix)]
mod streams {
    //! The unbuffered streams of this process.

    use std::{fs::File, io, os::fd::AsFd as _};

    pub(super) fn stdin() -> io::Result<File> {
        io::stdin().as_fd().try_clone_to_owned().map(File::from)
    }

    pub(super) fn stdout() -> io::Result<File> {
        io::stdout().as_fd().try_clone_to_owned().map(File::from)
    }

    pub(super) fn close_stdout() -> io::Result<()> {
        Ok(rustix::stdio::dup2_stdout(File::open("/dev/null")?)?)
    }
}

#[cfg(windows)]
mod streams {
    //! The unbuffered streams of this process.

    use std::{fs::File, io, os::windows::io::AsHandle as _};

    pub(super) fn stdin() -> io::Result<File> {
        io::stdin().as_handle().try_clone_to_owned().map(File::from)
    }

    pub(super) fn stdout() -> io::Result<File> {
        io::stdout().as_handle().try_clone_to_owned().map(File::from)
    }

    /// Without `unsafe` the standard handle stays open; the tests that need its end run on other systems.
    pub(super) fn close_stdout() -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

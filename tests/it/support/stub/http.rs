//! Just enough HTTP/1.1 to be a server and a proxy: requests in, plain and chunked answers out.

use std::{
    io::{self, Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

use rustls::{ServerConnection, StreamOwned};

/// No request head is longer.
const MAX_HEAD: usize = 256 * 1024;

/// A connection, in the clear or through TLS.
pub(super) struct Connection {
    stream: Stream,
    /// Read but not used yet.
    ahead: Vec<u8>,
}

enum Stream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ServerConnection, TcpStream>>),
}

/// A request, read to its end.
pub(super) struct Request {
    pub(super) method: String,
    /// Without the query.
    pub(super) path: String,
    /// Names in lower case.
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
    /// The client's port.
    pub(super) port: u16,
}

impl Request {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

impl Connection {
    pub(super) fn plain(stream: TcpStream) -> Self {
        Connection { stream: Stream::Plain(stream), ahead: Vec::new() }
    }

    pub(super) fn tls(session: ServerConnection, stream: TcpStream) -> Self {
        Connection { stream: Stream::Tls(Box::new(StreamOwned::new(session, stream))), ahead: Vec::new() }
    }

    /// The stream itself, for a tunnel. Nothing may have been read ahead: a client of a proxy
    /// waits for the answer to `CONNECT`.
    pub(super) fn into_tcp(self) -> Option<TcpStream> {
        match self.stream {
            Stream::Plain(stream) if self.ahead.is_empty() => Some(stream),
            Stream::Plain(_) | Stream::Tls(_) => None,
        }
    }

    /// The next request; `None` at the end of the connection.
    pub(super) fn request(&mut self) -> io::Result<Option<Request>> {
        let Some(head) = self.head()? else { return Ok(None) };
        let mut lines = head.split("\r\n");
        let mut first = lines.next().unwrap_or_default().split(' ');
        let method = first.next().unwrap_or_default().to_owned();
        let target = first.next().unwrap_or_default();
        let headers: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.trim().to_lowercase(), value.trim().to_owned()))
            .collect();
        let port = self.tcp().peer_addr().map_or(0, |it| it.port());
        let mut request = Request { path: path_of(&method, target), method, headers, body: Vec::new(), port };
        let chunked = request.header("transfer-encoding").is_some_and(|value| value.contains("chunked"));
        request.body = if chunked {
            self.chunked_body()?
        } else {
            let length = request.header("content-length").map_or(Ok(0), str::parse);
            self.take(length.map_err(|_| invalid("content-length"))?)?
        };
        Ok(Some(request))
    }

    /// A whole answer.
    pub(super) fn answer(
        &mut self,
        status: u16,
        content_type: &str,
        headers: &[(String, String)],
        body: &[u8],
    ) -> io::Result<()> {
        let mut out = head(status, content_type).into_bytes();
        for (name, value) in headers {
            write!(out, "{name}: {value}\r\n")?;
        }
        write!(out, "content-length: {}\r\n\r\n", body.len())?;
        out.extend_from_slice(body);
        self.write(&out)
    }

    /// The head of a chunked answer.
    pub(super) fn start_chunks(&mut self, content_type: &str) -> io::Result<()> {
        let out = head(200, content_type) + "transfer-encoding: chunked\r\n\r\n";
        self.write(out.as_bytes())
    }

    /// A chunk; an empty one ends the answer.
    pub(super) fn chunk(&mut self, data: &str) -> io::Result<()> {
        self.write(format!("{:x}\r\n{data}\r\n", data.len()).as_bytes())
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.stream {
            Stream::Plain(stream) => stream.write_all(bytes),
            Stream::Tls(stream) => {
                stream.write_all(bytes)?;
                stream.flush()
            }
        }
    }

    /// Waits until `done` says so. An error if the client goes away before that.
    pub(super) fn wait(&self, mut done: impl FnMut(Duration) -> bool) -> io::Result<()> {
        let start = Instant::now();
        while !done(start.elapsed()) {
            self.check_alive()?;
        }
        Ok(())
    }

    fn tcp(&self) -> &TcpStream {
        match &self.stream {
            Stream::Plain(stream) => stream,
            Stream::Tls(stream) => stream.get_ref(),
        }
    }

    /// Takes a few milliseconds, so it is also the pause of a loop.
    fn check_alive(&self) -> io::Result<()> {
        let tcp = self.tcp();
        tcp.set_read_timeout(Some(Duration::from_millis(5)))?;
        let peeked = tcp.peek(&mut [0]);
        tcp.set_read_timeout(None)?;
        match (peeked, &self.stream) {
            (Err(error), _)
                if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) =>
            {
                Ok(())
            }
            (Err(error), _) => Err(error),
            // While it waits for an answer, a client of TLS can only say that it closes.
            (Ok(0), _) | (Ok(_), Stream::Tls(_)) => Err(io::ErrorKind::ConnectionAborted.into()),
            (Ok(_), Stream::Plain(_)) => {
                std::thread::sleep(Duration::from_millis(5));
                Ok(())
            }
        }
    }

    fn head(&mut self) -> io::Result<Option<String>> {
        loop {
            if let Some(end) = self.ahead.windows(4).position(|window| window == b"\r\n\r\n") {
                let head = String::from_utf8_lossy(&self.ahead[..end]).into_owned();
                self.ahead.drain(..end + 4);
                return Ok(Some(head));
            }
            if self.ahead.len() > MAX_HEAD {
                return Err(invalid("request head"));
            }
            if self.fill()? == 0 {
                return if self.ahead.is_empty() {
                    Ok(None)
                } else {
                    Err(io::ErrorKind::UnexpectedEof.into())
                };
            }
        }
    }

    fn chunked_body(&mut self) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let line = self.line()?;
            let size = line.split(';').next().unwrap_or_default().trim();
            let size = usize::from_str_radix(size, 16).map_err(|_| invalid("chunk size"))?;
            body.extend(self.take(size)?);
            self.line()?;
            if size == 0 {
                return Ok(body);
            }
        }
    }

    fn line(&mut self) -> io::Result<String> {
        loop {
            if let Some(end) = self.ahead.windows(2).position(|window| window == b"\r\n") {
                let line = String::from_utf8_lossy(&self.ahead[..end]).into_owned();
                self.ahead.drain(..end + 2);
                return Ok(line);
            }
            if self.fill()? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    fn take(&mut self, length: usize) -> io::Result<Vec<u8>> {
        while self.ahead.len() < length {
            if self.fill()? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(self.ahead.drain(..length).collect())
    }

    fn fill(&mut self) -> io::Result<usize> {
        let mut buffer = [0; 16 * 1024];
        let n = match &mut self.stream {
            Stream::Plain(stream) => stream.read(&mut buffer)?,
            Stream::Tls(stream) => stream.read(&mut buffer)?,
        };
        self.ahead.extend_from_slice(&buffer[..n]);
        Ok(n)
    }
}

fn head(status: u16, content_type: &str) -> String {
    // Without a request id the server reports that the answer "does not appear to originate from GitHub".
    format!("HTTP/1.1 {status} Stub\r\nx-github-request-id: STUB:0001\r\ncontent-type: {content_type}\r\n")
}

/// A client of a plain proxy sends whole URLs.
fn path_of(method: &str, target: &str) -> String {
    if method == "CONNECT" {
        return target.to_owned();
    }
    let path = match target.split_once("://") {
        Some((_, rest)) => rest.find('/').map_or("/", |at| &rest[at..]),
        None => target,
    };
    path.split(['?', '#']).next().unwrap_or_default().to_owned()
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("bad {what}"))
}

//! An editor's end of a running peer: asks, tells, listens.

use std::{
    error::Error,
    io::{Read as _, Write},
    os::unix::net::{UnixListener, UnixStream},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use tempfile::TempDir;

use crate::{
    procfs::Family,
    wire::{Frames, frame, id, member},
};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// So much is written at once.
const BLOCK: usize = 64 << 10;

/// A running peer, initialized.
pub(crate) struct Session {
    child: Child,
    to: ChildStdin,
    pub(crate) from: Frames<ChildStdout>,
    last_id: usize,
    last_turn: usize,
    pub(crate) family: Family,
    /// Changes that were made to documents.
    pub(crate) n_edits: usize,
    /// Where a server says how far it is.
    folder: TempDir,
    marks: UnixListener,
}

impl Session {
    pub(crate) fn start(command: &[String]) -> Result<Session> {
        let (program, args) = command.split_first().ok_or("no command")?;
        let folder = TempDir::new()?;
        let marks = UnixListener::bind(folder.path().join("mark"))?;
        let mut child =
            Command::new(program).args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (to, from) = (child.stdin.take(), child.stdout.take());
        let family = Family(Vec::new());
        let (to, from) = (to.expect("it is piped"), Frames::new(from.expect("it is piped")));
        let mut it = Session { child, to, from, last_id: 0, last_turn: 0, family, n_edits: 0, folder, marks };
        // Some want to be in a folder.
        let root = it.folder.path().display();
        it.ask(
            "initialize",
            &format!(
                r#"{{"processId":null,"rootUri":"file://{root}","capabilities":{{"textDocument":{{}}}}}}"#
            ),
        )?;
        it.tell("initialized", "{}")?;
        it.ask("bench/ready", "{}")?;
        it.family = Family::of(it.child.id());
        Ok(it)
    }

    /// Ends it as an editor does.
    pub(crate) fn end(mut self) -> Result<()> {
        self.ask("shutdown", "null")?;
        self.tell("exit", "null")?;
        drop(self.to);
        self.child.wait()?;
        Ok(())
    }

    /// Asks, and waits for the answer.
    pub(crate) fn ask(&mut self, method: &str, params: &str) -> Result<()> {
        let (id, request) = self.request(method, params);
        self.write(&request)?;
        // A peer that refuses is fast.
        let error = self.wait_for_one(&[id], |body| member(body, "error").map(ToOwned::to_owned))?.1;
        error.map_or(Ok(()), |it| Err(format!("{method}: {it}").into()))
    }

    pub(crate) fn tell(&mut self, method: &str, params: &str) -> Result<()> {
        self.write(&notification(method, params))
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        Ok(self.to.write_all(bytes)?)
    }

    /// Writes so many messages, in blocks.
    pub(crate) fn write_all(&mut self, messages: impl IntoIterator<Item = Vec<u8>>) -> Result<()> {
        let mut out = Vec::with_capacity(BLOCK + 1024);
        for message in messages {
            out.extend(message);
            if out.len() >= BLOCK {
                self.write(&out)?;
                out.clear();
            }
        }
        self.write(&out)
    }

    /// How many messages come until these requests are answered, the answers among them.
    pub(crate) fn wait(&mut self, wanted: &[usize]) -> Result<usize> {
        let mut n = 0;
        for left in (0..wanted.len()).rev() {
            n += self
                .wait_for_one(wanted, |_| ())
                .map_err(|it| format!("{} answers are missing: {it}", left + 1))?
                .0;
        }
        Ok(n)
    }

    /// The same of one, and a number in its result.
    pub(crate) fn wait_for_number(&mut self, wanted: usize, key: &str) -> Result<(usize, usize)> {
        let (n, number) = self.wait_for_one(&[wanted], |body| member(body, key).map(str::parse))?;
        Ok((n, number.ok_or("the answer has no such number")??))
    }

    fn wait_for_one<T>(&mut self, wanted: &[usize], read: impl Fn(&[u8]) -> T) -> Result<(usize, T)> {
        let mut n = 0;
        loop {
            let body = self.from.next()?.ok_or("the stream has ended")?;
            n += 1;
            let is_wanted = |id: &str| id.parse().is_ok_and(|it| wanted.contains(&it));
            if id(body).is_some_and(is_wanted) && member(body, "method").is_none() {
                return Ok((n, read(body)));
            }
        }
    }

    pub(crate) fn request(&mut self, method: &str, params: &str) -> (usize, Vec<u8>) {
        self.last_id += 1;
        let id = self.last_id;
        let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#);
        (id, frame(&body))
    }

    /// Begins a conversation: with these tools, raw, or with all there are.
    pub(crate) fn create(&mut self, conversation: &str, tools: Option<&str>) -> Result<()> {
        let tools = tools.map_or_else(String::new, |it| format!(r#""lspool":{{"tools":{it}}},"#));
        let params = format!(
            r#"{{{tools}"conversationId":"{conversation}","workDoneToken":"create-{conversation}","count":0,"turns":[{{"request":"hello","turnId":"first"}}]}}"#
        );
        self.ask("conversation/create", &params)
    }

    /// A turn of it; `more`: members of the parameters.
    pub(crate) fn turn(&mut self, conversation: &str, more: &str) -> (usize, Vec<u8>) {
        self.last_turn += 1;
        let n = self.last_turn;
        self.request(
            "conversation/turn",
            &format!(
                r#"{{"conversationId":"{conversation}","turnId":"turn-{n}","workDoneToken":"token-{n}","message":"go on",{more}}}"#
            ),
        )
    }

    /// Where a server is to say how far it is.
    pub(crate) fn mark(&self) -> String {
        self.folder.path().join("mark").display().to_string()
    }

    /// Waits until it has.
    pub(crate) fn wait_for_mark(&self) -> Result<UnixStream> {
        Ok(self.marks.accept()?.0)
    }
}

/// A server has been told to stop reading, and reads again when this is gone.
pub(crate) fn hear_again(mut stream: &UnixStream) -> Result<()> {
    stream.shutdown(std::net::Shutdown::Write)?;
    // It has hung up, too.
    stream.read_to_end(&mut Vec::new())?;
    Ok(())
}

pub(crate) fn notification(method: &str, params: &str) -> Vec<u8> {
    frame(&format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#))
}

//! A process of a server that several lspools share: a connection to a hub.
//!
//! Owns the attachment from the search for a hub to the end of the connection. To the rest of the shell it is a process
//! like others: its stdin and stdout are the two directions, and it is dead when the connection has ended. **It is never
//! signalled**: other clients use the server, so only the connection is closed.
//!
//! A server that cannot be shared is started as if it were not to be, with the reason in words.

mod place;
mod start;

use std::{
    fmt, io,
    path::{Path, PathBuf},
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::{Buf as _, BytesMut};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, ReadBuf, empty},
    sync::watch,
    task::spawn_blocking,
    time::{Instant, sleep, timeout, timeout_at},
};
use tokio_util::codec::{Decoder as _, Encoder as _};

use self::place::{Found, Lock};
pub use self::{
    place::HubPlace,
    start::{Errand, HubLog, SUBCOMMAND},
};
use super::{
    os::sockets::{self, Ender, ReadHalf, Stream},
    process::{GroupLeader, Request, Spawned, Waiting},
    stdio::{Input, Output},
};
use crate::{
    core::event::{Exit, Launch, Share, SpawnFailure},
    hub::PROTOCOL,
    rpc::{Codec, Frame, Incoming, RawId},
};

/// How long the search for a hub, or its start, may take.
const FIND: Duration = Duration::from_secs(10);
/// How long a hub may take to answer. It starts its server meanwhile.
const ANSWER: Duration = Duration::from_secs(8);
/// How many hubs may be started: one that ends before it answers is not the last word.
const STARTS: u32 = 3;
/// Refusals of a hub that ends. lspool then starts the next one.
const ENDING: [&str; 2] = ["the hub is ending", "the server has ended"];
/// Between two looks.
const POLL: Duration = Duration::from_millis(20);

/// Everything needed to share servers.
#[derive(Clone, Debug)]
pub struct Sharing {
    /// The executable of lspool.
    pub program: PathBuf,
    /// The possible folders for sockets, the preferred one first.
    pub folders: Vec<PathBuf>,
    /// The log for a hub.
    pub log: Option<HubLog>,
}

/// Why there is no shared process.
#[derive(Debug)]
pub(super) enum Unable {
    /// It must be a private one, for this reason.
    Private(String),
    /// The hub could not start it either.
    Failed(SpawnFailure),
}

/// What has become of an introduction.
enum Introduced {
    Attached {
        pid: u32,
        rest: BytesMut,
    },
    /// The connection ended.
    Ended,
}

impl Sharing {
    /// Gets a process that others may use, too.
    pub(super) async fn attach(&self, launch: &Launch, share: &Share) -> Result<Spawned, Unable> {
        sockets::CAN_MEET.map_err(|why| Unable::Private(why.to_owned()))?;
        let (folders, key) = (self.folders.clone(), share.key.clone());
        let place = spawn_blocking(move || HubPlace::of(&folders, &key)).await;
        let place = place.map_err(|error| error.to_string()).and_then(|it| it).map_err(Unable::Private)?;
        let launch = for_hub(launch, share);
        let (mut starts, until) = (0, Instant::now() + FIND);
        while starts < STARTS {
            let found = timeout_at(until, self.connect(&place, &launch, &mut starts)).await;
            let Ok(found) = found else {
                return Err(Unable::Private("its hub could not be reached for 10 s".to_owned()));
            };
            let mut stream = found.map_err(Unable::Private)?;
            match timeout(ANSWER, introduce(&mut stream, share, launch.max_message)).await {
                Err(_) => return Err(Unable::Private("its hub did not answer within 20 s".to_owned())),
                Ok(Ok(Introduced::Attached { pid, rest })) => {
                    return attached(stream, pid, rest)
                        .map_err(|error| Unable::Private(format!("its hub cannot be used: {error}")));
                }
                Ok(Ok(Introduced::Ended)) => sleep(POLL).await,
                Ok(Err(unable)) => return Err(unable),
            }
        }
        Err(Unable::Private("its hub ended before it answered".to_owned()))
    }

    /// Connects to the hub. Starts it if there is none.
    async fn connect(&self, place: &HubPlace, launch: &Launch, starts: &mut u32) -> Result<Stream, String> {
        if let Some(stream) = connect(place).await? {
            return Ok(stream);
        }
        let lock = lock(place).await?;
        // Somebody may have started it meanwhile.
        if let Some(stream) = connect(place).await? {
            return Ok(stream);
        }
        place.remove_dead(&lock);
        *starts += 1;
        let started = start::start(&self.program, place, launch, self.log.as_ref()).await;
        let found = connect(place).await?;
        drop(lock);
        if found.is_none() {
            place.retire(Duration::ZERO);
        }
        match (found, started) {
            // One that somebody else has started will do.
            (Some(stream), _) => Ok(stream),
            (None, Err(why)) => Err(why),
            (None, Ok(())) => Err("its hub ended at once".to_owned()),
        }
    }
}

/// How a hub starts the server: what others share cannot depend on the working folder of one of them.
fn for_hub(launch: &Launch, share: &Share) -> Launch {
    let first = folders_of(share).next().map(PathBuf::from);
    let launch = launch.clone().settled();
    Launch { cwd: launch.cwd.clone().or(first), share: Some(share.clone()), ..launch }
}

/// The workspace folders that a server is shared for.
fn folders_of(share: &Share) -> impl Iterator<Item = &String> {
    share.key.iter().filter(|(name, _)| name == "folder").map(|(_, folder)| folder)
}

/// The folder where clients meet. Tries whether they can; the error says why not.
pub fn meeting_place(folders: &[PathBuf]) -> Result<&Path, String> {
    sockets::CAN_MEET?;
    let folder = super::control::make(folders)?;
    let place = HubPlace::at(folder.join(format!("hub-check-{}.sock", std::process::id())));
    let fault = |what: &str, error: &io::Error| format!("{}: {what}: {error}", folder.display());
    let listener = place.listen().map_err(|error| fault("no socket can be made", &error))?;
    let connected = sockets::try_connect(place.socket());
    drop(listener);
    // A user may have removed it.
    std::fs::remove_file(place.socket()).ok();
    connected.map(|()| folder).map_err(|error| fault("the socket cannot be reached", &error))
}

/// Takes the lock. The caller limits the time.
async fn lock(place: &HubPlace) -> Result<Lock, String> {
    loop {
        match place.try_lock()? {
            Some(lock) => return Ok(lock),
            None => sleep(POLL).await,
        }
    }
}

/// Connects to whoever listens. `None`: nobody does.
async fn connect(place: &HubPlace) -> Result<Option<Stream>, String> {
    match place.look() {
        Found::Nothing => return Ok(None),
        Found::Socket => {}
        Found::Other(why) => return Err(why),
    }
    match sockets::connect(place.socket()).await {
        Ok(stream) => Ok(Some(stream)),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => Ok(None),
            _ => Err(format!("the socket cannot be reached ({error})")),
        },
    }
}

/// Says who is here, and waits for the answer.
async fn introduce(stream: &mut Stream, share: &Share, max: usize) -> Result<Introduced, Unable> {
    let params = json!({
        "protocol": PROTOCOL,
        "version": env!("CARGO_PKG_VERSION"),
        "pid": std::process::id(),
        "key": share.key,
        "editor": share.editor,
        "workspace": folders_of(share).next(),
    });
    let ask = Frame::request(RawId::from(0), "lspool/attach", Some(params.to_string().as_bytes()));
    let (mut codec, mut buffer, mut wire) = (Codec::new(max), BytesMut::new(), BytesMut::new());
    codec.encode(ask, &mut wire).map_err(|error| Unable::Private(error.to_string()))?;
    if stream.write_all(&wire).await.is_err() {
        return Ok(Introduced::Ended);
    }
    loop {
        match codec.decode(&mut buffer) {
            Ok(Some(Incoming::Body(body))) => {
                let attached = |pid| Introduced::Attached { pid, rest: buffer };
                return answered(&body).map(|it| it.map_or(Introduced::Ended, attached));
            }
            Ok(Some(Incoming::Junk(_))) => return Err(foreign()),
            Ok(None) => {}
            Err(_) => return Err(foreign()),
        }
        match stream.read_buf(&mut buffer).await {
            Ok(0) | Err(_) => return Ok(Introduced::Ended),
            Ok(_) => {}
        }
    }
}

/// Reads the answer of a hub: the process id of its server. `None`: it is about to end.
fn answered(body: &[u8]) -> Result<Option<u32>, Unable> {
    let answer: Value = serde_json::from_slice(body).map_err(|_| foreign())?;
    if answer.get("id") != Some(&json!(0)) {
        return Err(foreign());
    }
    let error = &answer["error"];
    if error.is_object() {
        let told = &error["data"]["lspool"];
        let message = error["message"].as_str().unwrap_or("its hub refused, and did not say why");
        let why = told["why"].as_str().unwrap_or(message).to_owned();
        return match told["permanent"].as_bool() {
            Some(true) => Err(Unable::Failed(SpawnFailure { permanent: true, message: why, moved: None })),
            Some(false) | None if ENDING.contains(&why.as_str()) => Ok(None),
            Some(false) | None => Err(Unable::Private(why)),
        };
    }
    let result = &answer["result"];
    if result["protocol"] != json!(PROTOCOL) {
        return Err(Unable::Private(format!(
            "its hub speaks protocol {}, not {PROTOCOL}",
            result["protocol"]
        )));
    }
    result["server_pid"].as_u64().and_then(|it| u32::try_from(it).ok()).map(Some).ok_or_else(foreign)
}

fn foreign() -> Unable {
    Unable::Private("its socket belongs to a program that is not a hub".to_owned())
}

/// The connection as a process.
fn attached(stream: Stream, pid: u32, rest: BytesMut) -> io::Result<Spawned> {
    let ender = stream.ender()?;
    let ended = watch::Sender::new(false);
    let (read, write) = stream.split();
    Ok(Spawned {
        leader: Box::new(Attachment { pid, ender, ended: ended.clone() }),
        stdin: Box::new(write),
        stdout: Box::new(Answers { rest, read, ended }),
        stderr: Box::new(empty()),
        displaced: None,
        unshared: None,
    })
}

/// What comes from the hub.
struct Answers {
    /// What came with the answer to the introduction.
    rest: BytesMut,
    read: ReadHalf,
    ended: watch::Sender<bool>,
}

impl AsyncRead for Answers {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.rest.is_empty() {
            let n = self.rest.len().min(out.remaining());
            out.put_slice(&self.rest[..n]);
            self.rest.advance(n);
            return Poll::Ready(Ok(()));
        }
        let (before, room) = (out.filled().len(), out.remaining());
        let polled = Pin::new(&mut self.read).poll_read(cx, out);
        if let Poll::Ready(result) = &polled
            && (result.is_err() || (room > 0 && out.filled().len() == before))
        {
            self.ended.send_replace(true);
        }
        polled
    }
}

/// The attachment to a server that others use, too.
struct Attachment {
    /// The server's.
    pid: u32,
    ender: Ender,
    ended: watch::Sender<bool>,
}

impl fmt::Debug for Attachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attachment").field("pid", &self.pid).finish_non_exhaustive()
    }
}

impl Attachment {
    fn hang_up(&self) {
        self.ender.end();
        self.ended.send_replace(true);
    }
}

impl GroupLeader for Attachment {
    fn pid(&self) -> u32 {
        self.pid
    }

    fn dead(&self) -> Waiting<'_, ()> {
        let mut ended = self.ended.subscribe();
        Box::pin(async move {
            // An error cannot be: `self` has a sender.
            ended.wait_for(|it| *it).await.ok();
        })
    }

    fn signal(&self, _request: Request) {
        self.hang_up();
    }

    fn reap(&mut self) -> Waiting<'_, Exit> {
        self.hang_up();
        // The hub has told how the server ended, if it has.
        Box::pin(async { Exit::Unknown })
    }
}

/// The socket of this hub.
#[derive(Debug)]
pub struct HubSocket(sockets::Listener);

impl HubPlace {
    /// Begins to listen. Must be called within the runtime.
    pub fn open(&self) -> io::Result<HubSocket> {
        self.listen()?.listen().map(HubSocket)
    }
}

impl HubSocket {
    /// The next client of this user.
    pub(super) async fn accept(&self) -> (Input, Output) {
        super::control::accept(&self.0).await
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests;

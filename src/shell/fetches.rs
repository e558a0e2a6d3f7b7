//! Read-only copies of files that only the other side of a server has.
//!
//! One run of a shell there writes the files of one answer to its stdout. Owns the runs, **one at a time**, and
//! decides nothing: what is not copied within the limits has no copy. **The time of an answer begins when it comes**, so
//! waits for earlier runs do not add up.

use std::{
    collections::VecDeque,
    fs,
    io::{self, Write as _},
    path::Path,
    sync::Arc,
    time::Duration,
};

use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    task::{spawn_blocking, spawn_local},
    time::{Instant, timeout_at},
};

use super::{
    elsewhere::quoted,
    inbox::Events,
    os::files::{private_copy, private_folder},
    process::{Request, Spawned, Starting, World},
};
use crate::core::event::{Event, Fetch, Fetched, Launch};

/// How long an answer may wait.
const LIMIT: Duration = Duration::from_secs(2);

/// The largest file that is copied, in bytes.
const LARGEST: u64 = 8 << 20;

/// So many bytes are read in a run.
const MOST: u64 = 4 * LARGEST;

/// What the shell writes before the first file. A login script may write something before.
const BEGIN: &str = "lspool: files";

/// The runs.
#[derive(Debug, Default)]
pub(super) struct Fetches {
    /// Its event is to come.
    running: Option<Fetch>,
    waiting: VecDeque<Waiting>,
}

/// Copies that are wanted.
#[derive(Debug)]
struct Waiting {
    /// The files that no run has tried since.
    fetch: Fetch,
    /// Those that an earlier run has copied since.
    copied: Vec<String>,
    until: Instant,
}

impl Fetches {
    /// Copies files after the earlier ones; [`Event::Fetched`] names those that have a copy then.
    pub(super) fn fetch<W: World>(&mut self, fetch: Fetch, world: &mut W, events: &Events) {
        self.waiting.push_back(Waiting { fetch, copied: Vec::new(), until: Instant::now() + LIMIT });
        if self.running.is_none() {
            self.next(world, events);
        }
    }

    /// Notes the end of a run, and begins the next one.
    pub(super) fn fetched<W: World>(&mut self, fetched: &Fetched, world: &mut W, events: &Events) {
        if let Some(done) = self.running.take() {
            for it in &mut self.waiting {
                it.settle(&done, &fetched.files);
            }
        }
        self.next(world, events);
    }

    fn next<W: World>(&mut self, world: &mut W, events: &Events) {
        let Some(Waiting { fetch, mut copied, until }) = self.waiting.pop_front() else { return };
        let Fetch { number, launch, files } = fetch.clone();
        self.running = Some(fetch);
        let remote = launch.remote.as_ref().filter(|it| !it.shell.is_empty());
        let place = remote.and_then(|it| Some((it, it.copies.clone()?)));
        let Some((remote, folder)) = place.filter(|_| !files.is_empty() && Instant::now() < until) else {
            return events.tell(Event::Fetched(Fetched { number, files: copied, untried: files }));
        };
        let shell =
            Launch { args: remote.shell.clone(), remote: None, share: None, ..Launch::clone(&launch) };
        let (starting, events) = (world.spawn(Arc::new(shell)), events.clone());
        spawn_local(async move {
            let (n, before) = (files.len(), copied.len());
            if let Err(error) = run(starting, &files, Path::new(&folder), until, &mut copied).await {
                let copied = copied.len() - before;
                tracing::warn!(%error, n, copied, "could not copy files from elsewhere");
            }
            events.tell(Event::Fetched(Fetched { number, files: copied, untried: Vec::new() }));
        });
    }
}

impl Waiting {
    /// What another run has just tried is not tried again.
    fn settle(&mut self, done: &Fetch, copied: &[String]) {
        if Arc::ptr_eq(&self.fetch.launch, &done.launch) {
            let tried = self.fetch.files.extract_if(.., |it| done.files.contains(it));
            self.copied.extend(tried.filter(|it| copied.contains(it)));
        }
    }
}

async fn run(
    starting: Starting,
    files: &[String],
    folder: &Path,
    until: Instant,
    copied: &mut Vec<String>,
) -> io::Result<()> {
    let late = |_| io::Error::new(io::ErrorKind::TimedOut, "no answer in time");
    let started = timeout_at(until, starting).await.map_err(late)?;
    let mut spawned = started.map_err(|failure| io::Error::other(failure.message))?;
    let outcome = timeout_at(until, copy_all(&mut spawned, files, folder, copied)).await;
    spawned.leader.signal(Request::Kill);
    // The answer does not wait for its end.
    spawn_local(async move { spawned.leader.reap().await });
    outcome.map_err(late)?
}

async fn copy_all(
    spawned: &mut Spawned,
    files: &[String],
    folder: &Path,
    copied: &mut Vec<String>,
) -> io::Result<()> {
    spawned.stdin.write_all(script(files).as_bytes()).await?;
    spawned.stdin.shutdown().await?;
    let mut output = BufReader::new((&mut spawned.stdout).take(MOST));
    let mut line = String::new();
    while line.trim_end() != BEGIN {
        line.clear();
        if output.read_line(&mut line).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    for file in files {
        line.clear();
        output.read_line(&mut line).await?;
        // It is not there, or too large.
        let Ok(len) = line.trim_end().parse::<usize>() else { continue };
        if len as u64 > LARGEST {
            return Err(io::Error::other("a file is larger than it may be"));
        }
        let mut content = vec![0; len];
        output.read_exact(&mut content).await?;
        let path = folder.join(file.trim_start_matches('/'));
        spawn_blocking(move || write(&path, &content)).await??;
        copied.push(file.clone());
    }
    Ok(())
}

/// Writes for each file its size and its content.
fn script(files: &[String]) -> String {
    let one = format!(
        "one() {{ if [ -f \"$1\" ] && [ -r \"$1\" ] && s=$(wc -c <\"$1\") && [ \"$s\" -le {LARGEST} ]; then echo $s; \
         cat \"$1\"; else echo -; fi; }}\necho {}\n",
        quoted(BEGIN)
    );
    files.iter().fold(one, |all, file| format!("{all}one {}\n", quoted(file))) + "exit\n"
}

/// Puts a copy into its place. Somebody may be reading an earlier one.
fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    private_folder().recursive(true).create(folder)?;
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let new = folder.join(name);
    // One of an lspool that has died while it wrote.
    fs::remove_file(&new).ok();
    let mut file = private_copy().write(true).create_new(true).open(&new)?;
    file.write_all(content).and_then(|()| fs::rename(&new, path)).inspect_err(|_| {
        fs::remove_file(&new).ok();
    })
}

#[cfg(test)]
mod tests {
    #[cfg(unix)]
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn file_that_an_earlier_run_has_tried_is_not_tried_again() {
        let launch = |name: &str| {
            let text = format!(
                r#"{{"program":"/{name}","args":[],"env":{{}},"cwd":null,"max_message":1,"write_stall":{{"secs":1,"nanos":0}}}}"#
            );
            Arc::new(serde_json::from_str::<Launch>(&text).unwrap())
        };
        let (here, other) = (launch("docker"), launch("docker"));
        let fetch = |launch: &Arc<Launch>, files: &[&str]| {
            let files = files.iter().map(ToString::to_string).collect();
            Fetch { number: 1, launch: launch.clone(), files }
        };
        let done = fetch(&here, &["/a", "/missing"]);
        let settled = |fetch: Fetch| {
            let mut it = Waiting { fetch, copied: Vec::new(), until: Instant::now() };
            it.settle(&done, &["/a".to_owned()]);
            (it.fetch.files, it.copied)
        };
        let of = |files: &[&str]| files.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(settled(fetch(&here, &["/a", "/b", "/missing"])), (of(&["/b"]), of(&["/a"])));
        assert_eq!(settled(fetch(&other, &["/a"])), (of(&["/a"]), of(&[])), "it is another place");
    }

    #[test]
    fn shell_writes_files_with_their_sizes() {
        let folder = tempfile::tempdir().unwrap();
        let (odd, large) = (folder.path().join("it's $(x)\n.py"), folder.path().join("large"));
        fs::write(&odd, "text\n").unwrap();
        fs::File::create(&large).unwrap().set_len(LARGEST + 1).unwrap();
        let files = [&odd, &large, &folder.path().join("missing"), &folder.path().to_owned(), &odd];
        let files = files.map(|it| it.to_str().unwrap().to_owned());
        let mut shell = std::process::Command::new("sh");
        shell.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut shell = shell.spawn().unwrap();
        shell.stdin.take().unwrap().write_all(script(&files).as_bytes()).unwrap();
        let output = shell.wait_with_output().unwrap();
        assert_eq!(
            String::from_utf8(output.stdout).unwrap(),
            format!("{BEGIN}\n5\ntext\n-\n-\n-\n5\ntext\n")
        );
    }

    #[cfg(unix)]
    #[test]
    fn copy_is_read_only_and_replaces_an_earlier_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b.py");
        for content in ["one", "two"] {
            write(&path, content.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
        }
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o400);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }
}

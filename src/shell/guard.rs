//! The guard: a small process beside lspool that ends the servers when lspool cannot.
//!
//! Owns both ends of one pipe. lspool writes which process groups, private folders and sockets exist; the guard only
//! reads. If the pipe ends without `quit`, lspool has died: the guard ends the remaining processes and exits. After
//! an orderly end only processes that have left their group can remain. The guard does nothing while lspool lives,
//! and then starts nothing but the commands that end servers elsewhere.
//!
//! - **lspool forgets a group before it reaps the leader**, so the guard never signals a number that the system has
//!   reused.
//! - **The guard holds nothing of lspool but the pipe**: no stdout, no stderr, no terminal, no folder. (On Windows a
//!   process inherits every handle that lspool has inherited.)
//! - **The guard finds a process that left its group by its mark** (on Linux): a variable in the inherited
//!   environment.
//!
//! Protocol, a line each: `+PGID` and `-PGID` at spawn and before reaping; `d PATH` and `D PATH` when a private
//! folder or socket appears and disappears; `h PATH` for the socket of a hub; `f N COMMAND` and `F N` when a server
//! elsewhere starts and ends; `quit` at an orderly end.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::{OsStr, OsString},
    fs,
    io::{self, BufRead, BufReader, Read, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ExitCode, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

use super::{
    os::{leftovers::Leftovers, paths, processes, streams},
    process::Request,
    shared::HubPlace,
};

/// The subcommand that runs [`serve`].
pub const SUBCOMMAND: &str = "guard";

/// The variable that every server process inherits.
pub const MARK: &str = "LSPOOL_GUARD_MARK";

/// From the death of lspool to SIGKILL.
const GRACE: Duration = Duration::from_secs(1);
/// From SIGKILL until the guard stops waiting.
const LAST_WAIT: Duration = Duration::from_millis(800);
/// How long the commands for servers elsewhere may take.
const PARTING: Duration = Duration::from_secs(5);
/// A pipe takes so many bytes as a whole, or none.
const ATOMIC: usize = 4096;
const POLL: Duration = Duration::from_millis(20);
/// How long others may be at the lock of a hub that has died.
const RETIREMENT: Duration = Duration::from_millis(500);

/// A mark of the processes of one lspool: its pid and start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark(OsString);

impl Mark {
    /// The mark of the lspool with this pid that started at this time (unix milliseconds).
    pub fn new(pid: u32, started: u64) -> Mark {
        Mark(format!("{pid}-{started}").into())
    }

    /// The value of [`MARK`].
    pub fn value(&self) -> &OsStr {
        &self.0
    }
}

/// The side of the guard in lspool. Writes every process and file that the guard must end or remove.
///
/// Starts the guard, and again after its death.
#[derive(Debug)]
pub struct Guard {
    program: PathBuf,
    mark: Mark,
    groups: BTreeSet<u32>,
    folders: BTreeSet<PathBuf>,
    /// The lines about servers elsewhere.
    partings: BTreeMap<u32, Vec<u8>>,
    /// In a hub: the place of its socket.
    hub: Option<HubPlace>,
    running: Option<(Child, ChildStdin)>,
    /// Guards that have closed their pipe and are not reaped yet: a dying process closes its pipe first.
    dying: Vec<Child>,
    /// How often a guard was replaced.
    n_restarts: u32,
}

/// After so many deaths lspool starts no further guard.
const MOST_RESTARTS: u32 = 10;

impl Guard {
    /// A guard without a process yet. `program` is lspool itself.
    pub fn new(program: PathBuf, mark: Mark) -> Guard {
        Guard {
            program,
            mark,
            groups: BTreeSet::new(),
            folders: BTreeSet::new(),
            partings: BTreeMap::new(),
            hub: None,
            running: None,
            dying: Vec::new(),
            n_restarts: 0,
        }
    }

    /// The mark of the processes.
    pub fn mark(&self) -> &Mark {
        &self.mark
    }

    /// The executable of lspool.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Whether its process has been started.
    pub fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Its process id, for the status.
    pub fn pid(&self) -> Option<u32> {
        self.running.as_ref().map(|(child, _)| child.id())
    }

    /// Adds the group of a new process.
    pub fn add_group(&mut self, group: u32) {
        self.groups.insert(group);
        self.tell(format!("+{group}\n").as_bytes());
    }

    /// Forgets a group whose leader is dead but not reaped yet.
    pub fn remove_group(&mut self, group: u32) {
        self.groups.remove(&group);
        self.tell(format!("-{group}\n").as_bytes());
    }

    /// Adds a private folder, which the guard removes with its contents.
    pub fn add_path(&mut self, folder: &Path) {
        if paths::bytes(folder).contains(&b'\n') || !folder.is_absolute() {
            tracing::warn!(?folder, "guard cannot remove this folder after a crash of lspool");
            return;
        }
        self.folders.insert(folder.to_path_buf());
        self.tell(&path_line(b"d ", folder));
    }

    /// Forgets a private folder that was removed.
    pub fn remove_path(&mut self, folder: &Path) {
        if self.folders.remove(folder) {
            self.tell(&path_line(b"D ", folder));
        }
    }

    /// Adds a command that ends a server elsewhere.
    pub(super) fn add_parting(&mut self, number: u32, parting: &Parting) {
        let Ok(command) = serde_json::to_string(parting) else { return };
        let line = format!("f {number} {command}\n").into_bytes();
        if line.len() > ATOMIC {
            tracing::warn!(number, "guard cannot end this server elsewhere after a crash of lspool");
            return;
        }
        self.tell(&line);
        self.partings.insert(number, line);
    }

    /// Forgets a server elsewhere whose process on this side has ended.
    pub(super) fn remove_parting(&mut self, number: u32) {
        if self.partings.remove(&number).is_some() {
            self.tell(format!("F {number}\n").as_bytes());
        }
    }

    /// Sets the place of a hub, whose socket and lock the guard removes.
    pub(super) fn add_hub(&mut self, place: &HubPlace) {
        self.hub = Some(place.clone());
        self.tell(&path_line(b"h ", place.socket()));
    }

    /// Starts the guard if it does not run, and writes all groups and folders.
    pub fn start(&mut self) {
        if self.running.is_some() {
            return;
        }
        match self.launch() {
            Ok(running) => {
                tracing::debug!(pid = running.0.id(), "guard started");
                self.running = Some(running);
                let mut all = Vec::new();
                for group in &self.groups {
                    all.extend_from_slice(format!("+{group}\n").as_bytes());
                }
                for folder in &self.folders {
                    all.extend_from_slice(&path_line(b"d ", folder));
                }
                self.partings.values().for_each(|line| all.extend_from_slice(line));
                if let Some(place) = &self.hub {
                    all.extend_from_slice(&path_line(b"h ", place.socket()));
                }
                if let Some((_, pipe)) = &mut self.running
                    && let Err(error) = pipe.write_all(&all)
                {
                    tracing::warn!(%error, "could not write to the guard");
                }
            }
            Err(error) => {
                tracing::warn!(%error, "could not start the guard: servers that ignore the end of their input survive a kill of lspool");
            }
        }
    }

    /// Replaces a dead guard.
    pub fn restart_if_dead(&mut self) {
        self.dying.retain_mut(|it| matches!(it.try_wait(), Ok(None)));
        let Some((child, _)) = &mut self.running else { return };
        let Ok(Some(status)) = child.try_wait() else { return };
        if self.n_restarts < MOST_RESTARTS {
            tracing::warn!(%status, "guard exited; starting another");
            self.n_restarts += 1;
            self.running = None;
            self.start();
        }
    }

    /// Tells the guard to end. Only processes that have left their group can remain.
    pub fn quit(&mut self) -> Option<Leaving> {
        let (child, mut pipe) = self.running.take()?;
        if let Err(error) = pipe.write_all(b"quit\n") {
            tracing::debug!(%error, "guard had exited");
        }
        Some(Leaving(child))
    }

    fn tell(&mut self, line: &[u8]) {
        let Some((child, pipe)) = &mut self.running else { return };
        match pipe.write_all(line) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                tracing::warn!("guard did not read");
            }
            Err(error) => {
                let status = child.try_wait();
                tracing::warn!(%error, ?status, "guard exited; starting another");
                if let Some((child, _)) = self.running.take()
                    && matches!(status, Ok(None))
                {
                    self.dying.push(child);
                }
                self.start();
            }
        }
    }

    fn launch(&self) -> io::Result<(Child, ChildStdin)> {
        let mut child = processes::command(&self.program)
            .arg(SUBCOMMAND)
            .arg(self.mark.value())
            // An outer lspool must not find the guard by its mark.
            .env_remove(MARK)
            .current_dir(paths::root())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let pipe = child.stdin.take().ok_or_else(|| io::Error::other("no pipe"))?;
        streams::never_wait(&pipe)?;
        Ok((child, pipe))
    }
}

/// A guard that was told to end.
#[derive(Debug)]
pub struct Leaving(Child);

impl Leaving {
    /// Waits for its end, which takes about a millisecond, for a limited time.
    pub async fn wait(mut self) {
        for _ in 0..20 {
            if !matches!(self.0.try_wait(), Ok(None)) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

fn path_line(verb: &[u8], folder: &Path) -> Vec<u8> {
    [verb, paths::bytes(folder), b"\n"].concat()
}

/// The groups and folders that the guard must end and remove.
#[derive(Debug, Default, PartialEq, Eq)]
struct Charge {
    groups: BTreeSet<u32>,
    folders: BTreeSet<PathBuf>,
    partings: BTreeMap<u32, Parting>,
    hub: Option<HubPlace>,
}

/// A command that ends a server elsewhere.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Parting {
    pub(super) program: PathBuf,
    pub(super) args: Vec<String>,
    /// Its variables in addition to lspool's.
    pub(super) env: Vec<(String, String)>,
    /// What it reads.
    pub(super) input: String,
}

/// Why the pipe ended.
#[derive(Debug, PartialEq, Eq)]
enum Farewell {
    Quit,
    Died,
}

/// The guard process: reads stdin until lspool ends. `mark` is the argument after the subcommand.
pub fn serve(mark: &OsStr) -> ExitCode {
    // It fails only for the leader of a group, and a child of lspool is not one.
    if let Err(error) = processes::leave_session() {
        tracing::debug!(%error, "could not start a session");
    }
    // So that `killall lspool` does not kill it.
    processes::rename_this(c"lsp-guard");
    let mut charge = Charge::default();
    if listen(io::stdin().lock(), &mut charge) == Farewell::Quit {
        charge = Charge::default();
    }
    end(&charge, mark);
    ExitCode::SUCCESS
}

fn listen(pipe: impl Read, charge: &mut Charge) -> Farewell {
    let mut pipe = BufReader::with_capacity(512, pipe);
    let mut line = Vec::new();
    loop {
        line.clear();
        match pipe.read_until(b'\n', &mut line) {
            // An incomplete line was cut off by the death of the writer.
            Ok(_) if line.last() != Some(&b'\n') => return Farewell::Died,
            Ok(_) => {}
            Err(_) => return Farewell::Died,
        }
        line.pop();
        match line.as_slice() {
            b"quit" => return Farewell::Quit,
            [b'+', group @ ..] => charge.groups.extend(number(group)),
            [b'-', group @ ..] => {
                if let Some(group) = number(group) {
                    charge.groups.remove(&group);
                }
            }
            [b'd', b' ', folder @ ..] => {
                charge.folders.extend(paths::from_bytes(folder));
            }
            [b'h', b' ', socket @ ..] => {
                charge.hub = paths::from_bytes(socket).map(HubPlace::at);
            }
            [b'D', b' ', folder @ ..] => {
                if let Some(folder) = paths::from_bytes(folder) {
                    charge.folders.remove(&folder);
                }
            }
            [b'f', b' ', parting @ ..] => charge.partings.extend(read_parting(parting)),
            [b'F', b' ', number @ ..] => {
                if let Some(number) = std::str::from_utf8(number).ok().and_then(|it| it.parse().ok()) {
                    charge.partings.remove(&number);
                }
            }
            _ => {}
        }
    }
}

fn read_parting(line: &[u8]) -> Option<(u32, Parting)> {
    let (number, command) = std::str::from_utf8(line).ok()?.split_once(' ')?;
    Some((number.parse().ok()?, serde_json::from_str(command).ok()?))
}

/// A process group that may be signalled: the system reserves 0 and 1.
fn number(digits: &[u8]) -> Option<u32> {
    std::str::from_utf8(digits).ok()?.parse().ok().filter(|&group| group > 1)
}

/// Ends all processes, first with SIGTERM.
fn end(charge: &Charge, mark: &OsStr) {
    let mut leftovers = Leftovers::new(charge.groups.iter().copied(), MARK, mark);
    leftovers.end(Request::Terminate, GRACE, POLL);
    leftovers.end(Request::Kill, LAST_WAIT, POLL);
    part(&charge.partings);
    for folder in &charge.folders {
        remove(folder);
    }
    if let Some(place) = &charge.hub {
        place.retire(RETIREMENT);
    }
}

/// Removes a folder or a file. Windows refuses that while a dying process uses it. There is nobody to report to.
fn remove(folder: &Path) {
    for _ in 0..50 {
        fs::remove_dir_all(folder).or_else(|_| fs::remove_file(folder)).ok();
        if fs::symlink_metadata(folder).is_err() {
            return;
        }
        thread::sleep(POLL);
    }
}

/// Runs all commands at once, for a limited time.
fn part(partings: &BTreeMap<u32, Parting>) {
    let start = |Parting { program, args, env, input }: &Parting| {
        let mut command = processes::command(program);
        command.args(args).envs(env.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().ok()?;
        if let Some(mut stdin) = child.stdin.take() {
            // A new pipe takes it at once. It may have ended already.
            stdin.write_all(input.as_bytes()).ok();
        }
        Some(child)
    };
    let mut running: Vec<Child> = partings.values().filter_map(start).collect();
    #[expect(clippy::disallowed_methods, reason = "the guard has no core; it is its own clock")]
    let now = Instant::now;
    let until = now() + PARTING;
    while !running.is_empty() && now() < until {
        running.retain_mut(|it| matches!(it.try_wait(), Ok(None)));
        thread::sleep(POLL);
    }
    for mut late in running {
        late.kill().ok();
        late.wait().ok();
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn guard_that_stopped_listening_is_reaped_when_it_dies() {
        let root = tempfile::tempdir().unwrap();
        let (program, stay) = (root.path().join("guard"), root.path().join("stay"));
        // The first guard closes its pipe and lives on; the later ones read.
        let script = format!(
            "#!/bin/sh\ncd {}\nmkdir first 2>/dev/null || exec cat >/dev/null\nexec <&-\n: >deaf\n\
             while [ -e stay ]; do sleep 0.01; done\n",
            root.path().display()
        );
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
        fs::write(&stay, "").unwrap();
        let wait_until = |what: &str, holds: &mut dyn FnMut() -> bool| {
            for _ in 0..6000 {
                if holds() {
                    return;
                }
                thread::sleep(Duration::from_millis(10));
            }
            panic!("never: {what}");
        };
        let mut guard = Guard::new(program, Mark::new(1, 2));
        guard.start();
        let first = guard.pid().unwrap();
        wait_until("deaf", &mut || root.path().join("deaf").exists());
        // A dead process that is not reaped exists.
        let is_there = || processes::exists(first);
        guard.add_group(4_000_000);
        assert!(is_there() && guard.pid() != Some(first), "another one is told");
        fs::remove_file(&stay).unwrap();
        wait_until("reaped", &mut || {
            guard.restart_if_dead();
            !is_there()
        });
    }
}

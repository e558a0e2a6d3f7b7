//! Which processes came of a test: all that carry its mark in their environment.

use std::{
    fmt, fs,
    path::PathBuf,
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

const VARIABLE: &str = "LSPOOL_TEST_ID";

/// A value that is inherited by every process that a command starts, however indirectly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark(String);

/// A living process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// Its parent's id.
    pub parent: u32,
    /// Its command line, joined by spaces.
    pub command: String,
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (of {}): {}", self.pid, self.parent, self.command)
    }
}

impl Mark {
    /// The mark of a command, which gets a new one if it has none.
    pub fn of(command: &mut Command) -> Mark {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let present = command.get_envs().find(|(name, _)| *name == VARIABLE).and_then(|(_, value)| value);
        if let Some(value) = present {
            return Mark(value.to_string_lossy().into_owned());
        }
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let mark = Mark(format!("{}-{count}", std::process::id()));
        command.env(VARIABLE, &mark.0);
        mark
    }

    /// The living processes that carry it, by id.
    pub fn processes(&self) -> Vec<Process> {
        let wanted = format!("{VARIABLE}={}", self.0);
        let carries = |pid: &u32| {
            let environment = fs::read(proc(*pid, "environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
        };
        let mut pids: Vec<u32> = fs::read_dir("/proc")
            .expect("tests that look for processes run on Linux")
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .filter(carries)
            .collect();
        pids.sort_unstable();
        // Wine's own processes live on for a while after the first program that it runs.
        let is_of_wine = |it: &Process| {
            it.command.contains("wineserver")
                || it.command.to_lowercase().starts_with(r"c:\windows\system32\")
        };
        pids.into_iter().filter_map(read).filter(|it| !is_of_wine(it)).collect()
    }

    /// The living processes that carry it and whose command line contains `text`.
    pub fn processes_running(&self, text: &str) -> Vec<Process> {
        self.processes().into_iter().filter(|process| process.command.contains(text)).collect()
    }

    /// The living process with this id, if it carries the mark.
    pub fn process(&self, pid: u32) -> Option<Process> {
        self.processes().into_iter().find(|process| process.pid == pid)
    }

    /// Waits until no process carries it. Fails, naming them, if some are left at the end of `within`.
    #[track_caller]
    pub fn wait_gone(&self, within: Duration) {
        let start = Instant::now();
        loop {
            let left = self.processes();
            if left.is_empty() {
                return;
            }
            let names: Vec<String> = left.iter().map(Process::to_string).collect();
            assert!(start.elapsed() < within, "left after {within:?}:\n{}", names.join("\n"));
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ends all processes with the mark, also those that start meanwhile.
    pub fn kill_all(&self) {
        for _ in 0..20 {
            let left = self.processes();
            if left.is_empty() {
                return;
            }
            for process in left {
                process.kill(Signal::KILL);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Process {
    /// Sends it a signal; nothing happens if it is gone.
    pub fn kill(&self, signal: Signal) {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid {
            kill_process(pid, signal).ok();
        }
    }

    /// Whether it has an open connection (IPv4) from this port.
    pub fn has_port(&self, port: u16) -> bool {
        let sockets = fs::read_to_string(proc(self.pid, "net/tcp")).unwrap_or_default();
        let local = format!(":{port:04X}");
        let inodes: Vec<PathBuf> = sockets
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>())
            .filter(|fields| fields.get(1).is_some_and(|it| it.ends_with(&local)))
            .filter_map(|fields| Some(format!("socket:[{}]", fields.get(9)?).into()))
            .collect();
        let open = fs::read_dir(proc(self.pid, "fd")).into_iter().flatten().flatten();
        open.filter_map(|it| fs::read_link(it.path()).ok()).any(|it| inodes.contains(&it))
    }

    /// Resident memory in KiB; 0 if it is gone.
    pub fn resident_kib(&self) -> u64 {
        self.status("VmRSS:")
    }

    /// The most memory it ever had, in KiB, without the pages of its program, which depend on how large that is; 0 if
    /// it is gone.
    pub fn peak_kib(&self) -> u64 {
        self.status("VmHWM:").saturating_sub(self.status("RssFile:"))
    }

    fn status(&self, name: &str) -> u64 {
        let status = fs::read_to_string(proc(self.pid, "status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or_default()
    }
}

fn read(pid: u32) -> Option<Process> {
    let stat = fs::read_to_string(proc(pid, "stat")).ok()?;
    // After the name in parentheses, which may hold anything: state, parent…
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let command = fs::read(proc(pid, "cmdline")).ok()?;
    let command = String::from_utf8_lossy(&command).trim_end_matches('\0').replace('\0', " ");
    (state != "Z").then_some(Process { pid, parent, command })
}

fn proc(pid: u32, file: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/{file}"))
}

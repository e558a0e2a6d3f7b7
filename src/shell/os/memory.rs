//! Measures the memory of a process and of all processes that it started.
//!
//! A server may be a small script that starts the real one, so its group and its descendants count. The sum is of
//! resident bytes: memory that two processes share counts twice.

use std::collections::BTreeSet;

use crate::core::event::ProcessId;

/// The resident bytes of living processes.
#[cfg(target_os = "linux")]
pub(crate) fn resident(roots: &[(ProcessId, u32)]) -> Vec<(ProcessId, u64)> {
    let page = rustix::param::page_size() as u64;
    let all = linux::processes();
    let measure = |(id, pid): &(ProcessId, u32)| Some((*id, memory_of(*pid, &all)? * page));
    roots.iter().filter_map(measure).collect()
}

/// The resident bytes of living processes.
#[cfg(not(target_os = "linux"))]
pub(crate) fn resident(roots: &[(ProcessId, u32)]) -> Vec<(ProcessId, u64)> {
    use sysinfo::{ProcessRefreshKind, ProcessesToUpdate, System};
    let Ok(mut system) = System::new() else { return Vec::new() };
    system.refresh_processes_specifics(
        ProcessesToUpdate::All,
        true,
        ProcessRefreshKind::nothing().with_memory(),
    );
    // Windows keeps the number of a dead parent, which another process may have now.
    let is_older = |parent: sysinfo::Pid, it: &sysinfo::Process| {
        system.process(parent).is_some_and(|parent| parent.start_time() <= it.start_time())
    };
    let process = |(pid, it): (&sysinfo::Pid, &sysinfo::Process)| Process {
        pid: pid.as_u32(),
        parent: it.parent().filter(|parent| is_older(*parent, it)).map_or(0, sysinfo::Pid::as_u32),
        group: pid.as_u32(),
        memory: it.memory(),
    };
    let all: Vec<Process> = system.processes().iter().map(process).collect();
    roots.iter().filter_map(|(id, pid)| Some((*id, memory_of(*pid, &all)?))).collect()
}

/// A process with its memory, in a unit that the system chooses.
struct Process {
    pid: u32,
    parent: u32,
    /// Where lspool cannot read it, the process itself.
    group: u32,
    memory: u64,
}

/// The memory of a process, its group and all their descendants; `None` if none exists.
fn memory_of(root: u32, all: &[Process]) -> Option<u64> {
    let is_root = |it: &&Process| it.pid == root || it.group == root;
    let mut found: BTreeSet<u32> = all.iter().filter(is_root).map(|it| it.pid).collect();
    loop {
        let n = found.len();
        let children = all.iter().filter(|it| found.contains(&it.parent)).map(|it| it.pid);
        found.extend(children.collect::<Vec<_>>());
        if found.len() == n {
            break;
        }
    }
    let memory = all.iter().filter(|it| found.contains(&it.pid)).map(|it| it.memory).sum();
    (!found.is_empty()).then_some(memory)
}

#[cfg(target_os = "linux")]
mod linux {
    use std::fs;

    use super::Process;

    pub(super) fn processes() -> Vec<Process> {
        let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
        let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        // A process that has exited is skipped.
        pids.filter_map(|pid: u32| parse(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?))
            .collect()
    }

    /// Parses `pid (name) state parent group …` with the resident pages as the 24th. A name may contain anything.
    fn parse(pid: u32, stat: &str) -> Option<Process> {
        let (_, rest) = stat.rsplit_once(')')?;
        let mut words = rest.split_ascii_whitespace().skip(1);
        let parent = words.next()?.parse().ok()?;
        let group = words.next()?.parse().ok()?;
        let memory = words.nth(18)?.parse().ok()?;
        Some(Process { pid, parent, group, memory })
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn stat_parser_accepts_any_process_name() {
            let stat =
                "7 (a) b (c) S 3 5 5 0 -1 4194304 1 0 0 0 1 0 0 0 20 0 1 0 100 9000 42 18446744073709551615";
            let it = parse(7, stat).unwrap();
            assert_eq!((it.parent, it.group, it.memory), (3, 5, 42));
            assert!(parse(7, "7 (a) Z").is_none());
        }
    }
}

#[cfg(test)]
mod sum {
    use super::*;

    fn process(pid: u32, parent: u32, group: u32) -> Process {
        Process { pid, parent, group, memory: 1 << pid }
    }

    #[test]
    fn memory_counts_group_and_descendants_only() {
        // 3 left the group, and 4 is its child; 5 is in the group, but its parent has exited.
        let all = [process(4, 3, 3), process(3, 2, 3), process(2, 1, 2), process(5, 1, 2), process(6, 1, 6)];
        assert_eq!(memory_of(2, &all), Some(0b11_1100));
        assert_eq!(memory_of(3, &all), Some(0b01_1000));
        assert_eq!(memory_of(7, &all), None);
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;
    use crate::core::event::{BackendId, Generation};

    #[test]
    fn memory_includes_children_of_script() {
        use std::io::BufRead as _;
        let id = ProcessId { backend: BackendId(0), generation: Generation(1) };
        // The child of the script leaves its group.
        let held = "x=$(head -c 30000000 /dev/zero | tr '\\0' y); echo; read line; echo $x >/dev/null";
        let mut child = Command::new("sh")
            .args(["-c", "exec 3<&0; setsid sh -c \"$1\" <&3 & wait", "sh", held])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        std::io::BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let measured = resident(&[(id, child.id())]);
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(measured.len(), 1);
        assert!((30_000_000..200_000_000).contains(&measured[0].1), "{measured:?}");
        assert!(resident(&[(id, child.id())]).is_empty());
    }
}

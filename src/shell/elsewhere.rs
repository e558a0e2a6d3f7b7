//! Shells on the other side of a server: what starts there, and how lspool finds what earlier servers left there.
//!
//! A shell there first reads lines from its stdin, each a variable, up to an empty one. So neither a secret nor a mark
//! is on a command line. **Each process there has a mark in its environment**: the mark of this lspool, and the number
//! of the start. Each further start ends what has another number than a living process. A connection that has broken
//! without a word leaves such processes.
//!
//! Only a process that cleared its environment and left its group stays.

use std::{cell::RefCell, collections::BTreeSet, fmt::Write as _, rc::Rc};

/// The variable with the mark.
const MARK: &str = "LSPOOL_REMOTE_MARK";

/// The variable with the numbers of living processes. Without it, nothing is ended.
const KEEP: &str = "LSPOOL_REMOTE_KEEP";

/// Ends what has the mark of this lspool and a number that is not to be kept. A greater number than its own is of a
/// start that came later and was faster. One `grep` looks at all processes.
const SWEEP: &str = r#"[ -z "$LSPOOL_REMOTE_KEEP" ] || for f in $(grep -lsz "^LSPOOL_REMOTE_MARK=${LSPOOL_REMOTE_MARK%-*}-" /proc/[0-9]*/environ); do m=$(tr '\0' '\n' <"$f" | grep '^LSPOOL_REMOTE_MARK='); [ -z "$m" ] || case "$LSPOOL_REMOTE_KEEP" in *" ${m##*-} "*) ;; *) [ "${m##*-}" -gt "${LSPOOL_REMOTE_MARK##*-}" ] || { f=${f#/proc/}; kill -KILL "${f%/environ}"; } ;; esac; done 2>/dev/null"#;

/// Runs the server, and ends it when the input is over: 2 s later with SIGTERM, 2 s later with SIGKILL. Engines leave
/// a server behind whose client is killed. Also ends what a server leaves in its group, and keeps the exit code.
///
/// `cat` must let go of the pipe when its input ends, or the server never sees the end. The second SIGTERM is for a
/// server that ends before the shell of `cat` has forgotten the trap: the first one passes it then.
pub(super) const TAIL: &str = r#"trap : TERM; { trap - TERM; cat; exec >&-; sleep 2; trap "" TERM; kill -TERM 0; trap - TERM; sleep 2; kill -KILL 0; } | { trap : TERM; "$@"; s=$?; kill -TERM 0; (trap "" TERM; sleep 1; kill -TERM 0; sleep 1; kill -KILL 0) </dev/null >/dev/null 2>&1 & exit $s; }"#;

/// Runs the next shell. Most engines make the first one the leader of a session. Where it is not, such as with
/// bubblewrap, the engine is in its group, and must not be ended with the server: if there is `setsid`, the next shell
/// gets a session of its own.
const NEXT: &str = r#"n=sh; if read -r l </proc/$$/stat; then l=${l##*) }; l=${l#* }; l=${l#* }; [ "${l%% *}" = $$ ] || ! command -v setsid || n="setsid sh"; fi >/dev/null 2>&1; exec $n "$@""#;

/// In an argument, this stands for the mark of the process.
pub(super) const MARK_HERE: &str = "@lspool-mark@";

/// The words that run a script for a server there. The variables hold from the second shell on: a mark counts only for
/// what starts with it.
pub(super) fn with_prelude(script: &str, server: impl IntoIterator<Item = String>) -> Vec<String> {
    let read = r#"while IFS= read -r l && [ -n "$l" ]; do export "$l"; done"#;
    let begin = format!(r#"{read}; {SWEEP}; unset {KEEP}; {NEXT}"#);
    let words = ["sh", "-c", &begin, "lspool", "-c", script, "lspool"].map(ToOwned::to_owned);
    words.into_iter().chain(server).collect()
}

/// A word for a POSIX shell.
pub(super) fn quoted(word: &str) -> String {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || "-_./:=,@%+".contains(it);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// The marks of the processes that this lspool has elsewhere.
#[derive(Clone, Debug)]
pub(super) struct Marks {
    mark: Rc<str>,
    numbers: Rc<RefCell<Numbers>>,
    /// Processes with greater numbers belong to a later hub.
    greatest: u32,
}

#[derive(Debug, Default)]
struct Numbers {
    last: u32,
    /// Those of processes that are not reaped.
    living: BTreeSet<u32>,
}

/// The mark of one process, as long as it lives.
#[derive(Debug)]
pub(super) struct Marked {
    marks: Marks,
    number: u32,
}

impl Marks {
    pub(super) fn new(mark: &str) -> Marks {
        Marks { mark: mark.into(), numbers: Rc::default(), greatest: u32::MAX }
    }

    /// The marks of a hub, which starts one process. All hubs at one socket have one mark and growing numbers, so each
    /// hub ends what the hub before it has left.
    pub(super) fn of_hub(mark: &str, number: u32) -> Marks {
        let numbers = Numbers { last: number.saturating_sub(1), living: BTreeSet::new() };
        Marks { mark: mark.into(), numbers: Rc::new(numbers.into()), greatest: number }
    }

    /// The commands for a shell there that end all processes with these marks.
    pub(super) fn farewell(&self) -> String {
        format!("{MARK}={}-{}\n{KEEP}=' - '\n{SWEEP}\nexit\n", self.mark, self.greatest)
    }

    /// A mark for a new process.
    pub(super) fn next(&self) -> Marked {
        let mut numbers = self.numbers.borrow_mut();
        numbers.last += 1;
        let number = numbers.last;
        numbers.living.insert(number);
        Marked { marks: self.clone(), number }
    }
}

impl Marked {
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    fn value(&self) -> String {
        format!("{}-{}", self.marks.mark, self.number)
    }

    /// An argument with the mark in its place.
    pub(super) fn fill_in(&self, argument: &str) -> String {
        argument.replace(MARK_HERE, &self.value())
    }

    /// The lines for the shell there.
    pub(super) fn prelude(&self, env: &[(String, String)]) -> String {
        let mut lines = format!("{MARK}={}\n", self.value());
        // Nothing is there before the first.
        if self.number > 1 {
            let living = &self.marks.numbers.borrow().living;
            let living: Vec<String> = living.iter().map(ToString::to_string).collect();
            writeln!(lines, "{KEEP}= {} ", living.join(" ")).expect("a text takes all");
        }
        for (name, value) in env {
            writeln!(lines, "{name}={value}").expect("a text takes all");
        }
        lines + "\n"
    }
}

impl Drop for Marked {
    fn drop(&mut self) {
        self.marks.numbers.borrow_mut().living.remove(&self.number);
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::{
        io::Write as _,
        process::{Child, Command, Stdio},
    };

    use super::*;

    fn start(marked: &Marked, env: &[(String, String)], script: &str) -> Child {
        start_with(&marked.prelude(env), script)
    }

    fn start_with(prelude: &str, script: &str) -> Child {
        let words = with_prelude(script, ["cat".to_owned()]);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        child.stdin.as_mut().unwrap().write_all(prelude.as_bytes()).unwrap();
        child
    }

    /// Whether the script of a child has begun.
    fn is_there(child: &mut Child) -> bool {
        let mut line = [0; 6];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut line).unwrap();
        &line == b"there\n"
    }

    fn unique() -> String {
        format!("{}-{}", std::process::id(), std::thread::current().name().unwrap_or_default().len())
    }

    #[test]
    fn server_gets_variables_and_its_own_input() {
        let marks = Marks::new(&unique());
        let env = [("TOKEN".to_owned(), "a 'b' \\ $c=".to_owned())];
        let mut child = start(&marks.next(), &env, r#"echo "$TOKEN-${LSPOOL_REMOTE_KEEP-unset}"; exec "$@""#);
        child.stdin.take().unwrap().write_all(b"\nthe rest\n").unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "a 'b' \\ $c=-unset\n\nthe rest\n");
    }

    /// An engine that makes no session, like bubblewrap.
    #[test]
    fn exit_code_passes_an_engine_in_the_same_group() {
        use std::os::unix::process::CommandExt as _;
        if Command::new("setsid").arg("true").status().is_err() {
            return eprintln!("NOT RUN: there is no setsid");
        }
        let mut engine = Command::new("sh");
        engine.process_group(0).args(["-c", r#""$@"; echo "exit code $?""#, "engine"]);
        let server = ["sh", "-c", "exit 7"].map(ToOwned::to_owned);
        engine.args(with_prelude(TAIL, server)).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut engine = engine.stderr(Stdio::null()).spawn().unwrap();
        let mut stdin = engine.stdin.take().unwrap();
        stdin.write_all(Marks::new(&unique()).next().prelude(&[]).as_bytes()).unwrap();
        let output = engine.wait_with_output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "exit code 7\n");
    }

    #[test]
    fn slow_start_leaves_later_one_alone() {
        let marks = Marks::new(&format!("{}-later", unique()));
        let run = r#"echo there; exec "$@""#;
        let (_first, second) = (marks.next(), marks.next());
        let early = second.prelude(&[]);
        let third = marks.next();
        let mut line = [0; 6];
        let mut later = start(&third, &[], run);
        std::io::Read::read_exact(later.stdout.as_mut().unwrap(), &mut line).unwrap();
        let mut slow = start_with(&early, run);
        std::io::Read::read_exact(slow.stdout.as_mut().unwrap(), &mut line).unwrap();
        assert!(later.try_wait().unwrap().is_none(), "it is none that was left behind");
        for mut it in [later, slow] {
            drop(it.stdin.take());
            it.wait().unwrap();
        }
    }

    #[test]
    fn start_ends_what_no_living_process_has() {
        let marks = Marks::new(&unique());
        let run = r#"echo there; exec "$@""#;
        let (first, second) = (marks.next(), marks.next());
        let (mut lost, mut living) = (start(&first, &[], run), start(&second, &[], run));
        assert!(is_there(&mut lost) && is_there(&mut living));
        drop(first);
        let third = marks.next();
        let mut next = start(&third, &[], run);
        assert!(is_there(&mut next));
        // It has ended before the next one began.
        assert!(!lost.wait().unwrap().success(), "its number is of no living process");
        assert!(living.try_wait().unwrap().is_none());

        let mut shell = Command::new("sh").stdin(Stdio::piped()).spawn().unwrap();
        shell.stdin.take().unwrap().write_all(marks.farewell().as_bytes()).unwrap();
        // Before the others: a wait for them ends their input.
        assert!(shell.wait().unwrap().success());
        assert!(!living.wait().unwrap().success() && !next.wait().unwrap().success());
    }

    #[test]
    fn hub_ends_what_the_one_before_has_left_and_spares_the_next() {
        let mark = format!("{}-hub", unique());
        let run = r#"echo there; exec "$@""#;
        let (before, after) = (Marks::of_hub(&mark, 100), Marks::of_hub(&mark, 101));
        let mut lost = start(&before.next(), &[], run);
        assert!(is_there(&mut lost));
        let mut living = start(&after.next(), &[], run);
        assert!(is_there(&mut living));
        assert!(!lost.wait().unwrap().success());
        // The guard of the first hub is late.
        let mut shell = Command::new("sh").stdin(Stdio::piped()).spawn().unwrap();
        shell.stdin.take().unwrap().write_all(before.farewell().as_bytes()).unwrap();
        assert!(shell.wait().unwrap().success());
        assert!(living.try_wait().unwrap().is_none());
        drop(living.stdin.take());
        living.wait().unwrap();
    }
}

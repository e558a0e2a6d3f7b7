//! What happens in a run: steps whose indices are resolved modulo what there is, so that a script stays
//! meaningful while it is shrunk.

use std::time::Duration;

use proptest::{collection::vec, prelude::*};

use crate::config::{Backoff, Policy, Profile, Restart, ServerConfig};

/// One action of a peer.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Editor(Editor),
    Server(u8, Server),
    Shell(Shell),
    Control(u8, Control),
    /// Time passes, in milliseconds.
    Pass(u32),
}

/// An action of the editor. Ids come from a small pool, so that they collide.
#[derive(Clone, Debug)]
pub(super) enum Editor {
    Initialize {
        id: u8,
    },
    Initialized,
    Request {
        id: u8,
        method: u8,
        of: u8,
    },
    /// Requests to lspool itself.
    Control {
        id: u8,
        method: u8,
        of: u8,
    },
    Notify {
        method: u8,
    },
    Create {
        id: u8,
        set: u8,
        conversation: u8,
        token: u8,
    },
    Turn {
        id: u8,
        conversation: u8,
        token: u8,
    },
    Destroy {
        id: u8,
        conversation: u8,
    },
    Cancel {
        open: u8,
    },
    CancelUnknown {
        id: u8,
    },
    CancelProgress {
        token: u8,
    },
    Open {
        document: u8,
    },
    Change {
        document: u8,
        whole: bool,
    },
    Close {
        document: u8,
    },
    Register {
        id: u8,
        tools: u8,
    },
    Unregister {
        id: u8,
        tool: u8,
    },
    Status {
        id: u8,
        tool: u8,
        on: bool,
    },
    Configure {
        mcp: bool,
    },
    Answer {
        asked: u8,
        fails: bool,
    },
    AnswerAgain {
        asked: u8,
    },
    AnswerUnknown {
        id: u8,
    },
    Malformed {
        asked: u8,
    },
    Shutdown {
        id: u8,
    },
    Exit,
    EndOfFile,
}

/// An action of a server's process.
#[derive(Clone, Debug)]
pub(super) enum Server {
    Answer {
        asked: u8,
        fails: bool,
    },
    AnswerAgain {
        asked: u8,
    },
    AnswerUnknown {
        id: u8,
    },
    /// With a number of a request to another process.
    AnswerForeign {
        process: u8,
        asked: u8,
    },
    MalformedAnswer {
        asked: u8,
    },
    Malformed,
    Request {
        id: u8,
        method: u8,
    },
    ToolCall {
        id: u8,
        tool: u8,
        conversation: u8,
        confirmation: bool,
    },
    Cancel {
        asked: u8,
    },
    Register {
        id: u8,
        registration: u8,
        method: u8,
    },
    Unregister {
        id: u8,
        registration: u8,
    },
    CreateToken {
        id: u8,
        token: u8,
    },
    Begin {
        token: u8,
    },
    Report {
        token: u8,
    },
    End {
        token: u8,
    },
    BeginTurn {
        turn: u8,
    },
    EndTurn {
        turn: u8,
    },
    /// Progress of a turn: text, a call of a server's tool, or its result.
    ReportTurn {
        turn: u8,
        what: u8,
    },
    Notify {
        method: u8,
    },
    Publish {
        uri: u8,
        empty: bool,
    },
    McpTools,
    Close,
    Stall,
}

impl Server {
    /// Whether this is something that no server should do.
    pub(super) fn is_fault(&self) -> bool {
        matches!(
            self,
            Server::AnswerAgain { .. }
                | Server::AnswerUnknown { .. }
                | Server::AnswerForeign { .. }
                | Server::MalformedAnswer { .. }
                | Server::Malformed
                | Server::Close
                | Server::Stall
        )
    }
}

/// An action of the operating system.
#[derive(Clone, Debug)]
pub(super) enum Shell {
    Prepared,
    Unprepared,
    Spawned(u8),
    SpawnFailed(u8, bool),
    Exited(u8),
    /// A transcript is written, or cannot be.
    Written {
        fails: bool,
    },
    /// So much memory do the processes hold that were asked for.
    Measured {
        over: bool,
    },
    /// A user edits the configuration, with or without a notice.
    Edit(Edit, bool),
    /// Whether the editor reads.
    Reads(bool),
    /// Processes start, and do what lspool wants, until it wants nothing more.
    Serve,
}

/// An action of a control client.
#[derive(Clone, Debug)]
pub(super) enum Control {
    Ask { id: u8, method: u8, of: u8 },
    Odd { id: u8 },
    Unknown { id: u8 },
    Leave,
}

/// A change in the configuration files.
#[derive(Clone, Debug)]
pub(super) enum Edit {
    Launch,
    Agents,
    Settings(Box<ServerConfig>),
    /// They cannot be read until it is mended.
    Mistake,
}

/// A run.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "they are chosen independently of one another")]
pub(super) struct Script {
    pub(super) copilot: bool,
    /// Everything up to `initialized` has gone well already.
    pub(super) started: bool,
    /// Partitions that do not let go of their own tools.
    pub(super) stubborn: bool,
    pub(super) server: ServerConfig,
    pub(super) steps: Vec<Step>,
    /// At last the editor shuts down; else it only closes its stream.
    pub(super) polite: bool,
}

pub(super) fn script() -> impl Strategy<Value = Script> {
    let chance = |percent: u32| prop::bool::weighted(f64::from(percent) / 100.0);
    let rules = (chance(85), chance(85), chance(10), settings());
    (rules, vec(step(), 0..80), any::<bool>()).prop_map(|(rules, steps, polite)| {
        let (copilot, started, stubborn, server) = rules;
        Script { copilot, started, stubborn, server, steps, polite }
    })
}

fn settings() -> impl Strategy<Value = ServerConfig> {
    let seconds = |all: &[u64]| prop::sample::select(all.to_vec()).prop_map(Duration::from_secs);
    let numbers = (1..4_usize, prop_oneof![2 => Just(0), 1 => 1..3_usize], prop::option::of(Just(1 << 30)));
    let times = (seconds(&[0, 5, 300]), seconds(&[60, 60, 0]), prop::option::of(seconds(&[0, 60, 60])));
    (numbers, times, policy()).prop_map(|(numbers, times, policy)| {
        let (max_processes, warm_spares, memory_limit) = numbers;
        let (idle_timeout, stall_timeout, hang_timeout) = times;
        ServerConfig {
            max_processes,
            warm_spares,
            idle_timeout,
            policy,
            memory_limit,
            stall_timeout: Some(stall_timeout),
            hang_timeout,
            ..ServerConfig::default()
        }
    })
}

fn policy() -> impl Strategy<Value = Policy> {
    let restart = prop::sample::select(vec![
        Restart::OnFailure,
        Restart::OnFailure,
        Restart::OnFailure,
        Restart::Always,
        Restart::Never,
    ]);
    let backoff = (prop::sample::select(vec![0, 1000]), any::<bool>());
    (restart, prop::bool::weighted(0.8), prop_oneof![2 => Just(5), 1 => 0..3_usize], backoff).prop_map(
        |(restart, required, max_restarts, (initial, immediate_first))| {
            let usual = Profile::Resilient.policy();
            let initial = Duration::from_millis(initial);
            let backoff = Backoff { initial, ..usual.backoff };
            Policy { restart, required, max_restarts, immediate_first, backoff, ..usual }
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        10 => editor().prop_map(Step::Editor),
        10 => (any::<u8>(), server()).prop_map(|(process, it)| Step::Server(process, it)),
        4 => shell().prop_map(Step::Shell),
        1 => (any::<u8>(), control()).prop_map(|(who, it)| Step::Control(who, it)),
        1 => prop::sample::select(vec![0, 1, 1_000, 6_000, 40_000, 400_000]).prop_map(Step::Pass),
    ]
}

fn editor() -> impl Strategy<Value = Editor> {
    use Editor as E;
    let n = any::<u8>;
    let many = prop_oneof![
        8 => (n(), n(), n()).prop_map(|(id, method, of)| E::Request { id, method, of }),
        1 => (n(), n(), n()).prop_map(|(id, method, of)| E::Control { id, method, of }),
        4 => n().prop_map(|method| E::Notify { method }),
        12 => (n(), n(), n(), n())
            .prop_map(|(id, set, conversation, token)| E::Create { id, set, conversation, token }),
        8 => (n(), n(), n()).prop_map(|(id, conversation, token)| E::Turn { id, conversation, token }),
        3 => (n(), n()).prop_map(|(id, conversation)| E::Destroy { id, conversation }),
        5 => n().prop_map(|open| E::Cancel { open }),
        3 => n().prop_map(|token| E::CancelProgress { token }),
    ];
    let some = prop_oneof![
        3 => n().prop_map(|document| E::Open { document }),
        4 => (n(), any::<bool>()).prop_map(|(document, whole)| E::Change { document, whole }),
        1 => n().prop_map(|document| E::Close { document }),
        3 => (n(), n()).prop_map(|(id, tools)| E::Register { id, tools }),
        2 => (n(), n()).prop_map(|(id, tool)| E::Unregister { id, tool }),
        1 => (n(), n(), any::<bool>()).prop_map(|(id, tool, on)| E::Status { id, tool, on }),
        1 => any::<bool>().prop_map(|mcp| E::Configure { mcp }),
        8 => (n(), any::<bool>()).prop_map(|(asked, fails)| E::Answer { asked, fails }),
        1 => n().prop_map(|asked| E::AnswerAgain { asked }),
    ];
    let few = prop_oneof![
        n().prop_map(|id| E::AnswerUnknown { id }),
        n().prop_map(|id| E::CancelUnknown { id }),
        n().prop_map(|asked| E::Malformed { asked }),
        n().prop_map(|id| E::Initialize { id }),
        Just(E::Initialized),
    ];
    let last = prop_oneof![
        2 => n().prop_map(|id| E::Shutdown { id }),
        1 => Just(E::Exit),
        1 => Just(E::EndOfFile),
    ];
    prop_oneof![40 => many, 28 => some, 6 => few, 1 => last]
}

fn server() -> impl Strategy<Value = Server> {
    use Server as S;
    let n = any::<u8>;
    let many = prop_oneof![
        20 => (n(), prop::bool::weighted(0.2)).prop_map(|(asked, fails)| S::Answer { asked, fails }),
        4 => (n(), n()).prop_map(|(id, method)| S::Request { id, method }),
        8 => (n(), n(), n(), any::<bool>())
            .prop_map(|(id, tool, conversation, confirmation)| S::ToolCall { id, tool, conversation, confirmation }),
        2 => n().prop_map(|asked| S::Cancel { asked }),
        3 => (n(), n(), n())
            .prop_map(|(id, registration, method)| S::Register { id, registration, method }),
        2 => (n(), n()).prop_map(|(id, registration)| S::Unregister { id, registration }),
        3 => (n(), n()).prop_map(|(id, token)| S::CreateToken { id, token }),
    ];
    let some = prop_oneof![
        1 => n().prop_map(|token| S::Begin { token }),
        1 => n().prop_map(|token| S::Report { token }),
        1 => n().prop_map(|token| S::End { token }),
        3 => n().prop_map(|turn| S::BeginTurn { turn }),
        3 => (n(), n()).prop_map(|(turn, what)| S::ReportTurn { turn, what }),
        1 => n().prop_map(|turn| S::EndTurn { turn }),
        1 => n().prop_map(|method| S::Notify { method }),
        1 => (n(), any::<bool>()).prop_map(|(uri, empty)| S::Publish { uri, empty }),
        1 => Just(S::McpTools),
    ];
    let few = prop_oneof![
        n().prop_map(|asked| S::AnswerAgain { asked }),
        n().prop_map(|id| S::AnswerUnknown { id }),
        (n(), n()).prop_map(|(process, asked)| S::AnswerForeign { process, asked }),
        n().prop_map(|asked| S::MalformedAnswer { asked }),
        Just(S::Malformed),
        Just(S::Close),
        Just(S::Stall),
    ];
    prop_oneof![42 => many, 20 => some, 4 => few]
}

fn shell() -> impl Strategy<Value = Shell> {
    let n = any::<u8>;
    prop_oneof![
        100 => Just(Shell::Serve),
        30 => n().prop_map(Shell::Spawned),
        15 => n().prop_map(Shell::Exited),
        10 => Just(Shell::Prepared),
        10 => prop::bool::weighted(0.3).prop_map(|fails| Shell::Written { fails }),
        5 => (n(), any::<bool>()).prop_map(|(process, permanent)| Shell::SpawnFailed(process, permanent)),
        8 => prop::bool::weighted(0.3).prop_map(|over| Shell::Measured { over }),
        8 => (edit(), prop::bool::weighted(0.8)).prop_map(|(edit, is_noticed)| Shell::Edit(edit, is_noticed)),
        5 => any::<bool>().prop_map(Shell::Reads),
        // Ends a run that has hardly begun.
        1 => Just(Shell::Unprepared),
    ]
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        3 => Just(Edit::Launch),
        1 => Just(Edit::Agents),
        2 => settings().prop_map(|it| Edit::Settings(Box::new(it))),
        1 => Just(Edit::Mistake),
    ]
}

fn control() -> impl Strategy<Value = Control> {
    use Control as C;
    let n = any::<u8>;
    prop_oneof![
        10 => (n(), n(), n()).prop_map(|(id, method, of)| C::Ask { id, method, of }),
        1 => n().prop_map(|id| C::Odd { id }),
        1 => n().prop_map(|id| C::Unknown { id }),
        2 => Just(C::Leave),
    ]
}

//! lspool at work, for people to watch: `scripts/demo` builds and starts this.
//!
//! It plays an editor whose lead agent has every tool, and whose other agents have few, in front of the real Copilot
//! server (its models are a stub on loopback) or of a recording of it (`lspool serve-recording`). It says what it sees as
//! it happens, checks it, and fails if something is not as it should be.

#[path = "../tests/it/support/mod.rs"]
mod support;

use std::{
    fmt::Display,
    io::{self, IsTerminal as _, Write as _},
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    time::{Duration, Instant},
};

use clap::Parser;
use serde_json::{Value, json};

use support::{
    copilot::{Copilot, Options, Turn, tool_answer},
    editor::{RpcError, ServerRequest},
    real::{self, Sandbox},
    stub::{LogEntry, Outcome, Round, Rule, Script, Stub},
};

#[derive(Parser)]
struct Arguments {
    /// Why the real server is not taken; the recorded one is.
    #[arg(long, value_name = "WHY")]
    recorded: Option<String>,
    /// How the network is shut off, to say it.
    #[arg(long, default_value = "not shut off; the servers' proxy variables point at the stub")]
    network: String,
}

/// The agents: name, tools as the editor asks for them, first message, and what it should come to.
const AGENTS: [Agent; 4] = [
    Agent { name: "lead", tools: None, says: "[ticket] what is to be done?", calls: "fetch_ticket" },
    Agent {
        name: "explorer",
        tools: Some(&["read_file", "list_dir"]),
        says: "[read] what do the notes say?",
        calls: "read_file",
    },
    Agent {
        name: "explorer 2",
        tools: Some(&["list_dir", "read_file"]),
        says: "[read] and to you?",
        calls: "read_file",
    },
    Agent {
        name: "shell",
        tools: Some(&["run_in_terminal"]),
        says: "[run] do the tests pass?",
        calls: "run_in_terminal",
    },
];

struct Agent {
    name: &'static str,
    tools: Option<&'static [&'static str]>,
    says: &'static str,
    calls: &'static str,
}

/// What the editor registers.
const CLIENT_TOOLS: [&str; 3] = ["read_file", "run_in_terminal", "fetch_ticket"];

/// What the editor's tools answer.
fn result_of(tool: &str) -> &'static str {
    match tool {
        "fetch_ticket" => "ABC-1: the tests are slow",
        "read_file" => "notes: see the ticket",
        _ => "12 tests passed",
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let mut show = Show::new();
    let script = script();
    let stub = Stub::start(script);
    let sandbox = Sandbox::new();
    let folder = folder_of_builds();
    let is_recorded = arguments.recorded.is_some();
    let (server, name) = match &arguments.recorded {
        Some(why) => {
            (folder.join("lspool"), format!("a recording of the real copilot-language-server, since {why}"))
        }
        None => (real::copilot(), format!("the real copilot-language-server {}", version())),
    };
    let lspool = folder.join("lspool");

    show.title("An editor starts lspool instead of its language server");
    show.fact("server", name);
    show.fact("network", &arguments.network);
    if !is_recorded {
        show.fact("models", format!("a stub at {}: their answers are written down in this demo", stub.url()));
    }
    let mut command = sandbox.signed_in_command(&lspool, &stub);
    if is_recorded {
        let config = sandbox.write("../config.toml", "[server.lspool]\nkind = \"copilot\"\n");
        command.arg("--config").arg(config);
    }
    command.arg("--").arg(&server).arg(if is_recorded { "serve-recording" } else { "--stdio" });
    show.fact("command", words(&command));
    let session = Copilot::start(command, Options::in_workspace(sandbox.workspace()));
    let status = session.ok("checkStatus", json!({}));
    show.event("editor", format!("initialized; signed in as {}", status["user"].as_str().unwrap_or("?")));
    let registered = session.register_tools(&CLIENT_TOOLS);
    show.check(registered.is_ok(), format!("the editor registers the tools {}", CLIENT_TOOLS.join(", ")));
    session.hold_tools();

    let all_tools = registered.unwrap_or_default();
    let all_tools = all_tools.as_array().into_iter().flatten().filter_map(|it| it["name"].as_str());
    let all_tools = sorted(all_tools.map(ToOwned::to_owned));

    let demo = Demo { session, stub, server, all_tools, is_recorded };
    let conversations = demo.four_agents(&mut show);
    demo.tool_calls(&mut show, &conversations);
    demo.outside(&mut show, &conversations[1]);
    demo.cancelled(&mut show, &conversations[0]);
    demo.end(&mut show)
}

/// What the models of the stub say. The real server then does the rest.
fn script() -> Script {
    let call = |word: &str, tool: &str, input: Value| {
        Rule::on(word)
            .then(Round::default().gate("all asked").call(tool, input))
            .then(Round::text("{results}"))
    };
    let command = json!({"command": "make test", "explanation": "Run the tests.", "isBackground": false});
    let file = json!({"filePath": "/notes.txt", "startLine": 1, "endLine": 9});
    let ticket = json!({"key": "ABC-1"});
    Script::default()
        .rule(call("[ticket]", "fetch_ticket", ticket.clone()))
        .rule(call("[read]", "read_file", file))
        .rule(call("[run]", "run_in_terminal", command.clone()))
        .rule(call("[outside]", "run_in_terminal", command))
        .rule(call("[wait]", "fetch_ticket", ticket))
}

/// An editor in the middle of its work.
struct Demo {
    session: Copilot,
    stub: Stub,
    server: PathBuf,
    /// What the server says that it has.
    all_tools: Vec<String>,
    is_recorded: bool,
}

/// A conversation that has begun.
struct Conversation {
    agent: &'static Agent,
    turn: Turn,
    pid: u32,
}

impl Demo {
    /// All create their conversations at once, and each is seen at the model.
    fn four_agents(&self, show: &mut Show) -> Vec<Conversation> {
        show.title("Four agents begin conversations at once; equal tool sets share a process");
        let begun: Vec<(&'static Agent, Turn)> = AGENTS
            .iter()
            .map(|agent| {
                let more = agent.tools.map_or(json!({}), |tools| json!({"lspool": {"tools": tools}}));
                (agent, self.session.create(agent.says, more))
            })
            .collect();
        show.event("editor", "conversation/create ×4, without waiting for answers");
        let who = if self.is_recorded { "its tools" } else { "what its model is offered" };
        show.row("AGENT", format!("process  {who}"));
        let mut seen: Vec<(Conversation, Vec<String>)> = Vec::new();
        let mut waiting = begun;
        while !waiting.is_empty() {
            let (agent, turn) = waiting.remove(self.next_to_be_seen(&waiting));
            let (pid, tools) = self.seen(agent, &turn);
            show.event(agent.name, format!("{pid:<8} {}", tools.join(", ")));
            seen.push((Conversation { agent, turn, pid }, tools));
        }
        seen.sort_by_key(|(it, _)| AGENTS.iter().position(|agent| agent.name == it.agent.name));
        let exact = seen.iter().all(|(it, tools)| match it.agent.tools {
            Some(set) => sorted(set.iter().map(ToString::to_string)) == *tools,
            None => CLIENT_TOOLS.iter().chain(&["list_dir"]).all(|it| tools.iter().any(|tool| tool == it)),
        });
        show.check(exact, "each has the tools of its agent and no others; the lead has all");
        let [lead, explorer, explorer_2, shell] = [0, 1, 2, 3].map(|n| seen[n].0.pid);
        let apart = lead != explorer && explorer != shell && lead != shell;
        let known = [lead, explorer, shell].iter().all(|pid| *pid != 0);
        show.check(known && apart && explorer == explorer_2, "three processes serve the four conversations");
        seen.into_iter().map(|(it, _)| it).collect()
    }

    /// Which of these the models are asked for first. A model of the stub does not answer yet.
    fn next_to_be_seen(&self, waiting: &[(&Agent, Turn)]) -> usize {
        if self.is_recorded {
            return 0;
        }
        let asked = |log: &[LogEntry]| {
            waiting.iter().position(|(agent, _)| log.iter().any(|it| it.is_turn() && asks(it, agent.says)))
        };
        asked(&self.stub.wait_for("a model request of the next agent", |log| asked(log).is_some()))
            .unwrap_or(0)
    }

    /// Which process serves the conversation, and which tools its model was offered.
    fn seen(&self, agent: &Agent, turn: &Turn) -> (u32, Vec<String>) {
        if self.is_recorded {
            self.session.wait_progress(turn, "its begin", |it| it.begins > 0);
            return self.placed(agent);
        }
        let log = self.stub.log();
        let entry = log.iter().find(|it| it.is_turn() && asks(it, agent.says)).expect("it was waited for");
        // The process that has the other end of the connection.
        let processes = self.session.mark().processes();
        let pid = processes.iter().find(|it| it.has_port(entry.port)).map_or(0, |it| it.pid);
        (pid, sorted(entry.chat.iter().flat_map(|it| it.tools.clone())))
    }

    /// Which process lspool says that it has for an agent, and with which tools. No model was there to be seen.
    fn placed(&self, agent: &Agent) -> (u32, Vec<String>) {
        let status = self.session.ok("lspool/status", json!({}));
        let tools = agent.tools.map(|it| sorted(it.iter().map(ToString::to_string)));
        let has_them = |it: &&Value| {
            let set = it["toolset"].as_array();
            set.map(|it| sorted(it.iter().filter_map(|it| it.as_str().map(ToOwned::to_owned)))) == tools
        };
        let backend = status["backends"].as_array().and_then(|it| it.iter().find(has_them));
        let pid = backend.and_then(|it| it["pid"].as_u64()).and_then(|it| u32::try_from(it).ok());
        (pid.unwrap_or_default(), tools.unwrap_or_else(|| self.all_tools.clone()))
    }

    /// All four agents wait for a tool at the same time; the editor answers the last one first.
    fn tool_calls(&self, show: &mut Show, conversations: &[Conversation]) {
        show.title("Every agent calls a tool of the editor; it answers in reverse order");
        self.stub.open("all asked");
        let calls: Vec<ServerRequest> = conversations
            .iter()
            .map(|it| {
                let progress = self.session.wait_progress(&it.turn, "its begin", |it| it.begins > 0);
                let call = self.session.expect_request_where("conversation/invokeClientTool", |params| {
                    params["conversationId"] == progress.conversation
                });
                show.event(it.agent.name, format!("process {} calls {}", it.pid, named(&call)));
                call
            })
            .collect();
        for (conversation, call) in conversations.iter().zip(&calls).rev() {
            let result = result_of(conversation.agent.calls);
            show.event("editor", format!("answers {}: {result}", conversation.agent.name));
            self.session.answer(call, Ok(tool_answer(Ok(result.to_owned()))));
        }
        let mut right = true;
        for conversation in conversations {
            let outcome = self.session.finish(&conversation.turn);
            outcome.expect_success();
            right &= outcome.progress.text.contains(result_of(conversation.agent.calls));
            show.event(conversation.agent.name, format!("says: {}", outcome.progress.text));
        }
        show.check(right, "every answer has reached the model that had asked");
    }

    /// A call of a tool that is not in the set.
    fn outside(&self, show: &mut Show, explorer: &Conversation) {
        show.title("The explorer's model asks for a tool outside its set");
        let asked = self.tool_requests();
        let outcome = self.session.finish(&self.next_turn(explorer, "[outside] run the tests"));
        outcome.expect_success();
        let told = &outcome.progress.text;
        show.event(
            "model",
            "asks for run_in_terminal, which it was not offered: this process does not know it",
        );
        show.event("explorer", format!("process {} tells the model: {told}", explorer.pid));
        show.check(told.contains("run_in_terminal not found"), "the server itself has refused the call");
        show.check(asked == self.tool_requests(), "the editor was not asked");
    }

    /// A turn that is cancelled while it waits for a tool.
    fn cancelled(&self, show: &mut Show, lead: &Conversation) {
        show.title("The lead's next turn is cancelled while it waits for a tool");
        let turn = self.next_turn(lead, "[wait] once more, please");
        let call = self.session.expect_request("conversation/invokeClientTool");
        show.event("lead", format!("process {} calls {}", lead.pid, named(&call)));
        self.session.cancel(&turn.pending);
        show.event("editor", "cancels the turn, and leaves the tool call unanswered");
        self.session.wait_notification("$/cancelRequest", |params| params["id"] == call.id);
        show.event("lspool", "answers the tool call itself and takes it back at the editor");
        let outcome = self.session.finish(&turn);
        let ends = &outcome.progress.ends;
        let is_once = outcome.progress.begins == 1 && ends.len() == 1;
        let reason = ends[0]["cancellationReason"].as_str().unwrap_or("no reason");
        show.event("lead", format!("the turn has ended: {reason}"));
        self.session.answer(&call, Err(RpcError::new(-32800, "cancelled")));
        show.check(is_once && reason == "CancelledByUser", "one end, one answer");
        let next = self.session.finish(&self.next_turn(lead, "hello again"));
        show.event("lead", format!("says in its next turn: {}", next.progress.text));
        show.check(next.progress.text.contains("hello again"), "the conversation goes on");
    }

    fn next_turn(&self, conversation: &Conversation, message: &str) -> Turn {
        let id = self.session.progress(&conversation.turn.token).conversation;
        self.session.turn(&id, message, json!({}))
    }

    /// How often the editor was asked for a tool.
    fn tool_requests(&self) -> usize {
        let asked = |method: Option<&str>| method.is_some_and(|it| it.starts_with("conversation/invoke"));
        self.session.transcript().iter().filter(|it| asked(it.method())).count()
    }

    /// Shutdown, and what is left.
    fn end(self, show: &mut Show) -> ExitCode {
        show.title("The editor ends");
        let mark = self.session.mark().clone();
        let processes = mark.processes();
        show.row("before", "resident");
        for process in &processes {
            let memory = format!("{} MB", process.resident_kib() / 1000);
            let command =
                process.command.replace(&self.server.display().to_string(), &file_name(&self.server));
            show.row(format!("pid {}", process.pid), format!("{memory:>9}  {}", shortened(&command)));
        }
        let server = format!("{} serve-recording", self.server.display());
        let server = if self.is_recorded { server } else { self.server.display().to_string() };
        let n_servers = processes.iter().filter(|it| it.command.starts_with(&server));
        show.check(n_servers.count() == 3, "lspool, its guard and three servers run");
        let status = self.session.shutdown();
        show.event("editor", "shutdown, exit");
        show.check(status.success(), format!("lspool ends with {status}"));
        let start = Instant::now();
        while !mark.processes().is_empty() && start.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(Duration::from_millis(10));
        }
        let left = mark.processes().len();
        show.check(left == 0, format!("of {} processes {left} are left", processes.len()));
        if !self.is_recorded {
            let log = self.stub.log();
            let refused = log.iter().filter(|it| it.outcome == Outcome::Refused);
            let refused = list(refused.map(|it| it.path.clone()));
            show.event("stub", format!("{} requests; would have gone elsewhere: {refused}", log.len()));
        }
        drop(self.session);
        show.verdict()
    }
}

/// What the person at the terminal sees.
struct Show {
    start: Instant,
    color: bool,
    n_checks: usize,
    failed: Vec<String>,
}

impl Show {
    fn new() -> Show {
        let color = io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        Show { start: Instant::now(), color, n_checks: 0, failed: Vec::new() }
    }

    fn line(&self, style: &str, text: &str) {
        let line = match self.color {
            true => format!("\x1b[{style}m{text}\x1b[0m\n"),
            false => format!("{text}\n"),
        };
        // Nobody may be watching any more; the checks go on.
        io::stdout().write_all(line.as_bytes()).ok();
    }

    fn title(&self, text: &str) {
        self.line("1", &format!("\n{text}"));
    }

    fn fact(&self, name: &str, text: impl Display) {
        self.line("0", &format!("           {name:<11} {text}"));
    }

    fn event(&self, who: &str, text: impl Display) {
        let at = self.start.elapsed().as_secs_f64();
        self.line("0", &format!("  {at:6.2} s {who:<11} {text}"));
    }

    fn row(&self, first: impl Display, text: impl Display) {
        self.line("36", &format!("           {first:<11} {text}"));
    }

    fn check(&mut self, holds: bool, what: impl Display) {
        self.n_checks += 1;
        match holds {
            true => self.line("32", &format!("       ok  {what}")),
            false => {
                self.line("31", &format!("   NOT SO  {what}"));
                self.failed.push(what.to_string());
            }
        }
    }

    fn verdict(&self) -> ExitCode {
        match self.failed.is_empty() {
            true => {
                self.line("1", &format!("\nAll {} checks hold.", self.n_checks));
                ExitCode::SUCCESS
            }
            false => {
                self.line("1;31", &format!("\nNot as it should be: {}", self.failed.join("; ")));
                ExitCode::FAILURE
            }
        }
    }
}

fn asks(entry: &LogEntry, message: &str) -> bool {
    entry.chat.as_ref().is_some_and(|it| it.user == message)
}

fn named(call: &ServerRequest) -> String {
    format!("{} {}", call.params["name"].as_str().unwrap_or("?"), call.params["input"])
}

fn sorted(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut names: Vec<String> = names.collect();
    names.sort_unstable();
    names
}

fn list(names: impl Iterator<Item = String>) -> String {
    let mut names = sorted(names);
    names.dedup();
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}

/// `target/debug`, where this demo was built with what it starts.
fn folder_of_builds() -> PathBuf {
    let me = std::env::current_exe().expect("a running program has a file");
    let folder = me.parent().and_then(Path::parent);
    folder.expect("it lies in the folder examples of the build").to_owned()
}

fn version() -> String {
    let package = real::copilot().with_file_name("package.json");
    let package = std::fs::read(package).unwrap_or_default();
    let package: Value = serde_json::from_slice(&package).unwrap_or_default();
    package["version"].as_str().unwrap_or("of unknown version").to_owned()
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// A command line without the folders.
fn shortened(command: &str) -> String {
    let last = |word: &str| file_name(Path::new(word));
    command.split(' ').map(last).collect::<Vec<_>>().join(" ")
}

fn words(command: &Command) -> String {
    let words = [command.get_program()].into_iter().chain(command.get_args());
    words.map(|it| file_name(Path::new(it))).collect::<Vec<_>>().join(" ")
}

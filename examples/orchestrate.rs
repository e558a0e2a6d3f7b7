//! `lspool orchestrate` at work, for people to watch: `scripts/demo --orchestrate` builds and starts this.
//!
//! In a fresh folder, on the real Copilot server whose models are a stub on loopback: what they say is written down here.
//! What comes of it is real: files are written, a command is run, and the plan is drawn as it is done.

#[path = "../tests/it/support/mod.rs"]
mod support;

use std::{
    env,
    io::{self, Write as _},
    process::ExitCode,
};

use serde_json::json;

use support::{
    real::{self, Sandbox},
    stub::{Round, Rule, Script, Stub},
};

const GOAL: &str = "Write a program that counts words, test it, and describe it";

fn main() -> ExitCode {
    let sandbox = Sandbox::new();
    let stub = Stub::start(script().workspace(sandbox.workspace().display().to_string()));
    let me = env::current_exe().expect("a running program has a file");
    let builds = me.parent().and_then(std::path::Path::parent).expect("it lies in the folder of examples");
    let mut command = sandbox.signed_in_command(builds.join("lspool"), &stub);
    command.current_dir(sandbox.workspace());
    for name in ["TERM", "NO_COLOR"] {
        command.envs(env::var_os(name).map(|it| (name, it)));
    }
    // The commands are those below.
    command.args(["orchestrate", GOAL, "--yes"]).args(env::args_os().skip(1));
    command.arg("--").arg(real::copilot()).arg("--stdio");
    let status = command.status().expect("lspool starts");
    let mut out = io::stdout();
    for name in ["count.sh", "test.sh", "README.md"] {
        let text = std::fs::read_to_string(sandbox.workspace().join(name)).unwrap_or_default();
        let text = text.lines().fold(String::new(), |all, line| all + "    " + line + "\n");
        writeln!(out, "\n{name}\n{text}").ok();
    }
    u8::try_from(status.code().unwrap_or(1)).map_or(ExitCode::FAILURE, ExitCode::from)
}

/// What the models of the stub say. They take their time, so that there is something to see.
fn script() -> Script {
    let task = |role: &str, task: &str, needs: &[usize]| json!({"worker_role": role, "task": task, "depends_on": needs});
    let plan = json!([
        task("coder", "Write count.sh, which counts the words of its input", &[]),
        task("tester", "Write test.sh, which tries count.sh, and run it", &[0]),
        task("coder", "Describe count.sh in README.md", &[0]),
        task("reviewer", "Read what was written", &[1, 2]),
    ]);
    let write = |name: &str, text: &str| json!({"filePath": format!("{{ws}}/{name}"), "content": text});
    let run = |command: &str| json!({"command": command, "explanation": "to see it", "isBackground": false});
    let read = |name: &str| json!({"filePath": format!("{{ws}}/{name}"), "startLine": 1, "endLine": 99});
    Script::default()
        .rule(Rule::on("Plan how workers").then(Round::text(format!("```json\n{plan}\n```\n")).delay(700)))
        .rule(
            Rule::on("Workers carried out tasks").then(
                Round::text(
                    "count.sh counts the words of its input. test.sh tries it with three words and passes. README.md \
                     describes it. The reviewer has found nothing that is wrong.\n",
                )
                .delay(700),
            ),
        )
        .rule(
            Rule::on("Write count.sh, which")
                .then(
                    Round::text("I write it.\n")
                        .delay(900)
                        .call("create_file", write("count.sh", "#!/bin/sh\nwc -w | tr -d ' '\n")),
                )
                .then(Round::text("count.sh reads its input and prints how many words are in it.\n").delay(700)),
        )
        .rule(
            Rule::on("Write test.sh, which")
                .then(
                    Round::text("First the test.\n").delay(700).call(
                        "create_file",
                        write("test.sh", "test \"$(echo one two three | sh count.sh)\" = 3 && echo passed\n"),
                    ),
                )
                .then(Round::text("Now I run it.\n").delay(900).call("run_in_terminal", run("sleep 1; sh test.sh")))
                .then(Round::text("test.sh says: passed.\n").delay(500)),
        )
        .rule(
            Rule::on("Describe count.sh in")
                .then(
                    Round::default()
                        .delay(1200)
                        .call("create_file", write("README.md", "# count.sh\n\n    sh count.sh < FILE\n")),
                )
                .then(Round::text("README.md says how it is called.\n").delay(900)),
        )
        .rule(
            Rule::on("Read what was written")
                .then(
                    Round::text("I read.\n")
                        .delay(900)
                        .call("read_file", read("count.sh"))
                        .call("read_file", read("README.md")),
                )
                .then(Round::text("Nothing is wrong with it.\n").delay(900)),
        )
}

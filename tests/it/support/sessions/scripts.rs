//! The messages of each session.

use std::{process::Stdio, rc::Rc};

use rustix::process::Signal;
use serde_json::{Map, Value, json};

use super::super::{
    copilot::{Copilot, Options, Turn, tool_answer, uri},
    real,
    stub::{Round, Rule, Script, Stub},
};
use super::{Ground, Session, end, hear, leave, ready};

/// All there are.
pub const SESSIONS: [Session; 11] = [
    Session { name: "sign-in", is_of_lspool: false, play: sign_in },
    Session { name: "agent-tools", is_of_lspool: false, play: agent_tools },
    Session { name: "parallel", is_of_lspool: false, play: parallel },
    Session { name: "cancel", is_of_lspool: false, play: cancel },
    Session { name: "crash", is_of_lspool: false, play: crash },
    Session { name: "sub-agent", is_of_lspool: false, play: sub_agent },
    Session { name: "completion", is_of_lspool: false, play: completion },
    Session { name: "config-pull", is_of_lspool: false, play: config_pull },
    Session { name: "agents", is_of_lspool: false, play: agents },
    Session { name: "two-partitions", is_of_lspool: true, play: two_partitions },
    Session { name: "crash-in-a-turn", is_of_lspool: true, play: crash_in_a_turn },
];

/// The device flow, and the models.
fn sign_in(ground: &Ground<'_>) {
    let stub = ground.keep(Stub::start_with_tls(Script::default()));
    let mut options = ground.options();
    options.settings["http"] = json!({"proxy": stub.url(), "proxyStrictSSL": true});
    let session = ground.start("", ground.unsigned_server(&stub), options);
    session.notify("workspace/didChangeConfiguration", json!({"settings": session.options().settings}));
    let asked = session.ok("signIn", json!({}));
    let command = asked["command"]["command"].as_str().unwrap_or("github.copilot.finishDeviceFlow");
    session.ok("workspace/executeCommand", json!({"command": command, "arguments": []}));
    hear(&session, "featureFlagsNotification");
    session.ok("checkStatus", json!({}));
    session.ok("copilot/models", json!({}));
    end(&session);
}

/// Agents that read a file, run a command, call several tools, and continue with a second turn.
fn agent_tools(ground: &Ground<'_>) {
    let stub = ground.stub(Script::default());
    let session = ground.signed_in("", &stub, ground.options());
    with_tools(&session);
    for (token, says) in [("t-read", "[read] what does a.txt say?"), ("t-run", "[run] say hello")] {
        finish(&session, &create(&session, token, says, json!({})));
    }
    let ticket = finish(&session, &create(&session, "t-custom", "[custom] what is ABC-1?", json!({})));
    let more = json!({"conversationId": ticket["conversationId"]});
    finish(&session, &turn(&session, "t-second", "[history] and a second turn", more));
    for (token, says) in [
        ("t-multi", "[multi] three rounds"),
        ("t-par", "[parallel] two calls"),
        ("t-builtin", "[builtin] what is here?"),
        ("t-unknown", "[unknown-tool] and that?"),
    ] {
        finish(&session, &create(&session, token, says, json!({})));
    }
    end(&session);
}

/// Two conversations at a time.
fn parallel(ground: &Ground<'_>) {
    let stub = ground.stub(Script::default().rule(slow("slow")));
    let session = ground.signed_in("", &stub, ground.options());
    with_tools(&session);
    let one = create(&session, "p-one", "[slow] one", json!({"conversationId": "conv-one"}));
    session.wait_progress(&one, "its first lines", |it| it.text.contains("more"));
    let two = create(&session, "p-two", "[multi] two", json!({"conversationId": "conv-two"}));
    finish(&session, &two);
    stub.open("slow");
    finish(&session, &one);
    end(&session);
}

/// Turns that are cancelled: by request, by progress, while a tool is called.
fn cancel(ground: &Ground<'_>) {
    let stub = ground.stub(Script::default().rule(slow("never")));
    let session = ground.signed_in("", &stub, ground.options());
    with_tools(&session);
    let slow = |token: &str, says: &str| {
        let turn = create(&session, token, says, json!({}));
        session.wait_progress(&turn, "its first lines", |it| it.text.contains("more"));
        turn
    };
    let turn = slow("cancel-1", "[slow] one");
    session.cancel(&turn.pending);
    finish(&session, &turn);
    let turn = slow("cancel-2", "[slow] two");
    session.notify("window/workDoneProgress/cancel", json!({"token": turn.token}));
    finish(&session, &turn);
    session.hold_tools();
    let turn = create(&session, "cancel-3", "[custom] three", json!({}));
    let call = session.expect_request("conversation/invokeClientTool");
    session.cancel(&turn.pending);
    session.wait_progress(&turn, "its end", |it| !it.ends.is_empty());
    session.answer(&call, Ok(tool_answer(Ok("too late".to_owned()))));
    finish(&session, &turn);
    end(&session);
}

/// `A` dies in the middle of a turn; `B` and `C` get the history, and continue.
fn crash(ground: &Ground<'_>) {
    let stub = ground.stub(Script::default().rule(slow("never")));
    let conversation = json!({"conversationId": "conv-crash"});
    let first = ground.signed_in("A", &stub, ground.options());
    with_tools(&first);
    let answer = finish(&first, &create(&first, "c-1", "[custom] what is ABC-1?", conversation.clone()));
    let more = with(&conversation, json!({"turnId": "turn-2"}));
    let broken = turn(&first, "c-2", "[slow] tell me more", more);
    first.wait_progress(&broken, "its first lines", |it| it.text.contains("more"));
    first.kill(Signal::KILL);
    first.wait_exit();
    leave(&first);
    drop(first);

    let text = ground.signed_in("B", &stub, ground.options());
    with_tools(&text);
    let turns = json!([
        {"request": "[custom] what is ABC-1?", "response": "Ticket: Ticket ABC-1: fix the login page", "turnId": answer["turnId"]},
        {"request": "[history] tell me more (again)", "turnId": "turn-2"},
    ]);
    finish(&text, &create(&text, "c-3", "", with(&conversation, json!({"turns": turns}))));
    finish(&text, &turn(&text, "c-4", "[history] go on", conversation));
    end(&text);
    drop(text);

    let full = ground.signed_in("C", &stub, ground.options());
    let folder = ground.sandbox.workspace().join("transcripts");
    ground.sandbox.write("transcripts/conv-full/partition-1.jsonl", &told());
    let mut settings = full.options().settings.clone();
    settings["github"] = json!({"copilot": {"agent": {"transcriptDirectory": folder}}});
    full.notify("workspace/didChangeConfiguration", json!({"settings": settings}));
    with_tools(&full);
    for (token, says, turn) in
        [("c-5", "[history] full fidelity", "T1"), ("c-6", "[history] x", "no-such-turn")]
    {
        let more = json!({"conversationId": "conv-full", "restoreToTurnId": turn});
        finish(&full, &create(&full, token, says, more));
    }
    end(&full);
}

/// The transcript for a conversation of another process.
fn told() -> String {
    let call = json!({
        "id": "call_A", "type": "function",
        "function": {"name": "fetch_ticket", "arguments": "{\"key\":\"ABC-1\"}"},
    });
    let messages = json!([
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "Ticket ABC-1: fix the login page", "tool_call_id": "call_A"},
        {"role": "assistant", "content": "It is about the login page."},
    ]);
    let lines = [
        ("partition.created", json!({"conversationId": "conv-full", "partitionId": 1})),
        ("user.message", json!({"content": "[custom] what is ABC-1?", "turnId": "T1"})),
        ("assistant.message", json!({"content": messages.to_string(), "messageId": "T1"})),
        ("assistant.turn_end", json!({"turnId": "T1", "status": "success"})),
    ];
    let line = |(n, (kind, data)): (usize, (&str, Value))| {
        let id = format!("00000000-0000-4000-8000-{n:012}");
        let line = json!({"type": kind, "data": data, "id": id, "timestamp": "2026-01-01T00:00:00.000Z", "parentId": null});
        format!("{line}\n")
    };
    lines.into_iter().enumerate().map(line).collect()
}

/// A sub-agent, and agents of custom modes.
fn sub_agent(ground: &Ground<'_>) {
    let task = json!({"task": "[custom] subtask", "agentName": "helper", "description": "sub"});
    let calls = Rule::on("[sub]").then(Round::default().call("run_subagent", task));
    let stub = ground.stub(Script::default().rule(calls.then(Round::text("Parent got: {results}"))));
    let mut options = ground.options();
    options.copilot_capabilities = json!({"subAgent": true});
    let session = ground.signed_in("", &stub, options);
    let agent = |name: &str, tools: &str| {
        let text =
            format!("---\nname: {name}\ndescription: {name}\ntools: [{tools}]\n---\nYou are {name}.\n");
        let file = ground.sandbox.write(&format!("{name}.agent.md"), &text);
        json!({"uri": uri(&file), "name": name, "description": name})
    };
    let agents = json!([
        agent("helper", "'fetch_ticket'"),
        agent("setA", "'fetch_ticket'"),
        agent("setB", "'read_file', 'run_in_terminal'"),
    ]);
    session.ok("customAgent/registerExtensionAgents", json!({"extensionId": "lspool", "agents": agents}));
    with_tools(&session);
    finish(&session, &create(&session, "sub", "[sub] go", json!({"conversationId": "parent"})));
    for (n, token) in ["mode-setA", "mode-setB"].into_iter().enumerate() {
        let mode = json!({"customChatModeId": agents[n + 1]["uri"]});
        finish(&session, &create(&session, token, "[tools] which?", mode));
    }
    end(&session);
}

/// Inline completion, shown and accepted.
fn completion(ground: &Ground<'_>) {
    let stub = ground.stub(Script::default());
    let session = ground.signed_in("", &stub, ground.options());
    let document = uri(&ground.sandbox.workspace().join("add.py"));
    let text = "def add(a, b):\n    ";
    session.notify(
        "textDocument/didOpen",
        json!({"textDocument": {"uri": document, "version": 1, "languageId": "python", "text": text}}),
    );
    session.notify("textDocument/didFocus", json!({"textDocument": {"uri": document}}));
    let found = session.ok(
        "textDocument/inlineCompletion",
        json!({
            "textDocument": {"uri": document, "version": 1}, "position": {"line": 1, "character": 4},
            "context": {"triggerKind": 1}, "formattingOptions": {"tabSize": 4, "insertSpaces": true},
        }),
    );
    let item = &found["items"][0];
    session.notify("textDocument/didShowCompletion", json!({"item": item}));
    session.ok(
        "workspace/executeCommand",
        json!({"command": item["command"]["command"], "arguments": item["command"]["arguments"]}),
    );
    let at = json!({"line": 1, "character": 4});
    session.notify(
        "textDocument/didChange",
        json!({
            "textDocument": {"uri": document, "version": 2},
            "contentChanges": [{"range": {"start": at, "end": at}, "text": "return a + b"}],
        }),
    );
    session.notify("textDocument/didClose", json!({"textDocument": {"uri": document}}));
    end(&session);
}

/// The server asks for its configuration, and for a token.
fn config_pull(ground: &Ground<'_>) {
    let stub = ground.stub(Script::default());
    let mut options = ground.options();
    options.copilot_capabilities = json!({"token": true, "didChangeFeatureFlags": true});
    let settings = json!({"configuration": true, "didChangeConfiguration": {"dynamicRegistration": true}});
    options.capabilities["workspace"] = with(&options.capabilities["workspace"], settings);
    let url = stub.url();
    let session = Copilot::start_silent(ground.unsigned_server(&stub), options);
    session.on_request("workspace/configuration", |params| {
        let items = params["items"].as_array().into_iter().flatten();
        Ok(items
            .map(|it| match it["section"].as_str() {
                Some("telemetry") => json!({"telemetryLevel": "off"}),
                _ => Value::Null,
            })
            .collect())
    });
    session.on_request("copilot/token", move |_| {
        Ok(json!({"envelope": {
            "token": "tid=from-editor;chat=1;agent_mode=1", "expires_at": 4_102_444_800_u64, "refresh_in": 1500,
            "chat_enabled": true, "endpoints": {"api": url, "proxy": url, "telemetry": url},
        }}))
    });
    let session = ground.introduced("", session);
    hear(&session, "statusNotification");
    session.notify("github/didChangeAuth", json!({"login": "stub-user", "accessToken": "gho_from_editor"}));
    session.ok("checkStatus", json!({}));
    hear(&session, "copilot/didChangeFeatureFlags");
    finish(&session, &create(&session, "tok", "[tools] hi", json!({})));
    end(&session);
}

/// What lspool says to `examples/agents.py`: an agent that may only read, and one that starts another agent.
fn agents(ground: &Ground<'_>) {
    let read = || Round::default().call("read_file", json!({"filePath": "README.md"}));
    let about = "README.md is about a proxy between an editor and its language server.";
    let delegate =
        json!({"subagent_type": "explore", "prompt": "[explore] read it", "description": "explore"});
    let stub = ground.stub(
        Script::default()
            .rule(Rule::on("What is README.md about?").then(read()).then(Round::text(about)))
            .rule(
                Rule::on("Have an agent find out")
                    .then(Round::text("I ask an agent.\n").call("delegate_task", delegate))
                    .then(Round::text("It is at work.\n")),
            )
            .rule(Rule::on("[explore]").then(read()).then(Round::text(about)))
            .rule(Rule::on(about).then(Round::text("The agent says what it is about.\n"))),
    );
    ground.sandbox.write("README.md", "# lspool\n\nlspool is a proxy.\n");
    let lspool = ground.lspool(&stub);
    let mut client = ground.sandbox.command(real::python());
    client.envs(lspool.get_envs().filter_map(|(name, value)| Some((name, value?))));
    client.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/agents.py"));
    client.arg("--folder").arg(ground.sandbox.workspace()).arg("--");
    client.arg(lspool.get_program()).args(lspool.get_args());
    let output = client.stdin(Stdio::null()).output().expect("python starts");
    let [out, err] = [&output.stdout, &output.stderr].map(|it| String::from_utf8_lossy(it));
    assert!(output.status.success(), "{out}\n{err}");
}

/// Three conversations at a time, in two partitions and beside them.
fn two_partitions(ground: &Ground<'_>) {
    let all = ["lead", "reader", "runner"];
    let ticket = |says: &str| {
        let call = Round::default().gate("all asked").call("fetch_ticket", json!({"key": "ABC-1"}));
        Rule::on(says).then(call).then(Round::text("{results}"))
    };
    let script = all.iter().fold(Script::default(), |script, it| script.rule(ticket(&format!("[{it}]"))));
    let stub = ground.stub(script);
    let session = ground.signed_in_through_lspool(&stub);
    let sets =
        [json!({}), tools(&["fetch_ticket", "read_file"]), tools(&["fetch_ticket", "run_in_terminal"])];
    let begun = all.iter().zip(sets).map(|(name, set)| {
        let turn = create(&session, name, &format!("[{name}] what is to be done?"), set);
        // One after the other, so that their processes are numbered likewise.
        session.wait_progress(&turn, "its begin", |it| it.begins > 0);
        turn
    });
    let begun: Vec<Turn> = begun.collect();
    stub.open("all asked");
    for turn in &begun {
        finish(&session, turn);
    }
    end(&session);
}

/// The process dies while two conversations have a turn; both continue.
fn crash_in_a_turn(ground: &Ground<'_>) {
    let stub = ground.stub(Script::default().rule(slow("never")).continue_text(lspool::core::CONTINUE));
    let session = ground.signed_in_through_lspool(&stub);
    let before = finish(&session, &create(&session, "before", "[custom] what is ABC-1?", json!({})));
    let more = json!({"conversationId": before["conversationId"]});
    let broken = turn(&session, "broken", "[slow] tell me more", more.clone());
    session.wait_progress(&broken, "its first lines", |it| it.text.contains("more"));
    for process in session.mark().processes() {
        if ground.is_server(&process.command) {
            process.kill(Signal::KILL);
        }
    }
    stub.open("never");
    finish(&session, &broken);
    finish(&session, &turn(&session, "after", "[history] and now?", more));
    end(&session);
}

impl Ground<'_> {
    fn stub(&self, script: Script) -> Rc<Stub> {
        self.keep(Stub::start(script.workspace(self.sandbox.workspace().display().to_string())))
    }

    fn keep(&self, stub: Stub) -> Rc<Stub> {
        let stub = Rc::new(stub);
        *self.stub.borrow_mut() = Some(Rc::clone(&stub));
        stub
    }

    fn options(&self) -> Options {
        self.sandbox.write("a.txt", "alpha\nbeta\n");
        Options { process_id: json!(1), ..Options::in_workspace(self.sandbox.workspace()) }
    }

    fn signed_in_through_lspool(&self, stub: &Stub) -> Copilot {
        let session = ready(self.start("", self.lspool(stub), self.options()));
        with_tools(&session);
        session
    }

    /// Whether a command line is that of the server.
    fn is_server(&self, command: &str) -> bool {
        command.starts_with(&*self.servers.copilot[0].to_string_lossy())
    }
}

/// Says some lines, and no more until the gate is opened.
fn slow(gate: &str) -> Rule {
    Rule::on("[slow]").then(Round::text("Slow line.\nmore\n").gate_after_text(gate).more("The last line.\n"))
}

/// Registers the tools of the editor, and answers them.
fn with_tools(session: &Copilot) {
    let tool = |name: &str, description: &str, required: &[&str], optional: &[(&str, &str)]| {
        let strings = required.iter().map(|it| (*it, "string"));
        let all = strings.chain(optional.iter().copied());
        let properties: Map<String, Value> =
            all.map(|(name, kind)| (name.to_owned(), json!({"type": kind, "description": name}))).collect();
        let schema = json!({"type": "object", "properties": properties, "required": required});
        json!({"name": name, "description": description, "inputSchema": schema})
    };
    let lines = [("startLine", "number"), ("endLine", "number")];
    let run = ["command", "explanation"];
    let tools = json!({"tools": [
        tool("read_file", "Read a file through the editor.", &["filePath"], &lines),
        tool("run_in_terminal", "Run a command in a bash terminal.", &run, &[("isBackground", "boolean")]),
        tool("fetch_ticket", "Fetch a ticket from the tracker.", &["key"], &[]),
    ]});
    session.on_tool("read_file", |_| Ok("alpha\nbeta\n".to_owned()));
    session.on_tool("run_in_terminal", |_| Ok("hello".to_owned()));
    session.on_tool("fetch_ticket", |input| {
        Ok(format!("Ticket {}: fix the login page", input["key"].as_str().unwrap_or_default()))
    });
    session.ok("conversation/registerTools", tools);
}

fn tools(names: &[&str]) -> Value {
    json!({"lspool": {"tools": names}})
}

fn create(session: &Copilot, token: &str, says: &str, more: Value) -> Turn {
    let params = with(&session.create_params(says), json!({"workDoneToken": token}));
    session.begin("conversation/create", with(&params, more))
}

fn turn(session: &Copilot, token: &str, says: &str, more: Value) -> Turn {
    let params = with(&session.turn_params(&Value::Null, says), json!({"workDoneToken": token}));
    session.begin("conversation/turn", with(&params, more))
}

/// Waits for the end of a turn, however it is; gives the answer.
fn finish(session: &Copilot, turn: &Turn) -> Value {
    session.finish(turn).answer.unwrap_or_default()
}

/// Puts members over those of an object.
fn with(object: &Value, more: Value) -> Value {
    let mut object = object.clone();
    if let (Some(members), Value::Object(more)) = (object.as_object_mut(), more) {
        members.extend(more);
    }
    object
}

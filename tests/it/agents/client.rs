//! The worked example of `docs/clients.md`: a client in another language.

use std::process::Stdio;

use super::*;

#[test]
fn example_client_delegates_to_an_agent() {
    let script = Script::default()
        .rule(
            Rule::on("What is README.md about?")
                .then(Round::text("I look.\n").call("read_file", json!({"filePath": "README.md"})))
                .then(Round::text("It says: {results}. I could use {tools}.\n")),
        )
        .rule(
            Rule::on("Have an agent find out")
                .then(Round::text("I ask.\n").call("delegate_task", task("explore", "read it")))
                .then(Round::text("It is asked.\n")),
        )
        .rule(
            Rule::on("read it")
                .then(Round::text("I read.\n").call("read_file", json!({"filePath": "README.md"})))
                .then(Round::text("seen: {results}\n")),
        )
        .rule(Rule::on("seen: ").then(Round::text("That was it.\n")));
    let sandbox = Sandbox::new();
    sandbox.write("README.md", "forty-two");
    let stub = Stub::start(script.continue_text(CONTINUE));
    let mut command = sandbox.signed_in_command(real::python(), &stub);
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/agents.py"));
    command.arg("--folder").arg(sandbox.workspace()).arg("--");
    command.arg(env!("CARGO_BIN_EXE_lspool")).arg("--").arg(real::copilot()).arg("--stdio");
    let output = command.stdin(Stdio::null()).output().expect("python starts");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    let (one, other) = out.split_once("one that has others work for it:").expect(&out);
    assert_eq!(one.matches("    read_file README.md").count(), 1, "{out}");
    assert!(one.contains("It says: forty-two. I could use read_file."), "{out}");
    for line in ["explore-1: running", "explore-1: done", "    read_file README.md", "That was it."] {
        assert!(other.contains(line), "{line} is not in {out}\n{err}");
    }
}

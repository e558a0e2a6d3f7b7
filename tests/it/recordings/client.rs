//! The worked example of `docs/fixtures.md`: a test suite of another project.

use std::process::Command;

use super::{fixture, run, stderr};

#[test]
fn example_client_runs_against_recording() {
    let mut command = Command::new("python3");
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/recorded_session.py"));
    command.arg(env!("CARGO_BIN_EXE_lspool")).arg("serve-recording").arg(fixture("agent-tools"));
    let output = run(command);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("Ran 3 tests"), "{}", stderr(&output));
}

#[test]
fn example_of_agents_runs_against_its_recording() {
    let mut command = Command::new("python3");
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/agents.py"));
    command.args(["--folder", env!("CARGO_MANIFEST_DIR"), "--", env!("CARGO_BIN_EXE_lspool")]);
    command.arg("serve-recording").arg(fixture("agents"));
    let output = run(command);
    let out = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{out}{}", stderr(&output));
    let (one, other) = out.split_once("one that has others work for it:").expect(&out);
    for line in ["    read_file README.md", "README.md is about a proxy"] {
        assert!(one.contains(line), "{line:?} is not in {out}");
    }
    for line in ["    explore-1: running", "    read_file README.md", "    explore-1: done", "The agent says"]
    {
        assert!(other.contains(line), "{line:?} is not in {out}");
    }
}

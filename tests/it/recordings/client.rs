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

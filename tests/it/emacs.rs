//! Emacs with lspool in front of Pyright, by eglot and by lsp-mode.

use serde_json::Value;

use super::{
    editors::{Kill, LSPOOL, check_crash, check_results, run, take_crash},
    support::real::Sandbox,
};

#[test]
#[ignore = "needs Emacs with eglot (Debian: emacs-nox, elpa-eglot); scripts/test runs it where they are"]
fn eglot_gets_same_results_and_does_not_notice_crash() {
    check("eglot.el");
}

#[test]
#[ignore = "needs Emacs with lsp-mode (Debian: emacs-nox, elpa-lsp-mode); scripts/test runs it where they are"]
fn lsp_mode_gets_same_results_and_does_not_notice_crash() {
    check("lsp_mode.el");
}

fn check(script: &str) {
    let sandbox = Sandbox::new();
    let without = emacs(&sandbox, script, &[], Kill::Never);
    let mut with = emacs(&sandbox, script, &LSPOOL, Kill::OnRequest);
    let crash = take_crash(&mut with);
    check_results(&with);
    assert_eq!(with, without);
    check_crash(&crash);
}

/// Runs a session from start to the end of Emacs.
fn emacs(sandbox: &Sandbox, script: &str, before: &[&str], kill: Kill) -> Value {
    let mut command = sandbox.command("emacs");
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/editors");
    // Not `-Q`: that would leave out the folder of Debian's packages.
    command.args([
        "--batch",
        "-q",
        "-l",
        &format!("{folder}/session.el"),
        "-l",
        &format!("{folder}/{script}"),
    ]);
    run(sandbox, command, before, kill)
}

//! What the clock has to show, by hand: on a busy machine, these prove nothing.
//!
//! `cargo nextest run --all-features --run-ignored only -E 'test(/^remote::clock/)' --no-capture`

use std::{
    fs,
    thread::sleep,
    time::{Duration, Instant},
};

use serde_json::json;

use super::{
    Host, hover, kill,
    leftovers::{Link, executable},
    open, processes, start, wait_until,
};
use crate::support::{copilot::uri, real, real::Sandbox};

/// How long the link is down.
const DOWN: Duration = Duration::from_secs(20);

/// The editor types on while the link is down, with the keep-alive that lspool chooses, and asks now and then.
#[test]
#[ignore = "waits by the clock"]
fn link_that_is_down_for_twenty_seconds_is_bridged() {
    let sandbox = Sandbox::new();
    let Some(mut link) = Link::new() else { return };
    let Some(host) = Host::start(&sandbox) else { return };
    let document = uri(&sandbox.write("a.py", "import os\nvalue = os.getcwd()\n"));
    let (config, server) = link.config(&sandbox, &host, "", "");
    let editor = start(&sandbox, &config);
    open(&editor, &sandbox, &document);
    assert!(hover(&editor, &document).contains("getcwd"));
    let at = json!({"textDocument": {"uri": document}, "position": {"line": 1, "character": 13}});
    let mut version = 1;
    let mut type_and_ask = |name: &str| {
        version += 1;
        let changed = json!({"uri": document, "version": version});
        let text = format!("import os\nvalue = os.{name}()\n");
        editor.notify(
            "textDocument/didChange",
            json!({"textDocument": changed, "contentChanges": [{"text": text}]}),
        );
        editor.request("textDocument/hover", at.clone())
    };
    let mut asked = Vec::new();
    let began = Instant::now();
    link.drop_out();
    while began.elapsed() < DOWN {
        let name = ["getpid", "getppid"][asked.len() % 2];
        asked.push((name, type_and_ask(name)));
        sleep(Duration::from_millis(500));
    }
    link.come_back_as_it_was();
    let up = Instant::now();
    let last = type_and_ask("getlogin");
    let (mut right, mut refused) = (0, 0);
    for (name, asked) in &asked {
        match editor.wait(asked) {
            // One that waited is answered for the text of then or later.
            Ok(answer)
                if ["getpid", "getppid", "getlogin"].iter().any(|it| answer.to_string().contains(it)) =>
            {
                right += 1;
            }
            Ok(answer) => panic!("{name}: {answer}"),
            Err(error) => {
                assert_eq!(error.data["lspool"]["cause"], "unreachable", "{error}");
                refused += 1;
            }
        }
    }
    let first = match editor.wait(&last) {
        Ok(answer) => {
            assert!(answer.to_string().contains("getlogin"), "{answer}");
            up.elapsed()
        }
        Err(error) => panic!("asked with the link up: {error}"),
    };
    assert!(hover(&editor, &document).contains("getlogin"));
    wait_until("one server is there", || link.servers(&server).len() == 1);
    let state = editor.ok("lspool/status", json!({}))["backends"][0].clone();
    assert_eq!(state["crashes"], 0, "{state}");
    eprintln!(
        "{right} of {} requests were answered, {refused} refused; the first answer came {first:?} after the link",
        asked.len()
    );
    editor.shutdown();
}

/// A server that ignores the end of its input, SIGHUP and SIGTERM.
#[test]
#[ignore = "measures by the clock"]
fn nothing_is_left_on_another_host_after_six_seconds() {
    let sandbox = Sandbox::new();
    let Some(host) = Host::start(&sandbox) else { return };
    let document = uri(&sandbox.write("a.py", "import os\nvalue = os.getcwd()\n"));
    let stubborn = sandbox.home().join("stubborn");
    let pyright = real::pyright().display().to_string();
    executable(&stubborn, &format!("trap '' TERM HUP\n{pyright} \"$@\"\nwhile :; do sleep 1; done\n"));
    let name = stubborn.to_str().expect("it is text").to_owned();
    let config = host.config(&sandbox, &name, "");
    let client = host.config.to_str().expect("it is text").to_owned();
    for who in ["the engine's client", "lspool", "lspool and its guard"] {
        let editor = start(&sandbox, &config);
        open(&editor, &sandbox, &document);
        assert!(hover(&editor, &document).contains("getcwd"));
        let clients = processes(|line| line.contains(&client));
        let there: Vec<u32> =
            processes(|line| line.contains(&name)).into_iter().filter(|it| !clients.contains(it)).collect();
        assert!(!there.is_empty());
        let guard = processes(|line| line.contains(&format!("\0guard\0{}-", editor.pid())));
        let killed = Instant::now();
        match who {
            "the engine's client" => kill(&clients),
            "lspool" => kill(&[editor.pid()]),
            _ => kill(&[guard[0], editor.pid()]),
        }
        let is_there = |pid: &u32| fs::exists(format!("/proc/{pid}")).unwrap_or_default();
        wait_until("nothing is left", || !there.iter().any(is_there));
        let elapsed = killed.elapsed();
        eprintln!("{who}: nothing was left after {elapsed:?}");
        assert!(elapsed < Duration::from_secs(6), "{who}: {elapsed:?}");
        drop(editor);
        wait_until("the next one can start", || processes(|line| line.contains(&name)).is_empty());
    }
}

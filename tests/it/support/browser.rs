//! A headless Chromium, driven over its debugging pipe.
//!
//! Owns the protocol: one JSON document for each NUL. It does not know what the pages are.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread::spawn,
};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{editor::PATIENCE, processes::Mark};

/// A browser with one tab.
pub struct Browser {
    child: Child,
    stdin: ChildStdin,
    said: Receiver<Value>,
    next_id: u64,
    session: Option<String>,
    /// What the browser told without being asked, in order.
    pub events: Vec<Value>,
    mark: Mark,
    _home: TempDir,
}

impl Browser {
    /// Where Debian's package puts it.
    pub fn program() -> Option<PathBuf> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let in_path = std::env::split_paths(&path).map(|it| it.join("chromium"));
        in_path.into_iter().find(|it| it.is_file())
    }

    /// Starts it with an empty profile, and opens a tab of this size.
    pub fn start(program: &Path, (width, height): (u32, u32)) -> Browser {
        let home = tempfile::tempdir().expect("a temporary folder");
        // The pipe is what it finds at 3 and 4; no other way to pass them is without `unsafe`.
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null"]).arg(program).args([
            "--headless=new",
            "--remote-debugging-pipe",
            // It refuses to start as root with one. The pages are ours.
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
            "--force-device-scale-factor=1",
            "--hide-scrollbars",
        ]);
        command.arg(format!("--window-size={width},{height}"));
        command.arg(format!("--user-data-dir={}", home.path().join("profile").display())).arg("about:blank");
        command.env("HOME", home.path()).env("XDG_RUNTIME_DIR", home.path());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mark = Mark::of(&mut command);
        let mut child = command.spawn().expect("sh starts");
        let stdin = child.stdin.take().expect("it is piped");
        let stdout = child.stdout.take().expect("it is piped");
        let (sender, said) = channel();
        spawn(move || {
            for document in BufReader::new(stdout).split(0).map_while(Result::ok) {
                let document = serde_json::from_slice(&document).expect("the browser says JSON");
                if sender.send(document).is_err() {
                    return;
                }
            }
        });
        let mut browser =
            Browser { child, stdin, said, next_id: 0, session: None, events: Vec::new(), mark, _home: home };
        let tab = browser.call("Target.createTarget", json!({"url": "about:blank"}));
        let params = json!({"targetId": tab["targetId"], "flatten": true});
        let session = browser.call("Target.attachToTarget", params);
        browser.session = session["sessionId"].as_str().map(ToOwned::to_owned);
        for domain in ["Page", "Network", "Runtime", "Log"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        browser.call("Emulation.setDeviceMetricsOverride", size);
        browser
    }

    /// Asks for something and waits for it.
    #[track_caller]
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        self.next_id += 1;
        let mut request = json!({"id": self.next_id, "method": method, "params": params});
        if let Some(session) = &self.session {
            request["sessionId"] = json!(session);
        }
        let mut bytes = serde_json::to_vec(&request).expect("JSON");
        bytes.push(0);
        self.stdin.write_all(&bytes).expect("the browser reads");
        loop {
            let mut told = self.hear(method);
            if told["id"] != self.next_id {
                self.events.push(told);
                continue;
            }
            assert!(told["error"].is_null(), "{method}: {}", told["error"]);
            return told["result"].take();
        }
    }

    #[track_caller]
    fn hear(&mut self, waiting_for: &str) -> Value {
        self.said.recv_timeout(PATIENCE).unwrap_or_else(|it| panic!("no {waiting_for}: {it}"))
    }

    /// Opens a file and waits until all of it has run.
    #[track_caller]
    pub fn open(&mut self, file: &Path) {
        self.events.clear();
        self.call("Page.navigate", json!({"url": format!("file://{}", file.display())}));
        while !self.events.iter().any(|it| it["method"] == "Page.loadEventFired") {
            let told = self.hear("load event");
            self.events.push(told);
        }
    }

    /// The value of an expression in the page, as JSON.
    #[track_caller]
    pub fn value(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let mut result = self.call("Runtime.evaluate", params);
        assert!(result["exceptionDetails"].is_null(), "{expression}: {}", result["exceptionDetails"]);
        result["result"]["value"].take()
    }

    /// Presses and releases a key, named as in a page's events; a character is typed.
    pub fn press(&mut self, key: &str) {
        let mut params = json!({"type": "keyDown", "key": key});
        if key.chars().count() == 1 {
            params["text"] = json!(key);
        }
        if key == "Enter" {
            params["text"] = json!("\r");
        }
        self.call("Input.dispatchKeyEvent", params);
        self.call("Input.dispatchKeyEvent", json!({"type": "keyUp", "key": key}));
    }

    /// Moves the mouse, presses or releases its button.
    pub fn mouse(&mut self, kind: &str, x: f64, y: f64) {
        let params = json!({"type": kind, "x": x, "y": y, "button": "left", "clickCount": 1});
        self.call("Input.dispatchMouseEvent", params);
    }

    /// Light or dark, as the system would have it.
    pub fn prefer(&mut self, scheme: &str) {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.call("Emulation.setEmulatedMedia", json!({"features": features}));
    }

    /// A PNG of what is seen, in base64.
    pub fn screenshot(&mut self) -> String {
        let picture = self.call("Page.captureScreenshot", json!({"format": "png"}));
        picture["data"].as_str().expect("a picture").to_owned()
    }

    /// The events of one kind since the page was opened.
    pub fn events_of(&self, method: &str) -> Vec<&Value> {
        self.events.iter().filter(|it| it["method"] == method).map(|it| &it["params"]).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        self.mark.kill_all();
        self.child.wait().ok();
    }
}

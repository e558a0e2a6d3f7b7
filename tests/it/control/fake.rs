//! A fake lspool that a test controls.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufReader, Write as _},
    os::unix::net::{UnixListener, UnixStream},
    path::PathBuf,
    sync::{Arc, Mutex},
    thread,
};

use serde_json::{Value, json};

use super::{Sandbox, folder};

pub(super) type Answer = Box<dyn Fn(&Value) -> Vec<Value> + Send>;

/// Answers each request of a method with a list of messages. The first one without an id gets that of the request.
pub(super) struct Fake {
    pub(super) socket: PathBuf,
    asked: Arc<Mutex<Vec<Value>>>,
}

impl Fake {
    pub(super) fn new(
        sandbox: &Sandbox,
        pid: u32,
        started: u64,
        answers: Vec<(&'static str, Answer)>,
    ) -> Fake {
        let socket = folder(sandbox).join(format!("{pid}-{started}.sock"));
        let listener = UnixListener::bind(&socket).unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let answers: Arc<Mutex<BTreeMap<_, _>>> = Arc::new(Mutex::new(answers.into_iter().collect()));
        thread::spawn({
            let asked = asked.clone();
            move || {
                for stream in listener.incoming().flatten() {
                    let (asked, answers) = (asked.clone(), answers.clone());
                    thread::spawn(move || serve(&stream, &asked, &answers));
                }
            }
        });
        Fake { socket, asked }
    }

    pub(super) fn asked(&self) -> Vec<Value> {
        self.asked.lock().unwrap().clone()
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        fs::remove_file(&self.socket).ok();
    }
}

fn serve(stream: &UnixStream, asked: &Mutex<Vec<Value>>, answers: &Mutex<BTreeMap<&'static str, Answer>>) {
    let mut reader = BufReader::new(stream);
    while let Some(request) = hear(&mut reader) {
        let method = request["method"].as_str().unwrap();
        let said = answers.lock().unwrap().get(method).map(|answer| answer(&request["params"]));
        asked.lock().unwrap().push(json!([method, request["params"]]));
        for mut message in said.unwrap_or_default() {
            if message.get("method").is_none() {
                message["id"] = request["id"].clone();
            }
            message["jsonrpc"] = "2.0".into();
            if (&*stream).write_all(frame(&message).as_bytes()).is_err() {
                return;
            }
        }
    }
}

fn frame(message: &Value) -> String {
    let body = message.to_string();
    format!("Content-Length: {}\r\n\r\n{body}", body.len())
}

fn hear(reader: &mut impl std::io::BufRead) -> Option<Value> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end().split_once(": ") {
            Some((_, value)) => length = value.parse().ok()?,
            None => break,
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    serde_json::from_slice(&body).ok()
}

fn backend(name: &str) -> Value {
    json!({
        "name": name, "toolset": null, "state": "ready", "since": 0, "pid": 4712, "rss_bytes": 1 << 20,
        "restarts": 0, "conversations": 0, "in_flight": 0, "refused": 0, "last_error": null,
    })
}

pub(super) fn status(pid: u32, workspace: &str, names: &[&str]) -> Value {
    let backends: Vec<_> = names.iter().map(|it| backend(it)).collect();
    json!({
        "pid": pid, "version": "0.1.0", "workspace": workspace, "editor": "Vim 9", "started": 1,
        "config": {"error": null}, "backends": backends,
    })
}

pub(super) fn answers(method: &'static str, message: Value) -> (&'static str, Answer) {
    (method, Box::new(move |_| vec![message.clone()]))
}

pub(super) fn has(pid: u32, workspace: &str, names: &[&str]) -> (&'static str, Answer) {
    answers("lspool/status", json!({"result": status(pid, workspace, names)}))
}

pub(super) fn refusal(code: i64, message: &str) -> Value {
    json!({"error": {"code": code, "message": message, "data": {"lspool": {"cause": "crashed"}}}})
}

pub(super) const COPILOT: [&str; 3] =
    ["copilot", "partition \"list_dir,read_file\" of copilot", "partition \"list_dir\" of copilot"];

//! What lspool asks its editor, where that is a terminal: may a worker do this?
//!
//! One question is put after the other. Nothing else is asked of a person.

use std::{
    collections::VecDeque,
    fmt::Write as _,
    io::{self, BufRead as _},
};

use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::{
    control::plain,
    rpc::{RawId, member, text},
};

/// What workers may do that has to be confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum May {
    /// Everything.
    All,
    /// What is allowed at the terminal.
    Ask,
    /// Nothing: nobody is there who could be asked.
    Nothing,
}

/// An answer to one who has asked: his id, and the result.
pub(super) type Answer = (RawId, Value);

/// Those that wait.
#[derive(Debug)]
pub(super) struct Questions {
    may: May,
    waiting: VecDeque<Question>,
    /// One was put.
    asked: Option<RawId>,
    /// Lines that are typed, once somebody reads them.
    lines: Option<mpsc::UnboundedReceiver<String>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Question {
    id: RawId,
    text: String,
}

/// The answer to what is no question to a person.
pub(super) fn at_once(method: &str, params: &[u8]) -> Option<Value> {
    let params = || serde_json::from_slice::<Value>(params).unwrap_or_default();
    match method {
        "conversation/invokeClientToolConfirmation" => None,
        "conversation/invokeClientTool" => {
            let what = "there is no editor here that has this tool";
            Some(json!([{"content": [{"value": what}], "status": "error"}, null]))
        }
        "workspace/configuration" => {
            Some(params()["items"].as_array().into_iter().flatten().map(|_| Value::Null).collect())
        }
        "window/showDocument" => Some(json!({"success": false})),
        "workspace/applyEdit" => Some(json!({"applied": false})),
        _ => Some(Value::Null),
    }
}

impl Questions {
    pub(super) fn new(may: May) -> Questions {
        Questions { may, waiting: VecDeque::new(), asked: None, lines: None }
    }

    /// A confirmation is asked for.
    pub(super) fn add(&mut self, id: RawId, params: &[u8]) {
        self.waiting.push_back(Question { id, text: question(params) });
    }

    /// Whether somebody thinks about one.
    pub(super) fn is_asking(&self) -> bool {
        self.asked.is_some()
    }

    /// Those that need nobody to think about, each with what the user should know.
    pub(super) fn decide(&mut self) -> Vec<(RawId, Value, Option<String>)> {
        let (result, note) = match self.may {
            May::Ask => return Vec::new(),
            May::All => (accepted(), None),
            May::Nothing => {
                let note = "was not allowed: nobody can be asked here; --yes allows it, and so does `allow` in the configuration";
                (refused(), Some(note))
            }
        };
        let waiting = std::mem::take(&mut self.waiting).into_iter();
        waiting.map(|it| (it.id, result.clone(), note.map(|note| format!("{}\n{note}", it.text)))).collect()
    }

    /// The next one, to be put to the user, unless there is one already.
    pub(super) fn next(&mut self) -> Option<String> {
        if self.asked.is_some() || self.may != May::Ask {
            return None;
        }
        let it = self.waiting.pop_front()?;
        self.asked = Some(it.id);
        if self.lines.is_none() {
            self.lines = Some(read_lines());
        }
        Some(format!("{}\nAllow it? [y]es, [n]o, [a]ll from now on: ", it.text))
    }

    /// What the user has said. `Some(None)`: nothing that could be understood, so it is asked again.
    pub(super) async fn answer(&mut self) -> Option<Option<Answer>> {
        let (Some(_), Some(lines)) = (&self.asked, &mut self.lines) else {
            return std::future::pending().await;
        };
        // Without input nobody says yes.
        let line = lines.recv().await.unwrap_or_else(|| "n".to_owned());
        Some(self.understand(&line))
    }

    fn understand(&mut self, line: &str) -> Option<Answer> {
        let id = self.asked.take()?;
        let result = match line.trim().to_lowercase().as_str() {
            "y" | "yes" => accepted(),
            "a" | "all" => {
                self.may = May::All;
                accepted()
            }
            "n" | "no" => refused(),
            _ => {
                let text = "Please say y, n or a.".to_owned();
                self.waiting.push_front(Question { id, text });
                return None;
            }
        };
        Some((id, result))
    }
}

fn accepted() -> Value {
    json!([{"result": "accept"}, null])
}

fn refused() -> Value {
    json!([{"result": "dismiss"}, null])
}

/// Who wants to do what.
fn question(params: &[u8]) -> String {
    let get = |path: &[&str]| text(params, path).map(|it| plain(&it)).filter(|it| !it.trim().is_empty());
    let name = get(&["name"]).unwrap_or_else(|| "a tool".to_owned());
    // It names the worker.
    let mut question = get(&["title"]).unwrap_or_else(|| format!("A worker wants to use {name}"));
    let command = get(&["input", "command"]);
    let what = command.or_else(|| {
        let input = member(params, "input").map(|it| String::from_utf8_lossy(&params[it]).into_owned());
        get(&["message"]).or_else(|| input.map(|it| plain(&it)))
    });
    for line in what.unwrap_or_default().lines() {
        write!(question, "\n  {line}").unwrap_or_default();
    }
    question
}

/// Read by a thread: a read of a terminal cannot be called off, and ends with the process.
fn read_lines() -> mpsc::UnboundedReceiver<String> {
    let (sender, receiver) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines() {
            if line.ok().is_none_or(|it| sender.send(it).is_err()) {
                return;
            }
        }
    });
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(may: May) -> Questions {
        let mut it = Questions::new(may);
        for id in 1..4_u64 {
            let params = json!({"name": "run_in_terminal", "title": "coder-1: Run it?", "input": {"command": "make\u{1b}[2J\ntest"}});
            it.add(RawId::from(id), params.to_string().as_bytes());
        }
        it
    }

    #[test]
    fn one_question_after_the_other() {
        let mut it = asked(May::Ask);
        it.lines = Some(mpsc::unbounded_channel().1);
        assert!(it.decide().is_empty());
        let question = it.next().unwrap();
        assert_eq!(
            question,
            "coder-1: Run it?\n  make\u{fffd}[2J\n  test\nAllow it? [y]es, [n]o, [a]ll from now on: "
        );
        assert_eq!(it.next(), None);
        assert_eq!(it.understand("what?"), None);
        assert!(it.next().unwrap().starts_with("Please say"));
        assert_eq!(it.understand(" No\n"), Some((RawId::from(1), refused())));
        assert!(!it.is_asking() && it.next().is_some());
        assert_eq!(it.understand("a"), Some((RawId::from(2), accepted())));
        assert_eq!(it.next(), None);
        assert_eq!(it.decide(), [(RawId::from(3), accepted(), None)]);
    }

    #[test]
    fn where_nobody_is_nothing_is_allowed() {
        let decided = asked(May::Nothing).decide();
        assert!(decided.iter().all(|(_, result, note)| *result == refused() && note.is_some()));
        assert_eq!(decided.len(), 3);
        assert!(asked(May::All).decide().iter().all(|(_, result, _)| *result == accepted()));
    }

    #[test]
    fn what_is_no_question_is_answered_at_once() {
        let items = json!({"items": [{}, {}]}).to_string();
        assert_eq!(at_once("workspace/configuration", items.as_bytes()), Some(json!([null, null])));
        assert_eq!(at_once("client/registerCapability", b"{}"), Some(Value::Null));
        assert_eq!(at_once("conversation/invokeClientToolConfirmation", b"{}"), None);
    }
}

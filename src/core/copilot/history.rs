//! The history of a conversation, for a process that does not know it.
//!
//! A turn is a question and the rounds of its answer: text, and tool calls with their results. A turn in several
//! segments is one turn here, with the round and call ids that the editor knows.
//!
//! [`History::transcript`] writes the file that a Copilot server reads when a conversation is created with
//! `restoreToTurnId`: the one way in that keeps tool calls in the model's history.

mod stored;
mod transcript;

use std::collections::BTreeSet;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

use self::stored::Kept;
use crate::{
    core::copilot::{progress::Report, tools::tool_set::is_edit_tool},
    core::ids::{ConversationId, TurnId},
    rpc::{elements, member, text, without_escapes},
    util::json,
};

/// A conversation.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// The parameters of its `conversation/create`, as the server got them.
    pub(crate) create: Bytes,
    turns: Vec<RecordedTurn>,
    /// How many of the turns were in the create.
    brought: usize,
}

/// A question with its answer.
#[derive(Debug)]
pub(crate) struct RecordedTurn {
    id: TurnId,
    /// A string, or an array of content parts, as sent.
    request: Bytes,
    rounds: Vec<Kept<RecordedRound>>,
    /// Messages in the middle of the turn, each with the round before it.
    follow_ups: Vec<(u64, Value)>,
}

#[derive(Debug, Default)]
struct RecordedRound {
    id: u64,
    text: String,
    thinking: Option<Thinking>,
    /// Whether the reasoning was cut off, because its process is gone.
    is_cut: bool,
    calls: Vec<RecordedCall>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
struct Thinking {
    id: Option<String>,
    #[serde(default)]
    text: String,
}

/// A tool call of the model.
#[derive(Clone, Debug)]
pub(crate) struct RecordedCall {
    pub(crate) id: String,
    pub(crate) name: String,
    /// Whether the name is the one that the model knows.
    is_named: bool,
    pub(crate) tool: ToolKind,
    pub(crate) status: Status,
    input: Box<RawValue>,
    pub(crate) result: String,
    /// The last report, as long as the editor sees it as running.
    pub(crate) open: Option<Box<RawValue>>,
    /// Files that the client has edited for it.
    edited: Vec<String>,
}

/// The server's text to the model for a skipped call.
const SKIPPED: &str = "The user chose to skip the tool call, they want to proceed without running it";

/// How the server shows the model that the user has cancelled a turn.
const CANCELLED: &str = "Cancelled by user";

/// The runner of a tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ToolKind {
    Client,
    Shared,
    Mcp,
    #[default]
    #[serde(other)]
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Status {
    Running,
    Completed,
    Error,
    Cancelled,
    /// Its process is gone, without a result.
    #[serde(skip)]
    Dropped,
    #[serde(other)]
    Unknown,
}

impl Status {
    /// The word in a report.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Status::Completed => "completed",
            Status::Error => "error",
            Status::Cancelled | Status::Dropped => "cancelled",
            Status::Running | Status::Unknown => "running",
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CallReport {
    id: String,
    name: String,
    #[serde(default)]
    tool_type: ToolKind,
    status: Status,
    input: Option<Box<RawValue>>,
    result: Option<Vec<Part>>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Part {
    value: Option<Value>,
}

impl History {
    /// A conversation that begins with this `conversation/create`, whose earlier turns are part of the history.
    pub(crate) fn new(create: &[u8]) -> History {
        let mut it = History { create: Bytes::copy_from_slice(create), ..History::default() };
        let Some(turns) = member(create, "turns").map(|range| &create[range]) else { return it };
        let turns: Vec<&[u8]> = elements(turns).map(|range| &turns[range]).collect();
        for (n, turn) in turns.iter().take(turns.len().saturating_sub(1)).enumerate() {
            let id = member(turn, "turnId").and_then(|range| TurnId::from_raw(&turn[range]));
            let id = id.unwrap_or_else(|| TurnId::text(&format!("earlier-{n}")));
            let request = member(turn, "request").map_or(&b"\"\""[..], |range| &turn[range]);
            let mut kept = RecordedTurn::new(id, request);
            kept.round(1).text = text(turn, &["response"]).unwrap_or_default();
            it.turns.push(kept);
        }
        it.brought = it.turns.len();
        it
    }

    /// Whether a process has begun to answer it.
    pub(crate) fn has_begun(&self) -> bool {
        self.turns.len() > self.brought
    }

    /// Adds a turn with this question.
    pub(crate) fn begin(&mut self, id: TurnId, request: &[u8]) {
        if self.turn(&id).is_none() {
            self.turns.push(RecordedTurn::new(id, request));
        }
    }

    /// The turn with this id.
    pub(crate) fn turn(&mut self, id: &TurnId) -> Option<&mut RecordedTurn> {
        self.turns.iter_mut().rev().find(|it| it.id == *id)
    }

    /// Deletes a turn, for `conversation/turnDelete` or before a turn starts again.
    pub(crate) fn delete(&mut self, id: &TurnId) {
        self.turns.retain(|it| it.id != *id);
    }

    /// Replaces the history by a summary, for `conversation/compress`. The running turn stays.
    pub(crate) fn compress(&mut self, summary: &[u8], running: Option<&TurnId>) {
        self.turns.retain(|it| Some(&it.id) == running);
        // For the model it is a question without an answer.
        self.turns.insert(0, RecordedTurn::new(TurnId::text("summary"), summary));
        self.brought = 0;
    }

    /// Whether the id of this conversation can be a file name.
    pub(super) fn is_file_name(conversation: &ConversationId) -> bool {
        let Some(text) = conversation.as_text() else { return false };
        let plain = |it: char| it.is_ascii_alphanumeric() || matches!(it, '.' | '_' | '-');
        (1..=200).contains(&text.len()) && text.chars().all(plain) && text != "." && text != ".."
    }

    /// The id of the last turn in the file.
    pub(crate) fn last(&self) -> Option<String> {
        self.turns.last().map(RecordedTurn::text_id)
    }
}

impl RecordedTurn {
    fn new(id: TurnId, request: &[u8]) -> RecordedTurn {
        RecordedTurn {
            id,
            request: Bytes::copy_from_slice(request),
            rounds: Vec::new(),
            follow_ups: Vec::new(),
        }
    }

    fn text_id(&self) -> String {
        self.id.as_text().map_or_else(|| self.id.to_string(), std::borrow::Cow::into_owned)
    }

    /// Adds a report; returns whether it has calls. Runs for each few words of an answer.
    pub(crate) fn report(&mut self, report: &Report<'_>) -> bool {
        let (mut told_of_calls, mut first) = (false, None);
        if let Some(reply) = report.reply {
            self.say(1, reply);
        }
        for round in report.rounds() {
            first.get_or_insert(round.id);
            let kept = self.round(round.id);
            if let Some(reply) = round.reply {
                kept.say(reply);
            }
            for call in round.calls() {
                told_of_calls = true;
                if let Ok(call) = json::read(call) {
                    kept.call(call);
                }
            }
        }
        if let Some(thinking) = report.thinking.and_then(|it| json::read::<Thinking>(it).ok()) {
            let last = self.rounds.last().map_or(1, |it| it.id);
            self.round(first.unwrap_or(last)).think(thinking);
        }
        told_of_calls
    }

    /// Adds the client's answer to a call without a reported completion. `file` is the file of an edit.
    pub(crate) fn answered(&mut self, call: &str, answer: Answer<'_>, file: Option<&str>) {
        let Some(call) = self.call(call) else { return };
        let (status, text) = answer.read();
        call.status = status;
        call.result = match file {
            Some(file) if status == Status::Completed && call.is_edit() => {
                call.edited.push(file.to_owned());
                call.edit_result(&text)
            }
            Some(_) | None => text,
        };
    }

    /// Notes how the turn has ended: of one that failed or was cancelled the server shows the model that, instead of the
    /// text that was not finished.
    pub(crate) fn ended(&mut self, end: &[u8]) {
        let is_cancelled = text(end, &["cancellationReason"]).is_some();
        let words = text(end, &["error", "message"]).or_else(|| is_cancelled.then(|| CANCELLED.to_owned()));
        let Some(words) = words else { return };
        let last = self.last_round();
        let is_unfinished = |it: &Kept<RecordedRound>| it.id == last && it.calls.is_empty();
        let id = if self.rounds.iter().any(is_unfinished) { last } else { last + 1 };
        self.round(id).text = words;
    }

    /// Adds a raw string to the text of a round.
    pub(crate) fn say(&mut self, round: u64, reply: &[u8]) {
        self.round(round).say(reply);
    }

    /// The call with this id.
    pub(crate) fn call(&mut self, id: &str) -> Option<&mut RecordedCall> {
        let has = |it: &Kept<RecordedRound>| it.calls.iter().any(|it| it.id == id);
        // Nothing changes in the others.
        let round = self.rounds.iter().position(has)?;
        self.rounds[round].calls.iter_mut().find(|it| it.id == id)
    }

    /// Gives calls of MCP servers the names that the model knows them by: reports have those that the servers use. The name
    /// of some is known only later.
    pub(crate) fn name_mcp_calls(&mut self, name_for_model: impl Fn(&RecordedCall) -> Option<String>) {
        for round in &mut self.rounds {
            let is_bare = |it: &RecordedCall| it.tool == ToolKind::Mcp && !it.is_named;
            // Nothing changes in the others.
            if round.calls.iter().any(is_bare) {
                for call in round.calls.iter_mut().filter(|it| is_bare(it)) {
                    if let Some(name) = name_for_model(call) {
                        (call.is_named, call.name) = (true, name);
                    }
                }
            }
        }
    }

    /// All its calls with their rounds.
    pub(crate) fn calls(&mut self) -> impl Iterator<Item = (u64, &mut RecordedCall)> {
        self.rounds.iter_mut().flat_map(|round| {
            let id = round.id;
            round.calls.iter_mut().map(move |call| (id, call))
        })
    }

    /// Adds a call without a report.
    pub(crate) fn called(&mut self, round: u64, report: &[u8]) {
        if let Ok(report) = json::read(report) {
            self.round(round).call(report);
        }
    }

    /// Adds a message in the middle of the turn, after all so far.
    pub(super) fn follow_up(&mut self, message: Value) {
        let last = self.last_round();
        self.follow_ups.push((last, message));
    }

    /// Whether the last message in the middle of the turn has no answer that counts.
    pub(super) fn awaits_answer(&mut self) -> bool {
        self.awaits_answer_after().is_some()
    }

    /// The round before that message.
    fn awaits_answer_after(&mut self) -> Option<u64> {
        let after = self.follow_ups.last()?.0;
        let counts =
            |it: &RecordedRound| !it.text.is_empty() || it.calls.iter().any(RecordedCall::has_result);
        (!self.rounds.iter().any(|it| it.id > after && counts(it))).then_some(after)
    }

    /// The number of its last round.
    pub(crate) fn last_round(&mut self) -> u64 {
        self.rounds.iter().map(|it| it.id).max().unwrap_or(0)
    }

    /// The ids of all its calls.
    pub(super) fn call_ids(&self) -> BTreeSet<String> {
        self.rounds.iter().flat_map(|it| &it.calls).map(|it| it.id.clone()).collect()
    }

    /// Ends the segment of a dead process. Returns the offset for the round ids of the next one: a cut-off text
    /// continues in its own round.
    pub(crate) fn cut(&mut self) -> u64 {
        if let Some(after) = self.awaits_answer_after() {
            return after;
        }
        let Some(last) = self.rounds.iter_mut().max_by_key(|it| it.id) else { return 0 };
        last.thinking = last.thinking.take().filter(|it| it.id.is_some());
        last.is_cut = true;
        if last.calls.is_empty() { last.id.saturating_sub(1) } else { last.id }
    }

    fn round(&mut self, id: u64) -> &mut RecordedRound {
        let at = self.rounds.iter().rposition(|it| it.id == id).unwrap_or_else(|| {
            self.rounds.push(Kept::new(RecordedRound { id, ..RecordedRound::default() }));
            self.rounds.len() - 1
        });
        &mut self.rounds[at]
    }
}

impl RecordedRound {
    /// Adds a raw string to the text.
    fn say(&mut self, reply: &[u8]) {
        // Most have no escapes. Runs for each report.
        match without_escapes(reply) {
            Some(reply) => self.text.push_str(reply),
            None => self.text.push_str(&json::read::<String>(reply).unwrap_or_default()),
        }
    }

    fn think(&mut self, thinking: Thinking) {
        if std::mem::take(&mut self.is_cut) {
            self.thinking = None;
        }
        let kept = self.thinking.get_or_insert_default();
        kept.text.push_str(&thinking.text);
        kept.id = thinking.id.or(kept.id.take());
    }

    fn call(&mut self, raw: Box<RawValue>) {
        let Ok(report) = json::read::<CallReport>(raw.get().as_bytes()) else { return };
        let result = report.result.map(joined);
        let error = report.error.map(|it| it.as_str().map_or_else(|| it.to_string(), str::to_owned));
        let has_run = |it: &RecordedCall| it.id == report.id && it.status != Status::Running;
        let is_skipped = report.status == Status::Cancelled && !self.calls.iter().any(has_run);
        let result = result.or(error).or(is_skipped.then(|| SKIPPED.to_owned()));
        let open = (report.status == Status::Running).then_some(raw);
        if let Some(known) = self.calls.iter_mut().find(|it| it.id == report.id) {
            known.status = report.status;
            known.open = open;
            if let Some(result) = result {
                known.result = result;
            }
            return;
        }
        let empty = || RawValue::from_string("{}".to_owned()).expect("an empty object is valid");
        self.calls.push(RecordedCall {
            id: report.id,
            name: report.name,
            is_named: false,
            tool: report.tool_type,
            status: report.status,
            input: report.input.unwrap_or_else(empty),
            result: result.unwrap_or_default(),
            open,
            edited: Vec::new(),
        });
    }
}

impl RecordedCall {
    pub(super) fn has_result(&self) -> bool {
        match self.status {
            Status::Completed | Status::Error | Status::Cancelled => true,
            Status::Running | Status::Dropped | Status::Unknown => false,
        }
    }

    /// Whether the server computes the edit, and the client writes the file.
    fn is_edit(&self) -> bool {
        self.tool == ToolKind::Shared && is_edit_tool(&self.name)
    }

    /// The server's text to the model for an edit that the client has made, as far as it is known.
    fn edit_result(&self, file: &str) -> String {
        let last = self.edited.last().map_or("", String::as_str);
        let language = language(last);
        match self.name.as_str() {
            "apply_patch" => format!("Edited files:\n  - {}", self.edited.join("\n  - ")),
            "replace_string_in_file" => format!("The following files were successfully edited:\n{last}"),
            "create_file" => format!(
                "<file_created path=\"{last}\">\nThis is the new file that was created. You can reference this file \
                 in future operations.\n```{language}\n{file}\n```\n</file_created>"
            ),
            _ => format!(
                "<file_after_edit path=\"{last}\">\nThis is the new state of the file after the edit. Base future \
                 edits off of this file, no need to read it again, unless a terminal command may have changed \
                 it.\n```{language}\n{file}\n```\n</file_after_edit>"
            ),
        }
    }
}

/// The server's name for the language of a file.
fn language(file: &str) -> &str {
    const LANGUAGES: &[(&str, &str)] = &[
        ("bash", "shellscript"),
        ("bat", "bat"),
        ("c", "c"),
        ("cc", "cpp"),
        ("clj", "clojure"),
        ("cpp", "cpp"),
        ("cs", "csharp"),
        ("css", "css"),
        ("cxx", "cpp"),
        ("dart", "dart"),
        ("ex", "elixir"),
        ("exs", "elixir"),
        ("fs", "fsharp"),
        ("go", "go"),
        ("groovy", "groovy"),
        ("h", "cpp"),
        ("hpp", "cpp"),
        ("hs", "haskell"),
        ("html", "html"),
        ("java", "java"),
        ("jl", "julia"),
        ("js", "javascript"),
        ("json", "json"),
        ("jsx", "javascriptreact"),
        ("kt", "kotlin"),
        ("less", "less"),
        ("lua", "lua"),
        ("m", "objective-c"),
        ("md", "markdown"),
        ("php", "php"),
        ("pl", "perl"),
        ("ps1", "powershell"),
        ("py", "python"),
        ("r", "r"),
        ("rb", "ruby"),
        ("rs", "rust"),
        ("sass", "sass"),
        ("scala", "scala"),
        ("scss", "scss"),
        ("sh", "shellscript"),
        ("sql", "sql"),
        ("swift", "swift"),
        ("tex", "latex"),
        ("toml", "toml"),
        ("ts", "typescript"),
        ("tsx", "typescriptreact"),
        ("vue", "vue"),
        ("xml", "xml"),
        ("yaml", "yaml"),
        ("yml", "yaml"),
    ];
    let extension = file.rsplit_once('.').map_or("", |(_, it)| it);
    LANGUAGES.iter().find(|(it, _)| *it == extension).map_or("UNKNOWN", |(_, language)| language)
}

/// The client's answer to a call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer<'a> {
    Result(&'a [u8]),
    Error(&'a [u8]),
}

impl Answer<'_> {
    fn read(self) -> (Status, String) {
        let result = match self {
            Answer::Result(result) => result,
            Answer::Error(error) => {
                return (Status::Error, text(error, &["message"]).unwrap_or_default());
            }
        };
        let status = match text(result, &["status"]).as_deref() {
            Some("error") => Status::Error,
            Some("cancelled") => Status::Cancelled,
            Some(_) | None => Status::Completed,
        };
        let parts = member(result, "content").and_then(|range| json::read(&result[range]).ok());
        (status, joined(parts.unwrap_or_default()))
    }
}

/// The items of a result, in the server's form for the model.
fn joined(parts: Vec<Part>) -> String {
    let text = |it: Part| match it.value {
        Some(Value::String(text)) => text,
        Some(Value::Null) | None => String::new(),
        Some(other) => other.to_string(),
    };
    parts.into_iter().map(text).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::*;
    use crate::core::copilot::progress::ProgressReport;

    fn turn(reports: &[Value]) -> RecordedTurn {
        let mut turn = RecordedTurn::new(TurnId::text("t"), br#""q""#);
        for report in reports {
            let params = json!({"token": 1, "value": report}).to_string();
            turn.report(&ProgressReport::of(params.as_bytes()).report);
        }
        turn
    }

    fn text(round: u64, text: &str) -> Value {
        json!({"kind": "report", "editAgentRounds": [{"roundId": round, "reply": text}]})
    }

    fn call(round: u64, id: &str, status: &str, result: Option<&str>) -> Value {
        let mut call = json!({"id": id, "name": "fetch ticket", "toolType": "client", "status": status, "input": {"key": 1}});
        if let Some(result) = result {
            call["result"] = json!([{"type": "text", "value": result}]);
        }
        json!({"kind": "report", "editAgentRounds": [{"roundId": round, "reply": "", "toolCalls": [call]}]})
    }

    #[test]
    fn turn_messages_match_what_the_model_saw() {
        let mut it = turn(&[
            text(1, "Two "),
            text(1, "calls."),
            call(1, "a", "running", None),
            call(1, "a", "completed", Some("A")),
            call(1, "b", "running", None),
            text(2, "Done"),
            text(3, "."),
        ]);
        let messages: Vec<String> = it.messages(None).iter().map(Value::to_string).collect();
        expect![[r#"
            {"role":"assistant","content":"Two calls.","tool_calls":[{"id":"a","type":"function","function":{"name":"fetch_ticket","arguments":"{\"key\":1}"}}]}
            {"role":"tool","content":"A","tool_call_id":"a"}
            {"role":"assistant","content":"Done."}"#]]
        .assert_eq(&messages.join("\n"));
    }

    #[test]
    fn turn_ends_with_what_the_model_is_shown_of_its_end() {
        let texts = |reports: &[Value], end: &Value| -> Vec<(u64, String)> {
            let mut turn = turn(reports);
            turn.ended(end.to_string().as_bytes());
            turn.rounds.iter().map(|it| (it.id, it.text.clone())).collect()
        };
        let failed = json!({"kind": "end", "error": {"message": "no quota"}});
        let cancelled = json!({"kind": "end", "cancellationReason": "CancelledByUser"});
        let said =
            |all: &[(u64, &str)]| all.iter().map(|(id, it)| (*id, (*it).to_owned())).collect::<Vec<_>>();
        assert_eq!(texts(&[], &failed), said(&[(1, "no quota")]));
        assert_eq!(texts(&[text(1, "so far")], &cancelled), said(&[(1, CANCELLED)]));
        let called = [text(1, "first"), call(1, "c", "completed", Some("r"))];
        assert_eq!(texts(&called, &failed), said(&[(1, "first"), (2, "no quota")]));
        assert_eq!(texts(&[text(1, "all")], &json!({"kind": "end"})), said(&[(1, "all")]));
    }

    #[test]
    fn late_editor_answer_becomes_tool_result() {
        let mut it = turn(&[call(1, "a", "running", None), call(1, "b", "running", None)]);
        let late = br#"{"content":[{"value":"late"},{"value":"r"}],"status":"error"}"#;
        it.answered("a", Answer::Result(late), None);
        let messages = it.messages(None);
        assert_eq!(messages.len(), 2);
        assert_eq!(messages[1]["content"], "Tool call failed with error: late\nr");
    }

    #[test]
    fn empty_results_are_restored_as_empty() {
        for (result, expected) in [
            (json!([]), "(empty)"),
            (json!([{"type": "text", "value": ""}]), "(empty)"),
            (
                json!([{"value": "a"}, {"value": ""}, {"value": {"mimeType": "m", "data": "d"}}]),
                "a\n\n{\"mimeType\":\"m\",\"data\":\"d\"}",
            ),
        ] {
            let call = json!({"id": "a", "name": "echo", "toolType": "mcp", "status": "completed", "result": result});
            let mut it =
                turn(&[json!({"kind": "report", "editAgentRounds": [{"roundId": 1, "toolCalls": [call]}]})]);
            assert_eq!(it.messages(None)[1]["content"], expected);
            let mut it = turn(&[self::call(1, "a", "running", None)]);
            let answer = json!({"content": result, "status": "success"}).to_string();
            it.answered("a", Answer::Result(answer.as_bytes()), None);
            assert_eq!(it.messages(None)[1]["content"], expected);
        }
    }

    #[test]
    fn cancelled_call_without_result_was_skipped() {
        let content = |reports: &[Value]| turn(reports).messages(None)[1]["content"].clone();
        let skipped = format!("Tool call is cancelled with result: {SKIPPED}");
        assert_eq!(content(&[call(1, "a", "cancelled", None)]), skipped);
        assert_eq!(content(&[call(1, "a", "running", None), call(1, "a", "cancelled", None)]), skipped);
        let mut it = turn(&[call(1, "a", "running", None)]);
        it.answered("a", Answer::Result(br#"{"content":[],"status":"cancelled"}"#), None);
        let report = json!({"value": call(1, "a", "cancelled", None)}).to_string();
        it.report(&ProgressReport::of(report.as_bytes()).report);
        assert_eq!(it.messages(None)[1]["content"], "Tool call is cancelled with result: (empty)");
    }

    #[test]
    fn mcp_calls_have_the_names_that_the_model_knows() {
        let mut reported = call(1, "a", "completed", Some("A"));
        reported["editAgentRounds"][0]["toolCalls"][0]["toolType"] = json!("mcp");
        let mut it = turn(&[reported, call(1, "b", "completed", Some("B"))]);
        it.name_mcp_calls(|_| None);
        it.name_mcp_calls(|call| Some(format!("mcp_mini_{}", call.name)));
        it.name_mcp_calls(|_| panic!("it has been named"));
        let calls = &it.messages(None)[0]["tool_calls"];
        assert_eq!(calls[0]["function"]["name"], "mcp_mini_fetch_ticket");
        assert_eq!(calls[1]["function"]["name"], "fetch_ticket");
    }

    #[test]
    fn half_a_surrogate_pair_is_replaced_and_nothing_is_lost() {
        let half = r#""a\ud83d""#;
        let call = |status: &str| {
            format!(
                r#"{{"id":"a","name":"echo","status":"{status}","input":{{"x":{half}}},"result":[{{"value":{half}}}]}}"#
            )
        };
        let report = format!(
            r#"{{"value":{{"editAgentRounds":[{{"roundId":1,"reply":{half},"toolCalls":[{},{}]}}],"thinking":{{"id":"t","text":{half}}}}}}}"#,
            call("completed"),
            call("running").replace(r#""id":"a""#, r#""id":"b""#)
        );
        let mut it = RecordedTurn::new(TurnId::text("t"), half.as_bytes());
        it.report(&ProgressReport::of(report.as_bytes()).report);
        it.answered("b", Answer::Result(format!(r#"{{"content":[{{"value":{half}}}]}}"#).as_bytes()), None);
        let messages = it.messages(Some(br#""m""#));
        let text = "a\u{fffd}";
        assert_eq!((&messages[0]["content"], &messages[0]["thinking"]["text"]), (&json!(text), &json!(text)));
        assert_eq!((&messages[1]["content"], &messages[2]["content"]), (&json!(text), &json!(text)));
        let mut history = History { turns: vec![it], ..History::default() };
        assert!(
            String::from_utf8(history.transcript("c"))
                .unwrap()
                .contains(&format!(r#""content":"{text}","turnId""#))
        );
        assert_eq!(history.plain_turns()[0]["request"], text);
    }

    #[test]
    fn transcript_names_images_as_the_server_does() {
        let image = json!({"url": "data:image/png;base64,AA==", "detail": "low"});
        let question = json!([{"type": "text", "text": "?"}, {"type": "image_url", "imageUrl": image}]);
        let mut history = History::new(b"{}");
        history.begin(TurnId::text("t"), question.to_string().as_bytes());
        let lines = String::from_utf8(history.transcript("c")).unwrap();
        let asked: Value = serde_json::from_str(lines.lines().nth(1).unwrap()).unwrap();
        let kept = json!([{"type": "text", "text": "?"}, {"type": "image_url", "image_url": image}]);
        assert_eq!(asked["data"]["content"], kept);
        assert_eq!(history.plain_turns()[0]["request"], question, "as text, it is what a client writes");
    }

    #[test]
    fn messages_keep_reasoning_only_for_known_model() {
        let think = |text: &str, id: Option<&str>| json!({"thinking": {"text": text, "id": id}, "editAgentRounds": [{"roundId": 1, "reply": "x"}]});
        let mut it = turn(&[think("a", None), think("b", Some("blob"))]);
        let message = &it.messages(Some(br#""m""#))[0];
        assert_eq!(message["thinking"], json!({"id": "blob", "text": "ab"}));
        assert_eq!(message["modelId"], "m");
        assert_eq!(it.messages(None)[0].get("thinking"), None);
    }

    #[test]
    fn history_accepts_only_plain_file_names() {
        for good in ["a", "lspool-1-2-3", "A.b_c"] {
            assert!(History::is_file_name(&ConversationId::text(good)), "{good}");
        }
        for bad in ["", ".", "..", "a/b", "../a", "a b", "ü"] {
            assert!(!History::is_file_name(&ConversationId::text(bad)), "{bad}");
        }
        assert!(!History::is_file_name(&ConversationId::from_raw(b"7").expect("a number")));
    }
}

//! Decides which strings of a recording stay readable: by name, message, and shape.
//!
//! A string stays only for a reason: its name, or because it looks like a word of a protocol and not of a person.

use crate::util::redact::is_name;

/// How to treat the strings of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// By their own names.
    ByName,
    /// Keep, without secrets.
    Keep,
    /// Mask, except names of files and the like.
    Mask,
    /// They are secrets.
    Secret,
    /// Treat as secrets here only, as below `headers`: `application/json` is not a secret elsewhere.
    Setting,
}

/// The place of a value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    /// The method of the message, or of the answered request.
    pub(super) method: &'a str,
    pub(super) is_answer: bool,
    /// The number of members that lead to it: 1 for `params`, `result` and `error`.
    pub(super) depth: usize,
    /// `params`, `result` or `error`.
    pub(super) part: &'a str,
    /// Whether its object is a symbol of a document.
    pub(super) is_symbol: bool,
    /// Whether it is in an error that quotes no document.
    pub(super) quotes_nothing: bool,
}

/// Names of values that people write, or that quote people.
const TEXTS: &[&str] = &[
    "body",
    "code",
    "codeblock",
    "commandnames",
    "containername",
    "content",
    "contents",
    "currentvalue",
    "detail",
    "details",
    "diff",
    "documentation",
    "explanation",
    "expression",
    "hover",
    "instructions",
    "label",
    "markdown",
    "newname",
    "patch",
    "placeholder",
    "query",
    "question",
    "reply",
    "request",
    "response",
    "snippet",
    "subcommands",
    "summary",
    "task",
    "todolist",
    "todos",
    "tooltip",
    "value",
    "word",
];

/// Endings of such names.
const TEXT_ENDINGS: &[&str] = &["description", "message", "prompt", "text", "title"];

/// Such names in messages about a goal.
const OF_GOALS: &[&str] = &["fallback", "goal", "problems", "reason", "result"];

/// Names of values that stay.
const KEPT: &[&str] = &[
    "agentpurpose",
    "category",
    "chatmode",
    "directory",
    "displayname",
    "id",
    "ids",
    "kind",
    "method",
    "model",
    "modelfamily",
    "modelname",
    "name",
    "path",
    "pattern",
    "section",
    "source",
    "status",
    "type",
    "uri",
    "user",
    "version",
];

/// Endings of such names. Case matters: `paid` is not an id.
const KEPT_ENDINGS: &[&str] = &["Id", "Ids", "Uri", "Path", "Paths", "Directory", "_id", "Version"];

/// Names of files and tools, which stay within a masked value.
const FILES: &[&str] = &[
    "filepath",
    "path",
    "uri",
    "mcpservername",
    "mcptoolname",
    "tooltype",
    "mcptype",
    "toolcallid",
    "subagent_type",
];

/// Names of secrets at any depth, in addition to those of [`is_name`].
const SECRETS: &[&str] = &["devicecode", "device_code", "secrets", "usercode", "user_code"];

/// Names of possible secrets at any depth.
const SETTINGS: &[&str] = &["env", "headers"];

/// Parts of the configuration whose members people name as they like.
pub(super) const CHOSEN: &[&str] = &["agents", "groups", "models", "servers"];

/// Whether strings of this name, and all below it, are secrets at any place.
pub fn is_secret_name(name: &str) -> bool {
    is_secret(name) || is_one_of(name, SETTINGS)
}

fn is_secret(name: &str) -> bool {
    is_name(name) && !is_one_of(name, PROGRESS_TOKENS) || is_one_of(name, SECRETS)
}

fn is_one_of(name: &str, list: &[&str]) -> bool {
    list.iter().any(|it| name.eq_ignore_ascii_case(it))
}

/// Names of tokens that identify progress and are not secret.
const PROGRESS_TOKENS: &[&str] = &["workdonetoken", "partialresulttoken", "progresstoken"];

/// Messages in which `message` is a text of the server about itself.
const SPOKEN: &[&str] = &[
    "didChangeStatus",
    "didChangeStatus/v2",
    "statusNotification",
    "window/showMessage",
    "window/showMessageRequest",
];

/// Beginnings of methods about the content of documents.
const DOCUMENTS: &[&str] = &[
    "callHierarchy/",
    "codeAction/",
    "codeLens/",
    "completionItem/",
    "documentLink/",
    "inlayHint/",
    "notebookDocument/",
    "textDocument/",
    "typeHierarchy/",
    "workspaceSymbol/",
];

/// Messages without a text of the user.
const KEPT_MESSAGES: &[&str] = &[
    "client/registerCapability",
    "client/unregisterCapability",
    "conversation/registerTools",
    "conversation/unregisterTools",
    "copilot/mcpTools",
    "mcp/getTools",
    "workspace/didChangeWorkspaceFolders",
];

/// The rule for the value of this name.
pub(super) fn of_member(outer: Rule, name: &str, place: &Place<'_>) -> Rule {
    let lower = name.to_ascii_lowercase();
    let is = |list: &[&str]| list.contains(&&*lower);
    if outer == Rule::Secret || is_secret(name) && !is_progress(&lower, place) {
        return Rule::Secret;
    }
    if outer == Rule::Setting || is(SETTINGS) {
        return Rule::Setting;
    }
    match outer {
        Rule::Keep => Rule::Keep,
        Rule::Mask if is(FILES) => Rule::Keep,
        Rule::Mask => Rule::Mask,
        Rule::Secret | Rule::Setting => outer,
        Rule::ByName if is_kept_message(place) => Rule::Keep,
        Rule::ByName if lower == "capabilities" => Rule::Keep,
        // In progress, `lspool` describes a goal.
        Rule::ByName if lower == "lspool" && place.method != "$/progress" => Rule::Keep,
        Rule::ByName if is_spoken(&lower, place) => Rule::Keep,
        Rule::ByName if lower == "input" || lower == "arguments" || is_opaque(&lower, place) => Rule::Mask,
        Rule::ByName => Rule::ByName,
    }
}

/// The rule for a string of this name, under a rule of [`of_member`].
pub(super) fn of_string(rule: Rule, name: &str, text: &str, place: &Place<'_>) -> Rule {
    // The tag in `data` names the member of a group that made an item.
    if rule == Rule::Mask && name == "lspool" && is_tag(text) {
        return Rule::Keep;
    }
    if rule != Rule::ByName {
        return rule;
    }
    let lower = name.to_ascii_lowercase();
    let is_text = TEXTS.contains(&&*lower) || TEXT_ENDINGS.iter().any(|it| lower.ends_with(it));
    let is_text = is_text || is_of_goal(place) && OF_GOALS.contains(&&*lower);
    if is_text || lower == "name" && place.is_symbol {
        return Rule::Mask;
    }
    let is_kept = KEPT.contains(&&*lower)
        || KEPT_ENDINGS.iter().any(|it| name.ends_with(it))
        || PROGRESS_TOKENS.contains(&&*lower)
        || is_progress(&lower, place);
    if is_kept || is_word(text) { Rule::Keep } else { Rule::Mask }
}

/// Whether a text looks like a name, a number, or a path.
fn is_word(text: &str) -> bool {
    text.len() <= 512 && text.bytes().all(|it| it.is_ascii_graphic())
}

fn is_tag(text: &str) -> bool {
    let is_number = |it: &str| !it.is_empty() && it.bytes().all(|it| it.is_ascii_digit());
    text.split_once('.').is_some_and(|(member, generation)| is_number(member) && is_number(generation))
}

fn is_progress(lower: &str, place: &Place<'_>) -> bool {
    lower == "token"
        && place.depth == 2
        && (place.method == "$/progress" || place.method.contains("rogress/"))
}

/// Whether a value describes a goal.
fn is_of_goal(place: &Place<'_>) -> bool {
    place.method == "$/progress" || place.method.starts_with("lspool/orchestrat")
}

/// Messages of lspool with what a model or a user writes, or with texts of documents.
const OWN_WITH_TEXTS: &[&str] =
    &["lspool/agentEvent", "lspool/applyEdit", "lspool/callTool", "lspool/documents"];

fn is_kept_message(place: &Place<'_>) -> bool {
    let has_texts = is_of_goal(place) || OWN_WITH_TEXTS.contains(&place.method);
    let is_own = place.method.starts_with("lspool/") && !has_texts;
    let is_listed = KEPT_MESSAGES.contains(&place.method) || is_own;
    is_listed || place.method == "initialize" && place.is_answer && place.part == "result"
}

fn is_spoken(lower: &str, place: &Place<'_>) -> bool {
    // A text of a server about a document may quote it.
    let may_quote = !place.quotes_nothing && DOCUMENTS.iter().any(|it| place.method.starts_with(it));
    let is_error = place.part == "error" && place.depth == 2 && lower == "message" && !may_quote;
    is_error || SPOKEN.contains(&place.method) && (lower == "message" || lower == "title")
}

/// Whether a value is opaque, such as `data` of a completion.
fn is_opaque(lower: &str, place: &Place<'_>) -> bool {
    lower == "data" && matches!(place.part, "params" | "result")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(method: &str, name: &str, text: &str) -> Rule {
        let place = Place {
            method,
            is_answer: false,
            depth: 2,
            part: "params",
            is_symbol: false,
            quotes_nothing: false,
        };
        of_string(of_member(Rule::ByName, name, &place), name, text, &place)
    }

    #[test]
    fn rule_is_chosen_by_method_name_and_text() {
        for (method, name, text, expected) in [
            ("x", "accessToken", "a b", Rule::Secret),
            ("x", "token", "abc", Rule::Secret),
            ("$/progress", "token", "a b", Rule::Keep),
            ("x", "workDoneToken", "a b", Rule::Keep),
            ("signIn", "userCode", "AB-12", Rule::Secret),
            ("x", "sessionCookie", "a b", Rule::Secret),
            ("x", "headers", "application/json", Rule::Setting),
            ("x", "text", "word", Rule::Mask),
            ("x", "insertText", "word", Rule::Mask),
            ("x", "unknown", "word", Rule::Keep),
            ("x", "unknown", "two words", Rule::Mask),
            ("x", "unknown", "言葉", Rule::Mask),
            ("x", "fileUri", "file:///a b", Rule::Keep),
            ("x", "id", "a b", Rule::Keep),
            ("x", "toolCallId", "a b", Rule::Keep),
            ("window/logMessage", "message", "word", Rule::Mask),
            ("window/showMessage", "message", "two words", Rule::Keep),
            ("conversation/registerTools", "description", "two words", Rule::Keep),
            ("lspool/status", "unknown", "two words", Rule::Keep),
            ("lspool/orchestrate", "goal", "word", Rule::Mask),
            ("lspool/orchestrate", "systemPrompt", "word", Rule::Mask),
            ("lspool/orchestratorEvent", "result", "word", Rule::Mask),
            ("lspool/orchestratorEvent", "problems", "two words", Rule::Mask),
            ("lspool/orchestratorEvent", "event", "planStarted", Rule::Keep),
            ("lspool/orchestratorEvent", "state", "done", Rule::Keep),
            ("lspool/agentEvent", "text", "word", Rule::Mask),
            ("lspool/documents", "text", "word", Rule::Mask),
            ("lspool/applyEdit", "newText", "word", Rule::Mask),
            ("lspool/callTool", "text", "word", Rule::Mask),
            ("lspool/agentEvent", "agent", "explore-1", Rule::Keep),
            ("$/progress", "goal", "word", Rule::Mask),
        ] {
            assert_eq!(rule(method, name, text), expected, "{method} {name}");
        }
    }
}

//! `lspool lsp`: asks language servers about code, without an editor.
//!
//! Starts the servers, calls one tool, and ends the servers.

use std::{
    io::{self, IsTerminal as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context as _, bail};
use serde_json::{Value, json};

use super::{
    args::{Args, Lsp, LspTask, TargetWords},
    code_tools::{Languages, ToolInfo, search, serve, tools},
    print, tell,
};
use crate::{
    builtin_tools::lsp::{Answer, Code, ToolError, how_to_make},
    config::LspToolsConfig,
    shell::{discover::Env, os::files::canonicalize},
};

/// Exit status if there is what was asked for.
const DONE: u8 = 0;
/// Exit status if there is not, or if there are diagnostics.
const NOT_SO: u8 = 1;
/// Exit status if the call is wrong.
const USAGE: u8 = 2;
/// Exit status if the answer may not be whole or not be true.
const NOT_SURE: u8 = 3;
/// Exit status without a server.
const NO_SERVER: u8 = 4;

/// Asks, prints the answer.
pub(super) fn run(args: &Args, asked: &Lsp) -> anyhow::Result<ExitCode> {
    if asked.task == LspTask::Tools {
        print(&list(asked.json, &settings(args)))?;
        return Ok(ExitCode::from(DONE));
    }
    let env = Env::real();
    let root = root(asked.root.as_deref(), &env)?;
    let Call { tool, arguments, files } = call(&asked.task, &env.cwd)?;
    let languages = if files.is_empty() { Languages::OfWorkspace } else { Languages::OfFiles(files) };
    let is_watched = io::stderr().is_terminal();
    serve(args, &[root], &languages, async |session, mut signals, quit| {
        let show = |what: &str| {
            if is_watched {
                tell(what);
            }
        };
        let asking = async {
            let answer = session.call(&tool, &arguments, show).await;
            match wanted_edit(&asked.task, &answer) {
                None => answer,
                Some(Ok(edit)) => session.call("lsp_apply_edit", &json!({"edit": edit}), show).await,
                Some(Err(why)) => ToolError::new(Code::Refused, why).answer(),
            }
        };
        let answer = tokio::select! {
            answer = asking => answer,
            Some(signal) = signals.recv() => {
                quit.send(signal).await.ok();
                return Ok(u8::try_from(128 + signal).unwrap_or(u8::MAX));
            }
        };
        let text = match asked.json {
            true => format!("{}\n", answer.structured),
            false => format!("{}\n", at_prompt(&asked.task, &answer)),
        };
        if answer.ok || asked.json {
            print(&text).map_err(io::Error::other)?;
        } else {
            tell(text.trim_end());
        }
        Ok(status(&answer))
    })
}

/// The text of an answer for a person at a prompt. The id of an edit ends with the command, so the options that make the
/// edit take its place.
fn at_prompt(task: &LspTask, answer: &Answer) -> String {
    let option = match task {
        LspTask::Rename { .. } => "--yes makes it",
        LspTask::Format { .. } => "the command makes it without --preview",
        LspTask::Call { .. } => "call the tool without `preview` to make it",
        LspTask::Actions { .. } => return without_ids(answer),
        LspTask::References { .. }
        | LspTask::Definition { .. }
        | LspTask::Implementations { .. }
        | LspTask::Calls { .. }
        | LspTask::Hover { .. }
        | LspTask::Symbols { .. }
        | LspTask::Diagnostics { .. }
        | LspTask::Servers
        | LspTask::Tools => return answer.text.clone(),
    };
    match answer.structured["edit"].as_str() {
        Some(id) => answer.text.replacen(&how_to_make(id), option, 1),
        None => answer.text.clone(),
    }
}

/// The list of actions with marks for their ids.
fn without_ids(answer: &Answer) -> String {
    let actions = answer.structured["actions"].as_array().into_iter().flatten();
    let ids: Vec<&str> = actions.filter_map(|it| it["edit"].as_str()).collect();
    let text =
        ids.iter().fold(answer.text.clone(), |text, id| text.replacen(&format!("\n{id}  "), "\n*  ", 1));
    if ids.is_empty() { text } else { text + "\n--apply TITLE makes an action marked with *" }
}

/// The exit status of an answer.
fn status(answer: &Answer) -> u8 {
    let it = &answer.structured;
    if let Some(code) = it["error"]["code"].as_str() {
        return match code {
            "no_server" => NO_SERVER,
            "bad_arguments" => USAGE,
            "timeout" | "loading" | "changed" | "expired" | "cancelled" | "server_failed"
            | "server_error" => NOT_SURE,
            _ if it["error"]["retry"] == true => NOT_SURE,
            _ => NOT_SO,
        };
    }
    let list = |key: &str| it[key].as_array().into_iter().flatten();
    let files = list("files").chain(list("diagnostics"));
    let of_file = |it: &Value| match &it["total"] {
        Value::Null => it["diagnostics"].as_array().map_or(0, |it| it.len() as u64),
        total => total.as_u64().unwrap_or_default(),
    };
    let n_found = files.clone().map(of_file).sum::<u64>();
    let is_unknown = files.filter(|it| it["freshness"] == "unknown").count() > 0;
    match (n_found, is_unknown || it["complete"] == false) {
        (0, false) => DONE,
        (0, true) => NOT_SURE,
        (_, _) => NOT_SO,
    }
}

/// A person gets every tool that the user has not left off.
fn settings(args: &Args) -> LspToolsConfig {
    let settings = search(args).first.as_ref().map(|it| it.lsp_tools.clone()).unwrap_or_default();
    LspToolsConfig { offer: vec!["all".to_owned()], ..settings }
}

/// The tools, as a text or as JSON.
fn list(json: bool, settings: &LspToolsConfig) -> String {
    let tools = tools(settings);
    if json {
        let value = |it: &ToolInfo| json!({"name": it.name, "description": it.description, "inputSchema": it.input_schema});
        return format!("{}\n", tools.iter().map(value).collect::<Value>());
    }
    let parameters = |it: &ToolInfo| {
        let all = it.input_schema["properties"].as_object().into_iter().flatten();
        let line = |(name, it): (&String, &Value)| {
            format!("    {name}: {}\n", it["description"].as_str().unwrap_or(""))
        };
        all.map(line).collect::<String>()
    };
    let all = tools.iter().map(|it| format!("{}\n  {}\n{}", it.name, it.description, parameters(it)));
    all.collect::<Vec<_>>().concat()
}

/// The workspace folder, without links.
fn root(given: Option<&Path>, env: &Env) -> anyhow::Result<PathBuf> {
    let root = match given {
        Some(root) => env.cwd.join(root),
        None => env.cwd.ancestors().find(|it| it.join(".git").exists()).unwrap_or(&env.cwd).to_owned(),
    };
    let real = canonicalize(&root).with_context(|| format!("cannot open {}", root.display()))?;
    let home = env.home.as_ref().and_then(|it| canonicalize(it).ok());
    if real.parent().is_none() || home.is_some_and(|it| it == real) {
        bail!("{} is too large to be a workspace: name a folder with --root", real.display());
    }
    Ok(real)
}

/// A call of a tool.
#[derive(Debug)]
struct Call {
    tool: String,
    arguments: Value,
    /// The files that it names: only their languages matter.
    files: Vec<String>,
}

fn call(task: &LspTask, cwd: &Path) -> anyhow::Result<Call> {
    let absolute = |file: &str| cwd.join(file).to_string_lossy().into_owned();
    let of_target = |tool: &str, words: &TargetWords, more: Value| {
        let (mut arguments, file) = target(&words.words, cwd);
        if let (Some(all), Value::Object(more)) = (arguments.as_object_mut(), more) {
            all.extend(more.into_iter().filter(|(_, it)| !it.is_null()));
        }
        Call { tool: tool.to_owned(), arguments, files: file.into_iter().collect() }
    };
    Ok(match task {
        LspTask::References { target, context, path, max } => {
            let more = json!({"context": context, "path": path, "max_results": max.unwrap_or(1000)});
            of_target("lsp_references", target, more)
        }
        LspTask::Definition { target, body, kind } => {
            of_target("lsp_definition", target, json!({"body": body, "kind": kind}))
        }
        LspTask::Implementations { target } => of_target("lsp_implementations", target, json!({})),
        LspTask::Hover { target } => of_target("lsp_hover", target, json!({})),
        LspTask::Rename { words, preview: _, yes } => {
            let (new_name, words) = words.split_last().context("the new name is missing")?;
            let target = TargetWords { words: words.to_vec() };
            of_target("lsp_rename", &target, json!({"new_name": new_name, "preview": !yes}))
        }
        LspTask::Format { file, lines, preview } => {
            let mut arguments = json!({"file": absolute(file), "preview": preview});
            if let Some(lines) = lines {
                let (first, last) = span(lines).with_context(|| format!("{lines:?} names no lines"))?;
                (arguments["start_line"], arguments["end_line"]) = (first.into(), last.into());
            }
            Call { tool: "lsp_format".to_owned(), arguments, files: vec![file.clone()] }
        }
        LspTask::Actions { place, kind, apply: _ } => {
            let found = place.rsplit_once(':').and_then(|(file, lines)| Some((file, span(lines)?)));
            let (file, (first, last)) =
                found.with_context(|| format!("{place:?} names no line of a file"))?;
            let arguments =
                json!({"file": absolute(file), "start_line": first, "end_line": last, "kind": kind});
            Call { tool: "lsp_code_actions".to_owned(), arguments, files: vec![file.to_owned()] }
        }
        LspTask::Calls { target, outgoing } => {
            let direction = if *outgoing { "outgoing" } else { "incoming" };
            of_target("lsp_call_hierarchy", target, json!({"direction": direction}))
        }
        LspTask::Symbols { query } if cwd.join(query).is_file() => Call {
            tool: "lsp_document_symbols".to_owned(),
            arguments: json!({"file": absolute(query)}),
            files: vec![query.clone()],
        },
        LspTask::Symbols { query } => Call {
            tool: "lsp_workspace_symbols".to_owned(),
            arguments: json!({"query": query}),
            files: Vec::new(),
        },
        LspTask::Diagnostics { files, severity } => {
            let is_pattern = |it: &str| it.contains(['*', '?', '[', '{']) && !cwd.join(it).exists();
            let named: Vec<String> =
                files.iter().map(|it| if is_pattern(it) { it.clone() } else { absolute(it) }).collect();
            let arguments = json!({"files": named, "severity": severity, "max_results": 1000});
            // A pattern may fit files of any language.
            let files = if files.iter().any(|it| is_pattern(it)) { Vec::new() } else { named };
            Call { tool: "lsp_diagnostics".to_owned(), arguments, files }
        }
        LspTask::Call { tool, arguments } => {
            let arguments: Value =
                serde_json::from_str(arguments).with_context(|| format!("{arguments:?} is not JSON"))?;
            let file = arguments["file"].as_str().map(ToOwned::to_owned);
            Call { tool: tool.clone(), arguments, files: file.into_iter().collect() }
        }
        LspTask::Servers | LspTask::Tools => {
            Call { tool: "lsp_workspace".to_owned(), arguments: json!({}), files: Vec::new() }
        }
    })
}

/// `FIRST-LAST` or `LINE`, as two numbers.
fn span(lines: &str) -> Option<(u32, u32)> {
    match lines.split_once('-') {
        Some((first, last)) => Some((first.parse().ok()?, last.parse().ok()?)),
        None => lines.parse().ok().map(|it| (it, it)),
    }
}

/// The edit that is still to be made: of the action with this beginning of its title, or after a confirmation.
fn wanted_edit(task: &LspTask, answer: &Answer) -> Option<Result<String, String>> {
    if !answer.ok {
        return None;
    }
    let title = match task {
        LspTask::Actions { apply: Some(title), .. } => title,
        // The server wants the edit to be confirmed, and that is what `--yes` does.
        LspTask::Rename { yes: true, .. } => {
            return answer.structured["edit"].as_str().map(|id| Ok(id.to_owned()));
        }
        _ => return None,
    };
    let all = answer.structured["actions"].as_array().into_iter().flatten();
    let fits = |it: &&Value| it["title"].as_str().is_some_and(|it| it.starts_with(title.as_str()));
    let fitting: Vec<&Value> = all.filter(fits).collect();
    let exact = fitting.iter().find(|it| it["title"].as_str() == Some(title));
    Some(match (exact, fitting.as_slice()) {
        (Some(one), _) | (None, [one]) => {
            let why = || one["disabled"].as_str().unwrap_or("it has no edit").to_owned();
            one["edit"].as_str().map(ToOwned::to_owned).ok_or_else(why)
        }
        (None, []) => Err(format!("no action begins with {title:?}\n{}", answer.text)),
        (None, several) => Err(format!("{} actions begin with {title:?}\n{}", several.len(), answer.text)),
    })
}

/// The arguments of a target, and its file.
fn target(words: &[String], cwd: &Path) -> (Value, Option<String>) {
    let absolute = |file: &str| cwd.join(file).to_string_lossy().into_owned();
    let exists = |word: &String| cwd.join(place(word).0).is_file();
    // People write the name first as well.
    let (first, name) = match words {
        [name, file] if !exists(name) && exists(file) => (file.as_str(), Some(name)),
        [first, rest @ ..] => (first.as_str(), rest.first()),
        [] => ("", None),
    };
    let (file, numbers) = place(first);
    let (line, character) = (numbers.first().copied(), numbers.get(1).copied());
    let is_file = !numbers.is_empty() || name.is_some();
    if !is_file {
        return (json!({"symbol": first}), None);
    }
    let mut arguments = json!({"file": absolute(file)});
    for (key, number) in [("line", line), ("character", character)] {
        if let Some(number) = number {
            arguments[key] = number.into();
        }
    }
    if let Some(name) = name {
        arguments["symbol"] = name.clone().into();
    }
    (arguments, Some(file.to_owned()))
}

/// `FILE:LINE:CHARACTER` or `FILE:LINE` in its parts.
fn place(word: &str) -> (&str, Vec<u32>) {
    let last = |word: &str| {
        let (before, number) = word.rsplit_once(':')?;
        Some((before.len(), number.parse::<u32>().ok()?)).filter(|(length, _)| *length > 0)
    };
    match last(word) {
        None => (word, Vec::new()),
        Some((length, number)) => match last(&word[..length]) {
            None => (&word[..length], vec![number]),
            Some((shorter, line)) => (&word[..shorter], vec![line, number]),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_from_words() {
        let read = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(ToString::to_string).collect();
            target(&words, Path::new("/w")).0
        };
        assert_eq!(read(&["Graph/add_node"]), json!({"symbol": "Graph/add_node"}));
        assert_eq!(read(&["a::b"]), json!({"symbol": "a::b"}));
        assert_eq!(read(&["src/x.rs:10:4"]), json!({"file": "/w/src/x.rs", "line": 10, "character": 4}));
        assert_eq!(read(&["x.py:7", "f"]), json!({"file": "/w/x.py", "line": 7, "symbol": "f"}));
        assert_eq!(read(&["x.py", "f"]), json!({"file": "/w/x.py", "symbol": "f"}));
        let file = tempfile::NamedTempFile::new().unwrap();
        let file = file.path().to_string_lossy().into_owned();
        assert_eq!(read(&["f", &file]), json!({"file": file, "symbol": "f"}));
    }

    #[test]
    fn previews_name_options_that_make_them() {
        let preview = Answer {
            ok: true,
            text: format!("rename a to b · not made: {}\nm.py", how_to_make("e7")),
            structured: json!({"edit": "e7"}),
        };
        let rename = |yes| LspTask::Rename { words: Vec::new(), preview: false, yes };
        assert_eq!(at_prompt(&rename(false), &preview), "rename a to b · not made: --yes makes it\nm.py");
        assert!(wanted_edit(&rename(false), &preview).is_none());
        assert_eq!(wanted_edit(&rename(true), &preview), Some(Ok("e7".to_owned())));
        let format = LspTask::Format { file: String::new(), lines: None, preview: true };
        assert!(at_prompt(&format, &preview).contains("makes it without --preview\n"));
        let call = LspTask::Call { tool: String::new(), arguments: String::new() };
        assert!(at_prompt(&call, &preview).contains("call the tool without `preview`"));
        let listed = Answer {
            ok: true,
            text: "2 actions\ne1  Import x (quickfix)\n-  Move: not here".to_owned(),
            structured: json!({"actions": [{"edit": "e1"}, {"disabled": "not here"}]}),
        };
        let actions = LspTask::Actions { place: String::new(), kind: None, apply: None };
        assert_eq!(
            at_prompt(&actions, &listed),
            "2 actions\n*  Import x (quickfix)\n-  Move: not here\n--apply TITLE makes an action marked with *"
        );
    }

    #[test]
    fn exit_status_says_how_sure_an_answer_is() {
        let of = |structured: Value| {
            status(&Answer { ok: !structured["error"].is_object(), text: String::new(), structured })
        };
        for (structured, expected) in [
            (json!({"complete": true}), DONE),
            (json!({"complete": false}), NOT_SURE),
            (json!({"error": {"code": "no_server"}}), NO_SERVER),
            (json!({"error": {"code": "bad_arguments"}}), USAGE),
            (json!({"error": {"code": "timeout"}}), NOT_SURE),
            (json!({"error": {"code": "no_symbol"}}), NOT_SO),
            (json!({"error": {"code": "no_symbol", "retry": true}}), NOT_SURE),
            (json!({"error": {"code": "loading"}}), NOT_SURE),
            (json!({"applied": true, "diagnostics": [{"diagnostics": []}]}), DONE),
            (json!({"applied": true, "diagnostics": [{"diagnostics": [{}]}]}), NOT_SO),
            (
                json!({"applied": true, "diagnostics": [{"diagnostics": [], "freshness": "unknown"}]}),
                NOT_SURE,
            ),
            (json!({"files": [{"freshness": "exact", "total": 0}]}), DONE),
            (json!({"files": [{"freshness": "unknown", "total": 0}]}), NOT_SURE),
            (
                json!({"files": [{"freshness": "unknown", "total": 0}, {"freshness": "exact", "total": 2}]}),
                NOT_SO,
            ),
        ] {
            assert_eq!(of(structured.clone()), expected, "{structured}");
        }
    }
}

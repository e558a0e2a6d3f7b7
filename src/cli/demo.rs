//! `lspool demo`: a crash that an editor does not notice. Needs nothing but this program.
//!
//! Plays an editor in front of another lspool, kills its servers, and checks what the editor sees. The servers are
//! recordings. Owns the story and its words; `editor` speaks with lspool.
//!
//! - Reads and changes nothing of the user: the demo uses a temporary folder.

mod editor;

use std::process::ExitCode;

use serde_json::{Value, json};

use self::editor::{Editor, Stage};
use super::{
    columns::wrap,
    print,
    screen::{Screen, Tone},
    world,
};
use crate::{core::CONTINUE, shell::signals};

/// A session with Pyright: an editor opens a file, hovers, and corrects it.
const PYRIGHT: &str = include_str!("demo/pyright.jsonl");
/// A turn of the Copilot server in two processes: the second one takes over while a tool runs.
const COPILOT: &str = include_str!("demo/copilot.jsonl");

/// Plays the demo. Fails if the editor notices a crash.
pub(super) fn run(screen: Screen) -> anyhow::Result<ExitCode> {
    let mut show = Show { screen, n_failed: 0 };
    let stage = Stage::new()?;
    let signal = world::runtime()?.block_on(async {
        let mut signals = signals::listen();
        // Removes the folder and ends the servers, also after Ctrl-C.
        tokio::select! {
            played = play(&stage, &mut show) => played.map(|()| None),
            Some(signal) = signals.recv() => Ok(Some(signal)),
        }
    })?;
    if let Some(signal) = signal {
        return Ok(ExitCode::from(u8::try_from(128 + signal).unwrap_or(u8::MAX)));
    }
    Ok(if show.n_failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn play(stage: &Stage, show: &mut Show) -> anyhow::Result<()> {
    show.begin()?;
    plain_server(stage, show).await?;
    agent(stage, show).await?;
    show.end()
}

/// A server dies while the user types.
async fn plain_server(stage: &Stage, show: &mut Show) -> anyhow::Result<()> {
    show.title("1  An editor opens a file through lspool")?;
    let mut editor = Editor::start(stage, PYRIGHT, "generic").await?;
    let document = editor.recorded("textDocument/didOpen");
    editor.client.notify("textDocument/didOpen", &document).await?;
    show.line("editor", "opens area.py, which calls area(3)")?;
    let problem = editor.diagnostics().await?;
    let first = editor.server().await?;
    show.line("server", &format!("process {first} reports: {}", problem.join("; ")))?;

    show.title("2  The server crashes")?;
    show.line("demo", &format!("kills process {first}"))?;
    editor::kill(first)?;
    show.line("editor", "asks for a hover, and knows of no crash")?;
    let hover = editor.recorded("textDocument/hover");
    let hover = editor.call("textDocument/hover", &hover).await?;
    let second = editor.server().await?;
    show.line("lspool", &format!("has started process {second} and opened area.py in it"))?;
    let text = hover["contents"]["value"].as_str().unwrap_or_default();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ").replace("( ", "(").replace(" )", ")");
    show.line("editor", &format!("gets the hover: {text}"))?;
    show.line("editor", "types, so that the file calls area(3, 4)")?;
    let change = editor.recorded("textDocument/didChange");
    editor.client.notify("textDocument/didChange", &change).await?;
    while !editor.diagnostics().await?.is_empty() {}
    show.line("server", &format!("process {second} reports: no problems"))?;
    let is_well = first != second && !text.is_empty() && editor.leave().await?;
    show.check(is_well, "the hover was answered once, and the editor saw no error")
}

/// A Copilot server dies while an agent waits for a tool.
async fn agent(stage: &Stage, show: &mut Show) -> anyhow::Result<()> {
    show.title("3  An agent's server crashes in the middle of an answer")?;
    // lspool's message to a model may differ from the recorded one.
    let recording = COPILOT.replace("{CONTINUE}", CONTINUE);
    let mut editor = Editor::start(stage, &recording, "copilot").await?;
    editor.call("conversation/registerTools", &editor.recorded("conversation/registerTools")).await?;
    let question = editor.recorded("conversation/create");
    show.line("user", question["turns"][0]["request"].as_str().unwrap_or_default())?;
    let turn = editor.client.ask("conversation/create", &question).await?;
    let (call, tool) = editor.tool_call().await?;
    show.line("agent", editor.reply.trim())?;
    let first = editor.server().await?;
    show.line("server", &format!("process {first} calls the tool {tool}"))?;
    show.line("demo", &format!("kills process {first}"))?;
    editor::kill(first)?;
    let ticket = "ABC-1: the login page rejects long passwords";
    show.line("tool", &format!("answers: {ticket}"))?;
    let before = editor.reply.len();
    let answer = json!([{"content": [{"value": ticket}], "status": "success"}, Value::Null]);
    editor.client.answer(call, &answer).await?;
    editor.answer(&turn).await?;
    let second = editor.server().await?;
    show.line("lspool", &format!("has started process {second} and restored the conversation in it"))?;
    show.line("agent", editor.reply[before..].trim())?;
    let is_one = (editor.n_begins, editor.n_ends, editor.n_calls) == (1, 1, 1);
    let is_well = first != second && editor.reply.len() > before && is_one && editor.leave().await?;
    show.check(is_well, "the user saw one answer without a break, and the tool ran once")
}

/// The output for a person.
struct Show {
    screen: Screen,
    n_failed: usize,
}

impl Show {
    /// Its maximum width.
    const WIDTH: usize = 80;
    /// The column of the text in a line.
    const INDENT: &str = "           ";

    fn begin(&self) -> anyhow::Result<()> {
        self.title("What an editor sees when its language server crashes: nothing")?;
        self.paragraph("The servers are recordings of Pyright and of the Copilot server, inside lspool.")
    }

    fn end(&self) -> anyhow::Result<()> {
        print("\n")?;
        match self.n_failed {
            0 => self.paragraph(
                "Next: `lspool setup EDITOR` prints the settings for an editor, `lspool check` tries your servers.",
            ),
            _ => self.paragraph("The demo failed: please report this."),
        }
    }

    fn title(&self, text: &str) -> anyhow::Result<()> {
        print(&format!("\n{}\n", self.screen.paint(text, Tone::Strong)))
    }

    fn paragraph(&self, text: &str) -> anyhow::Result<()> {
        wrap(text, self.columns(), "").iter().try_for_each(|it| print(&format!("{it}\n")))
    }

    /// Prints one step: who does what.
    fn line(&self, who: &str, what: &str) -> anyhow::Result<()> {
        let tone = if who == "demo" { Tone::Bad } else { Tone::Faint };
        self.told(who, tone, what)
    }

    fn check(&mut self, holds: bool, what: &str) -> anyhow::Result<()> {
        self.n_failed += usize::from(!holds);
        let (word, tone) = if holds { ("ok", Tone::Good) } else { ("failed", Tone::Bad) };
        self.told(word, tone, what)
    }

    fn told(&self, who: &str, tone: Tone, what: &str) -> anyhow::Result<()> {
        let label = format!("   {who:<8}");
        let lines = wrap(&format!("{label}{what}"), self.columns(), Self::INDENT);
        for (n, line) in lines.iter().enumerate() {
            let line = match line.strip_prefix(&label).filter(|_| n == 0) {
                Some(rest) => self.screen.paint(&label, tone) + rest,
                None => line.clone(),
            };
            print(&format!("{line}\n"))?;
        }
        Ok(())
    }

    fn columns(&self) -> usize {
        self.screen.columns().unwrap_or(Self::WIDTH).min(Self::WIDTH)
    }
}

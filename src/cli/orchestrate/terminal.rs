//! The terminal's side of an orchestration: messages to lspool, and output and questions for the user.
//!
//! Acts as an editor on a stream to lspool.

use std::{
    io::{self, Write},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::mpsc,
    time::{MissedTickBehavior, interval},
};

use super::{
    DONE, FAILED, INTERRUPTED, NOTHING, Task,
    pen::Pen,
    questions::{self, May, Questions},
    saved::{Change, Saved},
    view::View,
};
use crate::{
    agents::orchestration::{End, Event, Notice},
    cli::{
        client::{Client, PATIENCE, at_once, error_of, initialize},
        columns::{width, wrap},
        screen::{Screen, Tone},
    },
    rpc::{Frame, Kind, RawId, member, text},
    shell::goals::GoalFile,
    util::text::plain,
};

/// How often to redraw.
const EVERY: Duration = Duration::from_millis(100);

/// Does it: `stream` is lspool, `signals` are those that its user sends, and `quit` sends one on to lspool.
pub(super) async fn run(
    task: &Task,
    stream: impl AsyncRead + AsyncWrite + Unpin,
    mut signals: mpsc::Receiver<i32>,
    quit: mpsc::Sender<i32>,
    out: &mut dyn Write,
    screen: Screen,
) -> io::Result<u8> {
    let mut client = Client::new(stream);
    let initialized = client.ask("initialize", &initialize(&task.folder)).await?;
    let mut at = Terminal {
        goal: None,
        view: View::default(),
        began: None,
        questions: Questions::new(task.may),
        pen: Pen::new(screen),
        json: task.json,
        saved: task.saved.clone(),
        is_interrupted: false,
    };
    let mut tick = interval(EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            heard = client.hear() => {
                let frame = heard?;
                if frame.kind() == Kind::Response && frame.id().as_ref() == Some(&initialized) {
                    if let Some(error) = error_of(&frame) {
                        at.tell(&error, out)?;
                        return Ok(NOTHING);
                    }
                    client.notify("initialized", &json!({})).await?;
                    at.goal = Some(client.ask("lspool/orchestrate", &at.goal(task)).await?);
                    continue;
                }
                if let Some(status) = at.on_frame(&mut client, &frame, out).await? {
                    client.leave(PATIENCE).await;
                    return Ok(status);
                }
            }
            Some(signal) = signals.recv() => {
                const CTRL_C: i32 = 2;
                match &at.goal {
                    Some(goal) if signal == CTRL_C && !at.is_interrupted => {
                        at.is_interrupted = true;
                        client.notify_raw("$/cancelRequest", goal).await?;
                    }
                    _ => {
                        at.pen.finish(out)?;
                        quit.send(signal).await.ok();
                        return Ok(u8::try_from(128 + signal).unwrap_or(u8::MAX));
                    }
                }
            }
            Some(answer) = at.questions.answer() => {
                if let Some((id, result)) = answer {
                    client.answer(id, &result).await?;
                }
                at.ask(&mut client, out).await?;
            }
            _ = tick.tick(), if at.is_live() => at.draw(out)?,
        }
    }
}

/// The state of the terminal.
struct Terminal {
    /// The request of the goal.
    goal: Option<RawId>,
    view: View,
    began: Option<Instant>,
    questions: Questions,
    pen: Pen,
    json: bool,
    /// What is stored of it, and where.
    saved: Option<(Saved, GoalFile)>,
    is_interrupted: bool,
}

impl Terminal {
    /// The parameters of the request.
    fn goal(&self, task: &Task) -> Value {
        json!({
            "goal": task.goal,
            "workers": task.workers,
            "worker": task.worker,
            "tasks": task.tasks,
            "model": task.model,
            "retries": task.retries,
            // Only a picture shows what workers write.
            "events": !self.json && self.pen.screen.size.is_some(),
            "needToolCallConfirmation": task.may != May::All,
        })
    }

    async fn on_frame<S: AsyncRead + AsyncWrite + Unpin>(
        &mut self,
        client: &mut Client<S>,
        frame: &Frame,
        out: &mut dyn Write,
    ) -> io::Result<Option<u8>> {
        let params = frame.params().unwrap_or(b"{}");
        match (frame.kind(), frame.method()) {
            (Kind::Notification, Some("lspool/orchestratorEvent")) => self.on_event(params, out)?,
            (Kind::Notification, Some("lspool/agentEvent")) => {
                if let [Some(worker), Some(words)] = [["agent"], ["text"]].map(|it| text(params, &it)) {
                    self.view.hear(&worker, &words);
                }
            }
            (Kind::Notification, Some("window/showMessage")) => {
                // Errors and warnings only.
                let is_serious = member(params, "type").is_some_and(|it| matches!(&params[it], b"1" | b"2"));
                if let Some(message) = text(params, &["message"]).filter(|_| is_serious) {
                    self.tell(&message, out)?;
                }
            }
            (Kind::Notification, Some("$/cancelRequest")) => {
                let Some(id) = member(params, "id").and_then(|it| RawId::from_raw(&params[it])) else {
                    return Ok(None);
                };
                if let Some(was_asked) = self.questions.withdraw(&id) {
                    client.answer(id, &questions::refused()).await?;
                    if was_asked {
                        writeln!(io::stderr(), "\nlspool: the question was withdrawn")?;
                        self.ask(client, out).await?;
                    }
                }
            }
            (Kind::Request, Some(method)) => {
                let Some(id) = frame.id() else { return Ok(None) };
                match at_once(method, params) {
                    Some(result) => client.answer(id, &result).await?,
                    None => {
                        self.questions.add(id, params);
                        self.ask(client, out).await?;
                    }
                }
            }
            (Kind::Response, _) if frame.id() == self.goal => return self.on_end(frame, out).map(Some),
            (Kind::Notification | Kind::Request | Kind::Response, _) => {}
        }
        Ok(None)
    }

    fn on_event(&mut self, params: &[u8], out: &mut dyn Write) -> io::Result<()> {
        let told = serde_json::from_slice::<Notice>(params);
        if let Ok(told) = &told {
            self.save(&told.event, out)?;
        }
        if self.json {
            out.write_all(params)?;
            out.write_all(b"\n")?;
            return out.flush();
        }
        let Ok(told) = told else { return Ok(()) };
        let began = now().checked_sub(Duration::from_millis(told.at_ms));
        self.began = self.began.or(began);
        let had_plan = self.view.has_plan();
        self.view.apply(&told);
        if self.pen.screen.size.is_some() {
            return Ok(());
        }
        // The summary alone is the output: `lspool orchestrate GOAL > summary.md`.
        let mut err = io::stderr();
        if !had_plan && self.view.has_plan() {
            for line in self.view.lines(told.at_ms, self.pen.screen) {
                writeln!(err, "{line}")?;
            }
            writeln!(err)?;
        }
        if let Some(line) = self.view.line(&told) {
            writeln!(err, "{line}")?;
        }
        err.flush()
    }

    /// Stores what has happened, for `--resume`.
    fn save(&mut self, event: &Event, out: &mut dyn Write) -> io::Result<()> {
        let Some((saved, file)) = &mut self.saved else { return Ok(()) };
        let done = match saved.apply(event) {
            Change::Nothing => Ok(()),
            Change::Write => file.save(json!(saved).to_string().as_bytes()),
            Change::Remove => file.remove(),
        };
        if let Err(error) = done {
            self.saved = None;
            self.tell(&format!("--resume will not work: cannot store the goal: {error}"), out)?;
        }
        Ok(())
    }

    /// The request is answered: what is left to be shown, and the exit status.
    fn on_end(&mut self, answer: &Frame, out: &mut dyn Write) -> io::Result<u8> {
        if !self.json && self.pen.screen.size.is_some() && self.began.is_some() {
            let lines = self.view.lines(self.at_ms(), self.pen.screen);
            self.pen.draw(&lines, usize::MAX, out)?;
        }
        self.pen.finish(out)?;
        let end = self.view.end();
        if let Some(error) = error_of(answer) {
            let is_interrupted = self.is_interrupted || end == Some(End::Cancelled);
            // The drawing, which stays, shows the error already.
            let is_shown = !self.json && self.view.error() == Some(&*error) && self.has_room_for(&error);
            if !is_interrupted && !is_shown {
                self.tell(&error, out)?;
            }
            return Ok(if is_interrupted { INTERRUPTED } else { NOTHING });
        }
        let result = answer.result().unwrap_or(b"{}");
        if !self.json {
            self.end(text(result, &["summary"]), out)?;
        }
        match self.questions.n_refused() {
            0 => {}
            1 => self.tell("a command was refused: check the work of its task", out)?,
            n => self.tell(&format!("{n} commands were refused: check the work of their tasks"), out)?,
        }
        let is_done = text(result, &["state"]).as_deref() == Some(End::Done.word());
        Ok(if is_done { DONE } else { FAILED })
    }

    /// Prints failed tasks and the summary below the drawing.
    fn end(&self, summary: Option<String>, out: &mut dyn Write) -> io::Result<()> {
        let screen = self.pen.screen;
        let columns = screen.columns().unwrap_or(usize::MAX);
        let is_live = screen.size.is_some();
        let failures = self.view.failures();
        let failures = failures.iter().flat_map(|it| wrap(it, columns, "  "));
        for (n, line) in failures.enumerate() {
            let gap = if n == 0 { "\n" } else { "" };
            match is_live {
                true => writeln!(out, "{gap}{}", screen.paint(&line, Tone::Bad))?,
                false => writeln!(io::stderr(), "{gap}{line}")?,
            }
        }
        if let Some(summary) = summary {
            if is_live {
                writeln!(out)?;
            }
            for line in wrap(&plain(summary.trim_end()), columns, "") {
                writeln!(out, "{line}")?;
            }
        }
        out.flush()
    }

    /// Whether the drawing shows a message in full.
    fn has_room_for(&self, message: &str) -> bool {
        let has_room = |(columns, _)| message.lines().count() < 2 && width(message) < columns;
        self.pen.screen.size.is_some_and(has_room)
    }

    /// Asks the next question, if none is on the screen.
    async fn ask<S: AsyncRead + AsyncWrite + Unpin>(
        &mut self,
        client: &mut Client<S>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        for (id, result, note) in self.questions.decide() {
            if let Some(note) = note {
                self.tell(&note, out)?;
            }
            client.answer(id, &result).await?;
        }
        for worker in self.questions.take_refused() {
            self.view.refuse(&worker);
        }
        if let Some(question) = self.questions.next(self.pen.screen.again()) {
            // The plan stays above the question.
            if !self.questions.is_repeated() && self.is_shown() {
                self.draw(out)?;
            }
            self.pen.finish(out)?;
            let mut err = io::stderr();
            write!(err, "{question}")?;
            err.flush()?;
        }
        Ok(())
    }

    fn is_shown(&self) -> bool {
        !self.json && self.pen.screen.size.is_some() && self.began.is_some()
    }

    fn is_live(&self) -> bool {
        self.is_shown() && !self.questions.is_asking()
    }

    fn at_ms(&self) -> u64 {
        let since = self.began.map_or(Duration::ZERO, |it| now().saturating_duration_since(it));
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }

    fn draw(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.pen.screen = self.pen.screen.again();
        let lines = self.view.lines(self.at_ms(), self.pen.screen);
        let rows = self.pen.screen.size.map_or(usize::MAX, |(_, rows)| rows.saturating_sub(1));
        self.pen.draw(&lines, rows, out)
    }

    /// Prints a message outside the drawing.
    fn tell(&mut self, message: &str, out: &mut dyn Write) -> io::Result<()> {
        self.pen.erase(out)?;
        writeln!(io::stderr(), "lspool: {}", plain(message))
    }
}

fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

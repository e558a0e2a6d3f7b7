//! Rows to aligned text.

use std::{collections::HashMap, time::Duration};

use super::{
    Filter,
    goals::EVENT,
    is_like,
    timeline::{Group, Outcome, Row, Timeline},
};
use crate::{
    cli::{
        columns::{shorten, width as columns_of},
        screen::{Screen, Tone},
    },
    util::text::plain,
};

/// The width without a terminal.
const WIDTH: usize = 120;
/// The fewest columns for the subject of a row.
const FEWEST: usize = 24;

/// The text of the filtered rows.
pub(super) fn text(all: &Timeline, filter: &Filter, note: Option<&str>, screen: Screen) -> String {
    let mut lines = vec![screen.paint(&head(all), Tone::Strong)];
    for (process, about) in &all.processes {
        lines.push(format!("  {process:<5} {}", plain(about)));
    }
    let rows: Vec<&Row> = all.rows.iter().filter(|it| is_shown(it, filter)).collect();
    for (group, rows) in grouped(&rows, all.is_of_lspool) {
        lines.push(String::new());
        lines.push(screen.paint(&title(group, all), Tone::Strong));
        lines.extend(rows.into_iter().map(|it| line(it, screen)));
    }
    if rows.is_empty() {
        lines.push(String::new());
        lines.push("no message matches".to_owned());
    }
    if let Some(note) = note {
        lines.push(String::new());
        lines.push(screen.paint(note, Tone::Passing));
    }
    lines.iter().fold(String::new(), |text, line| text + line.trim_end() + "\n")
}

pub(super) fn head(all: &Timeline) -> String {
    let what = if all.is_of_lspool { "recording of lspool" } else { "transcript" };
    let end = all.end.as_ref().map_or_else(String::new, |it| format!("; {it}"));
    let with = if all.is_of_lspool { " with the editor" } else { "" };
    format!("{what}: {} messages{with} in {}{end}", all.messages, took(all.length))
}

/// The process of a transcript (or nothing) and the group.
type Key<'a> = (&'a str, &'a Group);

fn key(row: &Row, is_of_lspool: bool) -> Key<'_> {
    (if is_of_lspool { "" } else { &row.process }, &row.group)
}

/// Groups rows, in the order of their begins; processes last, and each process of a transcript separately.
pub(super) fn grouped<'a>(rows: &[&'a Row], is_of_lspool: bool) -> Vec<(Key<'a>, Vec<&'a Row>)> {
    let mut groups: Vec<(Key<'a>, Vec<&Row>)> = Vec::new();
    let mut known: HashMap<Key<'a>, usize> = HashMap::new();
    let mut processes: HashMap<&str, usize> = HashMap::new();
    for &row in rows {
        let key = key(row, is_of_lspool);
        let n = *known.entry(key).or_insert(groups.len());
        if n == groups.len() {
            groups.push((key, Vec::new()));
        }
        groups[n].1.push(row);
        processes.entry(key.0).or_insert(n);
    }
    groups
        .sort_by_key(|((process, group), _)| (processes.get(process).copied(), **group == Group::Processes));
    groups
}

pub(super) fn title((process, group): Key<'_>, all: &Timeline) -> String {
    let before = if process.is_empty() { String::new() } else { format!("{process}: ") };
    let what = match group {
        Group::Session => "session".to_owned(),
        Group::Processes => "processes".to_owned(),
        Group::Conversation(id) => {
            let served = all.served.get(id).map_or(&[][..], Vec::as_slice);
            let served = served.iter().map(ToString::to_string).collect::<Vec<_>>().join(", then ");
            let of = if served.is_empty() { served } else { format!("  served by {served}") };
            let kind = if all.goals.has(id) { "orchestration" } else { "conversation" };
            format!("{kind} {id}{of}")
        }
    };
    plain(&format!("{before}{what}"))
}

pub(super) fn is_shown(row: &Row, filter: &Filter) -> bool {
    let (_, is_bad) = outcome(row);
    let is_meant = |wanted: &String| match &row.group {
        Group::Conversation(id) => id == wanted,
        Group::Session | Group::Processes => false,
    };
    (!filter.only_errors || is_bad)
        && filter.conversation.as_ref().is_none_or(is_meant)
        && filter.method.as_ref().is_none_or(|it| is_like(&row.method, it))
}

fn line(row: &Row, screen: Screen) -> String {
    let at = format!("{:>10.3}", row.at.as_secs_f64());
    let (outcome, is_bad) = outcome(row);
    let tone = if is_bad { Tone::Bad } else { Tone::Plain };
    let what = match (&row.group, row.is_of_server, short_name(&row.method)) {
        (Group::Processes, ..) => {
            return format!("{at}  {}  {}", row.process, screen.paint(&one_line(outcome), tone));
        }
        (_, true, Some("")) => format!("  {}", row.detail),
        (_, true, Some(name)) => format!("  {name} {}", row.detail),
        (_, true, None) => format!("  < {} {}", row.method, row.detail),
        (_, false, _) => format!("{} {}", row.method, row.detail),
    };
    let width = screen.size.map_or(WIDTH, |(columns, _)| columns);
    let outcome = one_line(outcome);
    let took = row.took.map_or_else(String::new, took);
    let rest = width.saturating_sub(at.len() + 2 + 8 + 2);
    let room = rest.saturating_sub(columns_of(&outcome) + 2).max(FEWEST);
    let what = shorten(&one_line(what.trim_end()), room);
    let outcome = if outcome.is_empty() { outcome } else { format!("  {}", screen.paint(&outcome, tone)) };
    format!("{at}  {took:>8}  {what}{outcome}")
}

/// The outcome of a row, and whether it is an error.
pub(super) fn outcome(row: &Row) -> (&str, bool) {
    match &row.outcome {
        Outcome::Fine(text) => (text, false),
        Outcome::Bad(text) => (text, true),
        Outcome::Open => ("no answer", true),
    }
}

/// A short name for methods whose tool name says more.
pub(super) fn short_name(method: &str) -> Option<&'static str> {
    match method {
        "conversation/invokeClientTool" => Some("tool"),
        "conversation/invokeClientToolConfirmation" => Some("confirm"),
        EVENT => Some(""),
        _ => None,
    }
}

fn one_line(text: &str) -> String {
    plain(text).replace(['\n', '\t'], " ")
}

fn took(time: Duration) -> String {
    match time.as_millis() {
        0 => "<1 ms".to_owned(),
        millis @ 1..1000 => format!("{millis} ms"),
        1000..60_000 => format!("{:.2} s", time.as_secs_f64()),
        _ => format!("{:.1} min", time.as_secs_f64() / 60.0),
    }
}

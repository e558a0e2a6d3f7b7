//! Several lspools with plain servers, in one table.
//!
//! A Copilot server has tool sets, conversations, and agents, which need a table for each lspool.

use super::{GAP, Status, cells, config_notes, notes};
use crate::cli::{
    columns::width,
    screen::{Screen, Tone},
    table::{Cell, table},
};

/// The columns.
const HEAD: [&str; 10] =
    ["LSPOOL", "WORKSPACE", "SERVER", "STATE", "SINCE", "PID", "MEMORY", "RESTARTS", "REQUESTS", "EDITOR"];
const WORKSPACE: usize = 1;
const STATE: usize = 3;
/// The numbers, which are aligned right.
const NUMBERS: [usize; 6] = [0, 4, 5, 6, 7, 8];
/// The columns for which a workspace gives way.
const STAYING: std::ops::Range<usize> = 2..8;
/// The fewest columns for a workspace.
const FEWEST: usize = 12;

/// Whether one table shows them all.
pub(super) fn fits(all: &[(u32, Result<&Status, &str>)]) -> bool {
    let is_plain = |status: &Result<&Status, &str>| status.is_ok_and(|it| !it.may_have_agents());
    all.len() > 1 && all.iter().all(|(_, status)| is_plain(status))
}

pub(super) fn lines(all: &[(u32, &Status)], now: u64, screen: Screen) -> Vec<String> {
    let mut rows: Vec<([String; 10], Tone)> = Vec::new();
    // The notes below each row.
    let mut below: Vec<Vec<String>> = Vec::new();
    for (pid, status) in all {
        let workspace = status.workspace.as_deref().unwrap_or("-");
        let row = |[server, state, since, process, memory, restarts, requests]: [String; 7]| {
            let hub = status.hub.as_ref().map(|it| format!("hub, {}", it.clients()));
            let editor = super::without_build(status.editor.as_deref().unwrap_or_default());
            let editor = super::plain(hub.as_deref().unwrap_or(editor));
            let workspace = super::plain(workspace);
            let pid = pid.to_string();
            [pid, workspace, server, state, since, process, memory, restarts, requests, editor]
        };
        if status.backends.is_empty() {
            let none = || "-".to_owned();
            let first = ["no server yet".to_owned(), none(), none(), none(), none(), none(), none()];
            rows.push((row(first), Tone::Plain));
            below.push(Vec::new());
        }
        for backend in &status.backends {
            let [server, _, state, since, pid, memory, restarts, _, requests, _] = cells(backend, now);
            rows.push((row([server, state, since, pid, memory, restarts, requests]), backend.tone()));
            let mut lines = Vec::new();
            notes(backend, now, screen, &mut lines);
            below.push(lines);
        }
        if let Some(last) = below.last_mut() {
            config_notes(status, screen, last);
        }
    }
    for n in NUMBERS {
        let widest = rows.iter().map(|(row, _)| width(&row[n])).max().unwrap_or_default().max(HEAD[n].len());
        for (row, _) in &mut rows {
            row[n] = format!("{}{}", " ".repeat(widest - width(&row[n])), row[n]);
        }
    }
    shorten_workspaces(&mut rows, screen);
    let mut head = HEAD.map(str::to_owned);
    for n in NUMBERS {
        let widest = rows.first().map(|(row, _)| width(&row[n])).unwrap_or_default();
        head[n] = format!("{}{}", " ".repeat(widest.saturating_sub(HEAD[n].len())), HEAD[n]);
    }
    let cells = rows.into_iter().map(|(row, tone)| {
        let mut cells = row.map(Cell::plain);
        cells[STATE] = cells[STATE].clone().in_tone(tone);
        cells
    });
    let text = table(head.each_ref().map(String::as_str), cells, &[], screen);
    let mut lines = Vec::new();
    for (n, line) in text.lines().enumerate() {
        lines.push(line.to_owned());
        if let Some(notes) = n.checked_sub(1).and_then(|it| below.get_mut(it)) {
            lines.append(notes);
        }
    }
    lines
}

/// Cuts the beginnings of paths, because their ends tell them apart.
fn shorten_workspaces(rows: &mut [([String; 10], Tone)], screen: Screen) {
    let Some(columns) = screen.columns() else { return };
    let widest = |n: usize| rows.iter().map(|(row, _)| width(&row[n])).max().unwrap_or(0).max(HEAD[n].len());
    let others = widest(0) + STAYING.map(|n| GAP.len() + widest(n)).sum::<usize>() + GAP.len();
    let room = columns.saturating_sub(others).max(FEWEST);
    for (row, _) in rows {
        if width(&row[WORKSPACE]) > room {
            let mut end = row[WORKSPACE].as_str();
            while width(end) >= room {
                end = &end[end.chars().next().map_or(0, char::len_utf8)..];
            }
            row[WORKSPACE] = format!("…{end}");
        }
    }
}

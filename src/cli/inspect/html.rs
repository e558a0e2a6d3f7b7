//! The timeline as one page for a browser. The page loads nothing else.
//!
//! Owns the lanes: one for the session, each conversation, and each process. The page draws them.

use std::{fmt::Write as _, time::Duration};

use serde_json::{Value, json};

use super::{
    Filter,
    table::{grouped, head, is_shown, outcome, short_name, title},
    timeline::{Group, Outcome, Row, Timeline},
};
use crate::{cli::columns::shorten, util::text::plain};

/// The page, with a place for the data.
const PAGE: &str = include_str!("page.html");
/// Longer texts are cut: an argument of a tool may be a whole file.
const LONGEST: usize = 400;

/// A request waits at least so long if the page says that it waited: less is what lspool itself needs.
const VISIBLE: Duration = Duration::from_millis(1);

/// What is drawn; the page knows these numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Request = 0,
    Turn = 1,
    Tool = 2,
    Life = 3,
    Mark = 4,
}

/// The page for the filtered rows.
pub(super) fn page(all: &Timeline, filter: &Filter, note: Option<&str>) -> String {
    let rows: Vec<&Row> = all.rows.iter().filter(|it| is_shown(it, filter)).collect();
    let mut lanes: Vec<String> = Vec::new();
    let mut drawn: Vec<Value> = Vec::new();
    for (key, rows) in grouped(&rows, all.is_of_lspool) {
        if *key.1 == Group::Processes {
            processes(all, &rows, &mut lanes, &mut drawn);
            continue;
        }
        lanes.push(title(key, all));
        drawn.extend(rows.iter().map(|it| event(it, lanes.len() - 1)));
    }
    let at = |it: &Value| it[0].as_f64().unwrap_or_default();
    drawn.sort_by(|a, b| at(a).total_cmp(&at(b)));
    let mut heading = head(all);
    if let Some(note) = note {
        write!(heading, "; {note}").unwrap_or_default();
    }
    let data = json!({"title": heading, "length": millis(all.length), "lanes": lanes, "rows": drawn});
    // No text may end its element.
    PAGE.replacen("/*DATA*/", &data.to_string().replace('<', "\\u003c"), 1)
}

/// A lane for each process, with its lifetime and end.
fn processes(all: &Timeline, rows: &[&Row], lanes: &mut Vec<String>, drawn: &mut Vec<Value>) {
    let mut names: Vec<&str> = rows.iter().map(|it| &*it.process).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let about = all.processes.get(name).map(|it| format!(" {it}")).unwrap_or_default();
        lanes.push(plain(&format!("process {name}{about}")));
        let lane = lanes.len() - 1;
        let own: Vec<&&Row> = rows.iter().filter(|it| &*it.process == name).collect();
        let is_end = |it: &Row| matches!(&it.outcome, Outcome::Fine(text) | Outcome::Bad(text) if text.contains("ended"));
        let begin = own.first().map_or(Duration::ZERO, |it| it.at);
        let end = own.iter().rfind(|it| is_end(it)).map_or(all.length, |it| it.at);
        let took = millis(end.saturating_sub(begin));
        drawn.push(json!([
            millis(begin),
            took,
            lane,
            Kind::Life as u8,
            format!("process {name}"),
            "",
            false
        ]));
        drawn.extend(own.iter().map(|it| event(it, lane)));
    }
}

/// The data of a row for the page.
fn event(row: &Row, lane: usize) -> Value {
    let (text, is_bad) = outcome(row);
    let kind = match (&row.group, short_name(&row.method), row.method.as_str()) {
        (Group::Processes, ..) => Kind::Mark,
        (_, Some(_), _) => Kind::Tool,
        (_, None, "conversation/create" | "conversation/turn") => Kind::Turn,
        _ => Kind::Request,
    };
    let what = match (kind, short_name(&row.method)) {
        (Kind::Mark, _) => text.to_owned(),
        (_, Some(name)) => format!("{name} {}", row.detail),
        (_, None) if row.is_of_server => format!("< {} {}", row.method, row.detail),
        (_, None) => format!("{} {}", row.method, row.detail),
    };
    let outcome = if kind == Kind::Mark { "" } else { text };
    let [what, outcome] = [what.as_str(), outcome].map(|it| shorten(plain(it).trim(), LONGEST));
    let waited = row.waited.filter(|it| *it >= VISIBLE).map(millis);
    json!([millis(row.at), row.took.map(millis), lane, kind as u8, what, outcome, is_bad, waited])
}

/// Milliseconds, to a microsecond.
fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

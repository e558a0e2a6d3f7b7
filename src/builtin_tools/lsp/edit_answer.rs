//! What a call that edits answers: the edit by file, what has come of it, and what is left.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{
    Answer, Diagnostic,
    answer::{MOST_OF_TEXT, clipped},
    visible,
};

/// How many lines of differences an answer has.
const MOST_OF_DIFF: usize = 200;
/// The same for one of several actions.
const MOST_OF_ACTION: usize = 20;
/// How many places with the old name are shown.
const MOST_LEFT: usize = 20;

/// A file in an edit.
#[derive(Clone, Debug, Default)]
pub struct ChangeShown {
    /// The file.
    pub file: String,
    /// Its old name, if it gets another one.
    pub from: Option<String>,
    /// What happens to it, if its text is not all.
    pub what: Option<&'static str>,
    /// How many places are changed.
    pub n_edits: usize,
    /// The lines of its unified diff, without a head.
    pub diff: Vec<String>,
}

/// Whether an edit is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EditState {
    /// It is.
    Made,
    /// It can be made under this id.
    Kept(String),
    /// There is nothing to change.
    Empty,
}

/// Errors of a file that were not there before the edit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewErrors {
    /// The file.
    pub file: String,
    /// Why it was not checked.
    pub unchecked: Option<String>,
    /// The errors.
    pub errors: Vec<Diagnostic>,
}

/// Where the old name is left as a word.
#[derive(Clone, Debug, Default)]
pub struct Left {
    /// The name.
    pub name: String,
    /// How many lines there are.
    pub total: usize,
    /// Some of them: file, line from 1, text.
    pub lines: Vec<(String, u32, String)>,
}

/// The answer of a call that edits.
#[derive(Clone, Debug)]
pub struct EditAnswer {
    /// What is done: "rename a (function, m.py:1) to b".
    pub title: String,
    /// Whether it is made.
    pub state: EditState,
    /// The files.
    pub changes: Vec<ChangeShown>,
    /// After a rename.
    pub left: Option<Left>,
    /// After an edit.
    pub errors: Vec<NewErrors>,
    /// For the reader.
    pub notes: Vec<String>,
}

/// Tells a reader who can call tools how to make an edit.
pub fn how_to_make(id: &str) -> String {
    format!("lsp_apply_edit {{\"edit\": \"{id}\"}} makes it")
}

impl EditAnswer {
    /// Writes the answer.
    pub fn answer(self) -> Answer {
        let (n_edits, n_files) =
            (self.changes.iter().map(|it| it.n_edits).sum::<usize>(), self.changes.len());
        let state = match &self.state {
            EditState::Made => "made".to_owned(),
            EditState::Kept(id) => format!("not made: {}", how_to_make(id)),
            EditState::Empty => "there is nothing to change".to_owned(),
        };
        let mut text =
            format!("{} · {} in {} · {state}", self.title, count(n_edits, "edit"), count(n_files, "file"));
        for note in &self.notes {
            write!(text, "\nnote: {note}").unwrap_or_default();
        }
        self.write_errors(&mut text);
        let is_preview = matches!(self.state, EditState::Kept(_));
        let (shown, is_cut) =
            write_changes(&mut text, &self.changes, if is_preview { MOST_OF_DIFF } else { 0 });
        let mut structured = json!({
            "ok": true, "applied": self.state == EditState::Made, "changes": shown, "notes": self.notes,
            "total": n_files, "truncated": is_cut,
        });
        if let EditState::Kept(id) = &self.state {
            structured["edit"] = id.clone().into();
        }
        if self.state == EditState::Made {
            structured["diagnostics"] = self.errors.iter().map(NewErrors::value).collect();
        }
        if let Some(left) = &self.left {
            left.write(&mut text);
            structured["left"] = left.value();
            structured["left_total"] = left.total.into();
        }
        Answer { ok: true, text, structured }
    }

    fn write_errors(&self, text: &mut String) {
        if self.state != EditState::Made {
            return;
        }
        for it in &self.errors {
            if let Some(why) = &it.unchecked {
                write!(text, "\nNOT CHECKED: {} ({why})", it.file).unwrap_or_default();
            }
        }
        let n_checked = self.errors.iter().filter(|it| it.unchecked.is_none()).count();
        let n_errors: usize = self.errors.iter().map(|it| it.errors.len()).sum();
        match (n_errors, n_checked) {
            (0, 0) => {}
            (0, n) => write!(text, "\nno new errors in {} checked", count(n, "file")).unwrap_or_default(),
            (n, _) => write!(text, "\nNEW ERRORS: {n}").unwrap_or_default(),
        }
        for it in &self.errors {
            for error in &it.errors {
                let message = visible(error.message.trim()).replace('\n', "\n          ");
                let place = format!("{}:{}:{}", it.file, error.start.0, error.start.1);
                let line =
                    format!("\n  {place}  {message}\n          {}", clipped(&error.text, error.start.1));
                if text.len() + line.len() < MOST_OF_TEXT / 2 {
                    *text += &line;
                }
            }
        }
    }
}

impl NewErrors {
    fn value(&self) -> Value {
        let errors: Vec<Value> = self.errors.iter().map(Diagnostic::value).collect();
        let mut value = json!({"file": self.file, "diagnostics": errors});
        if let Some(why) = &self.unchecked {
            (value["freshness"], value["why"]) = ("unknown".into(), why.clone().into());
        }
        value
    }
}

impl Left {
    fn shown(&self) -> &[(String, u32, String)] {
        &self.lines[..self.lines.len().min(MOST_LEFT)]
    }

    fn write(&self, text: &mut String) {
        if self.total == 0 {
            return;
        }
        write!(text, "\nleft: `{}` is still a word in {}", self.name, count(self.total, "line"))
            .unwrap_or_default();
        for (file, line, content) in self.shown() {
            write!(text, "\n  {file}:{line}  {}", clipped(content, 1)).unwrap_or_default();
        }
        if self.total > self.shown().len() {
            write!(text, "\n  … {} more", self.total - self.shown().len()).unwrap_or_default();
        }
    }

    fn value(&self) -> Value {
        let line = |(file, line, text): &(String, u32, String)| json!({"file": file, "line": line, "text": clipped(text, 1)});
        self.shown().iter().map(line).collect()
    }
}

/// Writes the files of an edit, with this many lines of differences. Returns the values, and whether some is left out.
fn write_changes(text: &mut String, changes: &[ChangeShown], most: usize) -> (Vec<Value>, bool) {
    let (mut shown, mut left, mut is_cut) = (Vec::new(), most, false);
    for it in changes {
        let mut value = json!({"file": it.file, "edits": it.n_edits});
        let mut part = format!("\n{}", it.file);
        if let Some(from) = &it.from {
            value["from"] = from.clone().into();
            write!(part, "  from {from}").unwrap_or_default();
        }
        if let Some(what) = it.what {
            value["what"] = what.into();
            write!(part, "  {what}").unwrap_or_default();
        }
        if it.n_edits > 0 {
            write!(part, "  {}", count(it.n_edits, "edit")).unwrap_or_default();
        }
        if most > 0 {
            let lines = &it.diff[..it.diff.len().min(left)];
            left -= lines.len();
            is_cut |= lines.len() < it.diff.len();
            let mut diff = String::new();
            for it in lines {
                writeln!(diff, "{}", visible(it)).unwrap_or_default();
            }
            for line in diff.lines() {
                write!(part, "\n{line}").unwrap_or_default();
            }
            value["diff"] = diff.into();
        }
        if text.len() + part.len() > MOST_OF_TEXT {
            is_cut = true;
            let head = part.lines().nth(1).unwrap_or_default();
            if text.len() + head.len() < MOST_OF_TEXT + 2000 {
                write!(text, "\n{head}").unwrap_or_default();
            }
            value["diff"] = Value::Null;
            left = 0;
        } else {
            *text += &part;
        }
        shown.push(value);
    }
    if is_cut {
        *text += "\n[more changes are not shown]";
    }
    (shown, is_cut)
}

/// One of several actions.
#[derive(Clone, Debug)]
pub struct ActionShown {
    /// Its title.
    pub title: String,
    /// Its kind, such as `quickfix`.
    pub kind: Option<String>,
    /// Whether the server prefers it.
    pub is_preferred: bool,
    /// The id of its edit; or why it has none.
    pub edit: Result<String, String>,
    /// What its edit does.
    pub changes: Vec<ChangeShown>,
    /// For the reader.
    pub notes: Vec<String>,
}

/// The answer with actions for a place.
pub fn actions_answer(title: &str, actions: &[ActionShown], total: usize, notes: &[String]) -> Answer {
    let mut text = title.to_owned();
    for note in notes {
        write!(text, "\nnote: {note}").unwrap_or_default();
    }
    let (mut shown, mut is_cut) = (Vec::new(), actions.len() < total);
    for it in actions {
        let id = it.edit.as_deref().unwrap_or("-");
        let kind = it.kind.as_deref().map_or_else(String::new, |it| format!(" ({it})"));
        let preferred = if it.is_preferred { ", preferred" } else { "" };
        let mut part = format!("\n{id}  {}{kind}{preferred}", visible(&it.title));
        let mut value = json!({"title": it.title, "kind": it.kind, "preferred": it.is_preferred});
        match &it.edit {
            Ok(id) => value["edit"] = id.clone().into(),
            Err(why) => {
                write!(part, ": {}", visible(why)).unwrap_or_default();
                value["disabled"] = why.clone().into();
            }
        }
        for note in &it.notes {
            write!(part, "\n    note: {note}").unwrap_or_default();
        }
        let (changes, _) = write_changes(&mut part, &it.changes, MOST_OF_ACTION);
        value["changes"] = changes.into();
        if !it.notes.is_empty() {
            value["notes"] = it.notes.clone().into();
        }
        if text.len() + part.len() > MOST_OF_TEXT {
            is_cut = true;
            break;
        }
        text += &part.replace('\n', "\n    ").replacen("\n    ", "\n", 1);
        shown.push(value);
    }
    if is_cut {
        write!(text, "\n{} more: ask with `kind`", total - shown.len()).unwrap_or_default();
    }
    let structured =
        json!({"ok": true, "notes": notes, "truncated": is_cut, "total": total, "actions": shown});
    Answer { ok: true, text, structured }
}

fn count(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example(state: EditState) -> EditAnswer {
        let change = |file: &str, n: usize| ChangeShown {
            file: file.to_owned(),
            n_edits: n,
            diff: vec!["@@ -1 +1 @@".to_owned(), "-a".to_owned(), "+b".to_owned()],
            ..ChangeShown::default()
        };
        EditAnswer {
            title: "rename a to b".to_owned(),
            state,
            changes: vec![change("m.py", 1), change("n.py", 2)],
            left: None,
            errors: Vec::new(),
            notes: vec!["careful".to_owned()],
        }
    }

    #[test]
    fn preview_has_differences_and_an_id() {
        let answer = example(EditState::Kept("e7".to_owned())).answer();
        assert_eq!(
            answer.text,
            "rename a to b · 3 edits in 2 files · not made: lsp_apply_edit {\"edit\": \"e7\"} makes it\nnote: careful\n\
             m.py  1 edit\n@@ -1 +1 @@\n-a\n+b\nn.py  2 edits\n@@ -1 +1 @@\n-a\n+b"
        );
        assert_eq!(
            (&answer.structured["applied"], &answer.structured["edit"]),
            (&false.into(), &"e7".into())
        );
        assert_eq!(answer.structured["changes"][0]["diff"], "@@ -1 +1 @@\n-a\n+b\n");
    }

    #[test]
    fn long_previews_are_cut_to_200_lines() {
        let mut long = example(EditState::Kept("e7".to_owned()));
        long.changes[0].diff = (0..500).map(|it| format!("+{it}")).collect();
        let answer = long.answer();
        assert_eq!(answer.structured["changes"][0]["diff"].as_str().unwrap().lines().count(), 200);
        assert_eq!(answer.structured["truncated"], true);
        assert!(answer.text.ends_with("n.py  2 edits\n[more changes are not shown]"), "{}", answer.text);
    }

    #[test]
    fn made_edit_tells_what_has_come_of_it() {
        let error = Diagnostic {
            start: (3, 1),
            end: (3, 2),
            severity: crate::builtin_tools::lsp::Severity::Error,
            code: None,
            source: None,
            message: "b is unknown".to_owned(),
            text: "b()".to_owned(),
        };
        let mut made = example(EditState::Made);
        made.errors = vec![
            NewErrors { file: "m.py".to_owned(), unchecked: None, errors: vec![error] },
            NewErrors { file: "n.py".to_owned(), unchecked: Some("silence".to_owned()), errors: Vec::new() },
        ];
        made.left = Some(Left {
            name: "a".to_owned(),
            total: 30,
            lines: (1..=25).map(|it| ("x.md".to_owned(), it, "an a".to_owned())).collect(),
        });
        let answer = made.answer();
        for part in [
            "· made\n",
            "NOT CHECKED: n.py (silence)",
            "NEW ERRORS: 1\n  m.py:3:1  b is unknown",
            "in 30 lines",
            "… 10 more",
        ] {
            assert!(answer.text.contains(part), "{part}: {}", answer.text);
        }
        assert!(answer.structured["changes"][0]["diff"].is_null());
        assert_eq!(answer.structured["left"].as_array().unwrap().len(), 20);
        assert_eq!(answer.structured["diagnostics"][1]["freshness"], "unknown");
    }
}

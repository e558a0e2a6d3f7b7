//! Renames: of a symbol that the server knows in the whole project, or not at all.
//!
//! The references prove that the index of the server is whole, and the same process must answer about the rename. All
//! files of the rename are open at it then, so it is known which texts the server has seen.

use std::{collections::BTreeSet, path::PathBuf};

use serde_json::{Value, json};

use super::{
    call::{Cx, Step, Stop, fail},
    edits::Planned,
    spanning::Question,
    target::Meant,
};
use crate::{
    builtin_tools::lsp::{Code, Target, WorkspaceEdit},
    core::event::ServerId,
};

/// How many files of a rename are opened at the server. Others are as the server has read them.
const MOST_OPENED: usize = 200;

/// How often the server is asked because more files have come into its answer.
const ROUNDS: usize = 5;

impl Cx<'_> {
    /// Plans a rename.
    pub(super) fn plan_rename(&mut self, target: &Target, new_name: &str) -> Step<Planned> {
        let (meant, loading) = self.meant(target)?;
        let (server, name) = (meant.server, self.view(meant.server).name.clone());
        self.require(server, "renameProvider", "textDocument/rename")?;
        let described = self.describe(&meant)?;
        if meant.word == new_name {
            return fail(Code::BadArguments, format!("{} has this name already", described.title()));
        }
        self.can_be_renamed(&meant)?;
        let mut notes = self.proof_of_rename(&meant, loading)?;
        let process = self.once("process", |cx| cx.process_of(server));
        let Some(edit) = self.asked_to_rename(&meant, new_name)? else {
            return loading_error(&format!("more files come into the rename each time that {name} is asked"));
        };
        // A process that has just started knows a part of the project.
        if self.once("same process", |cx| cx.process_of(server)) != process {
            return Ok(Err(format!("{name} was restarted while lspool asked it")));
        }
        if let Some(why) = self.closed_mismatch(server, &meant.word, &edit)? {
            return Ok(Err(why));
        }
        let title = format!("rename {} to {new_name}", described.title());
        let planned = self.plan("rename files", server, edit, title)?;
        notes.extend(meant.notes);
        Ok(planned.map(|mut edit| {
            edit.notes.splice(0..0, notes);
            edit.names = Some((meant.word, new_name.to_owned()));
            // The file that is meant comes first.
            edit.plan.files.sort_by_key(|it| it.file != meant.file);
            edit
        }))
    }

    fn process_of(&self, server: ServerId) -> Value {
        self.view(server).process().map_or(Value::Null, |it| json!([it.backend.0, it.generation.0]))
    }

    /// Asks whether it can be renamed, if the server says that before.
    fn can_be_renamed(&mut self, meant: &Meant) -> Step<()> {
        let server = meant.server;
        if self.view(server).capability(&["renameProvider", "prepareProvider"]) != &Value::Bool(true) {
            return Ok(());
        }
        let answer = self.ask("prepare", server, "textDocument/prepareRename", &meant.params())?;
        match answer {
            Ok(Value::Null) => {
                let name = &self.view(server).name;
                fail(Code::Refused, format!("{name} says that `{}` cannot be renamed", meant.word))
            }
            Ok(_) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Proves that the server knows all places, or fails.
    fn proof_of_rename(&mut self, meant: &Meant, loading: Option<String>) -> Step<Vec<String>> {
        if !self.view(meant.server).offers("referencesProvider", "textDocument/references") {
            return match loading {
                Some(why) => loading_error(&why),
                None => {
                    let name = &self.view(meant.server).name;
                    Ok(vec![format!(
                        "{name} lists no references, so lspool could not check that this is all"
                    )])
                }
            };
        }
        let mut params = meant.params();
        params["context"] = json!({"includeDeclaration": true});
        let question = Question { key: "whole", method: "textDocument/references", params };
        let whole = self.whole(meant, &question)?;
        match whole.incomplete {
            Some(why) => loading_error(&why),
            None => Ok(whole.notes),
        }
    }

    /// Asks for the rename until all its files are open at the server. `None`: it does not come to an end.
    fn asked_to_rename(&mut self, meant: &Meant, new_name: &str) -> Step<Option<WorkspaceEdit>> {
        let (server, name) = (meant.server, self.view(meant.server).name.clone());
        let mut params = meant.params();
        params["newName"] = new_name.into();
        let mut tried: BTreeSet<PathBuf> = BTreeSet::new();
        for n in 0..ROUNDS {
            let answer = self.ask(&format!("rename {n}"), server, "textDocument/rename", &params)??;
            let edit = match WorkspaceEdit::read(&answer) {
                Ok(edit) => edit,
                Err(why) => {
                    let what = format!("lspool does not understand the edit of {name}: {why}");
                    return fail(Code::Refused, what);
                }
            };
            let closed = self.once(&format!("closed {n}"), |cx| {
                let is_closed = |it: &PathBuf| {
                    cx.is_inside(it) && !cx.view(server).open.contains_key(it) && !tried.contains(it)
                };
                let closed = edit.texts().into_iter().filter(is_closed);
                closed.filter_map(|it| it.to_str().map(ToOwned::to_owned)).collect()
            });
            let closed = closed.as_array().into_iter().flatten().filter_map(Value::as_str).map(PathBuf::from);
            let closed: Vec<PathBuf> = closed.take(MOST_OPENED.saturating_sub(tried.len())).collect();
            if closed.is_empty() {
                return Ok(Some(edit));
            }
            self.read_all(&format!("closed texts {n}"), &closed)?;
            for file in closed {
                match self.open(server, &file) {
                    // One that is gone is found out by the plan.
                    Ok(_) | Err(Stop::Fail(_)) => drop(tried.insert(file)),
                    Err(Stop::Wait) => return Err(Stop::Wait),
                }
            }
        }
        Ok(None)
    }

    /// Whether the server means other texts than those of closed files: what it replaces there is not the name.
    fn closed_mismatch(
        &mut self,
        server: ServerId,
        word: &str,
        edit: &WorkspaceEdit,
    ) -> Step<Option<String>> {
        let is_closed = |it: &PathBuf| self.is_inside(it) && !self.view(server).open.contains_key(it);
        let closed: Vec<PathBuf> = edit.texts().into_iter().filter(is_closed).collect();
        self.read_all("closed at the end", &closed)?;
        for file in &closed {
            let Ok(text) = self.text_if_readable(file)? else { continue };
            let replaces_other = |range| !text.slice(range).contains(word);
            if edit.edits_of(file).any(|it| it.range.start < it.range.end && replaces_other(it.range)) {
                let (name, shown) = (&self.view(server).name, self.shown(file));
                return Ok(Some(format!("{name} knows another text of {shown}")));
            }
        }
        Ok(None)
    }
}

fn loading_error<T>(why: &str) -> Step<T> {
    fail(Code::Loading, format!("{why}; nothing is renamed, because places would be left out: ask again"))
}

//! The folders of a client, and the session of code tools in them.
//!
//! A session begins when its folders are known, and again when they change, or when the first file of a language
//! appears that has a server. Calls wait for it.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeSet,
    future::pending,
    io,
    path::PathBuf,
    rc::Rc,
    sync::Arc,
};

use ignore::WalkBuilder;
use serde_json::Value;
use tokio::{sync::watch, task::spawn_blocking};

use super::{Abilities, Languages, Opening, Session, appeared};
use crate::{
    builtin_tools::lsp::{Answer, Code, ToolError},
    cli::{args::Args, search::Search, tell},
    shell::process::EditorLink,
};

/// The folders, as far as they are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Folders {
    /// Nobody has said them.
    Unknown,
    /// These, which are absolute and without links.
    Known(Vec<PathBuf>),
    /// They cannot be a workspace, for this reason.
    Refused(String),
    /// The client has gone, or this signal ends lspool.
    Done(Option<i32>),
}

/// Who can answer calls.
#[derive(Clone, Debug)]
enum State {
    Opening,
    /// The session of this number.
    Open(u64, Session),
    /// At the opening of this number, no language of the workspace had a server.
    Empty(u64, ToolError),
    /// Each call gets this error.
    Failed(ToolError),
}

impl State {
    fn number(&self) -> Option<u64> {
        match self {
            State::Open(number, _) | State::Empty(number, _) => Some(*number),
            State::Opening | State::Failed(_) => None,
        }
    }
}

/// The most files of a workspace that are not ignored by git.
const MOST_FILES: usize = 200_000;

/// How many sessions one call may need.
const MOST_SESSIONS: usize = 8;

/// What an opening has found.
enum Opened {
    Session(Box<Opening>),
    Empty(ToolError),
}

/// The workspace of a client.
pub(in crate::cli) struct Workspace {
    /// What to do about a workspace that is too large.
    hint: &'static str,
    /// The editors beside which it is used.
    editors: Option<Rc<dyn EditorLink>>,
    folders: watch::Sender<Folders>,
    state: watch::Sender<State>,
    /// The last reason that lspool has shown.
    told: RefCell<String>,
    /// Languages whose first file has appeared during a session.
    appeared: RefCell<BTreeSet<String>>,
    last: Cell<u64>,
    /// What the servers of the last session can do.
    abilities: watch::Sender<Abilities>,
}

impl Workspace {
    pub(in crate::cli) fn new(
        folders: Folders,
        hint: &'static str,
        editors: Option<Rc<dyn EditorLink>>,
    ) -> Workspace {
        let (folders, state) = (watch::Sender::new(folders), watch::Sender::new(State::Opening));
        Workspace {
            hint,
            editors,
            folders,
            state,
            told: RefCell::default(),
            appeared: RefCell::default(),
            last: Cell::default(),
            abilities: watch::Sender::new(None),
        }
    }

    /// What the servers can do, as far as all have said it.
    pub(in crate::cli) fn abilities(&self) -> watch::Receiver<Abilities> {
        self.abilities.subscribe()
    }

    /// Changes the folders, or ends everything. Calls that run get their answers from the new session.
    pub(in crate::cli) fn set(&self, folders: Folders) {
        self.folders.send_if_modified(|it| {
            let is_other = *it != folders && !matches!(it, Folders::Done(_));
            if is_other {
                *it = folders;
            }
            is_other
        });
    }

    /// Calls a tool, in the session of the folders as they are at the end.
    pub(in crate::cli) async fn call(
        &self,
        name: &str,
        arguments: &Value,
        mut progress: impl FnMut(&str),
    ) -> Answer {
        let mut states = self.state.subscribe();
        // Files may have come since the last opening.
        let mut is_first = true;
        let mut n_sessions = 0;
        loop {
            let state = states.borrow_and_update().clone();
            match state {
                State::Opening => {}
                State::Failed(error) => return error.answer(),
                State::Empty(number, _) if is_first => {
                    is_first = false;
                    self.open_again(number);
                    continue;
                }
                State::Empty(_, error) => return error.answer(),
                State::Open(number, session) => {
                    let answer = session.call(name, arguments, &mut progress).await;
                    n_sessions += 1;
                    if let Some(languages) = appeared(&answer) {
                        if n_sessions == MOST_SESSIONS {
                            let why = "the languages of the workspace change again and again";
                            return ToolError::new(Code::Changed, why).answer();
                        }
                        progress(&format!("the language servers start again, for {}", languages.join(", ")));
                        self.appeared.borrow_mut().extend(languages);
                        self.open_again(number);
                        continue;
                    }
                    if answer.ok || !states.has_changed().unwrap_or(false) {
                        return answer;
                    }
                    continue;
                }
            }
            if states.changed().await.is_err() {
                return ToolError::new(Code::ServerFailed, "lspool ends").answer();
            }
        }
    }

    /// Begins another session, unless that has happened since the opening of this number.
    fn open_again(&self, number: u64) {
        let is_current = self.state.send_if_modified(|it| {
            let is_current = it.number() == Some(number);
            if is_current {
                *it = State::Opening;
            }
            is_current
        });
        if is_current {
            self.folders.send_modify(|_| {});
        }
    }

    fn next(&self) -> u64 {
        self.last.set(self.last.get() + 1);
        self.last.get()
    }

    /// Serves sessions until the end.
    pub(in crate::cli) async fn serve(&self, args: &Args, search: Arc<Search>) {
        let mut folders = self.folders.subscribe();
        loop {
            let wanted = folders.borrow_and_update().clone();
            match wanted {
                Folders::Unknown => {}
                Folders::Done(_) => return,
                Folders::Refused(why) => self.fail(Code::Refused, &why),
                Folders::Known(known) => match self.open(&search, known).await {
                    Err(error) => self.fail(error.code, &error.message),
                    Ok(Opened::Empty(error)) => {
                        self.state.send_replace(State::Empty(self.next(), error));
                    }
                    Ok(Opened::Session(opening)) => {
                        let done = opening.serve(args, self.editors.clone(), async |session, quit| {
                            let can = session.abilities();
                            self.state.send_replace(State::Open(self.next(), session));
                            tokio::select! {
                                _ = folders.changed() => {}
                                () = self.follow(can) => {}
                            }
                            self.state.send_replace(State::Opening);
                            if let Folders::Done(Some(signal)) = *folders.borrow() {
                                quit.send(signal).await.ok();
                            }
                            Ok(0)
                        });
                        if let Err(error) = done.await {
                            self.fail(Code::ServerFailed, &error.to_string());
                        }
                        // What has changed is taken above, at once.
                        folders.mark_changed();
                    }
                },
            }
            if folders.changed().await.is_err() {
                return;
            }
            self.state.send_replace(State::Opening);
        }
    }

    /// Notes what the servers of a session can do. Never ends.
    async fn follow(&self, mut can: watch::Receiver<Abilities>) {
        while can.wait_for(Option::is_some).await.is_ok() {
            let now = can.borrow_and_update().clone();
            self.abilities.send_if_modified(|it| {
                let is_other = *it != now;
                if is_other {
                    *it = now;
                }
                is_other
            });
            if can.changed().await.is_err() {
                break;
            }
        }
        pending::<()>().await;
    }

    /// Reads the folders. This takes a while, in which the client is answered.
    async fn open(&self, search: &Arc<Search>, folders: Vec<PathBuf>) -> Result<Opened, ToolError> {
        let (search, hint) = (Arc::clone(search), self.hint);
        let languages = Languages::Growing(self.appeared.borrow().clone());
        let opening = spawn_blocking(move || {
            check_size(&folders, MOST_FILES)
                .map_err(|why| ToolError::new(Code::Refused, format!("{why}: {hint}")))?;
            let opening = Opening::new(&search, &folders, &languages)?;
            Ok(match opening.without_server() {
                Some(error) => Opened::Empty(error),
                None => Opened::Session(Box::new(opening)),
            })
        });
        let failed = |error| ToolError::new(Code::ServerFailed, io::Error::other(error).to_string());
        opening.await.map_err(failed)?
    }

    fn fail(&self, code: Code, why: &str) {
        if self.told.replace(why.to_owned()) != why {
            tell(why);
        }
        self.state.send_replace(State::Failed(ToolError::new(code, why)));
    }
}

/// Refuses folders with too many files. Reads them all.
fn check_size(folders: &[PathBuf], most: usize) -> Result<(), String> {
    for folder in folders {
        let walk = WalkBuilder::new(folder).follow_links(false).build().flatten();
        let files = walk.filter(|it| it.file_type().is_some_and(|it| it.is_file()));
        if files.take(most + 1).count() > most {
            let shown = folder.display();
            return Err(format!("{shown} has more than {most} files, which is too large to be a workspace"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn ignored_files_do_not_count() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("out")).unwrap();
        fs::create_dir_all(folder.path().join(".git")).unwrap();
        fs::write(folder.path().join(".gitignore"), "out\n").unwrap();
        for name in ["a", "b", "out/c", "out/d"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let folders = [folder.path().to_owned()];
        assert_eq!(check_size(&folders, 2), Ok(()));
        assert!(check_size(&folders, 1).unwrap_err().contains("more than 1 files"));
    }
}

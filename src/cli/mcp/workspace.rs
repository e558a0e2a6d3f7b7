//! The folders of a client, and the session of code tools in them.
//!
//! A session begins when its folders are known, and again when they change. Calls wait for it.

mod roots;

use std::{cell::RefCell, io, path::PathBuf, sync::Arc};

use serde_json::Value;
use tokio::{sync::watch, task::spawn_blocking};

pub(super) use self::roots::{check, of_client, of_environment};
use crate::{
    builtin_tools::lsp::{Answer, Code, ToolError},
    cli::{
        args::Args,
        code_tools::{Languages, Opening, Session},
        search::Search,
        tell,
    },
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
    Open(Session),
    /// Each call gets this error.
    Failed(ToolError),
}

/// The workspace of a client.
pub(in crate::cli) struct Workspace {
    folders: watch::Sender<Folders>,
    state: watch::Sender<State>,
    /// The last reason that lspool has shown.
    told: RefCell<String>,
}

impl Workspace {
    pub(in crate::cli) fn new(folders: Folders) -> Workspace {
        let (folders, state) = (watch::Sender::new(folders), watch::Sender::new(State::Opening));
        Workspace { folders, state, told: RefCell::default() }
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
        loop {
            let state = states.borrow_and_update().clone();
            match state {
                State::Opening => {}
                State::Failed(error) => return error.answer(),
                State::Open(session) => {
                    let answer = session.call(name, arguments, &mut progress).await;
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
                    Err((code, why)) => self.fail(code, &why),
                    Ok(opening) => {
                        let done = opening.serve(args, async |session, quit| {
                            self.state.send_replace(State::Open(session));
                            folders.changed().await.ok();
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

    /// Reads the folders. This takes a while, in which the client is answered.
    async fn open(&self, search: &Arc<Search>, folders: Vec<PathBuf>) -> Result<Opening, (Code, String)> {
        let search = Arc::clone(search);
        let opening = spawn_blocking(move || {
            roots::check_size(&folders).map_err(|why| (Code::Refused, why))?;
            Opening::new(&search, &folders, &Languages::OfWorkspace).map_err(|why| (Code::NoServer, why))
        });
        let failed = |error| (Code::ServerFailed, io::Error::other(error).to_string());
        opening.await.map_err(failed)?
    }

    fn fail(&self, code: Code, why: &str) {
        if self.told.replace(why.to_owned()) != why {
            tell(why);
        }
        self.state.send_replace(State::Failed(ToolError::new(code, why)));
    }
}

//! The editors of all running lspools of the user, for `lspool lsp` and `lspool mcp`.
//!
//! Connects for each question, because an lspool takes few control clients at once. Remembers the texts of documents in
//! the workspace. **An lspool that does not answer is not taken for one without documents** if it may have some.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, fs,
    io::ErrorKind,
    path::{Path, PathBuf},
    rc::Rc,
    time::Duration,
};

use serde_json::Value;
use tokio::{
    sync::Mutex,
    task::{JoinSet, spawn_blocking},
    time::sleep,
};

use super::{EDIT_PATIENCE, Known, Unanswered, ask, ask_to_edit, edited, within};
use crate::{
    builtin_tools::lsp::{EditorDocuments, EditorId, Editors},
    cli::{
        client::Client,
        instances::{is_nobody, sockets},
    },
    core::event::WriteFault,
    rpc::{ErrorCode, file_path},
    shell::{
        control::Instance,
        os::sockets::connect,
        process::{EditorLink, Waiting},
        tools::real_path,
    },
};

/// How long an lspool may take to list its documents.
const PATIENCE: Duration = Duration::from_secs(2);
/// The same, if it did not answer the last time.
const SHORT_PATIENCE: Duration = Duration::from_millis(200);
/// How long until an lspool that has hung up is asked again.
const AGAIN: Duration = Duration::from_millis(50);

/// The editors of the running lspools.
pub(in crate::cli) struct RunningEditors {
    /// Where the sockets are.
    folders: Vec<PathBuf>,
    state: Rc<Mutex<State>>,
}

impl fmt::Debug for RunningEditors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunningEditors").field("folders", &self.folders).finish_non_exhaustive()
    }
}

#[derive(Default)]
struct State {
    editors: BTreeMap<Instance, Editor>,
    last: u64,
}

/// What is remembered of an lspool.
#[derive(Debug, Default)]
struct Editor {
    id: EditorId,
    known: Known,
    is_silent: bool,
}

impl RunningEditors {
    /// The lspools with sockets in these folders.
    pub(in crate::cli) fn new(folders: Vec<PathBuf>) -> RunningEditors {
        RunningEditors { folders, state: Rc::default() }
    }
}

impl EditorLink for RunningEditors {
    fn documents(&self, workspace: Vec<PathBuf>) -> Waiting<'static, Result<Editors, String>> {
        let (state, folders) = (Rc::clone(&self.state), self.folders.clone());
        Box::pin(async move {
            let running = spawn_blocking(move || sockets(&folders, None).0).await.unwrap_or_default();
            Ok(state.lock().await.documents(running, &workspace).await)
        })
    }

    fn edit(&self, editor: EditorId, edit: Value) -> Waiting<'static, Result<(), WriteFault>> {
        let state = Rc::clone(&self.state);
        Box::pin(async move {
            let socket =
                state.lock().await.editors.iter().find(|it| it.1.id == editor).map(|it| it.0.socket.clone());
            let Some(socket) = socket else {
                return Err(WriteFault::Refused("the editor has ended".to_owned()));
            };
            // Nothing has been asked yet.
            let stream = connect(&socket).await.map_err(|why| WriteFault::Refused(why.to_string()))?;
            edited(within(EDIT_PATIENCE, ask_to_edit(&mut Client::new(stream), edit)).await)
        })
    }
}

impl State {
    async fn documents(&mut self, mut running: Vec<Instance>, workspace: &[PathBuf]) -> Editors {
        running.retain(|it| it.pid != std::process::id());
        self.editors.retain(|it, _| running.contains(it));
        let mut asking = JoinSet::new();
        for instance in running {
            let editor = self.editors.remove(&instance).unwrap_or_else(|| {
                self.last += 1;
                Editor { id: EditorId(self.last), ..Editor::default() }
            });
            asking.spawn(listed(instance, editor, workspace.to_vec()));
        }
        let mut listed = asking.join_all().await;
        // The older ones first.
        listed.sort_by(|a, b| a.0.cmp(&b.0));
        let mut editors = Editors::default();
        for (instance, editor, result) in listed {
            match result {
                Ok(Some(documents)) => editors.all.push(documents),
                Ok(None) => {}
                Err(why) if may_have_documents(&instance, &editor, workspace) => {
                    let pid = instance.pid;
                    editors.unknown.get_or_insert_with(|| {
                        format!("texts that an editor has not saved are unknown, because lspool {pid} cannot be asked: {why}")
                    });
                }
                Err(why) => {
                    tracing::debug!(pid = instance.pid, %why, "an lspool does not tell its documents");
                }
            }
            self.editors.insert(instance, editor);
        }
        editors
    }
}

/// What an lspool has open in the workspace. `None`: it has ended, or has no editor yet.
async fn listed(
    instance: Instance,
    mut editor: Editor,
    workspace: Vec<PathBuf>,
) -> (Instance, Editor, Result<Option<EditorDocuments>, Unanswered>) {
    let patience = if editor.is_silent { SHORT_PATIENCE } else { PATIENCE };
    let (id, known) = (editor.id, &mut editor.known);
    let listing = within(patience, async {
        loop {
            match list(&instance, known, &workspace).await {
                // It is about to end.
                Err(Unanswered::Gone(error)) if error.kind() == ErrorKind::UnexpectedEof => {
                    sleep(AGAIN).await;
                }
                documents => return documents,
            }
        }
    });
    let result = match listing.await {
        Ok(documents) => Ok(Some(EditorDocuments { editor: id, ..documents })),
        Err(Unanswered::Gone(error)) if is_nobody(&error) => Ok(None),
        Err(Unanswered::Error { code, .. }) if code == ErrorCode::ServerNotInitialized.code() => Ok(None),
        Err(why) => Err(why),
    };
    editor.is_silent = matches!(result, Err(Unanswered::Silent(_)));
    (instance, editor, result)
}

async fn list(
    instance: &Instance,
    known: &mut Known,
    workspace: &[PathBuf],
) -> Result<EditorDocuments, Unanswered> {
    let mut client = Client::new(connect(&instance.socket).await?);
    let mut missing = Vec::new();
    loop {
        let answer = ask(&mut client, "lspool/documents", &known.params(Some(&missing))).await?;
        let inside = inside(&answer, workspace.to_vec()).await;
        match known.read(&answer, |uri| inside.contains(uri)) {
            Ok(documents) => return Ok(documents),
            Err(those) => missing = those,
        }
    }
}

/// The documents of an answer that are in the workspace.
async fn inside(answer: &Value, workspace: Vec<PathBuf>) -> BTreeSet<String> {
    let listed = answer["documents"].as_array().into_iter().flatten();
    let listed: Vec<String> = listed.filter_map(|it| it["uri"].as_str().map(ToOwned::to_owned)).collect();
    let is_inside = move |uri: &String| {
        let path = file_path(uri).and_then(|it| real_path(&it));
        path.is_some_and(|path| workspace.iter().any(|it| path.starts_with(it)))
    };
    spawn_blocking(move || listed.into_iter().filter(is_inside).collect()).await.unwrap_or_default()
}

/// Whether an lspool that does not answer may have documents of the workspace: it had some, or works in it or above it.
fn may_have_documents(instance: &Instance, editor: &Editor, workspace: &[PathBuf]) -> bool {
    let works_in = |cwd: &Path| workspace.iter().any(|it| cwd.starts_with(it) || it.starts_with(cwd));
    !editor.known.0.is_empty()
        || fs::read_link(format!("/proc/{}/cwd", instance.pid)).map_or(true, |it| works_in(&it))
}

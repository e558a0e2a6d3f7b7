//! The code tools of conversations: a session of their own beside the editor's, which begins with the first call.

use std::{cell::RefCell, path::PathBuf, rc::Rc, sync::Arc};

use serde_json::Value;
use tokio::{
    sync::mpsc,
    task::{JoinHandle, spawn_local},
};

use super::{
    args::Args,
    code_tools::workspace::{Folders, Workspace},
    editor_link::NearEditor,
    search::Search,
};
use crate::{
    builtin_tools::{Outcome, lsp::LspTool},
    shell::{
        control::Connection,
        os::files::canonicalize,
        process::{CodeTools, Waiting},
    },
};

/// What to do about a workspace that is too large.
const HINT: &str = "open a smaller folder in the editor";

/// Starts language servers when a conversation calls the first code tool, and ends them with lspool.
pub(super) struct ConversationTools {
    args: Args,
    search: Arc<Search>,
    workspace: Rc<Workspace>,
    serving: RefCell<Option<JoinHandle<()>>>,
}

impl std::fmt::Debug for ConversationTools {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConversationTools").finish_non_exhaustive()
    }
}

impl ConversationTools {
    /// The tools, and the connections by which they ask lspool for the editor's documents.
    pub(super) fn new(
        args: &Args,
        search: &Arc<Search>,
    ) -> (Rc<ConversationTools>, mpsc::Receiver<Connection>) {
        let (editor, connections) = NearEditor::new();
        let workspace = Rc::new(Workspace::new(Folders::Unknown, HINT, Some(Rc::new(editor))));
        let (args, search) = (args.clone(), Arc::clone(search));
        let tools = Rc::new(ConversationTools { args, search, workspace, serving: RefCell::default() });
        (tools, connections)
    }

    /// Ends the servers.
    pub(super) async fn end(&self) {
        self.workspace.set(Folders::Done(None));
        if let Some(serving) = self.serving.take() {
            serving.await.ok();
        }
    }

    fn begin(&self) {
        self.serving.borrow_mut().get_or_insert_with(|| {
            let (args, search, workspace) =
                (self.args.clone(), Arc::clone(&self.search), Rc::clone(&self.workspace));
            spawn_local(async move { workspace.serve(&args, search).await })
        });
    }
}

impl CodeTools for ConversationTools {
    fn call(&self, folders: Vec<PathBuf>, tool: LspTool, arguments: Value) -> Waiting<'static, Outcome> {
        let folders: Vec<PathBuf> =
            folders.iter().map(|it| canonicalize(it).unwrap_or_else(|_| it.clone())).collect();
        self.workspace.set(Folders::Known(folders));
        self.begin();
        let workspace = Rc::clone(&self.workspace);
        Box::pin(async move {
            let answer = workspace.call(tool.name(), &arguments, |_| {}).await;
            if answer.ok { Outcome::Done(answer.text) } else { Outcome::Failed(answer.text) }
        })
    }
}

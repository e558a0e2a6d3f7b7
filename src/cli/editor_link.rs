//! The editor of a running lspool, for code tools that work beside it: a control client that asks for documents.

use std::{collections::BTreeMap, fmt, io, rc::Rc, sync::Arc, time::Duration};

use serde_json::{Map, Value, json};
use tokio::{
    io::DuplexStream,
    sync::{Mutex, mpsc},
    time::timeout,
};

use super::client::{Client, error_of};
use crate::{
    builtin_tools::lsp::{EditorDocument, EditorDocuments},
    core::event::WriteFault,
    rpc::{Kind, file_path},
    shell::{
        control::Connection,
        process::{EditorLink, Waiting},
    },
    util::json,
};

/// How many bytes may be on the way.
const PIPE: usize = 64 << 10;

/// How long lspool may take to list the documents.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long the editor may take to make an edit. It may ask its user.
const EDIT_PATIENCE: Duration = Duration::from_secs(30);

/// What an editor calls an edit, in its history.
const LABEL: &str = "lspool";

/// The editor of the lspool in this process.
pub(super) struct NearEditor(Rc<Mutex<State>>);

impl fmt::Debug for NearEditor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NearEditor").finish_non_exhaustive()
    }
}

struct State {
    doors: mpsc::Sender<Connection>,
    client: Option<Client<DuplexStream>>,
    /// The texts that are known, with their revisions.
    known: BTreeMap<String, (u64, Option<Arc<str>>)>,
}

impl NearEditor {
    /// An editor, and the connections for its lspool.
    pub(super) fn new() -> (NearEditor, mpsc::Receiver<Connection>) {
        let (doors, connections) = mpsc::channel(1);
        let state = State { doors, client: None, known: BTreeMap::new() };
        (NearEditor(Rc::new(Mutex::new(state))), connections)
    }
}

impl EditorLink for NearEditor {
    fn documents(&self) -> Waiting<'static, Result<EditorDocuments, String>> {
        let state = Rc::clone(&self.0);
        Box::pin(async move { state.lock().await.documents().await })
    }

    fn edit(&self, edit: Value) -> Waiting<'static, Result<(), WriteFault>> {
        let state = Rc::clone(&self.0);
        Box::pin(async move {
            let params = json!({"label": LABEL, "edit": edit});
            let answer = match state.lock().await.ask("lspool/applyEdit", &params, EDIT_PATIENCE).await {
                Ok(answer) => answer,
                Err(Unanswered::Error(why)) => return Err(WriteFault::Refused(why)),
                // The user may still confirm it.
                Err(Unanswered::Silence(why)) => return Err(WriteFault::Unseen(why)),
            };
            match (answer["applied"].as_bool(), answer["failureReason"].as_str()) {
                (Some(true), _) => Ok(()),
                (_, Some(why)) => Err(WriteFault::Refused(format!("the editor refuses: {why}"))),
                (_, None) => Err(WriteFault::Refused("the editor refuses".to_owned())),
            }
        })
    }
}

/// Why there is no answer.
enum Unanswered {
    /// The answer is this error.
    Error(String),
    /// Nothing is known of what the editor does.
    Silence(String),
}

impl State {
    async fn documents(&mut self) -> Result<EditorDocuments, String> {
        loop {
            let known: Map<String, Value> =
                self.known.iter().map(|(uri, (revision, _))| (uri.clone(), (*revision).into())).collect();
            let answer = self.ask("lspool/documents", &json!({"known": known}), PATIENCE).await;
            let answer = answer.map_err(|it| match it {
                Unanswered::Error(why) | Unanswered::Silence(why) => why,
            })?;
            let listed = answer["documents"].as_array().map_or(&[][..], Vec::as_slice);
            let mut now = BTreeMap::new();
            let mut documents = Vec::new();
            let mut is_whole = true;
            for it in listed {
                let (Some(uri), Some(revision)) = (it["uri"].as_str(), it["revision"].as_u64()) else {
                    continue;
                };
                let text = match (it.get("text"), self.known.get(uri)) {
                    (Some(text), _) => text.as_str().map(Arc::from),
                    (None, Some((known, text))) if *known == revision => text.clone(),
                    (None, _) => {
                        is_whole = false;
                        continue;
                    }
                };
                now.insert(uri.to_owned(), (revision, text.clone()));
                if let Some(path) = file_path(uri) {
                    let version = it["version"].as_i64();
                    documents.push(EditorDocument { uri: uri.to_owned(), path, version, text });
                }
            }
            self.known = now;
            if is_whole {
                return Ok(EditorDocuments {
                    documents,
                    applies: answer["applyEdit"] == true,
                    capability: answer["workspaceEdit"].clone(),
                    encoding: answer["positionEncoding"].as_str().map(ToOwned::to_owned),
                });
            }
        }
    }

    async fn ask(&mut self, method: &str, params: &Value, patience: Duration) -> Result<Value, Unanswered> {
        match timeout(patience, self.asked(method, params)).await {
            Ok(Ok(answer)) => answer.map_err(Unanswered::Error),
            Ok(Err(error)) => {
                self.client = None;
                Err(Unanswered::Silence(format!("lspool cannot ask the editor: {error}")))
            }
            Err(_) => {
                let seconds = patience.as_secs();
                Err(Unanswered::Silence(format!("the editor does not answer within {seconds} s")))
            }
        }
    }

    async fn asked(&mut self, method: &str, params: &Value) -> io::Result<Result<Value, String>> {
        let client = match &mut self.client {
            Some(client) => client,
            None => {
                let (near, far) = tokio::io::duplex(PIPE);
                let (input, output) = tokio::io::split(far);
                self.doors
                    .send((Box::new(input), Box::new(output)))
                    .await
                    .map_err(|_| io::Error::other("lspool ends"))?;
                self.client.insert(Client::new(near))
            }
        };
        let id = client.ask(method, params).await?;
        loop {
            let frame = client.hear().await?;
            if frame.kind() != Kind::Response || frame.id().as_ref() != Some(&id) {
                continue;
            }
            return Ok(match error_of(&frame) {
                Some(error) => Err(error),
                None => json::read(frame.result().unwrap_or(b"null")).map_err(|error| error.to_string()),
            });
        }
    }
}

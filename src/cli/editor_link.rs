//! The editors beside which code tools work: that of the lspool in this process, or those of all running lspools.
//!
//! Both are asked as a control client asks: `lspool/documents` lists what is open, `lspool/applyEdit` makes an edit.

mod running;

use std::{collections::BTreeMap, fmt, io, path::PathBuf, rc::Rc, sync::Arc, time::Duration};

use serde_json::{Map, Value, json};
use tokio::{
    io::{AsyncRead, AsyncWrite, DuplexStream},
    sync::{Mutex, mpsc},
    time::timeout,
};

pub(super) use self::running::RunningEditors;
use super::client::Client;
use crate::{
    builtin_tools::lsp::{EditorDocument, EditorDocuments, EditorId, Editors},
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

/// How long the lspool of this process may take to list the documents.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long an editor may take to make an edit. It may ask its user.
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
    /// Where the lspool of this process takes new connections.
    connections: mpsc::Sender<Connection>,
    client: Option<Client<DuplexStream>>,
    known: Known,
}

impl NearEditor {
    /// An editor, and the connections for its lspool.
    pub(super) fn new() -> (NearEditor, mpsc::Receiver<Connection>) {
        let (connections, listener) = mpsc::channel(1);
        let state = State { connections, client: None, known: Known::default() };
        (NearEditor(Rc::new(Mutex::new(state))), listener)
    }
}

impl EditorLink for NearEditor {
    fn documents(&self, _: Vec<PathBuf>) -> Waiting<'static, Result<Editors, String>> {
        let state = Rc::clone(&self.0);
        Box::pin(async move {
            let documents = state.lock().await.documents().await?;
            Ok(Editors { all: vec![documents], unknown: None })
        })
    }

    fn edit(&self, _: EditorId, edit: Value) -> Waiting<'static, Result<(), WriteFault>> {
        let state = Rc::clone(&self.0);
        Box::pin(async move { state.lock().await.edit(edit).await })
    }
}

impl State {
    async fn documents(&mut self) -> Result<EditorDocuments, String> {
        let State { connections, client, known } = self;
        let listing = within(PATIENCE, async {
            loop {
                let client = connected(connections, client).await?;
                let answer = ask(client, "lspool/documents", &known.params(None)).await?;
                if let Ok(documents) = known.read(&answer, |_| true) {
                    return Ok(documents);
                }
            }
        });
        let listed = listing.await;
        self.note(&listed);
        listed.map_err(|why| format!("lspool cannot ask the editor: {why}"))
    }

    async fn edit(&mut self, edit: Value) -> Result<(), WriteFault> {
        let State { connections, client, .. } = self;
        let making =
            within(EDIT_PATIENCE, async { ask_to_edit(connected(connections, client).await?, edit).await });
        let made = making.await;
        self.note(&made);
        edited(made)
    }

    /// A connection without an answer is not used again.
    fn note<T>(&mut self, result: &Result<T, Unanswered>) {
        if matches!(result, Err(Unanswered::Gone(_) | Unanswered::Silent(_))) {
            self.client = None;
        }
    }
}

async fn connected<'a>(
    connections: &mpsc::Sender<Connection>,
    client: &'a mut Option<Client<DuplexStream>>,
) -> Result<&'a mut Client<DuplexStream>, Unanswered> {
    if client.is_none() {
        let (near, far) = tokio::io::duplex(PIPE);
        let (input, output) = tokio::io::split(far);
        let sent = connections.send((Box::new(input), Box::new(output))).await;
        sent.map_err(|_| io::Error::other("lspool ends"))?;
        *client = Some(Client::new(near));
    }
    Ok(client.as_mut().expect("it has just been made"))
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
enum Unanswered {
    /// The answer is this error.
    #[error("{message}")]
    Error { code: i64, message: String },
    /// The connection has failed.
    #[error("{0}")]
    Gone(#[from] io::Error),
    /// There was no answer for so long.
    #[error("no answer within {} s", .0.as_secs())]
    Silent(Duration),
}

async fn within<T>(
    patience: Duration,
    asking: impl Future<Output = Result<T, Unanswered>>,
) -> Result<T, Unanswered> {
    timeout(patience, asking).await.unwrap_or(Err(Unanswered::Silent(patience)))
}

/// Sends a request and waits for the answer.
async fn ask<S: AsyncRead + AsyncWrite + Unpin>(
    client: &mut Client<S>,
    method: &str,
    params: &Value,
) -> Result<Value, Unanswered> {
    let id = client.ask(method, params).await?;
    loop {
        let frame = client.hear().await?;
        if frame.kind() != Kind::Response || frame.id().as_ref() != Some(&id) {
            continue;
        }
        if let Some(error) = frame.error_value() {
            let error: Value = json::read(error).unwrap_or_default();
            let message = error["message"].as_str().unwrap_or("it says nothing of why").to_owned();
            return Err(Unanswered::Error { code: error["code"].as_i64().unwrap_or_default(), message });
        }
        let result = json::read(frame.result().unwrap_or(b"null"));
        return result.map_err(|error| Unanswered::Gone(io::Error::other(error)));
    }
}

async fn ask_to_edit<S: AsyncRead + AsyncWrite + Unpin>(
    client: &mut Client<S>,
    edit: Value,
) -> Result<Value, Unanswered> {
    ask(client, "lspool/applyEdit", &json!({"label": LABEL, "edit": edit})).await
}

/// What has come of an edit.
fn edited(answer: Result<Value, Unanswered>) -> Result<(), WriteFault> {
    let answer = answer.map_err(|why| match why {
        Unanswered::Error { message, .. } => WriteFault::Refused(message),
        // The user may still confirm it.
        Unanswered::Gone(_) | Unanswered::Silent(_) => {
            WriteFault::Unseen(format!("lspool does not know what the editor has done: {why}"))
        }
    })?;
    match (answer["applied"].as_bool(), answer["failureReason"].as_str()) {
        (Some(true), _) => Ok(()),
        (_, Some(why)) => Err(WriteFault::Refused(format!("the editor refuses: {why}"))),
        (_, None) => Err(WriteFault::Refused("the editor refuses".to_owned())),
    }
}

/// The texts of an editor that are known, by URI, with their revisions.
#[derive(Debug, Default)]
struct Known(BTreeMap<String, (u64, Option<Arc<str>>)>);

impl Known {
    /// The parameters of a request for the documents, and for the texts of these alone.
    fn params(&self, only: Option<&[String]>) -> Value {
        let known = self.0.iter().map(|(uri, (revision, _))| (uri.clone(), (*revision).into()));
        let mut params = json!({"known": known.collect::<Map<String, Value>>()});
        if let Some(only) = only {
            params["only"] = only.into();
        }
        params
    }

    /// The wanted documents of an answer, or those whose texts are missing in it.
    fn read(
        &mut self,
        answer: &Value,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Result<EditorDocuments, Vec<String>> {
        let (mut now, mut missing, mut documents) = (BTreeMap::new(), Vec::new(), Vec::new());
        for it in answer["documents"].as_array().into_iter().flatten() {
            let (Some(uri), Some(revision)) = (it["uri"].as_str(), it["revision"].as_u64()) else {
                continue;
            };
            if !is_wanted(uri) {
                continue;
            }
            let text = match (it.get("text"), self.0.get(uri)) {
                (Some(text), _) => text.as_str().map(Arc::from),
                (None, Some((known, text))) if *known == revision => text.clone(),
                (None, _) => {
                    missing.push(uri.to_owned());
                    continue;
                }
            };
            now.insert(uri.to_owned(), (revision, text.clone()));
            if let Some(path) = file_path(uri) {
                let version = it["version"].as_i64();
                documents.push(EditorDocument { uri: uri.to_owned(), path, version, text });
            }
        }
        self.0 = now;
        if !missing.is_empty() {
            return Err(missing);
        }
        Ok(EditorDocuments {
            editor: EditorId::default(),
            documents,
            applies: answer["applyEdit"] == true,
            capability: answer["workspaceEdit"].clone(),
            encoding: answer["positionEncoding"].as_str().map(ToOwned::to_owned),
        })
    }
}

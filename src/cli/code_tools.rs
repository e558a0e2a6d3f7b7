//! A session of the code tools without an editor: `lspool lsp` calls tools in it, and so can any other face.
//!
//! lspool is its own editor here: it initializes the servers, and answers what they ask. [`Session::call`] is all that a
//! face needs: a name, arguments, an answer. **A call that is dropped is cancelled.**

pub(super) mod workspace;

use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet},
    io,
    path::{Path, PathBuf},
    process::ExitCode,
    rc::Rc,
    sync::Arc,
};

use ignore::WalkBuilder;
use serde_json::{Map, Value, json};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::{mpsc, oneshot, watch},
    task::{JoinHandle, spawn_local},
};

use super::{
    args::Args,
    client::{Client, PATIENCE, at_once, error_of, serve_within},
    editor_link::RunningEditors,
    search::Search,
    world,
};
use crate::{
    builtin_tools::lsp::{Answer, Code, LspTool, ToolError},
    config::LspToolsConfig,
    core::{Proxy, event::Prepared},
    rpc::{Frame, Kind, RawId, file_uri, text},
    shell::{
        Settings, control,
        discover::{CliServers, Env, FoundLanguage, FoundTools, UserConfig, languages_found, prepare_tools},
        driver,
        goals::state_folder,
        process::EditorLink,
        record::Recorded,
        signals,
    },
    util::json,
};

/// The kinds of code actions, of which servers may make more special ones.
const ACTION_KINDS: [&str; 9] = [
    "",
    "quickfix",
    "refactor",
    "refactor.extract",
    "refactor.inline",
    "refactor.rewrite",
    "source",
    "source.organizeImports",
    "source.fixAll",
];

/// How many entries of the workspace are looked at for its languages.
const MOST_ENTRIES: usize = 300_000;

/// A tool, for a list of tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ToolInfo {
    pub(super) name: &'static str,
    pub(super) description: &'static str,
    /// A flat JSON schema of its arguments.
    pub(super) input_schema: Value,
}

/// The tools that the user's settings offer, by name. The list is the same in each session.
pub(super) fn tools(settings: &LspToolsConfig) -> Vec<ToolInfo> {
    let info = |it: LspTool| ToolInfo {
        name: it.name(),
        description: it.description(),
        input_schema: it.input_schema(),
    };
    LspTool::ALL.into_iter().filter(|it| settings.offers(it.name())).map(info).collect()
}

/// Which languages a session needs servers for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Languages {
    /// Those of the files in the workspace.
    OfWorkspace,
    /// The same and these. A call in which further ones [appear](appeared) is not answered.
    Growing(BTreeSet<String>),
    /// Those of these files.
    OfFiles(Vec<String>),
}

/// The languages that need another session for a call, instead of its answer.
pub(super) fn appeared(answer: &Answer) -> Option<Vec<String>> {
    let languages = answer.structured["appeared"].as_array()?;
    Some(languages.iter().filter_map(|it| it.as_str().map(ToOwned::to_owned)).collect())
}

/// What servers can do, by the words of the core. `None`: not all have said it.
pub(super) type Abilities = Option<BTreeSet<String>>;

/// Calls tools.
#[derive(Clone, Debug)]
pub(super) struct Session {
    abilities: watch::Receiver<Abilities>,
    asks: mpsc::UnboundedSender<Ask>,
    last: Rc<Cell<u64>>,
}

#[derive(Debug)]
enum Ask {
    Call {
        number: u64,
        params: Value,
        progress: mpsc::UnboundedSender<String>,
        answer: oneshot::Sender<Answer>,
    },
    Cancel(u64),
    Leave,
}

impl Ask {
    fn is_call(&self, of: u64) -> bool {
        matches!(self, Ask::Call { number, .. } if *number == of)
    }

    fn tell(&self, what: &str) {
        if let Ask::Call { progress, .. } = self {
            progress.send(what.to_owned()).ok();
        }
    }
}

/// Opens a session in these folders, which are absolute and without links, and ends its servers after `face`.
pub(super) fn serve(
    args: &Args,
    folders: &[PathBuf],
    languages: &Languages,
    face: impl AsyncFnOnce(Session, mpsc::Receiver<i32>, mpsc::Sender<i32>) -> io::Result<u8>,
) -> anyhow::Result<ExitCode> {
    let opening =
        Opening::new(&search(args), folders, languages).map_err(|error| anyhow::Error::msg(error.message))?;
    let runtime = world::runtime()?;
    let done = runtime.block_on(async {
        let signals = signals::listen();
        let editors = RunningEditors::new(control::folders(&Env::real()));
        let beside: Option<Rc<dyn EditorLink>> = Some(Rc::new(editors));
        opening.serve(args, beside, async |session, quit| face(session, signals, quit).await).await
    });
    runtime.shutdown_background();
    Ok(ExitCode::from(done?))
}

/// Reads the user's configuration, and begins the log.
pub(super) fn search(args: &Args) -> Arc<Search> {
    Arc::new(Search::new(args, CliServers::default()))
}

/// A session that has not begun.
pub(super) struct Opening {
    search: ToolSearch,
    /// Why no server runs.
    without: ToolError,
    initialize: Option<Value>,
}

impl Opening {
    /// Chooses the servers. Reads the folders, which takes a while.
    pub(super) fn new(
        search: &Arc<Search>,
        folders: &[PathBuf],
        languages: &Languages,
    ) -> Result<Opening, ToolError> {
        let no_server = |why: String| ToolError::new(Code::NoServer, why);
        let user = search.user().map_err(no_server)?;
        let found = languages_found(&user, folders, &search.env).map_err(no_server)?;
        if !found.settings.enabled {
            return Err(ToolError::new(
                Code::Refused,
                "code tools are off: `enabled = false` in [lsp_tools]",
            ));
        }
        let chosen = choose(found, folders, languages);
        let without = chosen.without();
        let Chosen { names, missing, .. } = chosen;
        let chosen_for = match languages {
            Languages::Growing(_) => "workspace",
            Languages::OfWorkspace | Languages::OfFiles(_) => "call",
        };
        let initialize = (!names.is_empty()).then(|| initialize(folders, &missing, chosen_for));
        Ok(Opening { search: ToolSearch { search: Arc::clone(search), names }, without, initialize })
    }

    /// Why no server would run in this session, if so.
    pub(super) fn without_server(&self) -> Option<ToolError> {
        self.initialize.is_none().then(|| self.without.clone())
    }

    /// Starts the servers, and ends them after `face`. The texts of the editors beside it count.
    pub(super) async fn serve(
        self,
        args: &Args,
        beside: Option<Rc<dyn EditorLink>>,
        face: impl AsyncFnOnce(Session, mpsc::Sender<i32>) -> io::Result<u8>,
    ) -> io::Result<u8> {
        let Opening { search, without, initialize } = self;
        let identity = world::identity();
        let world = world::open_world(&identity, &search.search).beside(beside);
        let recorder = search.search.recorder(args, identity);
        let core = Proxy::new(identity);
        let settings = Settings { state: state_folder(&search.search.env), ..Settings::default() };
        let search = Arc::new(search);
        let editor = async |stream, quit| {
            let (session, serving) = Session::begin(stream, initialize, without);
            let done = face(session.clone(), quit).await;
            session.asks.send(Ask::Leave).ok();
            drop(session);
            serving.await.ok();
            done
        };
        match recorder {
            Some(recorder) => {
                serve_within(Recorded::new(core, recorder), world, (search, settings), editor).await
            }
            None => serve_within(core, world, (search, settings), editor).await,
        }
    }
}

/// Whether a language of these folders has a server. Ends at the first such file, because an editor waits for this.
pub(super) fn has_server(user: &UserConfig, folders: &[PathBuf], env: &Env) -> bool {
    let Ok(FoundTools { languages, settings }) = languages_found(user, folders, env) else { return false };
    let served = languages.iter().filter(|it| it.server.is_ok()).flat_map(|it| &it.endings);
    let served: Vec<&&str> = served.collect();
    let has_served =
        |folder: &PathBuf| endings(folder).any(|it| served.iter().any(|served| it.ends_with(**served)));
    settings.enabled && folders.iter().any(has_served)
}

/// The servers of a session, and why languages have none.
#[derive(Debug, Default)]
struct Chosen {
    names: Vec<String>,
    /// All languages without one.
    missing: BTreeMap<String, String>,
    /// Those of them that are needed.
    needed: BTreeSet<String>,
}

impl Chosen {
    /// What a call gets if no server is chosen.
    fn without(&self) -> ToolError {
        let reasons = self.missing.iter().filter(|(language, _)| self.needed.contains(*language));
        let reasons: Vec<String> = reasons.map(|(language, why)| format!("\n{language}: {why}")).collect();
        ToolError::new(Code::NoServer, format!("no language server for these files{}", reasons.concat()))
    }
}

fn choose(found: FoundTools, folders: &[PathBuf], languages: &Languages) -> Chosen {
    let files = match languages {
        Languages::OfFiles(files) => files.clone(),
        Languages::OfWorkspace | Languages::Growing(_) => {
            let all: BTreeSet<String> = folders.iter().flat_map(|it| endings(it)).collect();
            all.into_iter().collect()
        }
    };
    let is_named = |name: &str| matches!(languages, Languages::Growing(also) if also.contains(name));
    let is_needed = |it: &FoundLanguage| {
        is_named(it.name) || it.endings.iter().any(|ending| files.iter().any(|it| it.ends_with(ending)))
    };
    let mut chosen = Chosen::default();
    let most = found.settings.max_servers;
    for mut language in found.languages {
        let is_needed = is_needed(&language);
        if let Ok(name) = &language.server
            && chosen.names.len() == most
            && !chosen.names.contains(name)
        {
            language.server = Err(format!("`max_servers` of [lsp_tools] is {most}, and as many others run"));
        }
        match language.server {
            Ok(name) if is_needed && !chosen.names.contains(&name) => chosen.names.push(name),
            Ok(_) => {}
            Err(why) => {
                if is_needed {
                    chosen.needed.insert(language.name.to_owned());
                }
                chosen.missing.insert(language.name.to_owned(), why);
            }
        }
    }
    chosen
}

/// The ending of each file name below a folder.
fn endings(folder: &Path) -> impl Iterator<Item = String> {
    let walk = WalkBuilder::new(folder).follow_links(false).build().flatten().take(MOST_ENTRIES);
    let files = walk.filter(|it| it.file_type().is_some_and(|it| it.is_file()));
    files.filter_map(|it| Some(format!(".{}", it.path().extension()?.to_str()?)))
}

/// Finds the chosen servers.
struct ToolSearch {
    search: Arc<Search>,
    names: Vec<String>,
}

impl driver::Search for ToolSearch {
    fn files(&self, folders: &[PathBuf]) -> Vec<PathBuf> {
        self.search.files(folders)
    }

    fn prepare(&self, folders: &[PathBuf]) -> Result<Prepared, String> {
        prepare_tools(&self.names, &self.search.user()?, folders, &self.search.env)
    }
}

/// What lspool says as the editor of the session: it can do all that the tools use.
fn initialize(folders: &[PathBuf], missing: &BTreeMap<String, String>, chosen_for: &str) -> Value {
    let named = folders.iter().map(|it| {
        let name = it.file_name().unwrap_or(it.as_os_str()).to_string_lossy();
        json!({"uri": file_uri(it), "name": name})
    });
    let named: Vec<Value> = named.collect();
    let missing: Map<String, Value> =
        missing.iter().map(|(key, it)| (key.clone(), it.clone().into())).collect();
    let links = json!({"linkSupport": true});
    json!({
        "processId": null,
        "clientInfo": {"name": "lspool", "version": env!("CARGO_PKG_VERSION")},
        "rootUri": named.first().map(|it| &it["uri"]),
        "workspaceFolders": named,
        "initializationOptions": {"lspool": {"codeTools": {"missing": missing, "chosenFor": chosen_for}}},
        "capabilities": {
            "general": {"positionEncodings": ["utf-16"]},
            "window": {"workDoneProgress": true},
            "workspace": {
                "workspaceFolders": true,
                "configuration": true,
                "symbol": {},
                "workspaceEdit": {
                    "documentChanges": true,
                    "resourceOperations": ["create", "rename", "delete"],
                    "failureHandling": "transactional",
                    "normalizesLineEndings": true,
                    "changeAnnotationSupport": {},
                },
                "fileOperations": {"didRename": true},
                "didChangeWatchedFiles": {"dynamicRegistration": true, "relativePatternSupport": true},
            },
            "textDocument": {
                "synchronization": {"didSave": true},
                "definition": links,
                "declaration": links,
                "typeDefinition": links,
                "implementation": links,
                "references": {},
                "hover": {"contentFormat": ["markdown", "plaintext"]},
                "documentSymbol": {"hierarchicalDocumentSymbolSupport": true},
                "publishDiagnostics": {"versionSupport": true, "relatedInformation": true},
                "diagnostic": {"dynamicRegistration": true, "relatedDocumentSupport": false},
                "rename": {"prepareSupport": true, "honorsChangeAnnotations": true},
                "codeAction": {
                    "codeActionLiteralSupport": {"codeActionKind": {"valueSet": ACTION_KINDS}},
                    "isPreferredSupport": true,
                    "disabledSupport": true,
                    "dataSupport": true,
                    "resolveSupport": {"properties": ["edit"]},
                    "honorsChangeAnnotations": true,
                },
                "formatting": {},
                "rangeFormatting": {},
                "callHierarchy": {},
                "typeHierarchy": {},
            },
        },
    })
}

impl Session {
    fn begin<S: AsyncRead + AsyncWrite + Unpin + 'static>(
        stream: S,
        initialize: Option<Value>,
        without: ToolError,
    ) -> (Session, JoinHandle<()>) {
        let (asks, asked) = mpsc::unbounded_channel();
        let (can, abilities) = watch::channel(None);
        let serving = match initialize {
            Some(initialize) => spawn_local(async move {
                let mut editor = Editor {
                    client: Client::new(stream),
                    asked,
                    waiting: Vec::new(),
                    open: BTreeMap::new(),
                    can,
                };
                if let Err(error) = editor.run(&initialize).await {
                    tracing::debug!(%error, "session of code tools ended");
                }
                editor.client.leave(PATIENCE).await;
            }),
            None => spawn_local(async move {
                // Without a server, lspool ends when the stream does.
                answer_without_server(asked, &without).await;
                drop(stream);
            }),
        };
        (Session { asks, abilities, last: Rc::new(Cell::new(0)) }, serving)
    }

    /// What its servers can do.
    pub(super) fn abilities(&self) -> watch::Receiver<Abilities> {
        self.abilities.clone()
    }

    /// Calls a tool. `progress` receives what the call waits for. Dropping the future cancels the call.
    pub(super) async fn call(&self, name: &str, arguments: &Value, mut progress: impl FnMut(&str)) -> Answer {
        let number = self.last.get() + 1;
        self.last.set(number);
        let (tell, mut told) = mpsc::unbounded_channel();
        let (answer, mut answered) = oneshot::channel();
        let params = json!({"name": name, "arguments": arguments, "workDoneToken": number});
        self.asks.send(Ask::Call { number, params, progress: tell, answer }).ok();
        let mut cancel = CancelOnDrop { asks: &self.asks, number, is_over: false };
        loop {
            tokio::select! {
                biased;
                Some(what) = told.recv() => progress(&what),
                answer = &mut answered => {
                    cancel.is_over = true;
                    return answer.unwrap_or_else(|_| ended("lspool ends").answer());
                }
            }
        }
    }
}

struct CancelOnDrop<'a> {
    asks: &'a mpsc::UnboundedSender<Ask>,
    number: u64,
    is_over: bool,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.asks.send(Ask::Cancel(self.number)).ok();
        }
    }
}

fn ended(why: &str) -> ToolError {
    ToolError { retry: false, ..ToolError::new(Code::ServerFailed, why) }
}

/// Answers each call: there is no server for it.
async fn answer_without_server(mut asked: mpsc::UnboundedReceiver<Ask>, error: &ToolError) {
    while let Some(ask) = asked.recv().await {
        match ask {
            Ask::Call { answer, .. } => drop(answer.send(error.answer())),
            Ask::Cancel(_) => {}
            Ask::Leave => return,
        }
    }
}

/// A call that waits for its answer.
struct Open {
    id: RawId,
    progress: mpsc::UnboundedSender<String>,
    answer: oneshot::Sender<Answer>,
}

/// lspool as the editor of lspool.
struct Editor<S> {
    client: Client<S>,
    asked: mpsc::UnboundedReceiver<Ask>,
    /// Calls that wait for the servers.
    waiting: Vec<Ask>,
    open: BTreeMap<u64, Open>,
    can: watch::Sender<Abilities>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Editor<S> {
    async fn run(&mut self, initialize: &Value) -> io::Result<()> {
        let opening = self.client.ask("initialize", initialize).await?;
        let mut is_open = false;
        loop {
            let heard = tokio::select! {
                heard = self.client.hear() => heard?,
                ask = self.asked.recv() => match ask {
                    Some(ask @ Ask::Call { .. }) if is_open => {
                        self.call(ask).await?;
                        continue;
                    }
                    // Calls wait for the servers; their end does not.
                    Some(ask @ Ask::Call { .. }) => {
                        ask.tell("the language servers are starting");
                        self.waiting.push(ask);
                        continue;
                    }
                    Some(Ask::Cancel(number)) => {
                        self.waiting.retain(|it| !it.is_call(number));
                        if let Some(open) = self.open.remove(&number) {
                            self.client.notify_raw("$/cancelRequest", &open.id).await?;
                        }
                        continue;
                    }
                    Some(Ask::Leave) | None => return Ok(()),
                },
            };
            match (heard.kind(), heard.id(), heard.method()) {
                (Kind::Request, Some(id), Some(method)) => {
                    let answer = at_once(method, heard.params().unwrap_or(b"{}")).unwrap_or(Value::Null);
                    self.client.answer(id, &answer).await?;
                }
                (Kind::Response, Some(id), _) if id == opening => {
                    if let Some(error) = error_of(&heard) {
                        return self.fail_all(&error).await;
                    }
                    self.client.notify("initialized", &json!({})).await?;
                    is_open = true;
                    for ask in std::mem::take(&mut self.waiting) {
                        self.call(ask).await?;
                    }
                }
                (Kind::Response, Some(id), _) => self.on_answer(&id, &heard),
                (Kind::Notification, _, Some("$/progress")) => self.on_progress(&heard),
                (Kind::Notification, _, Some("lspool/didChangeAbilities")) => {
                    let params: Value = json::read(heard.params().unwrap_or(b"{}")).unwrap_or_default();
                    let all = params["abilities"].as_array().into_iter().flatten();
                    let all = all.filter_map(|it| it.as_str().map(ToOwned::to_owned));
                    self.can.send_replace(Some(all.collect()));
                }
                _ => {}
            }
        }
    }

    async fn call(&mut self, ask: Ask) -> io::Result<()> {
        if let Ask::Call { number, params, progress, answer } = ask {
            let id = self.client.ask("lspool/callTool", &params).await?;
            self.open.insert(number, Open { id, progress, answer });
        }
        Ok(())
    }

    fn on_answer(&mut self, id: &RawId, frame: &Frame) {
        let Some(number) = self.open.iter().find(|(_, it)| it.id == *id).map(|(number, _)| *number) else {
            return;
        };
        let Some(open) = self.open.remove(&number) else { return };
        let answer = match error_of(frame) {
            Some(error) => ended(&error).answer(),
            None => {
                let value: Value = json::read(frame.result().unwrap_or(b"null")).unwrap_or_default();
                Answer::read(&value).unwrap_or_else(|| ended("lspool gave an unreadable answer").answer())
            }
        };
        open.answer.send(answer).ok();
    }

    fn on_progress(&mut self, frame: &Frame) {
        let params = frame.params().unwrap_or(b"{}");
        let value: Value = json::read(params).unwrap_or_default();
        let open = value["token"].as_u64().and_then(|it| self.open.get(&it));
        if let (Some(open), Some(message)) = (open, text(params, &["value", "message"])) {
            open.progress.send(message).ok();
        }
    }

    /// The servers cannot be started: answers each call with the reason.
    async fn fail_all(&mut self, error: &str) -> io::Result<()> {
        for ask in std::mem::take(&mut self.waiting) {
            if let Ask::Call { answer, .. } = ask {
                answer.send(ToolError::new(Code::NoServer, error).answer()).ok();
            }
        }
        while let Some(ask) = self.asked.recv().await {
            match ask {
                Ask::Call { answer, .. } => drop(answer.send(ToolError::new(Code::NoServer, error).answer())),
                Ask::Cancel(_) => {}
                Ask::Leave => break,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(most: usize) -> FoundTools {
        let language = |name, ending, server: Result<&str, &str>| FoundLanguage {
            name,
            endings: vec![ending],
            server: server.map(ToOwned::to_owned).map_err(ToOwned::to_owned),
        };
        FoundTools {
            languages: vec![
                language("Python", ".py", Ok("pyright")),
                language("TypeScript", ".ts", Ok("tsgo")),
                language("Go", ".go", Err("install gopls")),
                language("C and C++", ".c", Ok("clangd")),
            ],
            settings: LspToolsConfig { max_servers: most, ..LspToolsConfig::default() },
        }
    }

    #[test]
    fn servers_are_chosen_for_languages_that_are_there_or_appear() {
        let folder = tempfile::tempdir().unwrap();
        let folders = [folder.path().to_owned()];
        let none = choose(found(6), &folders, &Languages::Growing(BTreeSet::new()));
        assert_eq!(none.names, [""; 0]);
        assert_eq!(none.without().message, "no language server for these files");
        std::fs::write(folder.path().join("a.py"), "").unwrap();
        std::fs::write(folder.path().join("a.go"), "").unwrap();
        let some = choose(found(6), &folders, &Languages::OfWorkspace);
        assert_eq!(some.names, ["pyright"]);
        // Why a language has no server is known before its first file.
        assert_eq!(some.missing.into_keys().collect::<Vec<_>>(), ["Go"]);
        let also = Languages::Growing(BTreeSet::from(["TypeScript".to_owned()]));
        assert_eq!(choose(found(6), &folders, &also).names, ["pyright", "tsgo"]);
        let of_files = Languages::OfFiles(vec!["x.go".to_owned()]);
        let without = choose(found(6), &folders, &of_files).without();
        assert!(without.message.ends_with("\nGo: install gopls"), "{}", without.message);
    }

    #[test]
    fn no_more_servers_are_chosen_than_allowed() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a.py", "a.ts", "a.c"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let chosen = choose(found(2), &[folder.path().to_owned()], &Languages::OfWorkspace);
        assert_eq!(chosen.names, ["pyright", "tsgo"]);
        assert!(chosen.missing["C and C++"].contains("`max_servers`"), "{chosen:?}");
    }
}

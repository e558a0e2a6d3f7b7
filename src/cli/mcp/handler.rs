//! The methods of MCP, for both eras of the protocol: until 2025-11-25 with `initialize`, and since 2026-07-28 without.
//!
//! The list of tools has those that a server of the workspace can answer. It changes when a language appears whose server
//! can do more, and lspool notifies clients of that.
//!
//! `rmcp` knows which era a message is of, and answers what is not here. A cancelled call gets no answer.

use std::{collections::BTreeSet, pin::pin, rc::Rc, time::Duration};

use rmcp::{
    ErrorData, Peer, RoleServer, ServerHandler,
    model::{
        CacheScope, CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CustomRequest,
        CustomResult, DiscoverResult, ErrorCode, Implementation, ListToolsResult, PaginatedRequestParams,
        ProgressNotificationParam, ServerCapabilities, ServerConfig, SubscriptionFilter, Tool,
    },
    service::{NotificationContext, RequestContext, SubscriptionContext},
};
use serde_json::Value;
use tokio::{
    sync::{OnceCell, Semaphore, mpsc},
    task::spawn_local,
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;

use super::roots::{of_client, of_environment};
use crate::{
    builtin_tools::lsp::{Answer, LspTool},
    cli::code_tools::workspace::{Folders, Workspace},
    config::{LspToolsConfig, nearest},
    shell::discover::Env,
};

/// How many calls run at once; others wait in their order.
const AT_ONCE: usize = 32;
/// How many calls may run and wait.
const MOST_CALLS: usize = 1000;
/// How long a client may take to list its folders.
const PATIENCE: Duration = Duration::from_secs(5);
/// The shortest time between two progress notifications of a call.
const EVERY: Duration = Duration::from_secs(1);
/// How long the servers must have said nothing new before lspool notifies clients of a change.
const QUIET: Duration = Duration::from_secs(1);
/// How long a client may keep the list of tools, in milliseconds.
const FRESH: u64 = 60_000;

/// What a model should know before it calls.
const INSTRUCTIONS: &str = "Language servers answer about the code as it is on the disk now. Prefer these \
    tools to text search for symbols: lsp_references for all uses, lsp_definition with `body` to read a symbol, \
    lsp_workspace_symbols to find one by name, lsp_document_symbols for the outline of a file, lsp_diagnostics after \
    each edit, lsp_rename to rename in all files. Name a symbol as `Class/method`, alone or with its file. An answer \
    that begins with INCOMPLETE or NOT CHECKED is not the whole truth: say so, or ask again later. An error lists \
    candidates: pass one back word for word.";

/// Answers a client.
pub(super) struct Handler {
    workspace: Rc<Workspace>,
    env: Rc<Env>,
    tools: Vec<Tool>,
    /// Set when the folders of the workspace are decided. With `--root`, from the beginning.
    decided: OnceCell<()>,
    /// Whether `--root` names the folders.
    is_given: bool,
    running: Semaphore,
    open: Semaphore,
    /// The end of stdin.
    ended: CancellationToken,
}

impl Handler {
    pub(super) fn new(
        workspace: Rc<Workspace>,
        env: Rc<Env>,
        is_given: bool,
        ended: CancellationToken,
        settings: &LspToolsConfig,
    ) -> Handler {
        let decided = if is_given { OnceCell::new_with(Some(())) } else { OnceCell::new() };
        let (running, open) = (Semaphore::new(AT_ONCE), Semaphore::new(MOST_CALLS));
        Handler {
            workspace,
            env,
            tools: super::tools::list(settings),
            decided,
            is_given,
            running,
            open,
            ended,
        }
    }

    /// Decides about the folders when it is first asked.
    async fn decide(&self, peer: &Peer<RoleServer>) {
        self.decided.get_or_init(|| self.ask_for_folders(peer)).await;
    }

    async fn ask_for_folders(&self, peer: &Peer<RoleServer>) {
        let folders = match folders_of(peer).await {
            Some(uris) if !uris.is_empty() => of_client(&uris, &self.env),
            Some(_) | None => of_environment(&self.env),
        };
        self.workspace.set(folders.map_or_else(Folders::Refused, Folders::Known));
    }

    /// The tools that a server can answer. Before that is known, all.
    fn list(&self) -> Vec<Tool> {
        listed(&self.tools, self.workspace.abilities().borrow().as_ref())
    }

    async fn call(&self, name: &str, arguments: &Value, context: &RequestContext<RoleServer>) -> Answer {
        let (tell, mut told) = mpsc::unbounded_channel();
        let (mut last, mut since) = (String::new(), None::<Instant>);
        let progress = |what: &str| {
            // A call that waits goes through the same steps again and again.
            let is_due = since.is_none_or(|it| it.elapsed() >= EVERY);
            if last != what && is_due {
                what.clone_into(&mut last);
                since = Some(Instant::now());
                tell.send(what.to_owned()).ok();
            }
        };
        let mut call = pin!(self.workspace.call(name, arguments, progress));
        let token = context.meta.get_progress_token();
        let mut count = 0.0;
        loop {
            tokio::select! {
                biased;
                Some(what) = told.recv() => {
                    let Some(token) = token.clone() else { continue };
                    count += 1.0;
                    let params = ProgressNotificationParam::new(token, count).with_message(what);
                    context.peer.notify_progress(params).await.ok();
                }
                answer = &mut call => return answer,
            }
        }
    }
}

fn listed(tools: &[Tool], abilities: Option<&BTreeSet<String>>) -> Vec<Tool> {
    let can = |it: &&Tool| {
        let needed = LspTool::named(&it.name).and_then(LspTool::ability);
        abilities.zip(needed).is_none_or(|(all, needed)| all.contains(needed))
    };
    tools.iter().filter(can).cloned().collect()
}

/// Tells of each change of the list, after a while without another one. Never ends.
async fn changes(workspace: &Workspace, tools: &[Tool], mut tell: impl AsyncFnMut()) {
    let mut abilities = workspace.abilities();
    let names = |abilities: Option<&BTreeSet<String>>| -> Vec<String> {
        listed(tools, abilities).into_iter().map(|it| it.name.into_owned()).collect()
    };
    let mut told = names(abilities.borrow_and_update().as_ref());
    while abilities.changed().await.is_ok() {
        while let Ok(Ok(())) = timeout(QUIET, abilities.changed()).await {}
        let now = names(abilities.borrow_and_update().as_ref());
        if now != told {
            told = now;
            tell().await;
        }
    }
}

/// The folders of a client that lists its roots. Clients since 2026-07-28 do not.
#[expect(deprecated, reason = "a client of the earlier era has no other way to name its folders")]
async fn folders_of(peer: &Peer<RoleServer>) -> Option<Vec<String>> {
    peer.peer_info()?.capabilities.roots.as_ref()?;
    let asked = peer.list_roots();
    match timeout(PATIENCE, asked).await {
        Ok(Ok(told)) => Some(told.roots.into_iter().map(|it| it.uri).collect()),
        Ok(Err(error)) => {
            tracing::warn!(%error, "the client did not tell its folders");
            None
        }
        Err(_) => {
            tracing::warn!("the client did not tell its folders in time");
            None
        }
    }
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let me = Implementation::new("lspool", env!("CARGO_PKG_VERSION")).with_title("lspool");
        ServerConfig::new(ServerCapabilities::builder().enable_tools().enable_tool_list_changed().build())
            .with_server_info(me)
            .with_instructions(INSTRUCTIONS)
    }

    async fn discover(&self, _context: RequestContext<RoleServer>) -> Result<DiscoverResult, ErrorData> {
        let versions = self.supported_protocol_versions().into_owned();
        let info = DiscoverResult::from_server_info(versions, self.get_info());
        Ok(info.with_ttl_ms(FRESH).with_cache_scope(CacheScope::Private))
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        let (workspace, tools, peer) = (Rc::clone(&self.workspace), self.tools.clone(), context.peer.clone());
        let ended = self.ended.clone();
        spawn_local(async move {
            let telling = changes(&workspace, &tools, async || {
                peer.notify_tool_list_changed().await.ok();
            });
            tokio::select! {
                () = telling => {}
                () = ended.cancelled() => {}
            }
        });
        self.decide(&context.peer).await;
    }

    async fn on_roots_list_changed(&self, context: NotificationContext<RoleServer>) {
        if !self.is_given {
            self.ask_for_folders(&context.peer).await;
        }
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        if context.peer.peer_info().is_none() {
            // No `initialized` will come.
            self.decide(&context.peer).await;
        }
        let mut list = ListToolsResult::with_all_items(self.list());
        if context.meta.protocol_version().is_some() {
            (list.ttl_ms, list.cache_scope) = (Some(FRESH), Some(CacheScope::Private));
        }
        Ok(list)
    }

    async fn call_tool(
        &self,
        params: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if !self.tools.iter().any(|it| it.name == params.name) {
            let hint = match nearest(&params.name, self.tools.iter().map(|it| &*it.name)) {
                Some(meant) => format!(": did you mean {meant}?"),
                None => ": `tools/list` has all tools".to_owned(),
            };
            return Err(ErrorData::invalid_params(format!("unknown tool {:?}{hint}", params.name), None));
        }
        let Ok(_open) = self.open.try_acquire() else {
            return Err(ErrorData::internal_error(
                format!("{MOST_CALLS} calls are open: wait for answers"),
                None,
            ));
        };
        let arguments = Value::Object(params.arguments.unwrap_or_default());
        let answering = async {
            let _running = self.running.acquire().await.expect("nobody closes it");
            self.decide(&context.peer).await;
            self.call(&params.name, &arguments, &context).await
        };
        let answer = tokio::select! {
            answer = answering => answer,
            // Dropping the call cancels it; nobody gets this.
            () = context.ct.cancelled() => return Err(ErrorData::internal_error("cancelled", None)),
        };
        let content = vec![ContentBlock::text(answer.text)];
        let mut result = match answer.ok {
            true => CallToolResult::success(content),
            false => CallToolResult::error(content),
        };
        result.structured_content = Some(answer.structured);
        Ok(result.into())
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        const KNOWN: [&str; 5] = ["initialize", "ping", "server/discover", "tools/call", "tools/list"];
        let method = request.method;
        // `rmcp` takes a known method whose parameters it cannot read for an unknown one.
        if KNOWN.contains(&&*method) {
            let what = format!("{method}: `params` lack a required member, or one is of the wrong type");
            return Err(ErrorData::invalid_params(what, None));
        }
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, format!("unknown method {method:?}"), None))
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        // Of what it does not announce, rmcp leaves nothing.
        Some(requested.clone())
    }

    async fn listen(&self, subscription: SubscriptionContext) -> Result<(), ErrorData> {
        let telling = changes(&self.workspace, &self.tools, async || {
            subscription.sink().notify_tool_list_changed().await.ok();
        });
        tokio::select! {
            () = telling => {}
            () = subscription.cancelled() => {}
            () = self.ended.cancelled() => {}
        }
        Ok(())
    }
}

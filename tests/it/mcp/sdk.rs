//! `lspool mcp` as the client of the official Rust SDK sees it, in both eras: another reading of the specification.

use std::{cell::Cell, rc::Rc};

use rmcp::{
    ClientHandler, RoleClient,
    model::{
        CallToolRequest, CallToolRequestParams, ClientRequest, ProgressNotificationParam, ProtocolVersion,
        SubscriptionFilter,
    },
    service::{
        ClientLifecycleMode, ClientServiceExt as _, NotificationContext, PeerRequestOptions, RunningService,
    },
};
use tokio::{process, runtime, sync::mpsc, time::timeout};

use super::*;

/// Counts what it is told.
struct Watcher {
    progress: Rc<Cell<u32>>,
    changes: mpsc::UnboundedSender<()>,
}

impl ClientHandler for Watcher {
    async fn on_progress(&self, _: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.progress.set(self.progress.get() + 1);
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changes.send(()).unwrap();
    }
}

type Sdk = RunningService<RoleClient, Watcher>;

fn call(name: &'static str, arguments: &Value) -> CallToolRequestParams {
    CallToolRequestParams::new(name).with_arguments(arguments.as_object().unwrap().clone())
}

async fn lists(client: &Sdk, name: &str) -> bool {
    client.list_all_tools().await.unwrap().iter().any(|it| it.name == name)
}

async fn scenario(mode: ClientLifecycleMode) {
    let is_earlier = matches!(mode, ClientLifecycleMode::Initialize);
    let sandbox = project();
    let mut command = process::Command::from(mcp(&sandbox));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let transport = (child.stdout.take().unwrap(), child.stdin.take().unwrap());
    let progress = Rc::new(Cell::new(0));
    let (changes, mut changed) = mpsc::unbounded_channel();
    let watcher = Watcher { progress: Rc::clone(&progress), changes };
    let client = watcher.serve_with_lifecycle(transport, mode).await.unwrap();
    let server = client.peer_info().unwrap().server_info.clone();
    assert_eq!(server.map(|it| it.name).as_deref(), Some("lspool"));

    assert!(lists(&client, "lsp_references").await && lists(&client, "lsp_type_hierarchy").await);
    let mut listening = match is_earlier {
        true => None,
        false => {
            let filter = SubscriptionFilter::builder().tools_list_changed().build();
            Some(client.listen(filter).await.unwrap())
        }
    };
    let found = client.call_tool(call("lsp_references", &json!({"symbol": "greet"}))).await.unwrap();
    let found = json!({"structuredContent": found.structured_content});
    check_references(&found, &ALL);
    assert!(progress.get() > 0, "the call waited for a server");
    let wrong = client.call_tool(call("lsp_hover", &json!({"symbl": "greet"}))).await.unwrap();
    assert_eq!(wrong.is_error, Some(true));
    assert!(client.call_tool(call("lsp_nothing", &json!({}))).await.is_err());

    // An answer to a cancelled call would end the client.
    let request = CallToolRequest::new(call("lsp_references", &json!({"symbol": "greet"})));
    let request = ClientRequest::CallToolRequest(request);
    let options = PeerRequestOptions::no_options();
    let handle = client.send_cancellable_request(request, options).await.unwrap();
    handle.cancel(Some("nobody wants it".to_owned())).await.unwrap();

    match &mut listening {
        None => timeout(PATIENCE, changed.recv()).await.unwrap().unwrap(),
        Some(listening) => drop(timeout(PATIENCE, listening.next()).await.unwrap().unwrap()),
    }
    assert!(lists(&client, "lsp_references").await && !lists(&client, "lsp_type_hierarchy").await);
    drop(listening);
    client.cancel().await.unwrap();
    assert_eq!(timeout(PATIENCE, child.wait()).await.unwrap().unwrap().code(), Some(0));
}

#[test]
fn client_of_the_rust_sdk_lists_calls_cancels_and_follows_a_real_server() {
    for mode in [
        ClientLifecycleMode::Initialize,
        ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] },
    ] {
        let runtime =
            runtime::Builder::new_current_thread().enable_all().build_local(runtime::LocalOptions::default());
        runtime.unwrap().block_on(scenario(mode));
    }
}

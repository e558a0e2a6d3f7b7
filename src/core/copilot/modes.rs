//! Many tool sets in one process: custom chat modes in the primary restrict conversations.
//!
//! A mode is a file that lspool writes ([`Effect::KeepMode`](crate::core::event::Effect::KeepMode)) and registers. A
//! server that does not find or cannot read it gives a turn *every* tool, without a report. So:
//!
//! - **Each request decides whether a mode is as safe as a process** ([`Copilot::mode_for`]). If not, the
//!   conversation gets a process.
//! - **No turn starts before its mode is verified** ([`verification`]): the shell has found the file correct, and
//!   since the last possible change the server has listed exactly this mode with exactly these tools. Otherwise the
//!   turn moves to a process.
//! - lspool also refuses calls outside the set, as in any partition.
//!
//! ```text
//! Unverified ─kept→ (registered, asked for) ─listed correctly→ Verified ─anything changes→ Unverified
//!     └──────────────────────┴── else → Invalid ─the server, or its state, changes→ Unverified
//! any ─a turn in it calls a tool outside the set→ Quarantined ─another process→ Unverified
//! ```

mod hidden;
pub(crate) mod moving;
mod tools;
mod verification;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    path::Path,
};

use serde_json::json;
use tracing::{debug, info};

use crate::{
    config::{Config, Isolation, OnLimit},
    core::{
        copilot::{
            Copilot,
            conversation::Wish,
            tools::tool_set::{BuiltinToolsFor, SUB_AGENT, ToolSet, mcp_model_name},
        },
        event::{BackendId, ProcessId},
        ids::ConversationId,
        mux::{
            Mux,
            failure::{Cause, Failure},
            pool::backend::Backend,
            requests::Pending,
        },
        purpose::{CopilotPurpose, ModeId, Purpose, Restriction, SentId},
    },
    rpc::{Frame, Patch, members, text},
    util::fnv::fnv1a,
};
pub(crate) use verification::does_not_exist;

/// The limit of modes, because the server reads each file for each turn. Beyond it, the least recently used mode
/// gives up its file.
const MOST: usize = 256;

/// How many ids of forgotten conversations to keep that the primary may know. A server keeps a hundred.
const REMEMBERED: usize = 1000;

/// The place of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placement {
    pub(crate) backend: BackendId,
    pub(crate) mode: Option<ModeId>,
}

impl Placement {
    /// The restriction of its next turn.
    pub(crate) fn restriction(self) -> Restriction {
        self.mode.map_or(Restriction::Process, Restriction::Mode)
    }
}

/// The identity of a mode.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    set: ToolSet,
    /// The editor's mode that it is derived from.
    of: Option<String>,
}

#[derive(Debug)]
struct Mode {
    key: Key,
    /// The name of its file.
    name: String,
    /// The tools that its file has or will have.
    tools: Vec<String>,
    /// The number of the last request for its file, and whether the answer has come.
    asked: u64,
    is_kept: bool,
    /// The server's id for it.
    uri: String,
    title: String,
    /// The tools in the file.
    written: Vec<String>,
    state: Verification,
    /// The time of its last use, in the order of [`Modes::wishes`].
    wanted: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Verification {
    Unverified,
    Verified(ProcessId),
    Invalid(String),
    /// A turn has called a tool outside the set of this mode, so the word of this process does not count.
    Quarantined(String),
}

impl Mode {
    /// Marks the mode for another verification.
    fn unverify(&mut self) {
        if !matches!(self.state, Verification::Quarantined(_)) {
            self.state = Verification::Unverified;
        }
    }

    /// Why it cannot be used, if known.
    fn why_not(&self) -> Option<&String> {
        match &self.state {
            Verification::Invalid(why) | Verification::Quarantined(why) => Some(why),
            Verification::Unverified | Verification::Verified(_) => None,
        }
    }
}

/// All modes, and the state of the primary that they depend on.
#[derive(Debug, Default)]
pub(crate) struct Modes {
    all: BTreeMap<ModeId, Mode>,
    last: u32,
    /// The number of uses so far.
    wishes: u64,
    /// The last number of a request to the shell.
    numbers: u64,
    /// The names of the tools that the primary offers, as it last said.
    offered: Option<BTreeSet<String>>,
    /// Whether the primary is being asked.
    is_listing: bool,
    /// Its MCP servers with their tools, and whether each is enabled.
    mcp: BTreeMap<String, BTreeMap<String, bool>>,
    /// The folder of the files, as a URI for the server.
    folder: Option<String>,
    registering: Registering,
    /// Turns that must move to a process.
    leaving: Vec<SentId>,
    /// Ids of forgotten conversations that the primary may know.
    tombstones: VecDeque<ConversationId>,
    /// Why conversations with these sets are not in a mode, although one was wanted. At most [`MOST`] for unused
    /// sets.
    reasons: BTreeMap<ToolSet, String>,
}

/// Open registrations of a process.
#[derive(Debug, Default)]
struct Registering {
    of: Option<ProcessId>,
    n: usize,
    /// The number of expected change notifications.
    changes: usize,
}

impl Modes {
    fn get(&self, id: ModeId) -> Option<&Mode> {
        self.all.get(&id)
    }

    /// The tool set of a mode.
    pub(crate) fn set(&self, id: ModeId) -> Option<&ToolSet> {
        self.get(id).map(|it| &it.key.set)
    }

    /// Whether this process can take turns in this mode.
    pub(super) fn is_verified(&self, id: ModeId, process: ProcessId) -> bool {
        self.get(id).is_some_and(|it| it.state == Verification::Verified(process))
    }

    /// The names of the tools that the primary offers, if known.
    pub(crate) fn offered(&self) -> Option<&BTreeSet<String>> {
        self.offered.as_ref()
    }

    /// The tools of an MCP server, as the primary last said.
    pub(super) fn mcp_tools(&self, server: &str) -> Option<&BTreeMap<String, bool>> {
        self.mcp.get(server)
    }

    /// Notes that the primary has switched an MCP tool without listing it.
    pub(super) fn switch_mcp_tool(&mut self, server: &str, tool: &str, is_on: bool) {
        if let Some(status) = self.mcp.get_mut(server).and_then(|it| it.get_mut(tool)) {
            *status = is_on;
        }
    }

    /// The MCP servers with a tool of this name, as the primary last said.
    pub(super) fn mcp_servers_with(&self, tool: &str) -> impl Iterator<Item = &String> {
        self.mcp.iter().filter(move |(_, tools)| tools.contains_key(tool)).map(|(server, _)| server)
    }

    /// The name that the model has for the tool of an MCP server, if only one server has a tool of this name in this set.
    pub(super) fn mcp_name(&self, set: &ToolSet, tool: &str) -> Option<String> {
        let mut servers = self.mcp_servers_with(tool).filter(|it| set.contains_mcp(it, tool));
        let server = servers.next()?;
        servers.next().is_none().then(|| mcp_model_name(server, tool))
    }

    /// Marks every mode for another verification.
    fn unverify(&mut self) {
        self.all.values_mut().for_each(Mode::unverify);
    }

    /// Resets the state for a new process of the primary.
    pub(crate) fn begin(&mut self) {
        self.all.values_mut().for_each(|it| it.state = Verification::Unverified);
    }

    /// Why conversations with this set are not in a mode, although one was wanted.
    pub(crate) fn reason(&self, set: &ToolSet) -> Option<&str> {
        self.reasons.get(set).map(String::as_str)
    }

    /// Keeps the id of a forgotten conversation that the primary may know.
    pub(super) fn add_tombstone(&mut self, id: &ConversationId) {
        if !self.tombstones.contains(id) {
            self.tombstones.push_back(id.clone());
        }
        if self.tombstones.len() > REMEMBERED {
            self.tombstones.pop_front();
        }
    }

    /// Whether the primary may know a conversation of this id, with more tools than it may use.
    pub(super) fn has_tombstone(&self, id: &ConversationId) -> bool {
        self.tombstones.contains(id)
    }
}

impl Copilot {
    /// Places a conversation with this set, and starts a process if necessary. `request` are the parameters of its
    /// create or its next turn.
    pub(crate) fn place(
        &mut self,
        mux: &mut Mux,
        set: &ToolSet,
        wish: Isolation,
        request: &[u8],
    ) -> Result<Placement, Failure> {
        let in_process = |backend| Placement { backend, mode: None };
        if set.is_all() {
            return Ok(in_process(self.primary));
        }
        if wish == Isolation::Mode {
            match self.mode_for(mux, set, request) {
                Ok(mode) => return Ok(Placement { backend: self.primary, mode: Some(mode) }),
                Err(why) => self.note_reason(set, why),
            }
        }
        let failure = match self.partition(mux, set) {
            Ok(backend) => return Ok(in_process(backend)),
            Err(failure) => failure,
        };
        let on_limit = self.server(mux).settings.on_limit;
        if failure.cause != Cause::Limit || on_limit == OnLimit::Error || wish == Isolation::Mode {
            return Err(failure);
        }
        match self.mode_for(mux, set, request) {
            Ok(mode) => {
                info!(%set, "used a mode: no room for a process");
                Ok(Placement { backend: self.primary, mode: Some(mode) })
            }
            Err(why) => {
                Err(Failure { message: format!("{}; a chat mode: {why}", failure.message), ..failure })
            }
        }
    }

    pub(super) fn note_reason(&mut self, set: &ToolSet, why: String) {
        info!(%set, why, "used a process instead of a mode");
        if self.modes.reasons.len() >= MOST && !self.modes.reasons.contains_key(set) {
            let in_use: BTreeSet<&ToolSet> = self.conversations.iter().map(|(_, it)| &it.set).collect();
            self.modes.reasons.retain(|set, _| in_use.contains(set));
        }
        self.modes.reasons.insert(set.clone(), why);
    }

    /// The mode for a turn with this set, if it is as safe as a process; else the reason.
    pub(super) fn mode_for(
        &mut self,
        mux: &mut Mux,
        set: &ToolSet,
        request: &[u8],
    ) -> Result<ModeId, String> {
        let once = |key: &str| members(request).filter(|(it, _)| it == key).count() <= 1;
        if text(request, &["chatMode"]).as_deref() != Some("Agent") || !once("chatMode") {
            return Err("its chat mode is not Agent".to_owned());
        }
        match set.used_by() {
            BuiltinToolsFor::Nobody => {}
            BuiltinToolsFor::Lead => return Err("it may start sub-agents".to_owned()),
            BuiltinToolsFor::Member => return Err("it belongs to a team".to_owned()),
        }
        if self.may_run_sub_agents(mux, set) {
            return Err(format!("{SUB_AGENT} is in its set"));
        }
        let of = match text(request, &["customChatModeId"]) {
            None if members(request)
                .all(|(it, range)| it != "customChatModeId" || &request[range] == b"null") =>
            {
                None
            }
            Some(of)
                if once("customChatModeId")
                    && crate::rpc::file_path(&of).is_some_and(|it| !is_inside(&it)) =>
            {
                Some(of)
            }
            Some(_) | None => {
                return Err("its editor mode has no file on this machine".to_owned());
            }
        };
        if let Some(server) = self.missing_mcp_server(mux, set) {
            return Err(format!("the MCP server {server} is not up yet"));
        }
        if !mux.backend(self.primary).is_some_and(Backend::accepts) {
            return Err("the primary is not running".to_owned());
        }
        let key = Key { set: set.clone(), of };
        self.modes.wishes += 1;
        let wanted = self.modes.wishes;
        if let Some((id, mode)) = self.modes.all.iter_mut().find(|(_, it)| it.key == key) {
            mode.wanted = wanted;
            return mode.why_not().map_or(Ok(*id), |why| Err(why.clone()));
        }
        let name = match self.modes.all.len() < MOST {
            true => self.new_name(&key),
            false => self.drop_mode(mux).ok_or_else(|| format!("{MOST} modes are in use"))?,
        };
        Ok(self.add_mode(key, name, wanted))
    }

    /// Drops the least recently used mode; returns the name of its file, which the server knows. The next mode with
    /// that name is verified like one with changed tools.
    fn drop_mode(&mut self, mux: &mut Mux) -> Option<String> {
        let of_turn = |it: &Pending| match it.purpose {
            Purpose::Copilot(CopilotPurpose::Turn { restriction: Restriction::Mode(mode), .. }) => Some(mode),
            _ => None,
        };
        let of_turns = mux.requests().iter().filter_map(|(_, it)| of_turn(it));
        let in_use: BTreeSet<ModeId> =
            self.conversations.iter().filter_map(|(_, it)| it.mode).chain(of_turns).collect();
        let is_written = |it: &Mode| it.asked == 0 || it.is_kept;
        let can_go = |(id, it): &(&ModeId, &Mode)| {
            !in_use.contains(id) && is_written(it) && !matches!(it.state, Verification::Quarantined(_))
        };
        let (id, _) = self.modes.all.iter().filter(can_go).min_by_key(|(_, it)| it.wanted)?;
        let id = *id;
        let gone = self.modes.all.remove(&id)?;
        debug!(set = %gone.key.set, name = gone.name, "removed an unused mode to make room");
        Some(gone.name)
    }

    fn new_name(&self, key: &Key) -> String {
        let taken = |name: &String| self.modes.all.values().any(|it| it.name == *name);
        let text = format!("{}\n{}", key.set, key.of.as_deref().unwrap_or_default());
        let mut names = (0_u64..).map(|n| format!("{:016x}", fnv1a(text.as_bytes()).wrapping_add(n)));
        names.find(|it| !taken(it)).unwrap_or_default()
    }

    fn add_mode(&mut self, key: Key, name: String, wanted: u64) -> ModeId {
        self.modes.last += 1;
        let id = ModeId(self.modes.last);
        debug!(set = %key.set, name, "made a mode");
        let mode = Mode {
            key,
            name,
            tools: Vec::new(),
            asked: 0,
            is_kept: false,
            uri: String::new(),
            title: String::new(),
            written: Vec::new(),
            state: Verification::Unverified,
            wanted,
        };
        self.modes.all.insert(id, mode);
        id
    }

    /// Adds the mode to a request for the server.
    pub(super) fn in_mode(&self, restriction: Restriction, frame: &Frame) -> Frame {
        let Restriction::Mode(mode) = restriction else { return frame.clone() };
        let uri = self.modes.get(mode).map_or("", |it| &it.uri);
        let params = frame.params().unwrap_or(b"{}");
        let uri = json!(uri).to_string();
        frame.with_params(&Patch::of(params).set("customChatModeId", uri.as_bytes()).finish())
    }

    /// The wanted isolation of a conversation: by its create or a later request, else by its agent, else by the
    /// server.
    pub(crate) fn wish(&self, mux: &Mux, wish: &Wish) -> Isolation {
        let server = self.server(mux);
        let agent = wish.agent.as_ref().and_then(|it| Config::agent_named(&server.config.agents, it));
        wish.isolation.or_else(|| agent?.1.isolation).unwrap_or(server.settings.isolation)
    }
}

/// Whether a file lies within the executable of the server.
fn is_inside(path: &Path) -> bool {
    path.starts_with("/snapshot")
}

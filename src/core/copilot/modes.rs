//! Many tool sets in one process: conversations that are kept to their tools by a custom chat mode in the primary.
//!
//! A mode is a file that lspool writes ([`Effect::KeepMode`](crate::core::event::Effect::KeepMode)) and registers. A
//! server that does not find it, or cannot read it, gives a turn *every* tool and says nothing. So:
//!
//! - **Which conversations may use one is decided per request** ([`Copilot::mode_for`]): those for which it is as good
//!   as a process. All others have a process.
//! - **No turn starts before its mode is verified** ([`verification`]): the shell has found the file as it is to be,
//!   and the server has named exactly this mode with exactly these tools since anything may have changed. What cannot
//!   be shown to hold sends the turn to a process.
//! - What is called outside the set is refused all the same, as in any partition.
//!
//! ```text
//! Unverified ─kept→ (registered, asked for) ─listed as it is to be→ Verified ─anything changes→ Unverified
//!     └──────────────────────┴── else → Invalid ─the server, or what it is told, changes→ Unverified
//! any ─a turn in it has called what it should not have→ Quarantined ─another process→ Unverified
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

/// How many modes there may be: each is a file that the server reads for each turn. One more takes the file of the mode
/// that nobody has used for the longest time.
const MOST: usize = 256;

/// How many ids lspool remembers of conversations that it has forgotten and the primary may know. A server keeps a
/// hundred.
const REMEMBERED: usize = 1000;

/// Where a conversation is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placement {
    pub(crate) backend: BackendId,
    pub(crate) mode: Option<ModeId>,
}

impl Placement {
    /// What keeps its next turn to its tools.
    pub(crate) fn restriction(self) -> Restriction {
        self.mode.map_or(Restriction::Process, Restriction::Mode)
    }
}

/// What one mode is made of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    set: ToolSet,
    /// The editor's own mode that it is made from.
    of: Option<String>,
}

#[derive(Debug)]
struct Mode {
    key: Key,
    /// Of its file.
    name: String,
    /// As they were last written, or are to be.
    tools: Vec<String>,
    /// The number under which its file was last asked for, and whether the answer has come.
    asked: u64,
    is_kept: bool,
    /// As the server knows it.
    uri: String,
    title: String,
    /// The tools in the file.
    written: Vec<String>,
    state: Verification,
    /// When it was last wanted, in the order of [`Modes::wishes`].
    wanted: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Verification {
    Unverified,
    Verified(ProcessId),
    Invalid(String),
    /// It was verified, and a turn escaped it: nothing that this process says of it counts.
    Quarantined(String),
}

impl Mode {
    /// Something has changed: the mode has to be verified again.
    fn unverify(&mut self) {
        if !matches!(self.state, Verification::Quarantined(_)) {
            self.state = Verification::Unverified;
        }
    }

    /// Why it cannot be used, if that is known.
    fn why_not(&self) -> Option<&String> {
        match &self.state {
            Verification::Invalid(why) | Verification::Quarantined(why) => Some(why),
            Verification::Unverified | Verification::Verified(_) => None,
        }
    }
}

/// All of them, and what is known of the primary that they depend on.
#[derive(Debug, Default)]
pub(crate) struct Modes {
    all: BTreeMap<ModeId, Mode>,
    last: u32,
    /// How often one was wanted.
    wishes: u64,
    /// Of what the shell is asked.
    numbers: u64,
    /// The names of what the primary offers, as it last said.
    offered: Option<BTreeSet<String>>,
    /// It is being asked.
    is_listing: bool,
    /// Its MCP servers with their tools, and which of these are switched on.
    mcp: BTreeMap<String, BTreeMap<String, bool>>,
    /// Where the files are, as the server is told.
    folder: Option<String>,
    registering: Registering,
    /// Turns that must go to a process.
    leaving: Vec<SentId>,
    /// Ids of conversations that the primary may know, and that lspool has forgotten.
    tombstones: VecDeque<ConversationId>,
    /// Why conversations with these sets were not served by a mode, when that was wanted. Of sets that are no more
    /// in use, no more than [`MOST`].
    reasons: BTreeMap<ToolSet, String>,
}

/// Registrations that a process has not answered.
#[derive(Debug, Default)]
struct Registering {
    of: Option<ProcessId>,
    n: usize,
    /// So many notifications of a change are about them.
    changes: usize,
}

impl Modes {
    fn get(&self, id: ModeId) -> Option<&Mode> {
        self.all.get(&id)
    }

    /// The set that a mode keeps turns to.
    pub(crate) fn set(&self, id: ModeId) -> Option<&ToolSet> {
        self.get(id).map(|it| &it.key.set)
    }

    /// Whether turns can be sent in this mode to this process.
    pub(super) fn is_verified(&self, id: ModeId, process: ProcessId) -> bool {
        self.get(id).is_some_and(|it| it.state == Verification::Verified(process))
    }

    /// The names of what the primary offers, if it has said so.
    pub(crate) fn offered(&self) -> Option<&BTreeSet<String>> {
        self.offered.as_ref()
    }

    /// The tools of an MCP server, as the primary last said.
    pub(super) fn mcp_tools(&self, server: &str) -> Option<&BTreeMap<String, bool>> {
        self.mcp.get(server)
    }

    /// The primary has switched an MCP tool without listing it again.
    pub(super) fn switch_mcp_tool(&mut self, server: &str, tool: &str, is_on: bool) {
        if let Some(status) = self.mcp.get_mut(server).and_then(|it| it.get_mut(tool)) {
            *status = is_on;
        }
    }

    /// The MCP servers that have a tool of this name, as the primary last said.
    pub(super) fn mcp_servers_with(&self, tool: &str) -> impl Iterator<Item = &String> {
        self.mcp.iter().filter(move |(_, tools)| tools.contains_key(tool)).map(|(server, _)| server)
    }

    /// The name that the model has for the tool of an MCP server, if only one server has a tool of this name in this set.
    pub(super) fn mcp_name(&self, set: &ToolSet, tool: &str) -> Option<String> {
        let mut servers = self.mcp_servers_with(tool).filter(|it| set.contains_mcp(it, tool));
        let server = servers.next()?;
        servers.next().is_none().then(|| mcp_model_name(server, tool))
    }

    /// Something has changed: every mode has to be verified again.
    fn unverify(&mut self) {
        self.all.values_mut().for_each(Mode::unverify);
    }

    /// A process of the primary begins: what was found out with another one does not count.
    pub(crate) fn begin(&mut self) {
        self.all.values_mut().for_each(|it| it.state = Verification::Unverified);
    }

    /// Why conversations with this set are not served by a mode, if that was wanted.
    pub(crate) fn reason(&self, set: &ToolSet) -> Option<&str> {
        self.reasons.get(set).map(String::as_str)
    }

    /// Remembers the id of a conversation that lspool has forgotten, and the primary may still know.
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
    /// Where a conversation with this set is served from now on; a process is started if there is to be one. `request`:
    /// the parameters of its create, or its next turn.
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
                info!(%set, "no room for a process: a chat mode keeps it to its tools");
                Ok(Placement { backend: self.primary, mode: Some(mode) })
            }
            Err(why) => {
                Err(Failure { message: format!("{}; a chat mode: {why}", failure.message), ..failure })
            }
        }
    }

    pub(super) fn note_reason(&mut self, set: &ToolSet, why: String) {
        info!(%set, why, "a process, not a chat mode");
        if self.modes.reasons.len() >= MOST && !self.modes.reasons.contains_key(set) {
            let in_use: BTreeSet<&ToolSet> = self.conversations.iter().map(|(_, it)| &it.set).collect();
            self.modes.reasons.retain(|set, _| in_use.contains(set));
        }
        self.modes.reasons.insert(set.clone(), why);
    }

    /// The mode for a turn with this set, if a mode is as good as a process for it; else why it is not.
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
            BuiltinToolsFor::Member => return Err("it is of a team".to_owned()),
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
                return Err("it is in a mode of the editor's own that is no file of this machine".to_owned());
            }
        };
        if let Some(server) = self.missing_mcp_server(mux, set) {
            return Err(format!("the MCP server {server} is not up yet"));
        }
        if !mux.backend(self.primary).is_some_and(Backend::accepts) {
            return Err("the process that would serve it does not run".to_owned());
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

    /// The mode that nobody has wanted for the longest time is no more; gives the name of its file, which the server
    /// knows. It is another mode from then on, and verified like one whose tools have changed.
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
        debug!(set = %gone.key.set, name = gone.name, "a chat mode that nobody uses makes room");
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
        debug!(set = %key.set, name, "a chat mode for a tool set");
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

    /// A request as the server gets it: a turn in a mode says so.
    pub(super) fn in_mode(&self, restriction: Restriction, frame: &Frame) -> Frame {
        let Restriction::Mode(mode) = restriction else { return frame.clone() };
        let uri = self.modes.get(mode).map_or("", |it| &it.uri);
        let params = frame.params().unwrap_or(b"{}");
        let uri = json!(uri).to_string();
        frame.with_params(&Patch::of(params).set("customChatModeId", uri.as_bytes()).finish())
    }

    /// What is wanted for a conversation: what its create, or somebody since, says of it, else its agent, else the
    /// server.
    pub(crate) fn wish(&self, mux: &Mux, wish: &Wish) -> Isolation {
        let server = self.server(mux);
        let agent = wish.agent.as_ref().and_then(|it| Config::agent_named(&server.config.agents, it));
        wish.isolation.or_else(|| agent?.1.isolation).unwrap_or(server.settings.isolation)
    }
}

/// What is said of how a conversation is kept to its tools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wish {
    /// The agent that it belongs to.
    pub(crate) agent: Option<String>,
    /// Of itself.
    pub(crate) isolation: Option<Isolation>,
    /// It is elsewhere, and goes where it is wanted with its next turn.
    pub(crate) moves: bool,
}

/// Whether a file lies within the executable of the server.
fn is_inside(path: &Path) -> bool {
    path.starts_with("/snapshot")
}

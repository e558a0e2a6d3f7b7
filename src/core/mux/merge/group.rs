//! A group of servers: who its members are, and the handshake that they share.
//!
//! Every process of a member is initialized by lspool and told the session, the first one too. So a member that is late
//! joins like a process that takes the place of another, and the editor's own `initialize` is answered with what
//! those members can that have answered by then.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use bytes::Bytes;
use tracing::{debug, info, warn};

use crate::{
    config::Combine,
    core::{
        event::{self, BackendId, ClientId, Generation, Peer, ProcessId, ServerId},
        ids::RequestId,
        mux::{
            Mux, Severity,
            failure::{Cause, Failure},
            merge::{
                abilities::{Abilities, Globs, Limit, Sync},
                answers::{ClientShape, Legends},
                commands::Renamed,
                known::Known,
                methods::{Method, Plan, method},
                pulls::Pulls,
                questions::Questions,
                refreshing::{DIAGNOSTIC_REFRESH, Refreshes},
                registering::Untold,
                remembered::Remembered,
                reports::Reports,
                roots::Roots,
                shown::{Publication, Shown},
                union::{self, MemberLegends},
            },
            pool::{
                backend::{Backend, Deadline},
                lifecycle::LifecycleState,
            },
            servers::Server,
            session::documents::Documents,
        },
        purpose::Purpose,
    },
    rpc::{Frame, path, text},
};

/// Several servers behind one editor.
#[derive(Debug)]
pub(crate) struct Group {
    name: String,
    /// How long `initialize` is held for members that have not answered, once one has.
    start_wait: Duration,
    /// Who goes first for a feature, by the feature's name.
    order: BTreeMap<String, Vec<String>>,
    /// How answers become one, if not as usual.
    combine: BTreeMap<String, Combine>,
    /// How long others are waited for, if not as usual.
    wait: BTreeMap<String, Duration>,
    opening: Opening,
    /// In the order of the servers, which is the order of ranks.
    pub(super) members: Vec<Member>,
    pub(super) questions: Questions,
    pub(super) shown: Shown,
    pub(super) reports: Reports,
    pub(super) pulls: Pulls,
    pub(super) refreshes: Refreshes,
    pub(super) renamed: Renamed,
    pub(super) known: Known,
    /// Open documents that no member is used for.
    pub(super) unclaimed: Documents,
    /// The last `workspace/didChangeConfiguration` of the editor, as it was.
    pub(super) configuration: Option<Frame>,
    /// Parameters of the editor's `initialize`.
    editor: Bytes,
    pub(super) client: ClientShape,
    /// What the editor was told that the group can.
    pub(super) offered: Bytes,
    pub(super) untold: Untold,
    /// Of semantic tokens, by rank, if a member counts in another way than lspool has said to the editor.
    pub(super) legends: Option<MemberLegends>,
    pub(super) remembered: Remembered,
}

/// How far the shared handshake has come.
#[derive(Debug)]
enum Opening {
    /// The editor has not asked.
    Waiting,
    /// Under this id. `until`: once a member has answered, the others have until then.
    Asked {
        id: RequestId,
        until: Option<Instant>,
    },
    Done,
}

/// A server of the group.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) server: ServerId,
    pub(super) name: String,
    /// None until it has answered `initialize`, or an earlier answer stands in for that.
    pub(super) abilities: Option<Abilities>,
    said: Said,
    /// The answer.
    result: Bytes,
    /// The answer to `initialize` that the editor got.
    told: Option<Bytes>,
    /// The documents that it is used for; all if `None`.
    files: Option<Globs>,
    pub(super) roots: Roots,
    /// Its last process before it became a member.
    pub(super) before: Generation,
}

/// Whether a member has answered `initialize`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    Nothing,
    /// An earlier process of it has.
    Before,
    Now,
}

/// What has become of a member's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    Pending,
    Answered,
    Failed,
}

/// How a server counts characters, if not in UTF-16: its positions would be wrong wherever a line is not ASCII.
/// `offsetEncoding` is an older word of clangd's for it.
pub(in crate::core::mux) fn foreign_encoding(result: &[u8]) -> Option<String> {
    let told = text(result, &["capabilities", "positionEncoding"]);
    told.or_else(|| text(result, &["offsetEncoding"])).filter(|it| it != "utf-16")
}

impl Group {
    fn new(it: event::Group) -> Group {
        Group {
            name: it.name,
            start_wait: it.start_wait,
            order: it.order,
            combine: it.combine,
            wait: it.wait,
            opening: Opening::Waiting,
            members: Vec::new(),
            questions: Questions::default(),
            shown: Shown::waiting(it.diagnostics_wait),
            reports: Reports::default(),
            pulls: Pulls::default(),
            refreshes: Refreshes::default(),
            renamed: Renamed::default(),
            known: Known::default(),
            unclaimed: Documents::default(),
            configuration: None,
            editor: Bytes::new(),
            client: ClientShape::default(),
            offered: Bytes::new(),
            untold: Untold::default(),
            legends: None,
            remembered: Remembered::default(),
        }
    }

    pub(super) fn add(&mut self, server: ServerId, name: String, files: &[String], before: Generation) {
        let files = Globs::of(files);
        self.members.push(Member {
            server,
            name,
            abilities: None,
            said: Said::Nothing,
            result: Bytes::new(),
            told: None,
            files,
            roots: Roots::default(),
            before,
        });
    }

    /// Whether a member is used for some documents only, by their paths.
    pub(super) fn has_files(&self, server: ServerId) -> bool {
        self.members.iter().any(|it| it.server == server && it.files.is_some())
    }

    /// Whether a member is used for the document of this URI, by its path.
    pub(super) fn is_for_file(&self, server: ServerId, uri: &str) -> bool {
        let files = self.members.iter().find(|it| it.server == server).and_then(|it| it.files.as_ref());
        files.is_none_or(|it| it.fit(uri))
    }

    pub(super) fn members(&self) -> &[Member] {
        &self.members
    }

    /// Whether the editor tells of documents though no member has asked for that: then all hear it, as each would alone.
    pub(super) fn is_told_unasked(&self, method: &str) -> bool {
        let mut all = self.members.iter().filter_map(|it| it.abilities.as_ref());
        match method.split_once('/') {
            Some(("textDocument", _)) => all.all(|it| it.sync() == Sync::default()),
            Some(("notebookDocument", _)) => !all.any(Abilities::has_notebooks),
            _ => false,
        }
    }

    /// Whether the editor reports changes of files because others have registered for them, as this member could have.
    pub(super) fn are_watched_by_others(&self, server: ServerId) -> bool {
        let place = ["capabilities", "workspace", "didChangeWatchedFiles", "dynamicRegistration"];
        let registers = path(&self.editor, &place).is_some_and(|it| &self.editor[it] == b"true");
        let watches = |it: &Member| it.abilities.as_ref().is_some_and(Abilities::has_watcher);
        let (own, others): (Vec<&Member>, Vec<&Member>) =
            self.members.iter().partition(|it| it.server == server);
        registers && !own.into_iter().any(watches) && others.into_iter().any(watches)
    }

    /// What a member can do, as far as that is known.
    pub(super) fn abilities(&self, server: ServerId) -> Option<&Abilities> {
        self.members.iter().find(|it| it.server == server)?.abilities.as_ref()
    }

    /// The answer of a member to `initialize`, if it has answered.
    pub(in crate::core::mux) fn result_of(&self, server: ServerId) -> Option<&[u8]> {
        let member = self.members.iter().find(|it| it.server == server)?;
        (member.said == Said::Now).then_some(&member.result[..])
    }

    /// The known answer of a member to `initialize`, and whose it is.
    fn answer_of(&self, server: ServerId) -> Option<(Said, Bytes)> {
        let member = self.members.iter().find(|it| it.server == server)?;
        (member.said != Said::Nothing).then(|| (member.said, member.result.clone()))
    }

    /// The last process that a member had when it became one.
    pub(super) fn before(&self, server: ServerId) -> Option<Generation> {
        self.members.iter().find(|it| it.server == server).map(|it| it.before)
    }

    pub(super) fn member_mut(&mut self, server: ServerId) -> Option<&mut Member> {
        self.members.iter_mut().find(|it| it.server == server)
    }

    /// Puts those first that go first for a feature, or for a method.
    pub(super) fn sort(&self, servers: &mut [ServerId], feature: &str, method: &str) {
        let Some(order) = self.order.get(method).or_else(|| self.order.get(feature)) else { return };
        let place = |server: &ServerId| {
            let name = self.members.iter().find(|it| it.server == *server).map(|it| &it.name);
            name.and_then(|it| order.iter().position(|of| of == it)).unwrap_or(usize::MAX)
        };
        servers.sort_by_key(place);
    }

    /// What is set for a method, or for its feature.
    fn set_for<'a, V>(all: &'a BTreeMap<String, V>, row: &Method) -> Option<&'a V> {
        all.get(row.name).or_else(|| all.get(row.feature))
    }

    /// What becomes of the answers to requests of this method.
    pub(super) fn plan(&self, row: &Method) -> Plan {
        match (Group::set_for(&self.combine, row), row.plan, row.combined) {
            (Some(Combine::First), Plan::All(_), _) => Plan::First,
            (Some(Combine::All), Plan::First, Some(shape)) => Plan::All(shape),
            (_, plan, _) => plan,
        }
    }

    /// How long others are waited for once a member has something to say.
    pub(super) fn budget(&self, row: &Method) -> Option<Duration> {
        Group::set_for(&self.wait, row).copied().or(row.budget)
    }

    /// The place of a server in the ranks.
    pub(super) fn rank(&self, server: ServerId) -> Option<usize> {
        self.members.iter().position(|it| it.server == server)
    }

    /// Parameters of the editor's `initialize`.
    pub(super) fn editor(&self) -> &[u8] {
        &self.editor
    }

    /// The same; empty before it has asked.
    pub(super) fn editor_params(&self) -> &Bytes {
        &self.editor
    }

    /// Characters that commit a completion of this member, if the editor was not told them as the group's.
    pub(super) fn commit_characters(&self, server: ServerId) -> Option<&[u8]> {
        self.members.iter().find(|it| it.server == server)?.abilities.as_ref()?.commit_characters()
    }

    /// The legends of the members that have said these parts, to the one that the editor was told.
    pub(super) fn legends_of(&self, parts: impl Iterator<Item = ServerId>) -> Option<Legends> {
        let legends = self.legends.as_ref()?;
        let of = |server: ServerId| legends.members.get(self.rank(server)?)?.as_deref();
        Some(Legends::new(&legends.united, parts.map(|it| of(it).unwrap_or(b"{}"))))
    }

    /// What the numbers in semantic tokens mean to each member.
    pub(super) fn learn_legends(&mut self) {
        self.learn_legends_by(&self.offered.clone());
    }

    /// `told`: the part of the answer to `initialize` with its legend.
    pub(super) fn learn_legends_by(&mut self, told: &[u8]) {
        self.legends = union::legends(told, self.members.iter().map(|it| &it.result[..]));
    }

    /// Names and answers of the members of which one is known, by rank.
    fn answered(&self) -> Vec<(&str, &[u8])> {
        let answered = self.members.iter().filter(|it| it.abilities.is_some());
        answered.map(|it| (it.name.as_str(), &it.result[..])).collect()
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self.opening, Opening::Done)
    }

    /// What older processes of a member have published and this one has not: publications without it.
    pub(in crate::core::mux) fn stale_diagnostics(&mut self, process: ProcessId) -> Vec<Vec<u8>> {
        self.reports.stale(process);
        self.shown.stale(process)
    }

    /// Whether older processes of a member have said something about documents that counts.
    pub(in crate::core::mux) fn has_stale_diagnostics(&self, process: ProcessId) -> bool {
        self.shown.has_stale(process) || self.reports.has_stale(process)
    }

    fn deadline(&self) -> Option<Deadline> {
        let opening = match self.opening {
            Opening::Asked { until, .. } => until.map(|at| (at, "a member has not answered initialize")),
            Opening::Waiting | Opening::Done => None,
        };
        let question = self.questions.deadline().map(|at| (at, "a part of an answer is missing"));
        let shown = self.shown.deadline().map(|at| (at, "diagnostics have waited for others"));
        let pull = self.pulls.deadline().map(|at| (at, "diagnostics are to be pulled"));
        let refresh = self.refreshes.deadline().map(|at| (at, "the editor is to ask again"));
        [opening, question, shown, pull, refresh].into_iter().flatten().min_by_key(|(at, _)| *at)
    }
}

impl Mux {
    /// The name of the group, if there is more than one server.
    pub(crate) fn group_name(&self) -> Option<&str> {
        self.group.as_deref().map(|it| it.name.as_str())
    }

    /// What people call that which stands behind the editor: the group, or the only server.
    pub(crate) fn title(&self) -> &str {
        let only = || self.servers.first().map_or("", |it| &it.name);
        self.group_name().unwrap_or_else(only)
    }

    /// Whether several servers share the editor.
    pub(crate) fn is_group(&self) -> bool {
        self.group.is_some()
    }

    /// Several servers share the editor. Gives those after the first.
    pub(in crate::core::mux) fn begin_group(&mut self, mut group: event::Group) -> Vec<event::Member> {
        let others = std::mem::take(&mut group.others);
        self.group = Some(Box::new(Group::new(group)));
        others
    }

    /// A server is a member of the group, if there is one.
    pub(in crate::core::mux) fn join_group(&mut self, server: ServerId, name: &str) {
        let Server { settings, primary, .. } = self.servers.get(server);
        let before = self.backends.get(*primary).map_or(Generation(0), |it| it.process().generation);
        if let Some(group) = &mut self.group {
            group.add(server, name.to_owned(), &settings.files, before);
        }
    }

    /// The configuration of the group has been read again.
    pub(crate) fn adopt_group(&mut self, it: event::Group) {
        let Some(group) = self.group.as_deref_mut() else { return };
        group.shown.wait_for(it.diagnostics_wait);
        (group.start_wait, group.order) = (it.start_wait, it.order);
        (group.combine, group.wait) = (it.combine, it.wait);
        for id in self.servers.ids() {
            self.limit_member(id);
        }
    }

    /// A member is used for what the configuration says.
    fn limit_member(&mut self, id: ServerId) {
        let Server { primary, settings, .. } = self.servers.get(id);
        let (primary, files) = (*primary, Globs::of(&settings.files));
        let limit = Limit::new(settings.only.as_deref(), &settings.except);
        let Some(group) = self.group.as_deref_mut() else { return };
        let Some(member) = group.member_mut(id) else { return };
        member.files = files;
        let Some(abilities) = &mut member.abilities else { return };
        abilities.limit(limit);
        let publishes = abilities.publishes();
        group.note_commands();
        if !publishes {
            for params in self.lost_diagnostics(primary).unwrap_or_default() {
                self.publish(&params);
            }
        }
    }

    /// Whether a group has not been told yet that the editor is initialized.
    pub(crate) fn is_opening_group(&self) -> bool {
        self.group.is_some() && self.servers.first().is_some_and(|it| !it.session.initialized)
    }

    /// Whether the editor waits for an answer of the group under this id.
    pub(in crate::core::mux) fn asks_under(&self, id: &RequestId) -> bool {
        let Some(group) = self.group.as_deref() else { return false };
        let is_opening = matches!(&group.opening, Opening::Asked { id: opening, .. } if opening == id);
        is_opening || group.questions.of_client(ClientId::EDITOR, id).is_some()
    }

    /// How many answers clients are owed.
    pub(in crate::core::mux) fn n_owed_to_clients(&self) -> usize {
        let of_group = self
            .group
            .as_deref()
            .map_or(0, |it| it.questions.len() + usize::from(matches!(it.opening, Opening::Asked { .. })));
        self.requests.n_owed_to_clients() + of_group
    }

    /// Passes the editor's `initialize` on to all members, each as it is meant for it.
    pub(in crate::core::mux) fn open_group(&mut self, frame: &Frame) {
        let (Some(group), Some(id)) = (&mut self.group, frame.id()) else { return };
        let params = frame.params().unwrap_or(b"{}");
        group.opening = Opening::Asked { id: id.into(), until: None };
        group.editor = Bytes::copy_from_slice(params);
        group.client = ClientShape::of_initialize(params);
        for id in self.servers.ids() {
            self.offer(id, params);
        }
        self.recall_members();
    }

    /// A member has answered `initialize`.
    pub(in crate::core::mux) fn on_member_initialized(&mut self, process: ProcessId, result: &[u8]) {
        let Some(server) = self.backend(process.backend).map(|it| it.server) else { return };
        if self.servers.get(server).primary != process.backend || !self.is_group() {
            return;
        }
        self.remember_member(server, result);
        let Some((is_late, before)) = self.group.as_deref().map(|it| (it.is_open(), it.answer_of(server)))
        else {
            return;
        };
        self.learn_abilities(server, result, Said::Now);
        if !is_late {
            return;
        }
        self.begin_pulling(server);
        let Some(group) = self.group.as_deref_mut() else { return };
        let Some((_, result)) = group.answer_of(server) else { return };
        group.learn_legends();
        let told = group.members.iter().find(|it| it.server == server).and_then(|it| it.told.clone());
        self.reroute(server);
        let Some(group) = self.group.as_deref() else { return };
        let name = self.servers.get(server).name.clone();
        let late = union::late(&group.offered, &group.editor, &name, (told.as_deref(), &result));
        self.admit(process, &late);
        // For a member that is back, lspool tells the user what differs.
        if !matches!(before, Some((Said::Now, _))) {
            info!(name, missing = ?late.missing, "joins late");
            self.tell_missing(server, &name, &late.missing);
        }
    }

    /// What a member can do by this answer to `initialize`.
    fn learn_abilities(&mut self, server: ServerId, result: &[u8], said: Said) {
        let settings = &self.servers.get(server).settings;
        let limit = Limit::new(settings.only.as_deref(), &settings.except);
        let narrowed = union::narrow(result, &limit);
        // A later configuration may limit them less.
        let mut abilities = Abilities::of_result(result);
        abilities.limit(limit);
        let Some(group) = self.group.as_deref_mut() else { return };
        let Some(member) = group.member_mut(server) else { return };
        (member.abilities, member.result, member.said) = (Some(abilities), narrowed.into(), said);
        group.note_commands();
    }

    /// Earlier answers stand in for the members that have not answered and may come.
    fn stand_in(&mut self) {
        let is_silent = |it: &ServerId| {
            self.start_of(self.servers.get(*it).primary) == Start::Pending || self.waits_for_document(*it)
        };
        let silent: Vec<ServerId> = self.servers.ids().filter(is_silent).collect();
        for server in silent {
            let name = &self.servers.get(server).name;
            let recalled = self.group.as_deref().and_then(|it| it.recalled(name));
            if let Some(result) = recalled.filter(|it| foreign_encoding(it).is_none()) {
                info!(name, "stands in with an earlier answer");
                self.learn_abilities(server, &result, Said::Before);
            }
        }
    }

    /// A member can do more than the editor read in the answer to `initialize`.
    fn admit(&mut self, process: ProcessId, late: &union::LateMember) {
        let Some(params) = late.register.clone().map(Bytes::from) else { return };
        if let Some(params) = self.tell_registrations(process, &params) {
            self.ask_editor(Purpose::Plain, "client/registerCapability", Some(&params));
        }
        self.rejoin_registrations();
    }

    /// Tells the user which features the editor cannot add later.
    fn tell_missing(&mut self, server: ServerId, name: &str, missing: &[String]) {
        if missing.is_empty() {
            return;
        }
        let features = missing.join(", ");
        let (when, hint) = match self.starts_with_document(server) {
            true => ("with its document", "Set `start = \"now\"` in its section of the configuration"),
            false => ("late", "Restart the language server in your editor"),
        };
        let message = format!(
            "lspool: {name} started {when}. Your editor cannot add these features later: {features}. {hint} to use \
             them."
        );
        self.show(Severity::Warning, &message);
    }

    /// Answers the editor's `initialize` when all members have answered, or one has and the others had their time.
    pub(crate) fn settle_group(&mut self) {
        let now = self.now();
        let Some(Opening::Asked { id, until }) = self.group.as_deref().map(|it| &it.opening) else { return };
        let (id, until) = (id.clone(), *until);
        let starts: Vec<Start> = self.servers.iter().map(|it| self.start_of(it.primary)).collect();
        let has = |start| starts.contains(&start);
        let is_over = until.is_some_and(|at| at <= now);
        let is_recalling = self.group.as_deref().is_some_and(Group::is_recalling)
            && self.servers.ids().any(|it| self.waits_for_document(it));
        if (has(Start::Pending) || is_recalling && has(Start::Answered)) && !(is_over && has(Start::Answered))
        {
            if let Some(group) = self.group.as_deref_mut()
                && until.is_none()
                && has(Start::Answered)
            {
                group.opening = Opening::Asked { id, until: Some(now + group.start_wait) };
            }
            return;
        }
        if !has(Start::Answered) {
            let failure = self.why_none();
            if let Some(group) = self.group.as_deref_mut() {
                group.opening = Opening::Done;
            }
            return self.tell_editor(failure.answer(id));
        }
        self.stand_in();
        let Some(group) = self.group.as_deref_mut() else { return };
        group.opening = Opening::Done;
        group.offered = union::union(&group.answered()).into();
        for member in group.members.iter_mut().filter(|it| it.abilities.is_some()) {
            member.told = Some(member.result.clone());
        }
        group.learn_legends();
        let late: Vec<&str> =
            group.members.iter().filter(|it| it.abilities.is_none()).map(|it| it.name.as_str()).collect();
        if !late.is_empty() {
            warn!(?late, "the editor is told what the others can");
        }
        let answer = Frame::response(id.into(), &group.offered);
        let answer = self.with_commands(&answer);
        self.tell_editor(answer);
    }

    fn start_of(&self, primary: BackendId) -> Start {
        match self.backend(primary).map(|it| it.life.state()) {
            Some(LifecycleState::Ready | LifecycleState::Degraded) => Start::Answered,
            Some(LifecycleState::Failed | LifecycleState::Stopped) | None => Start::Failed,
            Some(
                LifecycleState::Waiting
                | LifecycleState::Spawning { .. }
                | LifecycleState::Initializing { .. }
                | LifecycleState::Restarting { .. },
            ) => Start::Pending,
        }
    }

    /// Why no member has started.
    fn why_none(&self) -> Failure {
        let primaries = self.servers.iter().filter_map(|it| self.backend(it.primary));
        let why: Vec<String> = primaries.map(|it| format!("{}: {}", it.name, it.why_not())).collect();
        Failure::new(Cause::Unavailable, format!("no server of the group has started; {}", why.join("; ")))
    }

    /// A member publishes diagnostics: the editor gets them with those of the others.
    pub(in crate::core::mux) fn on_member_published(&mut self, process: ProcessId, frame: Frame) {
        let now = self.now();
        let Some(server) = self.backend(process.backend).map(|it| it.server) else { return };
        let Some(group) = self.group.as_deref_mut() else { return };
        let Some(rank) = group.rank(server) else { return };
        if group.members[rank].abilities.as_ref().is_some_and(|it| !it.publishes()) {
            return;
        }
        if let Some(uri) = text(frame.params().unwrap_or(b"{}"), &["uri"]) {
            group.pulls.published(server, &uri);
            if group.shown.is_first(&uri) {
                let publishers = self.publishers(&uri);
                let Some(group) = self.group.as_deref_mut() else { return };
                group.shown.expect(&uri, publishers);
            }
        }
        let Some(group) = self.group.as_deref_mut() else { return };
        let documents = &self.servers.get(server).session.documents;
        match group.shown.published(now, (process, rank), &frame, |it| documents.version(it)) {
            Publication::AsItIs => self.tell_editor(frame),
            Publication::With(params) => self.tell_editor(frame.with_params(&params)),
            Publication::Held => {}
            Publication::Outdated => debug!(?process, "diagnostics of an older version are dropped"),
        }
    }

    /// The ranks of the members that may publish for a document: they know it, and are not asked about it.
    fn publishers(&self, uri: &str) -> BTreeSet<usize> {
        let Some(group) = self.group.as_deref() else { return BTreeSet::new() };
        let pull = method("textDocument/diagnostic").expect("it is in the table");
        let publishes = |it: &Member| {
            let told = &self.servers.get(it.server).session.documents;
            told.has(uri) && it.abilities.as_ref().is_some_and(|it| it.publishes() && !it.has(pull))
        };
        let members = group.members.iter().enumerate().filter(|(_, it)| publishes(it));
        members.filter(|(_, it)| self.is_serving(it.server)).map(|(rank, _)| rank).collect()
    }

    /// Publishes the diagnostics that have waited for those of other members.
    fn on_shown_deadlines(&mut self) {
        let now = self.now();
        let due = self.group.as_deref_mut().map(|it| it.shown.take_due(now));
        due.into_iter().flatten().for_each(|it| self.tell_editor(it));
    }

    /// Those that have not answered in time are not waited for; what is due is done.
    pub(crate) fn on_group_deadlines(&mut self) {
        self.on_question_deadlines();
        self.on_shown_deadlines();
        self.on_pull_deadlines();
        self.on_refresh_deadlines();
    }

    /// A member has no process any more: publications without what it said. `None`: there is no group.
    pub(in crate::core::mux) fn lost_diagnostics(&mut self, backend: BackendId) -> Option<Vec<Vec<u8>>> {
        let group = self.group.as_deref_mut()?;
        let lost = group.shown.abandoned(backend);
        if group.reports.abandoned(backend) {
            self.ask_for_refresh(DIAGNOSTIC_REFRESH);
        }
        Some(lost)
    }

    /// When something is to be done about the group.
    pub(crate) fn group_deadline(&self) -> Option<Deadline> {
        self.group.as_deref()?.deadline()
    }

    /// Members that can be asked now: they are ready and well.
    pub(super) fn is_serving(&self, server: ServerId) -> bool {
        let primary = self.backend(self.servers.get(server).primary);
        primary.is_some_and(|it| it.is_open() && it.life.state() == LifecycleState::Ready)
    }

    /// Whether a member owes an answer, and has not answered a probe.
    pub(super) fn is_silent(&self, server: ServerId) -> bool {
        let primary = self.backend(self.servers.get(server).primary);
        primary.is_some_and(|it| it.life.state() == LifecycleState::Degraded)
    }

    /// Whether a member has served, and does again in a moment.
    pub(super) fn is_restarting(&self, server: ServerId) -> bool {
        let primary = self.backend(self.servers.get(server).primary);
        primary.is_some_and(|it| it.accepts() && !it.is_open() && it.life.has_been_ready())
    }

    /// Whether a member starts for the first time, and is known from an earlier start.
    pub(super) fn is_starting(&self, server: ServerId) -> bool {
        let primary = self.backend(self.servers.get(server).primary);
        let is_first = primary.is_some_and(|it| it.accepts() && !it.is_open() && !it.life.has_been_ready());
        is_first && self.group.as_deref().is_some_and(|it| it.abilities(server).is_some())
    }

    /// Whether a member has a process, or will have one.
    pub(super) fn is_coming(&self, server: ServerId) -> bool {
        self.backend(self.servers.get(server).primary).is_some_and(Backend::accepts)
    }

    /// The client that a question is answered to.
    pub(super) fn answer_question(&mut self, client: ClientId, answer: Frame) {
        self.send(Peer::Client(client), answer);
    }
}

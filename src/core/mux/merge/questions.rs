//! Requests of the editor that go to several members, and what each of them says.
//!
//! **A question is answered once, and while it is open one of its parts is.** A part is a request like any other: ids,
//! cancellation, crashes and health work as for those.

mod outcome;

use std::{collections::BTreeMap, time::Instant};

use tracing::{debug, warn};

use crate::{
    core::{
        event::{ClientId, ProcessId, ServerId},
        ids::RequestId,
        mux::{
            Mux,
            failure::{Cause, Failure, reason},
            merge::{
                abilities::{Abilities, TextDocument},
                answers,
                capabilities::Options,
                group::{Group, Member},
                methods::{Late, Method, Plan, method},
                owners::{Maker, makes_items, untagged},
                reports::Noted,
            },
            pool::backend::Backend,
            requests::{Owner, Pending},
            servers::Server,
            session::documents::uri,
        },
        purpose::Purpose,
    },
    rpc::{ErrorCode, Frame, Patch, RawId, member, text},
};

/// The number of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct QuestionId(u64);

/// Which part of which question a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PartId {
    pub(crate) question: QuestionId,
    slot: usize,
}

/// How the members of a question are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asking {
    /// All at once, and the best of those that say something is the answer.
    First,
    /// All at once, and all that they say is the answer.
    All(answers::Shape),
    /// One after another, until one does it.
    InTurn,
}

impl PartId {
    /// The member that is asked.
    fn server(self, questions: &Questions) -> Option<ServerId> {
        questions.open.get(&self.question)?.parts.get(self.slot).map(|(server, _)| *server)
    }
}

#[derive(Debug)]
enum Slot {
    /// It has not been asked.
    Waiting,
    Open,
    Answered {
        answer: Frame,
        maker: Maker,
        is_empty: bool,
    },
    Failed(Frame),
}

fn unavailable() -> Frame {
    Failure::new(Cause::Unavailable, "the server cannot be asked at the moment").answer(RawId::from(0).into())
}

fn malformed() -> Frame {
    Failure::new(Cause::BadAnswer, "the server has answered with something else than it was asked for")
        .answer(RawId::from(0).into())
}

#[derive(Debug)]
struct Question {
    client: ClientId,
    id: RequestId,
    /// What the table says of its method, if it is there.
    row: Option<&'static Method>,
    /// As the client has asked it.
    frame: Frame,
    asking: Asking,
    /// Items in the answer are tagged with their maker.
    tags: bool,
    parts: Vec<(ServerId, Slot)>,
    /// When those that have not answered are not waited for any more.
    until: Option<Instant>,
}

/// What a question has come to.
enum Outcome {
    Open,
    /// Another member is to be asked.
    Next(usize),
    /// All that is to come has come, or is not waited for.
    Answer(Frame),
}

/// The open questions.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    last: u64,
    open: BTreeMap<QuestionId, Question>,
    by_client: BTreeMap<(ClientId, RequestId), QuestionId>,
}

impl Questions {
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.open.values().filter_map(|it| it.until).min()
    }

    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    pub(crate) fn of_client(&self, client: ClientId, id: &RequestId) -> Option<QuestionId> {
        self.by_client.get(&(client, id.clone())).copied()
    }

    fn add(&mut self, question: Question) -> QuestionId {
        self.last += 1;
        let id = QuestionId(self.last);
        self.by_client.insert((question.client, question.id.clone()), id);
        self.open.insert(id, question);
        id
    }

    fn take(&mut self, id: QuestionId) -> Option<Question> {
        let question = self.open.remove(&id)?;
        self.by_client.remove(&(question.client, question.id.clone()));
        Some(question)
    }

    fn slot_mut(&mut self, part: PartId) -> Option<&mut Slot> {
        self.open.get_mut(&part.question)?.parts.get_mut(part.slot).map(|(_, slot)| slot)
    }

    /// Whether what is missing of a question is made up for: earlier reports of a member stand in for its part of a
    /// pull that others answer.
    pub(crate) fn has_stand_in(&self, part: PartId) -> bool {
        let others = |it: &Question| {
            let is_pull = it.asking == Asking::All(answers::Shape::Diagnostics);
            is_pull
                && it.parts.iter().enumerate().any(|(n, (_, slot))| {
                    n != part.slot && matches!(slot, Slot::Open | Slot::Answered { is_empty: false, .. })
                })
        };
        self.open.get(&part.question).is_none_or(others)
    }

    /// Whether each question is indexed and has an open part. `parts`: of the requests that are open.
    pub(crate) fn check(&self, parts: &[PartId]) -> Result<(), String> {
        for (id, question) in &self.open {
            let open = |(n, (_, slot)): (usize, &(ServerId, Slot))| {
                matches!(slot, Slot::Open) && parts.contains(&PartId { question: *id, slot: n })
            };
            if !question.parts.iter().enumerate().any(open) {
                return Err(format!("question {id:?} ({}) waits for nobody", question.method()));
            }
            if self.of_client(question.client, &question.id) != Some(*id) {
                return Err(format!("question {id:?} is not under its id"));
            }
        }
        if self.by_client.len() == self.open.len() {
            Ok(())
        } else {
            Err("an id without question".to_owned())
        }
    }
}

const COMMAND: &str = "workspace/executeCommand";
const RENAME: &str = "textDocument/rename";
const PREPARE_RENAME: &str = "textDocument/prepareRename";

impl Mux {
    /// Passes a request of a client on to the members that can answer it.
    pub(in crate::core::mux) fn ask_group(&mut self, owner: Owner, frame: &Frame) {
        let Owner::Client(client, id) = &owner else { return };
        let (client, id) = (*client, id.clone());
        let name = frame.method().unwrap_or_default();
        let row = method(name);
        if row.is_some_and(|it| it.plan == Plan::Maker) && self.ask_maker(&owner, row, frame) {
            return;
        }
        if name == COMMAND && self.handler(name).is_none() && self.ask_offered(&owner, frame) {
            return;
        }
        let able = self.able(row, frame);
        let targets = self.targets(row, name, &able);
        let tags = self.makes_tagged(row, name);
        let is_merged = Mux::is_merged_report(row, &able);
        let plan = row.and_then(|it| Some(self.group.as_deref()?.plan(it)));
        let asking = match (plan, &targets[..]) {
            (_, []) if name == PREPARE_RENAME => return self.answer_unprepared(owner, row, frame),
            (_, []) => return self.answer_unserved(owner, row, frame),
            (_, [only]) if !tags && !is_merged && !self.teaches(name) && !self.renumbers(row) => {
                return self.ask_one(*only, owner, frame);
            }
            (Some(Plan::Own), [best, ..]) if !is_passed_on(name) => {
                return self.ask_one(*best, owner, frame);
            }
            (None | Some(Plan::Own | Plan::Maker), _) => Asking::InTurn,
            (Some(Plan::First), _) => Asking::First,
            (Some(Plan::All(shape)), _) => Asking::All(shape),
        };
        // What the others have reported before stands in for them.
        let asked = if is_merged { able } else { targets.clone() };
        let slot = |it: &ServerId| match targets.contains(it) {
            true => Slot::Waiting,
            false => Slot::Failed(unavailable()),
        };
        let parts = asked.iter().map(|it| (*it, slot(it))).collect();
        self.ask(Question { client, id, row, frame: frame.clone(), asking, tags, parts, until: None });
    }

    /// A command that a member offers is that member's, under the name that it has there. Whether it is one.
    fn ask_offered(&mut self, owner: &Owner, frame: &Frame) -> bool {
        let params = frame.params().unwrap_or(b"{}");
        let Some(told) = text(params, &["command"]) else { return false };
        let Some((server, own)) = self.group.as_deref().and_then(|it| it.command(&told)) else {
            return false;
        };
        if own == told {
            self.ask_one(server, owner.clone(), frame);
        } else {
            let params = Patch::of(params).set("command", RawId::text(&own).as_bytes()).finish();
            self.ask_one(server, owner.clone(), &frame.with_params(&params));
        }
        true
    }

    fn ask_one(&mut self, server: ServerId, owner: Owner, frame: &Frame) {
        let primary = self.servers.get(server).primary;
        let frame = self.with_own_context(server, frame.clone());
        let own = self.own_report(server, &frame);
        let frame = own.unwrap_or(frame);
        let method = frame.method().unwrap_or_default();
        let is_changed = self.group.as_deref().is_some_and(|it| it.changes_answers(server, method));
        let whole = if is_changed { without(&frame, &["partialResultToken"]) } else { None };
        self.send_to_backend(primary, owner, Purpose::Plain, whole.as_ref().unwrap_or(&frame));
    }

    /// A request without what is for other members.
    fn with_own_context(&mut self, server: ServerId, frame: Frame) -> Frame {
        let Some(group) = self.group.as_deref_mut() else { return frame };
        let frame = group.with_own_diagnostics(server, frame);
        group.with_own_files(server, &frame).unwrap_or(frame)
    }

    fn own_report(&self, server: ServerId, frame: &Frame) -> Option<Frame> {
        let process = self.backend(self.servers.get(server).primary)?.process();
        self.group.as_deref()?.with_own_report(process, server, frame)
    }

    /// A pull as a member is asked it: with the result id of its own last report.
    fn own_part(&self, server: ServerId, frame: &Frame) -> Option<Frame> {
        let own = self.own_report(server, frame);
        let frame = own.as_ref().unwrap_or(frame);
        let params = frame.params().filter(|_| frame.method() == Some("textDocument/diagnostic"))?;
        let process = self.backend(self.servers.get(server).primary)?.process();
        let group = self.group.as_deref()?;
        let id = group.reports.previous(process, group.rank(server)?, &uri(params, "textDocument")?);
        match id {
            Some(id) => Some(frame.with_params(&Patch::of(params).set("previousResultId", id).finish())),
            None => own,
        }
    }

    /// Whether the answer is a report that lspool makes of those of several members.
    fn is_merged_report(row: Option<&'static Method>, able: &[ServerId]) -> bool {
        let is_pull = row.is_some_and(|it| it.plan == Plan::All(answers::Shape::Diagnostics));
        is_pull && able.len() > 1
    }

    /// A question about an item goes to who has made it. Whether the item says who.
    fn ask_maker(&mut self, owner: &Owner, row: Option<&'static Method>, frame: &Frame) -> bool {
        let Owner::Client(client, id) = owner else { return false };
        let (name, params) = (frame.method().unwrap_or_default(), frame.params().unwrap_or(b"null"));
        let Some((maker, bare)) = untagged(name, params) else { return false };
        let is_it = |it: &&Server| it.primary.0 == maker.member && self.is_member(it.id);
        let server = self.servers.iter().find(is_it).map(|it| it.id);
        let process = server.and_then(|it| self.backend(self.servers.get(it).primary)).map(Backend::process);
        let is_there = process.is_some_and(|it| it.generation.0 == maker.generation);
        let (Some(server), true) = (server, is_there) else {
            let text = "the item is of a server process that is gone; ask for it again";
            let answer = match name.contains("Hierarchy/") {
                true => Frame::error(id.clone().into(), ErrorCode::ContentModified, text, None),
                false => Frame::response(id.clone().into(), params),
            };
            self.answer_question(*client, answer);
            return true;
        };
        // The editor knows that some member resolves items, but not which.
        let can = |abilities: &Abilities| row.is_none_or(|it| abilities.has(it));
        let mut members = self.group.iter().flat_map(|it| it.members());
        let abilities = members.find(|it| it.server == server).and_then(|it| it.abilities.as_ref());
        if name.ends_with("/resolve") && !abilities.is_none_or(can) {
            self.answer_question(*client, Frame::response(id.clone().into(), params));
            return true;
        }
        self.ask(Question {
            client: *client,
            id: id.clone(),
            row,
            frame: frame.with_params(&bare),
            asking: Asking::InTurn,
            tags: true,
            parts: vec![(server, Slot::Waiting)],
            until: None,
        });
        true
    }

    /// The members that can answer, the best first.
    fn able(&self, row: Option<&'static Method>, frame: &Frame) -> Vec<ServerId> {
        let Some(group) = self.group.as_deref() else { return Vec::new() };
        let (name, params) = (frame.method().unwrap_or_default(), frame.params().unwrap_or(b"null"));
        if let Some(handler) = self.handler(name) {
            return vec![handler];
        }
        let document = TextDocument::of(params);
        let can = |it: &&Member| match (row, &it.abilities) {
            // Nobody offers it, or it would have gone there.
            (Some(_), _) if name == COMMAND => true,
            (Some(row), Some(abilities)) => abilities.can(row, params, &document),
            (Some(_), None) => false,
            (None, _) => true,
        };
        let able = group.members().iter().filter(can).map(|it| it.server);
        let mut able: Vec<ServerId> = able.filter(|it| self.is_for(*it, &document)).collect();
        if row.is_some_and(|it| it.capability.options == Options::Diagnostics) {
            able = group.by_identifier(params, able);
        }
        group.sort(&mut able, row.map_or("", |it| it.feature), name);
        let chosen = match row {
            None => group.known.of_method(name),
            Some(_) if name == RENAME => group.known.of_rename(params),
            Some(_) if name == COMMAND => {
                text(params, &["command"]).and_then(|it| group.known.of_command(&it))
            }
            Some(_) => None,
        };
        match chosen.filter(|it| able.contains(it)) {
            // Who has prepared it knows what it is about; others may know a method as well.
            Some(winner) if name == RENAME && self.is_coming(winner) => vec![winner],
            known if row.is_none() || name == COMMAND => {
                self.by_guess(&mut able, known);
                able
            }
            Some(_) | None => able,
        }
    }

    /// Those of them that are asked. A member that restarts, or starts and is remembered, is waited for like a slow one: what
    /// the others say may be nothing.
    fn targets(&self, row: Option<&'static Method>, name: &str, able: &[ServerId]) -> Vec<ServerId> {
        let coming: Vec<ServerId> = able.iter().copied().filter(|it| self.is_coming(*it)).collect();
        // Another formatter is worse than a late one.
        let waits = row.is_some_and(|it| it.plan == Plan::Own) && name != COMMAND;
        if waits || !coming.iter().any(|it| self.is_serving(*it)) {
            return coming;
        }
        // Its last report stands in for what a member that restarts would say.
        let is_pull = row.is_some_and(|it| it.plan == Plan::All(answers::Shape::Diagnostics));
        let is_asked = |it: &ServerId| {
            self.is_serving(*it) || self.is_starting(*it) || !is_pull && self.is_restarting(*it)
        };
        coming.into_iter().filter(is_asked).collect()
    }

    /// The members that may know a method, or a command, that nobody offers: who is known to, then who can be asked at
    /// once.
    fn by_guess(&self, able: &mut [ServerId], known: Option<ServerId>) {
        able.sort_by_key(|it| (known != Some(*it), !self.is_serving(*it)));
    }

    /// Whether items in the answers must say who has made them: several members can answer such questions.
    fn makes_tagged(&self, row: Option<&'static Method>, name: &str) -> bool {
        makes_items(name) && row.is_some_and(|it| self.n_able(it) > 1)
    }

    /// Whether the answer shows who is to be asked next, and others could be.
    fn teaches(&self, name: &str) -> bool {
        name == PREPARE_RENAME && method(RENAME).is_some_and(|it| self.n_able(it) > 1)
    }

    /// How many members can answer such requests.
    fn n_able(&self, row: &'static Method) -> usize {
        let members = self.group.as_deref().map_or(&[][..], Group::members);
        let can = |it: &&Member| it.abilities.as_ref().is_some_and(|it| it.has(row));
        members.iter().filter(can).count()
    }

    /// Nobody who prepares renames can be asked.
    fn answer_unprepared(&mut self, owner: Owner, row: Option<&'static Method>, frame: &Frame) {
        match (owner, self.word(frame)) {
            (Owner::Client(client, id), Some(range)) => {
                self.answer_question(client, Frame::response(id.into(), &range));
            }
            (owner, _) => self.answer_unserved(owner, row, frame),
        }
    }

    /// What is renamed by a member that does not prepare it, which is then asked to.
    fn word(&mut self, frame: &Frame) -> Option<Vec<u8>> {
        let params = frame.params()?;
        let (server, range) = self.word_to_rename(params)?;
        self.group.as_deref_mut()?.known.note_rename(params, server);
        Some(range)
    }

    /// The answer to a question that nobody had anything to say to. `None`: as it is.
    fn fallback(&mut self, id: QuestionId) -> Option<Frame> {
        let question = self.group.as_deref()?.questions.open.get(&id)?;
        if question.method() != PREPARE_RENAME || question.has_answer() {
            return None;
        }
        let (id, frame) = (question.id.clone(), question.frame.clone());
        Some(Frame::response(id.into(), &self.word(&frame)?))
    }

    /// Whether the numbers in an answer are those of a united legend, which no member has.
    fn renumbers(&self, row: Option<&'static Method>) -> bool {
        row.is_some_and(|it| it.capability.options == Options::Tokens)
            && self.group.as_deref().is_some_and(|it| it.legends.is_some())
    }

    /// Nobody can answer this one. If lspool has offered it to the editor, the answer is empty.
    fn answer_unserved(&mut self, owner: Owner, row: Option<&'static Method>, frame: &Frame) {
        let Owner::Client(client, id) = owner else { return };
        let (name, params) = (frame.method().unwrap_or_default(), frame.params().unwrap_or(b"null"));
        let stopped = if name == RENAME { self.able(row, frame) } else { Vec::new() };
        if !stopped.is_empty() {
            let names: Vec<&str> = stopped.iter().map(|it| self.servers.get(*it).name.as_str()).collect();
            let message = format!("nothing is renamed: no process of {} runs", names.join(", "));
            return self.answer_question(client, Failure::new(Cause::Unavailable, message).answer(id));
        }
        let is_offered = |row: &'static Method| {
            self.n_able(row) > 0 || self.group.as_deref().is_some_and(|it| it.has_offered(row))
        };
        let empty = row.filter(|it| is_offered(it)).and_then(|it| answers::nothing(it.name, params));
        let answer = match empty {
            Some(empty) => Frame::response(id.into(), empty),
            None => {
                let message = format!("no server of the group has {name:?}");
                Failure::new(Cause::MethodNotFound, message).answer(id)
            }
        };
        self.answer_question(client, answer);
    }

    fn ask(&mut self, question: Question) {
        let n = if question.asking == Asking::InTurn { 1 } else { question.parts.len() };
        let is_waiting = |(_, slot): &(ServerId, Slot)| matches!(slot, Slot::Waiting);
        let waiting: Vec<usize> = (0..n).filter(|it| is_waiting(&question.parts[*it])).collect();
        let Some(group) = self.group.as_deref_mut() else { return };
        let id = group.questions.add(question);
        for slot in waiting {
            self.ask_part(PartId { question: id, slot });
        }
    }

    fn ask_part(&mut self, part: PartId) {
        let Some(group) = self.group.as_deref_mut() else { return };
        let Some(question) = group.questions.open.get_mut(&part.question) else { return };
        // What a member streams is its answer as it is: without tags, and in its own numbers.
        let is_as_it_is =
            question.parts.len() == 1 && !question.tags && !matches!(question.asking, Asking::All(_));
        let Some((server, slot)) = question.parts.get_mut(part.slot) else { return };
        *slot = Slot::Open;
        let frame = match is_as_it_is {
            true => question.frame.clone(),
            false => for_part(&question.frame, part.slot),
        };
        let server = *server;
        let frame = self.with_own_context(server, frame);
        let frame = self.own_part(server, &frame).unwrap_or(frame);
        let primary = self.servers.get(server).primary;
        self.send_to_backend(primary, Owner::Part(part), Purpose::Plain, &frame);
    }

    /// A member has answered.
    pub(in crate::core::mux) fn on_part(&mut self, process: ProcessId, pending: &Pending, answer: &Frame) {
        let Owner::Part(part) = pending.owner else { return };
        let noted = self.note_report(process, pending, answer);
        let Some(group) = self.group.as_deref_mut() else { return };
        if group.questions.slot_mut(part).is_none() {
            return self.on_late_part(pending, answer, noted);
        }
        let maker = Maker { member: process.backend.0, generation: process.generation.0 };
        let server = part.server(&group.questions);
        if let Some(server) = server {
            group.note_makers(server, pending.frame.method().unwrap_or_default(), answer);
        }
        let told = group.with_told_commands(server, pending, answer);
        let answer = told.as_ref().unwrap_or(answer);
        let allowed = group.allowed_actions(server, pending, answer);
        let method = pending.frame.method().unwrap_or_default();
        let is_one_of_several = group.questions.open.get(&part.question).is_some_and(|it| it.parts.len() > 1);
        let is_malformed = |result: &[u8]| match noted {
            Some(noted) => noted == Noted::Malformed,
            None => is_one_of_several && answers::is_malformed(method, result),
        };
        let Some(slot) = group.questions.slot_mut(part) else { return };
        *slot = match answer.result() {
            Some(result) if is_malformed(result) => {
                warn!(?process, method, "a member answers with something else than it was asked for");
                Slot::Failed(malformed())
            }
            Some(result) => {
                let is_empty = answers::is_empty(method, result);
                Slot::Answered { answer: allowed.unwrap_or_else(|| answer.clone()), maker, is_empty }
            }
            None => Slot::Failed(answer.clone()),
        };
        if answer.result().is_none() {
            debug!(?process, method, error = reason(answer), "a member answers with an error");
        }
        self.look_at(part.question);
    }

    /// Whether the question that this is a part of does not need it.
    pub(in crate::core::mux) fn is_made_up_for(&self, owner: &Owner) -> bool {
        let Owner::Part(part) = owner else { return false };
        self.group.as_deref().is_some_and(|it| it.questions.has_stand_in(*part))
    }

    /// A part is answered by lspool.
    pub(in crate::core::mux) fn answer_part(&mut self, part: PartId, answer: Frame) {
        let Some(group) = self.group.as_deref_mut() else { return };
        let Some(slot) = group.questions.slot_mut(part) else { return };
        *slot = match answer.result() {
            Some(_) => Slot::Answered { answer, maker: Maker { member: 0, generation: 0 }, is_empty: false },
            None => Slot::Failed(answer),
        };
        self.look_at(part.question);
    }

    /// A part will not be answered.
    pub(in crate::core::mux) fn fail_part(&mut self, part: PartId, failure: &Failure) {
        let Some(group) = self.group.as_deref_mut() else { return };
        let Some(slot) = group.questions.slot_mut(part) else { return };
        *slot = Slot::Failed(failure.answer(RequestId::from(RawId::from(0))));
        self.look_at(part.question);
    }

    /// Answers a question if that can be done now.
    fn look_at(&mut self, id: QuestionId) {
        let now = self.now();
        let is_silent = self.waits_for_the_silent(id);
        let Some(group) = self.group.as_deref_mut() else { return };
        let Some(question) = group.questions.open.get(&id) else { return };
        let says = |(_, slot): &(ServerId, Slot)| matches!(slot, Slot::Answered { is_empty: false, .. });
        if question.until.is_none() && question.parts.iter().any(says) {
            let until = question.budget(group).map(|it| now + it);
            if let Some(question) = group.questions.open.get_mut(&id) {
                question.until = until;
            }
        }
        let Some(question) = group.questions.open.get(&id) else { return };
        let is_over = is_silent || question.until.is_some_and(|at| at <= now);
        let outcome = match group.questions.open.get(&id) {
            Some(question) => question.outcome(is_over, group),
            None => return,
        };
        match outcome {
            Outcome::Open => {}
            Outcome::Next(slot) => self.ask_part(PartId { question: id, slot }),
            Outcome::Answer(answer) => {
                let other = self.fallback(id);
                self.close(id, other.unwrap_or(answer));
            }
        }
    }

    /// Whether somebody has answered, and those that have not do not even answer a probe.
    fn waits_for_the_silent(&self, id: QuestionId) -> bool {
        let question = self.group.as_deref().and_then(|it| it.questions.open.get(&id));
        question.is_some_and(|it| {
            let mut open = it.parts.iter().filter(|(_, slot)| matches!(slot, Slot::Open));
            let is_heard = it.parts.iter().any(|(_, slot)| matches!(slot, Slot::Answered { .. }));
            is_heard && open.all(|(server, _)| self.is_silent(*server))
        })
    }

    /// A member does not answer a probe: where somebody else has answered, it is not waited for.
    pub(in crate::core::mux) fn on_silent_member(&mut self, server: ServerId) {
        let Some(group) = self.group.as_deref() else { return };
        let is_asked = |it: &Question| it.parts.iter().any(|(of, _)| *of == server);
        let asked = group.questions.open.iter().filter(|(_, it)| is_asked(it)).map(|(id, _)| *id);
        for id in asked.collect::<Vec<_>>() {
            self.look_at(id);
        }
    }

    /// A question is answered; what is left of it is not wanted, unless the editor can be told to ask again.
    fn close(&mut self, id: QuestionId, answer: Frame) {
        let Some(group) = self.group.as_deref_mut() else { return };
        let Some(question) = group.questions.take(id) else { return };
        question.teach(&mut group.known);
        self.answer_question(question.client, answer);
        if question.parts.iter().any(|(_, slot)| matches!(slot, Slot::Open))
            && question.row.is_none_or(|it| it.late == Late::Cancel)
        {
            self.cancel_parts(id);
        }
    }

    fn cancel_parts(&mut self, id: QuestionId) {
        let is_part = |it: &Pending| matches!(it.owner, Owner::Part(part) if part.question == id);
        for sent in self.requests.filter(is_part) {
            let frame = super::super::cancel::cancellation(sent);
            self.cancel(sent, Some(&frame));
        }
    }

    /// A part comes when its question is answered.
    fn on_late_part(&mut self, pending: &Pending, answer: &Frame, noted: Option<Noted>) {
        let name = pending.frame.method().unwrap_or_default();
        let says = match noted {
            Some(noted) => noted == Noted::Changed,
            None => answer.result().is_some_and(|it| !answers::is_empty(name, it)),
        };
        if let Some(Late::Refresh(refresh)) = method(name).map(|it| it.late).filter(|_| says)
            && !pending.marks.cancelled
        {
            self.ask_for_refresh(refresh);
        }
    }

    /// `$/cancelRequest` of a client for a question. Whether it is one.
    pub(crate) fn cancel_question(&mut self, client: ClientId, frame: &Frame) -> bool {
        let Some(wire) = super::super::from_client::field(frame, "id") else { return false };
        let Some(group) = self.group.as_deref_mut() else { return false };
        let Some(id) = group.questions.of_client(client, &wire) else { return false };
        drop(group.questions.take(id));
        let failure = Failure::new(Cause::Cancelled, "cancelled");
        self.answer_question(client, failure.answer(wire));
        self.cancel_parts(id);
        true
    }

    /// Those that have not answered in time are not waited for.
    pub(super) fn on_question_deadlines(&mut self) {
        let now = self.now();
        let Some(group) = self.group.as_deref() else { return };
        let due = group.questions.open.iter().filter(|(_, it)| it.until.is_some_and(|at| at <= now));
        for id in due.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.look_at(id);
        }
    }

    /// Whether questions and parts belong together.
    pub(crate) fn check_group(&self) -> Result<(), String> {
        let Some(group) = self.group.as_deref() else { return Ok(()) };
        let part = |it: &Pending| match it.owner {
            Owner::Part(part) => Some(part),
            Owner::Client(..) | Owner::Backend(..) | Owner::Proxy => None,
        };
        let parts: Vec<PartId> = self.requests.iter().filter_map(|(_, it)| part(it)).collect();
        group.questions.check(&parts)
    }
}

/// Whether another member may be asked what the best one does not know.
fn is_passed_on(method: &str) -> bool {
    matches!(method, COMMAND | RENAME)
}

/// A request as one of several members is asked it: only the best reports progress, and nobody answers in parts.
fn for_part(frame: &Frame, slot: usize) -> Frame {
    let keys = ["partialResultToken", "previousResultId", "workDoneToken"];
    let keys = if slot > 0 { &keys[..] } else { &keys[..2] };
    without(frame, keys).unwrap_or_else(|| frame.clone())
}

/// A request without these parameters. `None`: it has none of them.
fn without(frame: &Frame, keys: &[&str]) -> Option<Frame> {
    let params = frame.params()?;
    let mut patch = Patch::of(params);
    let has: Vec<&&str> = keys.iter().filter(|it| member(params, it).is_some()).collect();
    for key in &has {
        patch.remove(key);
    }
    (!has.is_empty()).then(|| frame.with_params(&patch.finish()))
}

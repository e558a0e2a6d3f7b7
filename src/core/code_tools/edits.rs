//! Edits: from what a server gives to what is on the disk, and to what has come of it.
//!
//! **An edit is made of the texts that its server saw, or not at all.** A call plans once; from then on it goes one way:
//! the errors before, the write, the servers, the errors after.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{
    CodeTools,
    call::{Cx, Memo, Step, Stop, fail},
    files::language_of_file,
};
use crate::{
    builtin_tools::lsp::{
        Answer, Apply, ChangeShown, Code, Diagnostic, EditAnswer, EditPlan, EditState, Encoding, Fact,
        FileReport, Freshness, Left, LspCall, NewErrors, Pattern, PlanError, PlannedFile, Severity,
        WorkspaceEdit, diff,
    },
    core::{
        event::{Effect, ServerId, Unreadable, Word, WordMatch, Write, WriteFault, Wrote},
        mux::Mux,
    },
    rpc::{Frame, file_uri},
};

/// How long an edit can be made after it was shown.
const KEPT: Duration = Duration::from_mins(30);
/// How many edits are kept.
const MOST_KEPT: usize = 200;
/// How many bytes of texts they may have together.
const MOST_BYTES: usize = 64 << 20;
/// How many files are checked for new errors, and how long.
const MOST_CHECKED: usize = 60;
const CHECK: Duration = Duration::from_secs(5);
/// How often a call begins again because its files have changed meanwhile, or its server has died.
const ATTEMPTS: u32 = 4;

/// An edit that is planned.
#[derive(Debug)]
pub(super) struct Edit {
    /// What it does, for people.
    pub(super) title: String,
    pub(super) plan: EditPlan,
    pub(super) notes: Vec<String>,
    /// Of a rename: the old name and the new one.
    pub(super) names: Option<(String, String)>,
    /// Whether a call must confirm it.
    pub(super) must_be_confirmed: bool,
}

/// An edit that is only to be written.
#[derive(Clone, Debug)]
pub(super) struct Ready {
    edit: Arc<Edit>,
    /// The errors of its files before it.
    before: Arc<[FileReport]>,
}

/// An edit of a server, or why the call has to begin again.
pub(super) type Planned = Result<Edit, String>;

/// Edits that can be made.
#[derive(Debug, Default)]
pub(super) struct Edits {
    all: BTreeMap<u64, (Instant, Arc<Edit>)>,
    made: BTreeSet<u64>,
    /// Writes under way: by their number, the call and its key.
    pub(super) writes: BTreeMap<u64, (u64, String)>,
}

impl Edits {
    fn keep(&mut self, number: u64, now: Instant, edit: Arc<Edit>) {
        self.all.retain(|_, (at, _)| *at + KEPT > now);
        let is_full = |all: &BTreeMap<u64, (Instant, Arc<Edit>)>| {
            let bytes: usize = all.values().map(|(_, it)| it.size()).sum();
            all.len() >= MOST_KEPT || bytes + edit.size() > MOST_BYTES
        };
        while !self.all.is_empty() && is_full(&self.all) {
            self.all.pop_first();
        }
        self.all.insert(number, (now, edit));
    }

    fn get(&self, number: u64, now: Instant) -> Option<Arc<Edit>> {
        self.all.get(&number).filter(|(at, _)| *at + KEPT > now).map(|(_, it)| Arc::clone(it))
    }
}

impl Edit {
    fn size(&self) -> usize {
        let texts = self.plan.files.iter().flat_map(|it| [&it.before, &it.after]).flatten();
        texts.map(|it| it.as_str().len()).sum()
    }
}

impl CodeTools {
    /// Handles the end of a write.
    pub(crate) fn on_wrote(&mut self, wrote: Wrote) {
        if let Some((number, key)) = self.edits.writes.remove(&wrote.number)
            && let Some(call) = self.calls.get_mut(&number)
        {
            call.memo.insert(key, Memo::Wrote(wrote.result));
        }
        self.is_dirty = true;
    }

    /// Sends the servers what has happened to files as such.
    fn tell_file_operations(&self, mux: &mut Mux, renamed: &[(PathBuf, PathBuf)]) {
        for view in self.views.values() {
            let filters = &view.capability(&["workspace", "fileOperations", "didRename"])["filters"];
            let files: Vec<Value> = renamed
                .iter()
                .filter(|(old, _)| is_wanted(filters, old))
                .map(|(old, new)| json!({"oldUri": file_uri(old), "newUri": file_uri(new)}))
                .collect();
            if !files.is_empty() {
                let params = json!({"files": files}).to_string();
                let frame = Frame::notification("workspace/didRenameFiles", Some(params.as_bytes()));
                mux.tell_server(view.server, &frame);
            }
        }
    }
}

/// Whether a server wants to know of an operation on a file, by its filters.
fn is_wanted(filters: &Value, file: &Path) -> bool {
    filters.as_array().into_iter().flatten().any(|it| {
        let is_scheme = it["scheme"].as_str().is_none_or(|it| it == "file");
        let glob = it["pattern"]["glob"].as_str().map(Pattern::new);
        is_scheme && glob.is_some_and(|it| it.is_ok_and(|it| it.holds(&file.to_string_lossy())))
    })
}

impl Cx<'_> {
    /// Carries out a call that edits.
    pub(super) fn carry_out_edit(&mut self, call: &LspCall) -> Step<Answer> {
        let ready = match self.planned_edit() {
            Some(ready) => ready,
            None => {
                let ready = self.find_edit(call)?;
                self.note_planned(ready)
            }
        };
        let edit = Arc::clone(&ready.edit);
        if edit.plan.changes.is_empty() {
            return Ok(self.edit_answer(&edit, EditState::Empty, Vec::new(), None));
        }
        if is_shown_only(call, &edit) {
            let id = self.keep("preview", &edit);
            return Ok(self.edit_answer(&edit, EditState::Kept(id), Vec::new(), None));
        }
        let answer = self.make(&ready)?;
        if let LspCall::ApplyEdit { edit } = call
            && let Some(number) = number_of(edit)
        {
            self.tools.edits.all.remove(&number);
            self.tools.edits.made.insert(number);
        }
        Ok(answer)
    }

    /// Keeps an edit to be made later. Gives its id.
    pub(super) fn keep(&mut self, key: &str, edit: &Arc<Edit>) -> String {
        let number =
            self.once(&format!("edit {key}"), |cx| cx.tools.next().into()).as_u64().unwrap_or_default();
        let now = self.now();
        self.tools.edits.keep(number, now, Arc::clone(edit));
        format!("e{number}")
    }

    /// Plans an edit on the files as they are, and again if they have changed meanwhile. An edit that is to be made comes
    /// with the errors before it: nothing but the write is left to be done.
    fn find_edit(&mut self, call: &LspCall) -> Step<Ready> {
        let mut why = "the files were changed again and again while lspool looked at them".to_owned();
        for attempt in 0..ATTEMPTS {
            self.prefix = format!("{attempt}/");
            self.used.clear();
            self.look("sync", Vec::new(), None)?;
            let tick = self.once("tick", |cx| cx.tools.files.last_change().into());
            let planned = match call {
                LspCall::Rename { target, new_name, .. } => self.plan_rename(target, new_name)?.map(Arc::new),
                LspCall::Format { file, lines, .. } => self.plan_format(file, *lines)?.map(Arc::new),
                LspCall::ApplyEdit { edit } => Ok(self.kept(edit)?),
                _ => return fail(Code::BadArguments, "this tool does not edit"),
            };
            match planned {
                Ok(edit) => {
                    let mut before: Arc<[FileReport]> = Arc::default();
                    if !edit.plan.changes.is_empty() && !is_shown_only(call, &edit) {
                        before = self.errors("before", &self.checked_before(&edit))?;
                    }
                    self.look("after", Vec::new(), None)?;
                    let changed = self.tools.files.changed_since(tick.as_u64().unwrap_or_default());
                    // Any file may have come to use the name.
                    let is_any = edit.names.is_some() && attempt + 1 < ATTEMPTS;
                    if !changed.iter().any(|it| is_any || self.used.contains(it)) {
                        return Ok(Ready { edit, before });
                    }
                }
                Err(again) => why = again,
            }
            if self.is_late() {
                break;
            }
        }
        fail(Code::Changed, why)
    }

    /// An edit that was shown earlier, if its texts are there.
    fn kept(&mut self, id: &str) -> Step<Arc<Edit>> {
        let number = number_of(id);
        let now = self.now();
        let Some(edit) = number.and_then(|it| self.tools.edits.get(it, now)) else {
            let why = match number.is_some_and(|it| self.tools.edits.made.contains(&it)) {
                true => format!("edit {id:?} is made already"),
                false => format!("edit {id:?} is not kept any more: ask for it again"),
            };
            return fail(Code::Expired, why);
        };
        let files: Vec<PathBuf> =
            edit.plan.files.iter().map(|it| it.from.as_ref().unwrap_or(&it.file).clone()).collect();
        self.read_all("kept", &files)?;
        for (file, it) in files.iter().zip(&edit.plan.files) {
            let now = self.text_if_readable(file)?;
            let is_same = match (&it.before, &now) {
                (Some(before), Ok(now)) => before.as_str() == now.as_str(),
                (Some(_), Err(_)) => false,
                (None, Ok(_)) => false,
                (None, Err(_)) => true,
            };
            if !is_same {
                return fail(
                    Code::Changed,
                    format!("{} has changed since: ask for the edit again", self.shown(file)),
                );
            }
        }
        Ok(edit)
    }

    /// Plans what a server wants to be changed.
    pub(super) fn plan(
        &mut self,
        key: &str,
        server: ServerId,
        mut edit: WorkspaceEdit,
        title: String,
    ) -> Step<Planned> {
        let name = self.view(server).name.clone();
        let files: Vec<PathBuf> = edit.files().into_iter().collect();
        for file in &files {
            if !self.is_inside(file) {
                let what =
                    format!("the edit of {name} changes {}, which is outside the workspace", file.display());
                return fail(Code::OutsideWorkspace, what);
            }
            if file.iter().any(|it| it.eq_ignore_ascii_case(".git")) {
                return fail(Code::Refused, format!("the edit of {name} changes {}", self.shown(file)));
            }
        }
        let most = self.tools.settings.max_edit_files;
        if files.len() > most {
            let n = files.len();
            let what =
                format!("the edit of {name} changes {n} files: `max_edit_files` of [lsp_tools] is {most}");
            return fail(Code::Refused, what);
        }
        self.read_all(key, &files)?;
        let mut notes = Vec::new();
        let mut facts: BTreeMap<PathBuf, Fact> = BTreeMap::new();
        for file in files {
            let fact = match self.text_if_readable(&file)? {
                Ok(text) => Fact::Text(text, self.view(server).open.get(&file).map(|it| it.version)),
                Err(Unreadable::Missing) => Fact::Missing,
                Err(Unreadable::Folder) => Fact::Folder,
                Err(Unreadable::Binary) => Fact::Other("is not text in UTF-8"),
                Err(Unreadable::Large) => Fact::Other("is larger than lspool reads"),
                Err(Unreadable::Denied) => Fact::Other("cannot be read"),
                Err(Unreadable::Outside) if edit.texts().contains(&file) => {
                    let shown = self.shown(&file);
                    notes.push(format!("{shown} is not changed: a link leads out of the workspace"));
                    edit.leave_out(&file);
                    continue;
                }
                Err(Unreadable::Outside) => {
                    let what = format!("a link leads from {} out of the workspace", self.shown(&file));
                    return fail(Code::OutsideWorkspace, what);
                }
            };
            facts.insert(file, fact);
        }
        let told = self.view(server).capability(&["positionEncoding"]).as_str();
        let Some(encoding) = Encoding::named(told) else {
            return fail(
                Code::NotSupported,
                format!("{name} counts characters in a way that lspool does not know"),
            );
        };
        let confirm = std::mem::take(&mut edit.confirm);
        let must_be_confirmed = !confirm.is_empty();
        notes.extend(confirm.into_iter().map(|it| format!("{name} wants this to be confirmed: {it}")));
        let fact = |file: &Path| facts.get(file).cloned().unwrap_or(Fact::Missing);
        match edit.plan(fact, encoding) {
            Ok(plan) => Ok(Ok(Edit { title, plan, notes, names: None, must_be_confirmed })),
            Err(PlanError::Changed(why)) => Ok(Err(format!("the edit of {name} is of another text: {why}"))),
            Err(PlanError::Refused(why)) => {
                fail(Code::Refused, format!("lspool does not make the edit of {name}: {why}"))
            }
        }
    }

    /// Makes an edit, and finds out what has come of it.
    fn make(&mut self, ready: &Ready) -> Step<Answer> {
        "make/".clone_into(&mut self.prefix);
        let edit = &ready.edit;
        if !self.has_begun_to_write() && self.is_late() {
            return fail(Code::Timeout, "no time is left to write the files");
        }
        if let Err(fault) = self.write("write", edit)? {
            let what = match &fault {
                WriteFault::Unseen(why) => format!("{why}: look at the files before you go on"),
                WriteFault::Changed(_)
                | WriteFault::Outside(_)
                | WriteFault::Refused(_)
                | WriteFault::Failed(_)
                | WriteFault::Broken(_) => format!("{}: the edit is not made", fault.what()),
            };
            return fail(code_of(&fault), what);
        }
        "made/".clone_into(&mut self.prefix);
        self.look("sync", Vec::new(), None)?;
        if !edit.plan.renamed.is_empty() {
            self.once("told", |cx| {
                cx.tools.tell_file_operations(cx.mux, &edit.plan.renamed);
                Value::Null
            });
        }
        let left = match &edit.names {
            Some((old, _)) => Some(self.left(old)?),
            None => None,
        };
        let old = self.checked_before(edit);
        let files: Vec<&PlannedFile> = self.checked(edit).filter(|it| it.is_left).collect();
        let new: Vec<PathBuf> = files.iter().map(|it| it.file.clone()).collect();
        let after = self.errors("after", &new)?;
        let mut errors = Vec::new();
        for (file, report) in files.iter().zip(after.iter()) {
            let name = old_name(file);
            let earlier = ready.before.iter().zip(&old).find(|(_, it)| **it == name).map(|(it, _)| it);
            errors.push(new_errors(report, earlier, edit.names.as_ref()));
        }
        let mut answer = self.edit_answer(edit, EditState::Made, errors, left);
        let n_unchecked = edit.plan.files.iter().filter(|it| self.can_be_checked(it)).count();
        let n_unchecked = n_unchecked.saturating_sub(MOST_CHECKED);
        if n_unchecked > 0 {
            let note = format!("{n_unchecked} more files were not checked for new errors");
            answer.text = format!("{}\nnote: {note}", answer.text);
            if let Some(notes) = answer.structured["notes"].as_array_mut() {
                notes.push(note.into());
            }
        }
        Ok(answer)
    }

    /// The files of an edit that are checked for new errors.
    fn checked<'e>(&self, edit: &'e Edit) -> impl Iterator<Item = &'e PlannedFile> + use<'e> {
        let files: Vec<&PlannedFile> = edit.plan.files.iter().filter(|it| self.can_be_checked(it)).collect();
        files.into_iter().take(MOST_CHECKED)
    }

    /// The same, with their names before it.
    fn checked_before(&self, edit: &Edit) -> Vec<PathBuf> {
        self.checked(edit).filter(|it| it.before.is_some()).map(old_name).collect()
    }

    fn can_be_checked(&self, file: &PlannedFile) -> bool {
        let is_text = file.before.is_some() || file.after.is_some();
        let language = language_of_file(&file.file);
        is_text && language.is_some_and(|(it, _)| self.tools.views.values().any(|view| view.serves(it)))
    }

    /// The errors of files, within a short time. They are of the files as they are when this is first asked.
    fn errors(&mut self, key: &str, files: &[PathBuf]) -> Step<Arc<[FileReport]>> {
        if let Some(reports) = self.reports(key) {
            return Ok(reports);
        }
        // The edit is made: the call must still answer within its time.
        let until = (self.since(&format!("{key} since")) + CHECK).min(self.last_moment());
        let is_over = self.now() >= until;
        let mut waits = false;
        let mut reports = Vec::new();
        match self.read_all(key, files) {
            Err(Stop::Wait) if !is_over => {
                self.wake_at(until);
                return Err(Stop::Wait);
            }
            Ok(()) | Err(_) => {}
        }
        for file in files {
            let unknown = |why: String, shown: String| FileReport {
                file: shown,
                freshness: Freshness::Unknown,
                why: Some(why),
                diagnostics: Vec::new(),
            };
            reports.push(match self.report(file, Severity::Error) {
                Ok(report) => report,
                Err(Stop::Wait) => {
                    waits = true;
                    let seconds = CHECK.as_secs();
                    unknown(format!("no server has checked it within {seconds} s"), self.shown(file))
                }
                Err(Stop::Fail(error)) => unknown(error.message, self.shown(file)),
            });
        }
        if waits && !is_over {
            self.wake_at(until);
            return self.waiting("the servers check the files".to_owned());
        }
        Ok(self.note_reports(key, reports))
    }

    /// Where the old name is left after a rename.
    fn left(&mut self, name: &str) -> Step<Left> {
        // An empty ending fits each file.
        let word = Word { text: name.to_owned(), matching: WordMatch::Whole, endings: vec![String::new()] };
        let seen = self.look("left", Vec::new(), Some(word))?;
        let total = seen.hits.iter().map(|it| it.n_lines).sum();
        let lines =
            seen.hits.iter().flat_map(|it| it.lines.iter().map(|(line, text)| (&it.file, *line, text)));
        let lines =
            lines.take(100).map(|(file, line, text)| (self.shown(file), line + 1, text.clone())).collect();
        Ok(Left { name: name.to_owned(), total, lines })
    }

    fn edit_answer(
        &self,
        edit: &Edit,
        state: EditState,
        errors: Vec<NewErrors>,
        left: Option<Left>,
    ) -> Answer {
        let changes = self.changes_shown(&edit.plan, state != EditState::Made);
        EditAnswer { title: edit.title.clone(), state, changes, left, errors, notes: edit.notes.clone() }
            .answer()
    }

    /// An edit by files.
    pub(super) fn changes_shown(&self, plan: &EditPlan, with_differences: bool) -> Vec<ChangeShown> {
        let shown = |it: &PlannedFile| {
            let text = |it: &Option<Arc<_>>| it.clone();
            let (before, after) = (text(&it.before), text(&it.after));
            let what = match (&before, it.is_left) {
                (_, false) => Some("removed"),
                (None, true) if it.from.is_none() => Some("new"),
                (_, true) => None,
            };
            let lines = match (&before, &after) {
                (_, _) if !with_differences || !it.is_left => Vec::new(),
                (Some(before), Some(after)) => diff(before.as_str(), after.as_str()),
                (None, Some(after)) => diff("", after.as_str()),
                (_, None) => Vec::new(),
            };
            ChangeShown {
                file: self.shown(&it.file),
                from: it.from.as_ref().map(|it| self.shown(it)),
                what,
                n_edits: it.n_edits,
                diff: lines,
            }
        };
        let files = plan.files.iter().map(shown);
        let is_folder = |(old, new): &&(PathBuf, PathBuf)| {
            !plan.files.iter().any(|it| it.file == *new && it.from.as_ref() == Some(old))
        };
        let folders = plan.renamed.iter().filter(is_folder).map(|(old, new)| ChangeShown {
            file: self.shown(new),
            from: Some(self.shown(old)),
            ..ChangeShown::default()
        });
        files.chain(folders).collect()
    }

    /// Writes the files of an edit.
    fn write(&mut self, key: &str, edit: &Edit) -> Step<Result<(), WriteFault>> {
        match self.written(key) {
            Some(result) => return Ok(result),
            None if self.has_begun_to_write() => {}
            None => {
                let number = self.tools.next();
                let place = self.begin_to_write(key);
                self.tools.edits.writes.insert(number, place);
                let (folders, changes) = (self.tools.folders.clone(), edit.plan.changes.clone());
                self.mux.act(Effect::Write(Box::new(Write { number, folders, changes })));
            }
        }
        self.waiting("lspool is writing files, so look at them".to_owned())
    }
}

/// Whether a call does not make its edit.
fn is_shown_only(call: &LspCall, edit: &Edit) -> bool {
    match call {
        LspCall::Rename { apply, .. } | LspCall::Format { apply, .. } => {
            *apply == Apply::Preview || edit.must_be_confirmed
        }
        _ => false,
    }
}

fn old_name(file: &PlannedFile) -> PathBuf {
    file.from.as_ref().unwrap_or(&file.file).clone()
}

fn number_of(id: &str) -> Option<u64> {
    id.strip_prefix('e')?.parse().ok()
}

fn code_of(fault: &WriteFault) -> Code {
    match fault {
        WriteFault::Changed(_) => Code::Changed,
        WriteFault::Outside(_) => Code::OutsideWorkspace,
        WriteFault::Refused(_) | WriteFault::Failed(_) | WriteFault::Broken(_) | WriteFault::Unseen(_) => {
            Code::Refused
        }
    }
}

/// The errors of a file that are not among those before, wherever they stand.
fn new_errors(
    after: &FileReport,
    before: Option<&FileReport>,
    names: Option<&(String, String)>,
) -> NewErrors {
    let renamed = |message: &str| match names {
        Some((old, new)) => message.replace(old.as_str(), new),
        None => message.to_owned(),
    };
    let key = |it: &Diagnostic| (renamed(&it.message), it.code.clone(), it.source.clone());
    let mut earlier: Vec<_> = before.into_iter().flat_map(|it| &it.diagnostics).map(key).collect();
    let is_new = |it: &&Diagnostic| match earlier.iter().position(|other| *other == key(it)) {
        Some(at) => {
            earlier.swap_remove(at);
            false
        }
        None => true,
    };
    let errors = after.diagnostics.iter().filter(is_new).cloned().collect::<Vec<_>>();
    let is_unknown = |it: &FileReport| it.freshness == Freshness::Unknown;
    let unchecked = match (is_unknown(after), before.is_some_and(is_unknown)) {
        (true, _) => Some(after.why.clone().unwrap_or_default()),
        (false, true) if !errors.is_empty() => Some("what was there before is unknown".to_owned()),
        (false, true | false) => None,
    };
    NewErrors { file: after.file.clone(), unchecked, errors }
}

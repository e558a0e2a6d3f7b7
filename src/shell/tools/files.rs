//! Reads, lists, makes, and edits files.

use std::{
    borrow::Cow,
    ffi::{OsStr, OsString},
    io::{Read as _, Write as _},
    path::Path,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use super::{
    search::Until,
    workspace::{Missing, Place, Workspace},
};
use crate::{
    builtin_tools::{Lines, cut, replaced, rewritten},
    config::ToolsConfig,
    shell::os::{
        fault::{Access, Fault, Kind, Unlike, Why},
        folder::{Folder, Stat, make_like},
    },
};

/// How many entries of a folder to list.
const MOST_NAMES: usize = 5000;

/// How many bytes of a file decide whether it is text.
const LOOK: usize = 8 << 10;

pub(super) fn read(
    workspace: &Workspace,
    path: &str,
    lines: Lines,
    limits: &ToolsConfig,
) -> Result<String, String> {
    let place = workspace.find(path, Missing::Refuse)?;
    let (bytes, _) = content(&place, limits)?;
    let name = place.path.display();
    if bytes.is_empty() {
        return Ok(format!("{name} is empty."));
    }
    let text = String::from_utf8_lossy(&bytes);
    let n_lines = text.lines().count();
    if lines.first > n_lines {
        return Err(format!("{name} has {n_lines} lines; line {} does not exist", lines.first));
    }
    let last = lines.last.min(n_lines);
    let mut shown = String::new();
    let mut next = lines.first;
    let mut is_cut = false;
    for line in text.lines().skip(lines.first - 1).take(last + 1 - lines.first) {
        if shown.len() + line.len() < limits.max_output {
            shown.push_str(line);
            shown.push('\n');
            next += 1;
        } else if shown.is_empty() {
            shown = cut(line.to_owned(), limits.max_output, "[… rest of the line omitted]\n");
            is_cut = true;
            next += 1;
        } else {
            break;
        }
    }
    let odd = match text {
        Cow::Owned(_) => " Bytes that are not UTF-8 are shown as \u{fffd}.",
        Cow::Borrowed(_) => "",
    };
    let more = match next <= last {
        true => format!("[More lines follow: continue with `startLine` {next}.]\n"),
        false => String::new(),
    };
    let cut = if is_cut { " It is too long to show in full." } else { "" };
    Ok(format!("{name}, lines {} to {} of {n_lines}.{odd}{cut}\n{shown}{more}", lines.first, next - 1))
}

/// Reads a text file of at most the maximum size.
fn content(place: &Place, limits: &ToolsConfig) -> Result<(Vec<u8>, Stat), String> {
    let name = place.path.display();
    let (file, stat) = place.open_file()?;
    let most = limits.max_file as u64;
    let mut bytes = Vec::new();
    // It may grow meanwhile.
    file.take(most + 1).read_to_end(&mut bytes).map_err(|error| format!("{name}: {error}"))?;
    if bytes.len() as u64 > most {
        return Err(format!("{name} is too large: {} bytes, the limit is {most}", stat.size()));
    }
    if bytes[..bytes.len().min(LOOK)].contains(&0) {
        return Err(format!("{name} is a binary file of {} bytes, not text", bytes.len()));
    }
    Ok((bytes, stat))
}

pub(super) fn list(workspace: &Workspace, path: &str, limits: &ToolsConfig) -> Result<String, String> {
    let place = workspace.find(path, Missing::Refuse)?;
    let name = place.path.display();
    let folder = place.open_folder()?;
    let failed = |fault: Fault| place.told(&fault);
    let mut names = Vec::new();
    let mut is_cut = false;
    for entry in folder.entries().map_err(failed)? {
        let (entry, kind) = entry.map_err(failed)?;
        if names.len() == MOST_NAMES {
            is_cut = true;
            break;
        }
        names.push(shown(&folder, &entry, kind));
    }
    names.sort();
    if names.is_empty() {
        return Ok(format!("{name} is empty."));
    }
    let text = names.join("\n");
    let more = "[… more entries omitted]";
    let text = if is_cut { format!("{text}\n{more}") } else { text };
    Ok(cut(text, limits.max_output, more))
}

/// An entry of a folder, for a model.
fn shown(folder: &Folder, entry: &OsStr, kind: Kind) -> String {
    let name = plain(&entry.to_string_lossy());
    match kind {
        Kind::Folder => format!("{name}/"),
        Kind::Link => match folder.read_link(entry) {
            Ok(target) => format!("{name} -> {}", plain(&target.to_string_lossy())),
            Err(_) => name,
        },
        Kind::File | Kind::Other => name,
    }
}

/// A name on one line.
pub(super) fn plain(name: &str) -> String {
    match name.contains(char::is_control) {
        true => name.escape_debug().to_string(),
        false => name.to_owned(),
    }
}

pub(super) fn create(
    workspace: &Workspace,
    path: &str,
    text: &str,
    limits: &ToolsConfig,
    until: &Until<'_>,
) -> Result<String, String> {
    is_small(text, limits)?;
    // Makes missing folders too.
    until.check()?;
    let place = workspace.find(path, Missing::Make)?;
    create_at(&place, text, until)?;
    Ok(format!("Created {}.", place.path.display()))
}

fn create_at(place: &Place, text: &str, until: &Until<'_>) -> Result<(), String> {
    let name = place.to_write()?;
    until.check()?;
    let mut file = place.folder().create(name, Access::Usual).map_err(|it| place.told(&it))?;
    file.write_all(text.as_bytes()).map_err(|error| {
        // No file is better than half of one.
        place.folder().remove_file(name).ok();
        format!("{}: {error}", place.path.display())
    })
}

fn is_small(text: &str, limits: &ToolsConfig) -> Result<(), String> {
    match text.len() > limits.max_file {
        true => Err(format!("the text is too large: {} bytes, the limit is {}", text.len(), limits.max_file)),
        false => Ok(()),
    }
}

pub(super) fn replace(
    workspace: &Workspace,
    path: &str,
    (old, new): (&str, &str),
    limits: &ToolsConfig,
    until: &Until<'_>,
) -> Result<String, String> {
    let place = workspace.find(path, Missing::Refuse)?;
    edit(&place, limits, until, |text| replaced(text, old, new))
}

/// Also makes a missing file, because a server renames an edited file in this way.
pub(super) fn rewrite(
    workspace: &Workspace,
    path: &str,
    text: &str,
    limits: &ToolsConfig,
    until: &Until<'_>,
) -> Result<String, String> {
    is_small(text, limits)?;
    until.check()?;
    let place = workspace.find(path, Missing::Make)?;
    let name = place.to_write()?;
    match place.folder().stat(name) {
        Err(fault) if fault.why() == Why::Missing => {
            create_at(&place, &rewritten("", text)?, until)?;
            Ok(format!("Created {}.", place.path.display()))
        }
        Ok(_) | Err(_) => edit(&place, limits, until, |before| rewritten(before, text)),
    }
}

/// Edits of lspool wait for each other.
pub(super) static EDITS: Mutex<()> = Mutex::new(());

/// Replaces the text of a file. A reader finds the old or the new text.
fn edit(
    place: &Place,
    limits: &ToolsConfig,
    until: &Until<'_>,
    change: impl FnOnce(&str) -> Result<String, String>,
) -> Result<String, String> {
    let name = place.to_write()?;
    let shown = place.path.display();
    // Edits of lspool wait for each other. A poisoned lock protects nothing that could be broken.
    let _turn = EDITS.lock().unwrap_or_else(PoisonError::into_inner);
    until.check()?;
    let (bytes, stat) = content(place, limits)?;
    let before = String::from_utf8(bytes)
        .map_err(|_| format!("{shown} is not UTF-8: an edit would damage the rest of the file"))?;
    let after = change(&before)?;
    is_small(&after, limits)?;
    if after == before {
        return Ok(format!("{shown} is unchanged: the new text equals the old one."));
    }
    if !place.folder().is_writable(name) {
        return Err(format!("{shown} is read-only"));
    }
    let draft = Draft::write(place, name, &after, &stat)?;
    if !place.folder().stat(name).is_ok_and(|now| now.version() == stat.version()) {
        return Err(format!("{shown} changed on disk in the meantime: read the file again"));
    }
    until.check()?;
    draft.put_in_place(name)?;
    Ok(format!("Edited {shown}."))
}

/// A new text beside its file. Dropping it removes the new text, unless it has replaced the file.
struct Draft<'a> {
    place: &'a Place,
    name: OsString,
    is_done: bool,
}

static DRAFTS: AtomicU64 = AtomicU64::new(0);

impl<'a> Draft<'a> {
    /// Writes the text beside the file, with its mode and owner.
    fn write(place: &'a Place, of: &OsStr, text: &str, stat: &Stat) -> Result<Draft<'a>, String> {
        let n = DRAFTS.fetch_add(1, Ordering::Relaxed);
        let mut name = OsString::from(format!(".lspool-{}-{n}-", std::process::id()));
        // A name may have 255 bytes.
        if of.len() < 200 {
            name.push(of);
        }
        let failed = |what: std::io::Error| format!("{}: {what}", place.path.display());
        let created = place.folder().create(&name, Access::Private);
        let mut file = created.map_err(|it| failed(it.into_error()))?;
        let draft = Draft { place, name, is_done: false };
        make_like(&file, stat).map_err(|unlike| match unlike {
            Unlike::Owner => failed(std::io::Error::other(
                "it belongs to another user, and an edit would change the owner",
            )),
            Unlike::Failed(error) => failed(error),
        })?;
        file.write_all(text.as_bytes()).map_err(failed)?;
        Ok(draft)
    }

    fn put_in_place(mut self, name: &OsStr) -> Result<(), String> {
        let folder = self.place.folder();
        folder.rename(&self.name, folder, name).map_err(|it| self.place.told(&it))?;
        self.is_done = true;
        Ok(())
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            self.place.folder().remove_file(&self.name).ok();
        }
    }
}

/// A path, for a model.
pub(super) fn shown_path(path: &Path) -> String {
    plain(&path.to_string_lossy())
}

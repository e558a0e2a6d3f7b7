//! Reads, lists, makes, and edits files.

use std::{
    borrow::Cow,
    ffi::{OsStr, OsString},
    fs::File,
    io::{Read as _, Write as _},
    os::fd::OwnedFd,
    path::Path,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use rustix::{
    fs::{
        Access, AtFlags, Dir, FileType, Gid, Mode, OFlags, Stat, Uid, accessat, fchmod, fchown, openat,
        readlinkat, renameat, statat, unlinkat,
    },
    io::Errno,
};

use super::{
    search::Until,
    workspace::{Missing, Place, Workspace},
};
use crate::{
    builtin_tools::{Lines, cut, replaced, rewritten},
    config::ToolsConfig,
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
    File::from(file).take(most + 1).read_to_end(&mut bytes).map_err(|error| format!("{name}: {error}"))?;
    if bytes.len() as u64 > most {
        return Err(format!("{name} is too large: {} bytes, the limit is {most}", stat.st_size));
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
    let failed = |errno: Errno| place.told(errno);
    let mut names = Vec::new();
    let mut is_cut = false;
    for entry in Dir::read_from(&folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let bytes = entry.file_name().to_bytes();
        if bytes == b"." || bytes == b".." {
            continue;
        }
        if names.len() == MOST_NAMES {
            is_cut = true;
            break;
        }
        names.push(shown(&folder, entry.file_name().to_bytes(), entry.file_type()));
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

/// The type of a folder entry. Some file systems do not report it.
pub(super) fn kind_of(folder: &OwnedFd, name: &OsStr, said: FileType) -> FileType {
    match said {
        FileType::Unknown => statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)
            .map_or(FileType::Unknown, |it| FileType::from_raw_mode(it.st_mode)),
        said => said,
    }
}

/// An entry of a folder, for a model.
fn shown(folder: &OwnedFd, name: &[u8], kind: FileType) -> String {
    let os = os(name);
    let kind = kind_of(folder, os, kind);
    let name = plain(&String::from_utf8_lossy(name));
    match kind {
        FileType::Directory => format!("{name}/"),
        FileType::Symlink => match readlinkat(folder, os, Vec::new()) {
            Ok(target) => format!("{name} -> {}", plain(&target.to_string_lossy())),
            Err(_) => name,
        },
        _ => name,
    }
}

fn os(name: &[u8]) -> &OsStr {
    std::os::unix::ffi::OsStrExt::from_bytes(name)
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
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file =
        openat(place.folder(), name, flags, Mode::from_raw_mode(0o666)).map_err(|it| place.told(it))?;
    File::from(file).write_all(text.as_bytes()).map_err(|error| {
        // No file is better than half of one.
        unlinkat(place.folder(), name, AtFlags::empty()).ok();
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
    match statat(place.folder(), name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => {
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
    if accessat(place.folder(), name, Access::WRITE_OK, AtFlags::empty()).is_err() {
        return Err(format!("{shown} is read-only"));
    }
    let draft = Draft::write(place, name, &after, &stat)?;
    let is_same = |now: &Stat| {
        let key = |it: &Stat| (it.st_dev, it.st_ino, it.st_size, it.st_mtime, it.st_mtime_nsec);
        key(now) == key(&stat)
    };
    if !statat(place.folder(), name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|now| is_same(&now)) {
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
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let failed = |what: std::io::Error| format!("{}: {what}", place.path.display());
        let file = openat(place.folder(), &name, flags, Mode::from_raw_mode(0o600))
            .map_err(|it| failed(it.into()))?;
        let draft = Draft { place, name, is_done: false };
        let own = rustix::fs::fstat(&file).map_err(|it| failed(it.into()))?;
        if (own.st_uid, own.st_gid) != (stat.st_uid, stat.st_gid) {
            let (user, group) = (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid));
            fchown(&file, Some(user), Some(group)).map_err(|_| {
                failed(std::io::Error::other(
                    "it belongs to another user, and an edit would change the owner",
                ))
            })?;
        }
        fchmod(&file, Mode::from_raw_mode(stat.st_mode & 0o777)).map_err(|it| failed(it.into()))?;
        File::from(file).write_all(text.as_bytes()).map_err(failed)?;
        Ok(draft)
    }

    fn put_in_place(mut self, name: &OsStr) -> Result<(), String> {
        let folder = self.place.folder();
        renameat(folder, &self.name, folder, name).map_err(|it| self.place.told(it))?;
        self.is_done = true;
        Ok(())
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            unlinkat(self.place.folder(), &self.name, AtFlags::empty()).ok();
        }
    }
}

/// A path, for a model.
pub(super) fn shown_path(path: &Path) -> String {
    plain(&path.to_string_lossy())
}

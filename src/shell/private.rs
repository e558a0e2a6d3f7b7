//! Private files for as long as lspool runs: histories of conversations.
//!
//! They are on a memory file system if possible. lspool removes the folder when it ends, or else its guard does.

use std::{
    collections::BTreeSet,
    env,
    ffi::OsString,
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    rc::Rc,
};

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{
    sync::{Mutex, MutexGuard},
    task::{JoinError, JoinHandle, spawn_blocking, spawn_local},
};

use super::os::files::{is_private, memory_folder, private_file, private_folder};
use crate::core::{CONTINUE, event::ProcessId};

/// Makes a private folder. `name` is new.
pub(super) fn folder(name: &str) -> io::Result<PathBuf> {
    let runtime = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|it| is_ours(it));
    let folder = runtime.or_else(memory_folder).unwrap_or_else(env::temp_dir).join(name);
    private_folder().create(&folder)?;
    Ok(folder)
}

/// Whether a path is absolute, and the folder is closed to others.
fn is_ours(folder: &Path) -> bool {
    folder.is_absolute() && is_private(folder)
}

/// The folder of one process.
pub(super) fn of_process(root: &Path, process: ProcessId) -> PathBuf {
    root.join(format!("{}-{}", process.backend.0, process.generation.0))
}

/// An operation on files.
pub(super) type Working<T> = JoinHandle<Result<T, JoinError>>;

/// Runs operations on files, one after the other.
#[derive(Clone, Debug, Default)]
pub(super) struct Files {
    turn: Rc<Mutex<()>>,
}

impl Files {
    /// Waits for the end of all earlier operations. The next ones wait until the turn is dropped.
    pub(super) async fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    /// Runs an operation after all earlier ones.
    pub(super) fn after<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Working<T> {
        let turn = Rc::clone(&self.turn);
        // The lock is fair, and tasks begin in the order of their creation.
        spawn_local(async move {
            let _turn = turn.lock().await;
            spawn_blocking(work).await
        })
    }
}

/// Writes the transcript of a conversation, whole or not at all. With `keeps`, the server's record of its requests to
/// the model follows.
pub(super) fn write(folder: &Path, conversation: &str, content: &Bytes, keeps: bool) -> io::Result<()> {
    let folder = folder.join(conversation);
    make(&folder)?;
    let file = folder.join(FILE);
    let earlier = if keeps { partitions(&folder)? } else { Vec::new() };
    replace(&file, |out| {
        out.write_all(content)?;
        for line in rendered(&earlier, content) {
            out.write_all(&line)?;
            out.write_all(b"\n")?;
        }
        Ok(())
    })?;
    earlier.iter().filter(|it| **it != file).try_for_each(fs::remove_file)
}

/// Makes a private folder and its parents. It may exist.
pub(super) fn make(folder: &Path) -> io::Result<()> {
    private_folder().recursive(true).create(folder)
}

/// Replaces a file by another private one. A reader finds the old or the new file, and after an error the old one
/// stays.
pub(super) fn replace(file: &Path, write: impl FnOnce(&mut fs::File) -> io::Result<()>) -> io::Result<()> {
    // Hidden, and with a suffix that a server ignores.
    let mut half = OsString::from(".");
    half.push(file.file_name().unwrap_or_default());
    half.push(".half");
    let half = file.with_file_name(half);
    let mut out = private_file().write(true).create(true).truncate(true).open(&half)?;
    let written = write(&mut out).and_then(|()| fs::rename(&half, file));
    if written.is_err() {
        fs::remove_file(&half).ok();
    }
    written
}

const FILE: &str = "partition-1.jsonl";

/// The server's records of a conversation, the oldest first. The server moves old ones to longer names.
fn partitions(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut all: Vec<PathBuf> = fs::read_dir(folder)?
        .filter_map(Result::ok)
        .map(|it| it.path())
        .filter(|it| it.extension().is_some_and(|it| it == "jsonl"))
        .collect();
    let order = |it: &PathBuf| {
        let name = it.file_name().unwrap_or_default().to_string_lossy().into_owned();
        (!name.contains(".v"), name)
    };
    all.sort_by_key(order);
    Ok(all)
}

/// The lines of the server's record that show how a question was put to the model, and such lines for the questions
/// in `content` that are missing there. A killed server leaves an incomplete line. A continued turn has a line for
/// the message to continue, which is not a question.
fn rendered(files: &[PathBuf], content: &[u8]) -> Vec<Vec<u8>> {
    let continues = &CONTINUE.as_bytes()[..40];
    let mut known = BTreeSet::new();
    let mut is_first = |line: &&[u8]| match serde_json::from_slice::<Line>(line) {
        Ok(Line { r#type, data: Data { turn_id: Some(turn), .. } }) => {
            r#type == "user.message_rendered"
                && memchr::memmem::find(line, continues).is_none()
                && known.insert(turn)
        }
        Ok(_) | Err(_) => false,
    };
    let texts = files.iter().filter_map(|it| fs::read(it).ok());
    let mut out = Vec::new();
    for text in texts {
        out.extend(text.split(|it| *it == b'\n').filter(&mut is_first).map(<[u8]>::to_vec));
    }
    if out.is_empty() {
        return out;
    }
    // Beside rendered questions, the server would not recognize an unrendered one as a question.
    for line in content.split(|it| *it == b'\n') {
        if let Ok(Line { r#type, data: Data { turn_id: Some(turn), content: Some(Value::String(question)) } }) =
            serde_json::from_slice::<Line>(line)
            && r#type == "user.message"
            && !known.contains(&turn)
        {
            let text = format!("<userRequest>\n{question}\n</userRequest>\n");
            let data = json!({"turnId": turn, "renderedMessage": text});
            let id = format!("00000000-0000-4000-8001-{:012}", known.len());
            let line = json!({
                "type": "user.message_rendered", "data": data, "id": id,
                "timestamp": "2026-01-01T00:00:00.000Z", "parentId": null,
            });
            out.push(line.to_string().into_bytes());
            known.insert(turn);
        }
    }
    out
}

/// A line of a transcript.
#[derive(Deserialize)]
struct Line {
    r#type: String,
    data: Data,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Data {
    turn_id: Option<String>,
    content: Option<Value>,
}

/// Removes a folder with its contents. lspool removes the rest when it ends.
pub(super) fn remove(folder: &Path) {
    if let Err(error) = fs::remove_dir_all(folder)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(%error, folder = %folder.display(), "could not remove");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::event::{BackendId, Generation};

    #[test]
    fn transcript_is_readable_only_by_its_user() {
        let root = tempfile::tempdir().unwrap();
        let process = ProcessId { backend: BackendId(3), generation: Generation(2) };
        let folder = of_process(root.path(), process);
        write(&folder, "c", &Bytes::from_static(b"one\n"), false).unwrap();
        write(&folder, "c", &Bytes::from_static(b"two\n"), false).unwrap();
        let file = folder.join("c/partition-1.jsonl");
        assert_eq!(fs::read(&file).unwrap(), b"two\n");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
            assert_eq!(fs::metadata(folder.join("c")).unwrap().permissions().mode() & 0o777, 0o700);
        }
        assert_eq!(fs::read_dir(folder.join("c")).unwrap().count(), 1);
    }

    #[test]
    fn failed_replace_leaves_file_unchanged() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("f.json");
        replace(&file, |out| out.write_all(b"one")).unwrap();
        let full = |out: &mut fs::File| {
            out.write_all(b"tw")?;
            Err(io::ErrorKind::StorageFull.into())
        };
        assert_eq!(replace(&file, full).unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(fs::read(&file).unwrap(), b"one");
        let looking = |out: &mut fs::File| {
            assert_eq!(fs::read(&file)?, b"one", "it is there until the other one is whole");
            out.write_all(b"two")
        };
        replace(&file, looking).unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"two");
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1, "no half of a file is left");
    }

    #[test]
    fn unrendered_question_is_restored_like_rendered_ones() {
        let root = tempfile::tempdir().unwrap();
        let question = |turn: &str, text: &str| json!({"type": "user.message", "data": {"turnId": turn, "content": text}});
        let rendered = |turn: &str, text: &str| json!({"type": "user.message_rendered", "data": {"turnId": turn, "renderedMessage": text}});
        let ours = format!("{}\n{}\n", question("a", "one?"), question("b", "two?"));
        let told = |theirs: &[Value]| {
            let folder = root.path().join("c");
            fs::create_dir_all(&folder).unwrap();
            let lines: Vec<String> = theirs.iter().map(Value::to_string).collect();
            fs::write(folder.join(FILE), lines.join("\n")).unwrap();
            write(root.path(), "c", &Bytes::from(ours.clone()), true).unwrap();
            let text = fs::read_to_string(folder.join(FILE)).unwrap();
            let lines =
                text.lines().skip(2).map(|it| serde_json::from_str::<Value>(it).unwrap()["data"].clone());
            lines.map(|it| (it["turnId"].clone(), it["renderedMessage"].clone())).collect::<Vec<_>>()
        };
        let one = (json!("a"), json!("<x/>one?"));
        let two = (json!("b"), json!("<userRequest>\ntwo?\n</userRequest>\n"));
        assert_eq!(told(&[rendered("a", "<x/>one?")]), [one.clone(), two.clone()]);
        // The message that continued the second question does not replace any question.
        let continued = rendered("b", &format!("<userRequest>\n{CONTINUE}\n</userRequest>"));
        assert_eq!(told(&[rendered("a", "<x/>one?"), continued.clone()]), [one, two]);
        assert_eq!(told(&[continued]), []);
    }

    #[test]
    fn transcript_write_keeps_rendered_questions() {
        let root = tempfile::tempdir().unwrap();
        let rendered = |turn: &str, text: &str| {
            format!(
                r#"{{"type":"user.message_rendered","data":{{"turnId":"{turn}","renderedMessage":"{text}"}}}}"#
            )
        };
        let folder = root.path().join("c");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("partition-1.v2026.jsonl"), rendered("a", "old") + "\n").unwrap();
        let lines =
            ["{\"type\":\"x\",\"data\":{}}", &rendered("a", "continue"), &rendered("b", "b"), "{\"ty"];
        fs::write(folder.join(FILE), lines.join("\n")).unwrap();
        write(root.path(), "c", &Bytes::from_static(b"ours\n"), true).unwrap();
        let expected = format!("ours\n{}\n{}\n", rendered("a", "old"), rendered("b", "b"));
        assert_eq!(fs::read_to_string(folder.join(FILE)).unwrap(), expected);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        remove(&folder);
        assert!(!folder.exists());
    }
}

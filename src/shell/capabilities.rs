//! What members of groups have answered to `initialize`, for members that are late at a later start.
//!
//! One private file for each command, in `$XDG_STATE_HOME/lspool/capabilities`. It holds for the executable that was
//! there, and has an answer for each of the last offers of an editor. A file that cannot be read says nothing.

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::task::spawn_local;

use super::{
    inbox::Events,
    os::files::times,
    private::{self, Files},
};
use crate::{
    core::event::{Event, Launch, Recalled, Started},
    rpc::member,
    util::{fnv::fnv1a, json},
};

/// How many offers of editors a file has answers for.
const OFFERS: usize = 8;

/// The longest answer that is remembered, in bytes.
const LONGEST: usize = 256 * 1024;

/// The longest file that is read.
const LONGEST_FILE: u64 = (OFFERS * LONGEST + LONGEST) as u64;

/// The files.
#[derive(Debug)]
pub(super) struct Capabilities {
    /// The folder for the user's state.
    state: Option<PathBuf>,
    files: Files,
}

/// The content of a file.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    /// The files of the command.
    command: Vec<Stamp>,
    /// The latest last.
    answers: Vec<Answer>,
}

/// A file as it was.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Stamp {
    path: PathBuf,
    size: u64,
    modified: (i64, i64),
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Answer {
    /// A number for what the member was offered.
    offer: u64,
    result: Value,
}

impl Capabilities {
    pub(super) fn new(state: Option<PathBuf>) -> Capabilities {
        Capabilities { state, files: Files::default() }
    }

    /// Answers [`Effect::Recall`](crate::core::event::Effect::Recall).
    pub(super) fn recall(&self, all: Vec<Started>, events: &Events) {
        let state = self.state.clone();
        let one = move |it: Started| {
            let content = Content::read(&file(state.as_deref()?, &it), &it.launch)?;
            let offer = offer(&it.params);
            let answer = content.answers.into_iter().find(|it| it.offer == offer)?;
            Some(Recalled { member: it.member, result: answer.result })
        };
        let looking = self.files.after(move || all.into_iter().filter_map(one).collect());
        let events = events.clone();
        spawn_local(async move {
            let found = looking.await.and_then(|it| it).unwrap_or_default();
            events.tell(Event::Recalled(found));
        });
    }

    /// Carries out [`Effect::Remember`](crate::core::event::Effect::Remember).
    pub(super) fn remember(&self, it: Started, result: Bytes) {
        let Some(state) = self.state.clone().filter(|_| result.len() <= LONGEST) else { return };
        self.files.after(move || {
            let file = file(&state, &it);
            if let Err(error) = remember(&file, &it, &result) {
                tracing::debug!(%error, file = %file.display(), "could not remember capabilities");
            }
        });
    }
}

fn remember(file: &Path, it: &Started, result: &[u8]) -> io::Result<()> {
    let (offer, result) = (offer(&it.params), json::read(result)?);
    let mut content = Content::read(file, &it.launch)
        .unwrap_or_else(|| Content { command: command(&it.launch), answers: Vec::new() });
    content.answers.retain(|it| it.offer != offer);
    content.answers.push(Answer { offer, result });
    let n_old = content.answers.len().saturating_sub(OFFERS);
    content.answers.drain(..n_old);
    private::make(file.parent().unwrap_or(Path::new("")))?;
    private::replace(file, |out| out.write_all(&serde_json::to_vec(&content)?))
}

impl Content {
    /// What a file says, if it is about the command as it is.
    fn read(file: &Path, launch: &Launch) -> Option<Content> {
        fs::metadata(file).ok().filter(|it| it.len() <= LONGEST_FILE)?;
        let content: Content = serde_json::from_slice(&fs::read(file).ok()?).ok()?;
        (content.command == command(launch)).then_some(content)
    }
}

/// The file for a command.
fn file(state: &Path, it: &Started) -> PathBuf {
    let words = std::iter::once(it.launch.program.as_os_str().as_encoded_bytes());
    let words: Vec<&[u8]> = words.chain(it.launch.args.iter().map(String::as_bytes)).collect();
    let plain = |it: char| if it.is_ascii_alphanumeric() || matches!(it, '-' | '_') { it } else { '_' };
    let name: String = it.member.chars().map(plain).take(40).collect();
    let name = format!("{name}-{:016x}.json", fnv1a(&words.join(&0)));
    state.join("lspool").join("capabilities").join(name)
}

/// The executable, and scripts among its arguments.
fn command(launch: &Launch) -> Vec<Stamp> {
    let words = launch.args.iter().map(PathBuf::from).filter(|it| it.is_absolute());
    let stamp = |path: PathBuf| {
        let meta = fs::metadata(&path).ok().filter(fs::Metadata::is_file)?;
        Some(Stamp { path, size: meta.len(), modified: times(&meta).modified })
    };
    std::iter::once(launch.program.clone()).chain(words).filter_map(stamp).collect()
}

/// A number for what a member is told of the editor. Folders and processes change nothing about what it can do.
fn offer(params: &[u8]) -> u64 {
    let part = |key| member(params, key).map_or(&b""[..], |it| &params[it]);
    fnv1a(&[part("capabilities"), part("initializationOptions")].join(&0))
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use super::*;

    fn started(program: &Path, params: &str) -> Started {
        let launch = Launch {
            program: program.to_owned(),
            args: vec!["--stdio".to_owned()],
            env: Vec::new(),
            cwd: None,
            max_message: 1 << 20,
            write_stall: Duration::from_mins(1),
            root: None,
            remote: None,
            share: None,
        };
        Started { member: "a/b".to_owned(), launch: Arc::new(launch), params: params.to_owned().into() }
    }

    fn answers(file: &Path, it: &Started) -> Vec<Value> {
        let content = Content::read(file, &it.launch);
        content.into_iter().flat_map(|it| it.answers).map(|it| it.result).collect()
    }

    #[test]
    fn answers_are_kept_by_offer_until_the_command_changes() {
        let root = tempfile::tempdir().unwrap();
        let program = root.path().join("server");
        fs::write(&program, "one").unwrap();
        let it = started(&program, r#"{"processId":1,"capabilities":{"x":1}}"#);
        let file = file(root.path(), &it);
        assert_eq!(answers(&file, &it), [] as [Value; 0]);
        remember(&file, &it, b"{}").unwrap();
        let same = started(&program, r#"{"processId":2,"rootUri":"u","capabilities":{"x":1}}"#);
        remember(&file, &same, br#"{"capabilities":{}}"#).unwrap();
        assert_eq!(answers(&file, &it), [serde_json::json!({"capabilities": {}})]);
        for n in 0..OFFERS {
            let other = started(&program, &format!(r#"{{"capabilities":{n}}}"#));
            remember(&file, &other, n.to_string().as_bytes()).unwrap();
        }
        let kept: Vec<Value> = (0..OFFERS).map(Value::from).collect();
        assert_eq!(answers(&file, &it), kept, "the oldest is forgotten");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
            assert_eq!(fs::metadata(file.parent().unwrap()).unwrap().permissions().mode() & 0o777, 0o700);
        }

        fs::write(&program, "another").unwrap();
        assert_eq!(answers(&file, &it), [] as [Value; 0], "it is another server");
        remember(&file, &it, b"5").unwrap();
        assert_eq!(answers(&file, &it), [5]);
        fs::write(&file, "{\"command\":").unwrap();
        assert_eq!(answers(&file, &it), [] as [Value; 0]);
        remember(&file, &it, b"6").unwrap();
        assert_eq!(answers(&file, &it), [6]);
    }
}

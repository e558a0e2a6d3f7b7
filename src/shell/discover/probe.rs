//! Whether a place elsewhere is what its section says: the same files under its folders, and what the clean-up needs.
//!
//! For `lspool check`. One shell on each side says what it finds.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use super::{super::elsewhere::quoted, remote::output_within};
use crate::{core::event::Launch, rpc::PathPair};

/// How long a shell may take.
const LIMIT: Duration = Duration::from_secs(10);

/// The beginning of each line that counts: a login script may write others.
const SAID: &str = "lspool-probe ";

/// The largest file that is read for a comparison, in bytes.
const LARGEST: u64 = 1 << 20;

/// What there is to say about a place, if there is a shell.
pub fn probe(launch: &Launch) -> Vec<String> {
    let Some(remote) = launch.remote.as_ref().filter(|it| !it.shell.is_empty()) else { return Vec::new() };
    let pairs: Vec<(&PathPair, PathBuf)> = remote
        .paths
        .iter()
        .filter_map(|it| {
            Some((it, some_file(Path::new(&it.local))?.strip_prefix(&it.local).ok()?.to_owned()))
        })
        .collect();
    let files = |side: fn(&PathPair) -> &str| {
        let file =
            |(pair, rest): &(&PathPair, PathBuf)| Path::new(side(pair)).join(rest).display().to_string();
        pairs.iter().map(file).collect::<Vec<String>>()
    };
    let mut there = Command::new(&launch.program);
    there.args(&remote.shell).envs(launch.env.iter().map(|(name, value)| (name, value)));
    let there = match said(there, &files(|it| &it.remote)) {
        Ok(said) => said,
        Err(error) => return vec![format!("its shell there does not answer: {error}")],
    };
    let here = said(Command::new("sh"), &files(|it| &it.local)).unwrap_or_default();
    let mut notes = Vec::new();
    for (n, (pair, rest)) in pairs.iter().enumerate() {
        let file = Path::new(&pair.remote).join(rest);
        let what = match (here.get(n).map(String::as_str), there.get(n).map(String::as_str)) {
            // It cannot be read here, so nothing can be said.
            (Some("-") | None, _) => continue,
            (Some(here), Some(there)) if here == there => "is the same file on both sides",
            (Some(_), Some("-") | None) => "is missing on the other side: is that folder right?",
            (Some(_), Some(_)) => "is another file than here: is that folder right?",
        };
        notes.push(format!("{} {what}", file.display()));
    }
    if !there.iter().any(|it| it == "cleanup") {
        notes.push(
            "lspool cannot end leftover processes there: its shell has no grep, tr, or /proc/PID/environ"
                .to_owned(),
        );
    }
    notes
}

/// A file of this folder, or of one in it.
fn some_file(folder: &Path) -> Option<PathBuf> {
    let files = |folder: &Path| {
        let mut all: Vec<PathBuf> =
            fs::read_dir(folder).ok()?.filter_map(|it| Some(it.ok()?.path())).collect();
        all.sort();
        Some(all)
    };
    let is_fit = |it: &PathBuf| {
        fs::symlink_metadata(it).is_ok_and(|it| it.is_file() && it.len() > 0 && it.len() <= LARGEST)
    };
    let all = files(folder)?;
    all.iter().find(|it| is_fit(it)).cloned().or_else(|| {
        let within = all.iter().filter(|it| it.is_dir() && !it.is_symlink());
        within.take(50).filter_map(|it| files(it)).flatten().find(is_fit)
    })
}

/// What a shell says about these files: for each its checksum and size, or a dash.
fn said(shell: Command, files: &[String]) -> Result<Vec<String>, String> {
    let one = format!(
        "p() {{ if [ -r \"$1\" ]; then echo \"{SAID}$(cksum <\"$1\")\"; else echo '{SAID}-'; fi; }}\n"
    );
    let all = files.iter().fold(one, |all, file| format!("{all}p {}\n", quoted(file)));
    let needs = "[ -r /proc/self/environ ] && command -v grep >/dev/null && command -v tr >/dev/null";
    let script = format!("{all}{needs} && echo '{SAID}cleanup'\nexit 0\n");
    let output = output_within(shell, Some(script), LIMIT)?;
    let text = String::from_utf8_lossy(&output);
    Ok(text.lines().filter_map(|it| it.strip_prefix(SAID)).map(ToOwned::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::event::Remote;

    #[test]
    fn files_of_both_sides_are_compared() {
        let folder = tempfile::tempdir().unwrap();
        let make = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        make("here/it's a.py", "x");
        make("same/it's a.py", "x");
        make("other/it's a.py", "y");
        make("here/below/b.py", "z");
        let of = |name: &str| folder.path().join(name).display().to_string();
        let notes = |remote: &str| {
            let paths = vec![PathPair { local: of("here"), remote: of(remote) }];
            let remote = Remote { paths, shell: vec!["-s".to_owned()], ..Remote::default() };
            let text = r#"{"program":"/bin/sh","args":[],"env":{},"cwd":null,"max_message":1,"write_stall":{"secs":1,"nanos":0}}"#;
            probe(&Launch { remote: Some(remote), ..serde_json::from_str(text).unwrap() }).remove(0)
        };
        assert!(notes("same").ends_with("/same/it's a.py is the same file on both sides"));
        assert!(
            notes("other").ends_with("/other/it's a.py is another file than here: is that folder right?")
        );
        assert!(
            notes("none").ends_with("/none/it's a.py is missing on the other side: is that folder right?")
        );
        fs::remove_file(folder.path().join("here/it's a.py")).unwrap();
        assert!(
            notes("none").ends_with("/none/below/b.py is missing on the other side: is that folder right?")
        );
    }
}

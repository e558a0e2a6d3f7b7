//! Files of custom chat modes, in a private folder.

use std::{
    fs,
    io::{self, Write as _},
    path::Path,
};

use super::private;
use crate::{
    core::event::{KeepMode, KeptMode},
    mode_file::{self, ModeFile},
};

/// The largest mode file of an editor that lspool reads.
const LONGEST: u64 = 1 << 20;

/// Corrects a file if necessary. A server that reads it meanwhile finds either the old or the new content.
pub(super) fn keep(folder: &Path, mode: &KeepMode) -> Result<KeptMode, String> {
    let it = match &mode.of {
        None => mode_file::plain(&mode.name, &mode.tools),
        Some(of) => narrowed(of, &mode.tools).map_err(|why| format!("{}: {why}", of.display()))?,
    };
    let file = folder.join(format!("{}.agent.md", mode.name));
    let is_new = fs::read(&file).ok().as_deref() != Some(it.text.as_bytes());
    if is_new {
        let cannot = |error: io::Error| format!("cannot write {}: {error}", file.display());
        write(folder, &file, it.text.as_bytes()).map_err(cannot)?;
    }
    Ok(KeptMode { file, title: it.title, tools: it.tools, is_new })
}

fn narrowed(of: &Path, tools: &[String]) -> Result<ModeFile, String> {
    let size = fs::metadata(of).map_err(|error| error.to_string())?.len();
    if size > LONGEST {
        return Err(format!("it has {size} bytes"));
    }
    let text = fs::read_to_string(of).map_err(|error| error.to_string())?;
    let name = of.file_name().unwrap_or_default().to_string_lossy();
    let name = name.strip_suffix(".md").unwrap_or(&name);
    let name = name.strip_suffix(".agent").or_else(|| name.strip_suffix(".chatmode")).unwrap_or(name);
    mode_file::narrowed(&text, name, tools)
}

fn write(folder: &Path, file: &Path, text: &[u8]) -> io::Result<()> {
    private::make(folder)?;
    private::replace(file, |out| out.write_all(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(tools: &[&str]) -> KeepMode {
        let tools = tools.iter().map(ToString::to_string).collect();
        KeepMode { number: 1, name: "4f".to_owned(), tools, of: None }
    }

    #[test]
    fn mode_file_is_private_and_rewritten_when_changed() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("modes");
        let it = keep(&folder, &mode(&["a"])).unwrap();
        assert!(it.is_new && it.tools == ["a"]);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
            assert_eq!(fs::metadata(&it.file).unwrap().permissions().mode() & 0o777, 0o600);
        }
        assert!(!keep(&folder, &mode(&["a"])).unwrap().is_new);
        fs::write(&it.file, "").unwrap();
        assert!(keep(&folder, &mode(&["a"])).unwrap().is_new);
        fs::remove_file(&it.file).unwrap();
        assert!(keep(&folder, &mode(&["a"])).unwrap().is_new);
        assert!(keep(&folder, &mode(&["a", "b"])).unwrap().is_new);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    }

    #[test]
    fn editor_mode_file_is_read_again_each_time() {
        let root = tempfile::tempdir().unwrap();
        let own = root.path().join("reviewer.agent.md");
        let folder = root.path().join("modes");
        let wrapped = KeepMode { of: Some(own.clone()), ..mode(&["a", "b"]) };
        assert!(keep(&folder, &wrapped).is_err());
        fs::write(&own, "---\ntools: [\"b\", \"c\"]\n---\nBe good.\n").unwrap();
        let it = keep(&folder, &wrapped).unwrap();
        assert_eq!((it.title.as_str(), it.tools), ("reviewer", vec!["b".to_owned()]));
        fs::write(&own, "---\ntools: [\"a\"]\n---\nBe good.\n").unwrap();
        let it = keep(&folder, &wrapped).unwrap();
        assert!(it.is_new && it.tools == ["a"]);
    }
}

//! The workspace folders, as the editor has them: those of its `initialize`, and what it has changed since.
//!
//! An `initialize` without `workspaceFolders` has one folder: its root.

use std::path::Path;

use bytes::Bytes;
use serde_json::json;

use crate::rpc::{Patch, elements, file_path, file_uri, member, path, text};

/// The folders in the editor's form and order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Folders {
    /// `None` as long as they are those of `initialize`.
    now: Option<Vec<Bytes>>,
    /// The uris of removed folders.
    gone: Vec<String>,
}

impl Folders {
    /// Handles `workspace/didChangeWorkspaceFolders`. `initialize` are the editor's parameters.
    pub(super) fn change(&mut self, initialize: &[u8], params: &[u8]) {
        let mut now = self.now.take().unwrap_or_else(|| folders_of(initialize));
        let listed = |key| path(params, &["event", key]).map_or(Vec::new(), |it| listed(&params[it]));
        for uri in listed("removed").iter().filter_map(|it| uri(it)) {
            now.retain(|it| self::uri(it).as_ref() != Some(&uri));
            self.gone.push(uri);
        }
        for folder in listed("added") {
            let uri = uri(&folder);
            match now.iter_mut().find(|it| self::uri(it) == uri) {
                Some(slot) => *slot = folder,
                None => now.push(folder),
            }
            self.gone.retain(|it| Some(it) != uri.as_ref());
        }
        self.now = Some(now);
    }

    /// Puts the current folders into parameters of `initialize`.
    pub(super) fn named_in(&self, initialize: &Bytes) -> Bytes {
        match &self.now {
            Some(now) if *now != folders_of(initialize) => {
                let mut patch = Patch::of(initialize);
                patch.set("workspaceFolders", &array(now));
                self.name_root(initialize, &mut patch);
                Bytes::from(patch.finish())
            }
            Some(_) | None => initialize.clone(),
        }
    }

    /// A root that was removed gives way to the first folder there is.
    fn name_root(&self, initialize: &[u8], patch: &mut Patch) {
        let Some(root) = root(initialize) else { return };
        let path = file_path(&root);
        let is_it = |it: &String| *it == root || path.is_some() && file_path(it) == path;
        if !self.gone.iter().any(is_it) {
            return;
        }
        let first = self.now.iter().flatten().find_map(|it| uri(it));
        let path = first.as_deref().and_then(file_path);
        let path = path.map_or(serde_json::Value::Null, |it| json!(it.to_string_lossy()));
        if text(initialize, &["rootUri"]).is_some() {
            patch.set("rootUri", json!(first).to_string().as_bytes());
        }
        if text(initialize, &["rootPath"]).is_some() {
            patch.set("rootPath", path.to_string().as_bytes());
        }
    }

    pub(super) fn gone(&self) -> &[String] {
        &self.gone
    }

    /// The uris of folders that `initialize` does not name.
    pub(super) fn come(&self, initialize: &[u8]) -> Vec<String> {
        let first: Vec<String> = folders_of(initialize).iter().filter_map(|it| uri(it)).collect();
        let now = self.now.iter().flatten().filter_map(|it| uri(it));
        now.filter(|it| !first.contains(it)).collect()
    }

    /// The parameters of the notification for a process that knows other folders than the current ones. Everything
    /// after the first difference is removed and added again, to keep the editor's order.
    pub(super) fn changes_since(&self, known: &[Bytes]) -> Option<Vec<u8>> {
        let now = self.now.as_ref()?;
        let same = known.iter().zip(now).take_while(|(one, other)| one == other).count();
        let (removed, added) = (&known[same..], &now[same..]);
        if removed.is_empty() && added.is_empty() {
            return None;
        }
        let parts: [&[u8]; 5] =
            [br#"{"event":{"added":"#, &array(added), br#","removed":"#, &array(removed), b"}}"];
        Some(parts.concat())
    }
}

/// The folders in parameters of `initialize`.
pub(crate) fn folders_of(initialize: &[u8]) -> Vec<Bytes> {
    let named = member(initialize, "workspaceFolders").map(|it| &initialize[it]);
    if let Some(named) = named.filter(|it| *it != b"null") {
        return listed(named);
    }
    let folder = |uri: String| {
        let name = uri.trim_end_matches('/').rsplit('/').next().unwrap_or_default().to_owned();
        Bytes::from(json!({"uri": uri, "name": name}).to_string())
    };
    root(initialize).map(folder).into_iter().collect()
}

/// The root that parameters of `initialize` name, as a URI.
fn root(initialize: &[u8]) -> Option<String> {
    let path = || {
        let path = text(initialize, &["rootPath"])?;
        Some(if file_path(&path).is_some() { path } else { file_uri(Path::new(&path)) })
    };
    text(initialize, &["rootUri"]).or_else(path)
}

fn listed(array: &[u8]) -> Vec<Bytes> {
    elements(array).map(|it| Bytes::copy_from_slice(&array[it])).collect()
}

fn uri(folder: &[u8]) -> Option<String> {
    text(folder, &["uri"])
}

fn array(items: &[Bytes]) -> Vec<u8> {
    [b"[".as_slice(), &items.join(b",".as_slice()), b"]"].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    const INITIALIZE: &[u8] = br#"{"workspaceFolders":[{"uri":"a"},{"uri":"b"}],"x":1}"#;

    fn changed(changes: &[&str]) -> Folders {
        let mut it = Folders::default();
        for change in changes {
            it.change(INITIALIZE, format!(r#"{{"event":{{{change}}}}}"#).as_bytes());
        }
        it
    }

    #[test]
    fn folders_are_those_the_editor_has_in_its_order() {
        let now = |changes: &[&str]| {
            let initialize = changed(changes).named_in(&Bytes::from_static(INITIALIZE));
            let uris: Vec<String> = folders_of(&initialize).iter().filter_map(|it| uri(it)).collect();
            uris.concat()
        };
        let (plus, minus) =
            (|it| format!(r#""added":[{{"uri":"{it}"}}]"#), |it| format!(r#""removed":[{{"uri":"{it}"}}]"#));
        assert_eq!(now(&[]), "ab");
        assert_eq!(now(&[&plus("z"), &minus("z")]), "ab");
        assert_eq!(now(&[&minus("a"), &plus("a")]), "ba");
        assert_eq!(now(&[&plus("z"), &plus("c")]), "abzc");
        assert_eq!(now(&[&plus("z"), &plus("z"), &plus("a")]), "abz");
        assert_eq!(now(&[&format!("{},{}", minus("a"), plus("a"))]), "ba");
        assert_eq!(now(&[&minus("a"), &minus("b")]), "");
        let it = changed(&[&minus("a"), &plus("z")]);
        assert_eq!((it.gone(), &it.come(INITIALIZE)[..]), (&["a".to_owned()][..], &["z".to_owned()][..]));
    }

    #[test]
    fn removed_root_gives_way_to_the_first_folder() {
        let both = br#"{"rootUri":"file:///r","rootPath":"/r","workspaceFolders":[{"uri":"file:///r"}]}"#;
        let alone = br#"{"rootUri":"file:///r","capabilities":{}}"#;
        let now = |initialize: &'static [u8], change: &str| {
            let mut it = Folders::default();
            it.change(initialize, format!(r#"{{"event":{{{change}}}}}"#).as_bytes());
            String::from_utf8(it.named_in(&Bytes::from_static(initialize)).to_vec()).unwrap()
        };
        let (plus, minus) = (r#""added":[{"uri":"file:///n"}]"#, r#""removed":[{"uri":"file:///r"}]"#);
        let moved = now(both, &format!("{plus},{minus}"));
        assert_eq!(
            moved,
            r#"{"rootUri":"file:///n","rootPath":"/n","workspaceFolders":[{"uri":"file:///n"}]}"#
        );
        assert_eq!(now(both, minus), r#"{"rootUri":null,"rootPath":null,"workspaceFolders":[]}"#);
        let gone = now(alone, minus);
        assert!(gone.contains(r#""rootUri":null"#) && gone.contains(r#""workspaceFolders":[]"#), "{gone}");
        let more = now(alone, plus);
        assert!(more.contains(r#""rootUri":"file:///r""#), "{more}");
        assert_eq!(folders_of(more.as_bytes()).len(), 2, "the root is one of them: {more}");
    }

    #[test]
    fn process_hears_only_folders_that_have_changed_since_it_began() {
        let it = changed(&[r#""added":[{"uri":"z"}]"#]);
        let known = folders_of(&it.named_in(&Bytes::from_static(INITIALIZE)));
        assert_eq!(it.changes_since(&known), None);
        assert_eq!(changed(&[]).changes_since(&known), None);
        let changes = String::from_utf8(it.changes_since(&folders_of(INITIALIZE)).unwrap()).unwrap();
        assert_eq!(changes, r#"{"event":{"added":[{"uri":"z"}],"removed":[]}}"#);
        let it = changed(&[r#""removed":[{"uri":"a"}]"#]);
        let changes = String::from_utf8(it.changes_since(&folders_of(INITIALIZE)).unwrap()).unwrap();
        assert_eq!(changes, r#"{"event":{"added":[{"uri":"b"}],"removed":[{"uri":"a"},{"uri":"b"}]}}"#);
    }
}

//! The editor's workspace folders: those of its `initialize`, with all changes.

use bytes::Bytes;

use crate::rpc::{Patch, elements, member, path, text};

/// The folders in the editor's form and order.
#[derive(Debug, Default)]
pub(super) struct Folders {
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
                Bytes::from(Patch::of(initialize).set("workspaceFolders", &array(now)).finish())
            }
            Some(_) | None => initialize.clone(),
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
    member(initialize, "workspaceFolders").map_or(Vec::new(), |it| listed(&initialize[it]))
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
    fn process_gets_only_folder_changes_since_its_start() {
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

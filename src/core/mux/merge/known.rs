//! What answers have shown of the members: who knows a method that the protocol does not have, who has made items with a
//! command that nobody offers, and who renames what is at a position.

use std::collections::{BTreeMap, VecDeque};

use crate::{
    core::event::ServerId,
    rpc::{member, text},
};

/// Names that are remembered of a kind.
const NAMES: usize = 256;

/// What was learned.
#[derive(Debug, Default)]
pub(super) struct Known {
    methods: Names,
    commands: Names,
    rename: Option<Rename>,
}

/// Whose a name is, of the last that were learned.
#[derive(Debug, Default)]
struct Names {
    by_name: BTreeMap<String, ServerId>,
    /// In the order in which they were learned.
    learned: VecDeque<String>,
}

impl Names {
    fn note(&mut self, name: &str, server: ServerId) {
        if let Some(known) = self.by_name.get_mut(name) {
            *known = server;
            return;
        }
        self.by_name.insert(name.to_owned(), server);
        self.learned.push_back(name.to_owned());
        if self.learned.len() > NAMES
            && let Some(oldest) = self.learned.pop_front()
        {
            self.by_name.remove(&oldest);
        }
    }

    fn get(&self, name: &str) -> Option<ServerId> {
        self.by_name.get(name).copied()
    }
}

/// Who has answered `prepareRename` last.
#[derive(Debug)]
struct Rename {
    uri: String,
    /// Line and character.
    position: (i64, i64),
    server: ServerId,
}

impl Known {
    /// A member has answered a request of a method that the protocol does not have.
    pub(super) fn note_method(&mut self, method: &str, server: ServerId) {
        self.methods.note(method, server);
    }

    pub(super) fn of_method(&self, method: &str) -> Option<ServerId> {
        self.methods.get(method)
    }

    /// A member has made an item with a command that no member offers.
    pub(super) fn note_command(&mut self, command: &str, server: ServerId) {
        self.commands.note(command, server);
    }

    pub(super) fn of_command(&self, command: &str) -> Option<ServerId> {
        self.commands.get(command)
    }

    /// A member says that it renames what is at the position of these parameters.
    pub(super) fn note_rename(&mut self, params: &[u8], server: ServerId) {
        self.rename = place(params).map(|(uri, position)| Rename { uri, position, server });
    }

    /// Who has said so, unless the document has changed since.
    pub(super) fn of_rename(&self, params: &[u8]) -> Option<ServerId> {
        let (uri, position) = place(params)?;
        self.rename.as_ref().filter(|it| (&it.uri, it.position) == (&uri, position)).map(|it| it.server)
    }

    /// A document has changed.
    pub(super) fn changed(&mut self, uri: &str) {
        self.rename = self.rename.take().filter(|it| it.uri != uri);
    }
}

/// The document and position in the parameters of a request.
pub(super) fn place(params: &[u8]) -> Option<(String, (i64, i64))> {
    let at = &params[member(params, "position")?];
    let number = |key| std::str::from_utf8(&at[member(at, key)?]).ok()?.parse().ok();
    Some((text(params, &["textDocument", "uri"])?, (number("line")?, number("character")?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_are_remembered_up_to_a_number() {
        let mut it = Known::default();
        for n in 0..NAMES + 2 {
            it.note_method(&format!("x/{n}"), ServerId(1));
            it.note_method(&format!("x/{n}"), ServerId(2));
        }
        assert_eq!((it.of_method("x/0"), it.of_method("x/1")), (None, None));
        assert_eq!(it.of_method("x/2"), Some(ServerId(2)));
        assert_eq!(it.methods.by_name.len(), it.methods.learned.len());
    }

    #[test]
    fn rename_is_of_a_position_until_its_document_changes() {
        let mut it = Known::default();
        let at = |uri: &str, line: u32| {
            format!(r#"{{"position":{{"character":2,"line":{line}}},"textDocument":{{"uri":"{uri}"}}}}"#)
        };
        it.note_rename(at("u", 1).as_bytes(), ServerId(1));
        assert_eq!(it.of_rename(at("u", 1).as_bytes()), Some(ServerId(1)));
        assert_eq!(it.of_rename(at("u", 2).as_bytes()), None);
        assert_eq!(it.of_rename(at("v", 1).as_bytes()), None);
        it.changed("v");
        assert_eq!(it.of_rename(at("u", 1).as_bytes()), Some(ServerId(1)));
        it.changed("u");
        assert_eq!(it.of_rename(at("u", 1).as_bytes()), None);
    }
}

//! The parts of a question, put together to one answer. Pure functions on bytes.
//!
//! An element of a part is passed on as its bytes are, with whatever members it has. Parts are given in rank order. Of
//! elements of *different* members that are the same, that of the best rank stays; within one part nothing is ever
//! removed. A part that is not what the method is answered with is left out, and its place is returned.
//!
//! Who is asked, and how long parts are waited for, is decided elsewhere.

mod client;
pub(super) mod completion;
mod diagnostics;
mod edits;
mod empty;
mod hover;
mod lists;
mod locations;
mod malformed;
pub(super) mod shared;
mod symbols;
mod tokens;
mod workspace_edit;

#[cfg(any(test, feature = "testing"))]
pub(crate) mod model;
#[cfg(test)]
mod tests;

pub(crate) use self::{
    client::ClientShape,
    empty::{is_empty, nothing},
    lists::Same,
    malformed::is_malformed,
    tokens::Legends,
};
use super::owners::{self, Maker};

/// What one member has answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part<'a> {
    /// `result`, as JSON.
    pub(crate) result: &'a [u8],
    /// Whose tag its items get. `None`: nobody else could be meant.
    pub(crate) maker: Option<Maker>,
    /// The `allCommitCharacters` of its member, as JSON, if the editor was not told them.
    pub(crate) commit_characters: Option<&'a [u8]>,
}

/// How parts become one answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Completion,
    Hover,
    /// `Location`, `Location[]` or `LocationLink[]`.
    Locations,
    /// Lists that are joined.
    List(Same),
    CodeActions,
    /// `textDocument/documentSymbol` and `workspace/symbol`.
    Symbols,
    /// `TextEdit[]`.
    Edits,
    WorkspaceEdit,
    SemanticTokens,
    /// Full reports.
    Diagnostics,
    InlineCompletion,
}

/// One answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Merged {
    pub(crate) result: Vec<u8>,
    /// Places of the parts that are not, or not wholly, what they should be. If there were others, that was left out.
    pub(crate) malformed: Vec<usize>,
    /// Places of the parts of which edits were left out because they overlap those of a better rank.
    pub(crate) overlapping: Vec<usize>,
}

impl Merged {
    fn of(result: Vec<u8>, malformed: Vec<usize>) -> Merged {
        Merged { result, malformed, overlapping: Vec::new() }
    }
}

/// Puts parts together, in rank order. `late`: a member was not waited for. `legends`: the editor was told a united legend
/// of semantic tokens, and this is how those of these parts fit into it.
pub(crate) fn merge(
    shape: Shape,
    method: &str,
    parts: &[Part<'_>],
    client: &ClientShape,
    late: bool,
    legends: Option<&Legends>,
) -> Merged {
    let question = Question { method, parts, client };
    match shape {
        Shape::Completion => completion::merge(&question, late),
        Shape::Hover => hover::merge(&question),
        Shape::Locations => locations::merge(&question),
        Shape::List(same) => lists::merge(&question, same),
        Shape::CodeActions => lists::merge(&question, Same::Action),
        Shape::Symbols => symbols::merge(&question),
        Shape::Edits => edits::merge(&question),
        Shape::WorkspaceEdit => workspace_edit::merge(&question),
        Shape::SemanticTokens => tokens::merge(&question, legends),
        Shape::Diagnostics => diagnostics::merge(&question),
        Shape::InlineCompletion => completion::merge_inline(&question),
    }
}

/// A question of which all parts are there that will be.
#[derive(Clone, Copy)]
struct Question<'a> {
    method: &'a str,
    parts: &'a [Part<'a>],
    client: &'a ClientShape,
}

/// What was read of one part.
enum Reading<T> {
    /// It says nothing.
    Nothing,
    Whole(T),
    /// Something was left out.
    Partly(T),
    Malformed,
}

/// The parts that say something.
struct Heard<T> {
    parts: Vec<(usize, T)>,
    malformed: Vec<usize>,
    /// The best-ranked part that says nothing.
    silent: Option<usize>,
}

impl<'a> Question<'a> {
    fn hear<T>(&self, read: impl Fn(&'a Part<'a>) -> Reading<T>) -> Heard<T> {
        let mut heard = Heard { parts: Vec::new(), malformed: Vec::new(), silent: None };
        for (n, part) in self.parts.iter().enumerate() {
            let reading = if shared::is_null(part.result) { Reading::Nothing } else { read(part) };
            match reading {
                Reading::Nothing => drop(heard.silent.get_or_insert(n)),
                Reading::Whole(it) => heard.parts.push((n, it)),
                Reading::Partly(it) => {
                    heard.parts.push((n, it));
                    heard.malformed.push(n);
                }
                Reading::Malformed => heard.malformed.push(n),
            }
        }
        heard
    }

    /// The answer if there is nothing to put together: only one member has spoken, or only one has said something.
    fn settled<T>(&self, heard: &Heard<T>) -> Option<Merged> {
        let merged = |result| Some(Merged::of(result, heard.malformed.clone()));
        match (self.parts, &heard.parts[..]) {
            ([only], _) => merged(self.as_it_came(only)),
            (_, []) => merged(match heard.silent {
                Some(n) => self.parts[n].result.to_vec(),
                None => b"null".to_vec(),
            }),
            (parts, [(n, _)]) if !heard.malformed.contains(n) => merged(self.as_it_came(&parts[*n])),
            (_, _) => None,
        }
    }

    /// A part as its member wrote it, but for tags.
    fn as_it_came(&self, part: &Part<'_>) -> Vec<u8> {
        match part.maker {
            Some(maker) => owners::tag_answer(self.method, part.result, maker),
            None => part.result.to_vec(),
        }
    }
}

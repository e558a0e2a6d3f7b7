//! Converts a message of a process to the encoding of the editor.
//!
//! Its positions are converted **document by document, as their texts are known**, so that no text needs to be kept for
//! it. In a text that nobody knows, a place stays as the process has counted it, and is wrong at most by some characters
//! in its line. An edit there would do harm, so lspool refuses it.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    path::{Path, PathBuf},
};

use super::{
    texts::{DOCUMENT, EDITORS, ITEMS, document_of},
    walk::{self, Named, Of, Place},
};
use crate::{
    core::mux::{
        merge::owners::Tag,
        session::documents::{Edited, Encoding, Position, number},
    },
    rpc::{Frame, Kind, elements, file_path, member},
};

/// What is left to be converted in one document.
#[derive(Debug, Default)]
pub(super) struct Unconverted {
    uri: String,
    places: Vec<Place>,
    /// The list of semantic tokens.
    tokens: Option<Range<usize>>,
}

/// A message, what of it is converted, and what is not yet.
#[derive(Debug)]
pub(super) struct Conversion {
    frame: Frame,
    encoding: Encoding,
    /// The method of the request that it answers, and the document of that.
    method: String,
    document: Option<String>,
    left: Vec<(Named, Unconverted)>,
    files: BTreeMap<PathBuf, Unconverted>,
    parts: Vec<(Range<usize>, Vec<u8>)>,
    unknown: BTreeSet<String>,
    /// Edits in texts that are not known.
    edits: Vec<Range<usize>>,
}

/// A converted message.
#[derive(Debug)]
pub(super) struct Converted {
    /// The message. An error: it has edits in documents whose texts are not known.
    pub(super) result: Result<Frame, Frame>,
    /// The documents whose texts are not known.
    pub(super) unknown: BTreeSet<String>,
}

fn body_of(frame: &Frame) -> &[u8] {
    frame.params().or_else(|| frame.result()).unwrap_or_default()
}

impl Place {
    /// The part of a message that changes if the place is counted in another way.
    pub(super) fn counted(
        self,
        text: &mut Edited,
        from: Encoding,
        to: Encoding,
    ) -> Option<(Range<usize>, Vec<u8>)> {
        let character = text.recounted(self.position, from, to);
        (character != self.position.character).then(|| (self.at, character.to_string().into_bytes()))
    }
}

impl Conversion {
    pub(super) fn new(frame: Frame, encoding: Encoding, asked: Option<&Frame>) -> Conversion {
        let document = asked.and_then(document_of);
        let method = asked.and_then(Frame::method).unwrap_or_default().to_owned();
        let body = body_of(&frame);
        let (named, places) = walk::places(body, document.as_deref());
        let mut left: Vec<(Named, Unconverted)> = Vec::new();
        let mut of_document = BTreeMap::new();
        let mut of = |named: &Named| -> usize {
            let key = (named.uri.clone(), named.version);
            *of_document.entry(key).or_insert_with(|| {
                left.push((named.clone(), Unconverted { uri: named.uri.clone(), ..Unconverted::default() }));
                left.len() - 1
            })
        };
        let indexes: Vec<(usize, Place)> =
            places.into_iter().map(|(it, place)| (of(&named[it]), place)).collect();
        let tokens = member(body, "data").filter(|_| method.starts_with("textDocument/semanticTokens/"));
        if let (Some(uri), Some(at)) = (document.clone(), tokens) {
            let index = of(&Named { uri, version: None });
            left[index].1.tokens = Some(at);
        }
        for (index, place) in indexes {
            left[index].1.places.push(place);
        }
        Conversion {
            frame,
            encoding,
            method,
            document,
            left,
            files: BTreeMap::new(),
            parts: Vec::new(),
            unknown: BTreeSet::new(),
            edits: Vec::new(),
        }
    }

    pub(super) fn is_answer(&self) -> bool {
        self.frame.kind() == Kind::Response
    }

    /// What is to be converted, by document.
    pub(super) fn take_left(&mut self) -> Vec<(Named, Unconverted)> {
        std::mem::take(&mut self.left)
    }

    /// Converts what is in a document with this text. Without a text it waits for the file.
    pub(super) fn settle(&mut self, left: Unconverted, text: Option<&mut Edited>) {
        match (text, file_path(&left.uri)) {
            (Some(text), _) => self.convert(left, text),
            (None, None) => self.note_unknown(left),
            (None, Some(path)) => {
                let waiting = self.files.entry(path).or_default();
                waiting.uri = left.uri;
                waiting.places.extend(left.places);
                waiting.tokens = waiting.tokens.take().or(left.tokens);
            }
        }
    }

    /// The files that it waits for.
    pub(super) fn missing(&self) -> impl Iterator<Item = &PathBuf> {
        self.files.keys()
    }

    /// How many bytes wait with it.
    pub(super) fn n_bytes(&self) -> usize {
        self.frame.body().len()
    }

    /// A file was read, or cannot be. Gives whether it has waited for that.
    pub(super) fn settle_file(&mut self, path: &Path, text: Option<&mut Edited>) -> bool {
        let Some(left) = self.files.remove(path) else { return false };
        match text {
            Some(text) => self.convert(left, text),
            None => self.note_unknown(left),
        }
        true
    }

    /// Waits no more.
    pub(super) fn stop_waiting_for_files(&mut self) {
        for left in std::mem::take(&mut self.files).into_values() {
            self.note_unknown(left);
        }
    }

    fn convert(&mut self, left: Unconverted, text: &mut Edited) {
        let (from, to) = (self.encoding, EDITORS);
        self.parts.extend(left.places.into_iter().filter_map(|it| it.counted(text, from, to)));
        let tokens = left.tokens.and_then(|at| {
            let recount = |line, character| text.recounted(Position { line, character }, from, to);
            Some((at.clone(), tokens(&body_of(&self.frame)[at], recount)?))
        });
        self.parts.extend(tokens);
    }

    /// Nobody knows the text: places stay, and edits are refused.
    fn note_unknown(&mut self, left: Unconverted) {
        self.edits.extend(left.places.into_iter().filter(|it| it.of == Of::Edit).map(|it| it.at));
        self.unknown.insert(left.uri);
    }

    /// The message as far as it can be converted. Treats files that are not read yet as unknown.
    pub(super) fn finish(mut self) -> Converted {
        self.stop_waiting_for_files();
        let Conversion { frame, method, document, parts, edits, unknown, .. } = self;
        let body = body_of(&frame);
        let is_changed = !parts.is_empty();
        let told = match edits.is_empty() {
            true => walk::rewritten(body, parts),
            false if method == "textDocument/codeAction" && body.trim_ascii_start().starts_with(b"[") => {
                without_elements(body, &parts, &edits)
            }
            false => return Converted { result: Err(frame), unknown },
        };
        let tagged = document.filter(|_| ITEMS.contains(&&*method));
        let tagged = tagged.map(|it| Tag::of(DOCUMENT, &it).put_answer(&method, &told));
        let is_changed = is_changed || tagged.is_some() || !edits.is_empty();
        let told = tagged.unwrap_or(told);
        let result = Ok(match (is_changed, frame.params()) {
            (false, _) => frame,
            (true, Some(_)) => frame.with_params(&told),
            (true, None) => frame.with_result(&told),
        });
        Converted { result, unknown }
    }
}

/// The list, rewritten, without the elements in which one of these is.
fn without_elements(list: &[u8], parts: &[(Range<usize>, Vec<u8>)], out: &[Range<usize>]) -> Vec<u8> {
    let is_in = |at: &Range<usize>, it: &Range<usize>| at.start <= it.start && it.end <= at.end;
    let kept = elements(list).filter(|at| !out.iter().any(|it| is_in(at, it)));
    let kept = kept.map(|at| {
        let own = parts.iter().filter(|(it, _)| is_in(&at, it));
        let own = own.map(|(it, with)| (it.start - at.start..it.end - at.start, with.clone())).collect();
        walk::rewritten(&list[at], own)
    });
    let kept: Vec<Vec<u8>> = kept.collect();
    [b"[".as_slice(), &kept.join(b",".as_slice()), b"]"].concat()
}

/// A list of semantic tokens, counted in another way. `None`: it cannot be read.
fn tokens(data: &[u8], mut recount: impl FnMut(u32, u32) -> u32) -> Option<Vec<u8>> {
    let numbers: Vec<u32> = elements(data).map(|it| number(&data[it])).collect::<Option<_>>()?;
    let (mut line, mut at) = (0_u32, 0_u32);
    let mut told = Vec::with_capacity(numbers.len());
    let (mut told_line, mut told_at) = (0, 0);
    for token in numbers.as_chunks::<5>().0 {
        let [lines, characters, length, kind, modifiers] = *token;
        (line, at) = match lines {
            0 => (line, at.checked_add(characters)?),
            _ => (line.checked_add(lines)?, characters),
        };
        let start = recount(line, at);
        let end = recount(line, at.checked_add(length)?);
        let before = if line == told_line { told_at } else { 0 };
        // Tokens may be in any order only within what the protocol can say.
        told.extend([
            line - told_line,
            start.checked_sub(before)?,
            end.saturating_sub(start),
            kind,
            modifiers,
        ]);
        (told_line, told_at) = (line, start);
    }
    let data: Vec<String> = told.iter().map(u32::to_string).collect();
    Some(format!("[{}]", data.join(",")).into_bytes())
}

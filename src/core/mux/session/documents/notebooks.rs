//! Open notebooks. Changes are applied to the `didOpen` of the notebook, as with texts; other members stay as
//! written.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::value::{RawValue, to_raw_value};
use tracing::warn;

use super::{Encoding, UNFOLDED, UNFOLDED_BYTES, changes::Position, edited::Edited};
use crate::rpc::LooseText;

/// A notebook with its changes.
#[derive(Debug)]
pub(super) struct Notebook {
    /// The parameters of `didOpen`, at the last application.
    open: Bytes,
    /// The parameters of each `didChange` since.
    changes: Vec<Bytes>,
}

impl Notebook {
    pub(super) fn opened(params: &Bytes) -> Notebook {
        Notebook { open: params.clone(), changes: Vec::new() }
    }

    pub(super) fn changed(&mut self, params: &Bytes, encoding: Encoding) {
        self.changes.push(params.clone());
        let n_bytes: usize = self.changes.iter().map(Bytes::len).sum();
        if self.changes.len() >= UNFOLDED || n_bytes > UNFOLDED_BYTES.max(self.open.len() / 2) {
            self.fold(encoding);
        }
    }

    /// The parameters of the `didOpen` for the current notebook.
    pub(super) fn params(&mut self, encoding: Encoding) -> Bytes {
        self.fold(encoding);
        self.open.clone()
    }

    fn fold(&mut self, encoding: Encoding) {
        if self.changes.is_empty() {
            return;
        }
        let changes = std::mem::take(&mut self.changes);
        let Some(mut opened) = Opened::read(String::from_utf8_lossy(&self.open).as_bytes()) else {
            return warn!("could not read a notebook; kept it as opened");
        };
        for change in changes {
            // The reader decides about bytes that are not UTF-8.
            match serde_json::from_str(&String::from_utf8_lossy(&change)) {
                Ok(change) => opened.apply(change, encoding),
                Err(error) => warn!(column = error.column(), "skipped an unreadable change of a notebook"),
            }
        }
        match opened.finish() {
            Ok(params) => self.open = params,
            Err(_) => warn!("could not write a notebook; kept it unchanged"),
        }
    }
}

/// An object of which only some members are read.
type Object = BTreeMap<String, Box<RawValue>>;

/// A notebook during changes.
struct Opened {
    params: Object,
    notebook: Object,
    cells: Vec<Box<RawValue>>,
    texts: Vec<Text>,
}

/// The text of a cell.
struct Text {
    item: Object,
    /// Set once it has changed.
    edited: Option<Edited>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DidChangeNotebook {
    notebook_document: Versioned,
    change: Change,
}

#[derive(Deserialize)]
struct Versioned {
    #[serde(default)]
    uri: String,
    version: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct Change {
    metadata: Option<Box<RawValue>>,
    cells: Option<Cells>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Cells {
    structure: Option<Structure>,
    data: Option<Vec<Box<RawValue>>>,
    text_content: Option<Vec<TextContent>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Structure {
    array: Splice,
    did_open: Option<Vec<Object>>,
    did_close: Option<Vec<Versioned>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Splice {
    start: usize,
    delete_count: usize,
    cells: Option<Vec<Box<RawValue>>>,
}

#[derive(Deserialize)]
struct TextContent {
    document: Versioned,
    changes: Vec<Edit>,
}

#[derive(Deserialize)]
struct Edit {
    range: Option<Range>,
    text: LooseText,
}

#[derive(Deserialize)]
struct Range {
    start: Position,
    end: Position,
}

impl Opened {
    fn read(params: &[u8]) -> Option<Opened> {
        let params: Object = serde_json::from_slice(params).ok()?;
        let notebook: Object = member(&params, "notebookDocument")?;
        let cells = member(&notebook, "cells").unwrap_or_default();
        let items: Vec<Object> = member(&params, "cellTextDocuments").unwrap_or_default();
        Some(Opened { params, notebook, cells, texts: items.into_iter().map(Text::of).collect() })
    }

    fn apply(&mut self, change: DidChangeNotebook, encoding: Encoding) {
        let DidChangeNotebook { notebook_document, change: Change { metadata, cells } } = change;
        put(&mut self.notebook, "version", notebook_document.version);
        put(&mut self.notebook, "metadata", metadata);
        let Some(Cells { structure, data, text_content }) = cells else { return };
        if let Some(structure) = structure {
            self.restructure(structure);
        }
        for cell in data.into_iter().flatten() {
            let document = document_of(&cell);
            if let Some(old) = self.cells.iter_mut().find(|it| document_of(it) == document) {
                *old = cell;
            }
        }
        for TextContent { document, changes } in text_content.into_iter().flatten() {
            let found = self.texts.iter_mut().find(|it| it.uri().is_some_and(|uri| uri == document.uri));
            match found {
                Some(text) => text.apply(document.version, changes, encoding),
                None => warn!(document.uri, "skipped a change of an unknown notebook cell"),
            }
        }
    }

    fn restructure(&mut self, Structure { array, did_open, did_close }: Structure) {
        let start = array.start.min(self.cells.len());
        let end = start.saturating_add(array.delete_count).min(self.cells.len());
        self.cells.splice(start..end, array.cells.into_iter().flatten());
        let closed: Vec<String> = did_close.into_iter().flatten().map(|it| it.uri).collect();
        self.texts.retain(|it| it.uri().is_none_or(|uri| !closed.contains(&uri)));
        self.texts.extend(did_open.into_iter().flatten().map(Text::of));
    }

    fn finish(mut self) -> serde_json::Result<Bytes> {
        let texts: Vec<Object> = self.texts.into_iter().map(Text::finish).collect::<Result<_, _>>()?;
        self.notebook.insert("cells".to_owned(), to_raw_value(&self.cells)?);
        self.params.insert("notebookDocument".to_owned(), to_raw_value(&self.notebook)?);
        self.params.insert("cellTextDocuments".to_owned(), to_raw_value(&texts)?);
        serde_json::to_vec(&self.params).map(Bytes::from)
    }
}

impl Text {
    fn of(item: Object) -> Text {
        Text { item, edited: None }
    }

    fn uri(&self) -> Option<String> {
        member(&self.item, "uri")
    }

    fn apply(&mut self, version: Option<Box<RawValue>>, changes: Vec<Edit>, encoding: Encoding) {
        put(&mut self.item, "version", version);
        let text = || member(&self.item, "text").map_or(Vec::new(), LooseText::into_bytes);
        let new = || Edited::new(text(), encoding);
        let edited = self.edited.get_or_insert_with(new);
        for Edit { range, text } in changes {
            edited.apply(range.map(|it| (it.start, it.end)), &text.into_bytes());
        }
    }

    fn finish(mut self) -> serde_json::Result<Object> {
        if let Some(edited) = self.edited {
            let text = String::from_utf8_lossy(&LooseText::quoted(&edited.finish())).into_owned();
            self.item.insert("text".to_owned(), RawValue::from_string(text)?);
        }
        Ok(self.item)
    }
}

/// The document of a cell.
fn document_of(cell: &RawValue) -> Option<String> {
    #[derive(Deserialize)]
    struct Cell {
        document: String,
    }
    serde_json::from_str(cell.get()).ok().map(|it: Cell| it.document)
}

fn member<T: DeserializeOwned>(object: &Object, key: &str) -> Option<T> {
    serde_json::from_str(object.get(key)?.get()).ok()
}

fn put(object: &mut Object, key: &str, value: Option<Box<RawValue>>) {
    object.extend(value.map(|it| (key.to_owned(), it)));
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn bytes(value: &Value) -> Bytes {
        Bytes::from(value.to_string())
    }

    fn cell(n: u32) -> Value {
        json!({"kind": 2, "document": format!("cell:{n}"), "metadata": {"n": n}})
    }

    fn item(n: u32, version: u32, text: &str) -> Value {
        json!({"uri": format!("cell:{n}"), "languageId": "python", "version": version, "text": text})
    }

    fn opened(cells: &[Value], texts: &[Value], version: u32) -> Value {
        let notebook =
            json!({"uri": "n", "notebookType": "jupyter", "version": version, "cells": cells, "x": 1e2});
        json!({"notebookDocument": notebook, "cellTextDocuments": texts, "y": null})
    }

    fn changed(version: u32, cells: &Value) -> Bytes {
        bytes(&json!({"notebookDocument": {"uri": "n", "version": version}, "change": {"cells": cells}}))
    }

    fn typed(n: u32, version: u32, at: (u32, u32), with: &str) -> Value {
        let at = json!({"line": at.0, "character": at.1});
        let edit = json!({"range": {"start": at, "end": at}, "rangeLength": 0, "text": with});
        json!({"textContent": [{"document": {"uri": format!("cell:{n}"), "version": version}, "changes": [edit]}]})
    }

    fn now(notebook: &mut Notebook) -> Value {
        serde_json::from_slice(&notebook.params(Encoding::Utf16)).unwrap()
    }

    #[test]
    fn notebook_reopens_in_its_current_state() {
        let open = opened(&[cell(1), cell(2)], &[item(1, 1, "é = 1\n"), item(2, 1, "b")], 1);
        let mut notebook = Notebook::opened(&bytes(&open));
        assert_eq!(now(&mut notebook), open);

        let array = json!({"start": 1, "deleteCount": 1, "cells": [cell(3), cell(4)]});
        let didopen = json!([item(3, 1, "c"), item(4, 1, "d")]);
        let structure = json!({"array": array, "didOpen": didopen, "didClose": [{"uri": "cell:2"}]});
        let all = [
            typed(1, 2, (0, 1), "é"),
            json!({"structure": structure, "data": null}),
            typed(1, 3, (0, 2), "!"),
            json!({"data": [{"kind": 1, "document": "cell:4"}]}),
            json!({"textContent": [{"document": {"uri": "cell:3", "version": 2}, "changes": [{"text": "all"}]}]}),
            typed(2, 9, (0, 0), "of a cell that is closed"),
        ];
        for (version, cells) in (2..).zip(&all) {
            notebook.changed(&changed(version, cells), Encoding::Utf16);
        }
        let cells = [cell(1), cell(3), json!({"kind": 1, "document": "cell:4"})];
        let texts = [item(1, 3, "éé! = 1\n"), item(3, 2, "all"), item(4, 1, "d")];
        assert_eq!(now(&mut notebook), opened(&cells, &texts, 7));

        let metadata =
            json!({"notebookDocument": {"uri": "n", "version": 8}, "change": {"metadata": {"k": 1}}});
        notebook.changed(&bytes(&metadata), Encoding::Utf16);
        let told = now(&mut notebook);
        assert_eq!(
            (&told["notebookDocument"]["metadata"], &told["notebookDocument"]["version"]),
            (&json!({"k": 1}), &json!(8))
        );
    }

    #[test]
    fn notebook_folds_changes_of_many_keystrokes() {
        let mut notebook = Notebook::opened(&bytes(&opened(&[cell(1)], &[item(1, 1, "")], 1)));
        for version in 2..2000 {
            notebook.changed(&changed(version, &typed(1, version, (0, version - 2), "x")), Encoding::Utf16);
            assert!(notebook.changes.len() < UNFOLDED);
        }
        assert_eq!(now(&mut notebook)["cellTextDocuments"][0]["text"], json!("x".repeat(1998)));
    }

    #[test]
    fn notebook_ignores_unreadable_changes() {
        let open = opened(&[cell(1)], &[item(1, 1, "a")], 1);
        let mut notebook = Notebook::opened(&bytes(&open));
        for odd in [
            json!({"structure": {"array": {"start": -1}}}),
            json!([]),
            json!({"data": [7], "textContent": 1}),
        ] {
            notebook.changed(&changed(2, &odd), Encoding::Utf16);
        }
        let past = json!({"array": {"start": 7, "deleteCount": usize::MAX}});
        notebook.changed(&changed(1, &json!({"structure": past})), Encoding::Utf16);
        assert_eq!(now(&mut notebook), open);
        let mut odd = Notebook::opened(&Bytes::from_static(b"[]"));
        odd.changed(&changed(2, &json!({})), Encoding::Utf16);
        assert_eq!(odd.params(Encoding::Utf16), "[]");
    }
}

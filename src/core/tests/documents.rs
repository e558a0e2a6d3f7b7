//! Edits of open documents, against a model that walks over the text character by character.

use bytes::Bytes;
use proptest::{collection::vec, prelude::*};
use serde_json::{Value, json};

use crate::{
    core::mux::session::documents::{Documents, Encoding},
    rpc::{path, text},
};

/// One entry of `contentChanges`.
#[derive(Clone, Debug)]
struct Edit {
    /// Line and character of both ends; absent: the whole text.
    range: Option<[(u32, u32); 2]>,
    text: String,
}

impl Edit {
    fn json(&self) -> Value {
        match self.range {
            None => json!({"text": self.text}),
            Some(ends) => {
                let [start, end] =
                    ends.map(|(line, character)| json!({"line": line, "character": character}));
                json!({"range": {"start": start, "end": end}, "text": self.text})
            }
        }
    }

    fn apply(&self, text: &mut Vec<u32>, encoding: Encoding) {
        let range = match self.range {
            None => 0..text.len(),
            Some(ends) => {
                for end in ends {
                    part(text, end, encoding);
                }
                let [start, end] = ends.map(|it| index(text, it, encoding).0);
                start.min(end)..start.max(end)
            }
        };
        text.splice(range, self.text.chars().map(u32::from));
    }
}

/// A position in the middle of a surrogate pair makes two characters of it.
fn part(text: &mut Vec<u32>, position: (u32, u32), encoding: Encoding) {
    let (at, left) = index(text, position, encoding);
    let pair = text.get(at).and_then(|it| char::from_u32(*it)).filter(|it| it.len_utf16() == 2);
    if let (Encoding::Utf16, 1, Some(pair)) = (encoding, left, pair) {
        let mut units = [0; 2];
        pair.encode_utf16(&mut units);
        text.splice(at..=at, units.map(u32::from));
    }
}

/// The last place that is not behind the position, and how many units that is before it, if it is in that line.
fn index(text: &[u32], (line, character): (u32, u32), encoding: Encoding) -> (usize, usize) {
    let (mut at_line, mut units) = (0, 0);
    for (at, c) in text.iter().enumerate() {
        let c = char::from_u32(*c);
        let breaks = matches!(c, Some('\n' | '\r'));
        let width = match encoding {
            Encoding::Utf8 => c.map_or(3, char::len_utf8),
            Encoding::Utf16 => c.map_or(1, char::len_utf16),
            Encoding::Utf32 => 1,
        };
        if at_line == line && (breaks || units + width > character as usize) {
            return (at, character as usize - units);
        }
        units += width;
        let crlf = c == Some('\r') && text.get(at + 1) == Some(&u32::from('\n'));
        if breaks && !crlf {
            (at_line, units) = (at_line + 1, 0);
        }
    }
    (text.len(), 0)
}

/// The text, in which halves of a pair that have come together are one character.
fn text_of(model: &[u32]) -> String {
    let mut units = Vec::new();
    for c in model {
        match char::from_u32(*c) {
            Some(c) => units.extend_from_slice(c.encode_utf16(&mut [0; 2])),
            None => units.push(u16::try_from(*c).expect("half of a pair")),
        }
    }
    String::from_utf16_lossy(&units)
}

fn some_text() -> impl Strategy<Value = String> {
    let c = prop_oneof![
        4 => prop::sample::select(vec!["a", "\"", "\\", "\u{0}", "\u{2028}"]),
        3 => prop::sample::select(vec!["\n", "\r\n", "\r"]),
        2 => prop::sample::select(vec!["é", "€", "😀", "e\u{301}"]),
    ];
    vec(c, 0..12).prop_map(|it| it.concat())
}

fn edit() -> impl Strategy<Value = Edit> {
    let position = || (0..6_u32, 0..9_u32);
    let range = prop::option::weighted(0.9, [position(), position()]);
    (range, some_text()).prop_map(|(range, text)| Edit { range, text })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn fresh_process_receives_current_document_text(
        first in some_text(),
        changes in vec((vec(edit(), 0..4), any::<bool>()), 0..8),
        encoding in prop::sample::select(vec![Encoding::Utf8, Encoding::Utf16, Encoding::Utf32]),
    ) {
        let bytes = |value: Value| Bytes::from(value.to_string());
        let told = |documents: &mut Documents| -> Value {
            let told = documents.all_restored();
            assert_eq!(told.len(), 1);
            // Half of a surrogate pair is no text for serde_json.
            let place = path(&told[0].1, &["textDocument", "text"]).expect("there is a text");
            let text = text(&told[0].1, &["textDocument", "text"]).expect("it is a string");
            let text = json!(text).to_string();
            let whole = [&told[0].1[..place.start], text.as_bytes(), &told[0].1[place.end..]];
            let params: Value = serde_json::from_slice(&whole.concat()).expect("parameters are JSON");
            params["textDocument"].clone()
        };
        let mut documents = Documents::default();
        documents.set_encoding(encoding);
        let item = json!({"uri": "u", "languageId": "x", "version": 0, "text": first, "other": 1.5});
        documents.opened(&bytes(json!({"textDocument": item})));
        let mut model: Vec<u32> = first.chars().map(u32::from).collect();
        let mut version = 0;
        for (edits, looks) in &changes {
            version += 1;
            let edits_json: Vec<Value> = edits.iter().map(Edit::json).collect();
            let id = json!({"uri": "u", "version": version});
            documents.changed(&bytes(json!({"textDocument": id, "contentChanges": edits_json})));
            for edit in edits {
                edit.apply(&mut model, encoding);
            }
            // It does not matter when the changes are folded.
            if *looks {
                let expected = text_of(&model);
                prop_assert_eq!(&told(&mut documents)["text"], &json!(expected));
            }
        }
        let expected = text_of(&model);
        let item = json!({"uri": "u", "languageId": "x", "version": version, "text": expected, "other": 1.5});
        prop_assert_eq!(told(&mut documents), item);
    }
}

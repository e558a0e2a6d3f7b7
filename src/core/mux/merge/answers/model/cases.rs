//! Parts of any shape, made of bytes.

use serde_json::{Value, json};

use super::{Same, Shape};

/// Bytes that decide; when there are no more, the first choice is made.
pub(super) struct Dice<'a>(pub(super) &'a [u8]);

/// What makes a value.
type Make<'a, 'd> = &'a dyn Fn(&mut Dice<'d>) -> Value;

impl<'d> Dice<'d> {
    pub(super) fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    pub(super) fn roll(&mut self, sides: usize) -> usize {
        usize::from(self.byte()) % sides
    }

    fn one_in(&mut self, sides: usize) -> bool {
        self.roll(sides) == sides - 1
    }

    fn pick(&mut self, of: &[Value]) -> Value {
        of[self.roll(of.len())].clone()
    }

    fn text(&mut self) -> Value {
        let texts = ["a", "b", "", "é", "a\"\\b", "a\n", "😀", "`x``y"];
        json!(texts[self.roll(texts.len())])
    }

    fn number(&mut self, below: usize) -> Value {
        json!(self.roll(below))
    }

    /// What hardly belongs anywhere.
    fn odd(&mut self) -> Value {
        self.pick(&[json!(null), json!(5), json!("x"), json!([]), json!({}), json!([null])])
    }

    fn uri(&mut self) -> Value {
        self.pick(&[json!("file:///a%20b"), json!("file:///a b"), json!("file:///c"), json!("FILE:///C%3a/")])
    }

    fn position(&mut self) -> Value {
        json!({"line": self.roll(2), "character": self.roll(6)})
    }

    fn range(&mut self) -> Value {
        if self.one_in(24) {
            return json!({"start": self.position()});
        }
        let (line, start) = (self.roll(3), self.roll(6));
        let end = start + self.roll(3);
        json!({"start": {"line": line, "character": start}, "end": {"line": line, "character": end}})
    }

    fn list(&mut self, item: impl Fn(&mut Self) -> Value) -> Value {
        match self.roll(12) {
            10 => json!(null),
            11 => self.odd(),
            _ => {
                let items = self.roll(5);
                (0..items).map(|_| if self.one_in(24) { self.odd() } else { item(self) }).collect()
            }
        }
    }

    /// An object of which each member may be missing.
    fn object(&mut self, members: &[(&str, Make<'_, 'd>)]) -> Value {
        let mut object = json!({});
        for (key, value) in members {
            match self.roll(8) {
                0..=3 => object[*key] = value(self),
                4..=6 => {}
                _ => object[*key] = json!(null),
            }
        }
        object
    }
}

pub(super) struct Case {
    pub(super) shape: Shape,
    pub(super) method: &'static str,
    pub(super) parts: Vec<Value>,
    pub(super) client: Value,
    pub(super) is_tagged: bool,
    pub(super) is_pretty: bool,
    pub(super) late: bool,
    pub(super) legends: Option<(Value, Vec<Value>)>,
}

impl Case {
    pub(super) fn roll(shape: Shape, method: &'static str, dice: &mut Dice<'_>) -> Case {
        let [links, tree, changes] = [0; 3].map(|_| dice.roll(2) == 0);
        let mut text_document = json!({
            "definition": {"linkSupport": links},
            "documentSymbol": {"hierarchicalDocumentSymbolSupport": tree},
        });
        match dice.roll(3) {
            0 => text_document["hover"] = json!({"contentFormat": ["markdown"]}),
            1 => text_document["hover"] = json!({"contentFormat": ["plaintext"]}),
            _ => {}
        }
        let client = json!({"capabilities": {
            "textDocument": text_document,
            "workspace": {"workspaceEdit": {"documentChanges": changes}},
        }});
        let [is_tagged, is_pretty, late] = [0; 3].map(|_| dice.roll(2) == 1);
        let count = dice.roll(4);
        let parts: Vec<Value> = (0..count).map(|_| part(shape, method, dice)).collect();
        let legends = (shape == Shape::SemanticTokens && dice.roll(4) > 0).then(|| {
            let names = |dice: &mut Dice<'_>, of: &[&'static str]| {
                let from = dice.roll(of.len());
                of.iter().cycle().skip(from).take(of.len() - dice.roll(2)).copied().collect::<Vec<_>>()
            };
            let mut legend = || {
                let (types, modifiers) = (names(dice, &["a", "b", "c"]), names(dice, &["m", "n"]));
                json!({"tokenTypes": types, "tokenModifiers": modifiers})
            };
            (legend(), (0..count).map(|_| legend()).collect())
        });
        Case { shape, method, parts, client, is_tagged, is_pretty, late, legends }
    }
}

fn part(shape: Shape, method: &str, dice: &mut Dice<'_>) -> Value {
    match shape {
        Shape::Completion => completions(dice),
        Shape::Hover => hover(dice),
        Shape::Locations if dice.roll(4) == 0 => location(dice),
        Shape::Locations => dice.list(location),
        Shape::List(same) => dice.list(|dice| element(same, dice)),
        Shape::CodeActions => dice.list(action),
        Shape::Symbols if method == "workspace/symbol" => dice.list(flat_symbol),
        Shape::Symbols => dice.list(|dice| if dice.one_in(2) { flat_symbol(dice) } else { symbol(2, dice) }),
        Shape::Edits => dice.list(edit),
        Shape::WorkspaceEdit => workspace_edit(dice),
        Shape::SemanticTokens => tokens(dice),
        Shape::Diagnostics => report(dice),
        Shape::InlineCompletion if dice.roll(2) == 0 => json!({"items": dice.list(inline)}),
        Shape::InlineCompletion => dice.list(inline),
    }
}

fn inline(dice: &mut Dice<'_>) -> Value {
    json!({"insertText": dice.text()})
}

fn characters(dice: &mut Dice<'_>) -> Value {
    dice.pick(&[json!(["."]), json!([".", ";"]), json!([]), json!(["é"])])
}

fn data(dice: &mut Dice<'_>) -> Value {
    dice.pick(&[json!({"a": 1}), json!({"b": [2], "a": 3}), json!(7), json!("x"), json!({"lspool": "1.1"})])
}

fn completions(dice: &mut Dice<'_>) -> Value {
    let items = dice.list(|dice| {
        let mut item = dice.object(&[
            ("kind", &|dice| dice.number(2)),
            ("insertText", &Dice::text),
            ("textEditText", &Dice::text),
            ("textEdit", &|dice| json!({"range": dice.range(), "newText": dice.text()})),
            ("data", &data),
            ("commitCharacters", &characters),
            ("insertTextFormat", &|dice| dice.number(2)),
        ]);
        item["label"] = dice.text();
        item
    });
    if dice.roll(3) == 0 {
        return items;
    }
    let mut list = dice.object(&[
        ("isIncomplete", &|dice| json!(dice.roll(2) == 1)),
        ("itemDefaults", &|dice| {
            dice.object(&[
                ("commitCharacters", &characters),
                ("editRange", &Dice::range),
                ("insertTextFormat", &|dice| dice.number(2)),
                ("data", &data),
                ("x", &Dice::text),
            ])
        }),
        ("applyKind", &|dice| json!({"data": dice.roll(3), "commitCharacters": dice.roll(3)})),
        ("y", &Dice::text),
    ]);
    list["items"] = items;
    list
}

fn hover(dice: &mut Dice<'_>) -> Value {
    let marked = |dice: &mut Dice<'_>| match dice.roll(3) {
        0 => json!({"language": "l", "value": dice.text()}),
        _ => dice.text(),
    };
    let contents = match dice.roll(6) {
        0 | 1 => json!({"kind": "markdown", "value": dice.text()}),
        2 => json!({"kind": "plaintext", "value": dice.text()}),
        3 => marked(dice),
        4 => (0..dice.roll(3)).map(|_| marked(dice)).collect(),
        _ => dice.odd(),
    };
    if dice.one_in(8) {
        return json!(null);
    }
    let mut hover = json!({"contents": contents});
    if dice.roll(2) == 0 {
        hover["range"] = dice.range();
    }
    hover
}

fn location(dice: &mut Dice<'_>) -> Value {
    let (uri, range) = (dice.uri(), dice.range());
    if dice.roll(2) == 0 {
        return json!({"uri": uri, "range": range});
    }
    let mut link = json!({"targetUri": uri, "targetRange": dice.range(), "targetSelectionRange": range});
    if dice.roll(2) == 0 {
        link["originSelectionRange"] = dice.range();
    }
    link
}

fn element(same: Same, dice: &mut Dice<'_>) -> Value {
    let mut element = dice.object(&[("x", &Dice::text), ("data", &data)]);
    match same {
        Same::Never | Same::Bytes | Same::Action => {}
        Same::Range => element["range"] = dice.range(),
        Same::Label => element["label"] = dice.text(),
        Same::Hint => {
            element["position"] = dice.position();
            element["label"] = match dice.roll(2) {
                0 => dice.text(),
                _ => (0..dice.roll(3)).map(|_| json!({"value": dice.text()})).collect(),
            };
        }
    }
    element
}

fn action(dice: &mut Dice<'_>) -> Value {
    let mut action = dice.object(&[
        ("kind", &Dice::text),
        ("edit", &|dice| json!({"changes": {"u": [dice.number(2)]}})),
        ("command", &|dice| match dice.roll(2) {
            0 => dice.text(),
            _ => json!({"title": "t", "command": dice.text()}),
        }),
        ("data", &data),
    ]);
    action["title"] = dice.text();
    action
}

fn symbol(depth: usize, dice: &mut Dice<'_>) -> Value {
    let mut symbol = json!({
        "name": dice.text(), "kind": dice.number(2), "range": dice.range(), "selectionRange": dice.range(),
    });
    if depth > 0 && dice.roll(2) == 0 {
        symbol["children"] = (0..dice.roll(3)).map(|_| self::symbol(depth - 1, dice)).collect();
    }
    symbol
}

fn flat_symbol(dice: &mut Dice<'_>) -> Value {
    let mut location = json!({"uri": dice.uri()});
    if dice.roll(4) > 0 {
        location["range"] = dice.range();
    }
    json!({"name": dice.text(), "kind": dice.number(2), "location": location})
}

fn edit(dice: &mut Dice<'_>) -> Value {
    json!({"range": dice.range(), "newText": dice.text()})
}

fn workspace_edit(dice: &mut Dice<'_>) -> Value {
    let changes = |dice: &mut Dice<'_>| {
        let mut map = json!({});
        for _ in 0..dice.roll(3) {
            let uri = dice.uri();
            map[uri.as_str().unwrap_or_default()] = dice.list(edit);
        }
        map
    };
    let list = |dice: &mut Dice<'_>| {
        dice.list(|dice| match dice.roll(4) {
            0 => json!({"kind": "create", "uri": dice.uri()}),
            _ => json!({"textDocument": {"uri": dice.uri(), "version": null}, "edits": dice.list(edit)}),
        })
    };
    dice.object(&[("changes", &changes), ("documentChanges", &list)])
}

fn tokens(dice: &mut Dice<'_>) -> Value {
    let count = dice.roll(6) * 5;
    let mut data: Vec<Value> = (0..count)
        .map(|n| match n % 5 {
            0 => dice.number(2),
            1 | 2 => dice.number(5),
            _ => dice.number(4),
        })
        .collect();
    if dice.one_in(16) {
        data.push(dice.odd());
    }
    json!({"resultId": "1", "data": data})
}

fn report(dice: &mut Dice<'_>) -> Value {
    let item = |dice: &mut Dice<'_>| json!({"range": dice.range(), "message": dice.text()});
    if dice.one_in(8) {
        return json!({"kind": "unchanged", "resultId": "1"});
    }
    json!({"kind": "full", "resultId": "1", "items": dice.list(item)})
}

//! What [`merge`] has to say, by slow and obvious code on values: for property tests and fuzzing.
//!
//! A case is made of bytes, so that a fuzzer can look for one and a property test can shrink one.

mod cases;
mod expected;
mod files;
mod texts;

use serde_json::{Value, json};

use self::cases::{Case, Dice};
use super::{ClientShape, Legends, Maker, Merged, Part, Same, Shape, is_empty, is_malformed, merge};
use crate::core::mux::merge::owners::{tag_answer, untagged};

const GENERATION: u32 = 7;

const SHAPES: [(Shape, &str); 19] = [
    (Shape::Completion, "textDocument/completion"),
    (Shape::Completion, "textDocument/completion"),
    (Shape::Hover, "textDocument/hover"),
    (Shape::Locations, "textDocument/definition"),
    (Shape::Locations, "textDocument/declaration"),
    (Shape::List(Same::Never), "textDocument/foldingRange"),
    (Shape::List(Same::Bytes), "textDocument/codeLens"),
    (Shape::List(Same::Range), "textDocument/documentLink"),
    (Shape::List(Same::Label), "textDocument/colorPresentation"),
    (Shape::List(Same::Hint), "textDocument/inlayHint"),
    (Shape::Locations, "textDocument/references"),
    (Shape::CodeActions, "textDocument/codeAction"),
    (Shape::Symbols, "textDocument/documentSymbol"),
    (Shape::Symbols, "workspace/symbol"),
    (Shape::Edits, "textDocument/willSaveWaitUntil"),
    (Shape::WorkspaceEdit, "workspace/willRenameFiles"),
    (Shape::SemanticTokens, "textDocument/semanticTokens/full"),
    (Shape::Diagnostics, "textDocument/diagnostic"),
    (Shape::InlineCompletion, "textDocument/inlineCompletion"),
];

/// How many kinds of cases there are: the first byte of a case chooses one.
#[cfg(test)]
pub(crate) const KINDS: usize = SHAPES.len();

/// Plays the case that these bytes stand for.
///
/// # Panics
///
/// If the answer is not what it should be.
pub fn check(bytes: &[u8]) {
    let mut dice = Dice(bytes);
    let (shape, method) = SHAPES[dice.roll(SHAPES.len())];
    let case = Case::roll(shape, method, &mut dice);
    let print = if case.is_pretty { serde_json::to_vec_pretty } else { serde_json::to_vec };
    let raws: Vec<Vec<u8>> = case.parts.iter().map(|it| print(it).expect("a value can be written")).collect();
    let merged = run(&case, &raws);
    let told = format!("{shape:?} {method} {} gives {}", json!(case.parts), text(&merged.result));
    let result: Value = serde_json::from_slice(&merged.result).expect(&told);
    expected::check(&case, &result, &merged, &told);
    for (n, (raw, value)) in raws.iter().zip(&case.parts).enumerate() {
        assert!(!value.is_null() || is_empty(method, raw), "{told}");
        // Of these no element is looked at when they are put together.
        let is_looked_at = !matches!(shape, Shape::List(Same::Never) | Shape::InlineCompletion);
        assert!(!is_malformed(method, raw) || !is_looked_at || merged.malformed.contains(&n), "{n}: {told}");
    }
    survive(&case, raws, &mut dice);
}

fn text(raw: &[u8]) -> String {
    String::from_utf8_lossy(raw).into_owned()
}

fn run(case: &Case, raws: &[Vec<u8>]) -> Merged {
    let parts: Vec<Part<'_>> = raws
        .iter()
        .zip(0..)
        .map(|(result, member)| Part {
            result,
            maker: case.is_tagged.then_some(Maker { member, generation: GENERATION }),
            commit_characters: None,
        })
        .collect();
    let legends = case.legends.as_ref().map(|(united, of_parts)| {
        let of_parts: Vec<Vec<u8>> = of_parts.iter().map(|it| it.to_string().into_bytes()).collect();
        Legends::new(united.to_string().as_bytes(), of_parts.iter().map(Vec::as_slice))
    });
    let client = ClientShape::of_initialize(case.client.to_string().as_bytes());
    merge(case.shape, case.method, &parts, &client, case.late, legends.as_ref())
}

/// Whatever bytes members answer with: no panic, and what is valid stays so.
fn survive(case: &Case, mut raws: Vec<Vec<u8>>, dice: &mut Dice<'_>) {
    for raw in &mut raws {
        for _ in 0..dice.roll(4) {
            let at = dice.roll(256) * 256 + dice.roll(256);
            let at = at.checked_rem(raw.len()).unwrap_or(0);
            match dice.roll(3) {
                0 => raw.truncate(at),
                1 => raw.insert(at, dice.byte()),
                _ if raw.is_empty() => {}
                _ => raw[at] = dice.byte(),
            }
        }
    }
    let is_valid = |raw: &[u8]| serde_json::from_slice::<Value>(raw).is_ok();
    let merged = run(case, &raws);
    if raws.iter().all(|it| is_valid(it)) {
        assert!(is_valid(&merged.result), "{}", text(&merged.result));
    }
    for raw in &raws {
        is_empty(case.method, raw);
        is_malformed(case.method, raw);
        let maker = Maker { member: 1, generation: GENERATION };
        for method in [case.method, "codeLens/resolve", "callHierarchy/incomingCalls"] {
            let tagged = tag_answer(method, raw, maker);
            if is_valid(raw) {
                assert!(is_valid(&tagged), "{}", text(&tagged));
            }
            untagged(method, &tagged);
        }
    }
}

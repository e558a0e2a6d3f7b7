//! Semantic tokens of several members under one legend.
//!
//! A token of a lower rank is cut where one of a better rank is. Of lines lspool knows nothing, so a token that goes on
//! into the next line counts as one of its first.

use super::{
    Merged, Question, Reading,
    shared::{inside, text_of},
};
use crate::rpc::{elements, values};

/// The most kinds of modifiers that fit into the number of a token.
const MODIFIERS: usize = 32;

/// How the legends of members become the one that the editor was told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Legends {
    /// By the place of the part.
    of_parts: Vec<Mapping>,
}

/// Numbers of the united legend, by those of a member's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Mapping {
    types: Vec<Option<u32>>,
    modifiers: Vec<Option<u32>>,
}

impl Legends {
    /// `united`, and one for each part: `legend` as JSON.
    pub(crate) fn new<'a>(united: &[u8], of_parts: impl IntoIterator<Item = &'a [u8]>) -> Legends {
        let [all_types, all_modifiers] = names(united);
        let mapping = |legend| {
            let [types, modifiers] = names(legend);
            let find = |all: &[Vec<u8>], it| {
                all.iter().position(|other| *other == it).and_then(|n| u32::try_from(n).ok())
            };
            Mapping {
                types: types.into_iter().map(|it| find(&all_types, it)).collect(),
                modifiers: modifiers
                    .into_iter()
                    .take(MODIFIERS)
                    .map(|it| find(&all_modifiers, it).filter(|n| *n < u32::BITS))
                    .collect(),
            }
        };
        Legends { of_parts: of_parts.into_iter().map(mapping).collect() }
    }
}

fn names(legend: &[u8]) -> [Vec<Vec<u8>>; 2] {
    values(legend, ["tokenTypes", "tokenModifiers"]).map(|list| {
        let list = list.unwrap_or(b"[]");
        elements(list).map(|at| text_of(&list[at]).into_owned()).collect()
    })
}

impl Mapping {
    fn modifiers(&self, bits: u32) -> u32 {
        let mut rest = bits;
        let mut mapped = 0;
        while rest != 0 {
            let bit = rest.trailing_zeros();
            rest &= rest - 1;
            mapped |= self.modifiers.get(bit as usize).copied().flatten().map_or(0, |it| 1 << it);
        }
        mapped
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Token {
    line: u32,
    start: u32,
    length: u32,
    kind: u32,
    modifiers: u32,
}

impl Token {
    fn end(self) -> u32 {
        self.start.saturating_add(self.length)
    }
}

/// Reads numbers in groups of five. `None`: it is something else.
fn decode(data: &[u8], mapping: &Mapping) -> Option<Vec<Token>> {
    let inside = inside(data, *b"[]")?;
    let mut tokens = Vec::with_capacity(inside.len() / 10);
    let mut numbers = Numbers { rest: inside };
    let (mut line, mut start) = (0_u32, 0_u32);
    while !numbers.rest.is_empty() {
        let lines = numbers.next()?;
        let columns = numbers.next()?;
        let [length, kind, modifiers] = [numbers.next()?, numbers.next()?, numbers.last_of_five()?];
        line = line.checked_add(lines)?;
        start = if lines == 0 { start.checked_add(columns)? } else { columns };
        // A kind that is in no legend has no name.
        let Some(kind) = mapping.types.get(kind as usize).copied().flatten() else { continue };
        tokens.push(Token { line, start, length, kind, modifiers: mapping.modifiers(modifiers) });
    }
    Some(tokens)
}

struct Numbers<'a> {
    rest: &'a [u8],
}

impl Numbers<'_> {
    /// A number that others follow.
    fn next(&mut self) -> Option<u32> {
        let number = self.number()?;
        self.rest = self.rest.strip_prefix(b",")?.trim_ascii_start();
        Some(number)
    }

    /// A number at the end, or one that others follow.
    fn last_of_five(&mut self) -> Option<u32> {
        let number = self.number()?;
        if let Some(rest) = self.rest.strip_prefix(b",") {
            self.rest = rest.trim_ascii_start();
            // A comma at the end.
            self.rest.first()?;
        } else if !self.rest.is_empty() {
            return None;
        }
        Some(number)
    }

    fn number(&mut self) -> Option<u32> {
        // Nearly all numbers are small.
        if let [digit @ b'0'..=b'9', b',', ..] = self.rest {
            self.rest = &self.rest[1..];
            return Some(u32::from(digit - b'0'));
        }
        let mut number: u32 = 0;
        let mut digits = 0;
        for byte in self.rest.iter().take_while(|it| it.is_ascii_digit()) {
            number = number.checked_mul(10)?.checked_add(u32::from(byte - b'0'))?;
            digits += 1;
        }
        if digits == 0 {
            return None;
        }
        self.rest = self.rest[digits..].trim_ascii_start();
        Some(number)
    }
}

fn encode(tokens: &[Token]) -> Vec<u8> {
    let mut out = Vec::with_capacity(tokens.len() * 14 + 16);
    out.extend_from_slice(br#"{"data":["#);
    let mut buffer = itoa::Buffer::new();
    let (mut line, mut start) = (0, 0);
    for (n, token) in tokens.iter().enumerate() {
        let columns = if token.line == line { token.start - start } else { token.start };
        for (m, number) in
            [token.line - line, columns, token.length, token.kind, token.modifiers].into_iter().enumerate()
        {
            if n + m > 0 {
                out.push(b',');
            }
            match u8::try_from(number) {
                Ok(digit) if digit < 10 => out.push(b'0' + digit),
                Ok(_) | Err(_) => out.extend_from_slice(buffer.format(number).as_bytes()),
            }
        }
        (line, start) = (token.line, token.start);
    }
    out.extend_from_slice(b"]}");
    out
}

/// Where tokens are: line, start and end, in order, none touching the next.
type Cover = Vec<(u32, u32, u32)>;

/// `tokens` are in order.
fn cover(tokens: &[Token]) -> Cover {
    let mut cover: Cover = Vec::with_capacity(tokens.len());
    for token in tokens.iter().filter(|it| it.length > 0) {
        match cover.last_mut() {
            Some((line, _, end)) if *line == token.line && *end >= token.start => {
                *end = token.end().max(*end);
            }
            Some(_) | None => cover.push((token.line, token.start, token.end())),
        }
    }
    cover
}

/// What of these tokens, in order, is not covered.
fn cut(tokens: &[Token], cover: &Cover, out: &mut Vec<Token>) {
    let mut passed = 0;
    for token in tokens {
        while cover.get(passed).is_some_and(|(line, _, end)| (*line, *end) <= (token.line, token.start)) {
            passed += 1;
        }
        let mut from = token.start;
        let mut is_cut = false;
        for (line, start, end) in &cover[passed..] {
            if *line != token.line || *start >= token.end().max(token.start.saturating_add(1)) {
                break;
            }
            is_cut = true;
            if *start > from {
                out.push(Token { start: from, length: start - from, ..*token });
            }
            from = *end;
        }
        match is_cut {
            false => out.push(*token),
            true if from < token.end() => {
                out.push(Token { start: from, length: token.end() - from, ..*token });
            }
            true => {}
        }
    }
}

pub(super) fn merge(question: &Question<'_>, legends: Option<&Legends>) -> Merged {
    let read = |n: usize, legends: &Legends| {
        let data = values(question.parts[n].result, ["data"])[0]?;
        decode(data, legends.of_parts.get(n)?)
    };
    let heard =
        question.hear(|part| match values(part.result, ["data"])[0].and_then(|it| inside(it, *b"[]")) {
            None => Reading::Malformed,
            Some([]) => Reading::Nothing,
            Some(_) => Reading::Whole(()),
        });
    // One provider: its legend is the editor's. Of several such parts the best rank's is one that can be read.
    let Some(legends) = legends else {
        let best = heard.parts.first().map(|(n, ())| *n);
        return match best {
            Some(n) => Merged::of(question.parts[n].result.to_vec(), heard.malformed),
            None => question.settled(&heard).unwrap_or_else(|| Merged::of(b"null".to_vec(), Vec::new())),
        };
    };
    if heard.parts.is_empty() {
        let settled = question.settled(&heard);
        return settled.unwrap_or_else(|| Merged::of(b"null".to_vec(), heard.malformed));
    }
    let mut malformed = heard.malformed;
    let mut all: Vec<Token> = Vec::new();
    for (n, ()) in heard.parts {
        let Some(tokens) = read(n, legends) else {
            malformed.push(n);
            continue;
        };
        if all.is_empty() {
            all = tokens;
            continue;
        }
        let cover = cover(&all);
        cut(&tokens, &cover, &mut all);
        all.sort_by_key(|it| (it.line, it.start));
    }
    malformed.sort_unstable();
    Merged::of(encode(&all), malformed)
}

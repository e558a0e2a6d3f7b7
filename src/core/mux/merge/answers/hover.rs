//! Hovers: what each member says, with a rule between.
//!
//! `contents` is a `MarkupContent`, or a `MarkedString` or a list of them, which are Markdown of an older kind.

use super::{
    Merged, Question, Reading,
    client::HoverFormat,
    shared::{Joined, inside, is_object},
};
use crate::rpc::{LooseText, elements, members, values};

const RULE: &[u8] = b"\n\n---\n\n";

/// What one member says.
struct Hover<'a> {
    raw: &'a [u8],
    contents: &'a [u8],
    texts: Vec<Text>,
}

enum Text {
    Plain(Vec<u8>),
    Markdown(Vec<u8>),
    /// A `MarkedString` with a language.
    Code {
        language: Vec<u8>,
        code: Vec<u8>,
    },
}

impl Text {
    fn is_empty(&self) -> bool {
        let (Text::Plain(text) | Text::Markdown(text) | Text::Code { code: text, .. }) = self;
        text.trim_ascii().is_empty()
    }

    fn read(content: &[u8]) -> Option<Text> {
        let text = |raw: Option<&[u8]>| LooseText::of(raw?).map(LooseText::into_bytes);
        if content.starts_with(b"\"") {
            return Some(Text::Markdown(text(Some(content))?));
        }
        let [kind, language, value] = values(content, ["kind", "language", "value"]);
        let value = text(value)?;
        Some(match (kind, language) {
            (Some(br#""plaintext""#), _) => Text::Plain(value),
            (None, Some(_)) => Text::Code { language: text(language)?, code: value },
            (_, _) => Text::Markdown(value),
        })
    }

    fn as_markdown(&self) -> Vec<u8> {
        match self {
            Text::Markdown(text) => text.clone(),
            Text::Plain(text) => fenced(b"text", text),
            Text::Code { language, code } => fenced(language, code),
        }
    }

    fn as_plain(&self) -> &[u8] {
        let (Text::Plain(text) | Text::Markdown(text) | Text::Code { code: text, .. }) = self;
        text
    }
}

/// A block of code. Its fence is longer than any in the text.
fn fenced(language: &[u8], text: &[u8]) -> Vec<u8> {
    let runs = text.split(|it| *it != b'`').map(<[u8]>::len);
    let fence = vec![b'`'; runs.max().unwrap_or(0).max(2) + 1];
    let end: &[u8] = if text.ends_with(b"\n") { b"" } else { b"\n" };
    [&fence[..], language, b"\n", text, end, &fence].concat()
}

fn read(raw: &[u8]) -> Option<Hover<'_>> {
    let contents = values(raw, ["contents"])[0].filter(|_| is_object(raw))?;
    let texts = match inside(contents, *b"[]") {
        Some(_) => elements(contents).map(|at| Text::read(&contents[at])).collect::<Option<Vec<Text>>>()?,
        None => vec![Text::read(contents)?],
    };
    let texts = texts.into_iter().filter(|it| !it.is_empty()).collect();
    Some(Hover { raw, contents, texts })
}

/// Whether it has no text that anybody could read.
pub(super) fn is_empty(raw: &[u8]) -> bool {
    read(raw).is_some_and(|it| it.texts.is_empty())
}

/// Whether it is no hover, or has contents that are none.
pub(super) fn is_malformed(raw: &[u8]) -> bool {
    read(raw).is_none()
}

impl Hover<'_> {
    fn is_markdown(&self) -> bool {
        self.texts.iter().any(|it| matches!(it, Text::Markdown(_) | Text::Code { .. }))
    }

    fn as_markdown(&self) -> Vec<u8> {
        self.texts.iter().map(Text::as_markdown).collect::<Vec<_>>().join(&b"\n\n"[..])
    }

    fn as_plain(&self) -> Vec<u8> {
        self.texts.iter().map(Text::as_plain).collect::<Vec<_>>().join(&b"\n\n"[..])
    }
}

pub(super) fn merge(question: &Question<'_>) -> Merged {
    let heard = question.hear(|part| match read(part.result) {
        None => Reading::Malformed,
        Some(it) if it.texts.is_empty() => Reading::Nothing,
        Some(it) => Reading::Whole(it),
    });
    if let Some(settled) = question.settled(&heard) {
        return settled;
    }
    let mut said: Vec<Vec<u8>> = Vec::new();
    let mut hovers: Vec<(usize, Hover<'_>)> = Vec::new();
    for (n, hover) in heard.parts {
        let text = hover.as_plain().trim_ascii().to_vec();
        if !said.contains(&text) {
            said.push(text);
            hovers.push((n, hover));
        }
    }
    let result = match &hovers[..] {
        [(n, _)] => question.as_it_came(&question.parts[*n]),
        hovers => joined(&hovers.iter().map(|(_, it)| it).collect::<Vec<_>>(), question.client.hover),
    };
    Merged::of(result, heard.malformed)
}

fn joined(hovers: &[&Hover<'_>], format: HoverFormat) -> Vec<u8> {
    let mut out = Joined::new(b"{", hovers.iter().map(|it| it.raw.len()).sum());
    out.push_member("contents", &contents(hovers, format));
    let mut seen = vec!["contents".to_owned()];
    for hover in hovers {
        for (key, at) in members(hover.raw) {
            if !seen.iter().any(|it| *it == key) {
                out.push_member(&key, &hover.raw[at]);
                seen.push(key.into_owned());
            }
        }
    }
    out.finish(b"}")
}

fn contents(hovers: &[&Hover<'_>], format: HoverFormat) -> Vec<u8> {
    let has_markdown = hovers.iter().any(|it| it.is_markdown());
    let (kind, texts): (_, Vec<Vec<u8>>) = match format {
        HoverFormat::MarkedString if has_markdown => return marked_strings(hovers),
        HoverFormat::Markdown if has_markdown => {
            (&b"\"markdown\""[..], hovers.iter().map(|it| it.as_markdown()).collect())
        }
        HoverFormat::MarkedString | HoverFormat::Markdown | HoverFormat::PlainText => {
            (&b"\"plaintext\""[..], hovers.iter().map(|it| it.as_plain()).collect())
        }
    };
    let mut out = Joined::new(b"{", 0);
    out.push_member("kind", kind);
    out.push_member("value", &LooseText::quoted(&texts.join(RULE)));
    out.finish(b"}")
}

/// For an editor that knows nothing else: a list, which it divides itself.
fn marked_strings(hovers: &[&Hover<'_>]) -> Vec<u8> {
    let mut out = Joined::new(b"[", 0);
    for hover in hovers {
        let is_markup = values(hover.contents, ["kind"])[0].is_some();
        match inside(hover.contents, *b"[]") {
            Some(inside) => out.push(inside),
            None if is_markup => out.push(&LooseText::quoted(&hover.as_markdown())),
            None => out.push(hover.contents),
        }
    }
    out.finish(b"]")
}

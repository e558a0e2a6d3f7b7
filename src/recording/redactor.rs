//! Removes secrets and texts from JSON, and changes nothing else.
//!
//! **Redacting twice is redacting once**, and a core that gets redacted events gives the redacted effects. So a
//! replay can compare them.

use std::{borrow::Cow, collections::BTreeMap};

use memchr::memmem;
use serde::de::IgnoredAny;

use super::{
    mask,
    rules::{self, Place, Rule},
};
use crate::{
    rpc::{self, Span},
    util::redact,
};

/// Shorter secrets are removed only at their own place: they would match anywhere.
pub(super) const SEARCHED: usize = 8;

/// Levels of JSON within strings within JSON.
const NESTED: usize = 4;

/// Levels of objects and arrays. lspool reads no deeper ones, and each level needs stack.
const DEEPEST: usize = 128;

/// The known secrets of a session.
#[derive(Debug)]
pub struct Redactor {
    /// Whether to keep texts.
    texts: bool,
    /// The secrets with their numbers.
    known: BTreeMap<String, usize>,
    /// The secrets to remove everywhere, with their searchers.
    searched: Vec<(memmem::Finder<'static>, String)>,
}

/// The envelope of a message.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    /// The method, or that of the answered request.
    pub method: &'a str,
    /// Whether it is an answer.
    pub is_answer: bool,
}

impl Redactor {
    /// `secrets` are known secrets.
    pub fn new(texts: bool, secrets: impl IntoIterator<Item = String>) -> Redactor {
        let mut it = Redactor { texts, known: BTreeMap::new(), searched: Vec::new() };
        secrets.into_iter().for_each(|secret| it.search_for(&secret));
        it
    }

    /// Whether texts stay.
    pub(super) fn keeps_texts(&self) -> bool {
        self.texts
    }

    /// Redacts a message: JSON without line ends. `None` if it is invalid JSON.
    pub fn message(&mut self, about: About<'_>, body: &str) -> Option<Vec<u8>> {
        self.json(body, about, Rule::ByName)
    }

    /// Redacts a message with invalid JSON in its parts.
    pub fn broken(&mut self, body: &str) -> String {
        if self.texts {
            return self.without_secrets(body).into_owned();
        }
        let Ok(envelope) = rpc::scan(body) else { return mask::broken(body) };
        let mut parts = [envelope.params, envelope.result, envelope.error].map(Span::range);
        parts.sort_by_key(|it| it.start);
        let (mut out, mut kept) = (String::new(), 0);
        for part in parts.into_iter().filter(|it| !it.is_empty()) {
            out += &self.without_secrets(body.get(kept..part.start).unwrap_or_default());
            out += &mask::broken(body.get(part.clone()).unwrap_or_default());
            kept = part.end;
        }
        out += &self.without_secrets(body.get(kept..).unwrap_or_default());
        out
    }

    /// Redacts the content of a file.
    pub fn content(&mut self, text: &str) -> String {
        if self.texts { self.without_secrets(text).into_owned() } else { mask::broken(text) }
    }

    /// Redacts a value of lspool itself. Texts stay.
    pub fn own(&mut self, json: &str) -> Option<Vec<u8>> {
        self.json(json, About { method: "", is_answer: false }, Rule::Keep)
    }

    /// Redacts the lines of a transcript.
    pub fn transcript(&mut self, content: &str) -> String {
        let about = About { method: TRANSCRIPT, is_answer: false };
        let line = |line: &str| match self.json(line, about, Rule::ByName) {
            Some(redacted) => String::from_utf8(redacted).unwrap_or_default(),
            None => mask::broken(line),
        };
        content.split('\n').map(line).collect::<Vec<_>>().join("\n")
    }

    /// Redacts a text of lspool.
    pub fn without_secrets<'a>(&mut self, text: &'a str) -> Cow<'a, str> {
        let found = self.searched.iter().filter(|(it, _)| it.find(text.as_bytes()).is_some());
        let found: Vec<String> = found.map(|(_, secret)| secret.clone()).collect();
        if found.is_empty() {
            return redact::replace(text, |it| Cow::Owned(self.placeholder(it)));
        }
        let mut text = text.to_owned();
        for secret in found {
            text = text.replace(&secret, &self.placeholder(&secret));
        }
        Cow::Owned(redact::replace(&text, |it| Cow::Owned(self.placeholder(it))).into_owned())
    }

    /// The placeholder of a secret. From now on the secret is removed everywhere.
    fn placeholder(&mut self, secret: &str) -> String {
        self.search_for(secret);
        self.number(secret)
    }

    /// The placeholder of a secret.
    fn number(&mut self, secret: &str) -> String {
        let next = self.known.len() + 1;
        let number = match self.known.get(secret) {
            Some(number) => *number,
            None => *self.known.entry(secret.to_owned()).or_insert(next),
        };
        format!("<secret-{number}>")
    }

    fn search_for(&mut self, secret: &str) {
        if secret.len() < SEARCHED
            || is_placeholder(secret)
            || self.searched.iter().any(|(_, it)| it == secret)
        {
            return;
        }
        let finder = memmem::Finder::new(secret.as_bytes()).into_owned();
        self.searched.push((finder, secret.to_owned()));
        // Longer secrets come first, because they may contain others.
        self.searched.sort_by_key(|(_, it)| std::cmp::Reverse(it.len()));
    }

    fn json(&mut self, json: &str, about: About<'_>, rule: Rule) -> Option<Vec<u8>> {
        self.nested(json, about, rule, 0, 0)
    }

    /// `depth` is the level of the value in its message, `nested` the number of strings around it.
    fn nested(
        &mut self,
        json: &str,
        about: About<'_>,
        rule: Rule,
        depth: usize,
        nested: usize,
    ) -> Option<Vec<u8>> {
        serde_json::from_str::<IgnoredAny>(json).ok()?;
        let out = Vec::with_capacity(json.len());
        let mut walk = Walk {
            redactor: self,
            about,
            json,
            at: 0,
            out,
            level: 0,
            depth,
            part: "",
            nested,
            is_symbol: false,
            quotes_nothing: false,
        };
        walk.value("", rule);
        walk.space();
        Some(walk.out)
    }
}

/// The method for lines of [`Redactor::transcript`].
const TRANSCRIPT: &str = "lspool.transcript";

/// Reads valid JSON and writes it redacted.
struct Walk<'a, 'r> {
    redactor: &'r mut Redactor,
    about: About<'a>,
    json: &'a str,
    at: usize,
    out: Vec<u8>,
    /// The number of objects and arrays around the cursor.
    level: usize,
    depth: usize,
    part: &'a str,
    nested: usize,
    is_symbol: bool,
    quotes_nothing: bool,
}

impl<'a> Walk<'a, '_> {
    fn value(&mut self, name: &str, rule: Rule) {
        self.space();
        match self.peek() {
            b'{' | b'[' if self.level == DEEPEST => self.leave_out(),
            b'{' => self.object(name, rule),
            b'[' => self.array(name, rule),
            b'"' => self.string(name, rule),
            _ => {
                let rest = &self.json[self.at..];
                let end = rest.find([',', '}', ']', ' ', '\n', '\r', '\t']).unwrap_or(rest.len());
                self.copy(end);
            }
        }
    }

    /// Writes `null` instead of an object or array.
    fn leave_out(&mut self) {
        let mut rest = serde_json::Deserializer::from_str(&self.json[self.at..]).into_iter::<IgnoredAny>();
        rest.next();
        self.at += rest.byte_offset();
        self.out.extend_from_slice(b"null");
    }

    fn object(&mut self, name: &str, rule: Rule) {
        let has_chosen = self.has_chosen_names(name);
        let is_symbol = std::mem::replace(&mut self.is_symbol, is_symbol(&self.json[self.at..]));
        self.depth += 1;
        self.level += 1;
        self.copy(1);
        loop {
            self.space();
            if self.peek() != b'"' {
                break;
            }
            let raw = self.literal();
            self.at += raw.len();
            let name = decoded(raw);
            // A name may be that of a variable or a file.
            match self.redactor.without_secrets(&name) {
                Cow::Borrowed(_) => self.out.extend_from_slice(raw.as_bytes()),
                Cow::Owned(other) => write(&other, &mut self.out),
            }
            self.space();
            self.copy(1);
            match has_chosen {
                true => self.value("", rule),
                false => self.member(&name, rule),
            }
            self.space();
            if self.peek() == b',' {
                self.copy(1);
            }
        }
        self.copy(1);
        self.level -= 1;
        self.depth -= 1;
        self.is_symbol = is_symbol;
    }

    /// Whether users choose the names of this object's members in the configuration: a server named `env` has no
    /// variables in it.
    fn has_chosen_names(&self, name: &str) -> bool {
        let is_own = self.about.method.is_empty() && self.part.is_empty();
        // In the configuration or a section of a folder. Other keys of agents are deeper.
        is_own && (2..=3).contains(&self.depth) && rules::CHOSEN.contains(&name)
    }

    fn member(&mut self, name: &str, rule: Rule) {
        if self.depth == 1 && self.nested == 0 && self.about.method != TRANSCRIPT && rule == Rule::ByName {
            self.part = match name {
                "params" => "params",
                "result" => "result",
                "error" => {
                    self.quotes_nothing = quotes_nothing(&self.json.as_bytes()[self.at..]);
                    "error"
                }
                // The rest of the envelope stays.
                _ => return self.value(name, Rule::Keep),
            };
        }
        let inner = rules::of_member(rule, name, &self.place());
        self.value(name, inner);
    }

    fn array(&mut self, name: &str, rule: Rule) {
        self.level += 1;
        self.copy(1);
        // In `"--token", "abc"` the second word is the value of the first.
        let mut is_named = false;
        loop {
            self.space();
            match self.peek() {
                b']' | 0 => break,
                b',' => self.copy(1),
                b'"' => {
                    let text = decoded(self.literal());
                    let is_option = text.starts_with('-') && !text.contains('=') && redact::is_name(&text);
                    self.string(name, if is_named { Rule::Secret } else { rule });
                    is_named = is_option;
                }
                _ => {
                    is_named = false;
                    self.value(name, rule);
                }
            }
        }
        self.copy(1);
        self.level -= 1;
    }

    fn string(&mut self, name: &str, rule: Rule) {
        let raw = self.literal();
        self.at += raw.len();
        let text = decoded(raw);
        if let Some(inner) = self.json_in(name, rule, &text) {
            return write(&inner, &mut self.out);
        }
        let other = match rules::of_string(rule, name, &text, &self.place()) {
            Rule::Secret | Rule::Setting if text.is_empty() || is_placeholder(&text) => None,
            Rule::Secret => Some(self.redactor.placeholder(&text)),
            Rule::Setting if is_searched(&text) => Some(self.redactor.placeholder(&text)),
            Rule::Setting => Some(self.redactor.number(&text)),
            Rule::Mask if !self.redactor.texts => return mask::literal(raw, &mut self.out),
            Rule::Mask | Rule::Keep | Rule::ByName => match self.redactor.without_secrets(&text) {
                Cow::Borrowed(_) => None,
                Cow::Owned(other) => Some(other),
            },
        };
        match other {
            Some(other) => write(&other, &mut self.out),
            None => self.out.extend_from_slice(raw.as_bytes()),
        }
    }

    /// Redacts a string that holds JSON, at known places.
    fn json_in(&mut self, name: &str, rule: Rule, text: &str) -> Option<String> {
        let is_transcript = self.about.method == TRANSCRIPT;
        let rule = match (name, rule) {
            // The arguments of a tool.
            ("arguments", Rule::ByName | Rule::Mask) => Rule::Mask,
            // The messages between two questions.
            ("content", Rule::ByName) if is_transcript && text.starts_with("[{\"role\"") => Rule::ByName,
            // The settings of MCP servers.
            ("mcp", Rule::ByName | Rule::Keep) => rule,
            _ => return None,
        };
        if self.nested >= NESTED || !text.starts_with(['{', '[']) {
            return None;
        }
        let inner = self.redactor.nested(text, self.about, rule, self.depth, self.nested + 1)?;
        String::from_utf8(inner).ok()
    }

    fn place(&self) -> Place<'a> {
        Place {
            method: self.about.method,
            is_answer: self.about.is_answer,
            depth: self.depth,
            part: self.part,
            is_symbol: self.is_symbol,
            quotes_nothing: self.quotes_nothing,
        }
    }

    /// The string at the cursor, with its quotes.
    fn literal(&self) -> &'a str {
        let rest = &self.json[self.at..];
        let mut end = 1;
        while let Some(n) = memchr::memchr2(b'"', b'\\', rest.as_bytes().get(end..).unwrap_or_default()) {
            end += n;
            if rest.as_bytes()[end] == b'"' {
                return &rest[..=end];
            }
            end += 2;
        }
        rest
    }

    fn peek(&self) -> u8 {
        self.json.as_bytes().get(self.at).copied().unwrap_or(0)
    }

    fn copy(&mut self, n: usize) {
        let end = (self.at + n).min(self.json.len());
        self.out.extend_from_slice(&self.json.as_bytes()[self.at..end]);
        self.at = end;
    }

    /// Keeps white space but for line ends.
    fn space(&mut self) {
        while let it @ (b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.out.push(if it == b'\t' { b'\t' } else { b' ' });
            self.at += 1;
        }
    }
}

/// Error codes with a message about the protocol: an unreadable message, an unknown method, a cancellation, or an
/// outdated answer.
const OF_PROTOCOL: [&[u8]; 6] = [b"-32700", b"-32600", b"-32601", b"-32800", b"-32801", b"-32802"];

/// Whether an error is from lspool or about the protocol.
fn quotes_nothing(error: &[u8]) -> bool {
    let is_own = rpc::path(error, &["data", "lspool"]).is_some();
    is_own || rpc::path(error, &["code"]).is_some_and(|it| OF_PROTOCOL.contains(&&error[it]))
}

/// Whether an object is a symbol of a document: its name is a part of the document.
fn is_symbol(object: &str) -> bool {
    let mut members = rpc::members(object.as_bytes()).map(|(name, _)| name);
    members.any(|it| matches!(&*it, "location" | "selectionRange" | "containerName"))
}

/// Decodes a JSON string. Half a character becomes a replacement character.
fn decoded(raw: &str) -> Cow<'_, str> {
    rpc::decode(raw.as_bytes()).unwrap_or_else(|| {
        let whole = mask::without_halves(raw);
        rpc::decode(whole.as_bytes()).unwrap_or_default().into_owned().into()
    })
}

/// Whether to remove the value of a setting everywhere. A word or a path may occur anywhere.
fn is_searched(setting: &str) -> bool {
    redact::is_odd(setting) && !setting.starts_with(['/', '.', '~']) && !setting.contains("://")
}

fn write(text: &str, out: &mut Vec<u8>) {
    // Writing to memory cannot fail, and a string is always JSON.
    serde_json::to_writer(out, text).ok();
}

fn is_placeholder(text: &str) -> bool {
    let number = text.strip_prefix("<secret-").and_then(|it| it.strip_suffix('>'));
    number.is_some_and(|it| !it.is_empty() && it.bytes().all(|it| it.is_ascii_digit()))
}

#[cfg(test)]
mod tests;

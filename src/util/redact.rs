//! Removes secrets from text for people and logs.
//!
//! Finds them by form: tokens of GitHub and Copilot, web tokens; and by name: text after `Bearer` or `Cookie:` in a
//! header, `"accessToken":`, `API_KEY=`, or the password in a URL. It removes too much rather than too little.

use std::borrow::Cow;

/// The placeholder of a secret.
const GONE: &str = "<secret>";

/// The beginnings of tokens of GitHub and Copilot, before `_` or `=`.
const PREFIXES: [(&str, u8); 7] = [
    ("gho", b'_'),
    ("ghu", b'_'),
    ("ghp", b'_'),
    ("ghs", b'_'),
    ("ghr", b'_'),
    ("github_pat", b'_'),
    ("tid", b'='),
];

/// Removes secrets. The numbered placeholders of a recording become plain ones, so the result is the same for a text
/// that was redacted before.
pub fn redact(text: &str) -> Cow<'_, str> {
    match replace(text, |_| Cow::Borrowed(GONE)) {
        Cow::Borrowed(text) => unnumbered(text).map_or(Cow::Borrowed(text), Cow::Owned),
        Cow::Owned(text) => Cow::Owned(unnumbered(&text).unwrap_or(text)),
    }
}

/// Removes the numbers of placeholders, if there are any.
fn unnumbered(text: &str) -> Option<String> {
    const NUMBERED: &str = "<secret-";
    let mut parts = text.split(NUMBERED);
    let mut out = parts.next().filter(|it| it.len() < text.len())?.to_owned();
    for part in parts {
        match part.trim_start_matches(|it: char| it.is_ascii_digit()).strip_prefix('>') {
            Some(rest) => out.extend([GONE, rest]),
            None => out.extend([NUMBERED, part]),
        }
    }
    Some(out)
}

/// Replaces each secret.
pub fn replace<'a>(text: &'a str, mut other: impl FnMut(&'a str) -> Cow<'static, str>) -> Cow<'a, str> {
    let mut out = String::new();
    let (mut kept, mut at, mut is_named) = (0, 0, false);
    while at < text.len() {
        if let Some(end) = password(text, at) {
            out.push_str(&text[kept..at]);
            out.push_str(&other(&text[at..end]));
            (kept, at, is_named) = (end, end, false);
            continue;
        }
        let rest = &text[at..];
        let word = &rest[..rest.find(|it| !is_word(it)).unwrap_or(rest.len())];
        if word.is_empty() {
            let next = rest.chars().next().map_or(1, char::len_utf8);
            // A name and its secret are on one line.
            is_named &= !rest.starts_with(['\n', ',']);
            at += next;
            continue;
        }
        let mut end = at + word.len();
        let found = secret(word, is_named).filter(|_| !is_placeholder(text, at, word));
        if let Some(start) = found.map(|it| at + it) {
            end += signature(&text[start..], &text[end..]);
            out.push_str(&text[kept..start]);
            out.push_str(&other(&text[start..end]));
            kept = end;
        }
        // `Authorization: Basic SECRET`, `Cookie: a=SECRET; b=SECRET`: the word between is not another name.
        let is_between = || word.contains('=') || SCHEMES.contains(&word.to_ascii_lowercase().as_str());
        is_named = is_name(word) || is_named && is_between();
        at = end;
    }
    if kept == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(&text[kept..]);
    Cow::Owned(out)
}

/// Whether the word is a placeholder: `<secret-1>`.
fn is_placeholder(text: &str, at: usize, word: &str) -> bool {
    word.starts_with("secret") && text[..at].ends_with('<') && text[at + word.len()..].starts_with('>')
}

/// The characters of tokens.
fn is_word(it: char) -> bool {
    it.is_ascii_alphanumeric() || "_-.=;+/~%".contains(it)
}

/// The start of the secret in a word. `is_named`: the previous word announces a secret.
fn secret(word: &str, is_named: bool) -> Option<usize> {
    let bytes = word.as_bytes();
    // Searches for rare bytes: most words have none of them.
    let marks = memchr::memchr2_iter(b'_', b'=', bytes);
    let starts = marks.flat_map(|at| {
        let is_it = move |(prefix, mark): &&(&str, u8)| bytes[at] == *mark && word[..at].ends_with(prefix);
        PREFIXES.iter().filter(is_it).map(move |(prefix, _)| at - prefix.len())
    });
    if let Some(start) = starts.min() {
        return Some(start);
    }
    let web = memchr::memchr_iter(b'J', bytes).find(|at| word[..*at].ends_with("ey"));
    if let Some(start) = web.map(|at| at - 2).filter(|start| word[*start..].matches('.').count() >= 2) {
        return Some(start);
    }
    // `NAME=SECRET`
    if let Some((name, value)) = word.split_once('=')
        && is_name(name)
        && is_odd(value)
    {
        return Some(name.len() + 1);
    }
    (is_named && is_odd(word)).then_some(0)
}

/// The end of a password that begins here, in `scheme://user:password@host`.
fn password(text: &str, at: usize) -> Option<usize> {
    let user = text[..at].strip_suffix(':')?;
    if !user.rsplit(|it| !is_word(it)).next()?.starts_with("//") {
        return None;
    }
    let is_end = |it: char| it.is_whitespace() || "/?#\"'`<>\\".contains(it);
    let authority = text[at..].split(is_end).next()?;
    authority.rfind('@').filter(|it| *it > 0).map(|it| at + it)
}

/// The length of the signature after a token of Copilot: `tid=…;exp=…:SIGNATURE`.
fn signature(token: &str, behind: &str) -> usize {
    let signature = behind.strip_prefix(':').filter(|_| token.starts_with("tid="));
    signature.map_or(0, |it| 1 + it.find(|it| !is_word(it)).unwrap_or(it.len()))
}

/// Words that may stand between a name and its secret.
const SCHEMES: [&str; 2] = ["basic", "token"];

/// Endings of names that are likely to announce a secret.
const NAMES: [&str; 21] = [
    "bearer",
    "cookie",
    "cookies",
    "token",
    "authorization",
    "password",
    "passphrase",
    "passwd",
    "secret",
    "credential",
    "credentials",
    "apikey",
    "api_key",
    "api-key",
    "access_key",
    "accesskey",
    "private_key",
    "privatekey",
    "secret_key",
    "secretkey",
    "secret-key",
];

/// Whether a secret is likely to follow this word.
pub fn is_name(word: &str) -> bool {
    let is_end = |end: &&str| {
        let start = word.len().checked_sub(end.len());
        start.is_some_and(|it| word.as_bytes()[it..].eq_ignore_ascii_case(end.as_bytes()))
    };
    // The last letter rules out nearly all words.
    let last = word.bytes().last().unwrap_or_default().to_ascii_lowercase();
    matches!(last, b'r' | b'n' | b'd' | b'e' | b't' | b'l' | b's' | b'y') && NAMES.iter().any(is_end)
}

/// Whether it does not look like a word of a person.
pub fn is_odd(word: &str) -> bool {
    word.len() >= 8 && word.contains(|it: char| it.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redact_hides_secrets_by_their_shape() {
        for (text, expected) in [
            ("Bad credentials for gho_16C7e42F292c.", "Bad credentials for <secret>"),
            ("GH_TOKEN=ghu_abc set", "GH_TOKEN=<secret> set"),
            ("\"tid=1;exp=2;sku=x:abc\"", "\"<secret>\""),
            ("jwt eyJhbGciOi.eyJzdWIi.SflKxw end", "jwt <secret> end"),
            ("Authorization: Bearer abc123def456", "Authorization: Bearer <secret>"),
            ("authorization: token 0123456789abcdef", "authorization: token <secret>"),
            ("häßlich: github_pat_11AB", "häßlich: <secret>"),
            (
                "{\"accessToken\":\"abc123def456\",\"n\":12345678}",
                "{\"accessToken\":\"<secret>\",\"n\":12345678}",
            ),
            ("MY_API_KEY=abc123def456 set", "MY_API_KEY=<secret> set"),
            ("x-api-key: abc123def456", "x-api-key: <secret>"),
            ("client_secret: \"abc123def456\"", "client_secret: \"<secret>\""),
            ("--token abc123def456", "--token <secret>"),
            ("Authorization: Basic dXNlcjpwYXNz1", "Authorization: Basic <secret>"),
            ("proxy http://user:pass@host:8080/", "proxy http://user:<secret>@host:8080/"),
            ("http://user:pa!s$s@host, http://u:p@ss@h", "http://user:<secret>@host, http://u:<secret>@h"),
            ("http://user:<secret>@host", "http://user:<secret>@host"),
            ("http://user:<secret-12>@host, <secret-1>", "http://user:<secret>@host, <secret>"),
            ("<secret-x> <secret-3", "<secret-x> <secret-3"),
            ("Set-Cookie: theme=dark; session=abc12345; Path=/", "Set-Cookie: theme=dark; <secret> Path=/"),
            ("STRIPE_SECRET_KEY=abc123def456", "STRIPE_SECRET_KEY=<secret>"),
            ("password = 'abc123def456'", "password = '<secret>'"),
            ("{\"secretKey\": \"abc123def456\"}", "{\"secretKey\": \"<secret>\"}"),
        ] {
            assert_eq!(redact(text), expected);
        }
    }

    #[test]
    fn redact_borrows_text_without_secrets() {
        for text in [
            "",
            "Unexpected token in JSON at position 12",
            "exit code 1\nat main.js:302:32992",
            "http://localhost:4873/@scope/package",
            "é😀",
        ] {
            assert!(matches!(redact(text), Cow::Borrowed(_)), "{text}");
        }
    }
}

//! Takes secrets out of text that is about to be shown or logged.
//!
//! By their shape: tokens of GitHub and Copilot, web tokens, and what follows `Bearer` or `token` in a header.
//! It errs on the side of taking out too much.

use std::borrow::Cow;

/// What stands in the place of a secret.
const GONE: &str = "<secret>";

/// How tokens of GitHub begin.
const PREFIXES: [&str; 7] = ["gho_", "ghu_", "ghp_", "ghs_", "ghr_", "github_pat_", "tid="];

/// The text without its secrets.
pub fn redact(text: &str) -> Cow<'_, str> {
    let mut out = String::new();
    let (mut kept, mut at, mut is_named) = (0, 0, false);
    while at < text.len() {
        let rest = &text[at..];
        let word = &rest[..rest.find(|it| !is_word(it)).unwrap_or(rest.len())];
        if word.is_empty() {
            let next = rest.chars().next().map_or(1, char::len_utf8);
            // A name and its secret are on one line.
            is_named &= !rest.starts_with(['\n', ',']);
            at += next;
            continue;
        }
        if let Some(start) = secret(word, is_named) {
            out.push_str(&text[kept..at + start]);
            out.push_str(GONE);
            kept = at + word.len();
        }
        is_named =
            ["bearer", "token", "authorization", "password"].contains(&word.to_ascii_lowercase().as_str());
        at += word.len();
    }
    if kept == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(&text[kept..]);
    Cow::Owned(out)
}

/// Characters of which tokens are made.
fn is_word(it: char) -> bool {
    it.is_ascii_alphanumeric() || "_-.=;+/~%".contains(it)
}

/// Where in a word its secret begins. `is_named`: the word before said that one follows.
fn secret(word: &str, is_named: bool) -> Option<usize> {
    if let Some(start) = PREFIXES.iter().filter_map(|it| word.find(it)).min() {
        return Some(start);
    }
    let web_token = word.find("eyJ").filter(|start| word[*start..].matches('.').count() >= 2);
    web_token.or((is_named && word.len() >= 8 && word.contains(|it: char| it.is_ascii_digit())).then_some(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_taken_out_by_their_shape() {
        for (text, expected) in [
            ("Bad credentials for gho_16C7e42F292c.", "Bad credentials for <secret>"),
            ("GH_TOKEN=ghu_abc set", "GH_TOKEN=<secret> set"),
            ("\"tid=1;exp=2;sku=x:abc\"", "\"<secret>:abc\""),
            ("jwt eyJhbGciOi.eyJzdWIi.SflKxw end", "jwt <secret> end"),
            ("Authorization: Bearer abc123def456", "Authorization: Bearer <secret>"),
            ("authorization: token 0123456789abcdef", "authorization: token <secret>"),
            ("häßlich: github_pat_11AB", "häßlich: <secret>"),
        ] {
            assert_eq!(redact(text), expected);
        }
    }

    #[test]
    fn what_is_no_secret_stays_and_is_not_copied() {
        for text in
            ["", "Unexpected token in JSON at position 12", "exit code 1\nat main.js:302:32992", "é😀"]
        {
            assert!(matches!(redact(text), Cow::Borrowed(_)), "{text}");
        }
    }
}

//! Protects the text around a model's text: the model cannot close or open tags.

/// Writes the `<` of these tags as `&lt;`.
pub(super) fn inert(text: &str, tags: &[&str]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        out += &rest[..at];
        let name = rest[at + 1..].trim_start().trim_start_matches('/').trim_start();
        let end = name.find(|it: char| !it.is_ascii_alphanumeric() && !matches!(it, '_' | '-'));
        let name = &name[..end.unwrap_or(name.len())];
        let is_one = |it: &&str| name.eq_ignore_ascii_case(it);
        out += if tags.iter().any(is_one) { "&lt;" } else { "<" };
        rest = &rest[at + 1..];
    }
    out + rest
}

//! Makes text of others safe to show: short, and without control characters for a terminal.

/// Cuts the text to the width.
pub fn shorten(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mark = (width > 0).then_some('…');
    text.chars().take(width.saturating_sub(1)).chain(mark).collect()
}

/// Removes characters that move the cursor of a terminal, reorder text, or are invisible.
pub fn plain(text: &str) -> String {
    let is_odd = |c: char| c.is_control() && c != '\n' && c != '\t' || is_unseen(c);
    text.chars().map(|c| if is_odd(c) { '\u{fffd}' } else { c }).collect()
}

/// Whether a character is in Unicode's Cf, Zl or Zp, or has no shape.
fn is_unseen(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{890}'..='\u{891}'
        | '\u{8e2}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}'
        | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{110bd}' | '\u{110cd}'
        | '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}')
}

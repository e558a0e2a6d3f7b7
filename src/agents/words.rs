//! `delegate --type X --prompt "…"`: delegation through a tool that runs commands, for servers that forward only
//! known tools.
//!
//! Splits a command into words like a shell. A command with shell syntax (pipes, variables, several commands) is not
//! a delegation.

/// The parts of a command that begins with `delegate`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Command {
    /// `--type`.
    pub agent: Option<String>,
    /// `--prompt`.
    pub prompt: Option<String>,
}

/// Reads a command. `None`: it is for a shell.
pub fn command(text: &str) -> Option<Command> {
    let words = split(text)?;
    let (first, rest) = words.split_first()?;
    if first != "delegate" {
        return None;
    }
    let mut it = Command::default();
    let mut rest = rest.iter();
    while let Some(word) = rest.next() {
        let (flag, value) = match word.split_once('=') {
            Some((flag, value)) => (flag, Some(value.to_owned())),
            None => (word.as_str(), rest.next().cloned()),
        };
        match flag {
            "--type" => it.agent = value,
            "--prompt" => it.prompt = value,
            // For the user only.
            "--description" => {}
            _ => return None,
        }
    }
    Some(it)
}

/// The words of a command; `None` if it has shell syntax.
fn split(text: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = text.trim().chars();
    while let Some(it) = chars.next() {
        match it {
            ' ' | '\t' => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next()? {
                        '\'' => break,
                        it => word.push(it),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next()? {
                        '"' => break,
                        '\\' => match chars.next()? {
                            it @ ('"' | '\\' | '$' | '`') => word.push(it),
                            '\n' => {}
                            it => word.extend(['\\', it]),
                        },
                        '$' | '`' => return None,
                        it => word.push(it),
                    }
                }
            }
            '\\' => match chars.next()? {
                // The line continues.
                '\n' => {}
                it => word.get_or_insert_default().push(it),
            },
            '\n' | ';' | '|' | '&' | '<' | '>' | '(' | ')' | '$' | '`' => return None,
            it => word.get_or_insert_default().push(it),
        }
    }
    words.extend(word);
    Some(words)
}

/// The addition to the description of the tool, for a model.
pub fn usage(agents: &str) -> String {
    format!(
        "\n\nA command of this form starts a sub-agent instead and returns at once:\ndelegate --type NAME --prompt \"TASK\"\n\
         Put the whole task in quotes.\n\n{agents}"
    )
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn found(agent: &str, prompt: &str) -> Command {
        Command { agent: Some(agent.to_owned()), prompt: Some(prompt.to_owned()) }
    }

    #[test]
    fn command_parses_only_plain_delegate_lines() {
        for (text, expected) in [
            (
                "delegate --type explore --prompt \"look \\\"here\\\"\"",
                Some(found("explore", "look \"here\"")),
            ),
            ("  delegate --prompt='a $b; c' --type=bash ", Some(found("bash", "a $b; c"))),
            ("delegate --type a --description 'x y' --prompt b\\ c", Some(found("a", "b c"))),
            ("delegate --type a --prompt \"two\nlines\"", Some(found("a", "two\nlines"))),
            ("delegate", Some(Command::default())),
            ("delegate --kind x", None),
            ("delegate --type a \\\n  --prompt b\\\nc", Some(found("a", "bc"))),
            ("delegate --type a --prompt b; rm -rf /", None),
            ("delegate --type a --prompt \"$(cat x)\"", None),
            ("delegate --type a --prompt b | cat", None),
            ("delegate --type a --prompt \"open", None),
            ("echo delegate", None),
            ("ls", None),
            ("", None),
        ] {
            assert_eq!(command(text), expected, "{text}");
        }
    }

    proptest! {
        /// Quoted text is read unchanged.
        #[test]
        fn split_returns_quoted_words_unchanged(
            words in vec("\\PC{0,12}|[ -~\n]{0,12}", 1..5),
            single in any::<bool>(),
        ) {
            let quote = |it: &String| match single {
                true => format!("'{}'", it.replace('\'', "'\\''")),
                false => {
                    let escaped = it.chars().fold(String::new(), |mut text, it| {
                        if matches!(it, '"' | '\\' | '$' | '`') {
                            text.push('\\');
                        }
                        text.push(it);
                        text
                    });
                    format!("\"{escaped}\"")
                }
            };
            let text = words.iter().map(quote).collect::<Vec<_>>().join(" ");
            prop_assert_eq!(split(&text), Some(words));
        }

        #[test]
        fn command_never_panics_on_any_text(text in "\\PC{0,40}|delegate [ -~]{0,40}") {
            let _ = command(&text);
        }
    }
}

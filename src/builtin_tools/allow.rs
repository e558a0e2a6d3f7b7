//! Decides which commands run without a question.
//!
//! **In doubt lspool asks.** A command is compared word by word only if a shell sees only words in it: no operators,
//! variables, patterns, comments, or several lines. Any other command must equal an entry letter by letter.

/// Whether one of the entries of a list allows a command.
pub fn is_allowed(command: &str, allow: &[String]) -> bool {
    let command = command.trim_matches([' ', '\t']);
    let words = words(command);
    allow.iter().any(|entry| {
        let entry = entry.trim_matches([' ', '\t']);
        let is_whole = entry == command && !entry.is_empty() && !entry.ends_with(" *");
        is_whole || words.as_deref().is_some_and(|words| covers(entry, words))
    })
}

/// Whether an entry allows these words: the same words, or with ` *` at its end any words that begin with them.
fn covers(entry: &str, given: &[String]) -> bool {
    let (entry, is_open) = match entry.strip_suffix(" *") {
        Some(entry) => (entry, true),
        None => (entry, false),
    };
    match words(entry) {
        Some(entry) if entry.is_empty() => false,
        Some(entry) if is_open => given.starts_with(&entry),
        Some(entry) => given == entry,
        None => false,
    }
}

/// The words of a command, if it consists of plain words. All shells must agree on that.
pub(crate) fn words(command: &str) -> Option<Vec<String>> {
    let mut words: Vec<String> = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = command.chars();
    while let Some(it) = chars.next() {
        match it {
            ' ' | '\t' => words.extend(word.take()),
            quote @ ('\'' | '"') => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next()? {
                        it if it == quote => break,
                        '$' | '`' | '\\' | '!' if quote == '"' => return None,
                        // They end quoted text in PowerShell.
                        '\u{2018}'..='\u{201f}' => return None,
                        it if it.is_control() => return None,
                        it => word.push(it),
                    }
                }
            }
            // Characters without a meaning in any shell.
            it if it.is_alphanumeric() || "-_./:,+@%".contains(it) => word.get_or_insert_default().push(it),
            // `--flag=value` is a word; `NAME=value` before a command sets a variable.
            '=' if !words.is_empty() => word.get_or_insert_default().push('='),
            _ => return None,
        }
    }
    words.extend(word);
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(command: &str, allow: &[&str]) -> bool {
        let allow: Vec<String> = allow.iter().map(ToString::to_string).collect();
        is_allowed(command, &allow)
    }

    #[test]
    fn allow_list_compares_commands_word_by_word() {
        for (command, entry) in [
            ("git status", "git status"),
            ("  git   status ", "git status"),
            ("git 'status'", "git status"),
            ("cargo test", "cargo test *"),
            ("cargo test --lib -p x", "cargo test *"),
            ("cargo test --lib", "cargo *"),
            ("make 'a b'", "make \"a b\""),
            ("npm run test:unit", "npm run *"),
            ("cargo build --target=x86_64", "cargo build --target=x86_64"),
        ] {
            assert!(check(command, &[entry]), "{command} by {entry}");
        }
        for (command, entry) in [
            ("git status --short", "git status"),
            ("git", "git status"),
            ("gitstatus", "git status"),
            ("cargo testing", "cargo test *"),
            ("cargo test", "cargo test --lib *"),
            ("ls", "*"),
            ("ls", ""),
            ("", ""),
            ("", "*"),
            ("make a b", "make 'a b'"),
            ("/tmp/git status", "git status"),
        ] {
            assert!(!check(command, &[entry]), "{command} by {entry}");
        }
    }

    #[test]
    fn allow_list_refuses_shell_syntax() {
        for more in [
            ";",
            "; rm x",
            "&& rm x",
            "& rm x",
            "| sh",
            "|| rm x",
            "> x",
            "< x",
            "$(rm x)",
            "`rm x`",
            "$X",
            "${X}",
            "\nrm x",
            "\r\nrm x",
            "# x",
            "*",
            "?",
            "[a]",
            "{a,b}",
            "~",
            "~/x",
            "\\\nrm",
            "\\;",
            "\"$(rm x)\"",
            "\"`rm x`\"",
            "\"$X\"",
            "\"!x\"",
            "'\u{2019}; rm x #'",
            "\"\u{201d}; rm x #\"",
            "!x",
            "(x)",
            "'",
            "\"",
            "$'\\n'",
            "\u{b}x",
            "'a\nb'",
            "\u{2028}x",
            "\u{a0}x",
            "^x",
            "\0",
        ] {
            let command = format!("cargo test {more}");
            assert!(!check(&command, &["cargo test *", "cargo *", "cargo test"]), "{command:?}");
        }
        for command in ["X=1 cargo test", "=x", "{ cargo test; }", "! cargo test", "(cargo test)"] {
            assert!(
                !check(command, &["cargo test *", "X=1 cargo *", "! *", "{ *", "(cargo *"]),
                "{command:?}"
            );
        }
    }

    #[test]
    fn allow_list_accepts_whole_command_as_written() {
        let whole = "cargo fmt --check && cargo test";
        assert!(check(whole, &[whole]));
        assert!(!check(&format!("{whole} && rm x"), &[whole]));
        assert!(!check("cargo fmt --check && cargo  test", &[whole]));
        assert!(check("echo $HOME", &["echo $HOME"]) && !check("echo $PATH", &["echo *"]));
    }
}

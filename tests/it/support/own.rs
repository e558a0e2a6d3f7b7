//! What lspool adds to what a server says.

use serde_json::{Value, json};

const COMMANDS: &str = r#""lspool.reload","lspool.restart","lspool.status""#;

/// What an editor hears of a server that says of itself nothing but `{"capabilities": {}}`.
pub fn bare() -> Value {
    json!({"capabilities": {"executeCommandProvider": {"commands": ["lspool.reload", "lspool.restart", "lspool.status"]}}})
}

/// The text of an answer to `initialize` without lspool's own commands, which must be there.
pub fn without_commands(answer: &str) -> String {
    assert!(answer.contains(COMMANDS), "{answer}");
    stripped(answer)
}

/// Any text without lspool's own commands.
pub fn stripped(text: &str) -> String {
    // With a Copilot server there is one more.
    let text = text.replace(r#""lspool.orchestrate","#, "");
    text.replace(&format!(",{COMMANDS}"), "").replace(COMMANDS, "")
}

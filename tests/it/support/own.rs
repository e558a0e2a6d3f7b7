//! The additions of lspool to a server's messages.

use serde_json::{Value, json};

/// In front of a server that is no Copilot server, `lspool.SERVER.PID.` stands before each.
const COMMANDS: [&str; 4] = ["orchestrate", "reload", "restart", "status"];

/// The messages to an editor from a puppet that reports only `{"capabilities": {}}`, through this lspool.
pub fn bare(pid: u32) -> Value {
    let commands: Vec<String> =
        COMMANDS[1..].iter().map(|it| format!("lspool.lspool-puppet.{pid}.{it}")).collect();
    json!({"capabilities": {"executeCommandProvider": {"commands": commands}}})
}

/// The text of an answer to `initialize` of a generic server, without lspool's commands: exactly these must be there,
/// all with the name of the server.
pub fn without_commands(answer: &str) -> String {
    let is_own = |it: &&str| it.starts_with("lspool.");
    let names: Vec<&str> = answer.split('"').filter(is_own).collect();
    let scope = names.first().and_then(|it| it.strip_suffix(COMMANDS[1])).unwrap_or_default();
    assert!(scope.len() > "lspool..".len(), "{answer}");
    assert_eq!(names, COMMANDS[1..].iter().map(|it| format!("{scope}{it}")).collect::<Vec<_>>());
    stripped(answer)
}

/// Any text without lspool's commands, which follow those of the server.
pub fn stripped(text: &str) -> String {
    let mut rest = text.to_owned();
    while let Some((from, to)) = own(&rest) {
        let from = if rest[..from].ends_with(',') { from - 1 } else { from };
        let to = if rest[..from].ends_with('[') && rest[to..].starts_with(',') { to + 1 } else { to };
        rest.replace_range(from..to, "");
    }
    rest
}

/// The place of the first of them, with its quotes.
fn own(text: &str) -> Option<(usize, usize)> {
    text.match_indices(r#""lspool."#).find_map(|(from, _)| {
        let inner = from + 1..from + 1 + text[from + 1..].find('"')?;
        let last = text[inner.clone()].rsplit('.').next()?;
        COMMANDS.contains(&last).then_some((from, inner.end + 1))
    })
}

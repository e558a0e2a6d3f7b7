//! One more entry in a text of settings, with all else as it was.

use serde_json::Value;

use crate::rpc::Patch;

/// A text with the entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Merged {
    /// It had it.
    Same,
    /// This one.
    Changed(String),
}

/// What to say about another entry of this name.
fn is_taken(name: &str) -> String {
    format!("it has another entry {name:?}: remove that one first")
}

/// Adds `name: value` to the tables of a JSON object.
pub(super) fn json_with(text: &str, tables: &[&str], name: &str, value: &Value) -> Result<Merged, String> {
    let text = if text.trim().is_empty() { "{}\n" } else { text };
    let before: Value = serde_json::from_str(text).map_err(|error| {
        format!("it is not plain JSON ({error}), perhaps for its comments: add the entry by hand")
    })?;
    let mut table = &before;
    let mut missing = tables.len();
    for (depth, key) in tables.iter().enumerate() {
        if !table.is_object() {
            break;
        }
        match table.get(key) {
            Some(inner) => table = inner,
            None => {
                missing = depth;
                break;
            }
        }
    }
    if !table.is_object() {
        return Err(format!("{} is not an object", tables.join(".")));
    }
    if missing == tables.len() {
        match table.get(name) {
            Some(there) if there == value => return Ok(Merged::Same),
            Some(_) => return Err(is_taken(name)),
            None => {}
        }
    }
    // The patch puts this behind a brace; then it gets lines of its own.
    let mut inserted = member(name, &value.to_string());
    for key in tables[missing..].iter().rev() {
        inserted = member(key, &format!("{{{inserted}}}"));
    }
    let path: Vec<&str> = tables.iter().copied().chain([name]).collect();
    let patched = Patch::of(text.as_bytes()).set_path(&path, value.to_string().as_bytes()).finish();
    let patched = String::from_utf8(patched).map_err(|error| error.to_string())?;
    let text = on_lines(&patched, &inserted, missing).unwrap_or_else(|| patched.clone());
    let after = serde_json::from_str(&text).ok();
    if after.as_ref().map(|it| without(it, &path, missing)) != Some(before) {
        return Err("lspool cannot add to it: add the entry by hand".to_owned());
    }
    Ok(Merged::Changed(text))
}

fn member(key: &str, value: &str) -> String {
    format!("{}:{value}", Value::from(key))
}

/// The value without what was added: the entry, or the outermost of its tables that is new.
fn without(value: &Value, path: &[&str], missing: usize) -> Value {
    let mut value = value.clone();
    let mut inner = &mut value;
    for key in &path[..missing] {
        inner = &mut inner[*key];
    }
    if let Some(members) = inner.as_object_mut() {
        members.shift_remove(path[missing]);
    }
    value
}

/// Spreads a new member over lines, as the rest of the file is written.
fn on_lines(text: &str, inserted: &str, depth: usize) -> Option<String> {
    let at = text.find(inserted)?;
    let (before, after) = (&text[..at], &text[at + inserted.len()..]);
    let indented = text.lines().find(|it| it.starts_with([' ', '\t']) && !it.trim().is_empty());
    let indent = match indented.map(|it| &it[..it.len() - it.trim_start().len()]) {
        Some(tabs) if tabs.starts_with('\t') => "\t",
        Some(blanks) if blanks.len() >= 4 => "    ",
        _ => "  ",
    };
    let whole: Value = serde_json::from_str(&format!("{{{inserted}}}")).ok()?;
    let pretty = format!("{whole:#}");
    let lines = pretty.strip_prefix("{\n")?.strip_suffix("\n}")?;
    let lines = lines.lines().map(|line| {
        let bare = line.trim_start();
        let level = (line.len() - bare.len()) / 2 + depth;
        format!("\n{}{bare}", indent.repeat(level))
    });
    let mut out = before.to_owned();
    out.extend(lines);
    match after.trim_start().chars().next()? {
        // It is the only member.
        '}' => {
            out.push('\n');
            out.push_str(&indent.repeat(depth));
            out.push_str(after.trim_start_matches([' ', '\t', '\n', '\r']));
        }
        _ => out.push_str(after),
    }
    Some(out)
}

/// Adds a table with strings and lists of strings at the end of a TOML text.
pub(super) fn toml_with(text: &str, tables: &[&str], name: &str, value: &Value) -> Result<Merged, String> {
    let read = |text: &str| {
        text.parse::<toml::Table>().map_err(|error| format!("it is not TOML: {}", error.message()))
    };
    let before = read(text)?;
    let path: Vec<&str> = tables.iter().copied().chain([name]).collect();
    let entry = toml::Table::try_from(value).map_err(|error| error.to_string())?;
    let mut there = Some(&before);
    for (depth, key) in path.iter().enumerate() {
        there = match there.and_then(|it| it.get(*key)) {
            None => None,
            Some(toml::Value::Table(inner)) if depth + 1 < path.len() => Some(inner),
            Some(toml::Value::Table(inner)) if *inner == entry => return Ok(Merged::Same),
            Some(_) if depth + 1 == path.len() => return Err(is_taken(name)),
            Some(_) => return Err(format!("{key} is not a table")),
        };
    }
    let gap = match text {
        "" => "",
        text if text.ends_with('\n') => "\n",
        _ => "\n\n",
    };
    // A JSON string is a TOML string, and so is a list of them.
    let members = value.as_object().into_iter().flatten();
    let lines = members.map(|(key, value)| match value {
        Value::Array(words) => {
            let words: Vec<String> = words.iter().map(Value::to_string).collect();
            format!("{key} = [{}]\n", words.join(", "))
        }
        other => format!("{key} = {other}\n"),
    });
    let text = format!("{text}{gap}[{}]\n{}", path.join("."), lines.collect::<String>());
    let mut after = read(&text).map_err(|_| "lspool cannot add to it: add the entry by hand".to_owned())?;
    remove(&mut after, &path);
    let mut before = before;
    // A table that was missing is empty without the entry.
    remove(&mut before, &path);
    if after != before {
        return Err("lspool cannot add to it: add the entry by hand".to_owned());
    }
    Ok(Merged::Changed(text))
}

/// Removes an entry, and the tables around it that are empty then.
fn remove(table: &mut toml::Table, path: &[&str]) {
    match path {
        [] => {}
        [key] => drop(table.remove(*key)),
        [key, rest @ ..] => {
            if let Some(toml::Value::Table(inner)) = table.get_mut(*key) {
                remove(inner, rest);
                if inner.is_empty() {
                    table.remove(*key);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::*;

    fn value() -> Value {
        json!({"command": "lspool", "args": ["mcp"]})
    }

    #[track_caller]
    fn check_json(text: &str, expected: &Expect) {
        let Ok(Merged::Changed(merged)) = json_with(text, &["mcpServers"], "lspool", &value()) else {
            panic!("{text}")
        };
        expected.assert_eq(&merged);
        assert_eq!(json_with(&merged, &["mcpServers"], "lspool", &value()), Ok(Merged::Same));
    }

    #[test]
    fn json_keeps_each_byte_of_the_rest() {
        check_json(
            "",
            &expect![[r#"
            {
              "mcpServers": {
                "lspool": {
                  "command": "lspool",
                  "args": [
                    "mcp"
                  ]
                }
              }
            }
        "#]],
        );
        check_json(
            "{\n    \"theme\":  \"dark\", \"big\": 12345678901234567890.10,\n    \"theme2\": 1e2\n}\n",
            &expect![[r#"
                {
                    "mcpServers": {
                        "lspool": {
                            "command": "lspool",
                            "args": [
                                "mcp"
                            ]
                        }
                    },
                    "theme":  "dark", "big": 12345678901234567890.10,
                    "theme2": 1e2
                }
            "#]],
        );
        check_json(
            "{\n\t\"mcpServers\": {\n\t\t\"other\": {\"command\": \"x\"}\n\t}\n}",
            &expect![[r#"
            {
            	"mcpServers": {
            		"lspool": {
            			"command": "lspool",
            			"args": [
            				"mcp"
            			]
            		},
            		"other": {"command": "x"}
            	}
            }"#]],
        );
        check_json(
            "{\"mcpServers\":{ }, \"a\":[]}",
            &expect![[r#"
            {"mcpServers":{
                "lspool": {
                  "command": "lspool",
                  "args": [
                    "mcp"
                  ]
                }
              }, "a":[]}"#]],
        );
    }

    #[test]
    fn files_that_lspool_cannot_add_to_are_left() {
        for (text, why) in [
            ("// mine\n{}", "comments"),
            ("{\"a\": 1,}", "not plain JSON"),
            ("[]", "not an object"),
            ("{\"mcpServers\": []}", "not an object"),
            ("{\"mcpServers\": {\"lspool\": {\"command\": \"mine\"}}}", "remove that one first"),
        ] {
            let error = json_with(text, &["mcpServers"], "lspool", &value()).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
        for (text, why) in [
            ("a = ", "not TOML"),
            ("mcp_servers = 1", "not a table"),
            ("mcp_servers = { other = { command = \"x\" } }", "by hand"),
            ("[mcp_servers.lspool]\ncommand = \"mine\"", "remove that one first"),
        ] {
            let error = toml_with(text, &["mcp_servers"], "lspool", &value()).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn toml_gets_a_table_at_its_end() {
        for text in ["", "model = \"x\" # mine", "[a]\nb = 1\n\n[mcp_servers.other]\ncommand = \"y\"\n"] {
            let Ok(Merged::Changed(merged)) = toml_with(text, &["mcp_servers"], "lspool", &value()) else {
                panic!()
            };
            assert!(merged.starts_with(text), "{merged}");
            assert!(
                merged.ends_with("[mcp_servers.lspool]\ncommand = \"lspool\"\nargs = [\"mcp\"]\n"),
                "{merged}"
            );
            assert_eq!(toml_with(&merged, &["mcp_servers"], "lspool", &value()), Ok(Merged::Same));
        }
    }
}

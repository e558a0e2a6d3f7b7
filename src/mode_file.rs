//! The file of a custom chat mode: the tools of a turn in the mode, and nothing that a model would notice. A mode
//! derived from one of the editor keeps its text.

use serde_json::{Value, json};

use crate::agents;

/// Only users may choose the mode. Otherwise the server would tell agents about it.
const POLICY: (&str, &str) = ("x-github-copilot-invoke-policy", r#"["user"]"#);

/// A mode file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModeFile {
    /// The title of the mode.
    pub title: String,
    /// The tools of a turn in it.
    pub tools: Vec<String>,
    /// The whole content.
    pub text: String,
}

/// A mode that only restricts tools. The model would get a body.
pub fn plain(name: &str, tools: &[String]) -> ModeFile {
    let front = [("name".to_owned(), json!(name)), ("description".to_owned(), json!("tools"))];
    let text = written(&front, tools, "");
    ModeFile { title: name.to_owned(), tools: tools.to_vec(), text }
}

/// The mode of another file, with only those of its tools that are in `tools`. `name` is its title if the file has
/// none.
pub fn narrowed(text: &str, name: &str, tools: &[String]) -> Result<ModeFile, String> {
    let (mut front, body) = agents::front_matter(text).map_err(|it| it.to_string())?;
    let own = front.iter().find(|(key, _)| key == "tools").map(|(_, value)| value.clone());
    let tools: Vec<String> = match own {
        None | Some(Value::Null) => tools.to_vec(),
        Some(Value::Array(own)) => {
            let is_in = |it: &&str| tools.iter().any(|tool| tool == it);
            own.iter().filter_map(Value::as_str).filter(is_in).map(str::to_owned).collect()
        }
        Some(_) => return Err("its tools are not a list".to_owned()),
    };
    front.retain(|(key, _)| key != "tools" && key != POLICY.0);
    let title = match front.iter().find(|(key, _)| key == "name").map(|(_, value)| value) {
        Some(Value::String(title)) => title.clone(),
        Some(_) => return Err("its name is not a string".to_owned()),
        None => {
            front.insert(0, ("name".to_owned(), json!(name)));
            name.to_owned()
        }
    };
    Ok(ModeFile { title, text: written(&front, &tools, body), tools })
}

/// Writes values as JSON, which is also YAML.
fn written(front: &[(String, Value)], tools: &[String], body: &str) -> String {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || it == '-' || it == '_';
    let mut lines = vec!["---".to_owned()];
    for (key, value) in front {
        let key = if key.chars().all(is_plain) { key.clone() } else { json!(key).to_string() };
        lines.push(format!("{key}: {value}"));
    }
    lines.push(format!("{}: {}", POLICY.0, POLICY.1));
    lines.push(format!("tools: {}", json!(tools)));
    lines.push(format!("---\n{body}"));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn plain_mode_file_contains_only_tools() {
        let text = plain("4f", &names(&["a", "ü \"x\""])).text;
        let expected = "---\nname: \"4f\"\ndescription: \"tools\"\n\
                        x-github-copilot-invoke-policy: [\"user\"]\ntools: [\"a\",\"ü \\\"x\\\"\"]\n---\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn narrowed_mode_keeps_everything_but_foreign_tools() {
        let own = "---\nname: reviewer\nmodel: x: y\ntools:\n  - b\n  - c\n---\n\nBe *good*.\n";
        assert!(narrowed(own, "r", &[]).is_err(), "what is no YAML is refused");
        let own = "---\nname: reviewer\nmodel: 'x: y'\ntools:\n  - b\n  - c\n---\n\nBe *good*.\n";
        let it = narrowed(own, "r", &names(&["a", "b"])).unwrap();
        assert_eq!((it.title.as_str(), it.tools), ("reviewer", names(&["b"])));
        assert!(it.text.contains("model: \"x: y\"\n"), "{}", it.text);
        assert!(it.text.contains("tools: [\"b\"]\n---\n\nBe *good*.\n"), "{}", it.text);
    }

    #[test]
    fn narrowed_mode_without_tools_gets_the_whole_set() {
        let it = narrowed("---\ndescription: d\n---\nbody", "r", &names(&["a"])).unwrap();
        assert_eq!((it.title.as_str(), it.tools), ("r", names(&["a"])));
        assert!(narrowed("no front matter", "r", &[]).is_err());
        assert!(narrowed("---\ntools: read_file\n---\n", "r", &[]).is_err());
    }
}

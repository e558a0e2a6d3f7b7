//! Stand-ins for engines: each checks its words, and runs the rest in another root.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use super::{Bubble, configured, hover, kill, leftovers::executable, open, processes, start};
use crate::{
    generic::pyright,
    support::{copilot::uri, editor::TestEditor, real::Sandbox},
};

const TEXT: &str = "import os\nvalue = os.getcwd()\n";

impl Bubble {
    /// A configuration with a stand-in for this engine, whose script runs `$root` with the words that are left.
    fn stand_in(&self, sandbox: &Sandbox, engine: &str, script: &str, remote: &str) -> PathBuf {
        let program = sandbox.home().join(engine);
        let root = self.words(sandbox).join(" ");
        let folder = sandbox.workspace().display().to_string();
        let script = script.replace("$root", &root).replace("$folder", &folder);
        executable(&program, &format!("{script}\necho \"unknown: $*\" >&2; exit 1\n"));
        let remote = format!(
            "engine = \"{engine}\"\nengine_command = [{:?}]\n{remote}",
            program.display().to_string()
        );
        configured(sandbox, &pyright().command, &remote.replace("$folder", &folder))
    }
}

/// Where the definition of `value` is.
fn definition(editor: &TestEditor, document: &str) -> Value {
    let at = json!({"textDocument": {"uri": document}, "position": {"line": 1, "character": 1}});
    editor.ok("textDocument/definition", at)[0]["uri"].clone()
}

fn works(sandbox: &Sandbox, config: &Path) {
    let document = uri(&sandbox.write("a.py", TEXT));
    let editor = start(sandbox, config);
    open(&editor, sandbox, &document);
    assert!(hover(&editor, &document).contains("getcwd"));
    assert_eq!(definition(&editor, &document), document.as_str());
    editor.shutdown();
}

#[test]
fn pyright_in_a_pod_answers() {
    let Some(bubble) = Bubble::new() else { return };
    let sandbox = Sandbox::new();
    let script = "case \"$*\" in 'exec -i -n dev -c main --context far web-1 -- '*) shift 9; exec $root \"$@\" ;; esac";
    let remote = "target = \"dev/web-1/main\"\nengine_args = [\"--context\", \"far\"]\n\
                  paths = [{ local = \"$folder\", remote = \"/app\" }]\n";
    works(&sandbox, &bubble.stand_in(&sandbox, "kubectl", script, remote));
}

/// Its CLI tells where the workspace folder is.
#[test]
fn pyright_in_a_dev_container_answers() {
    let Some(bubble) = Bubble::new() else { return };
    let sandbox = Sandbox::new();
    let told = r#"{"configuration":{},"workspace":{"workspaceFolder":"/app","workspaceMount":"type=bind"}}"#;
    let script = format!(
        "case \"$*\" in\n\
         'read-configuration --workspace-folder $folder') echo '{told}'; exit ;;\n\
         'exec --workspace-folder $folder '*) shift 3; exec $root \"$@\" ;;\nesac"
    );
    works(&sandbox, &bubble.stand_in(&sandbox, "devcontainer", &script, ""));
}

/// The next process has the mounts of the container that has taken the place of the first one.
#[test]
fn container_that_was_made_again_has_its_new_mounts() {
    let Some(bubble) = Bubble::new() else { return };
    let sandbox = Sandbox::new();
    let document = uri(&sandbox.write("a.py", TEXT));
    let (place, folder) = (sandbox.home().join("place"), sandbox.workspace().display().to_string());
    fs::write(&place, "/app").expect("it is ours");
    let script = format!(
        "p=$(cat {place})\ncase \"$*\" in\n\
         'inspect --type container --format {{{{json .Mounts}}}} web') \
         echo '[{{\"Type\":\"bind\",\"Source\":\"{folder}\",\"Destination\":\"'$p'\"}}]'; exit ;;\n\
         'exec -i web '*) shift 3; exec $root \"$@\" ;;\nesac",
        place = place.display()
    );
    let root = bubble.words(&sandbox).join(" ").replace("/app", "$p");
    let script = script.replace("$root", &root);
    let config = bubble.stand_in(&sandbox, "docker", &script, "target = \"web\"\n");
    let editor = start(&sandbox, &config);
    open(&editor, &sandbox, &document);
    assert!(hover(&editor, &document).contains("getcwd"));
    fs::write(&place, "/srv/new").expect("it is ours");
    kill(&processes(|line| line.contains("bwrap") && line.contains(&folder)));
    assert!(hover(&editor, &document).contains("getcwd"));
    assert_eq!(definition(&editor, &document), document.as_str());
    let line = |it: &str| it.contains("bwrap") && it.contains("\0/srv/new\0");
    assert!(!processes(line).is_empty(), "the second container is another one");
    editor.shutdown();
}

/// Words of the server that a shell would take apart arrive whole through every engine with a shell.
#[test]
fn odd_words_of_a_server_arrive_whole() {
    let Some(bubble) = Bubble::new() else { return };
    let sandbox = Sandbox::new();
    let words: Vec<OsString> = ["sh", "-c", "echo \"it's $0: <$1>\" >&2; exit 3", "a b", "$HOME; `x` \"y\""]
        .map(OsString::from)
        .to_vec();
    let config = bubble.config(&sandbox, &words);
    let editor = start(&sandbox, &config);
    let initialize = json!({"processId": null, "rootUri": uri(&sandbox.workspace()), "capabilities": {}});
    let error = editor.call("initialize", initialize).unwrap_err().message;
    assert!(error.contains("it's a b: <$HOME; `x` \"y\">") && error.contains("exit code 3"), "{error}");
}

//! The output for each editor.

use expect_test::{Expect, expect};

use super::*;

fn check(editor: Editor, names: &[&str], expected: &Expect) {
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    expected.assert_eq(&text(editor, "lspool", &named(&names).unwrap()));
}

#[test]
fn setup_prints_settings_for_each_editor() {
    check(
        Editor::Nvim,
        &["pyright", "copilot"],
        &expect![[r#"
        -- ~/.config/nvim/init.lua, Neovim 0.11 or later
        vim.lsp.config("pyright", {
          cmd = { "lspool", "--", "pyright-langserver", "--stdio" },
          filetypes = { "python" },
          root_markers = { "pyproject.toml", ".git" },
        })
        vim.lsp.config("copilot", {
          cmd = { "lspool", "--", "copilot-language-server", "--stdio" },
          root_markers = { ".git" },
          init_options = {
            editorInfo = { name = "Neovim", version = tostring(vim.version()) },
            editorPluginInfo = { name = "lspool", version = "1.0" },
          },
        })
        vim.lsp.enable({ "pyright", "copilot" })
    "#]],
    );
    check(
        Editor::Helix,
        &["pyright", "ruff", "gopls"],
        &expect![[r##"
        # ~/.config/helix/languages.toml
        [language-server.pyright]
        command = "lspool"
        args = ["--", "pyright-langserver", "--stdio"]

        [language-server.ruff]
        command = "lspool"
        args = ["--", "ruff", "server"]

        [language-server.gopls]
        command = "lspool"
        args = ["--", "gopls"]

        [[language]]
        name = "go"
        language-servers = ["gopls"]

        [[language]]
        name = "python"
        language-servers = ["pyright", "ruff"]
    "##]],
    );
    check(
        Editor::Emacs,
        &["clangd", "lua-language-server", "copilot"],
        &expect![[r#"
        ;; init.el, eglot
        (with-eval-after-load 'eglot
          (add-to-list 'eglot-server-programs
                       '((c-mode c++-mode c-ts-mode c++-ts-mode) . ("lspool" "--" "clangd"))))

        ;; init.el, eglot
        (with-eval-after-load 'eglot
          (add-to-list 'eglot-server-programs
                       '(lua-mode . ("lspool" "--" "lua-language-server"))))

        ;; init.el, copilot.el
        (setq copilot-server-executable (executable-find "lspool")
              copilot-server-args '("--stdio"))
    "#]],
    );
    check(
        Editor::Zed,
        &["rust-analyzer"],
        &expect![[r#"
        // ~/.config/zed/settings.json
        {
          "lsp": {
            "rust-analyzer": {
              "binary": {
                "path": "lspool",
                "arguments": [
                  "--",
                  "rust-analyzer"
                ]
              }
            }
          }
        }
    "#]],
    );
    check(
        Editor::Vscode,
        &["clangd", "pyright"],
        &expect![[r#"
        // settings.json, extension clangd
        "clangd.path": "lspool",
        "clangd.arguments": ["--", "clangd"]

        // VS Code has no setting for the command of a server. In an extension with vscode-languageclient:
        const run: Executable = { command: "lspool", args: ["--", "pyright-langserver", "--stdio"] };
        const client = new LanguageClient("pyright", { run, debug: run }, { documentSelector: ["python"] });
    "#]],
    );
}

#[test]
fn setup_finds_servers_by_any_of_their_names() {
    for name in
        ["rust-analyzer", "rust_analyzer", "ts_ls", "typescript-language-server", "pyright-langserver"]
    {
        assert_eq!(named(&[name.to_owned()]).unwrap().len(), 1, "{name}");
    }
    let error = named(&["pyrigth".to_owned()]).unwrap_err().to_string();
    assert!(error.ends_with("hint: did you mean pyright?"), "{error}");
}

#[test]
fn setup_refuses_copilot_where_it_has_no_setting() {
    for editor in [Editor::Helix, Editor::Vscode, Editor::Zed] {
        assert!(run(editor, &["copilot".to_owned()]).is_err());
    }
}

//! The output for each editor.

use expect_test::{Expect, expect};

use super::*;

fn check(editor: Editor, names: &[&str], expected: &Expect) {
    let named = read(names, "").unwrap();
    expected.assert_eq(&text(editor, "lspool", &Choice::all(named)).unwrap());
}

/// Servers and groups by name, with this configuration.
fn read(names: &[&str], user: &str) -> anyhow::Result<Vec<Entry>> {
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    named(&names, || Ok(Config::parse_user(user, "config.toml").unwrap()))
}

#[test]
fn setup_prints_one_server_for_a_language_and_names_others() {
    let is_there = |it: &str| ["pyright-langserver", "ruff", "pylsp"].contains(&it);
    let check = |editor: Editor, expected: &Expect| {
        let found = read(&["pyright", "pylsp", "ruff", "lua-language-server"], "").unwrap();
        let choice = Choice::of(found, &groups::installed(&is_there));
        expected.assert_eq(&text(editor, "lspool", &choice).unwrap());
    };
    check(
        Editor::Emacs,
        &expect![[r#"
            ;; init.el, eglot
            (with-eval-after-load 'eglot
              (add-to-list 'eglot-server-programs
                           '((python-mode python-ts-mode) . ("lspool" "--" "pyright-langserver" "--stdio"))))

            ;; init.el, eglot
            (with-eval-after-load 'eglot
              (add-to-list 'eglot-server-programs
                           '(lua-mode . ("lspool" "--" "lua-language-server"))))

            ;; Instead of pyright:
            ;;   lspool setup emacs python  (several servers as one)
            ;;   lspool setup emacs pylsp
            ;;   lspool setup emacs ruff
        "#]],
    );
    check(
        Editor::Nvim,
        &expect![[r#"
            -- ~/.config/nvim/init.lua, Neovim 0.11 or later
            vim.lsp.config("pyright", {
              cmd = { "lspool", "--", "pyright-langserver", "--stdio" },
              filetypes = { "python" },
              root_markers = { "pyproject.toml", ".git" },
            })
            vim.lsp.config("lua_ls", {
              cmd = { "lspool", "--", "lua-language-server" },
              filetypes = { "lua" },
              root_markers = { ".luarc.json", ".git" },
            })
            vim.lsp.enable({ "pyright", "lua_ls" })

            -- Instead of pyright:
            --   lspool setup nvim python  (several servers as one)
            --   lspool setup nvim pylsp
            --   lspool setup nvim ruff
        "#]],
    );
}

#[test]
fn setup_prints_settings_for_groups() {
    check(
        Editor::Nvim,
        &["python"],
        &expect![[r#"
        -- ~/.config/nvim/init.lua, Neovim 0.11 or later
        vim.lsp.config("lspool-python", {
          cmd = { "lspool", "--group", "python" },
          filetypes = { "python" },
          root_markers = { "pyproject.toml", ".git" },
        })
        vim.lsp.enable({ "lspool-python" })
    "#]],
    );
    check(
        Editor::Helix,
        &["typescript"],
        &expect![[r##"
        # ~/.config/helix/languages.toml
        [language-server.typescript]
        command = "lspool"
        args = ["--group", "typescript"]

        [[language]]
        name = "javascript"
        language-servers = ["typescript"]

        [[language]]
        name = "jsx"
        language-servers = ["typescript"]

        [[language]]
        name = "tsx"
        language-servers = ["typescript"]

        [[language]]
        name = "typescript"
        language-servers = ["typescript"]
    "##]],
    );
    check(
        Editor::Emacs,
        &["web"],
        &expect![[r#"
        ;; init.el, eglot
        (with-eval-after-load 'eglot
          (add-to-list 'eglot-server-programs
                       '((mhtml-mode html-mode html-ts-mode css-mode css-ts-mode less-css-mode scss-mode js-json-mode json-mode json-ts-mode jsonc-mode) . ("lspool" "--group" "web"))))
    "#]],
    );
    check(
        Editor::Vscode,
        &["vue", "pyright"],
        &expect![[r#"
        // VS Code has no setting for the command of a server. In an extension with vscode-languageclient:
        const client = (name: string, args: string[], documentSelector: string[]) => {
          const run: Executable = { command: "lspool", args };
          return new LanguageClient(name, { run, debug: run }, { documentSelector });
        };
        const clients = [
          client("vue", ["--group", "vue"], ["vue", "javascript", "javascriptreact", "typescript", "typescriptreact"]),
          client("pyright", ["--", "pyright-langserver", "--stdio"], ["python"]),
        ];
    "#]],
    );
    check(
        Editor::Zed,
        &["python"],
        &expect![[r#"
        // ~/.config/zed/settings.json
        {
          "lsp": {
            "basedpyright": {
              "binary": {
                "path": "lspool",
                "arguments": [
                  "--group",
                  "python"
                ]
              }
            }
          }
        }
    "#]],
    );
    let user = "[group.g]\nservers = [\"a\", \"b\"]\n[server.a]\ncommand = \"/opt/pyright-langserver\"\n\
                [server.b]\nlanguages = [\"toml\"]\n[group.h]\nservers = [\"c\"]\n[server.c]\n";
    let own = read(&["g"], user).unwrap();
    assert_eq!(
        (own[0].args.join(" "), own[0].filetypes.join(" ")),
        ("--group g".into(), "python toml".into())
    );
    let error = read(&["h"], user).unwrap_err().to_string();
    assert!(error.ends_with("hint: set `languages` under [server.c]"), "{error}");
    assert!(text(Editor::Zed, "lspool", &Choice::all(read(&["web"], "").unwrap())).is_err());
    let no_config = || Err("the configuration has errors".to_owned());
    assert!(
        named(&["pyright".to_owned()], no_config).is_ok() && named(&["x".to_owned()], no_config).is_err()
    );
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
            const client = (name: string, args: string[], documentSelector: string[]) => {
              const run: Executable = { command: "lspool", args };
              return new LanguageClient(name, { run, debug: run }, { documentSelector });
            };
            const clients = [
              client("pyright", ["--", "pyright-langserver", "--stdio"], ["python"]),
            ];
        "#]],
    );
}

#[test]
fn setup_finds_servers_by_any_of_their_names() {
    for name in
        ["rust-analyzer", "rust_analyzer", "ts_ls", "typescript-language-server", "pyright-langserver"]
    {
        assert_eq!(read(&[name], "").unwrap().len(), 1, "{name}");
    }
    let error = read(&["pyrigth"], "").unwrap_err().to_string();
    assert!(error.ends_with("hint: did you mean pyright?"), "{error}");
}

#[test]
fn setup_refuses_copilot_where_it_has_no_setting() {
    let args = crate::cli::args::parse(&["lspool".into()]);
    for editor in [Editor::Helix, Editor::Vscode, Editor::Zed] {
        assert!(run(&args, editor, &["copilot".to_owned()]).is_err());
    }
}

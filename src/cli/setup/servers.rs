//! The servers that `lspool setup` knows, with the names of their languages in each editor.

/// The section of the Copilot server, whose settings differ from those of others.
pub(super) const COPILOT: &str = "copilot";

/// A language server, with its settings in editors.
#[derive(Debug)]
pub(super) struct Server {
    /// Its name in Helix and Zed.
    pub(super) name: &'static str,
    /// Its name in Neovim.
    pub(super) nvim: &'static str,
    /// Its command.
    pub(super) command: &'static [&'static str],
    /// File types in Neovim.
    pub(super) filetypes: &'static [&'static str],
    /// Files that mark the folder of a project.
    pub(super) markers: &'static [&'static str],
    /// Languages in Helix.
    pub(super) helix: &'static [&'static str],
    /// Major modes in Emacs.
    pub(super) modes: &'static [&'static str],
    /// Languages in VS Code.
    pub(super) vscode: &'static [&'static str],
}

impl Server {
    /// Whether a user may call it so.
    pub(super) fn is_called(&self, name: &str) -> bool {
        [self.name, self.nvim, self.command[0]].contains(&name)
    }
}

/// The first one is the example if none is installed.
pub(super) const SERVERS: [Server; 12] = [
    python("pyright", "pyright", &["pyright-langserver", "--stdio"]),
    python("basedpyright", "basedpyright", &["basedpyright-langserver", "--stdio"]),
    python("pylsp", "pylsp", &["pylsp"]),
    python("ruff", "ruff", &["ruff", "server"]),
    Server {
        name: "gopls",
        nvim: "gopls",
        command: &["gopls"],
        filetypes: &["go", "gomod", "gowork", "gotmpl"],
        markers: &["go.work", "go.mod", ".git"],
        helix: &["go"],
        modes: &["go-mode", "go-ts-mode"],
        vscode: &["go"],
    },
    Server {
        name: "rust-analyzer",
        nvim: "rust_analyzer",
        command: &["rust-analyzer"],
        filetypes: &["rust"],
        markers: &["Cargo.toml", ".git"],
        helix: &["rust"],
        modes: &["rust-mode", "rust-ts-mode"],
        vscode: &["rust"],
    },
    Server {
        name: "clangd",
        nvim: "clangd",
        command: &["clangd"],
        filetypes: &["c", "cpp"],
        markers: &["compile_commands.json", ".clangd", ".git"],
        helix: &["c", "cpp"],
        modes: &["c-mode", "c++-mode", "c-ts-mode", "c++-ts-mode"],
        vscode: &["c", "cpp"],
    },
    Server {
        name: "typescript-language-server",
        nvim: "ts_ls",
        command: &["typescript-language-server", "--stdio"],
        filetypes: &["javascript", "javascriptreact", "typescript", "typescriptreact"],
        markers: &["tsconfig.json", "package.json", ".git"],
        helix: &["javascript", "typescript"],
        modes: &["js-mode", "js-ts-mode", "typescript-ts-mode", "tsx-ts-mode"],
        vscode: &["javascript", "typescript"],
    },
    Server {
        name: "lua-language-server",
        nvim: "lua_ls",
        command: &["lua-language-server"],
        filetypes: &["lua"],
        markers: &[".luarc.json", ".git"],
        helix: &["lua"],
        modes: &["lua-mode"],
        vscode: &["lua"],
    },
    Server {
        name: "bash-language-server",
        nvim: "bashls",
        command: &["bash-language-server", "start"],
        filetypes: &["bash", "sh"],
        markers: &[".git"],
        helix: &["bash"],
        modes: &["sh-mode", "bash-ts-mode"],
        vscode: &["shellscript"],
    },
    Server {
        name: "zls",
        nvim: "zls",
        command: &["zls"],
        filetypes: &["zig"],
        markers: &["build.zig", ".git"],
        helix: &["zig"],
        modes: &["zig-mode"],
        vscode: &["zig"],
    },
    Server {
        name: COPILOT,
        nvim: COPILOT,
        command: &["copilot-language-server", "--stdio"],
        filetypes: &[],
        markers: &[".git"],
        helix: &[],
        modes: &[],
        vscode: &[],
    },
];

const fn python(name: &'static str, nvim: &'static str, command: &'static [&'static str]) -> Server {
    Server {
        name,
        nvim,
        command,
        filetypes: &["python"],
        markers: &["pyproject.toml", ".git"],
        helix: &["python"],
        modes: &["python-mode", "python-ts-mode"],
        vscode: &["python"],
    }
}

//! The real language servers that `scripts/install-servers` installs, and a sandbox to run them in.

use std::{
    ffi::OsStr,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;

use super::stub::Stub;

/// The Copilot server itself.
pub fn copilot() -> PathBuf {
    installed("node_modules/@github/copilot-language-server-linux-x64/copilot-language-server")
}

/// The script of its npm package: with an old node it starts [`copilot`] and waits for it.
pub fn copilot_wrapper() -> PathBuf {
    installed("node_modules/@github/copilot-language-server/dist/language-server.js")
}

/// Where the packages from npm are.
pub fn node_modules() -> PathBuf {
    installed("node_modules")
}

/// Pyright.
pub fn pyright() -> PathBuf {
    installed("node_modules/.bin/pyright-langserver")
}

/// Basedpyright.
pub fn basedpyright() -> PathBuf {
    installed("node_modules/.bin/basedpyright-langserver")
}

/// The server of TypeScript.
pub fn typescript() -> PathBuf {
    installed("node_modules/.bin/typescript-language-server")
}

/// `python-lsp-server`.
pub fn pylsp() -> PathBuf {
    installed(".venv/bin/pylsp")
}

/// Ruff, whose server is `ruff server`.
pub fn ruff() -> PathBuf {
    installed(".venv/bin/ruff")
}

/// Neovim.
pub fn nvim() -> PathBuf {
    installed(".venv/bin/nvim")
}

/// The interpreter with the packages of `tests/servers/requirements.txt`.
pub fn python() -> PathBuf {
    installed(".venv/bin/python")
}

/// A missing server fails the test: a test that is skipped unnoticed shows nothing.
#[track_caller]
fn installed(path: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers").join(path);
    assert!(path.exists(), "{} is missing: run scripts/install-servers", path.display());
    path
}

/// A home and a workspace of their own, gone when dropped.
pub struct Sandbox {
    folder: TempDir,
}

impl Sandbox {
    /// An empty home and an empty workspace.
    pub fn new() -> Sandbox {
        let sandbox = Sandbox { folder: tempfile::tempdir().expect("a temporary folder") };
        for folder in [sandbox.home(), sandbox.workspace(), sandbox.runtime(), sandbox.temporary()] {
            std::fs::create_dir(folder).expect("the temporary folder is writable");
        }
        // As on a real system; otherwise it would not be used.
        let private = std::fs::Permissions::from_mode(0o700);
        std::fs::set_permissions(sandbox.runtime(), private).expect("the folder is ours");
        sandbox
    }

    /// `HOME`.
    pub fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// The workspace folder.
    pub fn workspace(&self) -> PathBuf {
        self.folder.path().join("workspace")
    }

    /// `XDG_RUNTIME_DIR`.
    pub fn runtime(&self) -> PathBuf {
        self.folder.path().join("run")
    }

    /// `TMPDIR`, so that no lspool that runs on this machine is met there.
    pub fn temporary(&self) -> PathBuf {
        self.folder.path().join("tmp")
    }

    /// Writes a file of the workspace and returns its path.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.workspace().join(name);
        let folder = path.parent().expect("a file of the workspace has a folder");
        std::fs::create_dir_all(folder).expect("the workspace is writable");
        std::fs::write(&path, text).expect("the workspace is writable");
        path
    }

    /// A command that sees nothing of the environment of the tests but `PATH`.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("LANG", "C.UTF-8")
            .env("HOME", self.home())
            .env("XDG_CONFIG_HOME", self.home().join(".config"))
            .env("XDG_CACHE_HOME", self.home().join(".cache"))
            .env("XDG_DATA_HOME", self.home().join(".local/share"))
            .env("XDG_STATE_HOME", self.home().join(".local/state"))
            .env("XDG_RUNTIME_DIR", self.runtime())
            .env("TMPDIR", self.temporary())
            .current_dir(self.workspace());
        command
    }

    /// A command whose whole traffic goes to the stub, without a sign-in.
    pub fn copilot_command(&self, program: impl AsRef<OsStr>, stub: &Stub) -> Command {
        let mut command = self.command(program);
        let url = stub.url();
        for name in ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"] {
            command.env(name, &url);
        }
        if let Some(ca) = stub.ca_path() {
            command.env("NODE_EXTRA_CA_CERTS", ca);
        }
        command
    }

    /// Like [`Sandbox::copilot_command`], signed in by the environment.
    pub fn signed_in_command(&self, program: impl AsRef<OsStr>, stub: &Stub) -> Command {
        let mut command = self.copilot_command(program, stub);
        sign_in(&mut command, stub);
        command
    }

    /// The real Copilot server, signed in.
    pub fn copilot(&self, stub: &Stub) -> Command {
        let mut command = self.signed_in_command(copilot(), stub);
        command.arg("--stdio");
        command
    }
}

impl Default for Sandbox {
    fn default() -> Self {
        Sandbox::new()
    }
}

/// Signs a Copilot server in by its environment.
pub fn sign_in(command: &mut Command, stub: &Stub) {
    command
        .env("GH_COPILOT_TOKEN", "gho_environment")
        .env("GH_COPILOT_USER", "stub-user")
        .env("GH_COPILOT_API_URL", format!("{}/", stub.url()))
        .env("GH_COPILOT_SERVER_URL", format!("{}/", stub.url()));
}

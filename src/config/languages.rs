//! Languages: the files that belong to each, and the servers that lspool finds for them without a configuration.
//!
//! Data. What is specific to a server stands in `presets.rs`, by its name.

/// A language, or a family that one server serves.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Language {
    /// For people.
    pub(crate) name: &'static str,
    /// Endings of file names, with the language id of the protocol.
    pub(crate) files: &'static [(&'static str, &'static str)],
    /// Files that describe the project to a server.
    pub(crate) projects: &'static [&'static str],
    /// Servers in the order of preference: the first that is installed is used. None of them runs anything of the
    /// project.
    pub(crate) servers: &'static [&'static str],
    /// Servers that run programs of the project, and so are used only in a folder that the user trusts.
    pub(crate) runs_project: &'static [&'static str],
    /// What to say if none is installed.
    pub(crate) hint: &'static str,
}

const LANGUAGES: [Language; 5] = [
    Language {
        name: "Python",
        files: &[(".py", "python"), (".pyi", "python")],
        projects: &["pyrightconfig.json", "pyproject.toml", "setup.py", "setup.cfg", "requirements.txt"],
        servers: &["basedpyright", "pyright", "ty"],
        runs_project: &[],
        hint: "install basedpyright or pyright",
    },
    Language {
        name: "TypeScript",
        files: &[
            (".ts", "typescript"),
            (".tsx", "typescriptreact"),
            (".mts", "typescript"),
            (".cts", "typescript"),
            (".js", "javascript"),
            (".jsx", "javascriptreact"),
            (".mjs", "javascript"),
            (".cjs", "javascript"),
        ],
        projects: &["tsconfig.json", "jsconfig.json", "package.json"],
        servers: &["typescript-language-server"],
        runs_project: &[],
        hint: "install typescript-language-server and typescript",
    },
    Language {
        name: "Rust",
        files: &[(".rs", "rust")],
        projects: &["Cargo.toml", "Cargo.lock", "rust-project.json"],
        servers: &[],
        runs_project: &["rust-analyzer"],
        hint: "install rust-analyzer",
    },
    Language {
        name: "Go",
        files: &[(".go", "go")],
        projects: &["go.mod", "go.sum", "go.work"],
        servers: &[],
        runs_project: &["gopls"],
        hint: "install gopls",
    },
    Language {
        name: "C and C++",
        files: &[
            (".c", "c"),
            (".h", "c"),
            (".cc", "cpp"),
            (".cpp", "cpp"),
            (".cxx", "cpp"),
            (".hh", "cpp"),
            (".hpp", "cpp"),
            (".hxx", "cpp"),
        ],
        projects: &["compile_commands.json", "compile_flags.txt", ".clangd"],
        servers: &["clangd"],
        runs_project: &[],
        hint: "install clangd",
    },
];

/// The language of a file, by its name.
pub(crate) fn language_of(file: &str) -> Option<(&'static Language, &'static str)> {
    let name = file.rsplit('/').next().unwrap_or(file);
    LANGUAGES.iter().find_map(|language| {
        let id = language.files.iter().find(|(ending, _)| name.ends_with(ending) && name != *ending);
        id.map(|(_, id)| (language, *id))
    })
}

/// The languages that a server is used for: those that it is well known for, or those with these ids.
pub(crate) fn languages_for(server: &str, ids: &[String]) -> Vec<&'static Language> {
    let knows = |it: &&Language| {
        if ids.is_empty() {
            return it.servers.contains(&server) || it.runs_project.contains(&server);
        }
        it.files.iter().any(|(_, id)| ids.iter().any(|it| it == id))
    };
    LANGUAGES.iter().filter(knows).collect()
}

/// All languages.
pub(crate) fn languages() -> impl Iterator<Item = &'static Language> {
    LANGUAGES.iter()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::presets::known_servers;

    #[test]
    fn servers_of_languages_are_known() {
        for language in languages() {
            for server in language.servers.iter().chain(language.runs_project) {
                assert!(known_servers().any(|it| it == *server), "{server}");
            }
        }
    }

    #[test]
    fn language_is_found_by_ending() {
        let name = |file: &str| language_of(file).map(|(it, id)| (it.name, id));
        assert_eq!(name("/a.b/x.tsx"), Some(("TypeScript", "typescriptreact")));
        assert_eq!(name("x.py"), Some(("Python", "python")));
        assert_eq!(name("/a/.py"), None);
        assert_eq!(name("Makefile"), None);
        let names = |server, ids: &[&str]| {
            let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
            languages_for(server, &ids).iter().map(|it| it.name).collect::<Vec<_>>()
        };
        assert_eq!(names("pyright", &[]), ["Python"]);
        assert_eq!(names("x", &["go", "rust"]), ["Rust", "Go"]);
        assert_eq!(names("x", &[]), [""; 0]);
    }
}

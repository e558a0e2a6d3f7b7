//! Which folders are a workspace.

use std::path::{Path, PathBuf};

use crate::{
    rpc::file_path,
    shell::{discover::Env, os::files::canonicalize},
};

/// What to do about a refused folder.
pub(super) const HINT: &str = "name the folder of your project: `lspool mcp --root DIR`";

/// A folder as a workspace: absolute and without links.
pub(super) fn check(folder: &Path, env: &Env) -> Result<PathBuf, String> {
    let shown = folder.display();
    let real =
        canonicalize(&env.cwd.join(folder)).map_err(|error| format!("cannot open {shown}: {error}"))?;
    if !real.is_dir() {
        return Err(format!("{shown} is not a folder: {HINT}"));
    }
    let home = env.home.as_ref().and_then(|it| canonicalize(it).ok());
    if real.parent().is_none() || home.is_some_and(|it| it.starts_with(&real)) {
        return Err(format!("{shown} is too large to be a workspace: {HINT}"));
    }
    Ok(real)
}

/// The folders that a client has listed.
pub(super) fn of_client(uris: &[String], env: &Env) -> Result<Vec<PathBuf>, String> {
    let mut folders: Vec<PathBuf> = Vec::new();
    for uri in uris {
        let path = file_path(uri).ok_or_else(|| format!("{uri} is not a folder on this machine: {HINT}"))?;
        let folder = check(&path, env)?;
        if !folders.contains(&folder) {
            folders.push(folder);
        }
    }
    Ok(folders)
}

/// The folder from the environment: that of Claude Code's project, or the working folder up to its `.git`.
pub(super) fn of_environment(env: &Env) -> Result<Vec<PathBuf>, String> {
    if let Some(project) = env.folder("CLAUDE_PROJECT_DIR") {
        return check(&project, env).map(|it| vec![it]);
    }
    let top = env.cwd.ancestors().find(|it| it.join(".git").exists());
    // A home folder may be under git too.
    match top.and_then(|it| check(it, env).ok()) {
        Some(top) => Ok(vec![top]),
        None => check(&env.cwd, env).map(|it| vec![it]),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::rpc::file_uri;

    #[test]
    fn folders_that_are_no_project_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        let (home, project) = (top.join("home/u"), top.join("home/u/project"));
        fs::create_dir_all(project.join("deep")).unwrap();
        let env = Env { cwd: project.join("deep"), home: Some(home.clone()), ..Env::default() };
        for refused in [Path::new("/"), home.as_path(), &top.join("home"), Path::new("../../../u")] {
            let why = check(refused, &env).unwrap_err();
            assert!(why.contains("too large") && why.contains("--root"), "{why}");
        }
        assert!(check(Path::new("missing"), &env).unwrap_err().starts_with("cannot open missing"));
        assert_eq!(check(Path::new(".."), &env), Ok(project.clone()));
        assert_eq!(of_environment(&env), Ok(vec![project.join("deep")]));
        fs::create_dir(home.join(".git")).unwrap();
        assert_eq!(of_environment(&env), Ok(vec![project.join("deep")]));
        fs::create_dir(project.join(".git")).unwrap();
        assert_eq!(of_environment(&env), Ok(vec![project.clone()]));
        let mut at_home = Env { cwd: home.clone(), ..env.clone() };
        assert!(of_environment(&at_home).is_err());
        at_home.vars.insert("CLAUDE_PROJECT_DIR".into(), project.clone().into());
        assert_eq!(of_environment(&at_home), Ok(vec![project.clone()]));
        let uris = [file_uri(&project), file_uri(&project.join("deep")), file_uri(&project)];
        assert_eq!(of_client(&uris, &env), Ok(vec![project.clone(), project.join("deep")]));
        assert!(of_client(&["https://example.org".to_owned()], &env).is_err());
    }
}

//! `lspool trust`: the folders whose projects language servers may run.

use std::{path::Path, process::ExitCode};

use super::{print, tell};
use crate::shell::{
    discover::{Env, Trust},
    os::files::canonicalize,
};

/// Exit status if the folder stays as it was.
const REFUSED: u8 = 1;

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Task {
    /// Trust a folder, or the current one.
    Add(Option<std::path::PathBuf>),
    /// Trust it no longer.
    Remove(Option<std::path::PathBuf>),
    /// Print all.
    List,
}

/// Changes or lists the trusted folders.
pub(super) fn run(task: &Task) -> anyhow::Result<ExitCode> {
    let env = Env::real();
    let mut trust = Trust::read(&env).map_err(anyhow::Error::msg)?;
    let (folder, is_added) = match task {
        Task::Add(folder) => (folder, true),
        Task::Remove(folder) => (folder, false),
        Task::List => {
            return print(&trust.lines()).map(|()| ExitCode::SUCCESS);
        }
    };
    let folder = env.cwd.join(folder.as_deref().unwrap_or(Path::new("")));
    // One that is gone can still be removed.
    let real = match canonicalize(&folder) {
        Ok(real) if real.is_dir() => real,
        Ok(_) => anyhow::bail!("{} is not a folder", folder.display()),
        Err(error) if is_added => anyhow::bail!("cannot open {}: {error}", folder.display()),
        Err(_) => folder,
    };
    if is_added {
        refuse_too_large(&real, &env)?;
    }
    let done = if is_added { trust.add(real.clone()) } else { trust.remove(&real) };
    if let Err(why) = done {
        tell(&why);
        return Ok(ExitCode::from(REFUSED));
    }
    let shown = real.display();
    print(&match is_added {
        true => format!("language servers may run programs of {shown}\n"),
        false => format!("{shown} is not trusted\n"),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Refuses a folder that contains all projects, and whatever the user downloads.
fn refuse_too_large(folder: &Path, env: &Env) -> anyhow::Result<()> {
    let home = env.home.as_ref().map(|it| canonicalize(it).unwrap_or_else(|_| it.clone()));
    let what = match home {
        _ if folder.parent().is_none() => "every folder",
        Some(home) if home.starts_with(folder) => "your home folder",
        Some(_) | None => return Ok(()),
    };
    let shown = folder.display();
    anyhow::bail!(
        "{shown} is {what}, which is too much to trust\nhint: lspool trust DIR, with the folder of a project"
    )
}

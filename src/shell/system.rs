//! Processes of the operating system.
//!
//! Owns the start of a process (own group, piped streams, the guard's mark) and its exit. Must be used from one
//! thread.

use std::{
    cell::{Cell, RefCell},
    future::pending,
    io,
    path::{Path, PathBuf},
    rc::Rc,
    sync::Arc,
};

use tokio::{
    io::AsyncWriteExt as _,
    sync::mpsc,
    task::{spawn_blocking, spawn_local},
};

use super::{
    coming::{Coming, Parent},
    control::{Connection, Listener, Place, Socket},
    discover::moved,
    elsewhere::{Marked, Marks},
    folder::Folders,
    guard::{Guard, MARK, Parting},
    os::{
        Leads,
        processes::{Child, Deaths, Streams, is_no_executable, spawn},
    },
    private,
    process::{CodeTools, Commands, EditorLink, GroupLeader, Request, Spawned, Starting, Waiting, World},
    shared::{HubPlace, HubSocket, Sharing, Unable},
};
use crate::core::event::{Displaced, Exit, Launch, Remote, SpawnFailure};

/// The operating system, with the guard of the started processes.
#[derive(Debug)]
pub struct System {
    starter: Starter,
    private: Option<PathBuf>,
    control: Option<Place>,
    socket: Rc<RefCell<Option<PathBuf>>>,
    code_tools: Option<Rc<dyn CodeTools>>,
    /// Control clients in this process.
    near: Option<mpsc::Receiver<Connection>>,
    editors: Option<Rc<dyn EditorLink>>,
    sharing: Option<Rc<Sharing>>,
    /// In a hub: where its clients come in.
    hub: Option<HubSocket>,
}

impl System {
    /// A system without processes.
    pub fn new(guard: Guard) -> System {
        let marks = Marks::new(&guard.mark().value().to_string_lossy());
        let (guard, folders) = (Rc::new(RefCell::new(guard)), Arc::new(Folders::new()));
        let starter = Starter { guard, is_kept: Rc::default(), folders, marks };
        System {
            starter,
            private: None,
            control: None,
            socket: Rc::default(),
            code_tools: None,
            near: None,
            editors: None,
            sharing: None,
            hub: None,
        }
    }

    /// Adds a control socket.
    #[must_use]
    pub fn with_control(self, place: Place) -> System {
        System { control: Some(place), ..self }
    }

    /// Adds code tools, and the connections by which they ask this lspool.
    #[must_use]
    pub fn with_code_tools(self, code_tools: Rc<dyn CodeTools>, near: mpsc::Receiver<Connection>) -> System {
        System { code_tools: Some(code_tools), near: Some(near), ..self }
    }

    /// Adds the editors beside which code tools work.
    #[must_use]
    pub fn beside(self, editors: Option<Rc<dyn EditorLink>>) -> System {
        System { editors, ..self }
    }

    /// Adds the means to share servers with other lspools.
    #[must_use]
    pub fn with_sharing(self, sharing: Sharing) -> System {
        System { sharing: Some(Rc::new(sharing)), ..self }
    }

    /// Makes it the system of a hub, whose clients come in here.
    #[must_use]
    pub fn of_hub(self, place: &HubPlace, socket: HubSocket) -> System {
        self.guard().borrow_mut().add_hub(place);
        System { hub: Some(socket), ..self }
    }

    /// Gives the processes elsewhere a mark by which the next hub at this place ends those that this one leaves. `now` is
    /// in seconds.
    pub fn with_marks_of_hub(self, place: &HubPlace, now: u32) -> io::Result<System> {
        let (mark, number) = place.new_mark(now)?;
        Ok(System { starter: Starter { marks: Marks::of_hub(&mark, number), ..self.starter }, ..self })
    }

    fn guard(&self) -> &Rc<RefCell<Guard>> {
        &self.starter.guard
    }
}

/// Starts processes, and reports them to the guard.
#[derive(Clone, Debug)]
struct Starter {
    guard: Rc<RefCell<Guard>>,
    /// Whether a task keeps the guard running.
    is_kept: Rc<Cell<bool>>,
    folders: Arc<Folders>,
    marks: Marks,
}

impl Starter {
    fn start(&self, launch: Arc<Launch>, leads: Leads) -> Starting {
        // Before the process: no moment at which lspool dies may leave it behind.
        self.start_guard();
        let mark = self.guard.borrow().mark().value().to_owned();
        let (launch, there) = match launch.remote.as_ref() {
            Some(remote) => {
                let there = There::new(self, &launch, remote);
                let args = launch.args.iter().map(|it| there.marked.fill_in(it)).collect();
                (Arc::new(Launch { args, ..Launch::clone(&launch) }), Some(there))
            }
            None => (launch, None),
        };
        let folders = self.folders.clone();
        let coming = Coming::new(move || {
            let (folder, displaced) = match leads {
                Leads::Group => folders.choose(&launch),
                // A command of a tool is for its folder only.
                Leads::Nothing => (launch.cwd.clone(), None),
            };
            let spawned = spawn(&launch, folder.as_deref(), (MARK, &mark), leads);
            spawned.map(|it| (it, displaced)).map_err(|error| failure(&launch, &error))
        });
        let starter = self.clone();
        Box::pin(async move {
            match coming.await {
                Some(Ok((((child, mut streams), displaced), parent))) => {
                    if let Some(there) = &there {
                        // A new pipe takes it at once. If the process has ended, that is reported.
                        streams.stdin.write_all(there.prelude.as_bytes()).await.ok();
                    }
                    Ok(starter.started((child, streams), displaced, parent, there))
                }
                Some(Err(failure)) => Err(failure),
                None => Err(SpawnFailure {
                    permanent: false,
                    message: "no thread to start it in".to_owned(),
                    moved: None,
                }),
            }
        })
    }

    /// Asks whether the place has other folders now: the core must know them before the server starts.
    async fn check_folders(&self, launch: &Arc<Launch>) -> Result<(), SpawnFailure> {
        let asked = launch.clone();
        match spawn_blocking(move || moved(&asked)).await.ok().flatten() {
            Some(paths) => {
                let message = "its folders there have changed".to_owned();
                Err(SpawnFailure { permanent: false, message, moved: Some(paths) })
            }
            None => Ok(()),
        }
    }

    /// Attaches to a shared server if sharing is on; otherwise starts a private one.
    fn start_shared(&self, launch: Arc<Launch>, sharing: Option<Rc<Sharing>>) -> Starting {
        let (Some(share), Some(sharing)) = (launch.share.clone(), sharing) else {
            return self.start(launch, Leads::Group);
        };
        let starter = self.clone();
        // It removes the control socket, if nothing else, once lspool is killed.
        starter.start_guard();
        Box::pin(async move {
            match sharing.attach(&launch, &share).await {
                Ok(spawned) => Ok(spawned),
                Err(Unable::Failed(failure)) => Err(failure),
                Err(Unable::Private(why)) => {
                    let spawned = starter.start(launch, Leads::Group).await?;
                    Ok(Spawned { unshared: Some(why), ..spawned })
                }
            }
        })
    }

    fn started(
        &self,
        (child, streams): (Child, Streams),
        displaced: Option<Displaced>,
        parent: Parent,
        there: Option<There>,
    ) -> Spawned {
        self.guard.borrow_mut().add_group(child.pid());
        let Streams { stdin, stdout, stderr } = streams;
        Spawned {
            leader: Box::new(Own { child, _parent: parent, guard: self.guard.clone(), there }),
            stdin: Box::new(stdin),
            stdout: Box::new(stdout),
            stderr: Box::new(stderr),
            displaced,
            unshared: None,
        }
    }

    fn start_guard(&self) {
        if self.guard.borrow().is_running() {
            return;
        }
        if self.is_kept.replace(true) {
            return self.guard.borrow_mut().start();
        }
        // Before the guard can die. A missed death would leave lspool without a guard.
        let deaths = Deaths::listen();
        self.guard.borrow_mut().start();
        let guard = self.guard.clone();
        spawn_local(async move {
            let Some(mut deaths) = deaths else { return };
            while deaths.next().await {
                guard.borrow_mut().restart_if_dead();
            }
        });
    }
}

impl Commands for Starter {
    fn program(&self) -> PathBuf {
        self.guard.borrow().program().to_owned()
    }

    fn start(&self, launch: Arc<Launch>) -> Starting {
        self.start(launch, Leads::Nothing)
    }
}

impl World for System {
    fn spawn(&mut self, launch: Arc<Launch>) -> Starting {
        let (starter, sharing) = (self.starter.clone(), self.sharing.clone());
        if launch.remote.as_ref().is_none_or(|it| it.inspect.is_none()) {
            return starter.start_shared(launch, sharing);
        }
        Box::pin(async move {
            starter.check_folders(&launch).await?;
            starter.start_shared(launch, sharing).await
        })
    }

    fn commands(&self) -> Option<Rc<dyn Commands>> {
        Some(Rc::new(self.starter.clone()))
    }

    fn code_tools(&self) -> Option<Rc<dyn CodeTools>> {
        self.code_tools.clone()
    }

    fn editors(&self) -> Option<Rc<dyn EditorLink>> {
        self.editors.clone()
    }

    fn private_folder(&mut self) -> Result<PathBuf, String> {
        if let Some(folder) = &self.private {
            return Ok(folder.clone());
        }
        let name = format!("lspool-{}", self.guard().borrow().mark().value().to_string_lossy());
        let folder =
            private::folder(&name).map_err(|error| format!("cannot make a private folder: {error}"))?;
        self.guard().borrow_mut().add_path(&folder);
        self.private = Some(folder.clone());
        Ok(folder)
    }

    fn listen(&mut self) -> Waiting<'static, Option<Box<dyn Listener>>> {
        let (place, near, hub) = (self.control.take(), self.near.take(), self.hub.take());
        let (guard, socket) = (self.guard().clone(), self.socket.clone());
        Box::pin(async move {
            let opened = match place {
                Some(place) => place.open().await.map(Some),
                None => Ok(None),
            };
            let far = match opened {
                Ok(opened) => opened.map(|(listener, path)| {
                    guard.borrow_mut().add_path(&path);
                    socket.replace(Some(path));
                    listener
                }),
                Err(problem) => {
                    tracing::warn!(
                        problem,
                        "could not make a control socket: `lspool status` does not show this lspool"
                    );
                    None
                }
            };
            let is_open = far.is_some() || near.is_some() || hub.is_some();
            is_open.then(|| Box::new(Doors { far, near, hub }) as _)
        })
    }

    fn close(&mut self) -> Waiting<'_, ()> {
        if let Some(socket) = self.socket.take() {
            // Another lspool may have removed it.
            std::fs::remove_file(&socket).ok();
            self.guard().borrow_mut().remove_path(&socket);
        }
        if let Some(folder) = self.private.take() {
            match std::fs::remove_dir_all(&folder) {
                Ok(()) => self.guard().borrow_mut().remove_path(&folder),
                Err(error) => tracing::warn!(%error, folder = %folder.display(), "could not remove"),
            }
        }
        let leaving = self.guard().borrow_mut().quit();
        Box::pin(async move {
            if let Some(leaving) = leaving {
                leaving.wait().await;
            }
        })
    }
}

/// Where control clients come in: the socket, and this process; and where those of a hub do.
struct Doors {
    far: Option<Socket>,
    near: Option<mpsc::Receiver<Connection>>,
    hub: Option<HubSocket>,
}

impl Listener for Doors {
    fn accept(&mut self) -> Waiting<'_, Connection> {
        let Doors { far, near, hub } = self;
        let far = async {
            match far {
                Some(far) => far.accept().await,
                None => pending().await,
            }
        };
        let near = async {
            match near {
                Some(near) => match near.recv().await {
                    Some(connection) => connection,
                    None => pending().await,
                },
                None => pending().await,
            }
        };
        let hub = async {
            match hub {
                Some(hub) => hub.accept().await,
                None => pending().await,
            }
        };
        Box::pin(async move {
            tokio::select! {
                connection = near => connection,
                connection = far => connection,
                connection = hub => connection,
            }
        })
    }
}

fn failure(launch: &Launch, error: &io::Error) -> SpawnFailure {
    let program = launch.program.display();
    let is_folder_missing = launch.cwd.as_deref().is_some_and(|cwd| !Path::is_dir(cwd));
    let permanent = matches!(
        error.kind(),
        io::ErrorKind::NotFound
            | io::ErrorKind::PermissionDenied
            | io::ErrorKind::NotADirectory
            // Arguments that no batch file can get safely.
            | io::ErrorKind::InvalidInput
    ) || is_no_executable(error);
    let message = match &launch.cwd {
        Some(cwd) if is_folder_missing => {
            format!("cannot start {program}: its working folder {} does not exist", cwd.display())
        }
        _ => format!("cannot start {program}: {error}"),
    };
    SpawnFailure { permanent, message, moved: None }
}

/// What is on the other side, as long as the process on this side is not reaped: the guard ends it with lspool.
struct There {
    marked: Marked,
    prelude: String,
    guard: Rc<RefCell<Guard>>,
}

impl There {
    fn new(starter: &Starter, launch: &Launch, remote: &Remote) -> There {
        let marked = starter.marks.next();
        let parting = Parting {
            program: launch.program.clone(),
            args: remote.farewell.iter().map(|it| marked.fill_in(it)).collect(),
            env: launch.env.clone(),
            input: starter.marks.farewell(),
        };
        let prelude = if remote.shell.is_empty() { String::new() } else { marked.prelude(&remote.env) };
        if !parting.args.is_empty() {
            starter.guard.borrow_mut().add_parting(marked.number(), &parting);
        }
        There { marked, prelude, guard: starter.guard.clone() }
    }
}

impl Drop for There {
    fn drop(&mut self) {
        self.guard.borrow_mut().remove_parting(self.marked.number());
    }
}

/// A process that lspool started, and that only lspool reaps.
struct Own {
    child: Child,
    _parent: Parent,
    guard: Rc<RefCell<Guard>>,
    there: Option<There>,
}

impl GroupLeader for Own {
    fn pid(&self) -> u32 {
        self.child.pid()
    }

    fn dead(&self) -> Waiting<'_, ()> {
        Box::pin(self.child.dead())
    }

    fn signal(&self, request: Request) {
        self.child.signal(request);
    }

    fn reap(&mut self) -> Waiting<'_, Exit> {
        // The system may reuse its number as soon as it is reaped.
        self.guard.borrow_mut().remove_group(self.pid());
        self.there = None;
        Box::pin(self.child.reap())
    }
}

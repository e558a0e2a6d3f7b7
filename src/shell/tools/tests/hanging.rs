//! A disk that does not answer delays only the calls that need it; reports about commands at their start.

use std::{
    cell::Cell,
    rc::Rc,
    sync::{Arc, Mutex, mpsc},
    thread,
};

use serde_json::json;
use tokio::{runtime::LocalOptions, time::timeout};

use super::*;
use crate::{
    core::event::{Event, Exit, Launch},
    rpc::{Frame, RawId},
    shell::{
        inbox::inbox,
        os::command::UNCONFINED,
        process::{Commands, GroupLeader, Request, Spawned, Starting, Waiting, World},
        tools::Tools,
    },
};

/// Counts the started commands. They end at once.
#[derive(Clone, Default)]
struct Counting(Rc<Cell<u32>>);

/// A command that has ended.
struct Ended;

impl GroupLeader for Ended {
    fn pid(&self) -> u32 {
        1
    }

    fn dead(&self) -> Waiting<'_, ()> {
        Box::pin(async {})
    }

    fn signal(&self, _request: Request) {}

    fn reap(&mut self) -> Waiting<'_, Exit> {
        Box::pin(async { Exit::Code(0) })
    }
}

impl Commands for Counting {
    fn program(&self) -> PathBuf {
        "/lspool".into()
    }

    fn start(&self, _launch: Arc<Launch>) -> Starting {
        self.0.update(|it| it + 1);
        Box::pin(async {
            Ok(Spawned {
                leader: Box::new(Ended),
                stdin: Box::new(tokio::io::sink()),
                stdout: Box::new(tokio::io::empty()),
                stderr: Box::new(tokio::io::empty()),
                displaced: None,
                unshared: None,
            })
        })
    }
}

impl World for Counting {
    fn spawn(&mut self, _launch: Arc<Launch>) -> Starting {
        unreachable!("no server is asked for")
    }

    fn private_folder(&mut self) -> Result<PathBuf, String> {
        unreachable!("nothing is written")
    }

    fn commands(&self) -> Option<Rc<dyn Commands>> {
        Some(Rc::new(self.clone()))
    }

    fn close(&mut self) -> Waiting<'_, ()> {
        Box::pin(async {})
    }
}

fn call(id: u64, name: &str, input: &serde_json::Value) -> Frame {
    let params = json!({"name": name, "input": input}).to_string();
    Frame::request(RawId::from(id), "conversation/invokeClientTool", Some(params.as_bytes()))
}

#[test]
fn unresponsive_folder_blocks_nobody() {
    let (release, released) = mpsc::channel::<()>();
    let (entered, entries) = mpsc::channel();
    let (own, released) = (thread::current().id(), Mutex::new(released));
    let open = Arc::new(move |_: &[PathBuf]| {
        assert_ne!(thread::current().id(), own, "this thread forwards messages");
        entered.send(()).unwrap();
        // Each call waits here until the test releases it.
        released.lock().unwrap().recv().ok();
        Err("it answers late".to_owned())
    });
    let mut tools = Tools::with(open, || true);
    let scope = || Scope { folders: vec![], limits: ToolsConfig::default(), is_confirmed: true };
    let world = Counting::default();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
    let runtime = runtime.unwrap();
    let answers = runtime.block_on(async {
        let (events, mut inbox) = inbox(0);
        let mut next = async || {
            let Ok(Event::ToolRan(answer)) = timeout(Duration::from_mins(1), inbox.next()).await else {
                panic!("nothing is answered");
            };
            format!("{} {}", answer.id().unwrap(), String::from_utf8_lossy(answer.result().unwrap()))
        };
        let command = json!({"command": "true"});
        tools.run(&call(1, "read_file", &json!({"filePath": "a"})), scope(), &world, &events);
        for id in [2, 3] {
            tools.run(&call(id, "run_in_terminal", &command), scope(), &world, &events);
        }
        tokio::task::yield_now().await;
        for _ in 0..2 {
            entries.recv_timeout(Duration::from_mins(1)).expect("a call waits for the disk");
        }
        tools.cancel(&RawId::from(1));
        tools.cancel(&RawId::from(2));
        let mut answers = vec![next().await, next().await];
        drop(release);
        answers.push(next().await);
        tools.end().await;
        answers
    });
    // This waits for the other threads.
    drop(runtime);
    let cancelled = r#"[{"content":[{"value":"cancelled by the user"}],"status":"cancelled"},null]"#;
    let late = r#"[{"content":[{"value":"it answers late"}],"status":"error"},null]"#;
    assert_eq!(answers, [format!("1 {cancelled}"), format!("2 {cancelled}"), format!("3 {late}")]);
    assert_eq!(world.0.get(), 0, "no command is started that nobody wants");
}

#[test]
fn command_cancelled_before_start_does_not_run() {
    let mut tools = Tools::new(None);
    let world = Counting::default();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
    let folder = TempDir::new().unwrap();
    runtime.unwrap().block_on(async {
        let (events, mut inbox) = inbox(0);
        for id in [1, 2] {
            let scope = Scope {
                folders: vec![folder.path().to_owned()],
                limits: ToolsConfig::default(),
                is_confirmed: true,
            };
            tools.run(&call(id, "run_in_terminal", &json!({"command": "true"})), scope, &world, &events);
        }
        tools.cancel(&RawId::from(1));
        for _ in 0..2 {
            timeout(Duration::from_mins(1), inbox.next()).await.expect("each is answered");
        }
    });
    assert_eq!(world.0.get(), 1);
}

#[test]
fn unconfined_commands_are_announced_once() {
    let folder = TempDir::new().unwrap();
    let world = Counting::default();
    let said = |can_confine: fn() -> bool, confine: bool| {
        let known = Known::default();
        let open = Arc::new(move |folders: &[PathBuf]| Workspace::open(folders, &known));
        let mut tools = Tools::with(open, can_confine);
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
        runtime.unwrap().block_on(async {
            let (events, mut inbox) = inbox(0);
            let mut said = Vec::new();
            for id in [1, 2] {
                let limits = ToolsConfig { confine, ..ToolsConfig::default() };
                let scope = Scope { folders: vec![folder.path().to_owned()], limits, is_confirmed: true };
                tools.run(&call(id, "run_in_terminal", &json!({"command": "true"})), scope, &world, &events);
                let Ok(Event::ToolRan(answer)) = timeout(Duration::from_mins(1), inbox.next()).await else {
                    panic!("nothing is answered");
                };
                said.push(String::from_utf8_lossy(answer.result().unwrap()).contains(UNCONFINED));
            }
            said
        })
    };
    assert_eq!(said(|| false, true), [true, false]);
    assert_eq!(said(|| true, true), [false, false]);
    assert_eq!(said(|| false, false), [false, false]);
}

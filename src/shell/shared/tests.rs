use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    time::Duration,
};

use serde_json::Value;
use tokio::task::{JoinHandle, LocalSet, spawn_local};

use super::*;
use crate::config::ShareViews;

struct Room {
    root: tempfile::TempDir,
    sharing: Sharing,
}

impl Room {
    /// `program` stands for lspool.
    fn new(program: &str) -> Room {
        let root = tempfile::tempdir().unwrap();
        let folders = vec![root.path().join("lspool")];
        Room { sharing: Sharing { program: program.into(), folders, log: None }, root }
    }

    /// A program that is started as the hub.
    fn script(text: &str) -> Room {
        let room = Room::new("/bin/false");
        let program = room.root.path().join("program");
        fs::write(&program, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        Room { sharing: Sharing { program, ..room.sharing.clone() }, ..room }
    }

    fn place(&self) -> HubPlace {
        HubPlace::of(&self.sharing.folders, &share().key).unwrap()
    }

    async fn attach(&self) -> Result<Spawned, Unable> {
        self.sharing.attach(&launch(), &share()).await
    }

    /// Why there is no shared process.
    async fn private(&self) -> String {
        match self.attach().await {
            Err(Unable::Private(why)) => why,
            Err(Unable::Failed(failure)) => panic!("{failure:?}"),
            Ok(_) => panic!("it is shared"),
        }
    }

    fn files(&self) -> usize {
        fs::read_dir(self.root.path().join("lspool")).unwrap().count()
    }
}

fn share() -> Share {
    Share {
        server: "pyright".to_owned(),
        key: vec![("folder".to_owned(), "/project".to_owned())],
        idle: Duration::ZERO,
        views: ShareViews::Exact,
        limit: 2,
        editor: Some("Neovim".to_owned()),
    }
}

fn launch() -> Launch {
    Launch {
        program: "/bin/server".into(),
        args: vec![],
        env: vec![("SECRET".to_owned(), "abc".to_owned())],
        cwd: None,
        max_message: 1 << 20,
        write_stall: Duration::from_mins(1),
        root: None,
        remote: None,
        share: Some(share()),
    }
}

fn framed(value: &Value) -> Vec<u8> {
    let body = value.to_string();
    format!("Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

fn welcome() -> Value {
    json!({"jsonrpc": "2.0", "id": 0, "result": {"protocol": PROTOCOL, "version": "9", "pid": 1, "server_pid": 4321}})
}

/// A hub that says this to each connection in turn, after its first message; then it closes all but the last.
fn hub(place: &HubPlace, answers: Vec<Vec<u8>>) -> JoinHandle<(Vec<String>, Input, Output)> {
    let socket = place.open().unwrap();
    spawn_local(async move {
        let mut asked = Vec::new();
        let n = answers.len();
        for (at, answer) in answers.into_iter().enumerate() {
            let (mut input, mut output) = socket.accept().await;
            let mut buffer = BytesMut::new();
            while !buffer.ends_with(b"}") {
                assert!(input.read_buf(&mut buffer).await.unwrap() > 0);
            }
            asked.push(String::from_utf8(buffer.to_vec()).unwrap());
            output.write_all(&answer).await.unwrap();
            if at + 1 == n {
                return (asked, input, output);
            }
        }
        unreachable!("there is an answer")
    })
}

async fn locally<T>(future: impl Future<Output = T>) -> T {
    LocalSet::new().run_until(future).await
}

#[tokio::test]
async fn attachment_is_a_process_that_ends_with_its_connection() {
    locally(async {
        let room = Room::new("/bin/false");
        let early = json!({"method": "early"});
        let hub = hub(&room.place(), vec![[framed(&welcome()), framed(&early)].concat()]);
        let mut spawned = room.attach().await.unwrap_or_else(|why| panic!("{why:?}"));
        let (asked, mut input, mut output) = hub.await.unwrap();
        assert!(asked[0].contains(r#""method":"lspool/attach""#), "{asked:?}");
        let asked: Value = serde_json::from_str(asked[0].split_once("\r\n\r\n").unwrap().1).unwrap();
        assert_eq!(asked["params"]["key"], json!([["folder", "/project"]]));
        assert_eq!(asked["params"]["protocol"], PROTOCOL);
        assert_eq!(asked["params"]["editor"], "Neovim");
        assert_eq!(spawned.leader.pid(), 4321);
        // What came with the answer is not lost.
        let mut read = vec![0; framed(&early).len()];
        spawned.stdout.read_exact(&mut read).await.unwrap();
        assert_eq!(read, framed(&early));
        spawned.stdin.write_all(b"hello").await.unwrap();
        let mut read = [0; 5];
        input.read_exact(&mut read).await.unwrap();
        assert_eq!(&read, b"hello");
        assert!(timeout(Duration::from_millis(50), spawned.leader.dead()).await.is_err());
        output.write_all(b"last").await.unwrap();
        drop((input, output));
        let mut rest = Vec::new();
        spawned.stdout.read_to_end(&mut rest).await.unwrap();
        assert_eq!(rest, b"last");
        spawned.leader.dead().await;
        assert_eq!(spawned.leader.reap().await, Exit::Unknown);
    })
    .await;
}

#[tokio::test]
async fn signal_closes_the_connection_and_reaches_no_process() {
    locally(async {
        let room = Room::new("/bin/false");
        let mut answer = welcome();
        // It would end this test.
        answer["result"]["server_pid"] = json!(std::process::id());
        let hub = hub(&room.place(), vec![framed(&answer)]);
        let spawned = room.attach().await.unwrap_or_else(|why| panic!("{why:?}"));
        let (_, mut input, _output) = hub.await.unwrap();
        spawned.leader.signal(Request::Kill);
        spawned.leader.dead().await;
        assert_eq!(input.read(&mut [0; 8]).await.unwrap(), 0);
    })
    .await;
}

#[tokio::test]
async fn hub_that_ends_is_followed_by_the_next() {
    locally(async {
        let room = Room::new("/bin/false");
        let ending = json!({"id": 0, "error": {"code": -32803, "message": "x",
            "data": {"lspool": {"why": "the hub is ending", "permanent": false}}}});
        let hub = hub(&room.place(), vec![Vec::new(), framed(&ending), framed(&welcome())]);
        let spawned = room.attach().await;
        assert!(spawned.is_ok_and(|it| it.leader.pid() == 4321));
        hub.await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn refusal_of_a_hub_says_why() {
    locally(async {
        let refused = |data: Value| {
            json!({"id": 0, "error": {"code": -32803, "message": "no", "data": {"lspool": data}}})
        };
        let cases = [
            (refused(json!({"why": "2 clients share it already", "permanent": false})), "2 clients share it already"),
            (refused(json!({"why": "folder differs"})), "folder differs"),
            (refused(json!({})), "no"),
            (json!({"id": 0, "result": {"protocol": 99, "server_pid": 1}}), "its hub speaks protocol 99, not 1"),
            (json!({"id": 7, "result": {}}), "its socket belongs to a program that is not a hub"),
            (json!({"id": 0, "result": {"protocol": 1}}), "its socket belongs to a program that is not a hub"),
        ];
        for (answer, why) in cases {
            let room = Room::new("/bin/false");
            let hub = hub(&room.place(), vec![framed(&answer)]);
            assert_eq!(room.private().await, why);
            hub.await.unwrap();
        }
        let room = Room::new("/bin/false");
        let hub = hub(&room.place(), vec![b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()]);
        assert_eq!(room.private().await, "its socket belongs to a program that is not a hub");
        hub.await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn server_that_a_hub_cannot_start_has_failed() {
    locally(async {
        let room = Room::new("/bin/false");
        let data = json!({"lspool": {"why": "cannot start /bin/server", "permanent": true}});
        let answer = json!({"id": 0, "error": {"code": -32803, "message": "no", "data": data}});
        let hub = hub(&room.place(), vec![framed(&answer)]);
        let Err(Unable::Failed(failure)) = room.attach().await else { panic!("it is not failed") };
        assert_eq!(
            failure,
            SpawnFailure { permanent: true, message: "cannot start /bin/server".to_owned(), moved: None }
        );
        hub.await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn hub_that_does_not_start_says_why_and_leaves_nothing() {
    locally(async {
        let room = Room::new("/bin/false");
        assert_eq!(room.private().await, "its hub could not start: it ended");
        assert_eq!(room.files(), 0);
        let room = Room::script("echo the disk is full");
        assert_eq!(room.private().await, "its hub could not start: the disk is full");
        assert_eq!(room.files(), 0);
        let room = Room::new("/nowhere/lspool");
        assert!(room.private().await.starts_with("its hub could not start: "));
        // One that says that it listens, and does not.
        let room = Room::script("echo listening");
        assert_eq!(room.private().await, "its hub ended at once");
    })
    .await;
}

#[tokio::test]
async fn hub_gets_its_errand_on_stdin_and_not_the_mark_of_this_lspool() {
    locally(async {
        let room = Room::script("cat > \"$0.in\"; echo \"$#$1 $LSPOOL_GUARD_MARK.\" > \"$0.args\"; pwd");
        assert_eq!(room.private().await, "its hub could not start: /");
        let errand = fs::read_to_string(room.root.path().join("program.in")).unwrap();
        let errand: Errand = serde_json::from_str(&errand).unwrap();
        assert_eq!(errand.socket, room.place().socket());
        assert_eq!(errand.launch.env, launch().env);
        assert_eq!(errand.launch.cwd, Some("/project".into()), "and not that of one client");
        assert_eq!(fs::read_to_string(room.root.path().join("program.args")).unwrap(), "1hub .\n");
    })
    .await;
}

#[tokio::test]
async fn nothing_but_a_socket_in_a_closed_folder_is_used() {
    locally(async {
        let room = Room::new("/bin/false");
        let target = room.root.path().join("other.sock");
        let _listens = std::os::unix::net::UnixListener::bind(&target).unwrap();
        symlink(&target, room.place().socket()).unwrap();
        assert!(room.private().await.ends_with("is not a socket"));
        assert!(fs::symlink_metadata(room.place().socket()).unwrap().is_symlink(), "it is left alone");
        let folder = room.sharing.folders[0].clone();
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(room.private().await.contains("has mode 755"));
        assert!(meeting_place(&room.sharing.folders).unwrap_err().contains("has mode 755"));
        let room = Room::new("/bin/false");
        assert_eq!(meeting_place(&room.sharing.folders), Ok(&*room.sharing.folders[0]));
        assert_eq!(room.files(), 0);
        assert!(meeting_place(&[]).unwrap_err().contains("too long a path"));
    })
    .await;
}

#[tokio::test]
async fn dead_socket_does_not_hinder_the_next_hub() {
    locally(async {
        let room = Room::script("exit 0");
        drop(std::os::unix::net::UnixListener::bind(room.place().socket()).unwrap());
        assert_eq!(room.private().await, "its hub could not start: it ended");
        assert_eq!(room.files(), 0, "it is removed");
    })
    .await;
}

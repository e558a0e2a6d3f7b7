//! The socket: who may use it, and what comes through it.

use std::{
    fs,
    io::{Read as _, Write as _},
    os::unix::{
        fs::{DirBuilderExt as _, PermissionsExt as _, symlink},
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use rustix::process::Signal;

use super::{
    PuppetHost, Sandbox, TestEditor, check_alive, end, fake::Fake, folder, handshake, log, lspool, sockets,
    start, wait_until,
};

#[test]
fn socket_is_private_and_lives_as_long_as_lspool() {
    let (sandbox, host) = (Sandbox::new(), PuppetHost::new());
    let (editor, server, socket) = start(&sandbox, &host);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    wait_until("closed to others", || mode(&socket) == 0o600);
    assert_eq!(mode(&sandbox.runtime().join("lspool")), 0o700);
    end(&editor, &server);
    assert!(!socket.exists());

    let (editor, server, socket) = start(&sandbox, &host);
    editor.forgive_unanswered();
    editor.kill(Signal::TERM);
    editor.wait_exit();
    assert!(!socket.exists());
    drop(server);

    // The guard tidies up.
    let (editor, server, socket) = start(&sandbox, &host);
    wait_until("a guard", || !editor.mark().processes_running("lspool guard").is_empty());
    // It has been told by the time it has started something it was told of later.
    check_alive(&editor, &server);
    editor.forgive_unanswered();
    editor.kill(Signal::KILL);
    editor.wait_exit();
    wait_until("removed by the guard", || !socket.exists());
}

#[test]
fn start_removes_leftover_sockets() {
    let (sandbox, host) = (Sandbox::new(), PuppetHost::new());
    let folder = folder(&sandbox);
    let gone = {
        let mut child = Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        child.id()
    };
    let left = folder.join(format!("{gone}-1.sock"));
    drop(UnixListener::bind(&left).unwrap());
    let lives = Fake::new(&sandbox, gone, 2, vec![]);
    let (editor, server, socket) = start(&sandbox, &host);
    let mut expected = vec![lives.socket.clone(), socket];
    expected.sort();
    let mut there = sockets(&folder);
    there.sort();
    assert_eq!(there, expected);
    end(&editor, &server);
}

/// Makes a wrong folder.
type Make = fn(&Path);

#[test]
fn lspool_works_without_socket_when_folder_is_not_private() {
    let wrong: [(&str, Make); 5] = [
        ("mode 755", |folder| {
            fs::create_dir(folder).unwrap();
            fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
        }),
        ("mode 720", |folder| {
            fs::create_dir(folder).unwrap();
            fs::set_permissions(folder, fs::Permissions::from_mode(0o720)).unwrap();
        }),
        ("is not a folder", |folder| {
            let elsewhere = folder.with_file_name("elsewhere");
            fs::DirBuilder::new().mode(0o700).create(&elsewhere).unwrap();
            symlink(elsewhere, folder).unwrap();
        }),
        ("is not a folder", |folder| symlink("/nonexistent/x", folder).unwrap()),
        ("is not a folder", |folder| fs::write(folder, "").unwrap()),
    ];
    for (what, make) in wrong {
        let (sandbox, host) = (Sandbox::new(), PuppetHost::new());
        let folder = sandbox.runtime().join("lspool");
        make(&folder);
        let editor = TestEditor::spawn(lspool(&sandbox, &host));
        let server = handshake(&editor, &host);
        check_alive(&editor, &server);
        let told = || {
            log(&sandbox)
                .lines()
                .any(|it| it.contains("could not make a control socket") && it.contains(what))
        };
        wait_until(what, told);
        assert_eq!(sockets(&folder), Vec::<PathBuf>::new());
        assert!(fs::symlink_metadata("/nonexistent").is_err());
        end(&editor, &server);
    }
}

/// The value of `XDG_RUNTIME_DIR`.
type Runtime<'a> = &'a dyn Fn(&Sandbox) -> PathBuf;

#[test]
fn socket_falls_back_to_temporary_folder() {
    let uid = rustix::process::geteuid().as_raw();
    let temporary = |sandbox: &Sandbox| sandbox.home().join(format!("lspool-{uid}"));
    let long = |sandbox: &Sandbox| {
        let folder = sandbox.runtime().join("x".repeat(120));
        fs::create_dir(&folder).unwrap();
        folder
    };
    let runtimes: [Option<Runtime<'_>>; 4] =
        [None, Some(&|_| "relative".into()), Some(&|_| "/nonexistent/runtime".into()), Some(&long)];
    for runtime in runtimes {
        let (sandbox, host) = (Sandbox::new(), PuppetHost::new());
        let mut command = lspool(&sandbox, &host);
        command.env("TMPDIR", sandbox.home());
        match runtime {
            Some(runtime) => command.env("XDG_RUNTIME_DIR", runtime(&sandbox)),
            None => command.env_remove("XDG_RUNTIME_DIR").env_remove("HOME"),
        };
        let editor = TestEditor::spawn(command);
        let server = handshake(&editor, &host);
        wait_until("a socket", || sockets(&temporary(&sandbox)).len() == 1);
        end(&editor, &server);
        assert_eq!(sockets(&temporary(&sandbox)), Vec::<PathBuf>::new());
    }
    // Nowhere.
    let (sandbox, host) = (Sandbox::new(), PuppetHost::new());
    let mut command = lspool(&sandbox, &host);
    command.env("TMPDIR", "/proc/nonexistent").env("XDG_RUNTIME_DIR", "/proc/nonexistent");
    let editor = TestEditor::spawn(command);
    let server = handshake(&editor, &host);
    wait_until("a word", || log(&sandbox).contains("could not make a control socket"));
    end(&editor, &server);
}

#[test]
fn editor_is_served_during_any_socket_traffic() {
    let (sandbox, host) = (Sandbox::new(), PuppetHost::new());
    let (editor, server, socket) = start(&sandbox, &host);
    let connect = || {
        let stream = UnixStream::connect(&socket).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream
    };
    let is_hung_up = |mut stream: UnixStream| {
        let mut rest = Vec::new();
        // It may be reset while there is more to read than was read.
        stream.read_to_end(&mut rest).map_or_else(|it| it.kind() != std::io::ErrorKind::WouldBlock, |_| true)
    };
    // Garbage, and more than is read of one message.
    for bytes in [vec![0xff; 100_000], b"Content-Length: 1048577\r\n\r\n".to_vec()] {
        let mut stream = connect();
        stream.write_all(&bytes).ok();
        assert!(is_hung_up(stream));
    }
    // Half a message, and then nothing, or the end.
    let mut half = connect();
    half.write_all(b"Content-Length: 100\r\n\r\n{").unwrap();
    let mut cut = connect();
    cut.write_all(b"Content-Len").unwrap();
    drop(cut);
    check_alive(&editor, &server);
    // The maximum number, and many more.
    let mut held: Vec<UnixStream> = Vec::new();
    for _ in 0..1000 {
        let stream = connect();
        stream.set_nonblocking(true).unwrap();
        held.push(stream);
    }
    wait_until("most are hung up on", || {
        let lives = |mut it: &UnixStream| matches!(it.read(&mut [0]), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock);
        held.iter().filter(|it| lives(it)).count() < 32
    });
    check_alive(&editor, &server);
    drop((half, held));
    end(&editor, &server);
}

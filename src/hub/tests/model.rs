//! Random clients with random texts: each answer is one that a server of that client alone would give.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use bytes::Bytes;
use serde_json::{Value, json};

use super::stage::{Stage, about, change, hover, open};
use crate::{
    config::ShareViews,
    core::{event::Event, mux::session::documents::Documents},
    rpc::file_path,
};

const URIS: [&str; 3] = ["file:///w/a", "file:///w/b", "file:///w/c"];
const TEXTS: [&str; 5] = ["", "one\n", "one\ntwo", "one\r\nthree\n", "é😀\ntwo\n"];
const CLIENTS: u32 = 3;

#[derive(Clone, Copy, Debug)]
enum Step {
    Join(u32),
    Leave(u32),
    Open(u32, usize),
    Change(u32, usize, usize),
    /// An edit that only inserts.
    Type(u32, usize),
    Save(u32, usize),
    Close(u32, usize),
    Hover(u32, usize),
    Cancel(u32),
    /// Another program writes a file.
    Write(usize, usize),
    /// The server answers one of its open requests.
    Answer(usize),
    /// The server publishes diagnostics about its text.
    Publish(usize, bool),
    Wait(u16),
}

/// The steps that some bytes stand for: three each.
fn steps(bytes: &[u8]) -> Vec<Step> {
    bytes.chunks_exact(3).map(|it| step([it[0], it[1], it[2]])).collect()
}

fn step([kind, first, second]: [u8; 3]) -> Step {
    let client = 1 + u32::from(first) % CLIENTS;
    let (file, text) = (usize::from(second) % URIS.len(), usize::from(first / 4) % TEXTS.len());
    match kind % 42 {
        0..2 => Step::Join(client),
        2 => Step::Leave(client),
        3..7 => Step::Open(client, file),
        7..11 => Step::Change(client, file, text),
        11..14 => Step::Type(client, file),
        14..16 => Step::Save(client, file),
        16..18 => Step::Close(client, file),
        18..26 => Step::Hover(client, file),
        26 => Step::Cancel(client),
        27 => Step::Write(file, text),
        28..36 => Step::Answer(usize::from(first) % 4),
        36..39 => Step::Publish(file, first % 2 == 0),
        _ => Step::Wait(u16::from(second) * 6),
    }
}

/// The texts of all files, as a server knows them.
type Sight = Vec<String>;

/// What a client has open, by file.
type Opened = BTreeMap<usize, (i64, String)>;

/// What a client has had open since it asked something, and the texts that files had on the disk meanwhile.
#[derive(Debug, Default)]
struct Seen {
    opened: Vec<Opened>,
    disks: Vec<Vec<String>>,
}

impl Seen {
    /// Whether a server of this client alone could have answered so. It reads files when it comes to the request.
    fn fits(&self, sight: &Sight) -> bool {
        let on_disk = |file: usize| self.disks.iter().any(|it| it[file] == sight[file]);
        let fits = |opened: &Opened| {
            (0..URIS.len()).all(|it| opened.get(&it).map_or_else(|| on_disk(it), |has| has.1 == sight[it]))
        };
        self.opened.iter().any(fits)
    }
}

#[derive(Debug, Default)]
struct Client {
    open: Opened,
    /// Each text that it has had of a file since it came, and the number of it.
    had: BTreeMap<usize, Vec<(i64, String)>>,
    last_id: u32,
    /// By request, what was to be seen since.
    asked: BTreeMap<u32, Seen>,
    cancelled: BTreeSet<u32>,
}

struct World {
    stage: Stage,
    clients: BTreeMap<u32, Client>,
    disk: Vec<String>,
    /// All texts that each file has had.
    on_disk: Vec<BTreeSet<String>>,
    documents: Documents,
    versions: BTreeMap<String, i64>,
    /// Requests that the server has not answered.
    open: Vec<Value>,
    published: u64,
}

impl World {
    fn new() -> World {
        World {
            stage: Stage::new(ShareViews::Exact, json!({"textDocumentSync": 2})),
            clients: BTreeMap::new(),
            disk: vec!["one\n".to_owned(); URIS.len()],
            on_disk: vec![BTreeSet::new(); URIS.len()],
            documents: Documents::default(),
            versions: BTreeMap::new(),
            open: Vec::new(),
            published: 0,
        }
    }

    /// Notes what is to be seen now, for what clients have asked.
    fn look(&mut self) {
        for (all, text) in self.on_disk.iter_mut().zip(&self.disk) {
            all.insert(text.clone());
        }
        for client in self.clients.values_mut() {
            for seen in client.asked.values_mut() {
                seen.opened.push(client.open.clone());
                seen.disks.push(self.disk.clone());
            }
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Join(client) if !self.clients.contains_key(&client) => {
                self.clients.insert(client, Client::default());
                self.stage.join(client);
            }
            Step::Leave(client) if self.clients.remove(&client).is_some() => self.stage.leave(client),
            Step::Wait(millis) => self.stage.wait(Duration::from_millis(millis.into())),
            Step::Write(file, text) => {
                TEXTS[text].clone_into(&mut self.disk[file]);
                self.look();
                let changes = json!({"changes": [{"uri": URIS[file], "type": 2}]});
                let changed = json!({"method": "workspace/didChangeWatchedFiles", "params": changes});
                let all: Vec<u32> = self.clients.keys().copied().collect();
                for it in all {
                    self.stage.client(it, &changed);
                }
            }
            Step::Answer(nth) if !self.open.is_empty() => {
                let request = self.open.remove(nth % self.open.len());
                self.answer(&request);
            }
            Step::Publish(file, has_version) => self.publish(file, has_version),
            Step::Join(_) | Step::Leave(_) | Step::Answer(_) => {}
            Step::Open(client, file)
            | Step::Change(client, file, _)
            | Step::Type(client, file)
            | Step::Save(client, file)
            | Step::Close(client, file)
            | Step::Hover(client, file) => self.client_step(client, file, step),
            Step::Cancel(client) => self.cancel(client),
        }
        self.settle();
    }

    fn client_step(&mut self, id: u32, file: usize, step: Step) {
        let (disk, uri) = (self.disk[file].clone(), URIS[file]);
        let Some(client) = self.clients.get_mut(&id) else { return };
        let is_open = client.open.contains_key(&file);
        let message = match step {
            Step::Open(..) if !is_open => {
                client.open.insert(file, (1, disk.clone()));
                client.had.entry(file).or_default().push((1, disk.clone()));
                open(uri, 1, &disk)
            }
            Step::Change(_, _, text) if is_open => {
                let now = client.open.get_mut(&file).unwrap();
                *now = (now.0 + 1, TEXTS[text].to_owned());
                let now = now.clone();
                client.had.entry(file).or_default().push(now.clone());
                change(uri, now.0, &now.1)
            }
            Step::Type(..) if is_open => {
                let now = client.open.get_mut(&file).unwrap();
                *now = (now.0 + 1, format!("x{}", now.1));
                let now = now.clone();
                client.had.entry(file).or_default().push(now.clone());
                let mut message = change(uri, now.0, "x");
                let start = json!({"line": 0, "character": 0});
                message["params"]["contentChanges"][0]["range"] = json!({"start": start, "end": start});
                message
            }
            Step::Save(..) if is_open => {
                self.disk[file].clone_from(&client.open[&file].1);
                about("textDocument/didSave", uri)
            }
            Step::Close(..) if is_open => {
                client.open.remove(&file);
                about("textDocument/didClose", uri)
            }
            Step::Hover(..) => {
                client.last_id += 1;
                let asked = client.last_id + 10;
                client.asked.insert(asked, Seen::default());
                hover(asked, uri)
            }
            _ => return,
        };
        self.look();
        self.stage.client(id, &message);
    }

    fn cancel(&mut self, id: u32) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        let Some(asked) = client.asked.keys().next().copied() else { return };
        client.cancelled.insert(asked);
        self.stage.client(id, &json!({"method": "$/cancelRequest", "params": {"id": asked}}));
    }

    /// What the server knows of all files.
    fn servers_sight(&mut self) -> Sight {
        let text = |documents: &mut Documents, it: usize, disk: &str| match documents.text(URIS[it]) {
            Some(text) => serde_json::from_slice(&text).unwrap(),
            None => disk.to_owned(),
        };
        (0..URIS.len()).map(|it| text(&mut self.documents, it, &self.disk[it])).collect()
    }

    fn answer(&mut self, request: &Value) {
        let sight = self.servers_sight();
        self.stage.server(&json!({"id": request["id"], "result": sight}));
    }

    fn publish(&mut self, file: usize, has_version: bool) {
        let uri = URIS[file];
        let text = self.servers_sight()[file].clone();
        self.published += 1;
        let mut params = json!({"uri": uri, "diagnostics": [{"message": text}]});
        if let Some(version) = self.versions.get(uri).filter(|_| has_version) {
            params["version"] = json!(version);
        }
        self.stage.server(&json!({"method": "textDocument/publishDiagnostics", "params": params}));
    }

    /// The server and the clients read what the hub has sent.
    fn settle(&mut self) {
        for path in std::mem::take(&mut self.stage.reads) {
            let file = URIS.iter().position(|it| file_path(it).as_ref() == Some(&path)).unwrap();
            let text = Some(self.disk[file].clone());
            self.stage.event(Event::FileRead { path, text });
        }
        for message in self.stage.take_told() {
            self.on_told(&message);
        }
        let all: Vec<u32> = (1..=CLIENTS).collect();
        for id in all {
            for message in self.stage.got(id) {
                self.on_got(id, &message);
            }
        }
    }

    fn on_told(&mut self, message: &Value) {
        let params = Bytes::from(message["params"].to_string());
        let uri = message["params"]["textDocument"]["uri"].as_str().unwrap_or_default().to_owned();
        let version = message["params"]["textDocument"]["version"].as_i64();
        match message["method"].as_str() {
            Some("textDocument/didOpen") => {
                assert!(!self.documents.has(&uri), "{uri} is opened twice");
                self.documents.opened(&params);
                self.versions.insert(uri, version.unwrap());
            }
            Some("textDocument/didChange") => {
                assert!(self.documents.has(&uri), "{uri} is changed, and not open");
                assert!(version.unwrap() > self.versions[&uri], "versions grow");
                self.documents.changed(&params);
                self.versions.insert(uri, version.unwrap());
            }
            Some("textDocument/didClose") => {
                assert!(self.documents.has(&uri), "{uri} is closed, and not open");
                self.documents.closed(&params);
                self.versions.remove(&uri);
            }
            Some("textDocument/hover") => self.open.push(message.clone()),
            Some("$/cancelRequest") => {
                let id = &message["params"]["id"];
                if let Some(at) = self.open.iter().position(|it| it["id"] == *id) {
                    let request = self.open.remove(at);
                    let error = json!({"code": -32800, "message": "cancelled"});
                    self.stage.server(&json!({"id": request["id"], "error": error}));
                }
            }
            _ => {}
        }
    }

    fn on_got(&mut self, id: u32, message: &Value) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        if message["method"] == "textDocument/publishDiagnostics" {
            let file = URIS.iter().position(|it| message["params"]["uri"] == *it).unwrap();
            let text = message["params"]["diagnostics"][0]["message"].as_str().unwrap();
            if client.open.contains_key(&file) {
                let had = client.had.get(&file).into_iter().flatten();
                let same: Vec<i64> = had.filter(|it| it.1 == text).map(|it| it.0).collect();
                // A server that has not come to `didOpen` yet speaks of the file.
                let is_of_file = self.on_disk[file].contains(text);
                assert!(
                    !same.is_empty() || is_of_file,
                    "{id} got diagnostics about a text of {file} that it never had: {text:?}"
                );
                if let Some(version) = message["params"]["version"].as_i64() {
                    assert!(same.contains(&version), "{version} is not the number of {text:?}: {same:?}");
                }
            }
            return;
        }
        let Some(request) = message["id"].as_u64().filter(|it| *it > 10 && message["method"].is_null())
        else {
            return;
        };
        let request = u32::try_from(request).unwrap();
        let seen = client.asked.remove(&request).expect("answered once");
        if let Ok(sight) = serde_json::from_value::<Sight>(message["result"].clone()) {
            assert!(seen.fits(&sight), "{id} got {sight:?}, and could see {seen:?}");
        } else {
            // Asked for the second time, for too long.
            let is_outdated = message["error"]["code"] == -32801;
            assert!(is_outdated || client.cancelled.contains(&request), "{message}");
        }
    }

    fn finish(&mut self) {
        for _ in 0..200 {
            self.stage.wait(Duration::from_millis(400));
            self.settle();
            while let Some(request) = self.open.pop() {
                self.answer(&request);
                self.settle();
            }
        }
        for (id, client) in &self.clients {
            assert!(client.asked.is_empty(), "{id} waits for {:?}", client.asked.keys());
        }
        let left: Vec<u32> = self.clients.keys().copied().collect();
        for it in left {
            self.stage.leave(it);
        }
        self.settle();
        assert!(self.documents.open().is_empty(), "a document stays open: {:?}", self.documents.open());
        self.stage.wait(Duration::from_secs(100));
        assert_eq!(self.stage.exit, Some(0));
    }
}

/// Plays the steps that some bytes stand for. Panics if an answer is one that a server of its client alone would not
/// give.
pub fn play(bytes: &[u8]) {
    let mut world = World::new();
    (1..=2).for_each(|it| world.step(Step::Join(it)));
    for it in steps(bytes) {
        world.step(it);
    }
    world.finish();
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn each_answer_is_that_of_a_lone_server(bytes in prop::collection::vec(any::<u8>(), 0..240)) {
            super::play(&bytes);
        }
    }
}

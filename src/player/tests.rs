//! Plays transcripts of a real server to clients that behave like the recorded one, or nearly.

#![expect(clippy::needless_pass_by_value, reason = "`json!` in the middle of a call")]

use std::{collections::BTreeMap, time::Duration};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Player, Script, Speed};
use crate::{
    config::Config,
    core::Identity,
    recording::{
        encode::Encoder,
        source::{Dialogue, Side, What, dialogue},
    },
    rpc::Frame,
};

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/transcripts");

fn transcript(name: &str, process: Option<&str>) -> Dialogue {
    let text = std::fs::read(format!("{FIXTURES}/{name}.jsonl")).unwrap();
    dialogue(text.as_slice(), process).unwrap()
}

fn written(lines: &[(&str, Value)]) -> Dialogue {
    let lines = lines
        .iter()
        .enumerate()
        .map(|(n, (dir, msg))| format!("{}\n", json!({"t": n * 10, "dir": dir, "msg": msg})));
    dialogue(lines.collect::<String>().as_bytes(), None).unwrap()
}

fn body(frame: &Frame) -> Value {
    serde_json::from_slice(&frame.to_bytes()).unwrap()
}

/// A client for tests.
struct Client {
    player: Player,
    now: Duration,
}

impl Client {
    fn new(dialogue: Dialogue) -> Client {
        Client::at(dialogue, Speed::Fast)
    }

    fn at(dialogue: Dialogue, speed: Speed) -> Client {
        let script = Script::new(dialogue).unwrap();
        Client { player: Player::new(script, speed), now: Duration::ZERO }
    }

    /// The messages that follow at once.
    fn say(&mut self, message: &Value) -> Vec<Value> {
        self.player.hear(self.now, &Frame::parse(message.to_string().into()).unwrap());
        self.listen()
    }

    fn listen(&mut self) -> Vec<Value> {
        std::iter::from_fn(|| self.player.say(self.now)).map(|it| body(&it)).collect()
    }

    fn request(&mut self, id: u32, method: &str, params: &Value) -> Vec<Value> {
        self.say(&json!({"id": id, "method": method, "params": params}))
    }
}

/// Replaces names, as in another session.
fn renamed(text: &str) -> String {
    let names = [
        ("file:///workspace", "file:///home/me/pro ject".replace(' ', "%20")),
        ("/workspace", "/home/me/pro ject".to_owned()),
        ("conv-one", "first-conversation".to_owned()),
        ("conv-two", "second-conversation".to_owned()),
        ("conv-crash", "third-conversation".to_owned()),
        ("conv-full", "fourth-conversation".to_owned()),
        ("\"turn-2\"", "\"other-turn\"".to_owned()),
        ("Turn turn-2", "Turn other-turn".to_owned()),
        ("\"name\":\"workspace\"", "\"name\":\"pro ject\"".to_owned()),
    ];
    names.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

/// Sends the recorded client's messages with other names, each after the messages that the client had got before it.
/// Returns the received and the expected messages, in order.
fn play(dialogue: &Dialogue) -> (Vec<Value>, Vec<Value>, Vec<String>) {
    let mut client = Client::new(Dialogue { entries: dialogue.entries.clone(), ..Dialogue::default() });
    let (mut heard, mut expected) = (Vec::new(), Vec::new());
    // The recorded and the current id of the server's requests.
    let mut ids: BTreeMap<String, Value> = BTreeMap::new();
    let mut tokens: BTreeMap<String, Value> = BTreeMap::new();
    heard.extend(client.listen());
    for entry in &dialogue.entries {
        let What::Said(side, frame) = &entry.what else { continue };
        let mut message: Value = serde_json::from_str(&renamed(&body(frame).to_string())).unwrap();
        if let Some(token) = message.pointer_mut("/params/workDoneToken") {
            let other = json!(format!("other-{token}"));
            tokens.insert(token.to_string(), other.clone());
            *token = other;
        }
        if let Some(token) = message.pointer_mut("/params/token")
            && let Some(other) = tokens.get(&token.to_string())
        {
            *token = other.clone();
        }
        let is_answer = message.get("method").is_none();
        match side {
            Side::Client => {
                if is_answer {
                    message["id"] = ids.remove(&message["id"].to_string()).expect("it was asked");
                } else if message.get("id").is_some() {
                    message["id"] = json!(format!("r{}", message["id"]));
                } else if message["method"] == "$/cancelRequest" {
                    message["params"]["id"] = json!(format!("r{}", message["params"]["id"]));
                }
                let said = client.say(&message);
                // A turn that the recorded server did not live to answer.
                heard.extend(said.into_iter().filter(|it| {
                    it["error"]["message"].as_str().is_none_or(|it| !it.starts_with("the recording ends"))
                }));
            }
            Side::Server => {
                if is_answer {
                    message["id"] = json!(format!("r{}", message["id"]));
                } else if message.get("id").is_some() {
                    // Compared by content, since it may have come earlier.
                    let same =
                        |it: &&Value| it["method"] == message["method"] && it["params"] == message["params"];
                    let now = heard.iter().find(same).unwrap_or_else(|| panic!("not asked: {message}"));
                    ids.insert(message["id"].to_string(), now["id"].clone());
                    message["id"] = now["id"].clone();
                }
                expected.push(message);
            }
        }
        assert!(heard.len() >= expected.len(), "{}: not said: {:?}", entry.line, expected.last());
    }
    (heard, expected, client.player.deviations())
}

fn check_same(name: &str, process: Option<&str>, is_in_order: bool) {
    let (mut heard, mut expected, deviations) = play(&transcript(name, process));
    assert_eq!(deviations, Vec::<String>::new());
    assert!(!heard.is_empty());
    if !is_in_order {
        heard.sort_by_key(ToString::to_string);
        expected.sort_by_key(ToString::to_string);
    }
    for (heard, expected) in heard.iter().zip(&expected) {
        assert_eq!(heard, expected);
    }
    assert_eq!(heard.len(), expected.len());
}

#[test]
fn same_requests_get_the_recorded_answers() {
    check_same("agent-tools", None, true);
    check_same("completion", None, true);
    check_same("config-pull", None, true);
    check_same("sign-in", None, true);
    check_same("sub-agent", None, true);
    check_same("crash", Some("A"), true);
    check_same("crash", Some("B"), true);
    check_same("crash", Some("C"), true);
    check_same("cancel", None, true);
    // Two conversations at a time.
    check_same("parallel", None, false);
}

fn request(id: u32, method: &str, params: Value) -> (&'static str, Value) {
    ("c2s", json!({"id": id, "method": method, "params": params}))
}

fn notice(dir: &'static str, method: &str, params: Value) -> (&'static str, Value) {
    (dir, json!({"method": method, "params": params}))
}

fn answer(dir: &'static str, id: u32, result: Value) -> (&'static str, Value) {
    (dir, json!({"id": id, "result": result}))
}

/// Two requests in one burst, and a status between their answers.
fn burst() -> Dialogue {
    written(&[
        request(1, "a", json!({"n": 1})),
        request(2, "b", json!({})),
        notice("s2c", "status", json!({"busy": true})),
        answer("s2c", 1, json!("one")),
        answer("s2c", 2, json!("two")),
        request(3, "a", json!({"n": 2})),
        answer("s2c", 3, json!("three")),
        notice("c2s", "opened", json!({"textDocument": {"uri": "file:///w/a", "version": 1}})),
        notice("s2c", "published", json!({"uri": "file:///w/a"})),
    ])
}

#[test]
fn client_that_waits_where_recording_did_not_is_answered() {
    let mut client = Client::new(burst());
    assert_eq!(client.request(7, "a", &json!({"n": 1})), [json!({"id": 7, "result": "one"})]);
    let two = client.request(8, "b", &json!({}));
    assert_eq!(
        two,
        [json!({"method": "status", "params": {"busy": true}}), json!({"id": 8, "result": "two"})]
    );
}

#[test]
fn client_chooses_order_and_number_of_requests() {
    let mut client = Client::new(burst());
    assert_eq!(client.request(1, "a", &json!({"n": 2})).last().unwrap()["result"], "three");
    assert_eq!(client.request(2, "a", &json!({"n": 1, "gone": null})), [json!({"id": 2, "result": "one"})]);
    assert_eq!(client.request(3, "a", &json!({"n": 1})), [json!({"id": 3, "result": "one"})]);
    assert_eq!(
        client.player.deviations(),
        ["line 1: a came more often than recorded", "line 2: b did not come", "line 8: opened did not come"]
    );
}

#[test]
fn unrecorded_request_is_refused_with_nearest_match() {
    let mut client = Client::new(burst());
    let error = &client.request(1, "a", &json!({"n": 3, "more": "ghp_0123456789"}))[0]["error"];
    assert_eq!(error["code"], -32803);
    assert_eq!(
        error["message"],
        "the recording has no such a; the nearest is on line 1, and differs in\n  \
         more: recorded nothing, here \"<secret>\"\n  \
         n: recorded 1, here 3"
    );
    assert_eq!(error["data"]["line"], 1);
    let error = &client.request(2, "c", &json!({}))[0]["error"];
    assert_eq!(error["code"], -32601);
    assert_eq!(error["message"], "the recording has no request c; it has: a, b");
    client.say(&json!({"method": "closed"}));
    client.say(&json!({"id": 5, "result": 1}));
    let told = client.player.deviations();
    assert!(told[0].starts_with("the recording has no such a;"), "{told:?}");
    assert_eq!(told[2], "closed came, and is not in the recording, or not so often");
    assert_eq!(told[3], "the client answers request 5, which the server did not send");
}

#[test]
fn player_uses_the_clients_file_names() {
    let mut client = Client::new(burst());
    let opened =
        json!({"method": "opened", "params": {"textDocument": {"uri": "file:///q/z", "version": 9}}});
    let heard = client.say(&opened);
    assert_eq!(heard.last().unwrap(), &json!({"method": "published", "params": {"uri": "file:///q/z"}}));
}

/// A turn with a tool call.
fn turn(token: &str, conversation: &str, id: u32) -> Vec<(&'static str, Value)> {
    let progress = |kind: &str| {
        let value = json!({"kind": kind, "conversationId": conversation, "turnId": format!("turn-of-{conversation}")});
        notice("s2c", "$/progress", json!({"token": token, "value": value}))
    };
    vec![
        request(
            id,
            "conversation/create",
            json!({"workDoneToken": token, "turns": [{"request": conversation}]}),
        ),
        progress("begin"),
        (
            "s2c",
            json!({"id": id, "method": "conversation/invokeClientTool", "params": {"conversationId": conversation}}),
        ),
        answer("c2s", id, json!("done")),
        progress("report"),
        progress("end"),
        answer(
            "s2c",
            id,
            json!({"conversationId": conversation, "turnId": format!("turn-of-{conversation}")}),
        ),
    ]
}

fn create(client: &mut Client, id: u32, request: &str, conversation: Option<&str>) -> Vec<Value> {
    let mut params = json!({"workDoneToken": id, "turns": [{"request": request}]});
    if let Some(conversation) = conversation {
        params["conversationId"] = json!(conversation);
    }
    client.request(id, "conversation/create", &params)
}

#[test]
fn conversation_can_be_replayed_under_another_name() {
    let mut client = Client::new(written(&turn("t", "conversation", 1)));
    let first = create(&mut client, 1, "conversation", None);
    let again = create(&mut client, 2, "conversation", None);
    let third = create(&mut client, 3, "conversation", Some("my own"));
    let name = |heard: &[Value]| {
        let value = &heard[0]["params"]["value"];
        assert_eq!(heard[1]["params"]["conversationId"], value["conversationId"]);
        (value["conversationId"].clone(), value["turnId"].clone(), heard[0]["params"]["token"].clone())
    };
    assert_eq!(name(&first), (json!("conversation"), json!("turn-of-conversation"), json!(1)));
    assert_eq!(name(&again), (json!("conversation-2"), json!("turn-of-conversation-2"), json!(2)));
    assert_eq!(name(&third), (json!("my own"), json!("turn-of-conversation-3"), json!(3)));
    // The calls are answered in another order.
    for (heard, id) in [(&third, 3), (&first, 1), (&again, 2)] {
        let rest = client.say(&json!({"id": heard[1]["id"], "result": "done"}));
        assert_eq!(rest.len(), 3);
        assert_eq!(rest[2]["id"], id);
        assert_eq!(rest[2]["result"]["conversationId"], name(heard).0);
    }
}

#[test]
fn cancelled_turn_ends_although_recording_differs() {
    let mut client = Client::new(written(&turn("t", "conversation", 1)));
    let begun = create(&mut client, 4, "conversation", None);
    let end = client.say(&json!({"method": "$/cancelRequest", "params": {"id": 4}}));
    assert_eq!(end.len(), 2);
    assert_eq!(end[0]["params"]["token"], 4);
    assert_eq!(end[0]["params"]["value"]["cancellationReason"], "CancelledByUser");
    assert_eq!((&end[1]["id"], &end[1]["result"]["conversationId"]), (&json!(4), &json!("conversation")));
    assert_eq!(client.say(&json!({"id": begun[1]["id"], "result": "late"})), [] as [Value; 0]);
    assert_eq!(client.say(&json!({"method": "$/cancelRequest", "params": {"id": 4}})), [] as [Value; 0]);
    let told = client.player.deviations();
    assert_eq!(told[0], "line 1: conversation/create was cancelled, unlike in the recording");
}

#[test]
fn unanswered_recorded_request_gets_error() {
    let mut client = Client::new(written(&[request(1, "slow", json!({}))]));
    let answer = client.request(1, "slow", &json!({}));
    assert_eq!(answer.len(), 1);
    assert_eq!(answer[0]["error"]["message"], "the recording ends before this slow, on line 1, is answered");
    assert_eq!(client.say(&json!({"method": "$/cancelRequest", "params": {"id": 1}})), [] as [Value; 0]);
}

#[test]
fn cancelled_plain_request_gets_error() {
    let mut lines = turn("t", "conversation", 1);
    // Without progress.
    lines.retain(|(_, it)| it["method"] != "$/progress");
    let mut client = Client::new(written(&lines));
    create(&mut client, 4, "conversation", None);
    let answer = client.say(&json!({"method": "$/cancelRequest", "params": {"id": 4}}));
    assert_eq!(answer.len(), 1);
    assert_eq!(answer[0]["error"]["code"], -32800);
}

#[test]
fn player_keeps_recorded_pauses_at_real_speed() {
    let mut client = Client::at(written(&turn("t", "conversation", 1)), Speed::Real);
    client.now = Duration::from_millis(500);
    assert_eq!(create(&mut client, 1, "conversation", None), [] as [Value; 0]);
    assert_eq!(client.player.due(), Some(Duration::from_millis(510)));
    client.now = Duration::from_millis(520);
    let heard = client.listen();
    assert_eq!(heard.len(), 2);
    assert_eq!(client.player.due(), None);
    client.now = Duration::from_secs(9);
    assert_eq!(client.say(&json!({"id": heard[1]["id"], "result": "done"})), [] as [Value; 0]);
    client.now += Duration::from_millis(30);
    assert_eq!(client.listen().len(), 3);
}

#[test]
fn cancelled_turn_ends_before_it_is_answered() {
    let mut lines = turn("t", "conversation", 1);
    // At real speed all of these wait.
    lines.extend((0..20).map(|n| notice("s2c", "window/logMessage", json!({"n": n}))));
    let mut client = Client::at(written(&lines), Speed::Real);
    create(&mut client, 4, "conversation", None);
    client.now = Duration::from_millis(20);
    assert_eq!(client.listen().len(), 2);
    let heard = client.say(&json!({"method": "$/cancelRequest", "params": {"id": 4}}));
    assert_eq!(heard.len(), 2);
    assert_eq!((&heard[0]["params"]["value"]["kind"], &heard[1]["id"]), (&json!("end"), &json!(4)));
}

#[test]
fn player_keeps_bytes_of_ids_and_messages() {
    let question = r#"{"t":0,"dir":"c2s","msg":{"id":1,"method":"a"}}"#;
    let text = r#"{"id":1,  "result":[1e2, 1.0, 12345678901234567890123]}"#;
    let recording = format!("{question}\n{{\"t\":1,\"dir\":\"s2c\",\"msg\":{text}}}\n");
    for id in ["1e2", "12345678901234567890123", "1.50", r#""\u0061""#] {
        let script = Script::new(dialogue(recording.as_bytes(), None).unwrap()).unwrap();
        let mut player = Player::new(script, Speed::Fast);
        player.hear(Duration::ZERO, &Frame::parse(format!(r#"{{"id":{id},"method":"a"}}"#).into()).unwrap());
        let said = player.say(Duration::ZERO).unwrap().to_bytes();
        assert_eq!(said, text.replace("\"id\":1", &format!("\"id\":{id}")).as_bytes());
    }
    // The id leads back to it.
    let mut client = Client::new(written(&turn("t", "conversation", 1)));
    let create =
        r#"{"id":1e2,"method":"conversation/create","params":{"turns":[{"request":"conversation"}]}}"#;
    client.player.hear(Duration::ZERO, &Frame::parse(create.into()).unwrap());
    assert_eq!(client.listen().len(), 2);
    let cancel = r#"{"method":"$/cancelRequest","params":{"id":100}}"#;
    client.player.hear(Duration::ZERO, &Frame::parse(cancel.into()).unwrap());
    assert_eq!(client.listen().len(), 2);
}

/// A process that dies 50 ms after the request `b`, without an answer.
fn dying(exit: &str) -> Dialogue {
    let line = |t: u32, dir: &str, msg: &str| {
        format!(
            r#"{{"t":{t},"dir":"{dir}","kind":"message","peer":{{"backend":0,"generation":1}},"msg":{msg}}}"#
        )
    };
    let process = r#"{"backend":0,"generation":1}"#;
    let header = Encoder::new(true, []).header(Identity { pid: 1, started: 2 }, &Config::default());
    let text = [
        String::from_utf8(header).unwrap().trim_end().to_owned(),
        line(0, "out", r#"{"id":1,"method":"a"}"#),
        line(1, "in", r#"{"id":1,"result":1}"#),
        line(2, "out", r#"{"method":"opened"}"#),
        line(10, "out", r#"{"id":2,"method":"b"}"#),
        line(20, "in", r#"{"method":"said"}"#),
        format!(
            r#"{{"t":60,"dir":"in","kind":"exited","data":{{"process":{process},"exit":{exit},"stderr":""}}}}"#
        ),
    ];
    dialogue(text.join("\n").as_bytes(), Some("0.1")).unwrap()
}

#[test]
fn player_exits_where_recorded_process_died() {
    for (exit, status) in [(r#"{"signal":9}"#, 137), (r#"{"code":3}"#, 3), (r#""unknown""#, 1)] {
        let mut client = Client::new(dying(exit));
        assert_eq!(client.request(1, "a", &json!(null)).len(), 1);
        client.say(&json!({"method": "opened"}));
        assert_eq!(client.player.end(), None);
        assert_eq!(client.request(2, "b", &json!(null)), [json!({"method": "said"})]);
        assert_eq!(client.player.end(), Some(status));
        assert_eq!(client.player.deviations(), [] as [String; 0]);
    }
    let mut client = Client::at(dying(r#"{"signal":9}"#), Speed::Real);
    client.say(&json!({"method": "opened"}));
    client.request(1, "a", &json!(null));
    client.request(2, "b", &json!(null));
    client.now = Duration::from_millis(10);
    assert_eq!(client.listen().last().unwrap()["method"], "said");
    assert_eq!((client.player.end(), client.player.due()), (None, Some(Duration::from_millis(50))));
}

#[test]
fn player_lives_on_when_client_deviates() {
    let mut client = Client::new(dying(r#"{"signal":9}"#));
    assert_eq!(client.request(2, "b", &json!(null)), [json!({"method": "said"})]);
    client.now = Duration::from_millis(999);
    assert_eq!(client.listen(), [] as [Value; 0]);
    client.now = Duration::from_secs(1);
    let told = client.listen();
    assert_eq!(told[0]["error"]["message"], "the recording ends before this b, on line 5, is answered");
    assert_eq!(client.request(1, "a", &json!(null)).len(), 1);
    assert_eq!(client.player.end(), None);
    client.say(&json!({"method": "exit"}));
    assert_eq!(client.player.end(), Some(1));
}

#[test]
fn player_exits_on_exit_or_closed_input() {
    for (is_shut_down, status) in [(true, 0), (false, 1)] {
        let mut client = Client::new(burst());
        if is_shut_down {
            // The recorded server did not get this.
            assert_eq!(
                client.say(&json!({"id": 1, "method": "shutdown"})),
                [json!({"jsonrpc": "2.0", "id": 1, "result": null})]
            );
        }
        assert_eq!(client.player.end(), None);
        client.say(&json!({"method": "exit"}));
        assert_eq!(client.player.end(), Some(status));
    }
    let mut client = Client::new(burst());
    client.player.close();
    assert_eq!(client.player.end(), Some(0));
}

#[test]
fn masked_recording_matches_texts_by_length() {
    let mut dialogue = written(&turn("t", "xxxxxxxxxx", 1));
    dialogue.is_masked = true;
    let mut client = Client::new(dialogue);
    assert_eq!(create(&mut client, 1, "hello, you", None).len(), 2);
    let error = &create(&mut client, 2, "hello, all of you", None)[0]["error"]["message"];
    assert!(
        error
            .as_str()
            .unwrap()
            .contains("turns[0].request: recorded \"xxxxxxxxxx\", here \"xxxxxxxxxxxxxxxxx\"")
    );
}

#[test]
fn player_accepts_lone_surrogates() {
    for (is_masked, text) in [(false, "a "), (true, "xx")] {
        let recording = format!(
            r#"{{"t":0,"dir":"c2s","msg":{{"id":1,"method":"m","params":{{"text":"{text}\ud83d","workDoneToken":"t"}}}}}}
               {{"t":1,"dir":"s2c","msg":{{"method":"$/progress","params":{{"token":"t","value":{{"reply":"\ud83d"}}}}}}}}
               {{"t":2,"dir":"s2c","msg":{{"id":1,"result":"\ude00"}}}}"#
        );
        let mut dialogue = dialogue(recording.as_bytes(), None).unwrap();
        dialogue.is_masked = is_masked;
        let mut client = Client::new(dialogue);
        let mut say = |id: u32, text: &str| {
            let body =
                format!(r#"{{"id":{id},"method":"m","params":{{"text":"{text}","workDoneToken":"other"}}}}"#);
            client.player.hear(Duration::ZERO, &Frame::parse(body.into()).unwrap());
            let said = std::iter::from_fn(|| client.player.say(Duration::ZERO));
            said.map(|it| String::from_utf8(it.to_bytes().to_vec()).unwrap()).collect::<Vec<_>>()
        };
        let said = say(7, r"a \ud83d");
        assert!(
            said[0].contains("\"token\":\"other\"") && said[0].contains("\"reply\":\"\u{fffd}\""),
            "{said:?}"
        );
        assert_eq!(said[1], r#"{"id":7,"result":"\ude00"}"#);
        let said = say(8, r"longer \ud83d");
        assert!(said[0].contains("the recording has no such m"), "{said:?}");
    }
}

#[test]
fn recording_without_its_beginning_is_refused() {
    let problem = Script::new(written(&[answer("s2c", 1, json!(1))])).unwrap_err();
    assert_eq!(
        problem.to_string(),
        "line 1: an answer to request 1, which is not in the recording: lines before it are missing"
    );
}

proptest! {
    /// For any interleaving of the client's turns, each turn is complete and in order.
    #[test]
    fn interleaved_turns_stay_complete_and_ordered(
        order in prop::collection::vec(0..4usize, 0..12),
        again in 1..3usize,
    ) {
        let names = ["conversation-a", "conversation-b", "conversation-c", "conversation-d"];
        // Recorded with all begins before the rest.
        let all: Vec<_> = (1..).zip(names).map(|(n, it)| turn(&format!("token-{n}"), it, n)).collect();
        let lines: Vec<_> = (0..7).flat_map(|n| all.iter().map(move |it| it[n].clone())).collect();
        let mut client = Client::new(written(&lines));
        // The next question of each turn.
        let mut turns: Vec<Option<Value>> = vec![None; 4 * again];
        let mut done = vec![false; turns.len()];
        let rest: Vec<usize> = (0..turns.len()).chain(0..turns.len()).collect();
        for n in order.into_iter().chain(rest) {
            if done[n] {
                continue;
            }
            let id = u32::try_from(n).unwrap();
            match turns[n].take() {
                None => {
                    let heard = create(&mut client, id, names[n % 4], None);
                    prop_assert_eq!(heard.len(), 2);
                    prop_assert_eq!(&heard[0]["params"]["token"], &json!(id));
                    turns[n] = Some(heard[1]["id"].clone());
                }
                Some(question) => {
                    let heard = client.say(&json!({"id": question, "result": "done"}));
                    let kinds: Vec<_> = heard.iter().map(|it| it["params"]["value"]["kind"].clone()).collect();
                    prop_assert_eq!(kinds, [json!("report"), json!("end"), json!(null)]);
                    prop_assert_eq!(&heard[2]["id"], &json!(id));
                    prop_assert_eq!(&heard[0]["params"]["token"], &json!(id));
                    done[n] = true;
                }
            }
        }
        prop_assert!(done.iter().all(|it| *it));
    }

    /// For any messages of a client, nothing panics, and each request gets at most one answer.
    #[test]
    fn player_answers_any_client_at_most_once(said in prop::collection::vec((0..8usize, 0..6u32), 0..40)) {
        let mut client = Client::new(written(&turn("t", "conversation", 1)));
        let mut open = std::collections::BTreeSet::new();
        for (n, id) in said {
            let is_fresh = open.insert(id);
            let message = match n {
                0 if is_fresh => json!({"id": id, "method": "conversation/create", "params": {"workDoneToken": id, "turns": [{"request": "conversation"}]}}),
                1 if is_fresh => json!({"id": id, "method": "shutdown"}),
                2 if is_fresh => json!({"id": id, "method": "nothing", "params": [1]}),
                3 => json!({"method": "$/cancelRequest", "params": {"id": id}}),
                4 => json!({"id": id, "result": null}),
                5 => json!({"id": id, "error": {"code": 1, "message": ""}}),
                6 => json!({"method": "window/workDoneProgress/cancel", "params": {"token": id}}),
                _ => json!({"method": "$/progress", "params": 7}),
            };
            if is_fresh && n > 2 {
                open.remove(&id);
            }
            for heard in client.say(&message) {
                if heard.get("method").is_none() {
                    let id = u32::try_from(heard["id"].as_u64().unwrap()).unwrap();
                    prop_assert!(open.remove(&id), "answered twice: {}", heard);
                }
            }
        }
    }
}

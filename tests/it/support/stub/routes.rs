//! What each path answers, in the shapes that the language server reads.

use std::{
    io,
    net::TcpStream,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde_json::{Map, Value, json};

use super::{
    LogEntry, Outcome, Shared,
    chat::Chat,
    http::{Connection, Request},
    script::{Round, millis},
    stream::{Answer, Api, Call},
};

/// Serves a connection until one side has had enough.
pub(super) fn serve(shared: &Shared, stream: TcpStream) {
    // Chunks are small and their order in time matters to the tests.
    drop(stream.set_nodelay(true));
    // An error here means that the client is gone; the log says what became of its request.
    drop(converse(shared, Connection::plain(stream)));
}

fn converse(shared: &Shared, mut connection: Connection) -> io::Result<()> {
    while let Some(request) = connection.request()? {
        if request.method == "CONNECT" {
            return tunnel(shared, connection, &request);
        }
        let json: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let chat = api(&request.path).map(|_| Chat {
            interaction: request.header("x-interaction-id").map(str::to_owned),
            initiator: request.header("x-initiator").map(str::to_owned),
            ..Chat::read(&json, shared.script.continue_text.as_deref())
        });
        let number = log(shared, &request, chat.clone(), Outcome::Open);
        let outcome = route(shared, &mut connection, &request, &json, chat.as_ref());
        shared.finish(number, *outcome.as_ref().unwrap_or(&Outcome::Aborted));
        match outcome? {
            Outcome::Open | Outcome::Answered(_) if request.header("connection") == Some("close") => {
                return Ok(());
            }
            Outcome::Open | Outcome::Answered(_) => {}
            Outcome::Dropped | Outcome::Refused | Outcome::Aborted => return Ok(()),
        }
    }
    Ok(())
}

/// A proxy that plays every host itself.
fn tunnel(shared: &Shared, mut connection: Connection, request: &Request) -> io::Result<()> {
    let for_tls = request.path.ends_with(":443");
    if for_tls && shared.tls.is_none() {
        log(shared, request, None, Outcome::Refused);
        return connection.answer(403, "text/plain", &[], b"no TLS here");
    }
    let number = log(shared, request, None, Outcome::Open);
    connection.write(b"HTTP/1.1 200 Connection established\r\n\r\n")?;
    let stream = connection.into_tcp().ok_or(io::ErrorKind::InvalidData)?;
    let mut first = [0];
    let is_tls = stream.peek(&mut first)? == 1 && first[0] == 0x16;
    let outcome = if is_tls && shared.tls.is_none() { Outcome::Refused } else { Outcome::Answered(200) };
    shared.finish(number, outcome);
    match &shared.tls {
        Some(tls) if is_tls => converse(shared, tls.accept(stream)?),
        None if is_tls => Ok(()),
        Some(_) | None => converse(shared, Connection::plain(stream)),
    }
}

fn log(shared: &Shared, request: &Request, chat: Option<Chat>, outcome: Outcome) -> usize {
    shared.log(|number| LogEntry {
        number,
        method: request.method.clone(),
        path: request.path.clone(),
        host: request.header("host").unwrap_or_default().to_owned(),
        port: request.port,
        authorization: request.header("authorization").map(str::to_owned),
        body: Arc::from(&request.body[..]),
        chat,
        outcome,
    })
}

fn api(path: &str) -> Option<Api> {
    if path.ends_with("/chat/completions") {
        Some(Api::ChatCompletions)
    } else if path.ends_with("/responses") {
        Some(Api::Responses)
    } else {
        None
    }
}

fn route(
    shared: &Shared,
    connection: &mut Connection,
    request: &Request,
    body: &Value,
    chat: Option<&Chat>,
) -> io::Result<Outcome> {
    let path = request.path.as_str();
    if let Some(answer) = shared.script.http.get(path)
        && shared.take(format!("http {path}"), answer.times)
    {
        shared.pause(connection, millis(answer.delay_ms), None)?;
        return send(connection, answer.status, &answer.body);
    }
    if let (Some(chat), Some(api)) = (chat, api(path)) {
        return answer_chat(shared, connection, chat, api);
    }
    if path.ends_with("/completions") && path.contains("/engines/") {
        return complete(shared, connection, body);
    }
    match fixed(shared, &request.method, path) {
        Some(answer) => send(connection, 200, &answer),
        None => send(connection, 404, &json!({"message": "Not Found"})),
    }
}

/// The routes whose answer does not depend on the request's body.
fn fixed(shared: &Shared, method: &str, path: &str) -> Option<Value> {
    let script = &shared.script;
    let url = shared.url();
    let ends = |end: &str| path.ends_with(end);
    let answer = if ends("/copilot_internal/v2/token") {
        let expires = now() + script.token_ttl;
        let token = format!(
            "tid=stub;exp={expires};sku=stub;chat=1;agent_mode=1;agent_mode_auto_approval=1;mcp=1;client_byok=1"
        );
        let envelope = json!({
            "token": token, "expires_at": expires, "refresh_in": script.token_ttl.saturating_sub(300).max(1),
            "chat_enabled": true, "individual": true, "sku": "stub", "telemetry": "disabled",
            "public_suggestions": "enabled", "code_quote_enabled": false, "copilotignore_enabled": false,
            "endpoints": {"api": url, "proxy": url, "telemetry": url, "origin-tracker": url},
        });
        with(envelope, &script.token)
    } else if ends("/copilot_internal/user") {
        let user = json!({
            "login": "stub-user", "copilot_plan": "individual", "access_type_sku": "stub",
            "chat_enabled": true, "cli_enabled": false,
            "endpoints": {"api": url, "proxy": url, "telemetry": url},
        });
        with(user, &script.user)
    } else if ends("/user") {
        json!({"login": "stub-user", "id": 1})
    } else if ends("/login/device/code") {
        json!({
            "device_code": "stub-device", "user_code": "STUB-0000", "expires_in": 900, "interval": 1,
            "verification_uri": format!("{url}/login/device"),
        })
    } else if ends("/login/oauth/access_token") {
        if shared.take("device flow".to_owned(), Some(script.device_flow_pending)) {
            json!({"error": "authorization_pending"})
        } else {
            json!({"access_token": "gho_stub", "token_type": "bearer", "scope": "read:user"})
        }
    } else if ends("/models/session") {
        let ids: Vec<&str> = script.models.iter().map(|model| model.id.as_str()).collect();
        json!({
            "available_models": ids, "selected_model": ids.first(), "session_token": "stub",
            "expires_at": now() + 3600, "discounted_costs": {},
        })
    } else if path == "/models" {
        json!({"data": script.models.iter().map(super::Model::listing).collect::<Vec<_>>()})
    } else if path == "/agents" {
        json!({"agents": []})
    } else if path == "/embeddings/models" {
        json!({"models": []})
    } else if path == "/telemetry" && method == "GET" {
        json!({
            "Features": [], "Flights": {}, "ParameterGroups": [], "FlightingVersion": 1, "ImpressionId": "stub",
            "AssignmentContext": "", "Configs": [{"Id": "vscode", "Parameters": script.flags}],
        })
    } else {
        return None;
    };
    Some(answer)
}

fn answer_chat(shared: &Shared, connection: &mut Connection, chat: &Chat, api: Api) -> io::Result<Outcome> {
    if let Some(why) = chat.refused.clone() {
        let body = json!({"error": {"message": why, "code": "invalid_request_error"}});
        return send(connection, 400, &body);
    }
    let round = pick(shared, chat);
    shared.pause(connection, millis(round.delay_ms), round.gate.as_deref())?;
    if round.status != 200 {
        let body = round.body.unwrap_or_else(|| json!({"error": {"message": "stub error", "code": "stub"}}));
        let headers: Vec<(String, String)> = round.headers.into_iter().collect();
        connection.answer(round.status, "application/json", &headers, body.to_string().as_bytes())?;
        return Ok(Outcome::Answered(round.status));
    }

    let workspace = &shared.script.workspace;
    let text = chat.fill(&round.text, workspace).repeat(round.repeat);
    let more = chat.fill(&round.more, workspace);
    let (text, more) = unsaid(&text, &more, &chat.said);
    let text: Vec<char> = text.chars().collect();
    let calls: Vec<Call> =
        round.tool_calls.iter().map(|call| Call::new(call, shared.call_id(), workspace)).collect();
    let mut answer = Answer::begin(connection, api, &chat.model)?;
    for (n, piece) in text.chunks(round.chunk_chars.max(1)).enumerate() {
        if round.drop_after.is_some_and(|chunks| n >= chunks) {
            return Ok(Outcome::Dropped);
        }
        answer.text(&piece.iter().collect::<String>())?;
        shared.pause(answer.connection(), millis(round.chunk_ms), None)?;
    }
    shared.pause(answer.connection(), Duration::ZERO, round.gate_after_text.as_deref())?;
    if !more.is_empty() {
        answer.text(more)?;
    }
    if round.hang {
        shared.pause(answer.connection(), Duration::MAX, None)?;
    }
    answer.calls(&calls)?;
    let finish =
        round.finish.unwrap_or_else(|| if calls.is_empty() { "stop" } else { "tool_calls" }.to_owned());
    answer.end(&finish)?;
    Ok(Outcome::Answered(200))
}

/// The rest of a text, before and after its gate, if its beginning was sent. A model that must continue does not
/// begin again.
fn unsaid<'a>(text: &'a str, more: &'a str, said: &str) -> (&'a str, &'a str) {
    let left = |text: &'a str, said: &str| text.strip_prefix(said).unwrap_or(text);
    match said.strip_prefix(text) {
        Some(behind) if !text.is_empty() => ("", left(more, behind)),
        Some(_) | None => (left(text, said), more),
    }
}

/// The choice depends only on the request (except for `times`), so it is the same after a restart of the server, and
/// for conversations that run at once.
fn pick(shared: &Shared, chat: &Chat) -> Round {
    if chat.title {
        return shared.script.title.clone();
    }
    for (at, rule) in shared.rules.iter().enumerate() {
        let Some(last) = rule.rounds.len().checked_sub(1).filter(|_| rule.fits(&chat.user, &chat.model))
        else {
            continue;
        };
        let n = chat.round.min(last);
        for (alternative, round) in rule.rounds[n].as_slice().iter().enumerate() {
            if shared.take(format!("rule {at}.{n}.{alternative}"), round.times) {
                return round.clone();
            }
        }
    }
    Round::text("No rule fits: {user}")
}

fn complete(shared: &Shared, connection: &mut Connection, body: &Value) -> io::Result<Outcome> {
    let prompt = body["prompt"].as_str().unwrap_or_default();
    let end: String = prompt.chars().skip(prompt.chars().count().saturating_sub(400)).collect();
    let fitting = shared.script.completions.iter().find(|completion| end.contains(&completion.after));
    let completion = fitting.cloned().unwrap_or_default();
    shared.pause(connection, millis(completion.delay_ms), completion.gate.as_deref())?;
    if completion.status != 0 && completion.status != 200 {
        return send(connection, completion.status, &json!({"error": {"message": "stub error"}}));
    }
    connection.start_chunks("text/event-stream")?;
    for index in 0..body["n"].as_u64().unwrap_or(1).max(1) {
        for (text, finish) in [(completion.text.as_str(), None), ("", Some("stop"))] {
            let choice = json!({"index": index, "text": text, "finish_reason": finish});
            let chunk = json!({"id": "cmpl-stub", "created": 0, "model": "stub", "choices": [choice]});
            connection.chunk(&format!("data: {chunk}\n\n"))?;
        }
    }
    connection.chunk("data: [DONE]\n\n")?;
    connection.chunk("")?;
    Ok(Outcome::Answered(200))
}

fn send(connection: &mut Connection, status: u16, body: &Value) -> io::Result<Outcome> {
    connection.answer(status, "application/json", &[], body.to_string().as_bytes())?;
    Ok(Outcome::Answered(status))
}

fn with(mut value: Value, members: &Map<String, Value>) -> Value {
    for (name, member) in members {
        value[name] = member.clone();
    }
    value
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs())
}

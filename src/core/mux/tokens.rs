//! Progress tokens: those that servers chose, those in use, and the renaming of tokens that two servers use.
//!
//! The editor's tokens pass unchanged. So do servers' tokens, unless another server uses the same.

use std::collections::BTreeMap;

use crate::{
    core::{
        event::BackendId,
        ids::{ConversationId, Token, TurnId},
    },
    rpc::{Patch, member, values},
};

#[derive(Debug)]
struct Chosen {
    backend: BackendId,
    /// The server's token.
    theirs: Token,
    /// The number of open requests that name it. A request that creates it stays open.
    requests: usize,
    /// The editor was asked to create it.
    is_created: bool,
}

/// How long a token of a server's choice means something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lifetime {
    /// Until its `end`: the editor is asked to create it.
    UntilEnd,
    /// Until the request that names it is answered.
    UntilAnswered,
}

/// So much progress is remembered that has not ended although its request is answered.
const ANSWERED: usize = 64;

/// A token for which a `begin` has passed and no `end`.
#[derive(Debug, PartialEq)]
struct Open {
    backend: BackendId,
    token: Token,
    subject: Option<Subject>,
    /// Some servers answer first, and end the progress when the work is done.
    is_answered: bool,
}

/// The subject of progress, for a server that reports on several conversations under one token.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Subject {
    conversation: ConversationId,
    turn: Option<TurnId>,
    /// Whether it begins within another one's token and never ends.
    is_nested: bool,
}

impl Subject {
    /// Reads it from the parameters of `$/progress`.
    fn of(params: &[u8]) -> Option<Subject> {
        let value = &params[member(params, "value")?];
        let [conversation, turn, parent] = values(value, ["conversationId", "turnId", "parentTurnId"]);
        let conversation = ConversationId::from_raw(conversation?)?;
        let turn = turn.and_then(TurnId::from_raw);
        let is_nested = parent.and_then(TurnId::from_raw).is_some();
        Some(Subject { conversation, turn, is_nested })
    }
}

impl Open {
    fn is_same(&self, other: &Open) -> bool {
        (self.backend, &self.token, &self.subject) == (other.backend, &other.token, &other.subject)
    }

    fn is_about(&self, id: &ConversationId) -> bool {
        self.conversation() == Some(id)
    }

    fn conversation(&self) -> Option<&ConversationId> {
        self.subject.as_ref().map(|it| &it.conversation)
    }
}

/// All tokens in use.
#[derive(Debug, Default)]
pub(crate) struct Tokens {
    minted: u64,
    /// Tokens of servers, by the editor's token.
    chosen: BTreeMap<Token, Chosen>,
    renamed: BTreeMap<(BackendId, Token), Token>,
    open: Vec<Open>,
}

impl Tokens {
    /// A server's request names a token of its own choice under `key`. Gives the parameters that the editor gets,
    /// if they differ.
    pub(crate) fn choose(
        &mut self,
        backend: BackendId,
        params: &[u8],
        key: &str,
        lifetime: Lifetime,
    ) -> Option<Vec<u8>> {
        let theirs = Token::from_raw(&params[member(params, key)?])?;
        let taken = self.chosen.get(&theirs).is_some_and(|it| it.backend != backend);
        let ours = match self.renamed.get(&(backend, theirs.clone())) {
            Some(ours) => ours.clone(),
            None if taken => {
                self.minted += 1;
                let ours = Token::text(&format!("lspool-{}", self.minted));
                self.renamed.insert((backend, theirs.clone()), ours.clone());
                ours
            }
            None => theirs.clone(),
        };
        let renamed = (ours != theirs).then(|| Patch::of(params).set(key, ours.as_bytes()).finish());
        let new = Chosen { backend, theirs, requests: 0, is_created: false };
        let chosen = self.chosen.entry(ours).or_insert(new);
        chosen.requests += 1;
        chosen.is_created |= lifetime == Lifetime::UntilEnd;
        renamed
    }

    /// Notes the answer to a request with this token, which ends its progress.
    pub(crate) fn answered(&mut self, backend: BackendId, ours: &Token) {
        let Some(chosen) = self.chosen.get_mut(ours).filter(|it| it.backend == backend) else { return };
        chosen.requests = chosen.requests.saturating_sub(1);
        if chosen.requests == 0 {
            self.forget(backend, ours);
        }
    }

    /// A request of this server is answered. What the server has begun under the token of that request may go on.
    pub(crate) fn answered_before_end(&mut self, backend: BackendId, request: &[u8]) {
        if self.open.is_empty() {
            return;
        }
        let token = member(request, "workDoneToken").and_then(|it| Token::from_raw(&request[it]));
        let Some(token) = token else { return };
        for it in &mut self.open {
            it.is_answered |= it.backend == backend && it.token == token && it.subject.is_none();
        }
        // Others never say that it has ended.
        if self.open.iter().filter(|it| it.is_answered).count() > ANSWERED
            && let Some(oldest) = self.open.iter().position(|it| it.is_answered)
        {
            self.open.remove(oldest);
        }
    }

    /// A request of this server is answered. What the server has begun under the token of that request is over: what
    /// is about this subject, if the request was. Gives the parameters of the `end` that the editor has not seen:
    /// `error` is the raw message in it.
    pub(crate) fn closed(
        &mut self,
        backend: BackendId,
        request: &[u8],
        subject: Option<&ConversationId>,
        error: Option<&[u8]>,
    ) -> Option<Vec<u8>> {
        if self.open.is_empty() {
            return None;
        }
        let token = member(request, "workDoneToken").and_then(|it| Token::from_raw(&request[it]))?;
        if self.chosen.get(&token).is_some_and(|it| it.backend == backend) {
            return None;
        }
        let of = |it: &Open| it.backend == backend && it.token == token && it.conversation() == subject;
        let at = self.open.iter().position(of)?;
        let open = self.open.remove(at);
        let why = error.map(|it| open.why(&String::from_utf8_lossy(it)));
        Some(open.end(why))
    }

    fn forget(&mut self, backend: BackendId, ours: &Token) {
        if self.chosen.get(ours).is_some_and(|it| it.backend == backend)
            && let Some(Chosen { theirs, .. }) = self.chosen.remove(ours)
        {
            self.renamed.remove(&(backend, theirs));
        }
    }

    /// The server that chose this token, with the server's token.
    pub(crate) fn owner(&self, token: &Token) -> Option<(BackendId, Token)> {
        self.chosen.get(token).map(|it| (it.backend, it.theirs.clone()))
    }

    /// The server that has begun work under this token and not ended it.
    pub(super) fn reporter(&self, token: &Token) -> Option<BackendId> {
        self.open.iter().rev().find(|it| it.token == *token).map(|it| it.backend)
    }

    /// Whether some tokens are renamed.
    pub(crate) fn are_renamed(&self) -> bool {
        !self.renamed.is_empty()
    }

    /// Handles progress of a server: notes begin and end, and returns the changed parameters for the editor, if they
    /// differ.
    pub(crate) fn passed(
        &mut self,
        backend: BackendId,
        kind: Option<&[u8]>,
        params: &[u8],
    ) -> Option<Vec<u8>> {
        let begins = kind == Some(b"\"begin\"");
        let ends = kind == Some(b"\"end\"");
        if !begins && !ends && self.renamed.is_empty() {
            return None;
        }
        let theirs = Token::from_raw(&params[member(params, "token")?])?;
        let ours = self.renamed.get(&(backend, theirs.clone())).cloned();
        let token = ours.as_ref().unwrap_or(&theirs);
        let subject = if begins || ends { Subject::of(params) } else { None };
        if begins && !subject.as_ref().is_some_and(|it| it.is_nested) {
            let begun = Open { backend, token: token.clone(), subject, is_answered: false };
            // A server that begins a thing twice still has one end coming.
            self.open.retain(|it| !it.is_same(&begun));
            self.open.push(begun);
        } else if ends {
            let id = subject.as_ref().map(|it| &it.conversation);
            let same = |it: &Open| it.backend == backend && it.token == *token && it.conversation() == id;
            if let Some(at) = self.open.iter().position(same) {
                self.open.remove(at);
            }
            if subject.is_none() {
                let token = token.clone();
                self.forget(backend, &token);
            }
        }
        ours.map(|ours| Patch::of(params).set("token", ours.as_bytes()).finish())
    }

    /// Moves the tokens of one backend to another.
    pub(crate) fn rename(&mut self, old: BackendId, new: BackendId) {
        self.chosen.values_mut().filter(|it| it.backend == old).for_each(|it| it.backend = new);
        self.open.iter_mut().filter(|it| it.backend == old).for_each(|it| it.backend = new);
        let renamed = std::mem::take(&mut self.renamed);
        let name = |(owner, theirs): (BackendId, Token)| (if owner == old { new } else { owner }, theirs);
        self.renamed = renamed.into_iter().map(|(key, ours)| (name(key), ours)).collect();
    }

    /// Forgets the tokens of a dead process, except those whose subject continues. Returns the parameters of an `end`
    /// for each open one.
    pub(super) fn abandoned(
        &mut self,
        backend: BackendId,
        message: &str,
        goes_on: impl Fn(&ConversationId) -> bool,
    ) -> Vec<Vec<u8>> {
        let chosen: Vec<_> = self.chosen.extract_if(.., |_, it| it.backend == backend).collect();
        self.renamed.retain(|(owner, _), _| *owner != backend);
        let is_gone = |it: &Open| it.backend == backend && !it.conversation().is_some_and(&goes_on);
        let (mut gone, kept): (Vec<Open>, _) = std::mem::take(&mut self.open).into_iter().partition(is_gone);
        self.open = kept;
        // Of what the editor has created it expects an end, although nothing has begun.
        for (token, _) in chosen.into_iter().filter(|(_, it)| it.is_created) {
            if !gone.iter().chain(&self.open).any(|it| it.backend == backend && it.token == token) {
                gone.push(Open { backend, token, subject: None, is_answered: false });
            }
        }
        let message = serde_json::json!(message).to_string();
        gone.into_iter().map(|it| it.end(Some(it.why(&message)))).collect()
    }

    /// Ends the progress of a subject. Returns the parameters of the `end` if one is due; `why` is a member of it.
    pub(crate) fn ended(
        &mut self,
        backend: BackendId,
        subject: &ConversationId,
        why: Option<(&str, String)>,
    ) -> Option<Vec<u8>> {
        let of = |it: &Open| it.backend == backend && it.is_about(subject);
        let at = self.open.iter().position(of)?;
        Some(self.open.remove(at).end(why))
    }

    /// Moves the progress of a subject to another backend, which will end it.
    pub(crate) fn moved(&mut self, subject: &ConversationId, old: BackendId, new: BackendId) {
        let of = |it: &&mut Open| it.backend == old && it.is_about(subject);
        self.open.iter_mut().filter(of).for_each(|it| it.backend = new);
    }

    /// Checks that both directions of a renaming agree, and that no token belongs to a dead process, unless its
    /// subject continues.
    pub(crate) fn check(
        &self,
        alive: impl Fn(BackendId) -> bool,
        goes_on: impl Fn(&ConversationId) -> bool,
    ) -> Result<(), String> {
        for ((backend, theirs), ours) in &self.renamed {
            let chosen = self.chosen.get(ours);
            if chosen.is_none_or(|it| it.backend != *backend || it.theirs != *theirs) {
                return Err(format!("token {theirs} of {backend:?} is called {ours}, which is {chosen:?}"));
            }
        }
        for (ours, Chosen { backend, theirs, .. }) in &self.chosen {
            if ours != theirs && self.renamed.get(&(*backend, theirs.clone())) != Some(ours) {
                return Err(format!("{ours} is called {theirs} by {backend:?}, which does not know"));
            }
        }
        let open = self.open.iter().filter(|it| !it.conversation().is_some_and(&goes_on));
        let owners = self.chosen.values().map(|it| it.backend).chain(open.map(|it| it.backend));
        match owners.into_iter().find(|it| !alive(*it)) {
            Some(gone) => Err(format!("a token of {gone:?} is left, which has no process")),
            None => Ok(()),
        }
    }

    /// The number of open tokens.
    pub(crate) fn n_open(&self) -> usize {
        self.open.len()
    }
}

impl Open {
    /// The member of an `end` with this raw message.
    fn why(&self, message: &str) -> (&'static str, String) {
        match self.subject {
            Some(_) => ("error", format!(r#"{{"message":{message}}}"#)),
            None => ("message", message.to_owned()),
        }
    }

    /// The parameters of its `end`, with this member.
    fn end(&self, why: Option<(&str, String)>) -> Vec<u8> {
        let mut value = Patch::of(br#"{"kind":"end"}"#);
        if let Some((key, raw)) = why {
            value.set(key, raw.as_bytes());
        }
        if let Some(Subject { conversation, turn, .. }) = &self.subject {
            if let Some(turn) = turn {
                value.set("turnId", turn.as_bytes());
            }
            value.set("conversationId", conversation.as_bytes());
        }
        Patch::of(b"{}").set("value", &value.finish()).set("token", self.token.as_bytes()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::copilot::progress::ProgressReport;

    const A: BackendId = BackendId(0);
    const B: BackendId = BackendId(1);

    fn token_1() -> Token {
        Token::from_raw(b"1").expect("a token")
    }

    fn pass(tokens: &mut Tokens, by: BackendId, params: &[u8]) -> Option<Vec<u8>> {
        tokens.passed(by, ProgressReport::of(params).kind, params)
    }

    fn progress(token: &str, value: &str) -> Vec<u8> {
        format!(r#"{{"token":{token},"value":{value}}}"#).into_bytes()
    }

    #[test]
    fn tokens_rename_equal_token_of_second_server() {
        let mut tokens = Tokens::default();
        assert_eq!(tokens.choose(A, br#"{"token":1}"#, "token", Lifetime::UntilAnswered), None);
        assert_eq!(tokens.choose(B, br#"{"token":"1"}"#, "token", Lifetime::UntilAnswered), None);
        let renamed = tokens.choose(B, br#"{"token":1}"#, "token", Lifetime::UntilAnswered);
        assert_eq!(renamed.as_deref(), Some(br#"{"token":"lspool-1"}"#.as_slice()));
        assert_eq!(tokens.owner(&Token::text("lspool-1")), Some((B, token_1())));
        assert_eq!(pass(&mut tokens, A, &progress("1", r#"{"kind":"report"}"#)), None);
        let passed = pass(&mut tokens, B, &progress("1", r#"{"kind":"begin"}"#));
        assert_eq!(passed, Some(progress("\"lspool-1\"", r#"{"kind":"begin"}"#)));
        let ends = tokens.abandoned(B, "gone", |_| false);
        assert_eq!(ends, [progress("\"lspool-1\"", r#"{"message":"gone","kind":"end"}"#)]);
        assert_eq!(tokens.owner(&token_1()), Some((A, token_1())));
    }

    #[test]
    fn token_lives_until_its_requests_are_answered() {
        let mut tokens = Tokens::default();
        let one = br#"{"token":1}"#;
        tokens.choose(A, one, "token", Lifetime::UntilAnswered);
        assert!(tokens.choose(B, one, "token", Lifetime::UntilAnswered).is_some());
        assert!(tokens.choose(B, one, "token", Lifetime::UntilAnswered).is_some(), "it has its name");
        let name = Token::text("lspool-1");
        tokens.answered(A, &token_1());
        tokens.answered(B, &name);
        assert_eq!(tokens.owner(&name), Some((B, token_1())), "another request names it");
        tokens.answered(B, &name);
        assert!(tokens.chosen.is_empty() && tokens.renamed.is_empty());
        assert_eq!(tokens.choose(B, one, "token", Lifetime::UntilAnswered), None);
        pass(&mut tokens, A, &progress("1", r#"{"kind":"end"}"#));
        assert_eq!(tokens.owner(&token_1()), Some((B, token_1())), "that one was the editor's");
    }

    #[test]
    fn progress_begun_twice_ends_once() {
        let mut tokens = Tokens::default();
        for _ in 0..2 {
            pass(&mut tokens, A, &progress("7", r#"{"kind":"begin","title":"t"}"#));
        }
        assert_eq!(tokens.abandoned(A, "gone", |_| false).len(), 1);
    }

    #[test]
    fn progress_that_outlives_its_answer_ends_with_the_process() {
        let mut tokens = Tokens::default();
        let asked = |n: usize| format!(r#"{{"workDoneToken":{n}}}"#).into_bytes();
        for n in 0..ANSWERED + 9 {
            pass(&mut tokens, A, &progress(&n.to_string(), r#"{"kind":"begin"}"#));
            tokens.answered_before_end(A, &asked(n));
        }
        pass(&mut tokens, A, &progress(&(ANSWERED + 1).to_string(), r#"{"kind":"end"}"#));
        let ends = tokens.abandoned(A, "gone", |_| false);
        assert_eq!(ends.len(), ANSWERED - 1, "not of those that a server never ends");
        let last = progress(&(ANSWERED + 8).to_string(), r#"{"message":"gone","kind":"end"}"#);
        assert_eq!(ends.last(), Some(&last));
    }

    #[test]
    fn created_token_ends_although_nothing_has_begun() {
        let mut tokens = Tokens::default();
        for token in ["1", "2", "3"] {
            tokens.choose(A, format!(r#"{{"token":{token}}}"#).as_bytes(), "token", Lifetime::UntilEnd);
        }
        pass(&mut tokens, A, &progress("2", r#"{"kind":"begin"}"#));
        pass(&mut tokens, A, &progress("3", r#"{"kind":"begin"}"#));
        pass(&mut tokens, A, &progress("3", r#"{"kind":"end"}"#));
        let end = r#"{"message":"gone","kind":"end"}"#;
        assert_eq!(tokens.abandoned(A, "gone", |_| false), [progress("2", end), progress("1", end)]);
    }

    #[test]
    fn interrupted_turn_ends_once_with_its_ids() {
        let mut tokens = Tokens::default();
        let begin = r#"{"kind":"begin","conversationId":"c","turnId":"t"}"#;
        pass(&mut tokens, A, &progress("7", begin));
        pass(
            &mut tokens,
            A,
            &progress("7", r#"{"kind":"begin","conversationId":"child","turnId":"u","parentTurnId":"t"}"#),
        );
        let end = r#"{"conversationId":"c","turnId":"t","error":{"message":"gone"},"kind":"end"}"#;
        assert_eq!(tokens.abandoned(A, "gone", |_| false), [progress("7", end)]);
        assert!(tokens.abandoned(A, "gone", |_| false).is_empty());
    }
}

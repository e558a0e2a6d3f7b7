//! Dynamic registrations: the editor gets each capability once, under a unique id.
//!
//! Partitions of one server register the same capabilities. lspool does not repeat a registration, and keeps it until
//! the last process that has it withdraws it.
//!
//! An editor that has two registrations of one method asks twice. So those of several members of a group are one, with what
//! all of them say (*shared*), and are asked for again when that changes.

use bytes::Bytes;
use serde_json::Value;

use crate::{
    core::{
        event::{BackendId, ProcessId},
        ids::RegistrationId,
    },
    rpc::{Patch, RawId, decode, elements, member},
};

#[derive(Debug)]
struct Held {
    /// The editor's id.
    id: RegistrationId,
    method: Bytes,
    options: Value,
    owners: Vec<Owner>,
    sharing: Sharing,
}

/// A registration of a process, which the editor may know as a part of another one.
#[derive(Debug)]
struct Owner {
    process: ProcessId,
    id: RegistrationId,
    options: Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sharing {
    /// Its owners have registered the same.
    No,
    /// Its options are those of all owners together.
    Yes,
    /// Its owners are others than those that the editor was asked for.
    Changed,
}

impl Owner {
    fn is(&self, process: ProcessId, id: &RegistrationId) -> bool {
        self.process == process && self.id == *id
    }
}

/// The requests to the editor for a `client/registerCapability`.
#[derive(Debug, Default)]
pub(crate) struct AskedRegistration {
    /// The registration of a dead process with the same id and other contents, to withdraw first.
    pub(crate) unregister: Option<Vec<u8>>,
    pub(crate) register: Option<Bytes>,
}

/// The registrations of the editor.
#[derive(Debug, Default)]
pub(crate) struct Registrations {
    minted: u64,
    held: Vec<Held>,
}

impl Registrations {
    /// Handles `client/registerCapability` of a process: returns the part to send to the editor, if any.
    pub(crate) fn register(&mut self, process: ProcessId, params: &Bytes) -> AskedRegistration {
        let Some(range) = member(params, "registrations") else { return AskedRegistration::default() };
        let list = params.slice(range);
        let (mut asked, mut replaced) = (Vec::new(), Vec::new());
        for range in elements(&list) {
            let one = list.slice(range);
            match parse(&one) {
                Some((id, method, options)) => {
                    asked.extend(self.add(process, &one, id, method, options, &mut replaced));
                }
                None => asked.push(one),
            }
        }
        AskedRegistration {
            unregister: unregistrations(&replaced),
            register: (!asked.is_empty()).then(|| with_list(params, "registrations", &asked)),
        }
    }

    fn add(
        &mut self,
        process: ProcessId,
        one: &Bytes,
        id: RegistrationId,
        method: Bytes,
        options: Value,
        replaced: &mut Vec<Held>,
    ) -> Option<Bytes> {
        let foreign = |it: &Held| it.owners.iter().all(|it| it.process != process);
        let same = |it: &&mut Held| {
            it.sharing == Sharing::No && it.method == method && it.options == options && foreign(it)
        };
        if let Some(held) = self.held.iter_mut().find(same) {
            held.owners.retain(|it| it.process.backend != process.backend);
            held.owners.push(Owner { process, id, options });
            return None;
        }
        replaced.extend(self.take_registrations(|it| is_older(it.process, process) && it.id == id));
        let taken = self.held.iter().any(|it| it.id == id && !it.owners.iter().any(|it| it.is(process, &id)));
        let ours = if taken { self.mint() } else { id.clone() };
        let told =
            if taken { Bytes::from(Patch::of(one).set("id", ours.as_bytes()).finish()) } else { one.clone() };
        let owners = vec![Owner { process, id, options: options.clone() }];
        self.held.push(Held { id: ours, method, options, owners, sharing: Sharing::No });
        Some(told)
    }

    fn mint(&mut self) -> RegistrationId {
        self.minted += 1;
        RegistrationId::text(&format!("lspool-{}", self.minted))
    }

    /// Lets others join what a process has registered.
    pub(super) fn share(&mut self, process: ProcessId, id: &RegistrationId) {
        let own = |it: &&mut Held| it.owners.iter().any(|it| it.is(process, id));
        if let Some(held) = self.held.iter_mut().find(own) {
            held.sharing = Sharing::Yes;
        }
    }

    /// A process registers a method too. Whether there is a shared registration of it, to which this is added: the editor
    /// hears of it from [`Registrations::rejoined`].
    pub(super) fn join(
        &mut self,
        process: ProcessId,
        id: &RegistrationId,
        method: &str,
        options: &Value,
    ) -> bool {
        let is_it =
            |it: &&mut Held| it.sharing != Sharing::No && RawId::text(method).as_bytes() == &it.method[..];
        let Some(held) = self.held.iter_mut().find(is_it) else { return false };
        // What it has said before it says again.
        held.owners.retain(|it| {
            let is_same = it.id == *id || it.process != process && it.options == *options;
            it.process.backend != process.backend || !is_same
        });
        held.owners.push(Owner { process, id: id.clone(), options: options.clone() });
        held.sharing = Sharing::Changed;
        true
    }

    /// What the editor is to be asked because shared registrations have other owners than before. `unite`: the options of
    /// a method, from those of its owners.
    pub(super) fn rejoined(
        &mut self,
        unite: impl Fn(&str, &[(ProcessId, &Value)]) -> Value,
    ) -> AskedRegistration {
        let (mut gone, mut asked) = (Vec::new(), Vec::new());
        for at in 0..self.held.len() {
            let held = &self.held[at];
            if held.sharing != Sharing::Changed {
                continue;
            }
            let method = decode(&held.method).unwrap_or_default();
            let owners: Vec<(ProcessId, &Value)> =
                held.owners.iter().map(|it| (it.process, &it.options)).collect();
            let options = unite(&method, &owners);
            self.held[at].sharing = Sharing::Yes;
            if self.held[at].options == options {
                continue;
            }
            let id = self.mint();
            let held = &mut self.held[at];
            gone.push(one(held));
            (held.id, held.options) = (id, options);
            let options = held.options.to_string();
            let told = Patch::of(b"{}")
                .set("registerOptions", options.as_bytes())
                .set("method", &held.method)
                .set("id", held.id.as_bytes())
                .finish();
            asked.push(Bytes::from(told));
        }
        AskedRegistration {
            unregister: unregister(&gone),
            register: (!asked.is_empty()).then(|| with_list(&Bytes::from("{}"), "registrations", &asked)),
        }
    }

    /// The options of a shared registration of this method.
    pub(super) fn told(&self, method: &str) -> Option<&Value> {
        let is_it =
            |it: &&Held| it.sharing != Sharing::No && RawId::text(method).as_bytes() == &it.method[..];
        self.held.iter().find(is_it).map(|it| &it.options)
    }

    /// What the editor has been asked for of this method, beside what older processes of this one's backend have.
    pub(super) fn held_beside(&self, method: &str, process: ProcessId) -> Vec<&Value> {
        let is_it = |it: &&Held| RawId::text(method).as_bytes() == &it.method[..];
        let beside = |it: &&Held| !it.owners.iter().all(|it| is_older(it.process, process));
        self.held.iter().filter(is_it).filter(beside).map(|it| &it.options).collect()
    }

    /// Handles `client/unregisterCapability` of a process: returns the part to send to the editor, if any.
    pub(crate) fn unregister(&mut self, process: ProcessId, params: &Bytes) -> Option<Bytes> {
        // The spelling of the protocol, and the correct one. The editor gets the same.
        let spelled = |key| member(params, key).map(|range| (key, range));
        let (key, range) = spelled("unregisterations").or_else(|| spelled("unregistrations"))?;
        let list = params.slice(range);
        let mut asked = Vec::new();
        for range in elements(&list) {
            let one = list.slice(range);
            asked.extend(self.remove(process, &one));
        }
        (!asked.is_empty()).then(|| with_list(params, key, &asked))
    }

    fn remove(&mut self, process: ProcessId, one: &Bytes) -> Option<Bytes> {
        let Some(id) = member(one, "id").and_then(|range| RegistrationId::from_raw(&one[range])) else {
            return Some(one.clone());
        };
        let owns = |it: &Held| it.owners.iter().any(|it| it.is(process, &id));
        let Some(at) = self.held.iter().position(owns) else {
            // The registration of another process with that id stays.
            let foreign = self.held.iter().any(|it| it.id == id);
            return (!foreign).then(|| one.clone());
        };
        self.held[at].owners.retain(|it| !it.is(process, &id));
        if !self.held[at].owners.is_empty() {
            self.held[at].note_change();
            return None;
        }
        let gone = self.held.remove(at);
        Some(Bytes::from(Patch::of(one).set("id", gone.id.as_bytes()).finish()))
    }

    /// Renames a process.
    pub(crate) fn rename(&mut self, old: ProcessId, new: ProcessId) {
        for it in &mut self.held {
            let Some(at) = it.owners.iter().position(|it| it.process == old) else { continue };
            let owner = it.owners.remove(at);
            it.owners.retain(|it| it.process.backend != new.backend);
            it.owners.push(Owner { process: new, ..owner });
        }
    }

    /// Checks that each id is unique, and each registration belongs to an existing backend.
    pub(crate) fn check(&self, exists: impl Fn(BackendId) -> bool) -> Result<(), String> {
        let held = |it: &Held| !it.owners.is_empty() && it.owners.iter().all(|it| exists(it.process.backend));
        if let Some(it) = self.held.iter().find(|it| !held(it)) {
            return Err(format!("registration {} is held by {:?}", it.id, it.owners));
        }
        Ok(())
    }

    /// The `client/unregisterCapability` for a backend without a process.
    pub(super) fn abandoned(&mut self, backend: BackendId) -> Option<Vec<u8>> {
        unregistrations(&self.take_registrations(|it| it.process.backend == backend))
    }

    /// The `client/unregisterCapability` for registrations of older processes that this one has not repeated.
    pub(crate) fn stale(&mut self, process: ProcessId) -> Option<Vec<u8>> {
        unregistrations(&self.take_registrations(|it| is_older(it.process, process)))
    }

    /// Whether an older process than this one has registrations.
    pub(super) fn has_stale(&self, process: ProcessId) -> bool {
        self.held.iter().flat_map(|it| &it.owners).any(|it| is_older(it.process, process))
    }

    /// Whether a process of this backend has registered this method.
    pub(crate) fn has(&self, backend: BackendId, method: &str) -> bool {
        let is_it = |it: &Held| RawId::text(method).as_bytes() == &it.method[..];
        let held = self.held.iter().filter(|it| is_it(it));
        held.flat_map(|it| &it.owners).any(|it| it.process.backend == backend)
    }

    /// Processes are gone. Gives the registrations that no process has.
    fn take_registrations(&mut self, gone: impl Fn(&Owner) -> bool) -> Vec<Held> {
        for it in &mut self.held {
            let before = it.owners.len();
            it.owners.retain(|it| !gone(it));
            if it.owners.len() < before {
                it.note_change();
            }
        }
        self.held.extract_if(.., |it| it.owners.is_empty()).collect()
    }
}

impl Held {
    /// It has other owners than before.
    fn note_change(&mut self) {
        if self.sharing != Sharing::No {
            self.sharing = Sharing::Changed;
        }
    }
}

fn is_older(owner: ProcessId, process: ProcessId) -> bool {
    owner.backend == process.backend && owner.generation < process.generation
}

/// The `client/unregisterCapability` for these, if there are any.
fn unregistrations(gone: &[Held]) -> Option<Vec<u8>> {
    unregister(&gone.iter().map(one).collect::<Vec<_>>())
}

fn one(held: &Held) -> String {
    format!(r#"{{"id":{},"method":{}}}"#, held.id, String::from_utf8_lossy(&held.method))
}

fn unregister(gone: &[String]) -> Option<Vec<u8>> {
    (!gone.is_empty()).then(|| format!(r#"{{"unregisterations":[{}]}}"#, gone.join(",")).into_bytes())
}

fn parse(one: &Bytes) -> Option<(RegistrationId, Bytes, Value)> {
    let id = RegistrationId::from_raw(&one[member(one, "id")?])?;
    // Decoded, because it may be written with escapes.
    let method = one.slice(member(one, "method")?);
    let method = decode(&method).map_or(method.clone(), |it| RawId::text(&it).as_bytes().to_vec().into());
    let options = match member(one, "registerOptions") {
        Some(range) => serde_json::from_slice(&one[range]).ok()?,
        None => Value::Null,
    };
    Some((id, method, options))
}

fn with_list(params: &Bytes, key: &str, list: &[Bytes]) -> Bytes {
    let list = [b"[".as_slice(), &list.join(b",".as_slice()), b"]"].concat();
    match member(params, key) {
        Some(range) if params[range.clone()] == list[..] => params.clone(),
        Some(_) | None => Bytes::from(Patch::of(params).set(key, &list).finish()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::event::Generation;

    fn process(backend: u32, generation: u32) -> ProcessId {
        ProcessId { backend: BackendId(backend), generation: Generation(generation) }
    }

    fn register(it: &mut Registrations, by: ProcessId, id: &str, method: &str) -> Option<String> {
        let params = format!(r#"{{"registrations":[{{"id":"{id}","method":"{method}"}}]}}"#);
        it.register(by, &Bytes::from(params)).register.map(|it| String::from_utf8_lossy(&it).into_owned())
    }

    fn unregister(it: &mut Registrations, by: ProcessId, id: &str) -> Option<String> {
        let params = format!(r#"{{"unregisterations":[{{"id":"{id}","method":"m"}}]}}"#);
        it.unregister(by, &Bytes::from(params)).map(|it| String::from_utf8_lossy(&it).into_owned())
    }

    #[test]
    fn capability_stays_registered_until_last_backend_unregisters() {
        let mut it = Registrations::default();
        assert!(register(&mut it, process(0, 1), "r", "m").is_some());
        assert_eq!(register(&mut it, process(1, 1), "s", "m"), None);
        assert_eq!(unregister(&mut it, process(0, 1), "r"), None);
        assert_eq!(unregister(&mut it, process(0, 1), "r"), None, "it is not that one's any more");
        let last = unregister(&mut it, process(1, 1), "s");
        assert_eq!(last.as_deref(), Some(r#"{"unregisterations":[{"id":"r","method":"m"}]}"#));
    }

    #[test]
    fn unregistrations_are_read_in_both_spellings() {
        let mut it = Registrations::default();
        register(&mut it, process(0, 1), "r", "m");
        let params = Bytes::from(r#"{"unregistrations":[{"id":"r","method":"m"}]}"#);
        assert_eq!(it.unregister(process(0, 1), &params), Some(params));
        assert_eq!(it.abandoned(BackendId(0)), None, "the editor has forgotten it");
    }

    #[test]
    fn registrations_rename_equal_ids_of_different_capabilities() {
        let mut it = Registrations::default();
        register(&mut it, process(0, 1), "r", "m");
        let other = register(&mut it, process(1, 1), "r", "n");
        assert_eq!(other.as_deref(), Some(r#"{"registrations":[{"id":"lspool-1","method":"n"}]}"#));
        let gone = it.abandoned(BackendId(1)).unwrap();
        assert_eq!(
            String::from_utf8_lossy(&gone),
            r#"{"unregisterations":[{"id":"lspool-1","method":"n"}]}"#
        );
    }

    #[test]
    fn registrations_never_reuse_id_of_shared_capability() {
        let mut it = Registrations::default();
        register(&mut it, process(0, 1), "r", "m");
        assert_eq!(register(&mut it, process(0, 2), "s", "m"), None, "the editor knows it as r");
        let other = register(&mut it, process(0, 2), "r", "n");
        assert_eq!(other.as_deref(), Some(r#"{"registrations":[{"id":"lspool-1","method":"n"}]}"#));
    }

    #[test]
    fn restarted_process_does_not_register_capability_again() {
        let mut it = Registrations::default();
        assert!(register(&mut it, process(0, 1), "r", "m").is_some());
        assert!(register(&mut it, process(0, 1), "s", "m").is_some());
        assert_eq!(register(&mut it, process(0, 2), "t", "m"), None);
    }
}

//! Dynamic registrations: the editor gets each capability once, under a unique id.
//!
//! Partitions of one server register the same capabilities. lspool does not repeat a registration, and keeps it until
//! the last process that has it withdraws it.

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
    owners: Vec<(ProcessId, RegistrationId)>,
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
        let foreign = |it: &Held| it.owners.iter().all(|(owner, _)| *owner != process);
        let same = |it: &&mut Held| it.method == method && it.options == options && foreign(it);
        if let Some(held) = self.held.iter_mut().find(same) {
            held.owners.retain(|(owner, _)| owner.backend != process.backend);
            held.owners.push((process, id));
            return None;
        }
        let was = |(owner, theirs): &(ProcessId, RegistrationId)| is_older(*owner, process) && *theirs == id;
        replaced.extend(self.take_registrations(|it| was(it)));
        let owner = (process, id.clone());
        let taken = self.held.iter().any(|it| it.id == id && !it.owners.contains(&owner));
        let ours = if taken {
            self.minted += 1;
            RegistrationId::text(&format!("lspool-{}", self.minted))
        } else {
            id.clone()
        };
        let told =
            if taken { Bytes::from(Patch::of(one).set("id", ours.as_bytes()).finish()) } else { one.clone() };
        self.held.push(Held { id: ours, method, options, owners: vec![(process, id)] });
        Some(told)
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
        let owner = (process, id);
        let Some(at) = self.held.iter().position(|it| it.owners.contains(&owner)) else {
            // The registration of another process with that id stays.
            let foreign = self.held.iter().any(|it| it.id == owner.1);
            return (!foreign).then(|| one.clone());
        };
        self.held[at].owners.retain(|it| *it != owner);
        if !self.held[at].owners.is_empty() {
            return None;
        }
        let gone = self.held.remove(at);
        Some(Bytes::from(Patch::of(one).set("id", gone.id.as_bytes()).finish()))
    }

    /// Renames a process.
    pub(crate) fn rename(&mut self, old: ProcessId, new: ProcessId) {
        for it in &mut self.held {
            let Some(at) = it.owners.iter().position(|(owner, _)| *owner == old) else { continue };
            let (_, theirs) = it.owners.remove(at);
            it.owners.retain(|(owner, _)| owner.backend != new.backend);
            it.owners.push((new, theirs));
        }
    }

    /// Checks that each id is unique, and each registration belongs to an existing backend.
    pub(crate) fn check(&self, exists: impl Fn(BackendId) -> bool) -> Result<(), String> {
        let held = |it: &Held| !it.owners.is_empty() && it.owners.iter().all(|(by, _)| exists(by.backend));
        if let Some(it) = self.held.iter().find(|it| !held(it)) {
            return Err(format!("registration {} is held by {:?}", it.id, it.owners));
        }
        Ok(())
    }

    /// The `client/unregisterCapability` for a backend without a process.
    pub(super) fn abandoned(&mut self, backend: BackendId) -> Option<Vec<u8>> {
        unregistrations(&self.take_registrations(|(owner, _)| owner.backend == backend))
    }

    /// The `client/unregisterCapability` for registrations of older processes that this one has not repeated.
    pub(crate) fn stale(&mut self, process: ProcessId) -> Option<Vec<u8>> {
        unregistrations(&self.take_registrations(|(owner, _)| is_older(*owner, process)))
    }

    /// Whether an older process than this one has registrations.
    pub(super) fn has_stale(&self, process: ProcessId) -> bool {
        self.held.iter().flat_map(|it| &it.owners).any(|(owner, _)| is_older(*owner, process))
    }

    /// Whether a process of this backend has registered this method.
    pub(crate) fn has(&self, backend: BackendId, method: &str) -> bool {
        let is_it = |it: &Held| RawId::text(method).as_bytes() == &it.method[..];
        let held = self.held.iter().filter(|it| is_it(it));
        held.flat_map(|it| &it.owners).any(|(owner, _)| owner.backend == backend)
    }

    /// What the editor has been asked for of this method: each registration as it was.
    pub(super) fn held(&self, method: &str) -> Vec<Vec<u8>> {
        let is_it = |it: &&Held| RawId::text(method).as_bytes() == &it.method[..];
        let one = |it: &Held| {
            Patch::of(b"{}")
                .set("registerOptions", it.options.to_string().as_bytes())
                .set("method", &it.method)
                .set("id", it.id.as_bytes())
                .finish()
        };
        self.held.iter().filter(is_it).map(one).collect()
    }

    /// Processes are gone. Gives the registrations that no process has.
    fn take_registrations(&mut self, gone: impl Fn(&(ProcessId, RegistrationId)) -> bool) -> Vec<Held> {
        for it in &mut self.held {
            it.owners.retain(|it| !gone(it));
        }
        self.held.extract_if(.., |it| it.owners.is_empty()).collect()
    }
}

fn is_older(owner: ProcessId, process: ProcessId) -> bool {
    owner.backend == process.backend && owner.generation < process.generation
}

/// The `client/unregisterCapability` for these, if there are any.
fn unregistrations(gone: &[Held]) -> Option<Vec<u8>> {
    let one = |it: &Held| format!(r#"{{"id":{},"method":{}}}"#, it.id, String::from_utf8_lossy(&it.method));
    let all: Vec<String> = gone.iter().map(one).collect();
    (!all.is_empty()).then(|| format!(r#"{{"unregisterations":[{}]}}"#, all.join(",")).into_bytes())
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

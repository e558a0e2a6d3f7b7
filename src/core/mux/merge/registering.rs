//! What members of a group register: it is routed by, and the editor is told what it has not been told already. An editor
//! that has two registrations of one method asks twice.

use std::collections::BTreeSet;

use bytes::Bytes;

use crate::{
    core::{
        event::{ProcessId, ServerId},
        ids::RegistrationId,
        mux::{
            Mux,
            merge::{
                group::Group,
                union::{self, Addition},
            },
        },
    },
    rpc::{Patch, RawId, elements, member, text},
};

/// Registrations that the editor was not told of, since it asks for what they are about already.
#[derive(Debug, Default)]
pub(super) struct Untold(BTreeSet<(ProcessId, RegistrationId)>);

/// The list under this key, without the elements for which `leave_out` holds. None: nothing is left.
fn without(params: &Bytes, key: &str, mut leave_out: impl FnMut(&[u8]) -> bool) -> Option<Bytes> {
    let Some(range) = member(params, key) else { return Some(params.clone()) };
    let list = &params[range];
    let all: Vec<&[u8]> = elements(list).map(|it| &list[it]).collect();
    let kept: Vec<&[u8]> = all.iter().copied().filter(|it| !leave_out(it)).collect();
    if kept.len() == all.len() {
        return Some(params.clone());
    }
    let list = [b"[".as_slice(), &kept.join(b",".as_slice()), b"]"].concat();
    (!kept.is_empty()).then(|| Patch::of(params).set(key, &list).finish().into())
}

fn id(one: &[u8]) -> Option<RegistrationId> {
    RegistrationId::from_raw(&one[member(one, "id")?])
}

const PULL: &str = "textDocument/diagnostic";

fn has_method(params: &[u8], method: &str) -> bool {
    let list = member(params, "registrations").map_or(&b"[]"[..], |it| &params[it]);
    elements(list).any(|it| text(&list[it], &["method"]).as_deref() == Some(method))
}

impl Group {
    /// The registrations of a member, each for diagnostics under a name that no other member has. `None`: as they are.
    fn with_distinct_identifiers(&self, server: ServerId, params: &Bytes) -> Option<Bytes> {
        let list = &params[member(params, "registrations")?];
        let told = |one: &[u8]| {
            let own = text(one, &["registerOptions", "identifier"]);
            let own = own.filter(|_| text(one, &["method"]).as_deref() == Some(PULL))?;
            self.told_identifier(server, &own)
        };
        let all: Vec<&[u8]> = elements(list).map(|it| &list[it]).collect();
        if all.iter().all(|it| told(it).is_none()) {
            return None;
        }
        let one = |one: &&[u8]| match told(one) {
            Some(told) => {
                let told = RawId::text(&told);
                Patch::of(one).set_path(&["registerOptions", "identifier"], told.as_bytes()).finish()
            }
            None => one.to_vec(),
        };
        let all: Vec<Vec<u8>> = all.iter().map(one).collect();
        let list = [b"[".as_slice(), &all.join(b",".as_slice()), b"]"].concat();
        Some(Patch::of(params).set("registrations", &list).finish().into())
    }
}

impl Mux {
    /// `client/registerCapability` of a member: what of it the editor is asked, if anything.
    pub(in crate::core::mux) fn register_in_group(
        &mut self,
        process: ProcessId,
        params: &Bytes,
    ) -> Option<Bytes> {
        let server = self.backend(process.backend)?.server;
        let group = self.group.as_deref_mut()?;
        let registers = group.member_mut(server)?;
        if let Some(abilities) = &mut registers.abilities {
            abilities.register(params);
        }
        group.note_commands();
        let own = group.with_distinct_identifiers(server, params);
        let params = own.as_ref().unwrap_or(params);
        if has_method(params, PULL) {
            self.begin_pulling(server);
        }
        let group = self.group.as_deref_mut()?;
        let (offered, untold) = (&group.offered, &mut group.untold);
        let range = member(params, "registrations")?;
        let list = &params[range];
        let mut asked: Vec<Vec<u8>> = Vec::new();
        for at in elements(list) {
            let one = &list[at];
            let name = text(one, &["method"]).unwrap_or_default();
            let held = self.registrations.held(&name);
            let held: Vec<&[u8]> = held.iter().map(Vec::as_slice).collect();
            match union::addition(offered, &held, one) {
                Addition::New => asked.push(one.to_vec()),
                // What two members have registered is routed by: the editor would ask twice.
                Addition::Instead(more) if held.is_empty() => {
                    asked.push(Patch::of(one).set("registerOptions", &more).finish());
                }
                Addition::Known | Addition::Instead(_) => {
                    untold.0.extend(id(one).map(|id| (process, id)));
                }
            }
        }
        if asked.is_empty() {
            return None;
        }
        let list = [b"[".as_slice(), &asked.join(b",".as_slice()), b"]"].concat();
        let params = Patch::of(params).set("registrations", &list).finish().into();
        self.register(process, &params)
    }

    /// `client/unregisterCapability` of a member: likewise.
    pub(in crate::core::mux) fn unregister_in_group(
        &mut self,
        process: ProcessId,
        params: &Bytes,
    ) -> Option<Bytes> {
        let server = self.backend(process.backend)?.server;
        let group = self.group.as_deref_mut()?;
        if let Some(abilities) = group.member_mut(server).and_then(|it| it.abilities.as_mut()) {
            abilities.unregister(params);
        }
        group.note_commands();
        let untold = &mut group.untold;
        let is_untold = |one: &[u8]| id(one).is_some_and(|id| untold.0.remove(&(process, id)));
        let left = without(params, "unregisterations", is_untold)?;
        self.registrations.unregister(process, &left)
    }
}

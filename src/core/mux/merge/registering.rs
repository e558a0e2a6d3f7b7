//! What members of a group register: it is routed by, and the editor is told what it has not been told already. An editor
//! that has two registrations of one method asks twice.

use std::collections::BTreeSet;

use bytes::Bytes;
use serde_json::{Value, json};

use crate::{
    core::{
        event::{ProcessId, ServerId},
        ids::RegistrationId,
        mux::{
            Mux,
            merge::{
                capabilities::{EXECUTE_COMMAND, capabilities, strings},
                group::Group,
                roots::CHANGED_FOLDERS,
                union::{self, Addition},
            },
        },
        purpose::Purpose,
    },
    rpc::{Patch, RawId, elements, member, text, values},
    util::json as read_json,
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
const TOKENS: &str = "textDocument/semanticTokens";

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

impl Group {
    /// Names of commands as the editor knows them: those that it has not been told. `held`: registrations of commands.
    fn untold_commands(&self, server: ServerId, own: &[String], held: &[&Value]) -> Vec<String> {
        let offered = capabilities(&self.offered);
        let told = EXECUTE_COMMAND.of(&offered).into_iter().chain(held.iter().copied());
        let told: Vec<String> = told.flat_map(|it| strings(it, "commands").unwrap_or_default()).collect();
        let names = own.iter().map(|it| self.told_command(server, it).to_owned());
        names.filter(|it| !told.contains(it)).collect()
    }
}

impl Mux {
    /// `client/registerCapability` of a member: what of it the editor is asked, if anything. After that,
    /// [`Mux::rejoin_registrations`].
    pub(in crate::core::mux) fn register_in_group(
        &mut self,
        process: ProcessId,
        params: &Bytes,
    ) -> Option<Bytes> {
        let server = self.backend(process.backend)?.server;
        let has_wanted_folders = self.wants(server, CHANGED_FOLDERS, b"{}");
        let group = self.group.as_deref_mut()?;
        let registers = group.member_mut(server)?;
        if let Some(abilities) = &mut registers.abilities {
            abilities.register(params);
        }
        group.note_commands();
        if has_method(params, PULL) {
            self.begin_pulling(server);
        }
        if !has_wanted_folders && let Some(frame) = self.further_folders(process) {
            self.notify_backend(process.backend, &frame);
        }
        self.tell_registrations(process, params)
    }

    /// What of these registrations of a member the editor is asked.
    pub(super) fn tell_registrations(&mut self, process: ProcessId, params: &Bytes) -> Option<Bytes> {
        let server = self.backend(process.backend)?.server;
        let group = self.group.as_deref_mut()?;
        // An earlier process of the member is gone, with its registrations.
        group.untold.0.retain(|(by, _)| by.backend != process.backend || *by == process);
        let own = group.with_distinct_identifiers(server, params);
        let params = own.as_ref().unwrap_or(params);
        let range = member(params, "registrations")?;
        let list = &params[range];
        let mut asked: Vec<Vec<u8>> = Vec::new();
        let (mut first, mut further): (Vec<(String, RegistrationId)>, Vec<_>) = (Vec::new(), Vec::new());
        for at in elements(list) {
            let one = &list[at];
            let name = text(one, &["method"]).unwrap_or_default();
            let Some(id) = id(one) else {
                asked.push(one.to_vec());
                continue;
            };
            match union::addition(&group.offered, one) {
                Addition::New => asked.push(one.to_vec()),
                Addition::Known => drop(group.untold.0.insert((process, id))),
                Addition::Commands(own) => {
                    let held = self.registrations.held_beside(&name, process);
                    match group.untold_commands(server, &own, &held) {
                        told if told == own => asked.push(one.to_vec()),
                        told if told.is_empty() => drop(group.untold.0.insert((process, id))),
                        told => {
                            let told = json!(told).to_string();
                            let path = ["registerOptions", "commands"];
                            asked.push(Patch::of(one).set_path(&path, told.as_bytes()).finish());
                        }
                    }
                }
                Addition::Shared(options) => {
                    if self.registrations.join(process, &id, &name, &options) {
                        continue;
                    }
                    if first.iter().any(|(it, _)| *it == name) {
                        further.push((name, id, options));
                        continue;
                    }
                    let own =
                        values(one, ["registerOptions"])[0].and_then(|it| read_json::read::<Value>(it).ok());
                    asked.push(match own.is_none_or(|it| it == options) {
                        true => one.to_vec(),
                        false => {
                            Patch::of(one).set("registerOptions", options.to_string().as_bytes()).finish()
                        }
                    });
                    first.push((name, id));
                }
            }
        }
        if asked.is_empty() {
            return None;
        }
        let list = [b"[".as_slice(), &asked.join(b",".as_slice()), b"]"].concat();
        let params = Patch::of(params).set("registrations", &list).finish().into();
        let told = self.register(process, &params);
        for (_, id) in first {
            self.registrations.share(process, &id);
        }
        for (name, id, options) in further {
            self.registrations.join(process, &id, &name, &options);
        }
        told
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

    /// Members have joined or left registrations that they share: the editor is asked for what is left instead.
    pub(in crate::core::mux) fn rejoin_registrations(&mut self) {
        let Some(group) = self.group.as_deref() else { return };
        let rank = |it: ProcessId| {
            let server = self.backends.get(it.backend).map(|it| it.server);
            server.and_then(|it| group.rank(it))
        };
        let asked = self.registrations.rejoined(|method, owners| {
            let mut owners = owners.to_vec();
            owners.sort_by_key(|(process, _)| rank(*process));
            union::shared(method, &owners.iter().map(|(_, it)| *it).collect::<Vec<_>>())
        });
        // First this one: two at once would be asked twice, and of a command there may not be two.
        for (method, params) in [
            ("client/unregisterCapability", asked.unregister),
            ("client/registerCapability", asked.register.map(Vec::from)),
        ] {
            if let Some(params) = params {
                self.ask_editor(Purpose::Plain, method, Some(&params));
            }
        }
        self.learn_registered_legend();
    }

    /// Semantic tokens may have been registered, and not told in the answer to `initialize`.
    fn learn_registered_legend(&mut self) {
        let told =
            self.registrations.told(TOKENS).map(|it| json!({"capabilities": {"semanticTokensProvider": it}}));
        if let (Some(group), Some(told)) = (self.group.as_deref_mut(), told) {
            group.learn_legends_by(told.to_string().as_bytes());
        }
    }
}

//! The settings that the configuration has for a member, laid over what the editor says.

use serde_json::{Map, Value};

use crate::{
    core::{
        event::{ProcessId, ServerId},
        mux::{Mux, merge::union},
    },
    rpc::{Frame, Patch, member, path},
};

const CHANGED: &str = "workspace/didChangeConfiguration";

/// What is set for a section: `a.b` is a table in a table. None: all.
fn section<'a>(settings: &'a Map<String, Value>, name: Option<&str>) -> Option<Value> {
    let Some(name) = name.filter(|it| !it.is_empty()) else { return Some(Value::Object(settings.clone())) };
    // A name with dots may be written as it is.
    if let Some(value) = settings.get(name) {
        return Some(value.clone());
    }
    let mut at: Option<&'a Value> = None;
    for key in name.split('.') {
        at = match at {
            None => settings.get(key),
            Some(value) => value.get(key),
        };
        at?;
    }
    at.cloned()
}

impl Mux {
    fn settings_of(&self, server: ServerId) -> Option<&Map<String, Value>> {
        let settings = &self.servers.get(server).settings.settings;
        (self.is_group() && !settings.is_empty()).then_some(settings)
    }

    /// The editor's values for these sections, as a member gets them. None: as they are.
    pub(in crate::core::mux) fn configured(
        &self,
        server: ServerId,
        sections: &[Option<String>],
        values: &[&[u8]],
    ) -> Option<Vec<Vec<u8>>> {
        let settings = self.settings_of(server)?;
        let one = |(name, value): (&Option<String>, &&[u8])| {
            let Some(own) = section(settings, name.as_deref()) else { return value.to_vec() };
            union::laid_over(Some(value), &own)
        };
        Some(sections.iter().zip(values).map(one).collect())
    }

    /// An editor that has no settings for servers is not asked. Whether a member of a group has been answered.
    pub(in crate::core::mux) fn answer_configured(
        &mut self,
        process: ProcessId,
        frame: &Frame,
        sections: &[Option<String>],
    ) -> bool {
        let (Some(group), Some(id)) = (self.group.as_deref(), frame.id()) else { return false };
        let place = ["capabilities", "workspace", "configuration"];
        if path(group.editor(), &place).is_some_and(|it| &group.editor()[it] == b"true") {
            return false;
        }
        let Some(server) = self.backend(process.backend).map(|it| it.server) else { return false };
        let nothing = vec![&b"null"[..]; sections.len()];
        let own = self.configured(server, sections, &nothing);
        let values = own.unwrap_or_else(|| nothing.iter().map(|it| it.to_vec()).collect());
        let list = [b"[".as_slice(), &values.join(b",".as_slice()), b"]"].concat();
        self.tell(process, Frame::response(id, &list));
        true
    }

    /// The settings that the configuration has for each server.
    pub(crate) fn member_settings(&self) -> Vec<Map<String, Value>> {
        self.servers.iter().map(|it| it.settings.settings.clone()).collect()
    }

    /// The members whose settings are not those of `before`, each with what it is to be told of that.
    pub(crate) fn changed_settings(&self, before: &[Map<String, Value>]) -> Vec<(ServerId, Frame)> {
        let Some(group) = self.group.as_deref() else { return Vec::new() };
        let servers = self.servers.iter().zip(before);
        let changed = servers.filter(|(server, before)| server.settings.settings != **before);
        let told = group.configuration.clone();
        let told = told.unwrap_or_else(|| Frame::notification(CHANGED, Some(br#"{"settings":null}"#)));
        changed
            .map(|(server, _)| {
                (server.id, self.configuration_for(server.id, &told).unwrap_or_else(|| told.clone()))
            })
            .collect()
    }

    /// Sends a member its settings, and remembers them for its later processes.
    pub(crate) fn tell_configuration(&mut self, server: ServerId, frame: &Frame) {
        let keep = self.keep_for_member(server, frame);
        let primary = self.servers.get(server).primary;
        self.notify_primary(primary, keep, frame);
    }

    /// The editor has sent `workspace/didChangeConfiguration`.
    pub(crate) fn note_configuration(&mut self, frame: &Frame) {
        if let Some(group) = self.group.as_deref_mut().filter(|_| frame.method() == Some(CHANGED)) {
            // A slice would keep the whole read buffer.
            group.configuration = Some(frame.unshared());
        }
    }

    /// `workspace/didChangeConfiguration` as a member is told it. None: as it is.
    pub(crate) fn configuration_for(&self, server: ServerId, frame: &Frame) -> Option<Frame> {
        let settings = self.settings_of(server)?;
        if frame.method() != Some(CHANGED) {
            return None;
        }
        let params = frame.params().unwrap_or(b"{}");
        let said = member(params, "settings").map(|it| &params[it]);
        let all = union::laid_over(said, &Value::Object(settings.clone()));
        let params = if params.starts_with(b"{") { params } else { b"{}" };
        Some(frame.with_params(&Patch::of(params).set("settings", &all).finish()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn settings_are_found_by_section() {
        let settings = json!({"a": {"b": {"c": 1}}, "x.y": 2});
        let settings = settings.as_object().unwrap();
        assert_eq!(section(settings, Some("a.b")), Some(json!({"c": 1})));
        assert_eq!(section(settings, Some("x.y")), Some(json!(2)));
        assert_eq!(section(settings, Some("a.z")), None);
        assert_eq!(section(settings, None), Some(Value::Object(settings.clone())));
    }
}

//! What a member is told of the editor when it starts.

use serde_json::Value;

use super::to_json;
use crate::{
    core::mux::merge::capabilities::{self, DIAGNOSTIC, EXECUTE_COMMAND, FOLDERS},
    rpc::{Patch, members, path},
};

/// Capabilities of an editor that members may use later, as they would alone: what they register of these stays theirs.
const LEFT: [&[&str]; 3] = [EXECUTE_COMMAND.client, FOLDERS.client, DIAGNOSTIC.client];

/// The parameters of `initialize` for a member of a group of several. `init_options` are the configuration's.
///
/// All count in UTF-16, and say at once what they can: then lspool can say at once what all of them can.
pub(crate) fn offer(params: &[u8], member: &str, init_options: Option<&Value>) -> Vec<u8> {
    let mut offer = Patch::of(params);
    // The second is how clangd called it before the protocol knew it.
    for place in [&["capabilities", "general", "positionEncodings"][..], &["capabilities", "offsetEncoding"]]
    {
        if path(params, place).is_some() {
            offer.set_path(place, br#"["utf-16"]"#);
        }
    }
    for it in capabilities::ALL.iter().filter(|it| !LEFT.contains(&it.client)) {
        let place = [&["capabilities"], it.client, &["dynamicRegistration"]].concat();
        if path(params, &place).is_some_and(|at| &params[at] == b"true") {
            offer.set_path(&place, b"false");
        }
    }
    match init_options_of(params, member, init_options) {
        Some(options) => offer.set("initializationOptions", &options),
        None => offer.remove("initializationOptions"),
    };
    offer.finish()
}

/// What the editor says to this member, or else to all, with what the configuration says laid over it.
fn init_options_of(params: &[u8], member: &str, configured: Option<&Value>) -> Option<Vec<u8>> {
    let own = path(params, &["initializationOptions", "lspool", "servers", member]);
    let of_editor = match own {
        Some(at) => Some(params[at].to_vec()),
        None => path(params, &["initializationOptions"])
            .map(|at| Patch::of(&params[at]).remove("lspool").finish()),
    };
    match configured {
        Some(configured) => Some(laid_over(of_editor.as_deref(), configured)),
        None => of_editor,
    }
}

/// Objects are joined by key; anything else takes the place of what was there.
pub(crate) fn laid_over(below: Option<&[u8]>, above: &Value) -> Vec<u8> {
    let (Some(below), Value::Object(above)) = (below.filter(|it| is_object(it)), above) else {
        return to_json(above);
    };
    let mut laid = Patch::of(below);
    for (key, value) in above {
        let inner = members(below).filter(|(name, _)| name == key).last().map(|(_, at)| &below[at]);
        laid.set(key, &laid_over(inner, value));
    }
    laid.finish()
}

fn is_object(raw: &[u8]) -> bool {
    raw.trim_ascii_start().starts_with(b"{")
}

//! The answer of a member, without what the configuration does not use it for.

use serde_json::json;

use crate::{
    core::mux::merge::{
        abilities::Limit,
        capabilities::{self, CODE_ACTION, capabilities, strings},
    },
    rpc::Patch,
};

/// Takes away what is not allowed.
pub(crate) fn narrow(result: &[u8], limit: &Limit) -> Vec<u8> {
    if *limit == Limit::default() {
        return result.to_vec();
    }
    let told = capabilities(result);
    let mut narrowed = Patch::of(result);
    for it in capabilities::ALL.iter().filter(|it| it.of(&told).is_some()) {
        let path = [&["capabilities"], it.server].concat();
        if !limit.allows(it.feature) {
            narrowed.remove_path(&path);
        } else if *it == CODE_ACTION {
            let kinds = it.of(&told).and_then(|it| strings(it, "codeActionKinds")).unwrap_or_default();
            if let Some(kinds) = narrowed_kinds(kinds, limit) {
                let path = [&path[..], &["codeActionKinds"]].concat();
                narrowed.set_path(&path, json!(kinds).to_string().as_bytes());
            }
        }
    }
    narrowed.finish()
}

/// The kinds of code actions to tell instead of these; `None`: as they are.
fn narrowed_kinds(kinds: Vec<String>, limit: &Limit) -> Option<Vec<String>> {
    if kinds.is_empty() {
        return limit.only_kinds().map(<[String]>::to_vec);
    }
    let n = kinds.len();
    let left: Vec<String> = kinds.into_iter().filter(|it| limit.may_allow(it)).collect();
    (left.len() < n).then_some(left)
}

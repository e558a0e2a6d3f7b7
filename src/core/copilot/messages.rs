//! Messages of lspool's own to a Copilot server, and where in a message of the editor's a question stands.

use std::ops::Range;

use crate::{
    core::ids::ConversationId,
    rpc::{Frame, Patch, RawId, elements, member},
};

/// The message to the model for continuing a cut-off answer.
pub const CONTINUE: &str = "Continue exactly where the text above stops, without an apology or a recap. A \
                            technical fault cut the answer off. The user has seen everything above, and \
                            every tool call above has run: repeat neither. Continue in the middle of a \
                            sentence if that is where the text stops.";

/// The request to destroy a conversation.
pub(crate) fn destruction(id: &ConversationId) -> Frame {
    let params = Patch::of(b"{}").set("conversationId", id.as_bytes()).finish();
    Frame::request(RawId::from(0), "conversation/destroy", Some(&params))
}

/// The range of the question in the parameters of a create: in the last of the turns.
pub(super) fn question_in(params: &[u8]) -> Option<Range<usize>> {
    let turns = member(params, "turns")?;
    let last = elements(&params[turns.clone()]).last()?;
    Some(turns.start + last.start..turns.start + last.end)
}

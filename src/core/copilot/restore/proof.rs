//! Whether a server restores conversations from transcripts.
//!
//! **No history goes into a transcript before that is proven.** A server that ignores `restoreToTurnId` says nothing: it
//! begins a conversation of the right id, and the model sees the next question alone. So, once for each version that
//! runs, when the first conversation is to be restored:
//!
//! - By version: those that are known to ignore it are not asked.
//! - By what the server does: a process is sent a create that no server carries out, because it has nothing but a
//!   `restoreToTurnId` of the wrong type. A server that reads the member names it in its refusal.
//!
//! ```text
//! Unverified ─an old version→ Invalid
//!     └─asked─ its refusal names the member→ Verified
//!              └─any other answer, or no answer of three processes→ Invalid
//! ```
//!
//! Where it is invalid, the history goes as text. A server that reads the member and cannot restore one conversation
//! begins another one, or answers with an error: then that conversation goes as text.

use std::collections::BTreeMap;

use tracing::{info, warn};

use super::RestoreStep;
use crate::{
    core::{
        copilot::{
            Copilot,
            versions::{FIRST_WITH_TRANSCRIPTS, Version},
        },
        event::{BackendId, ProcessId},
        mux::Mux,
        purpose::{CopilotPurpose, Purpose, SentId},
    },
    rpc::{ErrorCode, Frame, member, text},
};

/// What a process is sent.
pub const QUESTION: (&str, &[u8]) = ("conversation/create", br#"{"restoreToTurnId":0}"#);

/// How many processes may leave it unanswered: they may have died for another reason.
const MOST_UNANSWERED: u8 = 3;

/// How many versions are remembered. Only updates make them more.
const MOST_VERSIONS: usize = 16;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Proof {
    /// So many processes have gone without an answer.
    Unverified {
        unanswered: u8,
    },
    Verified,
    Invalid(String),
}

/// What was found out, by the version as the server writes it. One that writes none has the empty one.
#[derive(Debug, Default)]
pub(crate) struct Proofs {
    by_version: BTreeMap<String, Proof>,
}

/// What is to be done with a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Proven {
    Transcript,
    Text,
    /// The process is asked first.
    Ask,
}

impl Proofs {
    fn of(&mut self, version: &str) -> &mut Proof {
        if self.by_version.len() >= MOST_VERSIONS && !self.by_version.contains_key(version) {
            self.by_version.clear();
        }
        self.by_version.entry(version.to_owned()).or_insert_with(|| {
            match Version::parse(version).is_some_and(|it| it < FIRST_WITH_TRANSCRIPTS) {
                true => Proof::Invalid("this version does not read transcripts".to_owned()),
                false => Proof::Unverified { unanswered: 0 },
            }
        })
    }
}

impl Copilot {
    fn version_of(&self, process: ProcessId) -> String {
        let partition = self.partitions.get(process.backend);
        partition.and_then(|it| it.version.clone()).unwrap_or_default()
    }

    /// How this process is told a history.
    pub(super) fn proven(&mut self, process: ProcessId) -> Proven {
        let version = self.version_of(process);
        match self.proofs.of(&version) {
            Proof::Verified => Proven::Transcript,
            Proof::Invalid(why) => {
                info!(version, why, "the server restores nothing from transcripts");
                Proven::Text
            }
            Proof::Unverified { .. } => Proven::Ask,
        }
    }

    /// Asks a process whether it reads `restoreToTurnId`, unless it is being asked.
    pub(super) fn ask_for_proof(&mut self, mux: &mut Mux, process: ProcessId) {
        let Some(partition) = self.partitions.get_mut(process.backend) else { return };
        if std::mem::replace(&mut partition.restores.is_proving, true) {
            return;
        }
        let (method, params) = QUESTION;
        mux.ask_backend(process.backend, Purpose::Copilot(CopilotPurpose::Prove), method, params);
    }

    /// The process of this backend is gone, maybe without an answer.
    pub(crate) fn note_unanswered(&mut self, id: BackendId) {
        let Some(partition) = self.partitions.get(id).filter(|it| it.restores.is_proving) else { return };
        let version = partition.version.clone().unwrap_or_default();
        let proof = self.proofs.of(&version);
        if let Proof::Unverified { unanswered } = proof {
            *unanswered += 1;
            if *unanswered >= MOST_UNANSWERED {
                *proof = Proof::Invalid("its processes died when lspool asked them".to_owned());
            }
        }
    }

    /// A process has answered. `None`: its answer could not be read.
    pub(crate) fn on_proof_answered(&mut self, mux: &mut Mux, process: ProcessId, answer: Option<&Frame>) {
        let version = self.version_of(process);
        let found = match answer.map_or(Err("its answer cannot be read".to_owned()), reads_member) {
            Ok(()) => Proof::Verified,
            Err(why) => {
                warn!(
                    version,
                    why, "the server restores nothing from transcripts: histories are told as text"
                );
                Proof::Invalid(why)
            }
        };
        *self.proofs.of(&version) = found;
        self.go_on_proven(mux, process);
    }

    /// The turns that waited for the proof go on.
    fn go_on_proven(&mut self, mux: &mut Mux, process: ProcessId) {
        let Some(partition) = self.partitions.get_mut(process.backend) else { return };
        let restores = &mut partition.restores;
        restores.is_proving = false;
        let waiting = restores.under_way.iter().filter(|(_, it)| it.step == RestoreStep::Proving);
        let mut waiting: Vec<SentId> = waiting.map(|(_, it)| it.sent).collect();
        restores.under_way.retain(|_, it| it.step != RestoreStep::Proving);
        waiting.sort_unstable();
        for sent in waiting.into_iter().rev() {
            mux.queue_first(process.backend, sent);
        }
        self.flush(mux, process.backend);
    }
}

/// Whether a server has refused [`QUESTION`] because of the member; else what speaks against it.
pub fn reads_member(answer: &Frame) -> Result<(), String> {
    let Some(error) = answer.error_value() else { return Err("it accepts any `restoreToTurnId`".to_owned()) };
    let code = ErrorCode::InvalidParams.code().to_string();
    let is_refused = member(error, "code").is_some_and(|it| error[it] == *code.as_bytes());
    let names_it = text(error, &["message"]).is_some_and(|it| it.contains("/restoreToTurnId"));
    if is_refused && names_it { Ok(()) } else { Err("it does not read `restoreToTurnId`".to_owned()) }
}

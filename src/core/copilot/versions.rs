//! What is known of versions of the Copilot server, from runs with the real ones: `docs/copilot-server.md` has the table.
//! A later version than these is taken at its word by nobody: what it does decides.

use crate::core::mux::servers::ProcessSize;

/// The first two numbers of a version, by which servers differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(u32, u32);

/// The first that reads transcripts with tool calls. 1.430 shows them to the model as one text, and those before it ignore
/// `restoreToTurnId` without a word.
pub const FIRST_WITH_TRANSCRIPTS: Version = Version(1, 449);

/// The first with custom chat modes. A process of those before it uses about 1 GB, and of this 360 MB.
pub const FIRST_WITH_MODES: Version = Version(1, 520);

/// How much memory a process of this version uses.
pub(super) fn size(version: &str) -> ProcessSize {
    match Version::parse(version) {
        Some(it) if it < FIRST_WITH_MODES => ProcessSize::Large,
        Some(_) | None => ProcessSize::Usual,
    }
}

impl Version {
    /// The version in `serverInfo.version`, unless it is written in another way.
    pub fn parse(text: &str) -> Option<Version> {
        let mut numbers = text.split('.').map(|it| it.parse().ok());
        Some(Version(numbers.next()??, numbers.next()??))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_number() {
        let of = |text: &str| Version::parse(text).expect("it is one");
        assert!(of("1.418.0") < FIRST_WITH_TRANSCRIPTS);
        assert!(of("1.99.0") < FIRST_WITH_TRANSCRIPTS, "not as texts");
        assert!(of("1.527.5") > FIRST_WITH_MODES && of("2.0") > FIRST_WITH_MODES);
        for other in ["", "1", "1.x.0", "v1.430", "-1.430"] {
            assert_eq!(Version::parse(other), None, "{other}");
        }
    }
}

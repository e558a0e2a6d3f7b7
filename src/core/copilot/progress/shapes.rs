//! Recognizes progress reports that differ from an earlier one only in their text.
//!
//! An answer comes in thousands of reports that differ in one string. If everything else is equal byte for byte, only
//! the string is parsed.

use std::collections::VecDeque;

use super::ProgressReport;
use crate::core::ids::{ConversationId, TurnId};

/// How many shapes to keep: answers that come at the same time.
const REMEMBERED: usize = 16;

/// The shapes of the last reports.
#[derive(Debug, Default)]
pub(crate) struct Shapes(VecDeque<Shape>);

/// A few more words of an answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ReplyDelta<'a> {
    pub(crate) conversation: ConversationId,
    pub(crate) turn: TurnId,
    pub(crate) round: u64,
    /// The raw string.
    pub(crate) reply: &'a [u8],
}

#[derive(Debug)]
struct Shape {
    /// The bytes before the text, up to the quote.
    before: Vec<u8>,
    /// The bytes after the text, from the quote on.
    after: Vec<u8>,
    conversation: ConversationId,
    turn: TurnId,
    round: u64,
}

impl Shapes {
    /// Reads parameters of `$/progress` of a known shape.
    pub(crate) fn read<'a>(&self, params: &'a [u8]) -> Option<ReplyDelta<'a>> {
        self.0.iter().find_map(|it| it.read(params))
    }

    /// Notes the shape of a report that only adds text, if it is new.
    pub(crate) fn learn(&mut self, params: &[u8], progress: &ProgressReport<'_>) {
        // A known shape may be parsed in full for a turn that continues in another process.
        if self.read(params).is_none()
            && let Some(shape) = Shape::of(params, progress)
        {
            self.0.truncate(REMEMBERED - 1);
            self.0.push_front(shape);
        }
    }
}

impl Shape {
    fn of(params: &[u8], progress: &ProgressReport<'_>) -> Option<Shape> {
        if progress.kind != Some(b"\"report\"") || progress.is_counted || progress.report.thinking.is_some() {
            return None;
        }
        let (conversation, turn) = progress.turn()?;
        let mut rounds = progress.report.rounds();
        let (Some(round), None, None) = (rounds.next(), rounds.next(), progress.report.reply) else {
            return None;
        };
        let reply = round.reply.filter(|it| it.starts_with(b"\""))?;
        if round.calls().next().is_some() {
            return None;
        }
        let start = reply.as_ptr().addr() - params.as_ptr().addr();
        let (before, after) = (params[..=start].to_vec(), params[start + reply.len() - 1..].to_vec());
        Some(Shape { before, after, conversation, turn, round: round.id })
    }

    fn read<'a>(&self, params: &'a [u8]) -> Option<ReplyDelta<'a>> {
        let rest = params.strip_prefix(&*self.before)?;
        let mut end = 0;
        loop {
            end += memchr::memchr2(b'"', b'\\', rest.get(end..)?)?;
            if rest[end] == b'"' {
                break;
            }
            end += 2;
        }
        let start = self.before.len();
        (rest[end..] == self.after).then(|| ReplyDelta {
            conversation: self.conversation.clone(),
            turn: self.turn.clone(),
            round: self.round,
            reply: &params[start - 1..=start + end],
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn report(conversation: &str, more: &str) -> String {
        format!(
            r#"{{"token":"t","value":{{"kind":"report","conversationId":"{conversation}","turnId":"u"{more}}}}}"#
        )
    }

    fn words(conversation: &str, text: &str) -> String {
        report(conversation, &format!(r#","editAgentRounds":[{{"roundId":3,"reply":"{text}"}}]"#))
    }

    fn learned(params: &str) -> Shapes {
        let mut shapes = Shapes::default();
        shapes.learn(params.as_bytes(), &ProgressReport::of(params.as_bytes()));
        shapes
    }

    #[test]
    fn shapes_read_reports_that_differ_only_in_words() {
        let mut shapes = learned(&words("c", "one"));
        let other = words("d", "one");
        shapes.learn(other.as_bytes(), &ProgressReport::of(other.as_bytes()));
        for (conversation, text) in [("c", "two"), ("d", ""), ("c", r#"a \"b\" \\"#)] {
            let params = words(conversation, text);
            let read = shapes.read(params.as_bytes()).unwrap();
            assert_eq!(read.conversation, ConversationId::text(conversation));
            assert_eq!((read.turn, read.round), (TurnId::text("u"), 3));
            assert_eq!(read.reply, format!("\"{text}\"").as_bytes());
        }
        for params in [
            words("e", "one"),
            words("c", r#"","toolCalls":[{}],"x":""#),
            words("c", "one").replace('3', "4"),
            words("c", "one").replace("report", "end"),
            words("c", "one").replace("}}", r#"},"x":1}"#),
            words("c", "one").replace("]}}", "]}"),
        ] {
            assert_eq!(shapes.read(params.as_bytes()), None, "{params}");
        }
    }

    #[test]
    fn shapes_learn_only_plain_text_reports() {
        let round = r#"{"roundId":3,"reply":"one"}"#;
        for params in [
            report("c", &format!(r#","editAgentRounds":[{round},{round}]"#)),
            report("c", &format!(r#","editAgentRounds":[{round}],"tokenUsage":1"#)),
            report("c", &format!(r#","editAgentRounds":[{round}],"thinking":{{"text":"x"}}"#)),
            report("c", &format!(r#","editAgentRounds":[{round}],"reply":"x""#)),
            report("c", r#","editAgentRounds":[{"roundId":3,"reply":"one","toolCalls":[{}]}]"#),
            report("c", r#","editAgentRounds":[{"roundId":3,"reply":null}]"#),
            words("c", "one").replace("report", "begin"),
        ] {
            assert_eq!(learned(&params).0.len(), 0, "{params}");
        }
    }

    #[test]
    fn shapes_learn_each_shape_once() {
        let mut shapes = learned(&words("c", "one"));
        let again = words("c", "two");
        shapes.learn(again.as_bytes(), &ProgressReport::of(again.as_bytes()));
        assert_eq!(shapes.0.len(), 1);
    }

    #[test]
    fn shapes_forget_oldest_beyond_limit() {
        let mut shapes = Shapes::default();
        for n in 0..40 {
            let params = words(&n.to_string(), "one");
            shapes.learn(params.as_bytes(), &ProgressReport::of(params.as_bytes()));
        }
        assert_eq!(shapes.0.len(), REMEMBERED);
        assert!(shapes.read(words("39", "two").as_bytes()).is_some());
        assert!(shapes.read(words("0", "two").as_bytes()).is_none());
    }

    proptest! {
        /// For any text, the result by shape equals the result of parsing.
        #[test]
        fn shape_reading_agrees_with_full_parsing(text in r#"[a"\\{}\[\],:]{0,12}"#, more in r#"[a"\\{}\[\],:]{0,4}"#) {
            let shapes = learned(&words("c", "one"));
            let params = words("c", &text).replace("}]}}", &format!("{more}}}]}}}}"));
            if let Some(read) = shapes.read(params.as_bytes()) {
                let progress = ProgressReport::of(params.as_bytes());
                prop_assert_eq!(progress.turn(), Some((read.conversation, read.turn)));
                let rounds: Vec<_> = progress.report.rounds().collect();
                prop_assert_eq!((rounds.len(), rounds[0].id, rounds[0].reply), (1, read.round, Some(read.reply)));
                prop_assert_eq!(rounds[0].calls().count(), 0);
            }
        }
    }
}

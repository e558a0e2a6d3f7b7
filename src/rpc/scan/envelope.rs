//! The spans of the members of a message.

use std::ops::Range;

/// The span of a value. No value is empty, so an empty span is a missing member. Small, because many messages may
/// wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    start: u32,
    end: u32,
}

impl Span {
    pub(in crate::rpc) fn of(range: Range<usize>) -> Span {
        let small = |it| u32::try_from(it).unwrap_or(u32::MAX);
        Span { start: small(range.start), end: small(range.end) }
    }

    /// The range of bytes.
    pub fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// Whether the member is missing.
    pub fn is_absent(self) -> bool {
        self.start == self.end
    }

    /// The raw value in its message.
    pub fn get(self, body: &str) -> Option<&str> {
        if self.is_absent() { None } else { body.get(self.range()) }
    }
}

/// The spans of the members of a JSON-RPC message: raw values, strings with their quotes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Envelope {
    /// A string, a number or `null`.
    pub id: Span,
    /// A string.
    pub method: Span,
    /// Any value.
    pub params: Span,
    /// Any value.
    pub result: Span,
    /// Any value.
    pub error: Span,
    /// Whether the method is written with escapes.
    pub rewritten_method: bool,
}

impl Envelope {
    pub(super) fn slot(&mut self, key: &[u8]) -> Option<&mut Span> {
        match key {
            b"id" => Some(&mut self.id),
            b"method" => Some(&mut self.method),
            b"params" => Some(&mut self.params),
            b"result" => Some(&mut self.result),
            b"error" => Some(&mut self.error),
            _ => None,
        }
    }

    /// An answer has a result or an error. If it has both, one that is `null` counts as missing, and otherwise the
    /// error counts.
    pub(in crate::rpc) fn decide_outcome(&mut self, is_error_null: bool) {
        if is_error_null {
            self.error = Span::default();
        } else if !self.error.is_absent() {
            self.result = Span::default();
        }
    }

    /// Follows an edit that replaced `removed` bytes before `at` by `added` ones.
    pub(in crate::rpc) fn shift(&mut self, at: usize, removed: usize, added: usize) {
        let Envelope { id, method, params, result, error, rewritten_method: _ } = self;
        for span in [id, method, params, result, error] {
            let Range { start, end } = span.range();
            if start >= at {
                *span = Span::of(start - removed + added..end - removed + added);
            }
        }
    }
}

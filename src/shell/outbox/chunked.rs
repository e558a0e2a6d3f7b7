//! A queue in chunks. However much waits, no chunk is large, and each is given back when it has been taken: one large
//! piece of memory, once freed, makes the allocator of the C library keep as much for ever.

use std::collections::VecDeque;

/// Elements of a chunk.
const CHUNK: usize = 256;

/// Elements in order.
#[derive(Debug)]
pub(super) struct Chunked<T> {
    /// Of which elements are taken.
    first: VecDeque<T>,
    /// All of them full.
    between: VecDeque<VecDeque<T>>,
    /// To which elements are added.
    last: VecDeque<T>,
}

impl<T> Chunked<T> {
    pub(super) fn new() -> Chunked<T> {
        Chunked { first: VecDeque::new(), between: VecDeque::new(), last: VecDeque::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.first.len() + self.between.len() * CHUNK + self.last.len()
    }

    pub(super) fn push_back(&mut self, it: T) {
        if self.last.len() == CHUNK {
            self.between.push_back(std::mem::replace(&mut self.last, VecDeque::with_capacity(CHUNK)));
        }
        self.last.push_back(it);
    }

    pub(super) fn pop_front(&mut self) -> Option<T> {
        if self.first.is_empty() {
            match self.between.pop_front() {
                Some(next) => self.first = next,
                None => std::mem::swap(&mut self.first, &mut self.last),
            }
        }
        self.first.pop_front()
    }

    pub(super) fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        let Some(behind) = index.checked_sub(self.first.len()) else { return self.first.get_mut(index) };
        match behind.checked_sub(self.between.len() * CHUNK) {
            Some(index) => self.last.get_mut(index),
            None => self.between.get_mut(behind / CHUNK)?.get_mut(behind % CHUNK),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.first.iter().chain(self.between.iter().flatten()).chain(&self.last)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_queue(steps in proptest::collection::vec((0..900_usize, 0..900_usize), 1..8)) {
            let (mut chunked, mut plain) = (Chunked::new(), VecDeque::new());
            let mut numbers = 0..;
            for (pushed, popped) in steps {
                for it in numbers.by_ref().take(pushed) {
                    chunked.push_back(it);
                    plain.push_back(it);
                }
                for _ in 0..popped {
                    prop_assert_eq!(chunked.pop_front(), plain.pop_front());
                }
                prop_assert_eq!(chunked.len(), plain.len());
                prop_assert!(chunked.iter().eq(&plain));
                for index in 0..=plain.len() {
                    prop_assert_eq!(chunked.get_mut(index), plain.get_mut(index));
                }
                let chunks = || chunked.between.iter().chain([&chunked.first, &chunked.last]);
                prop_assert!(chunks().all(|it| it.capacity() <= 2 * CHUNK));
                prop_assert!(chunked.between.len() <= plain.len() / CHUNK);
            }
        }
    }
}

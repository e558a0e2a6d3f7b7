//! A queue in chunks. However much waits, no chunk is large, and each is given back when it has been taken: one large
//! piece of memory, once freed, makes the allocator of the C library keep as much for ever.

use std::collections::VecDeque;

/// Elements of a chunk.
const CHUNK: usize = 256;

/// Elements in order.
#[derive(Debug)]
pub(super) struct Chunked<T> {
    /// Never without one. All are full but the first, of which is taken, and the last, which is added to; none is empty but an only one.
    chunks: VecDeque<VecDeque<T>>,
    len: usize,
}

impl<T> Chunked<T> {
    pub(super) fn new() -> Chunked<T> {
        Chunked { chunks: VecDeque::from([VecDeque::new()]), len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn push_back(&mut self, it: T) {
        match self.chunks.back_mut().filter(|last| last.len() < CHUNK) {
            Some(last) => last.push_back(it),
            None => {
                let mut last = VecDeque::with_capacity(CHUNK);
                last.push_back(it);
                self.chunks.push_back(last);
            }
        }
        self.len += 1;
    }

    pub(super) fn pop_front(&mut self) -> Option<T> {
        let first = self.chunks.front_mut()?;
        let it = first.pop_front()?;
        if first.is_empty() && self.chunks.len() > 1 {
            self.chunks.pop_front();
        }
        self.len -= 1;
        Some(it)
    }

    pub(super) fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        let first = self.chunks.front().map_or(0, VecDeque::len);
        match index.checked_sub(first) {
            None => self.chunks.front_mut()?.get_mut(index),
            Some(behind) => self.chunks.get_mut(1 + behind / CHUNK)?.get_mut(behind % CHUNK),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flatten()
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
                prop_assert!(chunked.chunks.iter().all(|it| it.capacity() <= 2 * CHUNK));
                prop_assert!(chunked.chunks.len() <= 2 + plain.len() / CHUNK);
            }
        }
    }
}

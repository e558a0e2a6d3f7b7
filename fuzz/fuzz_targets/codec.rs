//! What is read from a stream does not depend on how it was cut, and what is written can be read.
//!
//! The first bytes of the input say where to cut, the rest is the stream.
#![no_main]

use bytes::BytesMut;
use libfuzzer_sys::fuzz_target;
use lspool::rpc::{Codec, Frame, Incoming};
use tokio_util::codec::{Decoder, Encoder};

const MAX: usize = 4096;

fuzz_target!(|input: &[u8]| {
    let Some((&[a, b, step], stream)) = input.split_first_chunk::<3>() else { return };
    let whole = read([stream]);
    let cut = usize::from(a).min(stream.len());
    let (head, rest) = stream.split_at(cut);
    let (middle, tail) = rest.split_at(usize::from(b).min(rest.len()));
    assert_eq!(read([head, middle, tail]), whole);
    assert_eq!(read(stream.chunks(usize::from(step % 16) + 1)), whole);

    let mut written = BytesMut::new();
    let mut expected = Vec::new();
    for item in whole {
        let Ok(Incoming::Body(body)) = item else { continue };
        let Ok(frame) = Frame::parse(body.clone()) else { continue };
        Codec::new(MAX).encode(&frame, &mut written).expect("memory is always written");
        expected.push(Ok(Incoming::Body(body)));
    }
    assert_eq!(read([&written[..]]), expected);
});

/// Errors as text, for they cannot be compared.
type Items = Vec<Result<Incoming, String>>;

fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Items {
    let mut codec = Codec::new(MAX);
    let mut src = BytesMut::new();
    let mut out = Vec::new();
    for piece in pieces {
        src.extend_from_slice(piece);
        while let Some(item) = codec.decode(&mut src).transpose() {
            out.push(item.map_err(|error| error.to_string()));
            if out.last().is_some_and(Result::is_err) {
                return out;
            }
        }
        assert!(src.capacity() <= 2 * MAX.max(src.len()) + 128 * 1024, "memory follows the bytes");
    }
    while let Some(item) = codec.decode_eof(&mut src).transpose() {
        out.push(item.map_err(|error| error.to_string()));
        assert!(out.len() < 100_000, "the end is told once");
    }
    out
}

//! A hub with random clients: each answer is one that a server of its client alone would give, and the tables agree.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| lspool::hub::tests::model::play(&bytes[..bytes.len().min(600)]));

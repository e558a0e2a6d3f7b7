//! The answers of several servers become what a slow model says, whatever they are.
//!
//! The input chooses the kind of answer, and all parts.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lspool::core::testing::check_merge;

fuzz_target!(|input: &[u8]| check_merge(input));

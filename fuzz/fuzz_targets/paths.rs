//! A message that is mapped to another place and back is the same, but for the spelling of mapped paths.
//!
//! The input is its parameters.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lspool::rpc::testing::check_paths;

fuzz_target!(|input: &[u8]| check_paths(input));

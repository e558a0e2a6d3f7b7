//! The programs under test: those of this build, or of another system, which a program such as Wine runs here.

/// lspool.
pub(crate) const LSPOOL: &str = match option_env!("LSPOOL_TEST_PROGRAM") {
    Some(program) => program,
    None => env!("CARGO_BIN_EXE_lspool"),
};

/// Whether they are of another system: their process ids mean nothing here.
pub(crate) const ARE_FOREIGN: bool = option_env!("LSPOOL_TEST_PUPPET").is_some();

/// The puppet server, as lspool starts it.
pub(crate) const PUPPET: &str = match option_env!("LSPOOL_TEST_PUPPET") {
    Some(program) => program,
    None => env!("CARGO_BIN_EXE_lspool-puppet"),
};

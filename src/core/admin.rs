//! What people ask lspool itself.

pub(crate) mod check;
pub(crate) mod control;
pub(crate) mod reload;

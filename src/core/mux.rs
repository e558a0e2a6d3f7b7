//! What any language server needs.

pub(crate) mod answers;
pub(crate) mod cancel;
pub(crate) mod clients;
pub(crate) mod diagnostics;
pub(crate) mod failure;
pub(crate) mod from_client;
pub(crate) mod from_server;
pub(crate) mod pool;
pub(crate) mod registrations;
pub(crate) mod requests;
pub(crate) mod result_ids;
pub(crate) mod routes;
pub(crate) mod session;
pub(crate) mod tokens;

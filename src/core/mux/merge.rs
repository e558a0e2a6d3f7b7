//! Several servers behind one editor: a group of members.
//!
//! A request of the editor that several members can answer is a question; what each of them says of it is a part.

pub(crate) mod abilities;
pub(crate) mod answers;
pub(crate) mod methods;
pub(crate) mod owners;
pub(crate) mod union;

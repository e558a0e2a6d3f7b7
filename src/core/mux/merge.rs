//! Several servers behind one editor: a group of members.
//!
//! A request of the editor that several members can answer is a question; what each of them says of it is a part.

#[allow(dead_code, unused_imports, reason = "nothing asks several members yet")]
pub(crate) mod abilities;
pub(crate) mod answers;
#[allow(dead_code, unused_imports, reason = "nothing asks several members yet")]
pub(crate) mod capabilities;
#[allow(dead_code, unused_imports, reason = "nothing asks several members yet")]
pub(crate) mod methods;
pub(crate) mod owners;
#[allow(dead_code, unused_imports, reason = "nothing asks several members yet")]
pub(crate) mod union;

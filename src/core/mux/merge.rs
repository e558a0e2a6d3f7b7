//! Several servers behind one editor: a group of members.
//!
//! A request of the editor that several members can answer is a question; what each of them says of it is a part. With
//! one server there is no group, and none of this runs.

pub(crate) mod abilities;
pub(crate) mod answers;
pub(crate) mod capabilities;
mod commands;
mod context;
pub(crate) mod group;
mod known;
mod members;
pub(crate) mod methods;
mod moved;
pub(crate) mod notify;
pub(crate) mod owners;
mod pulls;
pub(crate) mod questions;
mod refreshing;
mod registering;
mod relays;
mod remembered;
mod renames;
mod reports;
mod roots;
mod settings;
pub(crate) mod shown;
mod starting;
pub(crate) mod union;

//! The hub as a whole, with clients and a server of the tests.

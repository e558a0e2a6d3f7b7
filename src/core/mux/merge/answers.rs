//! The parts of a question, put together to one answer. Pure functions on bytes.

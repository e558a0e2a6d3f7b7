//! The capabilities of all members as one answer to `initialize`, and what each member is offered.

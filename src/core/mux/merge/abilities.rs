//! What each member of a group can do: as it said in the answer to `initialize`, and as it has registered since.

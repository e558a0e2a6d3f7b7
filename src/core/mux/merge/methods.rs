//! How each method goes to the members of a group: who is asked, and what becomes of their answers. Data, in one place.

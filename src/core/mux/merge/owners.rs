//! Who made an item: a tag in its `data`.

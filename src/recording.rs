//! Sessions as files, one JSON object per line.
//!
//! - [`source`]: reads them: what each line says, wherever the file comes from

pub mod source;

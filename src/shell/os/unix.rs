//! Linux and macOS.

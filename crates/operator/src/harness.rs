//! What runs controllers: so far, the tasks of a process.

pub mod spawn;

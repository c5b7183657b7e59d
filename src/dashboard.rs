//! The dashboard: the state and the plan of control planes as a page, live or as a file.
//!
//! The page shows the JSON reports of `capstan status` and `capstan plan`, so it cannot disagree
//! with them. This module decides nothing about a control plane, and it must never write to a
//! cluster: its server runs on a workstation, with the rights of the user.

mod actions;
mod card;
mod content;
mod direction;
mod guard;
mod html;
mod image;
mod machines;
mod overview;
pub mod report;
mod server;
mod summary;
mod tables;
mod timeline;
mod words;

pub use content::{Content, Mirrored, SeenEvent, Side};
pub use guard::Token;
pub use html::file;
pub use image::file as svg;
pub use report::{Condition, Mood, Report};
pub use server::{Dashboard, Source, Update, Verdict};
pub use words::words;

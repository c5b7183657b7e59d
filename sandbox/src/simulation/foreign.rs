//! What other products do, as it was recorded: a folder for each product contains requests, and
//! what the product stored, refused, and warned of.
//!
//! An actor of the simulation replays a product. It must reproduce every recording. Worlds draw the
//! vocabulary of their users from the recordings, and perturb it.

pub mod machine_webhook;

//! An API server of a control plane with several machines.

use std::fmt;

/// The API server of one machine. It is displayed as its address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiServer {
    /// The name of the Node.
    pub node: String,
    /// The internal address of the machine, which the certificate contains.
    pub host: String,
    /// The port at which it listens.
    pub port: u16,
}

impl fmt::Display for ApiServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

//! JSON Pointer (RFC 6901), as text.

use std::fmt;

/// Where in a document something stands: `` is the whole, `/a/0` the first item of member `a`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pointer(String);

impl Pointer {
    /// The pointer to one member of the whole document.
    pub fn to_member(name: &str) -> Pointer {
        Pointer(format!("/{}", name.replace('~', "~0").replace('/', "~1")))
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

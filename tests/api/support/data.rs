//! The real inputs that lie beside the repository.

use std::path::{Path, PathBuf};

/// The folder, or `None` when this machine has none; that is said loudly.
pub fn folder() -> Option<PathBuf> {
    let named = std::env::var_os("SCROLL_TEST_DATA").map(PathBuf::from);
    let is_named = named.is_some();
    let folder = named.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data"));
    if folder.join("json/index.tsv").is_file() {
        return Some(folder);
    }
    assert!(!is_named, "SCROLL_TEST_DATA names {}, which has no json/index.tsv", folder.display());
    println!("NOT TESTED: there is no test data at {}; set SCROLL_TEST_DATA", folder.display());
    None
}

/// The path of a program, or `None` where it is not installed; that is said loudly, and with
/// `SCROLL_TEST_REQUIRE_CLIENTS=1` it is a failure.
pub fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(name)).find(|path| path.is_file());
    if found.is_none() {
        let is_required = std::env::var_os("SCROLL_TEST_REQUIRE_CLIENTS").is_some_and(|value| value == "1");
        assert!(!is_required, "{name} is not installed");
        println!("NOT TESTED: {name} is not installed");
    }
    found
}

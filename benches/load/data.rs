//! Invoices to write: objects of a wanted size whose content follows from their number and version, so that
//! every run writes the same and no two versions are equal.

use std::fmt::Write as _;

/// The resource that all of them belong to. It is not declared, so no schema is checked.
pub const RESOURCE: &str = "invoice";

/// What fills an object up to its size.
const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 .";
/// Smallest object: its members without filling.
const MEMBERS_BYTES: usize = 200;

/// One invoice at one version.
#[derive(Debug, Clone, Copy)]
pub struct Invoice {
    /// Its number, which makes its id.
    pub number: u64,
    /// What makes its content differ from its other versions.
    pub version: u64,
}

impl Invoice {
    /// Appends the object, `bytes` long.
    pub fn write_data(self, out: &mut String, bytes: usize) {
        debug_assert!(bytes >= MEMBERS_BYTES);
        let Invoice { number, version } = self;
        let begin = out.len();
        let mut random = Random(number ^ (version << 24));
        let (cents, day) = (random.next() % 10_000_000, random.next() % 28 + 1);
        let _ = write!(
            out,
            r#"{{"id":"inv-{number}","version":{version},"status":"open","currency":"EUR","amount":{}.{:02},"customer":"cus_{:06}","issued":"2025-03-{day:02}","paid":false,"note":""#,
            cents / 100,
            cents % 100,
            number % 50_000,
        );
        while out.len() - begin < bytes - 2 {
            out.push(random.letter());
        }
        out.push_str("\"}");
    }

    /// Appends the line that `scroll import` reads.
    pub fn write_import(self, out: &mut String, bytes: usize) {
        let _ = write!(out, r#"{{"resource":"{RESOURCE}","id":"inv-{}","data":"#, self.number);
        self.write_data(out, bytes);
        out.push_str("}\n");
    }

    /// Appends the operation that `POST /v1/batch` reads.
    pub fn write_operation(self, out: &mut String, bytes: usize) {
        let _ = write!(out, r#"{{"op":"put","resource":"{RESOURCE}","id":"inv-{}","data":"#, self.number);
        self.write_data(out, bytes);
        out.push_str("}\n");
    }
}

/// Numbers that look random and are the same every time (splitmix64).
#[derive(Debug, Clone)]
pub struct Random(pub u64);

impl Random {
    /// The next one.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn letter(&mut self) -> char {
        char::from(LETTERS[(self.next() % 64) as usize])
    }
}

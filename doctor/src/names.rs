// SPDX-License-Identifier: Apache-2.0
//! Enums whose variants are the rows of a table, and lists of names as a paragraph.

/// All variants of an enum, and the name of each.
macro_rules! named {
    ($Enum:ident: $($name:ident),+) => {
        impl $Enum {
            /// All of them, in the order of the table.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// Its stable name.
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)+ }
            }
        }
    };
}

/// An array of names.
macro_rules! words {
    ($($word:literal)+) => { [$($word),+] };
}

/// An array of findings.
macro_rules! ids {
    ($($id:ident)+) => { [$(Id::$id),+] };
}

/// The first of one value or two: what a row of a table says, or else its default.
macro_rules! first {
    ($first:expr $(, $default:expr)?) => {
        $first
    };
}

// SPDX-License-Identifier: Apache-2.0
//! Enums whose variants are the rows of a table, and lists of names as a paragraph.

/// All variants of an enum, and the name of each, as which it is printed: the variant's own, or the given one.
macro_rules! named {
    ($Enum:ident: $($name:ident $(= $text:literal)?),+ $(,)?) => {
        impl $Enum {
            /// All of them, in the order of the table.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// Its stable name.
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => first!($($text,)? stringify!($name)),)+ }
            }
        }

        impl std::fmt::Display for $Enum {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
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

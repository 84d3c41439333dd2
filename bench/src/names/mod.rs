//! Engines and workloads by their names on the command line, in the protocol and in the tables.

mod engine;
mod workload;

pub use engine::EngineName;
pub use workload::Workload;

/// Defines an enum whose variants have names.
macro_rules! named {
    (
        $(#[$attribute:meta])*
        $type:ident { $($(#[$variant_attribute:meta])* $variant:ident = $name:literal,)* }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $type { $($(#[$variant_attribute])* $variant,)* }

        impl $type {
            /// Every variant, in the order of the tables.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Returns the name.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Returns the variant with this name.
            pub fn named(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|variant| variant.name() == name)
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }
    };
}
use named;

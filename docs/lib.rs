//! Compiles and runs the code blocks of the guide and the README as doc tests.
//!
//! Each chapter in `src` is the documentation of a module here. `mdbook build docs` builds the
//! book.

macro_rules! chapters {
    ($($name:ident: $text:literal,)*) => {
        $(
            #[cfg(doctest)]
            #[doc = include_str!($text)]
            mod $name {}
        )*
    };
}

chapters! {
    readme: "../README.md",
    introduction: "src/introduction.md",
    concepts: "src/concepts.md",
    semantics: "src/semantics.md",
    from_client_go: "src/from-client-go.md",
    from_kube_rs: "src/from-kube-rs.md",
    choosing: "src/choosing.md",
    memory: "src/memory.md",
    compact: "src/compact.md",
    namespaces: "src/namespaces.md",
    leader_election: "src/leader-election.md",
    many_replicas: "src/many-replicas.md",
    testing: "src/testing.md",
    production: "src/production.md",
    metrics: "src/metrics.md",
}

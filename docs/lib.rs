//! The code of the guide and of README, compiled and run as tests: each chapter of `src` is the documentation of a module here. The
//! book itself is made by `mdbook build docs`.

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
    leader_election: "src/leader-election.md",
    production: "src/production.md",
    metrics: "src/metrics.md",
}

//! The engines' own descriptions, with versions and settings.

use std::collections::BTreeMap;

use super::turn::Turn;
use crate::names::EngineName;

/// The descriptions in the measurements of time (`false`) and of memory (`true`). The peers in Go
/// have different settings there, and the report shows the settings of each figure.
#[derive(Default)]
pub(super) struct Descriptions(BTreeMap<(EngineName, bool), String>);

impl Descriptions {
    /// Records the description that a turn's child printed at its end.
    pub fn record(&mut self, turn: &Turn, version: String) {
        let engine = turn.engine;
        let description =
            if engine.is_go() { format!("{}: {version}", engine.description()) } else { version };
        self.0.insert((engine, turn.memory), description);
    }

    /// Returns one description for each engine, with both settings if they differ.
    pub fn into_map(self) -> BTreeMap<String, String> {
        let mut map: BTreeMap<String, String> = BTreeMap::new();
        for ((engine, _), description) in self.0 {
            map.entry(engine.to_string())
                .and_modify(|times| {
                    if *times != description {
                        *times = format!("{times}; where memory was measured: {description}");
                    }
                })
                .or_insert(description);
        }
        map
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_times_and_memory_are_both_described() {
        let mut descriptions = Descriptions::default();
        for (engine, memory, description) in [
            (EngineName::ClientGoDeltaFifo, true, "go GOGC=100"),
            (EngineName::ClientGoDeltaFifo, false, "go GOGC=400"),
            (EngineName::Mutex, false, "equal"),
            (EngineName::Mutex, true, "equal"),
            (EngineName::DashMap, true, "no times"),
        ] {
            descriptions.record(&Turn::of(engine, memory), description.to_owned());
        }
        let of = descriptions.into_map();
        let go = &of["client-go-deltafifo"];
        assert!(go.contains("go GOGC=400; where memory was measured:"), "{go}");
        assert!(go.ends_with("go GOGC=100"), "{go}");
        assert_eq!((&*of["mutex"], &*of["dashmap"]), ("equal", "no times"));
    }
}

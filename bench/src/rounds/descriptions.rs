//! The engines' own descriptions, with versions and settings.

use std::collections::BTreeMap;

use super::turn::Turn;

/// The description of each engine in the measurements of time, and in those of memory. The peers in
/// Go have different settings there, and the report shows the settings of each figure.
#[derive(Default)]
pub(super) struct Descriptions(BTreeMap<String, Settings>);

#[derive(Default)]
struct Settings {
    time: Option<String>,
    memory: Option<String>,
}

impl Descriptions {
    /// Records the description that a turn's child printed at its end.
    pub fn record(&mut self, turn: &Turn, version: String) {
        let engine = turn.engine;
        let description =
            if engine.is_go() { format!("{}: {version}", engine.description()) } else { version };
        let settings = self.0.entry(engine.to_string()).or_default();
        *(if turn.memory { &mut settings.memory } else { &mut settings.time }) = Some(description);
    }

    /// Returns one description for each engine, with both settings if they differ.
    pub fn into_map(self) -> BTreeMap<String, String> {
        let described = |(engine, Settings { time, memory })| {
            let description = match (time, memory) {
                (Some(time), Some(memory)) if time != memory => {
                    format!("{time}; where memory was measured: {memory}")
                }
                (time, memory) => time.or(memory).unwrap_or_default(),
            };
            (engine, description)
        };
        self.0.into_iter().map(described).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::EngineName;

    #[test]
    fn settings_of_times_and_memory_are_both_described() {
        let mut descriptions = Descriptions::default();
        for (engine, [time, memory]) in [
            (EngineName::ClientGoDeltaFifo, ["go GOGC=400", "go GOGC=100"]),
            (EngineName::Mutex, ["one and the same", "one and the same"]),
        ] {
            descriptions.record(&Turn::of(engine, false), time.to_owned());
            descriptions.record(&Turn::of(engine, true), memory.to_owned());
        }
        descriptions.record(&Turn::of(EngineName::DashMap, true), "no times".to_owned());
        let of = descriptions.into_map();
        let go = &of["client-go-deltafifo"];
        assert!(
            go.contains("go GOGC=400; where memory was measured:") && go.ends_with("go GOGC=100"),
            "{go}"
        );
        assert_eq!(
            (of["mutex"].as_str(), of["dashmap"].as_str()),
            ("one and the same", "no times")
        );
    }
}

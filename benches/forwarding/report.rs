//! Figures to a table that people read, and to JSON.

use serde_json::{Value, json};

use crate::load::{Figure, SCENARIOS, Scenario, Unit};

/// What one peer did, round by round.
pub(crate) struct Results {
    pub(crate) name: String,
    /// Of each scenario, one figure for each round.
    pub(crate) figures: Vec<Vec<Figure>>,
    /// Resident bytes at the end of each round.
    pub(crate) resident: Vec<f64>,
}

impl Results {
    pub(crate) fn new(name: &str) -> Results {
        let figures = SCENARIOS.iter().map(|_| Vec::new()).collect();
        Results { name: name.to_owned(), figures, resident: Vec::new() }
    }
}

/// A median, and how far the runs lie apart.
#[derive(Clone, Copy)]
pub(crate) struct Spread {
    pub(crate) p10: f64,
    pub(crate) median: f64,
    pub(crate) p90: f64,
}

impl Spread {
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Spread {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let last = values.len().saturating_sub(1);
        let at = |percent: usize| values.get((last * percent + 50) / 100).copied().unwrap_or(f64::NAN);
        Spread { p10: at(10), median: at(50), p90: at(90) }
    }

    fn json(self) -> Value {
        json!({"p10": self.p10, "median": self.median, "p90": self.p90})
    }
}

/// How the peer stands to the floor: the quotients of each round, for only what was measured side by side is alike.
fn ratio(figures: &[Figure], floor: &[Figure]) -> Spread {
    Spread::of(figures.iter().zip(floor).map(|(it, floor)| it.value / floor.value))
}

fn values(figures: &[Figure], of: fn(&Figure) -> f64) -> Spread {
    Spread::of(figures.iter().map(of))
}

fn unit(scenario: &Scenario) -> &'static str {
    match scenario.unit {
        Unit::Microseconds => "µs",
        Unit::KiloMessages => "k/s",
        Unit::Megabytes => "MB/s",
    }
}

/// Whether a ratio is as it should be.
fn holds(scenario: &Scenario, ratio: f64) -> bool {
    match scenario.unit {
        Unit::Microseconds => ratio <= scenario.aim,
        Unit::KiloMessages | Unit::Megabytes => ratio >= scenario.aim,
    }
}

/// The first of the results is the floor.
pub(crate) fn print(all: &[Results]) {
    let Some((floor, peers)) = all.split_first() else { return };
    println!("\n{:<24} {:<14} {:>16} {:>18} {:>12}", "", "", "median", "to the relay", "CPU ns/msg");
    for (n, scenario) in SCENARIOS.iter().enumerate().filter(|(n, _)| !floor.figures[*n].is_empty()) {
        let unit = unit(scenario);
        let of_floor = values(&floor.figures[n], |it| it.value).median;
        let nanos = values(&floor.figures[n], |it| it.nanos).median;
        println!(
            "{:<24} {:<14} {of_floor:>11.1} {unit:<4} {:>18} {nanos:>12.0}",
            scenario.name, floor.name, ""
        );
        for peer in peers {
            let value = values(&peer.figures[n], |it| it.value).median;
            let nanos = values(&peer.figures[n], |it| it.nanos).median;
            let ratio = ratio(&peer.figures[n], &floor.figures[n]);
            let spread = format!("{:.2} ({:.2}–{:.2})", ratio.median, ratio.p10, ratio.p90);
            let sign = if peer.name != "lspool" {
                String::new()
            } else if holds(scenario, ratio.median) {
                format!("   holds: {}", scenario.aim)
            } else {
                format!("   MISSES: {}", scenario.aim)
            };
            println!("{:<24} {:<14} {value:>11.1} {unit:<4} {spread:>18} {nanos:>12.0}{sign}", "", peer.name);
        }
    }
    println!();
    for peer in all {
        let resident = Spread::of(peer.resident.iter().copied());
        println!("resident at the end      {:<14} {:>11.1} MiB", peer.name, resident.median / 1_048_576.0);
    }
}

pub(crate) fn json(all: &[Results]) -> Value {
    let Some(floor) = all.first() else { return Value::Null };
    let of = |peer: &Results| {
        let scenarios = SCENARIOS.iter().enumerate().map(|(n, scenario)| {
            json!({
                "name": scenario.name,
                "unit": unit(scenario),
                "value": values(&peer.figures[n], |it| it.value).json(),
                "ratio": ratio(&peer.figures[n], &floor.figures[n]).json(),
                "cpu_ns_per_message": values(&peer.figures[n], |it| it.nanos).json(),
            })
        });
        json!({
            "name": peer.name,
            "resident_bytes": Spread::of(peer.resident.iter().copied()).json(),
            "scenarios": scenarios.collect::<Vec<_>>(),
        })
    };
    json!({"rounds": floor.resident.len(), "peers": all.iter().map(of).collect::<Vec<_>>()})
}

//! Figures to a table that people read, and to JSON.

use serde_json::{Value, json};

use crate::load::{Against, Figure, SCENARIOS, Scenario, Unit};

/// What one peer did, round by round.
pub(crate) struct Results {
    pub(crate) name: String,
    /// Of each scenario, one figure for each round.
    pub(crate) figures: Vec<Vec<Figure>>,
    /// Resident bytes at the end of each round.
    pub(crate) resident: Vec<f64>,
    pub(crate) private: Vec<f64>,
}

impl Results {
    pub(crate) fn new(name: &str) -> Results {
        let figures = SCENARIOS.iter().map(|_| Vec::new()).collect();
        Results { name: name.to_owned(), figures, resident: Vec::new(), private: Vec::new() }
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

/// How the peer stands to the floor, or to itself: the quotients of each round, for only what was measured side by side
/// is alike.
fn ratio(n: usize, peer: &Results, floor: &Results) -> Spread {
    let against = match SCENARIOS[n].against {
        Against::Relay => &floor.figures[n],
        Against::Other(name) => match SCENARIOS.iter().position(|it| it.name == name) {
            Some(other) => &peer.figures[other],
            None => return Spread::of([]),
        },
    };
    Spread::of(peer.figures[n].iter().zip(against).map(|(it, other)| it.value / other.value))
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
    const MIB: f64 = 1_048_576.0;
    let Some(floor) = all.first() else { return };
    println!(
        "\n{:<32} {:<8} {:>15} {:>18} {:>11} {:>9} {:>9}",
        "", "", "median", "ratio", "CPU ns/msg", "MiB", "at most"
    );
    for (n, scenario) in SCENARIOS.iter().enumerate() {
        let mut name = scenario.name;
        for peer in all.iter().filter(|it| !it.figures[n].is_empty()) {
            let median = |of| values(&peer.figures[n], of).median;
            let (value, nanos) = (median(|it| it.value), median(|it| it.nanos));
            let (resident, peak) = (median(|it| it.resident) / MIB, median(|it| it.peak) / MIB);
            let ratio = ratio(n, peer, floor);
            let is_itself = peer.name == floor.name && scenario.against == Against::Relay;
            let (spread, sign) = match ratio.median.is_nan() || is_itself {
                true => (String::new(), String::new()),
                false => (
                    format!("{:.2} ({:.2}–{:.2})", ratio.median, ratio.p10, ratio.p90),
                    if peer.name == "lspool" { verdict(scenario, ratio.median) } else { String::new() },
                ),
            };
            println!(
                "{name:<32} {:<8} {value:>10.1} {:<4} {spread:>18} {nanos:>11.0} {resident:>9.1} {peak:>9.1}{sign}",
                peer.name,
                unit(scenario),
            );
            name = "";
        }
    }
    println!();
    for peer in all.iter().filter(|it| !it.resident.is_empty()) {
        let of = |all: &[f64]| Spread::of(all.iter().copied()).median / MIB;
        println!(
            "resident after one server's rows {:<8} {:>10.1} MiB, of which {:.1} are its own",
            peer.name,
            of(&peer.resident),
            of(&peer.private)
        );
    }
}

fn verdict(scenario: &Scenario, ratio: f64) -> String {
    let word = if holds(scenario, ratio) { "holds" } else { "MISSES" };
    format!("   {word}: {}", scenario.aim)
}

pub(crate) fn json(all: &[Results]) -> Value {
    let Some(floor) = all.first() else { return Value::Null };
    let of = |peer: &Results| {
        let scenarios = SCENARIOS.iter().enumerate().map(|(n, scenario)| {
            json!({
                "name": scenario.name,
                "unit": unit(scenario),
                "value": values(&peer.figures[n], |it| it.value).json(),
                "ratio": ratio(n, peer, floor).json(),
                "against": against(scenario),
                "cpu_ns_per_message": values(&peer.figures[n], |it| it.nanos).json(),
                "resident_bytes": values(&peer.figures[n], |it| it.resident).json(),
                "peak_bytes": values(&peer.figures[n], |it| it.peak).json(),
            })
        });
        json!({
            "name": peer.name,
            "resident_bytes": Spread::of(peer.resident.iter().copied()).json(),
            "private_bytes": Spread::of(peer.private.iter().copied()).json(),
            "scenarios": scenarios.collect::<Vec<_>>(),
        })
    };
    let rounds = floor.figures.iter().map(Vec::len).max();
    json!({"rounds": rounds, "peers": all.iter().map(of).collect::<Vec<_>>()})
}

fn against(scenario: &Scenario) -> &'static str {
    match scenario.against {
        Against::Relay => "relay",
        Against::Other(name) => name,
    }
}

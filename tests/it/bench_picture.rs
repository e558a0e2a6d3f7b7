//! The picture that `scripts/bench --svg` draws.

#[path = "../../benches/forwarding/picture.rs"]
mod picture;

use std::{fs, path::Path};

use serde_json::{Value, json};

fn scenario(name: &str, unit: &str, against: &str, ratio: f64) -> Value {
    let spread = |it: f64| json!({"p10": it * 0.9, "median": it, "p90": it * 1.1});
    json!({"name": name, "unit": unit, "value": spread(80.0), "ratio": spread(ratio), "against": against})
}

fn report(lspool: &[Value]) -> Value {
    let relay: Vec<Value> = lspool
        .iter()
        .map(|it| {
            let [name, unit] = ["name", "unit"].map(|key| it[key].as_str().expect("text"));
            scenario(name, unit, "relay", 1.0)
        })
        .collect();
    json!({"rounds": 3, "peers": [{"name": "relay", "scenarios": relay}, {"name": "<lspool>", "scenarios": lspool}]})
}

/// How long the bars of a peer are.
fn bars(svg: &str, peer: usize) -> Vec<f64> {
    let begin = format!("<rect class=\"c{peer}\" x=\"210.0\"");
    let bars = svg.lines().filter(|it| it.starts_with(&begin));
    let width = |it: &str| it.split_once("width=\"")?.1.split_once('"')?.0.parse().ok();
    bars.map(|it| width(it).expect("a width")).collect()
}

#[test]
fn slower_peer_has_longer_bar_for_times_and_for_rates() {
    let report = report(&[
        scenario("round trip", "µs", "relay", 2.0),
        scenario("rate", "k/s", "relay", 0.5),
        scenario("fast", "µs", "relay", 0.5),
    ]);
    let svg = picture::svg(&report);
    let (relay, lspool) = (bars(&svg, 0), bars(&svg, 1));
    // Twice the time of a message and half the rate are the same.
    assert!((lspool[0] - lspool[1]).abs() < 0.2, "{lspool:?}");
    assert!(lspool[0] > relay[0] && relay[0] > lspool[2], "{relay:?} {lspool:?}");
    // Equal factors are equal lengths.
    assert!(((lspool[0] - relay[0]) - (relay[0] - lspool[2])).abs() < 0.3, "{relay:?} {lspool:?}");
    assert!(svg.contains(">80 µs<") && svg.contains(">2.00×<") && svg.contains(">0.50×<"), "{svg}");
}

#[test]
fn picture_omits_what_was_not_measured_beside_relay_and_escapes_names() {
    let mut unmeasured = scenario("not measured", "µs", "relay", 1.0);
    unmeasured["ratio"] = json!({"p10": null, "median": null, "p90": null});
    let report = report(&[
        scenario("a & b", "µs", "relay", 1.1),
        scenario("itself", "k/s", "another row", 1.0),
        unmeasured,
    ]);
    let svg = picture::svg(&report);
    assert!(svg.contains(">a &amp; b<") && svg.contains("&lt;lspool>"), "{svg}");
    assert!(!svg.contains("itself") && !svg.contains("not measured"), "{svg}");
}

#[test]
fn picture_in_documents_shows_measured_figures() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let measured = fs::read(root.join("benches/measured.json")).expect("figures");
    let drawn = picture::svg(&serde_json::from_slice(&measured).expect("JSON"));
    let path = root.join("docs/performance.svg");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(&path, &drawn).expect("the picture can be written");
    }
    let shown = fs::read_to_string(&path).expect("a picture");
    assert!(
        shown == drawn,
        "scripts/bench --from benches/measured.json --svg docs/performance.svg draws it again"
    );
}

//! Figures to a picture: what each peer costs beside the relay, on a logarithmic scale.
//!
//! Owns the drawing. It reads the JSON that `--json` writes, and measures nothing.

use std::fmt::Write as _;

use serde_json::Value;

/// Where the bars begin, where the scale ends, and how wide the picture is.
const LEFT: f64 = 210.0;
const RIGHT: f64 = 820.0;
const WIDTH: f64 = 900.0;
const BAR: f64 = 13.0;
const GAP: f64 = 12.0;
const HEAD: f64 = 74.0;
/// The scale begins here: a quarter of what the relay needs.
const LEAST: f64 = 0.25;

/// The colors in their order; a peer that is one too many gets the last.
const COLORS: usize = 4;
const STYLE: &str = "\
svg { background: #ffffff; font: 12px system-ui, sans-serif; }
text { fill: #1d2129; } .faint { fill: #5b6472; } .line { stroke: #dfe3e8; } .spread { stroke: #1d2129; }
.c0 { fill: #9aa5b1; } .c1 { fill: #3f6fb5; } .c2 { fill: #c77d2e; } .c3 { fill: #7a5cc7; }
@media (prefers-color-scheme: dark) {
svg { background: #14171c; } text { fill: #e3e6eb; } .faint { fill: #98a2b3; } .line { stroke: #303641; }
.spread { stroke: #e3e6eb; } .c0 { fill: #667085; } .c1 { fill: #6b9fe8; } .c2 { fill: #e0a15c; } .c3 { fill: #a48bee; }
}";

/// How many times as long as the relay, or how many times as slow.
#[derive(Clone, Copy)]
struct Cost {
    least: f64,
    median: f64,
    most: f64,
}

impl Cost {
    /// Of a scenario of a peer, if it was measured beside the relay.
    fn of(scenario: &Value) -> Option<Cost> {
        if scenario["against"] != "relay" {
            return None;
        }
        let is_time = scenario["unit"] == "µs";
        let of = |name: &str| {
            let ratio = scenario["ratio"][name].as_f64()?;
            Some(if is_time { ratio } else { 1.0 / ratio })
        };
        let (p10, median, p90) = (of("p10")?, of("median")?, of("p90")?);
        Some(Cost { least: p10.min(p90), median, most: p10.max(p90) })
    }
}

/// The picture of a report; the first of the peers is the relay.
pub(crate) fn svg(report: &Value) -> String {
    let peers: Vec<&Value> = report["peers"].as_array().into_iter().flatten().collect();
    let scenarios = peers.first().and_then(|it| it["scenarios"].as_array()).map_or(0, Vec::len);
    let bars = |n: usize| {
        let costs = peers.iter().enumerate().map(move |(peer, it)| (peer, &it["scenarios"][n]));
        costs.filter_map(|(peer, it)| Some((peer, it, Cost::of(it)?))).collect::<Vec<_>>()
    };
    let rows: Vec<_> = (0..scenarios).map(bars).filter(|it| it.len() > 1).collect();
    let all = rows.iter().flatten().map(|(.., cost)| cost.most);
    let end = all.fold(2.0, f64::max).log2().ceil().exp2();
    let scale = (RIGHT - LEFT) / (end / LEAST).log2();
    let x = |cost: f64| LEFT + (cost.max(LEAST) / LEAST).log2() * scale;
    let height = HEAD + rows.iter().map(|it| row_height(it.len())).sum::<f64>();

    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         aria-label=\"What lspool and its peers cost beside a relay\">\n<style>\n{STYLE}\n</style>\n"
    );
    legend(&peers, &report["rounds"], &mut out);
    // One line for each power of four, and the relay's.
    let mut at = LEAST;
    while at <= end {
        line(&mut out, x(at), HEAD - 12.0, height - GAP);
        text(&mut out, x(at), HEAD - 18.0, "faint\" text-anchor=\"middle", &format!("{at}×"));
        at *= 4.0;
    }
    let mut top = HEAD;
    for row in rows {
        let Some((_, of_relay, _)) = row.first() else { continue };
        let middle = top + row_height(row.len()) / 2.0 - GAP / 2.0 + 4.0;
        let name = of_relay["name"].as_str().unwrap_or_default();
        text(&mut out, LEFT - 12.0, middle, "name\" text-anchor=\"end", name);
        for (n, (peer, scenario, cost)) in (0_u32..).zip(&row) {
            let y = top + f64::from(n) * BAR;
            let (from, to) = (x(LEAST), x(cost.median));
            write!(
                out,
                "<rect class=\"c{}\" x=\"{from:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>\n\
                 <path class=\"spread\" d=\"M{:.1} {:.1}H{:.1}\"/>\n",
                (*peer).min(COLORS - 1),
                to - from,
                BAR - 2.0,
                x(cost.least),
                y + BAR / 2.0 - 1.0,
                x(cost.most)
            )
            .unwrap_or_default();
            let value = scenario["value"]["median"].as_f64().unwrap_or_default();
            let unit = scenario["unit"].as_str().unwrap_or_default();
            let label = match *peer {
                0 => format!("{value:.0} {unit}"),
                _ => format!("{:.2}×", cost.median),
            };
            text(&mut out, x(cost.most.max(cost.median)) + 5.0, y + BAR - 3.5, "faint", &label);
        }
        top += row_height(row.len());
    }
    out.push_str("</svg>\n");
    out
}

fn row_height(bars: usize) -> f64 {
    f64::from(u32::try_from(bars).unwrap_or_default()) * BAR + GAP
}

/// What the bars are, and how they were measured.
fn legend(peers: &[&Value], rounds: &Value, out: &mut String) {
    let head = format!(
        "Time of a message beside a relay that only copies bytes; shorter is better (median of {rounds} rounds, 10th–90th percentile)"
    );
    text(out, 16.0, 20.0, "head", &head);
    let mut at = 16.0;
    for (n, peer) in peers.iter().enumerate() {
        let name = peer["name"].as_str().unwrap_or_default();
        writeln!(
            out,
            "<rect class=\"c{}\" x=\"{at}\" y=\"30\" width=\"11\" height=\"11\"/>",
            n.min(COLORS - 1)
        )
        .unwrap_or_default();
        text(out, at + 16.0, 40.0, "name", name);
        at += 36.0 + 7.0 * f64::from(u32::try_from(name.chars().count()).unwrap_or_default());
    }
}

fn line(out: &mut String, x: f64, from: f64, to: f64) {
    writeln!(out, "<path class=\"line\" d=\"M{x:.1} {from:.1}V{to:.1}\"/>").unwrap_or_default();
}

/// A text; nothing in it is markup.
fn text(out: &mut String, x: f64, y: f64, class: &str, text: &str) {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    writeln!(out, "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{text}</text>").unwrap_or_default();
}

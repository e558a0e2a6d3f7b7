//! What a message costs where much is going on: many processes, conversations, documents. It should be the same.

use std::error::Error;

use crate::{
    Lspool,
    instructions::count_by,
    load::{Setting, as_f64},
    report::Spread,
    session::Session,
};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// How much is going on.
#[derive(Clone, Copy)]
struct Point {
    backends: usize,
    conversations: usize,
    documents: usize,
}

const POINTS: [Point; 7] = {
    const fn it(backends: usize, conversations: usize, documents: usize) -> Point {
        Point { backends, conversations, documents }
    }
    [
        it(1, 1, 1),
        it(8, 8, 1),
        it(32, 32, 1),
        it(1, 100, 1),
        it(1, 1000, 1),
        it(1, 1, 10_000),
        it(32, 1000, 1000),
    ]
};

struct Measure {
    name: &'static str,
    n: usize,
    run: fn(&mut Session, usize) -> Result<()>,
    /// Whether each backend is told, so that there are so many messages more.
    to_all: bool,
}

const MEASURES: [Measure; 5] = [
    Measure { name: "round trip", n: 500, run: round_trips, to_all: false },
    Measure { name: "notification", n: 5000, run: flood, to_all: false },
    Measure { name: "report", n: 5000, run: reports, to_all: false },
    Measure { name: "turn", n: 100, run: turns, to_all: false },
    Measure { name: "didChange", n: 3000, run: edits, to_all: true },
];

/// Everything takes so many times as long when time is measured.
const LONGER: usize = 20;

pub(crate) fn run(rounds: usize, by_instructions: bool) -> Result<()> {
    let lspool = Lspool::new()?;
    let command = lspool.peer.command(Setting::Partitions);
    let unit = if by_instructions { "instructions" } else { "CPU µs" };
    println!("{unit} for each; of a didChange, for each process that is told\n");
    print!("{:>9} {:>13} {:>9}", "processes", "conversations", "documents");
    for it in &MEASURES {
        print!(" {:>13}", it.name);
    }
    println!();
    let mut all = vec![[const { Vec::new() }; MEASURES.len()]; POINTS.len()];
    let rounds = if by_instructions { 1 } else { rounds };
    for round in 1..=rounds {
        for (n, (point, figures)) in POINTS.iter().zip(&mut all).enumerate() {
            eprint!("\r\x1b[Kround {round} of {rounds}: {} of {}", n + 1, POINTS.len());
            let now =
                if by_instructions { instructions(&command, *point)? } else { micros(&command, *point)? };
            figures.iter_mut().zip(now).for_each(|(all, it): (&mut Vec<f64>, f64)| all.push(it));
            if round == rounds {
                eprint!("\r\x1b[K");
                print_row(*point, figures, by_instructions);
            }
        }
    }
    Ok(())
}

fn print_row(
    Point { backends, conversations, documents }: Point,
    figures: &[Vec<f64>],
    by_instructions: bool,
) {
    print!("{backends:>9} {conversations:>13} {documents:>9}");
    for figure in figures {
        let figure = Spread::of(figure.iter().copied()).median;
        if by_instructions { print!(" {figure:>13.0}") } else { print!(" {figure:>13.2}") }
    }
    println!();
}

/// CPU time of each measure.
fn micros(command: &[String], point: Point) -> Result<Vec<f64>> {
    let mut session = start(command, point)?;
    let figures = MEASURES.iter().map(|it| {
        let before = session.family.cpu();
        (it.run)(&mut session, LONGER * it.n)?;
        let spent = session.family.cpu().saturating_sub(before).as_secs_f64() * 1e6;
        Ok(spent / as_f64(LONGER * it.n * copies(it, point)))
    });
    let figures = figures.collect::<Result<Vec<f64>>>()?;
    session.end()?;
    Ok(figures)
}

/// Instructions of each measure: what a run takes more than one that does nothing.
fn instructions(command: &[String], point: Point) -> Result<Vec<f64>> {
    let count = |measure: Option<&Measure>| {
        count_by(command, |command| {
            let mut session = start(command, point)?;
            if let Some(it) = measure {
                (it.run)(&mut session, it.n)?;
            }
            session.end()
        })
    };
    let nothing = count(None)?;
    let figure = |it| Ok((count(Some(it))? - nothing) / as_f64(it.n * copies(it, point)));
    MEASURES.iter().map(figure).collect()
}

fn copies(measure: &Measure, point: Point) -> usize {
    if measure.to_all { point.backends } else { 1 }
}

fn start(command: &[String], Point { backends, conversations, documents }: Point) -> Result<Session> {
    let mut session = Session::start(command)?;
    for n in 0..conversations {
        let tools = (1..backends).contains(&n).then(|| format!(r#"["tool_{n}"]"#));
        session.create(&format!("conversation-{n}"), tools.as_deref())?;
    }
    for n in 0..documents {
        session.open(&uri(n))?;
        // More than 64 MiB must not wait for a server.
        if n % 1000 == 999 {
            session.ask("bench/ready", "{}")?;
        }
    }
    // All processes have heard of it.
    for n in 0..backends {
        turn(&mut session, &format!("conversation-{n}"), 0)?;
    }
    Ok(session)
}

fn uri(n: usize) -> String {
    format!("file:///bench/{n}.rs")
}

fn turn(session: &mut Session, conversation: &str, reports: usize) -> Result<()> {
    let (id, request) = session.turn(conversation, &format!(r#""count":{reports}"#));
    session.write(&request)?;
    session.wait(&[id])?;
    Ok(())
}

fn round_trips(session: &mut Session, n: usize) -> Result<()> {
    (0..n).try_for_each(|_| session.ask("bench/reply", r#"{"size":200}"#))
}

fn flood(session: &mut Session, n: usize) -> Result<()> {
    session.ask("bench/flood", &format!(r#"{{"count":{n},"size":200}}"#))
}

fn reports(session: &mut Session, n: usize) -> Result<()> {
    turn(session, "conversation-0", n)
}

fn turns(session: &mut Session, n: usize) -> Result<()> {
    (0..n).try_for_each(|_| turn(session, "conversation-0", 1))
}

fn edits(session: &mut Session, n: usize) -> Result<()> {
    session.write_all((1..=n).map(|version| crate::load::edit(&uri(0), version)))?;
    session.ask("bench/ready", "{}")
}

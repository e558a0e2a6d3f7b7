//! The page of `lspool inspect --html` in a real browser.

use std::{
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

use serde_json::{Value, json};

use super::support::{browser::Browser, editor::PATIENCE, real::Sandbox};

const SIZE: (u32, u32) = (1200, 720);

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// Makes the page of a recording.
fn page(sandbox: &Sandbox, recording: &Path) -> PathBuf {
    let page = sandbox.home().join("page.html");
    let out = fs::File::create(&page).expect("the sandbox is writable");
    let mut command = Command::new(env!("CARGO_BIN_EXE_lspool"));
    let status = command.args(["inspect", "--html"]).arg(recording).stdin(Stdio::null()).stdout(out).status();
    assert!(status.expect("it starts").success());
    page
}

fn start() -> Browser {
    let program = Browser::program().expect("chromium is missing (Debian: chromium)");
    Browser::start(&program, SIZE)
}

/// The page as its user has it: what the table shows, and what stands selected.
fn table(browser: &mut Browser) -> Vec<String> {
    let rows = browser.value("[...document.querySelectorAll('#list tr')].map(it => it.innerText)");
    rows.as_array().expect("a list").iter().map(|it| it.as_str().unwrap_or_default().to_owned()).collect()
}

fn selected(browser: &mut Browser) -> String {
    let row = browser.value("document.querySelector('#list tr[aria-selected=true]')?.innerText ?? ''");
    row.as_str().expect("text").to_owned()
}

/// The color of a pixel of the canvas, as `r,g,b`.
fn pixel(browser: &mut Browser, x: f64, y: f64) -> Value {
    browser.value(&format!("[...canvas.getContext('2d').getImageData({x}, {y}, 1, 1).data].slice(0, 3)"))
}

/// A color of the theme, as `r,g,b`.
fn color(browser: &mut Browser, name: &str) -> Value {
    let hex = format!("getComputedStyle(document.documentElement).getPropertyValue('{name}').trim()");
    browser.value(&format!("{hex}.match(/[0-9a-f]{{2}}/g).map(it => parseInt(it, 16))"))
}

/// Where the first event of this text is drawn: left, top, right, bottom.
fn place(browser: &mut Browser, text: &str) -> [f64; 4] {
    let found = browser.value(&format!("box(rows.findIndex(it => it[WHAT].includes({})))", json!(text)));
    serde_json::from_value(found).unwrap_or_else(|it| panic!("{text}: {it}"))
}

/// A point of what is drawn for this text: how far to the right and how far down, as parts of it.
fn point(browser: &mut Browser, text: &str, (right, down): (f64, f64)) -> (f64, f64) {
    let [from, top, to, bottom] = place(browser, text);
    let to = to.min(f64::from(SIZE.0) - 10.0);
    ((from + (to - from) * right).floor(), (top + (bottom - top) * down).floor())
}

#[test]
#[ignore = "needs Chromium (Debian: chromium); scripts/test runs it where it is"]
fn page_draws_crash_and_is_searched_by_keyboard() {
    let sandbox = Sandbox::new();
    let file = page(&sandbox, &fixture("crash-in-a-turn.jsonl"));
    let mut browser = start();
    browser.prefer("light");
    browser.open(&file);

    // What it holds: a lane for the session, the conversation and each process.
    let title = browser.value("document.title");
    assert!(title.as_str().is_some_and(|it| it.starts_with("lspool: recording of lspool")), "{title}");
    let lanes = browser.value("lanes.map(it => it.name)").to_string();
    for lane in ["session", "conversation ", "process 0.1", "process 0.2"] {
        assert!(lanes.contains(lane), "{lane}: {lanes}");
    }
    let all = table(&mut browser);
    assert!(all.iter().any(|it| it.contains("conversation/create")), "{all:#?}");

    // What is seen: bars and marks in their colors, each in its lane.
    let bars = [
        ("conversation/create", "--turn", (0.5, 0.8)),
        ("tool ", "--tool", (0.5, 0.8)),
        ("ended by signal", "--bad", (0.0, 0.5)),
        ("started again", "--mark", (0.0, 0.5)),
    ];
    for (text, name, part) in bars {
        let (x, y) = point(&mut browser, text, part);
        assert_eq!(pixel(&mut browser, x, y), color(&mut browser, name), "{text}: {x} {y}");
    }
    // Both processes lived, one after the other.
    let [first, second] = ["process 0.1", "process 0.2"].map(|it| place(&mut browser, it));
    assert!(first[2] <= second[0] && first[3] <= second[1], "{first:?} {second:?}");

    // The table: down, down, up, and what is selected is what is drawn with a frame.
    browser.press("j");
    assert_eq!(selected(&mut browser), all[0]);
    browser.press("ArrowDown");
    assert_eq!(selected(&mut browser), all[1]);
    browser.press("k");
    assert_eq!(selected(&mut browser), all[0]);

    // Time: nearer, to the right, and the whole again.
    let span = |browser: &mut Browser| browser.value("[from, to, length]");
    let whole = span(&mut browser);
    browser.press("+");
    browser.press("ArrowRight");
    let near: Vec<f64> = serde_json::from_value(span(&mut browser)).expect("numbers");
    assert!(near[0] > 0.0 && near[1] - near[0] < near[2] * 0.7, "{near:?}");
    browser.press("0");
    assert_eq!(span(&mut browser), whole);

    // Search, by keyboard alone: what does not match is pale, and the first match is selected.
    browser.press("/");
    for key in "signal".chars() {
        browser.press(&key.to_string());
    }
    let found = table(&mut browser);
    assert!(!found.is_empty() && found.len() < all.len(), "{found:#?}");
    assert!(found.iter().all(|it| it.contains("signal")), "{found:#?}");
    let (x, y) = point(&mut browser, "conversation/create", (0.5, 0.8));
    assert_ne!(pixel(&mut browser, x, y), color(&mut browser, "--turn"));
    browser.press("Enter");
    assert_eq!(selected(&mut browser), found[0]);
    assert_eq!(browser.value("document.activeElement == $('search')"), false);
    browser.value("$('search').value = ''; filter()");

    // Errors only; without a mouse too.
    browser.press("e");
    let bad = table(&mut browser);
    let is_bad =
        browser.value("[...document.querySelectorAll('#list tr')].every(it => it.className == 'bad')");
    assert!(is_bad == true && bad.len() < all.len() && !bad.is_empty(), "{bad:#?}");
    browser.press("e");
    assert_eq!(table(&mut browser), all);
    assert_eq!(browser.events_of("Runtime.exceptionThrown"), Vec::<&Value>::new());
    let mut logged = browser.events_of("Log.entryAdded");
    // It warns of pixels that are read, which this test does.
    logged.retain(|it| it["entry"]["level"] == "error");
    assert_eq!(logged, Vec::<&Value>::new());

    // With a mouse: a bar says what it is, and a click selects it.
    let (x, y) = point(&mut browser, "conversation/create", (0.5, 0.5));
    let y = y + browser.value("canvas.getBoundingClientRect().top").as_f64().expect("a number");
    browser.mouse("mouseMoved", x, y);
    let tip = browser.value("getComputedStyle(tip).display == 'block' ? tip.innerText : ''").to_string();
    assert!(tip.contains("conversation/create") && tip.contains("took"), "{tip}");
    browser.mouse("mousePressed", x, y);
    browser.mouse("mouseReleased", x, y);
    assert!(selected(&mut browser).contains("conversation/create"));
}

#[test]
#[ignore = "needs Chromium (Debian: chromium); scripts/test runs it where it is"]
fn page_is_readable_in_light_and_dark() {
    let sandbox = Sandbox::new();
    let file = page(&sandbox, &fixture("two-partitions.jsonl"));
    let mut browser = start();
    let mut backs = Vec::new();
    for scheme in ["light", "dark"] {
        browser.prefer(scheme);
        browser.open(&file);
        let back = color(&mut browser, "--back");
        assert_eq!(pixel(&mut browser, 2.0, 2.0), back, "{scheme}");
        let body =
            browser.value("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)");
        assert_eq!(body, back, "{scheme}");
        backs.push(back);
        // The contrast that WCAG asks of text: on the page, and on bars.
        let on = [("--text", "--back"), ("--faint", "--back"), ("--text", "--panel"), ("--bad", "--back")];
        let bars = ["--session", "--turn", "--tool", "--bad"].map(|it| ("--ink", it));
        for (text, ground) in on.into_iter().chain(bars) {
            let contrast = contrast(&color(&mut browser, text), &color(&mut browser, ground));
            assert!(contrast >= 4.5, "{scheme}: {text} on {ground}: {contrast:.2}");
        }
    }
    assert_ne!(backs[0], backs[1]);
    // The picture of an open page changes with the system, at the next frame.
    browser.prefer("light");
    let start = Instant::now();
    while pixel(&mut browser, 2.0, 2.0) != backs[0] {
        assert!(start.elapsed() < PATIENCE, "the picture stays dark");
    }
}

/// How two colors differ, by WCAG 2.
fn contrast(one: &Value, other: &Value) -> f64 {
    let luminance = |color: &Value| {
        let part = |n: usize| match color[n].as_f64().expect("a number") / 255.0 {
            part if part <= 0.04045 => part / 12.92,
            part => ((part + 0.055) / 1.055).powf(2.4),
        };
        0.2126 * part(0) + 0.7152 * part(1) + 0.0722 * part(2)
    };
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

#[test]
#[ignore = "needs Chromium (Debian: chromium); scripts/test runs it where it is"]
fn page_makes_no_request_and_runs_no_text_of_recording() {
    let sandbox = Sandbox::new();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let text = fs::read_to_string(fixture("crash-in-a-turn.jsonl")).expect("a fixture");
    let evil = format!("</script><script>document.title='taken'</script><img src='{url}/image'>");
    let recording = sandbox.home().join("evil.jsonl");
    assert!(text.contains(r#""name":"fetch_ticket""#), "nothing to replace");
    let text = text.replace(r#""name":"fetch_ticket""#, &format!(r#""name":{}"#, json!(evil)));
    fs::write(&recording, text).expect("the sandbox is writable");
    let file = page(&sandbox, &recording);
    let mut browser = start();
    browser.open(&file);
    browser.press("j");

    let title = browser.value("document.title");
    assert!(title.as_str().is_some_and(|it| it.starts_with("lspool: ")), "{title}");
    assert!(table(&mut browser).iter().any(|it| it.contains("document.title='taken'")));
    let asked: Vec<String> = browser
        .events_of("Network.requestWillBeSent")
        .iter()
        .map(|it| it["request"]["url"].to_string())
        .collect();
    assert_eq!(asked, [json!(format!("file://{}", file.display())).to_string()]);

    // The page could not if it would.
    let refused = browser.value(&format!("fetch('{url}/data').then(() => 'sent', () => 'refused')"));
    assert_eq!(refused, "refused");
    let image = format!(
        "new Promise(done => {{ const it = new Image(); it.onload = it.onerror = (e) => done(e.type); it.src = '{url}/image'; }})"
    );
    assert_eq!(browser.value(&image), "error");
    listener.set_nonblocking(true).expect("a socket");
    assert!(listener.accept().is_err(), "the page has connected");
}

/// A recording of this many bytes: short hovers, the most events that fit.
fn large(sandbox: &Sandbox, bytes: usize) -> PathBuf {
    let text = fs::read_to_string(fixture("crash-in-a-turn.jsonl")).expect("a fixture");
    let (header, _) = text.split_once('\n').expect("lines");
    let mut out = format!("{header}\n");
    for id in 0.. {
        let t = f64::from(id) * 1.5;
        let params = json!({"textDocument": {"uri": format!("file:///workspace/{}.py", id % 50)}, "position": {"line": id % 99, "character": 4}});
        let editor = json!({"client": 0});
        let process = json!({"backend": id % 3, "generation": 1});
        let ask =
            |id: i32| json!({"jsonrpc": "2.0", "id": id, "method": "textDocument/hover", "params": params});
        let answer = |id: i32| json!({"jsonrpc": "2.0", "id": id, "result": {"contents": "x".repeat(200)}});
        let lines = [
            json!({"t": t, "dir": "in", "kind": "message", "peer": editor, "msg": ask(id)}),
            json!({"t": t + 0.1, "dir": "out", "kind": "message", "peer": process, "msg": ask(id + 9)}),
            json!({"t": t + 1.0, "dir": "in", "kind": "message", "peer": process, "msg": answer(id + 9)}),
            json!({"t": t + 1.1, "dir": "out", "kind": "message", "peer": editor, "msg": answer(id)}),
        ];
        for line in lines {
            out.push_str(&line.to_string());
            out.push('\n');
        }
        if out.len() >= bytes {
            break;
        }
    }
    let file = sandbox.home().join("large.jsonl");
    fs::write(&file, out).expect("the sandbox is writable");
    file
}

#[test]
#[ignore = "takes a minute, needs Chromium: cargo nextest run --all-features --run-ignored only browser"]
fn page_of_100_mb_recording_opens_and_answers() {
    let sandbox = Sandbox::new();
    let recording = large(&sandbox, 100 << 20);
    let begin = Instant::now();
    let file = page(&sandbox, &recording);
    let made = begin.elapsed();
    let mut browser = start();
    let begin = Instant::now();
    browser.open(&file);
    let opened = begin.elapsed();
    let events = browser.value("rows.length").as_u64().expect("a number");
    assert!(events > 90_000, "{events}");
    let mut timed = |what: &str, code: &str| {
        let millis = browser.value(&format!(
            "(() => {{ const t = performance.now(); {code}; return performance.now() - t; }})()"
        ));
        eprintln!("{what}: {millis} ms");
    };
    timed("draw", "draw()");
    timed("zoom", "zoom(0.001)");
    timed("search", "$('search').value = '7.py'; filter()");
    timed("point", "at({clientX: 700, clientY: canvas.getBoundingClientRect().top + 40})");
    assert!(table(&mut browser).iter().all(|it| it.contains("7.py")));
    browser.press("j");
    assert!(selected(&mut browser).contains("7.py"));
    let size = fs::metadata(&file).expect("it is there").len() >> 20;
    eprintln!("{events} events: made in {made:.1?}, {size} MiB, opened in {opened:.1?}");
}

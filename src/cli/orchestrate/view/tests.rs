//! Pictures of orchestrations.

use expect_test::expect;

use super::*;

fn told(at_ms: u64, event: Event) -> Notice {
    Notice { orchestration: "o".to_owned(), at_ms, event }
}

fn planned(task: usize, role: &str, text: &str, needs: &[usize]) -> Planned {
    let depends_on = needs.iter().copied().collect();
    Planned { task, role: role.to_owned(), text: text.to_owned(), depends_on }
}

fn assigned(task: usize, worker: &str) -> Event {
    let role = worker.split('-').next().unwrap_or_default().to_owned();
    Event::TaskAssigned { task, role, worker: worker.to_owned(), turn: 1 }
}

fn runs(task: usize, worker: &str, tool: Option<&str>) -> Event {
    let (role, worker) = (String::new(), worker.to_owned());
    Event::TaskProgress { task, role, worker, tool: tool.map(str::to_owned), duration_ms: 1 }
}

fn completed(task: usize, state: End, reason: Option<&str>, duration_ms: Option<u64>) -> Event {
    let (role, worker) = (String::new(), None);
    let reason = reason.map(str::to_owned);
    Event::TaskCompleted { task, role, worker, state, result: None, reason, duration_ms }
}

/// The events of an orchestration with everything in it.
fn story() -> Vec<Notice> {
    let workers = vec!["coder".to_owned(), "reviewer".to_owned(), "tester".to_owned()];
    let goal = "Add a --json flag to the list command\nand all that.".to_owned();
    let tasks = vec![
        planned(0, "coder", "Write the flag, and what it prints", &[]),
        planned(1, "tester", "Test that what is printed is JSON", &[0]),
        planned(2, "coder", "Describe the flag in docs/list.md", &[0]),
        planned(3, "reviewer", "Read all changes", &[1, 2]),
        planned(4, "coder", "Look for other commands that print lists", &[]),
        planned(5, "coder", "Add the flag to these", &[4]),
        planned(6, "tester", "Test these as well", &[5]),
    ];
    vec![
        told(0, Event::PlanStarted { goal, workers, attempt: 1, problems: vec![] }),
        told(4_200, Event::PlanCompleted { tasks, fallback: None }),
        told(4_200, assigned(0, "coder-1")),
        told(4_200, assigned(4, "coder-2")),
        told(6_000, runs(0, "coder-1", Some("replace_string_in_file"))),
        told(9_000, runs(0, "coder-1", None)),
        told(16_700, completed(0, End::Done, None, Some(12_500))),
        told(16_700, assigned(1, "tester-1")),
        told(16_700, assigned(2, "coder-1")),
        told(18_000, completed(4, End::Failed, Some("its model failed: quota\nmore"), Some(13_800))),
        told(18_000, completed(5, End::Skipped, Some("task 4 failed"), None)),
        told(18_000, completed(6, End::Skipped, Some("task 5 was skipped"), None)),
        told(19_000, runs(1, "tester-1", Some("run_in_terminal"))),
        told(80_000, completed(2, End::Done, None, Some(63_300))),
        told(90_000, completed(1, End::Done, None, Some(73_300))),
        told(90_000, assigned(3, "reviewer-1")),
        told(99_000, completed(3, End::Done, None, Some(9_000))),
        told(105_000, Event::SummarizeCompleted { summary: "s".to_owned() }),
        told(105_000, Event::Finished { state: End::Failed, done: 4, failed: 1, skipped: 2, cancelled: 0 }),
    ]
}

fn drawn(until: usize, at_ms: u64, screen: Screen) -> String {
    let mut view = View::default();
    story()[..until].iter().for_each(|it| view.apply(it));
    view.lines(at_ms, screen).iter().map(|it| it.clone() + "\n").collect()
}

#[test]
fn view_draws_plan_as_tree() {
    let plain = Screen::default();
    expect![[r#"
        Add a --json flag to the list command
        ⠋ planning · 1 s
    "#]]
    .assert_eq(&drawn(1, 1_000, plain));
    expect![[r#"
        Add a --json flag to the list command
        ⠸ 0  Write the flag, and what it prints        coder-1          3 s  replace_string_in_file
        ├─ ○ 1  Test that what is printed is JSON      tester
        └─ ○ 2  Describe the flag in docs/list.md      coder
           └─ ○ 3  Read all changes                    reviewer    after 1, 2
        ⠸ 4  Look for other commands that print lists  coder-2          3 s
        └─ ○ 5  Add the flag to these                  coder
           └─ ○ 6  Test these as well                  tester
        0 of 7 done · 2 running · 5 waiting · 7 s
    "#]]
    .assert_eq(&drawn(5, 7_300, plain));
    expect![[r#"
        Add a --json flag to the list command
        ✓ 0  Write the flag, and what it prints        coder-1         12 s
        ├─ ⠋ 1  Test that what is printed is JSON      tester-1        13 s  run_in_terminal
        └─ ⠋ 2  Describe the flag in docs/list.md      coder-1         13 s
           └─ ○ 3  Read all changes                    reviewer    after 1, 2
        ✗ 4  Look for other commands that print lists  coder-2         13 s  its model failed: quota
        └─ – 5  Add the flag to these                  coder       task 4 failed
           └─ – 6  Test these as well                  tester      task 5 was skipped
        1 of 7 done · 2 running · 1 waiting · 1 failed · 2 skipped · 30 s
    "#]]
    .assert_eq(&drawn(13, 30_000, plain));
    expect![[r#"
        Add a --json flag to the list command
        ✓ 0  Write the flag, and what it prints        coder-1         12 s
        ├─ ✓ 1  Test that what is printed is JSON      tester-1    1 m 13 s
        └─ ✓ 2  Describe the flag in docs/list.md      coder-1     1 m 03 s
           └─ ✓ 3  Read all changes                    reviewer-1       9 s
        ✗ 4  Look for other commands that print lists  coder-2         13 s  its model failed: quota
        └─ – 5  Add the flag to these                  coder       task 4 failed
           └─ – 6  Test these as well                  tester      task 5 was skipped
        ⠋ summarizing · 4 of 7 done · 1 failed · 2 skipped · 1 m 40 s
    "#]]
    .assert_eq(&drawn(17, 100_000, plain));
    expect![[r#"
        Add a --json flag to the list command
        ✓ 0  Write the flag, and what it prints        coder-1         12 s
        ├─ ✓ 1  Test that what is printed is JSON      tester-1    1 m 13 s
        └─ ✓ 2  Describe the flag in docs/list.md      coder-1     1 m 03 s
           └─ ✓ 3  Read all changes                    reviewer-1       9 s
        ✗ 4  Look for other commands that print lists  coder-2         13 s  its model failed: quota
        └─ – 5  Add the flag to these                  coder       task 4 failed
           └─ – 6  Test these as well                  tester      task 5 was skipped
        failed · 4 of 7 done · 1 failed · 2 skipped · 1 m 45 s
    "#]]
    .assert_eq(&drawn(19, 200_000, plain));
}

#[test]
fn documentation_shows_current_view() {
    let text = include_str!("../../../../docs/orchestration.md");
    let mut view = View::default();
    let mut lines = Vec::new();
    for it in story() {
        view.apply(&it);
        lines.extend(view.line(&it));
    }
    let screen = drawn(13, 30_000, Screen::default());
    assert!(text.contains(&format!("```\n{screen}```\n")), "docs/orchestration.md does not show\n{screen}");
    let line = text.split('`').find(|it| it.starts_with("task 0: done")).expect("a line for an event");
    assert!(lines.iter().any(|it| it.ends_with(line)), "no event is shown as {line}");
}

#[test]
fn view_strips_control_characters_from_model_text() {
    let evil = "a\u{1b}[2J\rb\nc";
    let mut view = View::default();
    let tasks = vec![planned(0, "coder", evil, &[])];
    for event in [
        Event::PlanCompleted { tasks, fallback: Some(evil.to_owned()) },
        assigned(0, evil),
        runs(0, evil, Some(evil)),
        Event::Error { message: evil.to_owned() },
        completed(0, End::Failed, Some(evil), None),
    ] {
        let it = told(1, event);
        view.apply(&it);
        let lines = view.lines(1, Screen::default()).into_iter().chain(view.line(&it));
        for line in lines {
            assert!(!line.contains(char::is_control), "{line:?}");
        }
    }
}

#[test]
fn view_lines_fit_the_screen() {
    for columns in (1..=60).chain([79, 200]) {
        let screen = Screen { size: Some((columns, 24)), is_colored: false };
        for until in 0..=story().len() {
            for line in drawn(until, 30_000, screen).lines() {
                assert!(columns_of(line) < columns, "{columns}: {line}");
                assert!(!line.contains('\u{1b}'), "{line}");
            }
        }
    }
}

#[test]
fn view_aligns_wide_characters_and_keeps_times_in_narrow_terminals() {
    let mut view = View::default();
    let tasks = vec![
        planned(0, "coder", "フラグを書いて、出力も書く 🎉", &[]),
        planned(1, "tester", "Test that what is printed is JSON", &[0]),
    ];
    for event in [
        Event::PlanCompleted { tasks, fallback: None },
        assigned(0, "coder-1"),
        completed(0, End::Done, None, Some(12_500)),
        assigned(1, "tester-1"),
    ] {
        view.apply(&told(1, event));
    }
    let drawn = |columns| {
        let screen = Screen { size: Some((columns, 24)), is_colored: false };
        view.lines(15_000, screen).iter().map(|it| it.clone() + "\n").collect::<String>()
    };
    expect![[r#"

        ✓ 0  フラグを書いて、出力も書く 🎉         coder-1       12 s
        └─ ⠋ 1  Test that what is printed is JSON  tester-1      14 s
        1 of 2 done · 1 running · 15 s
    "#]]
    .assert_eq(&drawn(80));
    expect![[r#"

        ✓ 0  フラグを書い…   coder-1       12 s
        └─ ⠋ 1  Test that …  tester-1      14 s
        1 of 2 done · 1 running · 15 s
    "#]]
    .assert_eq(&drawn(40));
}

#[test]
fn view_looks_right_at_common_widths() {
    let at = |columns| drawn(12, 20_000, Screen { size: Some((columns, 24)), is_colored: false });
    expect![[r#"
        Add a --json flag to the list command
        ✓ 0  Write the flag, and what it p…  coder-1         12 s
        ├─ ⠋ 1  Test that what is printed …  tester-1         3 s
        └─ ⠋ 2  Describe the flag in docs/…  coder-1          3 s
           └─ ○ 3  Read all changes          reviewer    after 1, 2
        ✗ 4  Look for other commands that …  coder-2         13 s …
        └─ – 5  Add the flag to these        coder       task 4 fa…
           └─ – 6  Test these as well        tester      task 5 wa…
        1 of 7 done · 2 running · 1 waiting · 1 failed · 2 skipped…
    "#]]
    .assert_eq(&at(60));
    expect![[r#"
        Add a --json flag to the list command
        ✓ 0  Write the flag, and what it prints        coder-1         12 s
        ├─ ⠋ 1  Test that what is printed is JSON      tester-1         3 s
        └─ ⠋ 2  Describe the flag in docs/list.md      coder-1          3 s
           └─ ○ 3  Read all changes                    reviewer    after 1, 2
        ✗ 4  Look for other commands that print lists  coder-2         13 s  its model…
        └─ – 5  Add the flag to these                  coder       task 4 failed
           └─ – 6  Test these as well                  tester      task 5 was skipped
        1 of 7 done · 2 running · 1 waiting · 1 failed · 2 skipped · 20 s
    "#]]
    .assert_eq(&at(80));
    expect![[r#"
        Add a --json flag to the list command
        ✓ 0  Write the flag, and what it prints        coder-1         12 s
        ├─ ⠋ 1  Test that what is printed is JSON      tester-1         3 s
        └─ ⠋ 2  Describe the flag in docs/list.md      coder-1          3 s
           └─ ○ 3  Read all changes                    reviewer    after 1, 2
        ✗ 4  Look for other commands that print lists  coder-2         13 s  its model failed: quota
        └─ – 5  Add the flag to these                  coder       task 4 failed
           └─ – 6  Test these as well                  tester      task 5 was skipped
        1 of 7 done · 2 running · 1 waiting · 1 failed · 2 skipped · 20 s
    "#]]
    .assert_eq(&at(120));
}

#[test]
fn view_shows_what_workers_write_and_which_commands_were_refused() {
    let mut view = View::default();
    let tasks = vec![planned(0, "coder", "Write it", &[]), planned(1, "tester", "Test it", &[])];
    view.apply(&told(1, Event::PlanCompleted { tasks, fallback: None }));
    view.apply(&told(1, assigned(0, "coder-1")));
    view.apply(&told(1, assigned(1, "tester-1")));
    view.hear("coder-1", "I look.\nI wri");
    view.hear("coder-1", "te.\n\n");
    view.hear("nobody", "x");
    view.refuse("tester-1");
    let drawn = |view: &View| {
        view.lines(1000, Screen::default()).iter().map(|it| it.clone() + "\n").collect::<String>()
    };
    expect![[r#"

        ⠋ 0  Write it  coder-1      0.9 s  I write.
        ⠋ 1  Test it   tester-1     0.9 s
        0 of 2 done · 2 running · 1 s
    "#]]
    .assert_eq(&drawn(&view));
    view.apply(&told(2, runs(0, "coder-1", Some("grep"))));
    view.apply(&told(2, completed(1, End::Done, None, Some(1_000))));
    let retried = Event::TaskRetried {
        task: 0,
        role: "coder".to_owned(),
        worker: None,
        reason: "no quota\nx".to_owned(),
        attempt: 1,
    };
    assert_eq!(
        view.line(&told(2, retried.clone())).unwrap().trim(),
        "0 s  task 0: failed, trying again: no quota"
    );
    view.apply(&told(2, retried));
    expect![[r#"

        ○ 0  Write it  coder
        ! 1  Test it   tester-1       1 s
        1 of 2 done · 1 waiting · 1 s
    "#]]
    .assert_eq(&drawn(&view));
}

#[test]
fn view_lists_failures_in_full() {
    let mut view = View::default();
    for it in story() {
        view.apply(&it);
    }
    assert_eq!(view.failures(), ["task 4 (coder-2) failed: its model failed: quota\nmore"]);
}

#[test]
fn view_colors_change_no_text() {
    let colored = Screen { size: Some((80, 24)), is_colored: true };
    for (columns, until) in [2, 9, 30, 80].iter().flat_map(|it| (0..=story().len()).map(move |n| (*it, n))) {
        let colored = Screen { size: Some((columns, 24)), ..colored };
        let plain = Screen { is_colored: false, ..colored };
        let mut bare = String::new();
        let drawn_so = drawn(until, 30_000, colored);
        let mut parts = drawn_so.split('\u{1b}');
        bare.push_str(parts.next().unwrap_or_default());
        parts.for_each(|it| bare.push_str(it.split_once('m').map_or("", |(_, it)| it)));
        let trimmed = |it: &str| it.lines().map(|it| it.trim_end().to_owned() + "\n").collect::<String>();
        assert_eq!(trimmed(&bare), trimmed(&drawn(until, 30_000, plain)));
    }
    expect![[r#"
        ␛[1mAdd a --json flag to the list command␛[0m
        ␛[32m✓␛[0m 0  Write the flag, and what it prints        ␛[2mcoder-1         12 s␛[0m
        ␛[2m├─ ␛[0m␛[33m⠋␛[0m 1  Test that what is printed is JSON      ␛[2mtester-1         3 s␛[0m
        ␛[2m└─ ␛[0m␛[33m⠋␛[0m 2  Describe the flag in docs/list.md      ␛[2mcoder-1          3 s␛[0m
        ␛[2m   └─ ␛[0m␛[2m○␛[0m␛[2m 3  Read all changes␛[0m                    ␛[2mreviewer    after 1, 2␛[0m
        ␛[31m✗␛[0m 4  Look for other commands that print lists  ␛[31mcoder-2         13 s  its model…␛[0m
        ␛[2m└─ ␛[0m␛[2m–␛[0m␛[2m 5  Add the flag to these␛[0m                  ␛[2mcoder       task 4 failed␛[0m
        ␛[2m   └─ ␛[0m␛[2m–␛[0m␛[2m 6  Test these as well␛[0m                  ␛[2mtester      task 5 was skipped␛[0m
        1 of 7 done · 2 running · 1 waiting · 1 failed · 2 skipped · 20 s
    "#]].assert_eq(&drawn(12, 20_000, colored).replace('\u{1b}', "␛"));
}

#[test]
fn view_prints_lines_without_a_screen() {
    let mut view = View::default();
    let mut lines = String::new();
    for it in story() {
        view.apply(&it);
        lines.extend(view.line(&it).map(|it| it + "\n"));
    }
    expect![[r#"
             0 s  planning
             4 s  task 0: coder-1 begins: Write the flag, and what it prints
             4 s  task 4: coder-2 begins: Look for other commands that print lists
             6 s  task 0: coder-1 runs replace_string_in_file
            16 s  task 0: done in 12 s
            16 s  task 1: tester-1 begins: Test that what is printed is JSON
            16 s  task 2: coder-1 begins: Describe the flag in docs/list.md
            18 s  task 4: failed in 13 s: its model failed: quota
            18 s  task 5: skipped: task 4 failed
            18 s  task 6: skipped: task 5 was skipped
            19 s  task 1: tester-1 runs run_in_terminal
        1 m 20 s  task 2: done in 1 m 03 s
        1 m 30 s  task 1: done in 1 m 13 s
        1 m 30 s  task 3: reviewer-1 begins: Read all changes
        1 m 39 s  task 3: done in 9 s
        failed · 4 of 7 done · 1 failed · 2 skipped · 1 m 45 s
    "#]]
    .assert_eq(&lines);
}

#[test]
fn view_shows_errors_before_the_plan() {
    let mut view = View::default();
    view.apply(&story()[0]);
    let problems = vec!["there is no task".to_owned()];
    let again = Event::PlanStarted { goal: "g".to_owned(), workers: vec![], attempt: 2, problems };
    view.apply(&told(1, again));
    let tasks = vec![planned(0, "coder", "g", &[])];
    view.apply(&told(2, Event::PlanCompleted { tasks, fallback: Some("there is no task".to_owned()) }));
    view.apply(&told(3, Event::Error { message: "there is no summary: it has crashed".to_owned() }));
    view.apply(&told(
        4,
        Event::Finished { state: End::Cancelled, done: 0, failed: 0, skipped: 0, cancelled: 1 },
    ));
    let drawn: String = view.lines(9, Screen::default()).iter().map(|it| it.clone() + "\n").collect();
    expect![[r#"
        g
        Planning failed, so one worker does everything: there is no task
        ○ 0  g      coder
        there is no summary: it has crashed
        cancelled · 0 of 1 done · 1 waiting · 0 s
    "#]]
    .assert_eq(&drawn);
}

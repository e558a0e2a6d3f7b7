//! lspool does the same as in recorded sessions. `UPDATE_EXPECT=1` updates the fixtures.

use std::{fs, path::Path, time::Instant};

use lspool::recording::replay::{first_difference, renewed};

#[test]
fn fixtures_replay_without_difference() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let mut replayed = 0;
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        let name = path.display();
        if path.extension().is_none_or(|it| it != "jsonl") {
            continue;
        }
        let recording = fs::read(&path).expect("a file");
        replayed += 1;
        let found = first_difference(&recording, Instant::now()).unwrap_or_else(|it| panic!("{name}: {it}"));
        let Some(difference) = found else { continue };
        let update = std::env::var_os("UPDATE_EXPECT").is_some();
        assert!(update, "{name}: {difference}\nUPDATE_EXPECT=1 accepts what is new");
        let renewed = renewed(&recording, Instant::now()).expect("it was read before");
        fs::write(&path, renewed).expect("the fixture can be written");
    }
    assert!(replayed > 0, "there are no fixtures");
}

//! The packages of all channels say the same: `scripts/package` builds and tries them.

use std::{fs, path::Path};

use serde_json::Value;

/// A file of the repository.
fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).expect("a text file")
}

fn toml(path: &str) -> Value {
    toml::from_str(&read(path)).expect("TOML")
}

fn json(path: &str) -> Value {
    serde_json::from_str(&read(path)).expect("JSON")
}

#[test]
fn wheel_and_npm_package_describe_lspool_as_cargo_does() {
    let cargo = &toml("Cargo.toml")["package"];
    let wheel = &toml("pyproject.toml")["project"];
    let npm = json("packaging/npm/main/package.json");
    let platform = json("packaging/npm/platform/package.json");
    for key in ["name", "description", "license", "keywords"] {
        assert!(!cargo[key].is_null());
        assert_eq!(wheel[key], cargo[key], "pyproject.toml: {key}");
        assert_eq!(npm[key], cargo[key], "npm/main: {key}");
    }
    assert_eq!(platform["license"], cargo["license"]);
    let repository = cargo["repository"].as_str().expect("a repository");
    for manifest in [&npm, &platform] {
        assert_eq!(manifest["repository"]["url"], format!("git+{repository}.git"));
        assert_eq!(manifest["homepage"], cargo["homepage"]);
    }
    for (url, key) in
        [("Homepage", "homepage"), ("Repository", "repository"), ("Documentation", "documentation")]
    {
        assert_eq!(wheel["urls"][url], cargo[key], "pyproject.toml: {url}");
    }
}

#[test]
fn only_cargo_names_version() {
    let version = &toml("Cargo.toml")["package"]["version"];
    let wheel = toml("pyproject.toml");
    assert_eq!(wheel["project"]["version"], Value::Null);
    assert_eq!(wheel["project"]["dynamic"], serde_json::json!(["version"]));
    assert_eq!(wheel["tool"]["maturin"]["bindings"], "bin");
    // scripts/package writes the version in place of this.
    let npm = json("packaging/npm/main/package.json");
    assert_eq!(npm["version"], "0.0.0");
    assert_eq!(json("packaging/npm/platform/package.json")["version"], "0.0.0");
    let platforms = npm["optionalDependencies"].as_object().expect("packages with an executable");
    assert!(platforms.values().all(|it| it == "0.0.0"));
    let script = read("scripts/package");
    for platform in platforms.keys() {
        let platform = platform.strip_prefix("@lspool/").expect("a package of lspool");
        assert!(script.contains(&format!("\"{platform}\"")), "scripts/package does not make {platform}");
    }
    let lock = toml("Cargo.lock");
    let locked = lock["package"].as_array().expect("packages").iter().find(|it| it["name"] == "lspool");
    assert_eq!(&locked.expect("lspool")["version"], version);
}

#[test]
fn packages_find_their_files() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let cargo = &toml("Cargo.toml")["package"];
    let deb = &cargo["metadata"]["deb"];
    let sources = deb["assets"].as_array().expect("assets").iter().map(|it| &it[0]);
    let named = cargo["include"].as_array().expect("files").iter().chain(sources);
    let npm = json("packaging/npm/main/package.json");
    assert!(root.join("packaging/npm/main").join(npm["bin"]["lspool"].as_str().expect("a path")).is_file());
    // The part before the first `*` names a folder, or begins the names of files in one.
    for path in named.map(|it| it.as_str().expect("a path").trim_start_matches('/')) {
        let found = match path.split_once('*') {
            None => root.join(path).exists() || path == "target/release/lspool",
            Some((start, _)) => {
                let (folder, start) = start.rsplit_once('/').unwrap_or((".", start));
                let mut entries = fs::read_dir(root.join(folder)).expect("a folder").flatten();
                entries.any(|it| it.file_name().to_string_lossy().starts_with(start))
            }
        };
        assert!(found, "{path} is missing");
    }
}

#[test]
fn archive_has_name_that_binstall_asks_for() {
    let binstall = &toml("Cargo.toml")["package"]["metadata"]["binstall"];
    let url = binstall["pkg-url"].as_str().expect("a URL");
    let file = url.rsplit_once('/').expect("a path").1;
    assert_eq!(file, "{ name }-{ version }-{ target }.tar.gz");
    assert_eq!(binstall["bin-dir"], "{ name }-{ version }-{ target }/{ bin }{ binary-ext }");
    assert!(read("scripts/package").contains(r#"name = f"lspool-{self.version}-{self.target}""#));
}

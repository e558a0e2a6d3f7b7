"""The license texts of everything that is linked into lspool, for packages that carry the executable.

Reads `cargo metadata` and the files that each crate brings. Where a crate offers a choice that includes MIT,
lspool takes MIT. A crate without a license file is an error.
"""

import html
import json
import pathlib
import re
import subprocess
import sys

NAMES = re.compile(r"(licen[cs]e|copying|copyright|notice|unlicense)", re.IGNORECASE)
RULE = "=" * 78


def run(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def linked(metadata):
    """The packages in the executable: no build scripts, no procedural macros, no tests."""
    packages = {it["id"]: it for it in metadata["packages"]}
    nodes = {it["id"]: it for it in metadata["resolve"]["nodes"]}
    root = metadata["resolve"]["root"]
    seen, waiting = {root}, [root]
    while waiting:
        for dep in nodes[waiting.pop()]["deps"]:
            is_normal = any(it["kind"] is None for it in dep["dep_kinds"])
            is_macro = any("proc-macro" in it["kind"] for it in packages[dep["pkg"]]["targets"])
            if is_normal and not is_macro and dep["pkg"] not in seen:
                seen.add(dep["pkg"])
                waiting.append(dep["pkg"])
    seen.remove(root)
    return sorted((packages[it] for it in seen), key=lambda it: (it["name"], it["version"]))


def texts(package):
    folder = pathlib.Path(package["manifest_path"]).parent
    files = sorted(it for it in folder.iterdir() if it.is_file() and NAMES.match(it.name))
    if not files:
        sys.exit(f"notices: {package['name']} {package['version']} has no license file in {folder}")
    license = package["license"] or ""
    alternatives = re.split(r" OR |/", license)
    mit = [it for it in files if "mit" in it.name.lower()]
    if "MIT" in alternatives and mit:
        # COPYING says that there is a choice; COPYRIGHT and NOTICE name authors.
        others = [it for it in files if re.match(r"(copyright|notice)", it.name, re.IGNORECASE)]
        files = others + mit
    return ["\n".join(line.rstrip() for line in it.read_text("utf-8").strip().splitlines()) for it in files]


def standard_library():
    """The notices that come with the toolchain, as text."""
    path = pathlib.Path(run("rustc", "--print", "sysroot").strip(), "share/doc/rust/COPYRIGHT-library.html")
    if not path.is_file():
        sys.exit(f"notices: {path} is missing: install the toolchain with its documentation of licenses")
    page = path.read_text("utf-8")
    page = re.sub(r"<(style|head).*?</\1>", "", page, flags=re.DOTALL)
    # The files of a license stand in folded sections; a text that was given once is not given again.
    seen = set()

    def once(match):
        text = match.group(1).strip()
        key = re.sub(r"\s+", " ", text)
        if len(key) > 200 and key in seen:
            return "(as above)"
        seen.add(key)
        return text

    page = re.sub(r"<pre>(.*?)</pre>", once, page, flags=re.DOTALL)
    page = html.unescape(re.sub(r"<[^>]*>", "", page))
    page = "\n".join(line.strip() for line in page.splitlines())
    return re.sub(r"\n{3,}", "\n\n", page).strip()


def text(target):
    """The text of THIRD-PARTY-NOTICES.txt for an executable for this target."""
    metadata = json.loads(
        run("cargo", "metadata", "--format-version=1", "--locked", "--filter-platform", target)
    )
    users = {}
    for package in linked(metadata):
        users.setdefault("\n\n".join(texts(package)), []).append(package)
    parts = ["lspool contains the following software. Each part is under the license printed below its name."]
    for license, packages in users.items():
        parts.append(section("\n".join(map(heading, packages)), license))
    parts.append(section("The Rust standard library", standard_library()))
    if "musl" in target:
        parts.append(section("musl (MIT), https://musl.libc.org", MUSL))
    return "\n\n".join(parts) + "\n"


def heading(package):
    source = package["repository"] or f"https://crates.io/crates/{package['name']}"
    return f"{package['name']} {package['version']} ({package['license']}), {source}"


def section(head, body):
    return f"{RULE}\n{head}\n{RULE}\n\n{body}"


MUSL = """\
Copyright (c) 2005-2020 Rich Felker, et al.

Permission is hereby granted, free of charge, to any person obtaining a copy of this software and
associated documentation files (the "Software"), to deal in the Software without restriction, including
without limitation the rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell
copies of the Software, and to permit persons to whom the Software is furnished to do so, subject to the
following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial
portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT
LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO
EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER
IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR
THE USE OR OTHER DEALINGS IN THE SOFTWARE."""

"""The page that ships in the wheel is the one that its sources make, and asks for nothing from elsewhere."""

import hashlib
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
STATIC = ROOT / "src/sapwood/server/static"
SOURCES = (
    "packages/page/index.html",
    "packages/page/package-lock.json",
    "packages/page/vite.config.ts",
    "packages/page/src",
    "packages/react/src",
)


def test_the_page_was_built_from_the_sources_that_are_here() -> None:
    assert (STATIC / "SOURCE").read_text().strip() == _sum(), (
        "the page is older than its sources: run `npm ci && node build.mjs` in packages/page"
    )


def test_the_page_names_files_that_exist_and_has_no_script_or_style_of_its_own() -> None:
    html = (STATIC / "index.html").read_text()
    named = re.findall(r'(?:src|href)="\./([^"]+)"', html)

    assert sorted(named) == sorted(f"assets/{path.name}" for path in (STATIC / "assets").iterdir())
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\bstyle=|https?:", html)


def test_styles_load_nothing() -> None:
    for path in (STATIC / "assets").glob("*.css"):
        assert not re.search(r"@import|url\(", path.read_text()), path.name


def test_the_terms_of_every_bundled_library_are_there() -> None:
    terms = (STATIC / "LICENSES.txt").read_text()

    for name in ("react", "react-dom", "scheduler", "marked", "@tanstack/react-virtual", "@tanstack/virtual-core"):
        assert re.search(rf"^{re.escape(name)} \d[^ ]* \(MIT\)$", terms, re.MULTILINE), name


def _sum() -> str:
    """Return the sum that packages/page/build.mjs writes."""
    lines = [
        f"{path.relative_to(ROOT).as_posix()} {hashlib.sha256(path.read_bytes()).hexdigest()}\n" for path in _files()
    ]
    return hashlib.sha256("".join(sorted(lines)).encode()).hexdigest()


def _files() -> list[Path]:
    places = [ROOT / place for place in SOURCES]
    found = [path for place in places for path in ([place] if place.is_file() else place.rglob("*"))]
    return [path for path in found if path.is_file()]

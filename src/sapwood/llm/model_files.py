"""The model file for a first run without a key: which one, where it is kept, how it is fetched.

Laws: a file is only ever used under its final name after its SHA-256 was right; what was fetched
before a cut is kept and continued; nothing is fetched unless somebody called `fetch_model`.
"""

import fcntl
import hashlib
import os
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from io import BufferedRandom
from pathlib import Path
from typing import Protocol

from sapwood.core.errors import ConfigError

CHUNK_BYTES = 1 << 20
MAX_CUTS = 5
"""How often one source may break off, each time after some progress, before the next is asked."""


class ModelFileError(ConfigError):
    """No source gave the model file; the message names each source and its reason."""


class SourceError(Exception):
    """Raised BY sources: this source cannot give the file, or not the rest of it."""


class ChunkSource(Protocol):
    """Somewhere that the bytes of a model file can come from."""

    @property
    def name(self) -> str:
        """How the source is called in messages."""
        ...

    def read(self, start: int) -> Iterator[bytes]:
        """Yield the file's bytes from the offset on; raise SourceError where that fails."""
        ...


Progress = Callable[[int, int], None]
"""Told (bytes done, bytes total) after each chunk."""


@dataclass(frozen=True)
class ModelFile:
    """A model file that is known byte for byte."""

    name: str
    url: str
    sha256: str
    size_bytes: int
    licence: str


DEFAULT_MODEL = ModelFile(
    name="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
    url=(
        "https://huggingface.co/Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF/resolve/main/"
        "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"
    ),
    sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
    size_bytes=491_400_064,
    licence="Apache-2.0",
)
"""Small enough to fetch in a minute and to run on any laptop, large enough to call tools."""


def cache_folder() -> Path:
    """Name the folder that model files are kept in; it need not exist.

    `XDG_CACHE_HOME` is obeyed on every system; without it macOS uses `~/Library/Caches`.

        >>> cache_folder().parts[-2:]
        ('sapwood', 'models')
    """
    if root := os.environ.get("XDG_CACHE_HOME"):
        return Path(root) / "sapwood" / "models"
    caches = Path("Library", "Caches") if sys.platform == "darwin" else Path(".cache")
    return Path.home() / caches / "sapwood" / "models"


def find_model(file: ModelFile = DEFAULT_MODEL, *, folder: Path | None = None) -> Path | None:
    """Find the file in the cache, or say None; a file with the wrong content counts as none.

    The hash is computed once and remembered beside the file, with its size and time of change.

        >>> find_model(folder=Path("/nowhere")) is None
        True
    """
    path = (folder or cache_folder()) / file.name
    if not path.is_file():
        return None
    if _is_marked(path, file.sha256):
        return path
    if path.stat().st_size != file.size_bytes or _sha256(path) != file.sha256:
        return None
    _mark(path, file.sha256)
    return path


def fetch_model(
    file: ModelFile = DEFAULT_MODEL,
    *,
    folder: Path | None = None,
    more_sources: Sequence[ChunkSource] = (),
    progress: Progress | None = None,
    connect_timeout_seconds: float = 5.0,
) -> Path:
    """Return the file's path, fetching it first if it is not in the cache.

    The file's own address is asked first, then `more_sources` in order. An unfinished download
    is continued, also by another source.

    connect_timeout_seconds: short, so that a closed network is noticed at once.
    Raises ModelFileError when no source gave the whole, right file.

        >>> fetch_model(progress=lambda done, total: None)  # doctest: +SKIP
        PosixPath('/home/ada/.cache/sapwood/models/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf')
    """
    if found := find_model(file, folder=folder):
        return found
    path = (folder or cache_folder()) / file.name
    path.parent.mkdir(parents=True, exist_ok=True)
    home = HttpSource(file.url, connect_timeout_seconds=connect_timeout_seconds)
    part = path.with_name(f"{path.name}.part")
    reasons: list[str] = []
    for source in (home, *more_sources):
        with _opened_alone(part) as out:
            reason = _fill(out, file, source, progress or _ignore)
            # Renamed while still locked, so that nobody else opens it as a half-done download.
            if reason is None:
                part.replace(path)
                _mark(path, file.sha256)
                return path
        reasons.append(f"{source.name}: {reason}")
    raise ModelFileError(f"could not fetch {file.name}: " + "; ".join(reasons))


class HttpSource:
    """A file behind a plain HTTP address; a server that knows no ranges is read from the start.

    >>> HttpSource("https://example.org/tiny.gguf").name
    'https://example.org/tiny.gguf'
    """

    def __init__(self, url: str, *, connect_timeout_seconds: float = 5.0) -> None:
        self.name = url
        self._connect_timeout_seconds = connect_timeout_seconds

    def read(self, start: int) -> Iterator[bytes]:
        """Yield the bytes from the offset on."""
        import httpx2

        timeout = httpx2.Timeout(30.0, connect=self._connect_timeout_seconds)
        headers = {"Range": f"bytes={start}-", "Accept-Encoding": "identity"}
        try:
            with httpx2.stream("GET", self.name, headers=headers, timeout=timeout, follow_redirects=True) as response:
                if response.status_code not in (200, 206):
                    raise SourceError(f"the server answered {response.status_code}")
                skip = start if response.status_code == 200 else 0
                # As they come, not gathered into equal chunks: what arrived before a cut must be kept.
                for chunk in response.iter_bytes():
                    if len(chunk) > skip:
                        yield chunk[skip:]
                    skip = max(0, skip - len(chunk))
        except httpx2.HTTPError as error:
            raise SourceError(str(error) or type(error).__name__) from error


def _fill(out: BufferedRandom, file: ModelFile, source: ChunkSource, progress: Progress) -> str | None:
    """Bring the open part file to the whole, right content; return why that failed, or None."""
    for _ in range(MAX_CUTS):
        start = out.seek(0, os.SEEK_END)
        reason = _append(out, file, source, progress) if start < file.size_bytes else None
        end = out.seek(0, os.SEEK_END)
        if end >= file.size_bytes:
            return _check(out, file)
        if end == start:
            return reason or "it gave nothing"
    return f"it broke off {MAX_CUTS} times"


def _append(out: BufferedRandom, file: ModelFile, source: ChunkSource, progress: Progress) -> str | None:
    done = out.seek(0, os.SEEK_END)
    try:
        # A source that breaks off must still close its connection or folder: hence the generator's
        # own close, which a plain iterator does not have.
        with _closed(source.read(done)) as chunks:
            for chunk in chunks:
                out.write(chunk)
                done += len(chunk)
                progress(done, file.size_bytes)
                if done > file.size_bytes:
                    break
    except SourceError as error:
        return str(error)
    finally:
        out.flush()
    return None


def _check(out: BufferedRandom, file: ModelFile) -> str | None:
    """Compare the content with the pinned hash; wrong content is thrown away, not continued."""
    out.seek(0)
    found = hashlib.file_digest(out, "sha256").hexdigest()
    if found == file.sha256:
        return None
    out.truncate(0)
    return f"wrong content: SHA-256 {found} is not {file.sha256}"


@contextmanager
def _closed(chunks: Iterator[bytes]) -> Generator[Iterator[bytes]]:
    close = getattr(chunks, "close", None)
    try:
        yield chunks
    finally:
        if close is not None:
            close()


@contextmanager
def _opened_alone(part: Path) -> Generator[BufferedRandom]:
    with closing(part.open("a+b")) as out:
        try:
            fcntl.flock(out, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ModelFileError(f"{part} is being fetched by another process; wait for it") from error
        yield out


def _marker(path: Path) -> Path:
    return path.with_name(f"{path.name}.ok")


def _mark_text(path: Path, sha256: str) -> str:
    status = path.stat()
    return f"{sha256} {status.st_size} {status.st_mtime_ns}\n"


def _is_marked(path: Path, sha256: str) -> bool:
    try:
        return _marker(path).read_text() == _mark_text(path, sha256)
    except FileNotFoundError:
        return False


def _mark(path: Path, sha256: str) -> None:
    _marker(path).write_text(_mark_text(path, sha256))


def _sha256(path: Path) -> str:
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _ignore(done: int, total: int) -> None:
    """Nobody watches."""

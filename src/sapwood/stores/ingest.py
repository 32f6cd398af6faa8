"""ingest: a file or a folder into a memory, and again when it has changed.

Laws: what has not changed is not touched; what is gone from the folder is gone from the store; a document belongs to
the folder that brought it, and no other folder replaces or removes it; a file that cannot be read is reported with the
reason, keeps what was known of it, and never ends the rest; nothing outside of the folder is read.
"""

import hashlib
from collections.abc import Iterable, Sequence
from itertools import chain, count
from os import PathLike
from pathlib import Path
from typing import ClassVar, Literal

from sapwood.core.errors import ConfigError, ProviderNotInstalledError, TooLargeError
from sapwood.core.require import shown
from sapwood.core.scope import as_path
from sapwood.core.struct import Data
from sapwood.retrieval.documents import Document
from sapwood.retrieval.read_document import ReadDocument, is_known, read_document
from sapwood.retrieval.unreadable import UnreadableError
from sapwood.stores.documents import ChunkStore, DocumentIndex, StoredDocument
from sapwood.stores.walk import IGNORED, files_of, is_ignored, read_file

MAX_BYTES = 20_000_000


class FileNote(Data, frozen=True, tag="file_note"):
    """A file, and what is to be told of it."""

    type: ClassVar[Literal["file_note"]] = "file_note"
    path: str
    reason: str


class IngestReport(Data, frozen=True, tag="ingest_report"):
    """What an ingestion did, by path from its folder.

    unchanged: was in the store and was not touched. removed: is gone from the folder, and now from the store. failed:
    could not be read; what the store knew of it is kept. skipped: files that are no text and do not pretend to be.
    empty: files with nothing to be found; what the store knew of such a one is removed, and it is told there, too.
    notes: what was guessed in reading, such as an encoding, and by what name a document is kept whose own belongs to
    another folder. chunks: that were written.
    """

    type: ClassVar[Literal["ingest_report"]] = "ingest_report"
    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    failed: tuple[FileNote, ...] = ()
    skipped: tuple[str, ...] = ()
    notes: tuple[FileNote, ...] = ()
    chunks: int = 0
    empty: tuple[str, ...] = ()


def ingest(
    path: str | PathLike[str],
    memory: ChunkStore | DocumentIndex,
    *,
    namespace: str = "/",
    glob: str | Sequence[str] = "*",
    ignore: Sequence[str] = IGNORED,
    max_bytes: int = MAX_BYTES,
    dry_run: bool = False,
) -> IngestReport:
    """Bring the documents of a file or a folder into a memory, and return what was done.

    Text, Markdown, HTML, code and, with the extra `documents`, PDF. Run it again after changes: only those are read
    into the store. What another folder brought is left alone. namespace: where they lie; folders below add theirs.
    glob: patterns of names, or of paths from the folder, of which one must fit. ignore: patterns that leave files and
    folders out; hidden ones and links always are. max_bytes: of a file. dry_run: only report. To choose sizes of
    chunks, hand in a DocumentIndex.

    Raises ConfigError where there is no such file or folder.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from sapwood import create_memory_store
    >>> memory = create_memory_store()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "bees.md").write_text("# Bees\\n\\nBees like lavender.")
    ...     first, again = ingest(folder, memory), ingest(folder, memory)
    >>> first.added, again.unchanged
    (('bees.md',), ('bees.md',))
    """
    if isinstance(max_bytes, bool) or not isinstance(max_bytes, int) or max_bytes < 1:  # pyright: ignore[reportUnnecessaryIsInstance] - people are not typed
        raise ConfigError(f"max_bytes must be at least 1, not {shown(max_bytes)}")
    try:
        root = Path(path).resolve(strict=True)
    except (OSError, RuntimeError, ValueError) as error:
        raise ConfigError(f"there is no file or folder {shown(str(path))}: {error}") from error
    index = memory if isinstance(memory, DocumentIndex) else DocumentIndex(memory)
    patterns = (glob,) if isinstance(glob, str) else tuple(glob)
    return _Ingestion(index, root, as_path(namespace), patterns, tuple(ignore), max_bytes, dry_run).run()


class _Ingestion:
    def __init__(
        self,
        index: DocumentIndex,
        root: Path,
        namespace: str,
        glob: Sequence[str],
        ignore: Sequence[str],
        max_bytes: int,
        dry_run: bool,
    ) -> None:
        self._index = index
        self._is_file = not root.is_dir()
        self._root = root.parent if self._is_file else root
        self._only = root.name
        self._namespace = namespace
        self._glob = glob
        self._ignore = ignore
        self._max_bytes = max_bytes
        self._dry_run = dry_run
        # Tells what this folder brought into this namespace from all else, and gives no path of the machine away.
        origin = f"{self._root}\0{namespace}".encode("utf-8", "surrogatepass")
        self._origin = hashlib.sha256(origin).hexdigest()[:16]
        stored = index.documents()
        self._ids = {item.id for item in stored}
        self._known = {str(item.meta.get("path")): item for item in stored if item.meta.get("folder") == self._origin}
        self._done: dict[str, list[str]] = {
            name: [] for name in ("added", "changed", "unchanged", "removed", "skipped", "empty")
        }
        self._failed: list[FileNote] = []
        self._notes: list[FileNote] = []
        self._chunks = 0

    def run(self) -> IngestReport:
        present: set[str] = set()
        unread: list[str] = []
        files: Iterable[tuple[str, str]] = [(self._only, "")] if self._is_file else files_of(self._root, self._ignore)
        for path, problem in files:
            if problem:
                unread.append(path)
                self._failed.append(FileNote(_printable(path), problem))
                continue
            present.add(path)
            if self._is_file or is_ignored(path, self._glob):
                self._take(path)
        if not self._is_file:
            self._remove_all_but(present, unread)
        return IngestReport(
            **{name: tuple(found) for name, found in self._done.items()},
            failed=tuple(self._failed),
            notes=tuple(self._notes),
            chunks=self._chunks,
        )

    def _take(self, path: str) -> None:
        try:
            if path != _printable(path):
                raise UnreadableError("its name is not UTF-8; rename it")
            found = read_document(path, read_file(self._root / path, self._max_bytes))
            self._keep(path, found)
        except UnreadableError as error:
            if is_known(path) or self._is_file or str(error) != _NO_TEXT:
                self._failed.append(FileNote(_printable(path), str(error)))
            else:
                self._done["skipped"].append(path)
        except (ProviderNotInstalledError, TooLargeError) as error:
            self._failed.append(FileNote(path, str(error)))

    def _keep(self, path: str, found: ReadDocument) -> None:
        folder = path.rpartition("/")[0]
        known = self._known.get(path)
        id = self._free_id(path) if known is None else known.id
        document = Document(
            id,
            found.text,
            found.title,
            found.kind,
            f"{self._namespace}/{folder}",
            {"path": path, "folder": self._origin},
        )
        if found.note:
            self._notes.append(FileNote(path, found.note))
        if known is not None and known.digest == self._index.digest_of(document):
            self._done["unchanged"].append(path)
            return
        chunks = found.with_pages(self._index.chunks_of(document))
        if not chunks:
            self._done["empty"].append(path)
            if known is not None:
                self._remove(path, known)
            return
        if not self._dry_run:
            self._index.replace(document, chunks)
        if known is None and id != self._plain_id(path):
            self._notes.append(FileNote(path, f"its name belongs to what came from elsewhere; it is kept as {id}"))
        self._ids.add(id)
        self._done["added" if known is None else "changed"].append(path)
        self._chunks += len(chunks)

    def _plain_id(self, path: str) -> str:
        return f"{self._namespace}/{path}".lstrip("/")

    def _free_id(self, path: str) -> str:
        """Return the name of a document that is new: its path, with the name of its folder where that is taken."""
        plain, folder = self._plain_id(path), _printable(self._root.name) or "/"
        others = (f"{plain} ({folder} {number})" for number in count(2))
        return next(id for id in chain((plain, f"{plain} ({folder})"), others) if id not in self._ids)

    def _remove_all_but(self, present: set[str], unread: Sequence[str]) -> None:
        for path, item in self._known.items():
            if path not in present and not _is_below(path, unread):
                self._remove(path, item)

    def _remove(self, path: str, item: StoredDocument) -> None:
        if not self._dry_run:
            self._index.remove(item.id)
        self._done["removed"].append(path)


_NO_TEXT = "it is not text"


def _is_below(path: str, folders: Sequence[str]) -> bool:
    return any(folder == "." or path.startswith(f"{folder}/") for folder in folders)


def _printable(path: str) -> str:
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")

"""The rows of conversations in SQLite, within a transaction that somebody else began."""

import sqlite3
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from sapwood.core.errors import StoreError
from sapwood.core.struct import Data
from sapwood.stores.rows import ConversationRow, Span, Titled

D = TypeVar("D", bound=Data)

_COLUMNS = "conversation_id, version, fence, holder, spans, started_at, updated_at"


class ConversationRows:
    """The rows of conversations, over one connection."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def conversation(self, conversation_id: str) -> ConversationRow | None:
        """Return a conversation."""
        found = self._one(f"SELECT {_COLUMNS} FROM conversation WHERE conversation_id = ?", conversation_id)
        return _row(found) if found is not None else None

    def put_conversation(self, row: ConversationRow) -> None:
        """Store a conversation."""
        spans = msgspec.json.encode(row.spans).decode()
        self._connection.execute(
            f"INSERT INTO conversation ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (conversation_id) DO "
            "UPDATE SET version = excluded.version, fence = excluded.fence, holder = excluded.holder, "
            "spans = excluded.spans, updated_at = excluded.updated_at",
            (row.conversation_id, row.version, row.fence, row.holder, spans, row.started_at, row.updated_at),
        )

    def drop_conversation(self, conversation_id: str) -> None:
        """Remove a conversation and its messages."""
        n = self._number(conversation_id)
        for table, column in (("message", "conversation"), ("turn", "conversation"), ("conversation", "n")):
            self._connection.execute(f"DELETE FROM {table} WHERE {column} = ?", (n,))

    def conversations(self, limit: int, prefix: str, before: str | None) -> list[Titled]:
        """Return the conversations whose id begins so, the one that was begun last first, with their first prompt."""
        # As a range, which the index on the id can be asked for; a text sorts as its bytes.
        wanted = ["1"]
        if prefix:
            wanted.append("substr(conversation_id, 1, length(:prefix)) = :prefix AND conversation_id >= :prefix")
        if before is not None:
            wanted.append("n < (SELECT n FROM conversation WHERE conversation_id = :before)")
        found = self._connection.execute(
            f"SELECT {_COLUMNS}, (SELECT prompt FROM run WHERE run.conversation_id = conversation.conversation_id "
            f"ORDER BY run.n LIMIT 1) FROM conversation WHERE {' AND '.join(wanted)} ORDER BY n DESC LIMIT :limit",
            {"prefix": prefix, "before": before, "limit": limit},
        )
        return [Titled(_row(item[:-1]), item[-1] or "") for item in found]

    def messages(self, conversation_id: str, spans: Sequence[Span]) -> list[tuple[int, str]]:
        """Return numbered messages, span by span."""
        n = self._number(conversation_id)
        found: list[tuple[int, str]] = []
        for first, last in spans:
            found += self._connection.execute(
                "SELECT seq, json FROM message WHERE conversation = ? AND seq BETWEEN ? AND ? ORDER BY seq",
                (n, first, last),
            )
        return found

    def add_messages(self, conversation_id: str, first: int, messages: Sequence[str]) -> None:
        """Store messages, numbered from this one on."""
        n = self._number(conversation_id)
        self._connection.executemany(
            "INSERT INTO message (conversation, seq, json) VALUES (?, ?, ?)",
            [(n, seq, text) for seq, text in enumerate(messages, first)],
        )

    def turn(self, conversation_id: str, run_id: str) -> int | None:
        """Return the version that a run's append reached."""
        found = self._one(
            "SELECT version FROM turn WHERE conversation = ? AND run_id = ?", self._number(conversation_id), run_id
        )
        return whole(found[0]) if found is not None else None

    def put_turn(self, conversation_id: str, run_id: str, version: int) -> None:
        """Note the version that a run's append reached."""
        self._connection.execute(
            "INSERT INTO turn (conversation, run_id, version) VALUES (?, ?, ?)",
            (self._number(conversation_id), run_id, version),
        )

    def _number(self, conversation_id: str) -> int:
        found = self._one("SELECT n FROM conversation WHERE conversation_id = ?", conversation_id)
        return whole(found[0]) if found is not None else 0

    def _one(self, query: str, *values: Any) -> tuple[Any, ...] | None:
        found: tuple[Any, ...] | None = self._connection.execute(query, values).fetchone()
        return found


def checked(kind: type[D], columns: str, values: Sequence[Any], *, json: str) -> D:
    """Return a row of what was read, each value of its type; raises StoreError where the file is damaged.

    json: the column that holds JSON.
    """
    found = dict(zip(columns.split(", "), values, strict=True))
    try:
        if found[json] is not None:
            found[json] = msgspec.json.decode(found[json])
        return msgspec.convert(found, kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, TypeError) as error:
        raise StoreError(
            f"a {kind.__name__} of the file cannot be read: {error}. The file is damaged; take it from a backup"
        ) from error


def whole(value: Any) -> int:
    """Return a number that was read; raises StoreError where a damaged file holds something else."""
    if not isinstance(value, int):
        raise StoreError(f"a number of the file reads {value!r}. The file is damaged; take it from a backup")
    return value


def _row(values: Sequence[Any]) -> ConversationRow:
    return checked(ConversationRow, _COLUMNS, values, json="spans")

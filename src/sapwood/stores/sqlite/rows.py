"""The rows of runs in SQLite, within a transaction that somebody else began."""

import hashlib
from collections.abc import Sequence
from typing import Any

from sapwood.core.codec import to_json
from sapwood.stores.rows import Dated, EventRow, RunRow
from sapwood.stores.sqlite.conversations import ConversationRows, checked, whole

_COLUMNS = "run_id, conversation_id, base_seq, fence, state, stopped_by, error, prompt, past, started_at, lease, format"
_DATED = (
    f"SELECT {_COLUMNS}, (SELECT max(seq) FROM event WHERE run = n), "
    "(SELECT at FROM event WHERE run = n ORDER BY seq DESC LIMIT 1) FROM run"
)


class SqliteRows(ConversationRows):
    """All rows, over one connection."""

    def run(self, run_id: str) -> RunRow | None:
        """Return a run."""
        found = self._one(f"SELECT {_COLUMNS} FROM run WHERE run_id = ?", run_id)
        return _run_row(found) if found is not None else None

    def put_run(self, row: RunRow) -> None:
        """Store a run."""
        lease = to_json(row.lease).decode() if row.lease is not None else None
        values = (
            *(row.run_id, row.conversation_id, row.base_seq, row.fence, row.state, row.stopped_by, row.error),
            *(row.prompt, row.past, row.started_at, lease, row.format),
        )
        self._connection.execute(
            f"INSERT INTO run ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (run_id) DO UPDATE "
            "SET fence = excluded.fence, state = excluded.state, stopped_by = excluded.stopped_by, "
            "error = excluded.error, lease = excluded.lease",
            values,
        )

    def drop_run(self, row: RunRow) -> None:
        """Remove a run, its events, and its past where no other run has it."""
        n = self._n(row.run_id)
        self._connection.execute("DELETE FROM event WHERE run = ?", (n,))
        self._connection.execute("DELETE FROM run WHERE n = ?", (n,))
        place = row.past
        while place is not None:
            kept = self._one(
                "SELECT before FROM past WHERE id = ? AND NOT EXISTS (SELECT 1 FROM run WHERE past = ?) "
                "AND NOT EXISTS (SELECT 1 FROM past WHERE before = ?)",
                place,
                place,
                place,
            )
            if kept is None:
                return  # another run goes on from here
            self._connection.execute("DELETE FROM past WHERE id = ?", (place,))
            place = kept[0]

    def dated(self, run_id: str) -> Dated | None:
        """Return a run with what its events tell."""
        found = self._one(f"{_DATED} WHERE run_id = ?", run_id)
        return _dated(found) if found is not None else None

    def runs(
        self, conversation_id: str | None, *, unfinished: bool, limit: int, before: str | None = None
    ) -> list[Dated]:
        """Return runs, the one that began last first; all of them for a limit below 0. before: that began before it."""
        wanted = ["1"]
        if before is not None:
            wanted.append("n < (SELECT n FROM run WHERE run_id = :before)")
        if unfinished:
            wanted.append("state <> 'ended'")
        if conversation_id is not None:
            wanted.append("conversation_id = :conversation_id")
        found = self._connection.execute(
            f"{_DATED} WHERE {' AND '.join(wanted)} ORDER BY n DESC LIMIT :limit",
            {"conversation_id": conversation_id, "limit": limit, "before": before},
        )
        return [_dated(item) for item in found]

    def version(self, run_id: str) -> int:
        """Return the number of the last event."""
        found = self._one("SELECT max(seq) FROM event WHERE run = ?", self._n(run_id))
        return whole(found[0] or 0) if found is not None else 0

    def add_events(self, run_id: str, after: int, events: Sequence[EventRow], at: float) -> None:
        """Store events, numbered from the one after this."""
        n = self._n(run_id)
        self._connection.executemany(
            "INSERT INTO event (run, seq, at, call, json) VALUES (?, ?, ?, ?, ?)",
            [(n, seq, at, event.call, event.json) for seq, event in enumerate(events, after + 1)],
        )

    def times(self, run_id: str) -> list[float]:
        """Return when the events of a run were stored."""
        found = self._connection.execute("SELECT at FROM event WHERE run = ? ORDER BY seq", (self._n(run_id),))
        return [at for (at,) in found]

    def events(self, run_id: str, after: int) -> list[tuple[int, str]]:
        """Return the events after this number."""
        return self._connection.execute(
            "SELECT seq, json FROM event WHERE run = ? AND seq > ? ORDER BY seq", (self._n(run_id), after)
        ).fetchall()

    def events_of_call(self, run_id: str, call: str) -> list[str]:
        """Return the events that are bound to a call, in order."""
        found = self._connection.execute(
            "SELECT json FROM event WHERE run = ? AND call = ? ORDER BY seq", (self._n(run_id), call)
        )
        return [text for (text,) in found]

    def put_past(self, messages: Sequence[str]) -> int:
        """Store a chain of nodes, of which those that are there already are only found."""
        place: int | None = None
        digest = b""
        for text in messages:
            digest = hashlib.sha256(digest + text.encode()).digest()
            found = self._one("SELECT id FROM past WHERE digest = ?", digest)
            if found is not None:
                place = found[0]
                continue
            added = self._connection.execute(
                "INSERT INTO past (before, digest, json) VALUES (?, ?, ?)", (place, digest, text)
            )
            place = added.lastrowid
        return place or 0

    def past(self, place: int) -> list[str]:
        """Return the messages that are kept there."""
        found = self._connection.execute(
            "WITH RECURSIVE chain(id, before, json, depth) AS (SELECT id, before, json, 0 FROM past WHERE id = ? "
            "UNION ALL SELECT past.id, past.before, past.json, depth + 1 FROM past, chain WHERE past.id = chain.before "
            "AND past.id < chain.id) SELECT json FROM chain ORDER BY depth DESC",
            (place,),
        )
        return [text for (text,) in found]

    def _n(self, run_id: str) -> int:
        found = self._one("SELECT n FROM run WHERE run_id = ?", run_id)
        return whole(found[0]) if found is not None else 0


def _run_row(values: Sequence[Any]) -> RunRow:
    return checked(RunRow, _COLUMNS, values, json="lease")


def _dated(values: Sequence[Any]) -> Dated:
    *row, version, at = values
    found = _run_row(row)
    return Dated(found, whole(version or 0), found.started_at if at is None else at)

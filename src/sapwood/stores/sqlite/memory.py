"""The rows of memories in SQLite, within a transaction that somebody else began."""

import os
import sqlite3
from collections.abc import Callable, Collection, Iterable
from typing import TypeAlias

import msgspec

from sapwood.core.errors import StoreError
from sapwood.core.memory import MemoryScope, Origin
from sapwood.stores.memory_rows import ConversationRow, MemoryRow, SpaceRow, State, speaker_number
from sapwood.stores.sqlite.memory_index import COLUMNS, ROW, MemoryIndex, envelope
from sapwood.stores.sqlite.seal import SECRET_BYTES, hashed, sealed

_SPACE = "SELECT p.n, s.secret, p.sealed FROM memory_space p JOIN memory_secret s ON s.n = p.secret"
_CONVERSATION = "SELECT n, space, '', last, records FROM memory_conversation"
_KEY = "secret"


class SqliteMemoryRows(MemoryIndex):
    """All rows of memories, over one connection.

    on_scrub: called where no file is to keep anything of what is deleted.
    """

    def __init__(self, connection: sqlite3.Connection, on_scrub: Callable[[], None]) -> None:
        super().__init__(connection)
        self.scrub = on_scrub

    def setting(self, name: str) -> str | None:
        """Return what is noted about the whole store."""
        found = self._one("SELECT value FROM memory_setting WHERE name = ?", name)
        return str(found[0]) if found is not None else None

    def put_setting(self, name: str, value: str) -> None:
        """Note something about the whole store."""
        self._connection.execute("INSERT OR REPLACE INTO memory_setting VALUES (?, ?)", (name, value))

    def _store_key(self, text: str, of: bytes) -> bytes:
        """Return what stands for a text that is looked for in the whole store."""
        known = self._space_secrets.get(0)
        if known is None:
            found = self.setting(_KEY)
            if found is None:
                found = os.urandom(SECRET_BYTES).hex()
                self.put_setting(_KEY, found)
            known = self._space_secrets[0] = bytes.fromhex(found)
        return hashed(text, known, of)

    def _space_key(self, space: int, text: str | bytes, of: bytes) -> bytes:
        return hashed(text, self.secret_of(space), of)

    def spaces(self, user: str | None, agent: str | None) -> list[SpaceRow]:
        """Return the spaces of a user and an agent."""
        if self.setting(_KEY) is None:
            return []
        owner = self._store_key(user, b"user") if user is not None else None
        helper = self._store_key(agent, b"agent") if agent is not None else None
        if owner is not None:
            found = self._connection.execute(
                f"{_SPACE} WHERE p.owner = ? AND (? IS NULL OR p.agent = ?) ORDER BY p.n", (owner, helper, helper)
            )
        elif helper is not None:
            found = self._connection.execute(f"{_SPACE} WHERE p.agent = ? ORDER BY p.n", (helper,))
        else:
            found = self._connection.execute(f"{_SPACE} ORDER BY p.n")
        return [_space(*values) for values in found]

    def space(self, number: int) -> SpaceRow | None:
        """Return a space."""
        found = self._one(f"{_SPACE} WHERE p.n = ?", number)
        return _space(*found) if found is not None else None

    def space_of(self, scope: MemoryScope) -> SpaceRow | None:
        """Return the space of exactly this user, agent and namespace."""
        found = self._one(f"{_SPACE} WHERE p.scope = ?", self._store_key(_name(scope), b"scope"))
        return _space(*found) if found is not None else None

    def add_space(self, scope: MemoryScope) -> SpaceRow:
        """Make a space."""
        number, secret = self._secrets.new()
        added = self._connection.execute(
            "INSERT INTO memory_space (scope, owner, agent, secret, sealed) VALUES (?, ?, ?, ?, ?)",
            (
                self._store_key(_name(scope), b"scope"),
                self._store_key(scope.user, b"user") if scope.user is not None else None,
                self._store_key(scope.agent, b"agent") if scope.agent is not None else None,
                *(number, sealed(_name(scope).encode(), secret)),
            ),
        )
        return SpaceRow(added.lastrowid or 0, scope.user, scope.agent, scope.namespace)

    def drop_space(self, number: int) -> int:
        """Remove a space with all that is in it."""
        run = self._connection.execute
        self._secrets.forget_those("SELECT secret FROM memory WHERE space = ?", number)
        self._secrets.forget_those("SELECT secret FROM memory_speaker WHERE space = ?", number)
        self._secrets.forget_those("SELECT secret FROM memory_space WHERE n = ?", number)
        of_space = "(SELECT n FROM memory WHERE space = ?)"
        run(f"DELETE FROM memory_body WHERE n IN {of_space}", (number,))
        run(f"DELETE FROM memory_derived WHERE child IN {of_space}", (number,))
        count = run("DELETE FROM memory WHERE space = ?", (number,)).rowcount
        models = "model IN (SELECT n FROM memory_model)"
        for place in (number, -number):
            self._secrets.forget_those(f"SELECT secret FROM memory_vector WHERE {models} AND place = ?", place)
            run(f"DELETE FROM memory_vector WHERE {models} AND place = ?", (place,))
            run("DELETE FROM memory_posting WHERE place = ?", (place,))
            run("DELETE FROM memory_tally WHERE place = ?", (place,))
        for table in ("memory_speaker", "memory_conversation"):
            run(f"DELETE FROM {table} WHERE space = ?", (number,))
        run("DELETE FROM memory_space WHERE n = ?", (number,))
        self._space_secrets.pop(number, None)
        return count

    def has_records(self, space: int) -> bool:
        """Tell whether a space has any record."""
        return self._one("SELECT 1 FROM memory WHERE space = ? LIMIT 1", space) is not None

    def conversation(self, space: int, name: str) -> ConversationRow | None:
        """Return a conversation of a space."""
        key = self._space_key(space, name, b"conversation")
        found = self._one(f"{_CONVERSATION} WHERE space = ? AND name = ?", space, key)
        return ConversationRow(*found)._replace(name=name) if found is not None else None

    def conversation_of(self, number: int) -> ConversationRow | None:
        """Return a conversation by its number."""
        found = self._one(f"{_CONVERSATION} WHERE n = ?", number)
        return ConversationRow(*found) if found is not None else None

    def put_conversation(self, row: ConversationRow) -> ConversationRow:
        """Store a conversation."""
        if row.number:
            self._connection.execute(
                "UPDATE memory_conversation SET last = ?, records = ? WHERE n = ?", (row.last, row.records, row.number)
            )
            return row
        added = self._connection.execute(
            "INSERT INTO memory_conversation (space, name, last, records) VALUES (?, ?, ?, ?)",
            (row.space, self._space_key(row.space, row.name, b"conversation"), row.last, row.records),
        )
        return row._replace(number=added.lastrowid or 0)

    def drop_conversation(self, number: int) -> None:
        """Remove a conversation."""
        self._connection.execute("DELETE FROM memory_conversation WHERE n = ?", (number,))

    def spoke(self, space: int, name: str, change: int) -> None:
        """Count records of a speaker in a space."""
        speaker = speaker_number(name)
        found = self._one("SELECT records, secret FROM memory_speaker WHERE space = ? AND speaker = ?", space, speaker)
        if found is None:
            number, secret = self._secrets.new()
            self._connection.execute(
                "INSERT INTO memory_speaker VALUES (?, ?, ?, ?, ?)",
                (space, speaker, change, number, sealed(name.encode(), secret)),
            )
        elif found[0] + change > 0:
            self._connection.execute(
                "UPDATE memory_speaker SET records = ? WHERE space = ? AND speaker = ?",
                (found[0] + change, space, speaker),
            )
        else:
            self._secrets.forget(found[1])
            self._connection.execute("DELETE FROM memory_speaker WHERE space = ? AND speaker = ?", (space, speaker))

    def speakers(self, spaces: Collection[int]) -> dict[str, int]:
        """Return who speaks in these spaces."""
        found = self._connection.execute(
            "SELECT o.speaker, s.secret, o.sealed FROM json_each(?) j CROSS JOIN memory_speaker o "
            "ON o.space = j.value JOIN memory_secret s ON s.n = o.secret",
            (msgspec.json.encode(list(spaces)).decode(),),
        )
        return {sealed(raw, secret).decode(): speaker for speaker, secret, raw in found}

    def next_number(self) -> int:
        """Return the number of the next record."""
        found = self._one("SELECT max(n) FROM memory")
        return (found[0] or 0) + 1 if found is not None else 1

    def add(self, row: MemoryRow) -> None:
        """Store a new record."""
        number, secret = self._secrets.new()
        self._connection.execute(
            f"INSERT INTO memory ({COLUMNS}) VALUES ({', '.join('?' * 20)})", (row.number, *self._values(row), number)
        )
        self._connection.execute("INSERT INTO memory_body VALUES (?, ?)", (row.number, sealed(envelope(row), secret)))

    def put(self, row: MemoryRow) -> None:
        """Store a record anew under its number."""
        found = self._one(
            "SELECT m.secret, s.secret, b.sealed FROM memory m JOIN memory_secret s ON s.n = m.secret "
            "JOIN memory_body b ON b.n = m.n WHERE m.n = ?",
            row.number,
        )
        if found is None:
            raise StoreError(f"memory {row.number} of the file is missing. The file is damaged; take it from a backup")
        number, secret, before = found
        raw = envelope(row)
        if sealed(before, secret) != raw:
            self._secrets.forget(number)
            number, secret = self._secrets.new()
            self._connection.execute("UPDATE memory_body SET sealed = ? WHERE n = ?", (sealed(raw, secret), row.number))
        names = COLUMNS.split(", ")[1:]
        self._connection.execute(
            f"UPDATE memory SET {', '.join(f'{name} = ?' for name in names)} WHERE n = ?",
            (*self._values(row), number, row.number),
        )

    def _values(self, row: MemoryRow) -> tuple[object, ...]:
        """Return the values of the columns after the number and before the secret."""
        return (
            *(row.space, row.state, row.origin, row.kind, row.conversation, row.position, row.speaker, row.at),
            *(row.flags, row.length, row.importance, row.valid_from, row.valid_to, row.expires_at),
            *(int(row.is_indexed), self._store_key(row.id, b"id")),
            self._space_key(row.space, f"{row.conversation}/{row.key}", b"key") if row.key is not None else None,
            self._space_key(row.space, row.digest, b"same") if row.digest else None,
        )

    def remove(self, row: MemoryRow) -> None:
        """Remove a record, and what it is derived from."""
        self.derive((), row.number)
        self._secrets.forget_those("SELECT secret FROM memory WHERE n = ?", row.number)
        for table in ("memory", "memory_body"):
            self._connection.execute(f"DELETE FROM {table} WHERE n = ?", (row.number,))

    def with_id(self, id: str) -> list[MemoryRow]:
        """Return the records of an id."""
        return self.found(f"{ROW} WHERE m.id = ? ORDER BY m.n", (self._store_key(id, b"id"),))

    def with_key(self, space: int, conversation: int, key: str) -> MemoryRow | None:
        """Return the record that was saved with a key in a conversation."""
        once = self._space_key(space, f"{conversation}/{key}", b"key")
        found = self.found(f"{ROW} WHERE m.space = ? AND m.once = ?", (space, once))
        return found[0] if found else None

    def with_digest(self, space: int, digest: bytes) -> list[MemoryRow]:
        """Return the records of a digest."""
        key = self._space_key(space, digest, b"same")
        return self.found(f"{ROW} WHERE m.space = ? AND m.same = ? ORDER BY m.n", (space, key))

    def rows(self, numbers: Collection[int]) -> dict[int, MemoryRow]:
        """Return records by number."""
        wanted = msgspec.json.encode(list(numbers)).decode()
        found = self.found(f"{ROW} WHERE m.n IN (SELECT value FROM json_each(?)) ORDER BY m.n", (wanted,))
        return {row.number: row for row in found}

    def at(self, conversation: int, position: int) -> int:
        """Return the number of a record at a position."""
        found = self._one(
            "SELECT n FROM memory WHERE conversation = ? AND position = ? AND conversation > 0", conversation, position
        )
        return int(found[0]) if found is not None else 0

    def page(self, spaces: Collection[int], conversation: int, after: int, limit: int) -> list[MemoryRow]:
        """Return records after a number."""
        if conversation:
            return self.found(
                f"{ROW} WHERE m.conversation = ? AND m.conversation > 0 AND m.n > ? ORDER BY m.n LIMIT ?",
                (conversation, after, limit),
            )
        if len(spaces) == 1:
            return self.found(f"{ROW} WHERE m.space = ? AND m.n > ? ORDER BY m.n LIMIT ?", (*spaces, after, limit))
        wanted = msgspec.json.encode(list(spaces)).decode()
        return self.found(
            f"{ROW} WHERE m.n > ? AND +m.space IN (SELECT value FROM json_each(?)) ORDER BY m.n LIMIT ?",
            (after, wanted, limit),
        )

    def latest(
        self, spaces: Collection[int], conversations: Collection[int], kind: str | None, now: int, limit: int
    ) -> list[MemoryRow]:
        """Return the newest records that are neither superseded nor past their end."""
        where, values = _within(spaces, conversations)
        newest = (
            f"SELECT n FROM memory WHERE {where} AND +state <> 'superseded' AND (? IS NULL OR kind = ?) "
            "AND (+expires_at IS NULL OR +expires_at > ?) ORDER BY n DESC LIMIT ?"
        )
        return self.found(f"{ROW} WHERE m.n IN ({newest}) ORDER BY m.n", (*values, kind, kind, now, limit))

    def states(self, spaces: Collection[int], conversations: Collection[int]) -> dict[State, int]:
        """Return how many records there are of each state."""
        where, values = _within(spaces, conversations)
        return dict(
            self._connection.execute(f"SELECT state, count(*) FROM memory WHERE {where} GROUP BY +state", values)
        )

    def origins(self, numbers: Collection[int]) -> dict[int, Origin]:
        """Return the origins of records."""
        wanted = msgspec.json.encode(list(numbers)).decode()
        return dict(
            self._connection.execute(
                "SELECT m.n, m.origin FROM json_each(?) j CROSS JOIN memory m ON m.n = j.value", (wanted,)
            )
        )

    def expired(self, space: int, now: int, limit: int) -> list[int]:
        """Return the numbers of records that are to be deleted."""
        found = self._connection.execute(
            "SELECT n FROM memory WHERE space = ? AND expires_at <= ? ORDER BY n LIMIT ?", (space, now, limit)
        )
        return [number for (number,) in found]

    def past_end(self, spaces: Collection[int], now: int) -> set[int]:
        """Return the numbers of records that are to be deleted by now."""
        return self._numbers("m.expires_at <= ?", spaces, now)

    def out_of_time(self, spaces: Collection[int], at: int, *, with_old: bool) -> set[int]:
        """Return the numbers of records that are not true at a time."""
        state = "" if with_old else " AND m.state = 'current'"
        return self._numbers(f"m.valid_to <= ?{state}", spaces, at) | self._numbers(
            f"m.valid_from > ?{state}", spaces, at
        )

    def _numbers(self, condition: str, spaces: Collection[int], value: int) -> set[int]:
        if len(spaces) == 1:
            found = self._connection.execute(
                f"SELECT m.n FROM memory m WHERE m.space = ? AND {condition}", (*spaces, value)
            )
        else:
            found = self._connection.execute(
                f"SELECT m.n FROM json_each(?) j CROSS JOIN memory m ON m.space = j.value WHERE {condition}",
                (msgspec.json.encode(list(spaces)).decode(), value),
            )
        return {number for (number,) in found}

    def derive(self, parents: Iterable[str], child: int) -> None:
        """Note what a record was made of."""
        self._connection.execute("DELETE FROM memory_derived WHERE child = ?", (child,))
        keys = [(self._store_key(parent, b"id"), child) for parent in parents]
        self._connection.executemany("INSERT OR IGNORE INTO memory_derived VALUES (?, ?)", keys)

    def derived(self, parent: str) -> list[int]:
        """Return the records that were made of this one."""
        key = self._store_key(parent, b"id")
        found = self._connection.execute("SELECT child FROM memory_derived WHERE parent = ? ORDER BY child", (key,))
        return [number for (number,) in found]


def _within(spaces: Collection[int], conversations: Collection[int]) -> tuple[str, tuple[object, ...]]:
    """Return the condition of lying in these spaces, or in these conversations, with its values."""
    name, wanted = ("conversation", conversations) if conversations else ("space", spaces)
    more = " AND conversation > 0" if conversations else ""
    if len(wanted) == 1:
        return f"{name} = ?{more}", tuple(wanted)
    return f"{name} IN (SELECT value FROM json_each(?)){more}", (msgspec.json.encode(list(wanted)).decode(),)


def _space(number: int, secret: bytes, raw: bytes) -> SpaceRow:
    try:
        user, agent, namespace = msgspec.json.decode(sealed(raw, secret), type=_Scope)
    except (ValueError, TypeError) as error:
        raise StoreError(f"a space of the file cannot be read: {error}. Take the file from a backup") from error
    return SpaceRow(number, user, agent, namespace)


_Scope: TypeAlias = tuple[str | None, str | None, tuple[str, ...]]


def _name(scope: MemoryScope) -> str:
    return msgspec.json.encode((scope.user, scope.agent, scope.namespace)).decode()

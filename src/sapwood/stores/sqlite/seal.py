"""How the words of memories lie in a file, so that what is forgotten is gone from it.

SQLite overwrites what is deleted (`secure_delete`), but when it moves rows from one page to another, copies of them
stay in the unused middle of pages, and nothing can be said about when those are overwritten. So no word is written as
it is: each record is combined with a stream that a secret of its own gives, and a term, an id or a name is kept as a
keyed hash. Forgetting a record overwrites its secret.

Laws: a secret is never moved and never deleted, only overwritten where it stands: its table grows at the end and loses
no row, so that no page of it is ever split or merged. What is sealed anew gets a new secret. This is no encryption: as
long as a record is there, so is its secret, in the same file.
"""

import hashlib
import os
import sqlite3

SECRET_BYTES = 16
KEY_BYTES = 12


def sealed(plain: bytes, secret: bytes) -> bytes:
    """Return bytes combined with the stream of a secret; doing it again gives them back.

    >>> sealed(sealed(b"likes tea", b"s" * 16), b"s" * 16)
    b'likes tea'
    """
    size = len(plain)
    stream = int.from_bytes(hashlib.shake_256(secret).digest(size), "little")
    return (int.from_bytes(plain, "little") ^ stream).to_bytes(size, "little")


def hashed(text: str | bytes, secret: bytes, of: bytes) -> bytes:
    """Return what stands for a text in an index. of: what it is, so that a name and a term are not compared.

    >>> hashed("tea", b"s" * 16, b"term") == hashed("tea", b"s" * 16, b"id")
    False
    """
    raw = text.encode() if isinstance(text, str) else text
    return hashlib.blake2b(raw, key=secret, digest_size=KEY_BYTES, person=of).digest()


class Secrets:
    """The secrets of a file, over one connection."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def new(self) -> tuple[int, bytes]:
        """Return the number of a new secret, and the secret."""
        secret = os.urandom(SECRET_BYTES)
        added = self._connection.execute("INSERT INTO memory_secret (secret) VALUES (?)", (secret,))
        return added.lastrowid or 0, secret

    def forget(self, number: int) -> None:
        """Overwrite a secret."""
        self._connection.execute("UPDATE memory_secret SET secret = zeroblob(16) WHERE n = ?", (number,))

    def forget_those(self, query: str, *values: int) -> None:
        """Overwrite the secrets whose numbers a query gives."""
        self._connection.execute(f"UPDATE memory_secret SET secret = zeroblob(16) WHERE n IN ({query})", values)

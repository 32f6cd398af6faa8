"""Other processes for the tests of memories: `python memory_children.py WHAT ARGUMENTS...`, a line for each step."""

import contextlib
import os
import sys
import time
from typing import Any

from sapwood.memory import text
from sapwood.stores.memory_index import RULES_SETTING
from sapwood.stores.sqlite import SqliteStore
from sapwood.testing.faults import crash_at


class Letters:
    """Vectors that count letters."""

    def __init__(self, name: str = "letters/4") -> None:
        self.name = name

    def embed(self, texts: Any) -> Any:
        return [[1 + item.count(letter) for letter in "aeio"] for item in texts]


def say(*words: Any) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def add(path: str, name: str) -> None:
    """Save, correct and derive without end, and say what was acknowledged."""
    memory = SqliteStore(path, embedder=Letters()).memory.scoped(user=name)
    number = 0
    while True:
        number += 1
        saved = memory.save(f"fact {number} of {name}", kind="fact")
        say("saved", saved.id)
        new = {"text": f"better fact {number} of {name}", "supersedes": saved.id}
        made = {"text": f"summary {number} of {name}", "derived_from": [saved.id]}
        better, summary = memory.save_many([new, made])
        say("both", better.id, summary.id)
        if number % 5 == 0:
            say("going", summary.id)
            memory.forget(summary.id)
            say("gone", summary.id)


def use(path: str, name: str, seconds: str) -> None:
    """Save and search for a while, in a scope of its own and in one that all share; say what was acknowledged."""
    until = time.monotonic() + float(seconds)
    with SqliteStore(path, busy_seconds=60) as store:
        own, shared = store.memory.scoped(user=name), store.memory.scoped(user="all")
        number = 0
        while number < 3 or time.monotonic() < until:
            number += 1
            own.save(f"fact {number} of {name}", key=f"{number}")
            same = shared.save(f"shared fact {number}", kind="fact")
            assert own.search(f"fact {number}", k=3)[0].scope.user == name
            assert any(hit.id == same.id for hit in shared.search(f"shared fact {number}", k=10))
            say(number)


def crash(path: str, point: str, visit: str) -> None:
    """Make the index and the vectors anew, and be killed on the way."""
    with crash_at(point, visit=int(visit), how="kill"):
        store = SqliteStore(path, embedder=Letters("other/4"))
        say("open")
        store.memory.search("fact")
        store.memory.reindex()
        store.memory.reembed()
    say("not crashed")


def crash_saving(path: str, point: str) -> None:
    """Save, and be killed at a visit of a point."""
    store = SqliteStore(path)
    with crash_at(point, visit=3, how="kill"):
        for number in range(10):
            saved = store.memory.save(f"likes tea {number}")
            say(saved.id)
    say("not crashed")


def fork(path: str) -> None:
    """Fork while memories are in use; both sides go on."""
    store = SqliteStore(path, embedder=Letters())
    store.memory.save("the parent likes tea")
    store.memory.search("tea")
    children = []
    for number in range(3):
        child = os.fork()
        if not child:
            with contextlib.suppress(BaseException):
                store.memory.save(f"child {number} likes tea")
                found = store.memory.search("who likes tea?", k=9)
                store.close()
                os._exit(0 if len(found) >= 2 else 3)
            os._exit(4)
        children.append(child)
        store.memory.save(f"the parent likes rain {number}")
    say([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children])
    say(len(store.memory.all()), store.memory.check())
    store.close()


def older_rules(path: str) -> None:
    """Note that the index was made by rules that there never were."""
    with SqliteStore(path) as store:
        store.write_memory(lambda rows: rows.put_setting(RULES_SETTING, f"0/{text.rules()}"))


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])

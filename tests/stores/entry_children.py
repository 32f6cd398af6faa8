"""Children of the tests of a JSON file: `python entry_children.py NAME PATH`."""

import json
import resource
import sys

from sapwood import JsonFileMemoryStore, StoreError


def say(*what: object) -> None:
    print(*what, flush=True)


def work(path: str) -> None:
    """Save fact after fact, and say so after each."""
    store = JsonFileMemoryStore(path)
    number = 0
    while True:
        store.save(f"fact number{number}")
        say(number)
        number += 1


def file_limit(path: str) -> None:
    """Save until a limit on the size of files is met; then without the limit."""
    store = JsonFileMemoryStore(path)
    for number in range(20):
        store.save(f"fact number{number}")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, hard))
    problem = ""
    try:
        store.save("one too many " * 100)
    except StoreError as error:
        problem = str(error)
    say(json.dumps(["StoreError", "intact" in problem, len(store.all())]))
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    store.save("it goes on")
    say("done")


if __name__ == "__main__":
    {"work": work, "file_limit": file_limit}[sys.argv[1]](*sys.argv[2:])

"""Every example in a docstring of the library runs."""

import doctest
import importlib
import pkgutil
from collections.abc import Iterator

import pytest

import sapwood

AT_LEAST = 100


def modules() -> Iterator[str]:
    yield "sapwood"
    for found in pkgutil.walk_packages(sapwood.__path__, "sapwood."):
        if not found.name.endswith("__main__"):
            yield found.name


def examples_of(name: str) -> list[doctest.DocTest]:
    """Return the examples of a module, none where an extra that it needs is not installed."""
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and not error.name.startswith("sapwood"):
            return []
        raise
    return [test for test in doctest.DocTestFinder().find(module, name) if test.examples]


@pytest.mark.parametrize("name", list(modules()))
def test_the_examples_of_a_module(name: str) -> None:
    told: list[str] = []
    runner = doctest.DocTestRunner(verbose=False)
    for test in examples_of(name):
        runner.run(test, out=told.append)
    assert runner.failures == 0, "".join(told)


def test_there_are_examples() -> None:
    assert sum(len(test.examples) for name in modules() for test in examples_of(name)) > AT_LEAST

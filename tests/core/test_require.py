"""What people give is looked at where they give it."""

import pytest

from sapwood.core.errors import ConfigError
from sapwood.core.require import require_mapping, require_number, require_series, shown


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), 61, "3", True, None, 10**400])
def test_a_number_is_above_0_and_not_above_the_most(value: object) -> None:
    with pytest.raises(ConfigError, match="timeout is seconds, a number above 0 and at most 60; not "):
        require_number("timeout", value, most=60, rule="is seconds")


@pytest.mark.parametrize(("value", "said"), [("ab", "not 'ab'"), (5, "not 5"), ({}, "not {}"), (None, "not None")])
def test_a_list_is_wanted_where_several_may_stand(value: object, said: str) -> None:
    with pytest.raises(ConfigError, match=f"tools takes a list of functions, {said}"):
        require_series("tools", value, "functions")


def test_a_dictionary_has_texts_for_keys() -> None:
    with pytest.raises(ConfigError, match="extend is a dict: by kind; None is no text"):
        require_mapping("extend", {None: 1}, "by kind")


def test_a_value_in_a_message_is_short_and_plain() -> None:
    assert shown("\ud800") == "'\\ud800'"
    assert shown(10**5000) == "a huge int"
    assert len(shown(list(range(1000)))) == 80

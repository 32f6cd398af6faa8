"""The table of servers in docs/models.md says what the packaged table says."""

import re
from pathlib import Path

from sapwood.llm.servers import servers

PAGE = Path(__file__).parent.parent.parent / "docs" / "models.md"


def test_every_server_is_in_the_table_with_its_key_and_address() -> None:
    rows = [line.split(" | ") for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| `")]
    told = {name: row for row in rows if len(row) == 4 for name in re.findall(r"`([\w.]+)/`", row[0])}
    assert set(told) == set(servers())
    for name, server in servers().items():
        _, _, keys, place = told[name]
        assert re.findall(r"`(\w+)`", keys) == list(server.keys), name
        assert ("if any" in keys) is not server.needs_key, name
        assert (server.base_url_variable in place, server.base_url in place) == (True, True), name

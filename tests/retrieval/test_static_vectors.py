"""The bundled vectors, where they are installed, and the errors where not."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sapwood import ConfigError, Embedder, StaticVectors
from sapwood.core.errors import ProviderNotInstalledError
from sapwood.retrieval import static_vectors

needs_vectors = pytest.mark.skipif(
    static_vectors.installed_folder() is None, reason="the extra vectors is not installed"
)


@needs_vectors
def test_texts_of_one_meaning_are_closer_than_others() -> None:
    import numpy as np

    vectors = StaticVectors()
    assert isinstance(vectors, Embedder)
    rows = vectors.embed(["create an invoice", "bill a customer", "list the stars", ""])
    assert rows.shape == (4, 256)
    assert np.allclose(np.linalg.norm(rows, axis=1), [1, 1, 1, 0], atol=1e-5)
    assert rows[0] @ rows[1] > 0.15 > rows[0] @ rows[2]


@needs_vectors
def test_many_texts_have_the_vectors_that_each_has_alone() -> None:
    import numpy as np

    texts = [f"text number {n} about topic {n * 7}" for n in range(100)]
    vectors = StaticVectors()
    assert np.allclose(vectors.embed(texts), np.concatenate([vectors.embed([text]) for text in texts]), atol=1e-6)


@needs_vectors
def test_the_package_itself_is_not_imported_and_nothing_is_before_the_first_text() -> None:
    code = (
        "import sys; from sapwood import StaticVectors, lazy_toolset; made = lazy_toolset([{'name': 'a'}]);"
        "vectors = StaticVectors(); early = [n for n in ('numpy', 'tokenizers', 'wordllama') if n in sys.modules];"
        "vectors.embed(['x']); late = [n for n in ('torch', 'requests', 'wordllama') if n in sys.modules];"
        "import json; print(json.dumps([early, late]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [[], []]


def test_without_the_package_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numpy")
    monkeypatch.setattr(static_vectors, "_PACKAGE", "no_such_package_here")
    assert static_vectors.installed_folder() is None
    with pytest.raises(ProviderNotInstalledError, match="sapwood\\[vectors\\]"):
        StaticVectors().embed(["x"])


def test_a_table_of_another_kind_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("numpy")
    header = json.dumps(
        {"__metadata__": {}, "embedding": {"dtype": "F32", "shape": [1, 1], "data_offsets": [0, 4]}}
    ).encode()
    file = tmp_path / static_vectors._TABLE
    file.parent.mkdir(parents=True)
    file.write_bytes(len(header).to_bytes(8, "little") + header + b"\0" * 4)
    with pytest.raises(ConfigError, match="half-precision"):
        StaticVectors(tmp_path).embed(["x"])


def test_without_numpy_the_error_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['numpy'] = None\n"
        "from sapwood import lazy_toolset\n"
        "class Own:\n"
        "    name = 'own'\n"
        "    def embed(self, texts): return [[1.0] for _ in texts]\n"
        "print([t.name for t in lazy_toolset([{'name': 'notes.list'}]).search('list')])\n"
        "try: lazy_toolset([{'name': 'notes.list'}], vectors=Own()).search('list')\n"
        "except Exception as error: print(type(error).__name__, error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[0] == "['notes.list']"
    assert "ProviderNotInstalledError vectors need numpy: pip install 'sapwood[vectors]'" in done.stdout

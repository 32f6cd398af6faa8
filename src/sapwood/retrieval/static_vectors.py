"""StaticVectors: sentence vectors from a table of token vectors, without a model, a network or a download.

Laws: nothing is imported and no file is read before the first text is embedded; the package that brings the table
is never imported, only its files are read, as its own loader asks the network for them.
"""

import mmap
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from sapwood.core.errors import ConfigError, ProviderNotInstalledError
from sapwood.core.ports import Embedder
from sapwood.retrieval.terms import STOP_WORDS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_PACKAGE = "wordllama"
_TABLE = "weights/l2_supercat_256.safetensors"
_TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"
_WAY_OUT = "pip install 'sapwood[vectors]', or pass an embedder of your own"
_LONGEST = 8_000
_FEW = 32
_MARKS = ".,;:!?()[]\"'"


class StaticVectors:
    """Vectors of 256 numbers: the mean over a text's tokens without stop words, of length 1.

    folder: of the package wordllama; None finds the installed one. An Embedder.

    >>> StaticVectors().name
    'static/l2_supercat_256/1'
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        self._folder = folder
        self._read: tuple[Any, Any] | None = None

    @property
    def name(self) -> str:
        """Stands for the vectors in the key of an index cache."""
        return "static/l2_supercat_256/1"

    def embed(self, texts: Sequence[str]) -> "NDArray[np.float32]":
        """Return one row for each text; a text without a known token has a row of zeros.

        Raises ProviderNotInstalledError where the package is missing, with the way out.
        """
        import numpy as np

        table, tokenizer = self._opened()
        rows = np.zeros((len(texts), table.shape[1]), dtype=np.float32)
        cut = [_telling(text[:_LONGEST]) for text in texts]
        if len(cut) < _FEW:  # a batch wakes a pool of threads, which costs more than a question takes
            encoded = [tokenizer.encode(text, add_special_tokens=False) for text in cut]
        else:
            encoded = tokenizer.encode_batch_fast(cut, add_special_tokens=False)
        for row, text in zip(rows, encoded, strict=True):
            if text.ids:
                row[:] = table[text.ids].mean(axis=0, dtype=np.float32)
        sizes = np.linalg.norm(rows, axis=1, keepdims=True)
        rows /= np.where(sizes > 0, sizes, 1.0)
        return rows

    def _opened(self) -> tuple[Any, Any]:
        if self._read is None:
            folder = Path(self._folder) if self._folder else installed_folder()
            if folder is None:
                raise ProviderNotInstalledError(f"vectors need the extra `vectors`: {_WAY_OUT}")
            self._read = _table(folder / _TABLE), _tokenizer(folder / _TOKENIZER)
        return self._read


def installed_folder() -> Path | None:
    """Return the folder of the package that brings the table; None where it or what it needs is not installed."""
    if any(find_spec(name) is None for name in (_PACKAGE, "numpy", "tokenizers")):
        return None
    spec = find_spec(_PACKAGE)
    places = list(spec.submodule_search_locations or ()) if spec else []
    return next((Path(place) for place in places if (Path(place) / _TABLE).is_file()), None)


def embedder_for(vectors: object) -> Embedder | None:
    """Return what makes the vectors of a search, None for a search by words alone.

    Raises ProviderNotInstalledError for vectors that are asked for and not installed, ConfigError for what is no
    embedder.

    >>> embedder_for(False) is None
    True
    """
    if vectors is False:
        return None
    if vectors == "auto":
        return StaticVectors() if installed_folder() is not None else None
    if vectors is True:
        if installed_folder() is None:
            raise ProviderNotInstalledError(
                "vectors=True needs the extra `vectors`: pip install 'sapwood[vectors]'; "
                "vectors='auto' takes them only where they are installed"
            )
        return StaticVectors()
    if isinstance(vectors, Embedder):
        return vectors
    raise ConfigError(
        f"vectors must be 'auto', True, False or an embedder with a name and embed(texts), not {vectors!r}"
    )


def _telling(text: str) -> str:
    """Return a text without its stop words, which say nothing and would weigh most in a mean of a few words."""
    kept = (word for word in text.split() if word.strip(_MARKS).casefold() not in STOP_WORDS)
    return " ".join(kept) or text


def _tokenizer(path: Path) -> Any:
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(path))


def _table(path: Path) -> "NDArray[np.float16]":
    """Return the table of a safetensors file, mapped and not read: the size of a header, the header in JSON, data."""
    import numpy as np

    with path.open("rb") as file:
        whole = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    size = int.from_bytes(whole[:8], "little")
    header: dict[str, Any] = msgspec.json.decode(whole[8 : 8 + size])
    entry: Any = next((value for name, value in header.items() if name != "__metadata__"), None)
    if not entry or entry.get("dtype") != "F16" or len(entry["shape"]) != 2:
        raise ConfigError(f"{path} holds no table of half-precision vectors; {_WAY_OUT}")
    begin, end = entry["data_offsets"]
    numbers = np.frombuffer(whole, dtype="<f2", count=(end - begin) // 2, offset=8 + size + begin)
    return numbers.reshape(entry["shape"])

"""Whether an image or a file can be sent to anyone: what is wrong with it, in words.

Law: looked at once, where it comes in; nothing of its content is shown.
"""

import binascii
import re

from sapwood.core.messages import File, Image

_SCHEMES = ("https://", "http://", "gs://", "s3://")
_MEDIA_TYPE = re.compile(r"[\w.+*-]+/[\w.+*-]+(?: ?; ?[\w-]+=[\w.+-]+)*", re.ASCII)
_UNPRINTABLE = re.compile(r"[\x00-\x20\x7f]")


def media_problem(part: Image | File) -> str:
    """Return what keeps an image or a file from being sent and the way out, empty where nothing does.

    >>> media_problem(Image("aGk="))
    ''
    >>> media_problem(Image(url="file:///tmp/a.png"))
    "its url 'file:///tmp/a.png' is no address on the web; give the bytes as base64 in data="
    """
    if not _is_media_type(part.media_type):
        return f"its media_type is {part.media_type!r:.80}; give one such as 'image/png' or 'application/pdf'"
    if part.data is None:
        return _problem_of_url(part.url)
    return _problem_of_data(part.data)


def _is_media_type(kind: object) -> bool:
    return isinstance(kind, str) and _MEDIA_TYPE.fullmatch(kind) is not None


def _problem_of_url(url: object) -> str:
    if url is None:
        return "it has neither data nor url; give one of them"
    if not isinstance(url, str) or not url.lower().startswith(_SCHEMES) or _UNPRINTABLE.search(url):
        return f"its url {url!r:.80} is no address on the web; give the bytes as base64 in data="
    return ""


def _problem_of_data(data: object) -> str:
    if not isinstance(data, str):
        return f"its data is {type(data).__name__}; give base64.b64encode(...).decode()"
    if not data:
        return "its data is empty"
    if data.startswith("data:"):
        return "its data is a data: URL; give what follows ';base64,', and the type as media_type="
    try:
        is_base64 = bool(binascii.a2b_base64(data, strict_mode=True))
    except ValueError:  # binascii.Error is one
        is_base64 = False
    return "" if is_base64 else "its data is no base64 in one line; give base64.b64encode(...).decode()"

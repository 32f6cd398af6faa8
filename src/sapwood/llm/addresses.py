"""Addresses: a base URL made whole, the URL of an endpoint below it, and how an address shows in errors.

Laws: what stands after a `?` stays at the end; an address that names the endpoint already is not made longer; a name
and password, a query and a fragment may hold secrets, so none of them is shown.
"""


def endpoint_url(base_url: str, path: str, *, without: tuple[str, ...] = ()) -> str:
    """Return the URL of an endpoint below a base URL.

    path: may have a query of its own. without: endings that are taken off the base URL first, in this order.

    >>> endpoint_url("https://host/openai/v1/?api-version=preview", "/responses")
    'https://host/openai/v1/responses?api-version=preview'
    >>> endpoint_url("https://host/v1/messages", "/v1/messages", without=("/messages", "/v1"))
    'https://host/v1/messages'
    """
    root, query = _split(base_url)
    for ending in without:
        root = root.removesuffix(ending).rstrip("/")
    path, _, own = path.partition("?")
    both = "&".join(filter(None, (own, query)))
    return f"{root}{path}?{both}" if both else root + path


def root_of(base_url: str) -> str:
    """Return an address without its query and the slashes at its end.

    >>> root_of(" https://host/v1/?a=b ")
    'https://host/v1'
    """
    return _split(base_url)[0]


def whole_address(address: str, *, own: str = "", suffix: str = "", always: bool = False) -> str:
    """Return a server's address with what people leave out of it.

    own: the server's own address; its bare host means the same. suffix: the path that the server's addresses end
    in; it is added to a bare host, and completed where its beginning is there. always: also to any other path.

    >>> whole_address("https://API.openai.com/", own="https://api.openai.com/v1")
    'https://api.openai.com/v1'
    >>> whole_address("https://me.openai.azure.com/openai?api-version=preview", suffix="/openai/v1")
    'https://me.openai.azure.com/openai/v1?api-version=preview'
    """
    root, query = _split(address)
    if own and _is_same(root, own):
        root = own
    elif suffix and suffix not in root:
        root = _with_suffix(root, suffix, always=always)
    return f"{root}?{query}" if query else root


def _split(address: str) -> tuple[str, str]:
    root, _, query = address.strip().partition("#")[0].partition("?")
    return root.rstrip("/"), query


def _is_same(root: str, own: str) -> bool:
    """Tell whether this is the server's own address, or its host alone."""
    place, path = _place_and_path(root)
    known, known_path = _place_and_path(own)
    return place == known and path in ("", known_path)


def _place_and_path(root: str) -> tuple[str, str]:
    # By hand, for urlsplit raises for an address that is none; what sends to it says so better.
    scheme, _, rest = root.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host}".lower(), slash + path


def _with_suffix(root: str, suffix: str, *, always: bool) -> str:
    names = suffix.strip("/").split("/")
    for count in range(len(names) - 1, 0, -1):
        beginning = "/" + "/".join(names[:count])
        if root.endswith(beginning):
            return root.removesuffix(beginning) + suffix
    is_bare = root.count("/") == 2  # those of https://
    return root + suffix if always or is_bare else root


def shown_url(url: str) -> str:
    """Return an address without name and password, query and fragment.

    >>> shown_url("https://me:pass@host.example:8080/v1?key=secret")
    'https://host.example:8080/v1'
    """
    scheme, mark, rest = url.partition("://") if "://" in url else ("", "", url)
    host = rest.partition("/")[0].partition("?")[0].partition("#")[0]
    if "@" not in host and not _is_host(host):
        rest = rest.rpartition("@")[2]  # a password may hold the signs that end a host
        rest = rest if _is_host(rest.partition("/")[0].partition("?")[0]) else rest.partition(":")[0]
    rest = rest.partition("?")[0].partition("#")[0]
    host, slash, path = rest.partition("/")
    return f"{scheme}{mark}{host.rpartition('@')[2]}{slash}{path}"


def host_of(url: str) -> str:
    """Return the host and port of an address.

    >>> host_of("https://me:pass@host.example:8080/v1")
    'host.example:8080'
    """
    return shown_url(url).partition("://")[2].partition("/")[0] or "the provider"


def _is_host(text: str) -> bool:
    """Tell whether what follows the name is a port: where it is not, it may be a password."""
    port = text.rpartition("]")[2].partition(":")[2]
    return not port or port.isdigit()

"""How an address shows in errors and reprs: where it leads, never who asks.

Law: a name and password, a query and a fragment may hold secrets, so none of them is shown.
"""


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

"""The text of a PDF, page by page, by the kept library pypdf.

Laws: it is imported on first use; what is encrypted or broken is told and never half read; nothing in a file is run.
"""

import io
import logging

from sapwood.core.errors import ProviderNotInstalledError
from sapwood.retrieval.unreadable import UnreadableError

MOST_PAGES = 5_000


def pdf_pages(data: bytes) -> tuple[list[str], str]:
    """Return the text of each page, and the title that the file gives itself.

    Raises UnreadableError for a PDF that is encrypted, broken or without text, ProviderNotInstalledError without pypdf.
    """
    try:
        from pypdf import PdfReader
    except ImportError as error:
        raise ProviderNotInstalledError("PDFs need pypdf: pip install 'sapwood[documents]'") from error
    log = logging.getLogger("pypdf")
    level = log.level
    log.setLevel(logging.CRITICAL)  # of a broken file it tells much, and we tell it once
    try:
        reader = PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            raise UnreadableError("it is encrypted, and its password is not known")
        if len(reader.pages) > MOST_PAGES:
            raise UnreadableError(f"it has {len(reader.pages):,} pages; {MOST_PAGES:,} are read at most")
        pages = [page.extract_text() for page in reader.pages]
        title = (reader.metadata.title if reader.metadata is not None else None) or ""
    except UnreadableError:
        raise
    except Exception as error:  # whatever a broken file makes of a parser
        raise UnreadableError(f"it is no PDF that can be read ({type(error).__name__})") from error
    finally:
        log.setLevel(level)
    if not any(page.strip() for page in pages):
        raise UnreadableError("it has no text; it may be a scan, which needs to be read by OCR before")
    return pages, title

"""Reads media types, and data URLs in base64, as RFC 2045 and RFC 2397 have them: without their case and parameters. Pure."""

import re

# Names that programs write instead of the registered ones (www.iana.org/assignments/media-types).
_OTHER_NAMES = {
    "application/x-pdf": "application/pdf",
    "audio/vnd.wave": "audio/wav",
    "audio/wave": "audio/wav",
    "audio/x-wav": "audio/wav",
    "image/jpg": "image/jpeg",
    "image/pjpeg": "image/jpeg",
    "image/x-png": "image/png",
}
# Those that some provider reads.
IMAGE_TYPES = frozenset(
    f"image/{kind}" for kind in ("png", "jpeg", "gif", "webp", "avif", "bmp", "heic", "heif", "svg+xml", "tiff", "x-icon")
)
_TYPE = re.compile(r"[a-z0-9!#$&^_.+-]+/[a-z0-9!#$&^_.+-]+")
_HEAD_CHARACTERS_MAX = 1_000


def media_type(text: str) -> str:
    """Return a media type by its registered name, without its parameters."""
    name = text.partition(";")[0].strip().lower()
    return _OTHER_NAMES.get(name, name)


def read_data_url(url: str) -> tuple[str, str] | None:
    """Return the media type and the base64 of a data URL; None for anything else."""
    comma = url.find(",", 0, _HEAD_CHARACTERS_MAX)
    scheme, _, head = url[: max(comma, 0)].partition(":")
    kind, *parameters = head.split(";")
    is_base64 = "base64" in (parameter.strip().lower() for parameter in parameters)
    if scheme.strip().lower() != "data" or not is_base64 or not _TYPE.fullmatch(name := media_type(kind)):
        return None
    return name, url[comma + 1 :]


def plain(url: str) -> str:
    """Return a data URL in its plainest form, and anything else as it is."""
    found = read_data_url(url)
    return f"data:{found[0]};base64,{found[1]}" if found else url

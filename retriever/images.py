"""Image files: named by their path, known by their content."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from retriever.files import InputError

__all__ = ["ImageFile"]


@dataclass(frozen=True, slots=True)
class ImageFile:
    """An image on disk; `digest` is the SHA-256 of its bytes, in hexadecimal."""

    path: Path
    digest: str

    @classmethod
    def of(cls, path: Path | str, *, named_by: object = None) -> "ImageFile":
        """Read what identifies the image. Raises InputError where there is none.

        `named_by` is the file that names the image, for the message.
        """
        place = Path(path)
        try:
            with place.open("rb") as stream:
                return cls(place, hashlib.file_digest(stream, "sha256").hexdigest())
        except (OSError, ValueError) as error:  # ValueError: a NUL in the path
            reason = getattr(error, "strerror", None) or error
            raise InputError(
                f"the image {str(path)!r} cannot be read: {reason}",
                path=named_by,
                fix="name an image file by its path from the folder of the corpus or gold set",
            ) from error

"""Bad input to a report: one line that names the place and the remedy."""

__all__ = ["InputError"]


class InputError(ValueError):
    """A run directory or a file given to a report is not what it should be.

    Printed as one line, `path:line: message (fix)`, and never with a traceback.
    """

    def __init__(
        self, message: str, *, path: object = None, line: int | None = None, fix: str = ""
    ) -> None:
        self.path, self.line, self.fix = path, line, fix
        place = "" if path is None else f"{path}: " if line is None else f"{path}:{line}: "
        super().__init__(f"{place}{message}" + (f" ({fix})" if fix else ""))

"""Standard output and error that never fail: training goes on when nobody reads what it prints."""

import os
import sys
from typing import IO, Any, TextIO, cast


class Output:
    """A text stream whose errors are noted instead of raised: a closed pipe, a full disk, a closed file.

    Characters that the stream cannot encode are written as \\uXXXX. Everything else is left to the stream.
    """

    def __init__(self, stream: IO[str]) -> None:
        self._stream: IO[str] = stream._stream if isinstance(stream, Output) else stream
        self.error: Exception | None = None  # the first one

    def write(self, text: str) -> int:
        """Write a text if the stream takes it."""
        try:
            return self._stream.write(text)
        except UnicodeEncodeError:
            encoding = getattr(self._stream, "encoding", None) or "ascii"
            return self.write(text.encode(encoding, "backslashreplace").decode(encoding))
        except (OSError, ValueError) as error:
            self.error = self.error or error
            return len(text)

    def flush(self) -> None:
        """Flush the stream if it can be flushed."""
        try:
            self._stream.flush()
        except (OSError, ValueError) as error:
            self.error = self.error or error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def unfailing(stream: IO[str]) -> TextIO:
    """Return a stream as one that never fails."""
    return cast(TextIO, Output(stream))


def guard_streams() -> None:
    """Let this process go on whatever happens to its standard streams, also if they are closed (`smrl list >&-`)."""
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            _reserve(descriptor)
            setattr(sys, name, open(descriptor, "w" if descriptor else "r", closefd=False))  # noqa: SIM115
    sys.stdout, sys.stderr = unfailing(sys.stdout), unfailing(sys.stderr)


def _reserve(descriptor: int) -> None:
    """Open a descriptor if it is closed, or the next file would get its number and with it what libraries print."""
    try:
        os.fstat(descriptor)
    except OSError:
        nothing = os.open(os.devnull, os.O_RDWR)
        if nothing != descriptor:
            os.dup2(nothing, descriptor)
            os.close(nothing)

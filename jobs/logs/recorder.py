"""What a feed does with the logs it follows: keeps them all, and passes one replica's on."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from jobs.logs.containers import Container
from jobs.logs.lines import Cursor, Line
from jobs.logs.recording import Recording


@dataclass
class Recorder:
    """Takes the lines of a run's containers.

    Args:
        recording: Where they are kept; None to keep none.
        speak: Takes the text of each line of the replica that speaks for the run.
        speaker: That replica.
    """

    recording: Recording | None
    speak: Callable[[str], None]
    speaker: int = 0

    def begin(self, container: Container, known: Cursor | None) -> Cursor:
        """Go on where an earlier process stopped; what it has kept is passed on once, too."""
        if self.recording is None:
            return Cursor() if known is None else known
        kept = self.recording.open(container)
        if known is not None:
            return known
        if container.replica == self.speaker and kept.stamp is not None:
            for line in self.recording.kept(container):
                self.speak(line.text)
        return kept

    def take(self, container: Container, lines: Sequence[Line]) -> None:
        """Keep lines, and pass them on."""
        if self.recording is not None:
            self.recording.write(container, lines)
        if container.replica == self.speaker:
            for line in lines:
                self.speak(line.text)

    def end(self, container: Container) -> None:
        """Leave the container's log for now."""
        if self.recording is not None:
            self.recording.close(container)

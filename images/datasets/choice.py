"""A data set that one of several contents can stand for: whichever can be had."""

from collections.abc import Sequence
from dataclasses import dataclass

from images.datasets.dataset import Dataset, NotAvailable
from images.steps import Reporter


@dataclass(frozen=True)
class Choice:
    """Data sets that are read the same way.

    Args:
        name: What a program asks for.
        alternatives: The best one first.
        advice: How a person gets the best one where it can't be fetched.
    """

    name: str
    alternatives: Sequence[Dataset]
    advice: str

    @property
    def fingerprint(self) -> str:
        """Stands for all that it may be."""
        return ";".join(each.fingerprint for each in self.alternatives)

    def taken(self) -> Dataset | None:
        """The best one that is at hand; None when nothing has been fetched yet."""
        return next((each for each in self.alternatives if each.is_at_hand()), None)

    def ensure(self, reporter: Reporter) -> Dataset:
        """Return the one that is at hand, else the best that can be fetched, after saying which.

        One that is at hand but damaged, and can't be fetched again, is an error: another content
        must not take its place unasked.

        Raises:
            NotAvailable: none could be fetched; with what was the matter with each.
            core.lock.Cancelled: the person asked to stop.
            TimeoutError: another process has been fetching for too long.
        """
        problems: list[str] = []
        taken = self.taken()
        if taken is not None:
            taken.ensure(reporter)
        else:
            taken = self._fetch_best(reporter, problems)
        if taken is not self.alternatives[0]:
            why = "".join(f"\n{problem}" for problem in problems)
            reporter.info(f"data set {self.name}: {taken.name} stands in. {self.advice}{why}")
        return taken

    def _fetch_best(self, reporter: Reporter, problems: list[str]) -> Dataset:
        """Return the first alternative that can be fetched; `problems` takes why others can't."""
        for each in self.alternatives:
            try:
                return each.ensure(reporter)
            except NotAvailable as error:
                problems.append(str(error))
        raise NotAvailable("\n".join([*problems, self.advice]))

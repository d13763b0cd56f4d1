"""Who is told of each round while Python trains: the user's own function, and a bar."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tqdm.auto import tqdm

from gradveil.runs.progress import Event, Progress, RoundDone, Training
from gradveil.runs.run_records import RoundLine, quality


@contextmanager
def round_events(rounds: int, on_round: Callable[[RoundLine], None] | None, bar: bool) -> Iterator[Progress]:
    """Yield a function of progress events that calls `on_round` with every line, and moves a bar if there is to be one.

    The bar is tqdm's: on standard error in a terminal, a widget in a notebook.
    """
    with tqdm(total=rounds, unit="round", disable=not bar) as progress_bar:

        def tell(event: Event) -> None:
            if isinstance(event, Training):
                progress_bar.update(event.done)
            if isinstance(event, RoundDone):
                progress_bar.set_postfix_str(quality(event.line))
                progress_bar.update()
                if on_round is not None:
                    on_round(event.line)

        yield tell

"""start_run: the Run and the history from which a turn begins."""

from collections.abc import Iterable

from sapwood.core.messages import Message
from sapwood.core.run import Run
from sapwood.core.transcript import Transcript


def start_run(
    run_id: str, prompt: Message | None, history: Iterable[Message] = ()
) -> tuple[Run, Message | None, Transcript]:
    """Return a new run, its prompt and a valid history.

    Messages of unknown origin are repaired here and nowhere else; a Transcript is known to be valid.
    """
    past = history if isinstance(history, Transcript) else Transcript.of(tuple(history))
    return Run(run_id), prompt, past


def finished_transcript(history: Transcript, run: Run) -> Transcript:
    """Return the history with the messages of a run at its end, valid whatever became of the run."""
    if run.past is not None:
        history = Transcript.of(run.past)
    elif run.dropped:
        history = Transcript.of(history[run.dropped :])
    if run.phase == "ended":
        return history.extend(run.messages)
    return history.extend(Transcript.of(run.messages)[:])

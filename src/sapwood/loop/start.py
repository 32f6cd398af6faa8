"""Where a turn begins and what it leaves: a new Run, and the history once it is over."""

from sapwood.core.run import Run
from sapwood.core.transcript import Transcript


def start_run(run_id: str) -> Run:
    """Return a run in which nothing has happened yet."""
    return Run(run_id)


def finished_transcript(history: Transcript, run: Run) -> Transcript:
    """Return the history with the messages of a run at its end, valid whatever became of the run."""
    if run.past is not None:
        history = Transcript.of(run.past)
    elif run.dropped:
        history = Transcript.of(history[run.dropped :])
    if run.phase == "ended":
        return history.extend(run.messages)
    return history.extend(Transcript.of(run.messages)[:])

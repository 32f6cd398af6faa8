"""Where a turn begins and what it leaves: a new Run, its past, and the history once it is over."""

from sapwood.core.run import Run
from sapwood.core.transcript import Transcript


def start_run(run_id: str) -> Run:
    """Return a run in which nothing has happened yet."""
    return Run(run_id)


def past_of(history: Transcript, run: Run) -> Transcript:
    """Return the past messages that are left to a run: what took their place, or those not left out."""
    if run.past is not None:
        return Transcript.of(run.past)
    return Transcript.of(history[run.dropped :]) if run.dropped else history


def finished_transcript(history: Transcript, run: Run) -> Transcript:
    """Return the history with the messages of a run at its end, valid whatever became of the run."""
    past = past_of(history, run)
    return past.extend(run.messages if run.phase == "ended" else Transcript.of(run.messages)[:])
